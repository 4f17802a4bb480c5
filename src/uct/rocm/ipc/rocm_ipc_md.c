/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_md.h"
#include "rocm_ipc_export.h"
#include "rocm_ipc_rkey.h"

#include <uct/rocm/base/rocm_base.h>
#include <uct/rocm/base/rocm_compat.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>

#include <string.h>
#include <unistd.h>


/* Unit in which ROCr allocates device memory. It tells the size that was asked
 * for, while UCP registers a buffer with its length rounded up. */
#define UCT_ROCM_IPC_MEMORY_UNIT 4096


static ucs_config_field_t uct_rocm_ipc_md_config_table[] = {
    {"", "", NULL, ucs_offsetof(uct_rocm_ipc_md_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_md_config_table)},

    {"SIGNAL_INVALIDATE", "y",
     "Unmap the memory of a peer as soon as the peer frees it. Otherwise it\n"
     "stays mapped until the connection is closed; meanwhile a free by the\n"
     "owner waits, or does not give the memory back. Takes effect if it is\n"
     "enabled on both sides.",
     ucs_offsetof(uct_rocm_ipc_md_config_t, signal_invalidate),
     UCS_CONFIG_TYPE_BOOL},

    {"CACHE_MAX_REGIONS", "inf",
     "How many mappings of peers' memory this process keeps. The least\n"
     "recently used one goes first; a mapping in use never does.",
     ucs_offsetof(uct_rocm_ipc_md_config_t, cache_max_regions),
     UCS_CONFIG_TYPE_ULUNITS},

    {"CACHE_MAX_SIZE", "inf",
     "How much of peers' memory this process keeps mapped, like above.",
     ucs_offsetof(uct_rocm_ipc_md_config_t, cache_max_size),
     UCS_CONFIG_TYPE_MEMUNITS},

    {NULL}
};

static size_t uct_rocm_ipc_md_key_size(const uct_rocm_ipc_md_t *md)
{
    /* What other versions of this transport expect where */
    UCS_STATIC_ASSERT(ucs_offsetof(uct_rocm_ipc_key_t, address) == 32);
    UCS_STATIC_ASSERT(ucs_offsetof(uct_rocm_ipc_key_t, dev_num) == 48);
    UCS_STATIC_ASSERT(ucs_offsetof(uct_rocm_ipc_key_t, pid_ns) == 56);
    UCS_STATIC_ASSERT(ucs_offsetof(uct_rocm_ipc_key_t, signal) == 64);
    UCS_STATIC_ASSERT(sizeof(uct_rocm_ipc_key_t) == 96);

    return md->signal_export ? sizeof(uct_rocm_ipc_key_t) :
                               ucs_offsetof(uct_rocm_ipc_key_t, signal);
}

static ucs_status_t
uct_rocm_ipc_md_query(uct_md_h uct_md, uct_md_attr_v2_t *md_attr)
{
    uct_rocm_ipc_md_t *md = ucs_derived_of(uct_md, uct_rocm_ipc_md_t);

    uct_md_base_md_query(md_attr);
    md_attr->rkey_packed_size = uct_rocm_ipc_md_key_size(md);
    md_attr->flags            = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY |
                     UCT_ROCM_IPC_MD_FLAGS;
    md_attr->reg_mem_types    = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    md_attr->cache_mem_types  = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    md_attr->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_ROCM);

    /* What this transport has always declared */
    md_attr->reg_cost         = ucs_linear_func_make(9e-9, 0);
    return UCS_OK;
}

ucs_status_t
uct_rocm_ipc_pointer_info(const void *address, hsa_amd_pointer_info_t *info)
{
    hsa_status_t status;

    info->size = sizeof(*info);
    status     = hsa_amd_pointer_info((void*)address, info, NULL, NULL, NULL);
    if ((status != HSA_STATUS_SUCCESS) ||
        (info->type == HSA_EXT_POINTER_TYPE_UNKNOWN)) {
        return UCS_ERR_INVALID_ADDR;
    }

    return UCS_OK;
}

static ucs_status_t
uct_rocm_ipc_mem_reg(uct_md_h uct_md, void *address, size_t length,
                     const uct_md_mem_reg_params_t *params, uct_mem_h *memh_p)
{
    uint64_t flags = UCT_MD_MEM_REG_FIELD_VALUE(params, flags, FIELD_FLAGS, 0);
    hsa_amd_pointer_info_t info;
    uct_rocm_ipc_memh_t *memh;
    size_t offset, size;
    ucs_status_t status;

    status = uct_rocm_ipc_pointer_info(address, &info);
    if ((status != UCS_OK) || (info.type != HSA_EXT_POINTER_TYPE_HSA) ||
        !uct_rocm_base_is_gpu_agent(info.agentOwner)) {
        ucs_log(uct_md_reg_log_lvl(flags), "%p is not ROCm device memory",
                address);
        return UCS_ERR_INVALID_ADDR;
    }

    offset = UCS_PTR_BYTE_DIFF(info.agentBaseAddress, address);
    size   = ucs_align_up_pow2(info.sizeInBytes, UCT_ROCM_IPC_MEMORY_UNIT);
    if ((offset > size) || (length > size - offset)) {
        ucs_log(uct_md_reg_log_lvl(flags),
                "%p length %zu exceeds its allocation %p length %zu", address,
                length, info.agentBaseAddress, info.sizeInBytes);
        return UCS_ERR_INVALID_ADDR;
    }

    memh = ucs_malloc(sizeof(*memh), "rocm_ipc_memh");
    if (memh == NULL) {
        ucs_error("failed to allocate a ROCm IPC registration");
        return UCS_ERR_NO_MEMORY;
    }

    memh->base    = (uintptr_t)info.agentBaseAddress;
    memh->length  = info.sizeInBytes;
    memh->dev_num = uct_rocm_base_get_dev_num(info.agentOwner);
    memh->once    = (ucs_init_once_t)UCS_INIT_ONCE_INITIALIZER;
    *memh_p       = memh;
    return UCS_OK;
}

static ucs_status_t
uct_rocm_ipc_mem_dereg(uct_md_h uct_md, const uct_md_mem_dereg_params_t *params)
{
    UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 0);

    /* The export stays: it belongs to the allocation, and peers may map it */
    ucs_free(params->memh);
    return UCS_OK;
}

/* Without lifetime signals there is no reason to rely on free events either:
 * every registration makes its own handle, as it has always been */
static ucs_status_t
uct_rocm_ipc_memh_pack(uct_rocm_ipc_memh_t *memh, uct_rocm_ipc_key_t *key)
{
    UCS_INIT_ONCE(&memh->once) {
        memh->status = uct_rocm_ipc_memory_create(memh->base, memh->length,
                                                  &memh->handle);
    }

    key->ipc = memh->handle;
    return memh->status;
}

static ucs_status_t
uct_rocm_ipc_mkey_pack(uct_md_h uct_md, uct_mem_h uct_memh, void *address,
                       size_t length, const uct_md_mkey_pack_params_t *params,
                       void *mkey_buffer)
{
    uct_rocm_ipc_md_t *md     = ucs_derived_of(uct_md, uct_rocm_ipc_md_t);
    uct_rocm_ipc_memh_t *memh = uct_memh;
    uct_rocm_ipc_key_t key    = {
        .address = memh->base,
        .length  = memh->length,
        .dev_num = memh->dev_num | UCT_ROCM_IPC_KEY_FLAG_PID,
        .pid     = getpid(),
        .pid_ns  = md->pid_ns
    };
    ucs_status_t status;

    status = md->signal_export ?
                     uct_rocm_ipc_export_pack(memh->base, memh->length, &key) :
                     uct_rocm_ipc_memh_pack(memh, &key);
    if (status != UCS_OK) {
        return status;
    }

    memcpy(mkey_buffer, &key, uct_rocm_ipc_md_key_size(md));
    return UCS_OK;
}

static void uct_rocm_ipc_md_close(uct_md_h uct_md)
{
    uct_rocm_ipc_md_t *md = ucs_derived_of(uct_md, uct_rocm_ipc_md_t);

    uct_rocm_ipc_cache_close();
    if (md->signal_export) {
        uct_rocm_ipc_exports_close();
    }

    ucs_free(md);
}

/* Returns nonzero if this process can tell peers when it frees memory */
static int uct_rocm_ipc_md_open_exports(void)
{
    static int warned = 0;
    ucs_status_t status;

    status = uct_rocm_ipc_exports_open();
    if ((status != UCS_OK) &&
        !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED)) {
        ucs_warn("no memory events in this process (%s): peers which map its"
                 " ROCm memory are not told when it is freed. Set"
                 " UCX_MEM_EVENTS=y, or UCX_ROCM_IPC_SIGNAL_INVALIDATE=n to"
                 " accept that.",
                 ucs_status_string(status));
    }

    return status == UCS_OK;
}

static ucs_status_t
uct_rocm_ipc_rkey_unpack(uct_component_t *component, const void *rkey_buffer,
                         const uct_rkey_unpack_params_t *params,
                         uct_rkey_t *rkey_p, void **handle_p)
{
    uct_rocm_ipc_rkey_t *rkey;
    ucs_status_t status;

    status = uct_rocm_ipc_rkey_create(rkey_buffer, &rkey);
    if (status != UCS_OK) {
        return status;
    }

    *handle_p = NULL;
    *rkey_p   = (uintptr_t)rkey;
    return UCS_OK;
}

UCT_ROCM_MD_OPS_DEFINE(uct_rocm_ipc);

static ucs_status_t
uct_rocm_ipc_md_open(uct_component_h component, const char *md_name,
                     const uct_md_config_t *uct_md_config, uct_md_h *md_p)
{
    const uct_rocm_ipc_md_config_t *config =
            ucs_derived_of(uct_md_config, uct_rocm_ipc_md_config_t);
    uct_rocm_ipc_md_t *md;

    md = ucs_malloc(sizeof(*md), "rocm_ipc_md");
    if (md == NULL) {
        ucs_error("failed to allocate a ROCm IPC memory domain");
        return UCS_ERR_NO_MEMORY;
    }

    md->super.ops       = &uct_rocm_ipc_md_ops;
    md->super.component = &uct_rocm_ipc_component;
    md->pid_ns          = ucs_sys_get_ns(UCS_SYS_NS_TYPE_PID);
    md->signal_import   = config->signal_invalidate;
    md->signal_export   = config->signal_invalidate &&
                        uct_rocm_ipc_md_open_exports();
    uct_rocm_ipc_cache_open(config);
    *md_p = &md->super;
    return UCS_OK;
}

static ucs_status_t uct_rocm_ipc_rkey_ptr(uct_component_t *component,
                                          uct_rkey_t uct_rkey, void *handle,
                                          uint64_t remote_addr, void **addr_p)
{
    return uct_rocm_ipc_rkey_map((uct_rocm_ipc_rkey_t*)uct_rkey, remote_addr,
                                 addr_p);
}

static ucs_status_t uct_rocm_ipc_rkey_release(uct_component_t *component,
                                              uct_rkey_t uct_rkey, void *handle)
{
    ucs_assert(handle == NULL);
    uct_rocm_ipc_rkey_destroy((uct_rocm_ipc_rkey_t*)uct_rkey);
    return UCS_OK;
}

static void uct_rocm_ipc_md_vfs_init(uct_md_h uct_md)
{
    uct_rocm_ipc_md_t *md = ucs_derived_of(uct_md, uct_rocm_ipc_md_t);

    uct_ipc_stats_vfs_init(uct_md, &uct_rocm_ipc_cache.stats, "regions");
    if (md->signal_export) {
        uct_ipc_stats_vfs_init(uct_md, &uct_rocm_ipc_export_table.stats,
                               "exports");
    }
}

uct_component_t uct_rocm_ipc_component = {
    .query_md_resources = uct_rocm_base_query_md_resources,
    .md_open            = uct_rocm_ipc_md_open,
    .cm_open            = (uct_component_cm_open_func_t)
            ucs_empty_function_return_unsupported,
    UCT_ROCM_RKEY_OPS(uct_rocm_ipc),
    .name               = "rocm_ipc",
    .md_config          = {
        .name           = "ROCm-IPC memory domain",
        .prefix         = "ROCM_IPC_",
        .table          = uct_rocm_ipc_md_config_table,
        .size           = sizeof(uct_rocm_ipc_md_config_t),
    },
    .cm_config          = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list            = UCT_COMPONENT_TL_LIST_INITIALIZER(
                                  &uct_rocm_ipc_component),
    .flags              = 0,
    .md_vfs_init        = uct_rocm_ipc_md_vfs_init
};
UCT_COMPONENT_REGISTER(&uct_rocm_ipc_component);
