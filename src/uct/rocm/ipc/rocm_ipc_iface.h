/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_IFACE_H_
#define UCT_ROCM_IPC_IFACE_H_

#include "rocm_ipc_md.h"
#include "rocm_ipc_rkey.h"

#include <uct/base/uct_iface.h>
#include <ucs/datastruct/list.h>
#include <ucs/datastruct/mpool.h>
#include <ucs/datastruct/queue.h>

#include <hsa.h>


#define UCT_ROCM_IPC_TL_NAME "rocm_ipc"


/** What the user sets */
typedef struct uct_rocm_ipc_iface_config_params {
    size_t   min_zcopy;         /**< Length of the shortest copy */
    double   latency;           /**< In seconds */
    int      cache_ipc_handles; /**< Keep mappings for later copies */
    unsigned sigpool_max_elems; /**< Most copies in flight */
} uct_rocm_ipc_iface_config_params_t;


/** Interface configuration */
typedef struct uct_rocm_ipc_iface_config {
    uct_iface_config_t                 super;
    uct_rocm_ipc_iface_config_params_t params;
} uct_rocm_ipc_iface_config_t;


/** What a flush waits for: the copies which were issued earlier on the same
 *  endpoint or interface. Copies may finish in any order. */
typedef struct uct_rocm_ipc_flush_scope {
    ucs_list_link_t  copies;  /**< Copies in flight, in order of issue */
    ucs_queue_head_t flushes; /**< Flushes outstanding */
} uct_rocm_ipc_flush_scope_t;


/** A copy in flight as an element of one scope */
typedef struct uct_rocm_ipc_scope_elem {
    ucs_list_link_t list;
    uint64_t        sn;   /**< Its place in the order of issue */
} uct_rocm_ipc_scope_elem_t;


/** Interface. Like every UCT interface it is used by one thread at a time. */
typedef struct uct_rocm_ipc_iface {
    uct_base_iface_t                   super;
    uct_rocm_ipc_flush_scope_t         scope;
    uint64_t                           sn;            /**< Number of copies
                                                           issued */
    ucs_mpool_t                        op_pool;
    ucs_mpool_t                        flush_pool;
    struct uct_rocm_ipc_ep             *active_ep;    /**< Whose completions are
                                                           called now; NULL if
                                                           it is destroyed
                                                           meanwhile */
    int                                signal_import; /**< Watch lifetime
                                                           signals */
    uct_rocm_ipc_iface_config_params_t config;
} uct_rocm_ipc_iface_t;


/** A copy in flight */
typedef struct uct_rocm_ipc_op {
    hsa_signal_t              signal;     /**< Completion signal, 0 if it was
                                               not created yet */
    uct_rocm_ipc_region_t     *region;    /**< Pinned region */
    uct_completion_t          *comp;      /**< User completion or NULL */
    struct uct_rocm_ipc_ep    *ep;        /**< Endpoint, NULL if destroyed */
    uct_rocm_ipc_scope_elem_t iface_elem; /**< In the scope of the interface */
    uct_rocm_ipc_scope_elem_t ep_elem;    /**< In the scope of the endpoint */
} uct_rocm_ipc_op_t;


/** An outstanding flush */
typedef struct uct_rocm_ipc_flush {
    uint64_t         sn;     /**< Last copy that it waits for */
    ucs_status_t     status; /**< First error among the copies before it */
    uct_completion_t *comp;
    ucs_queue_elem_t queue;
} uct_rocm_ipc_flush_t;


/** Initialize a scope with nothing in flight. */
static UCS_F_ALWAYS_INLINE void
uct_rocm_ipc_flush_scope_init(uct_rocm_ipc_flush_scope_t *scope)
{
    ucs_list_head_init(&scope->copies);
    ucs_queue_head_init(&scope->flushes);
}


/** Add a copy which was issued just now to a scope. */
static UCS_F_ALWAYS_INLINE void
uct_rocm_ipc_flush_scope_add(uct_rocm_ipc_flush_scope_t *scope,
                             uct_rocm_ipc_scope_elem_t *elem, uint64_t sn)
{
    elem->sn = sn;
    ucs_list_add_tail(&scope->copies, &elem->list);
}


/**
 * Flush a scope.
 *
 * @param [in] iface  Interface of the scope.
 * @param [in] scope  What to flush.
 * @param [in] comp   User completion, or NULL.
 *
 * @return UCS_OK if no copy is in flight, UCS_INPROGRESS, in which case a
 *         completion is called when the copies are done, UCS_ERR_NO_MEMORY.
 */
ucs_status_t uct_rocm_ipc_flush(uct_rocm_ipc_iface_t *iface,
                                uct_rocm_ipc_flush_scope_t *scope,
                                uct_completion_t *comp);


/** Take a descriptor with a completion signal. Returns NULL and logs if there
 *  is none. */
uct_rocm_ipc_op_t *uct_rocm_ipc_iface_op_get(uct_rocm_ipc_iface_t *iface);

#endif
