/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_IPC_MD_H_
#define UCT_ROCM_IPC_MD_H_

#include <uct/base/uct_md.h>
#include <ucs/type/init_once.h>

#include <hsa.h>
#include <hsa_ext_amd.h>


extern uct_component_t uct_rocm_ipc_component;


/** What the field dev_num of a key holds beside the device number. Importers
 *  which do not know the flags use the field only to tell keys apart. */
enum {
    UCT_ROCM_IPC_KEY_DEV_MASK    = UCS_MASK(16), /**< Device number */
    UCT_ROCM_IPC_KEY_FLAG_PID    = UCS_BIT(29),  /**< pid, pid_ns are valid */
    UCT_ROCM_IPC_KEY_FLAG_SIGNAL = UCS_BIT(30),  /**< A lifetime signal
                                                      follows */
    UCT_ROCM_IPC_KEY_FLAGS       = UCT_ROCM_IPC_KEY_FLAG_PID |
                                   UCT_ROCM_IPC_KEY_FLAG_SIGNAL
};


/**
 * Key on the wire, between processes of one node. Up to dev_num it has been the
 * same since the first version of this transport, and pid and pid_ns are where
 * later versions have them, so old and new peers understand each other.
 * A key may come from an older peer and end after dev_num, hence every further
 * field is read only if a flag says that it is there.
 */
typedef struct uct_rocm_ipc_key {
    hsa_amd_ipc_memory_t ipc;     /**< IPC memory handle */
    uint64_t             address; /**< First address of the allocation */
    uint64_t             length;  /**< Length of the allocation */
    uint32_t             dev_num; /**< Device number and flags */
    uint32_t             pid;     /**< Owner's pid ... */
    uint64_t             pid_ns;  /**< ... and its PID namespace */
    hsa_amd_ipc_signal_t signal;  /**< Lifetime signal */
} uct_rocm_ipc_key_t;


/** Memory domain configuration */
typedef struct uct_rocm_ipc_md_config {
    uct_md_config_t super;
    int             signal_invalidate; /**< Give and watch lifetime signals */
    unsigned long   cache_max_regions; /**< Most mappings that are kept */
    size_t          cache_max_size;    /**< Most bytes that they map */
} uct_rocm_ipc_md_config_t;


/** Memory domain */
typedef struct uct_rocm_ipc_md {
    uct_md_t super;
    int      signal_import; /**< Watch the lifetime signals of peers */
    int      signal_export; /**< Give peers a lifetime signal */
    uint64_t pid_ns;        /**< PID namespace of this process */
} uct_rocm_ipc_md_t;


/** Registration. It holds nothing of the runtime until a key is packed. */
typedef struct uct_rocm_ipc_memh {
    uintptr_t            base;    /**< First address of the allocation */
    size_t               length;  /**< Length of the allocation */
    uint32_t             dev_num; /**< Device number */
    ucs_init_once_t      once;    /**< Protects handle */
    ucs_status_t         status;  /**< Result of creating the handle */
    hsa_amd_ipc_memory_t handle;  /**< Without signal_export: IPC memory handle
                                       of this registration */
} uct_rocm_ipc_memh_t;


/**
 * Query a pointer that may belong to the runtime.
 *
 * @param [in]  address  Any address.
 * @param [out] info     Filled by the runtime.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_ADDR if the runtime does not know the
 *         address; the caller logs it.
 */
ucs_status_t
uct_rocm_ipc_pointer_info(const void *address, hsa_amd_pointer_info_t *info);

#endif
