/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef UCT_ROCM_COMPAT_H_
#define UCT_ROCM_COMPAT_H_

#include <uct/api/v2/uct_v2.h>
#include <uct/base/ipc/ipc_compat.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <ucs/datastruct/mpool.h>
#if UCX_HAS_ROCM_DEVICE_EP
#include <uct/rocm/ipc/rocm_ipc_device.h>
#endif

#include <limits.h>
#include <string.h>


/**
 * @file rocm_compat.h
 * @brief All that differs between the versions of UCX. The code around it is
 *        written for the newest one; what makes another one look like that is
 *        here, and so are the tables of operations, as each version has others.
 *
 * A macro with the argument _prefix takes the operations by their names, such
 * as _prefix_mem_reg(), with the signatures of the newest version.
 */


#if !UCX_HAS_MD_QUERY_V2
/** Attributes of a memory domain, as far as it sets them. */
typedef struct {
    uint64_t          flags;
    uint64_t          reg_mem_types;
    uint64_t          cache_mem_types;
    uint64_t          access_mem_types;
    ucs_linear_func_t reg_cost;
    size_t            rkey_packed_size;
} uct_md_attr_v2_t;


/** Parameters of a registration. */
typedef struct {
    uint64_t flags;
} uct_md_mem_reg_params_t;


#define UCT_MD_MEM_REG_FIELD_VALUE(_params, _name, _flag, _default) \
    ((_params)->_name)


static inline void uct_md_base_md_query(uct_md_attr_v2_t *md_attr)
{
    memset(md_attr, 0, sizeof(*md_attr));
}


static inline void uct_rocm_compat_md_attr(uct_md_attr_t *md_attr,
                                           const uct_md_attr_v2_t *md_attr_v2)
{
    md_attr->cap.max_alloc        = 0;
    md_attr->cap.max_reg          = ULONG_MAX;
    md_attr->cap.flags            = md_attr_v2->flags;
    md_attr->cap.reg_mem_types    = md_attr_v2->reg_mem_types;
    md_attr->cap.detect_mem_types = 0;
    md_attr->cap.alloc_mem_types  = 0;
    md_attr->cap.access_mem_types = md_attr_v2->access_mem_types;
    md_attr->reg_cost             = md_attr_v2->reg_cost;
    md_attr->rkey_packed_size     = md_attr_v2->rkey_packed_size;
    memset(&md_attr->local_cpus, 0xff, sizeof(md_attr->local_cpus));
}
#elif !UCX_HAS_MD_BASE_QUERY
static inline void uct_md_base_md_query(uct_md_attr_v2_t *md_attr)
{
    md_attr->max_alloc                 = 0;
    md_attr->max_reg                   = ULONG_MAX;
    md_attr->flags                     = 0;
    md_attr->reg_mem_types             = 0;
    md_attr->reg_nonblock_mem_types    = 0;
    md_attr->cache_mem_types           = 0;
    md_attr->detect_mem_types          = 0;
    md_attr->alloc_mem_types           = 0;
    md_attr->access_mem_types          = 0;
    md_attr->dmabuf_mem_types          = 0;
    md_attr->reg_cost                  = UCS_LINEAR_FUNC_ZERO;
    md_attr->rkey_packed_size          = 0;
    md_attr->exported_mkey_packed_size = 0;
    memset(&md_attr->local_cpus, 0xff, sizeof(md_attr->local_cpus));
}
#endif


#if !UCX_HAS_RKEY_UNPACK_PARAMS
/** Parameters of unpacking a key, which nobody passes. */
typedef struct uct_rocm_compat_no_params uct_rkey_unpack_params_t;
#endif


/* The members of a table for memory as device code addresses it */
#if UCX_HAS_ROCM_DEVICE_EP
#define UCT_ROCM_MEM_ELEM_OPS(_prefix) \
        .mem_elem_pack      = _prefix##_mem_elem_pack, \
        .mem_elem_release   = _prefix##_mem_elem_release,
#elif UCX_HAS_MEM_ELEM_RELEASE
#define UCT_ROCM_MEM_ELEM_OPS(_prefix) \
        .mem_elem_pack      = (uct_md_mem_elem_pack_func_t) \
                ucs_empty_function_return_unsupported, \
        .mem_elem_release   = (uct_md_mem_elem_release_func_t) \
                ucs_empty_function,
#elif UCX_HAS_MEM_ELEM_PACK
#define UCT_ROCM_MEM_ELEM_OPS(_prefix) \
        .mem_elem_pack      = (uct_md_mem_elem_pack_func_t) \
                ucs_empty_function_return_unsupported,
#else
#define UCT_ROCM_MEM_ELEM_OPS(_prefix)
#endif


/**
 * Define the table of operations of a memory domain, _prefix_md_ops, and what
 * the table of its component needs, see @ref UCT_ROCM_RKEY_OPS.
 */
#if UCX_HAS_MD_QUERY_V2
#define UCT_ROCM_MD_OPS_DEFINE(_prefix) \
    UCT_ROCM_RKEY_OPS_DEFINE(_prefix) \
    \
    static uct_md_ops_t _prefix##_md_ops = { \
        .close              = _prefix##_md_close, \
        .query              = _prefix##_md_query, \
        .mem_alloc          = (uct_md_mem_alloc_func_t) \
                ucs_empty_function_return_unsupported, \
        .mem_free           = (uct_md_mem_free_func_t) \
                ucs_empty_function_return_unsupported, \
        .mem_advise         = (uct_md_mem_advise_func_t) \
                ucs_empty_function_return_unsupported, \
        .mem_reg            = _prefix##_mem_reg, \
        .mem_dereg          = _prefix##_mem_dereg, \
        .mem_query          = (uct_md_mem_query_func_t) \
                ucs_empty_function_return_unsupported, \
        .mkey_pack          = _prefix##_mkey_pack, \
        .mem_attach         = (uct_md_mem_attach_func_t) \
                ucs_empty_function_return_unsupported, \
        UCT_ROCM_MEM_ELEM_OPS(_prefix) \
        .detect_memory_type = (uct_md_detect_memory_type_func_t) \
                ucs_empty_function_return_unsupported \
    }
#else
#define UCT_ROCM_MD_OPS_DEFINE(_prefix) \
    UCT_ROCM_RKEY_OPS_DEFINE(_prefix) \
    \
    static ucs_status_t _prefix##_md_query_v1(uct_md_h md, \
                                              uct_md_attr_t *md_attr) \
    { \
        uct_md_attr_v2_t md_attr_v2; \
        ucs_status_t status; \
        \
        status = _prefix##_md_query(md, &md_attr_v2); \
        if (status == UCS_OK) { \
            uct_rocm_compat_md_attr(md_attr, &md_attr_v2); \
        } \
        \
        return status; \
    } \
    \
    static ucs_status_t _prefix##_mem_reg_v1(uct_md_h md, void *address, \
                                             size_t length, unsigned flags, \
                                             uct_mem_h *memh_p) \
    { \
        uct_md_mem_reg_params_t params = {.flags = flags}; \
        \
        return _prefix##_mem_reg(md, address, length, &params, memh_p); \
    } \
    \
    static ucs_status_t _prefix##_mkey_pack_v1( \
            uct_md_h md, uct_mem_h memh, \
            const uct_md_mkey_pack_params_t *params, void *mkey_buffer) \
    { \
        return _prefix##_mkey_pack(md, memh, NULL, 0, params, mkey_buffer); \
    } \
    \
    static uct_md_ops_t _prefix##_md_ops = { \
        .close                  = _prefix##_md_close, \
        .query                  = _prefix##_md_query_v1, \
        .mkey_pack              = _prefix##_mkey_pack_v1, \
        .mem_reg                = _prefix##_mem_reg_v1, \
        .mem_dereg              = _prefix##_mem_dereg, \
        .mem_query              = ucs_empty_function_return_unsupported, \
        .detect_memory_type     = ucs_empty_function_return_unsupported, \
        .is_sockaddr_accessible = ucs_empty_function_return_zero_int \
    }
#endif


/* What UCT_ROCM_RKEY_OPS() needs */
#if UCX_HAS_RKEY_UNPACK_PARAMS
#define UCT_ROCM_RKEY_OPS_DEFINE(_prefix)
#define UCT_ROCM_RKEY_UNPACK(_prefix) _prefix##_rkey_unpack
#else
#define UCT_ROCM_RKEY_UNPACK(_prefix) _prefix##_rkey_unpack_v1
#define UCT_ROCM_RKEY_OPS_DEFINE(_prefix) \
    static ucs_status_t _prefix##_rkey_unpack_v1( \
            uct_component_t *component, const void *rkey_buffer, \
            uct_rkey_t *rkey_p, void **handle_p) \
    { \
        return _prefix##_rkey_unpack(component, rkey_buffer, NULL, rkey_p, \
                                     handle_p); \
    }
#endif


/* A member of a table which not every version has */
#if UCX_HAS_RKEY_COMPARE
#define UCT_ROCM_RKEY_COMPARE_OPS \
    .rkey_compare       = uct_base_rkey_compare,
#else
#define UCT_ROCM_RKEY_COMPARE_OPS
#endif


/**
 * The members for remote keys in the table of a component.
 */
#define UCT_ROCM_RKEY_OPS(_prefix) \
    UCT_ROCM_RKEY_COMPARE_OPS \
    .rkey_unpack        = UCT_ROCM_RKEY_UNPACK(_prefix), \
    .rkey_ptr           = _prefix##_rkey_ptr, \
    .rkey_release       = _prefix##_rkey_release


#if !UCX_HAS_IFACE_REACHABLE_V2
#define uct_iface_is_reachable_params_addrs_valid(_params) 1
#define uct_iface_scope_is_reachable(_iface, _params)      1
#endif


#if !UCX_HAS_IFACE_REACHABLE_INFO
/** Nobody asks why a peer is not reachable. */
#define uct_iface_fill_info_str_buf(_params, ...)
#endif


/* The members of a table which not every version has */
#if UCX_HAS_IFACE_QUERY_V2
#define UCT_ROCM_IFACE_QUERY_OPS \
        .iface_query_v2         = uct_iface_base_query_v2,
#else
#define UCT_ROCM_IFACE_QUERY_OPS
#endif

#if UCX_HAS_IFACE_MEM_ELEM_PACK
#define UCT_ROCM_IFACE_MEM_ELEM_OPS \
        .iface_mem_element_pack = (uct_iface_mem_element_pack_func_t) \
                ucs_empty_function_return_unsupported,
#else
#define UCT_ROCM_IFACE_MEM_ELEM_OPS
#endif

#if UCX_HAS_ROCM_DEVICE_EP
#define UCT_ROCM_EP_DEVICE_OPS(_prefix) \
        .ep_get_device_ep       = _prefix##_ep_get_device_ep,
#elif UCX_HAS_EP_GET_DEVICE_EP
#define UCT_ROCM_EP_DEVICE_OPS(_prefix) \
        .ep_get_device_ep       = (uct_ep_get_device_ep_func_t) \
                ucs_empty_function_return_unsupported,
#else
#define UCT_ROCM_EP_DEVICE_OPS(_prefix)
#endif

#if UCX_HAS_EP_OUTSTANDING_PURGE
#define UCT_ROCM_EP_PURGE_OPS \
        .ep_outstanding_purge   = (uct_ep_outstanding_purge_func_t) \
                ucs_empty_function_return_unsupported,
#else
#define UCT_ROCM_EP_PURGE_OPS
#endif


/**
 * Define the internal operations of an interface, _prefix_iface_internal_ops,
 * and what the table of its other operations needs, see
 * @ref UCT_ROCM_IFACE_IS_REACHABLE.
 */
#if UCX_HAS_IFACE_REACHABLE_V2
#define UCT_ROCM_IFACE_INTERNAL_OPS_DEFINE(_prefix) \
    static uct_iface_internal_ops_t _prefix##_iface_internal_ops = { \
        .iface_estimate_perf    = uct_base_iface_estimate_perf, \
        .iface_vfs_refresh      = (uct_iface_vfs_refresh_func_t) \
                ucs_empty_function, \
        .ep_query               = (uct_ep_query_func_t) \
                ucs_empty_function_return_unsupported, \
        .ep_invalidate          = (uct_ep_invalidate_func_t) \
                ucs_empty_function_return_unsupported, \
        .ep_connect_to_ep_v2    = (uct_ep_connect_to_ep_v2_func_t) \
                ucs_empty_function_return_unsupported, \
        .iface_is_reachable_v2  = _prefix##_iface_is_reachable_v2, \
        UCT_ROCM_IFACE_QUERY_OPS \
        UCT_ROCM_IFACE_MEM_ELEM_OPS \
        UCT_ROCM_EP_DEVICE_OPS(_prefix) \
        UCT_ROCM_EP_PURGE_OPS \
        .ep_is_connected        = uct_base_ep_is_connected \
    }
#else
#define UCT_ROCM_IFACE_INTERNAL_OPS_DEFINE(_prefix) \
    static int _prefix##_iface_is_reachable( \
            const uct_iface_h iface, const uct_device_addr_t *device_addr, \
            const uct_iface_addr_t *iface_addr) \
    { \
        uct_iface_is_reachable_params_t params = { \
            .device_addr = device_addr, \
            .iface_addr  = iface_addr \
        }; \
        \
        return _prefix##_iface_is_reachable_v2(iface, &params); \
    } \
    \
    static uct_iface_internal_ops_t _prefix##_iface_internal_ops = { \
        .iface_estimate_perf = uct_base_iface_estimate_perf, \
        .iface_vfs_refresh   = (uct_iface_vfs_refresh_func_t) \
                ucs_empty_function, \
        .ep_query            = (uct_ep_query_func_t) \
                ucs_empty_function_return_unsupported, \
        .ep_invalidate       = (uct_ep_invalidate_func_t) \
                ucs_empty_function_return_unsupported \
    }
#endif


/**
 * The operation by which the users of an interface ask whether a peer is
 * reachable.
 */
#if UCX_HAS_IFACE_REACHABLE_V2
#define UCT_ROCM_IFACE_IS_REACHABLE(_prefix) uct_base_iface_is_reachable
#else
#define UCT_ROCM_IFACE_IS_REACHABLE(_prefix) _prefix##_iface_is_reachable
#endif


/**
 * Name the device by which an interface is controlled.
 */
static inline void uct_rocm_iface_attr_set_ctl_device(uct_iface_attr_t *attr,
                                                      ucs_sys_device_t device)
{
#if UCX_HAS_IFACE_CTL_DEVICE
    attr->ctl_device = device;
#endif
}


#if !UCX_HAS_MPOOL_PARAMS
/** What describes a memory pool. */
typedef struct {
    size_t          elem_size;
    unsigned        elems_per_chunk;
    unsigned        max_elems;
    ucs_mpool_ops_t *ops;
    const char      *name;
} ucs_mpool_params_t;


static inline void ucs_mpool_params_reset(ucs_mpool_params_t *params)
{
    params->elem_size       = 0;
    params->elems_per_chunk = 128;
    params->max_elems       = UINT_MAX;
    params->ops             = NULL;
    params->name            = "";
}


static inline ucs_status_t
uct_rocm_compat_mpool_init(const ucs_mpool_params_t *params, ucs_mpool_t *mp)
{
    return ucs_mpool_init(mp, 0, params->elem_size, 0, UCS_SYS_CACHE_LINE_SIZE,
                          params->elems_per_chunk, params->max_elems,
                          params->ops, params->name);
}


#define ucs_mpool_init uct_rocm_compat_mpool_init
#endif


/* What rocm_ipc of this version of UCX declares */
#if UCX_HAS_ROCM_IPC_MIN_ZCOPY
#define UCT_ROCM_IPC_MIN_ZCOPY "128"
#define UCT_ROCM_IPC_LATENCY   "1e-7"
#else
#define UCT_ROCM_IPC_MIN_ZCOPY "0"
#define UCT_ROCM_IPC_LATENCY   "1e-9"
#endif

#if UCX_HAS_ROCM_IPC_SIGPOOL
#define UCT_ROCM_IPC_MAX_COPIES "1024"
#else
#define UCT_ROCM_IPC_MAX_COPIES "inf"
#endif

#if UCX_HAS_ROCM_IPC_MEMTYPE_COPY
#define UCT_ROCM_IPC_MD_FLAGS UCT_MD_FLAG_MEMTYPE_COPY
#else
#define UCT_ROCM_IPC_MD_FLAGS 0
#endif

#if UCX_HAS_ROCM_DEVICE_EP
#define UCT_ROCM_IPC_IFACE_FLAGS UCT_IFACE_FLAG_DEVICE_EP
#define UCT_ROCM_IPC_EP_CLASS    uct_rocm_ipc_device_ep_t
#else
#define UCT_ROCM_IPC_IFACE_FLAGS 0
#define UCT_ROCM_IPC_EP_CLASS    uct_rocm_ipc_ep_t
#endif

#endif
