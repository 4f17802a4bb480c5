/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_region.h"
#include "rocm_ipc_cache.h"

#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>

#include <inttypes.h>
#include <string.h>


/* A region without a signal is not what an importer looks for who wants one */
int uct_rocm_ipc_region_match(const uct_ipc_region_t *ipc_region,
                              const void *arg)
{
    const uct_rocm_ipc_region_t *region = ucs_derived_of(ipc_region,
                                                         uct_rocm_ipc_region_t);
    const uct_rocm_ipc_import_t *import = arg;
    const uct_rocm_ipc_key_t *key       = import->key;

    /* A key that is garbage may have the handles of a good one, but name a
     * range which is not mapped */
    return (region->address == key->address) &&
           (region->length == key->length) &&
           !memcmp(&region->handle, &key->ipc, sizeof(key->ipc)) &&
           !memcmp(&region->signal_handle, &key->signal, sizeof(key->signal)) &&
           (region->with_signal || !import->with_signal);
}

void uct_rocm_ipc_region_detach(uct_ipc_region_t *ipc_region)
{
    hsa_status_t status;

    status = hsa_amd_ipc_memory_detach(ipc_region->mapped_addr);
    if (status != HSA_STATUS_SUCCESS) {
        ucs_warn("failed to detach the memory of a peer from %p: %s",
                 ipc_region->mapped_addr,
                 uct_rocm_ipc_hsa_status_string(status));
    }
}

void uct_rocm_ipc_region_release_channel(uct_ipc_region_t *ipc_region)
{
    uct_rocm_ipc_region_t *region = ucs_derived_of(ipc_region,
                                                   uct_rocm_ipc_region_t);

    if (region->with_signal) {
        uct_rocm_ipc_channel_release(&region->channel);
    }
}

void uct_rocm_ipc_region_free(uct_ipc_region_t *ipc_region)
{
    uct_ipc_watcher_owner_put(&uct_rocm_ipc_watcher, ipc_region->owner);
    ucs_free(ucs_derived_of(ipc_region, uct_rocm_ipc_region_t));
}

void uct_rocm_ipc_region_put(uct_ipc_region_t *ipc_region)
{
    uct_ipc_cache_put(&uct_rocm_ipc_cache, ipc_region);
}

void uct_rocm_ipc_region_freed(uct_ipc_region_t *ipc_region)
{
    /* Published by the claim */
    __atomic_store_n(&ipc_region->owner_freed, 1, __ATOMIC_RELAXED);
    if (uct_ipc_cache_claim(&uct_rocm_ipc_cache, ipc_region)) {
        uct_ipc_stats_add(&uct_rocm_ipc_cache.stats, UCT_IPC_CACHE_STAT_FREED,
                          1);
    }
}

uct_rocm_ipc_channel_t *
uct_rocm_ipc_region_get_channel(uct_rocm_ipc_region_t *region)
{
    return region->with_signal ? uct_rocm_ipc_channel_ref(&region->channel) :
                                 NULL;
}

void uct_rocm_ipc_region_check(uct_ipc_region_t *ipc_region)
{
    uct_rocm_ipc_region_t *region   = ucs_derived_of(ipc_region,
                                                     uct_rocm_ipc_region_t);
    uct_rocm_ipc_channel_t *channel = uct_rocm_ipc_region_get_channel(region);

    if (channel == NULL) {
        return;
    }

    if (!uct_rocm_ipc_channel_is_alive(channel)) {
        uct_rocm_ipc_region_freed(ipc_region);
    }

    uct_rocm_ipc_channel_put(channel);
}

void uct_rocm_ipc_region_still_pinned(uct_ipc_region_t *ipc_region)
{
    uct_rocm_ipc_region_t *region = ucs_derived_of(ipc_region,
                                                   uct_rocm_ipc_region_t);

    if (uct_rocm_ipc_region_is_freed(region)) {
        ucs_warn("process %d waits to free its memory 0x%lx..0x%lx, to which"
                 " this process holds a pointer, or has a copy in flight:"
                 " release the remote key",
                 region->owner_pid, ipc_region->super.start,
                 ipc_region->super.end);
    }
}

static hsa_agent_t uct_rocm_ipc_mapping_agent(const void *mapped_addr)
{
    hsa_agent_t no_agent = {0};
    hsa_amd_pointer_info_t info;

    /* No agent if the owner's GPU is not visible to this process */
    return (uct_rocm_ipc_pointer_info(mapped_addr, &info) == UCS_OK) ?
                   info.agentOwner :
                   no_agent;
}

void uct_rocm_ipc_log_freed(const uct_rocm_ipc_key_t *key)
{
    ucs_diag("remote memory 0x%" PRIx64 " length %" PRIu64 " was freed by its"
             " owner",
             key->address, key->length);
}

static ucs_status_t
uct_rocm_ipc_region_attach_signal(uct_rocm_ipc_region_t *region,
                                  const uct_rocm_ipc_key_t *key)
{
    ucs_status_t status;

    /* A region that a handler watches does not give its signal back at once */
    do {
        status = uct_rocm_ipc_channel_get(&key->signal, region->super.owner,
                                          &region->channel);
    } while ((status == UCS_ERR_NO_MEMORY) &&
             uct_ipc_cache_evict(&uct_rocm_ipc_cache, 1));

    if (status == UCS_ERR_NO_MEMORY) {
        ucs_error("out of ROCm IPC signals for remote memory 0x%" PRIx64
                  " length"
                  " %" PRIu64
                  ". Set UCX_ROCM_IPC_CACHE_MAX_REGIONS to bound what"
                  " this process keeps, or UCX_ROCM_IPC_SIGNAL_INVALIDATE=n to"
                  " do without signals.",
                  key->address, key->length);
    }

    return status;
}

static ucs_status_t
uct_rocm_ipc_region_attach_memory(uct_rocm_ipc_region_t *region,
                                  const uct_rocm_ipc_key_t *key)
{
    void *mapped_addr;
    hsa_status_t status;

    do {
        status = hsa_amd_ipc_memory_attach(&key->ipc, key->length, 0, NULL,
                                           &mapped_addr);
    } while ((status == HSA_STATUS_ERROR_OUT_OF_RESOURCES) &&
             uct_ipc_cache_evict(&uct_rocm_ipc_cache, 0));

    if (status == HSA_STATUS_SUCCESS) {
        uct_ipc_region_init(&region->super, key->address, key->length,
                            mapped_addr);
        region->agent = uct_rocm_ipc_mapping_agent(mapped_addr);
        return UCS_OK;
    }

    if (region->with_signal &&
        !uct_rocm_ipc_channel_is_alive(region->channel)) {
        uct_rocm_ipc_log_freed(key);
    } else if (status == HSA_STATUS_ERROR_OUT_OF_RESOURCES) {
        ucs_error("out of ROCm IPC mappings for remote memory 0x%" PRIx64
                  " length %" PRIu64 ", and all others are in use. Start fewer"
                  " copies at a time, or set UCX_ROCM_IPC_CACHE_MAX_REGIONS or"
                  " UCX_ROCM_IPC_CACHE_MAX_SIZE in the processes which share"
                  " the GPU.",
                  key->address, key->length);
        return UCS_ERR_NO_MEMORY;
    } else {
        ucs_error("failed to attach remote memory 0x%" PRIx64 " length %" PRIu64
                  ": %s",
                  key->address, key->length,
                  uct_rocm_ipc_hsa_status_string(status));
    }

    return UCS_ERR_INVALID_ADDR;
}

/* The process to watch for a region which is to be cached, or NULL */
static uct_ipc_owner_t *
uct_rocm_ipc_import_owner(const uct_rocm_ipc_import_t *import)
{
    const uct_rocm_ipc_key_t *key = import->key;

    if (!import->is_cached || !(key->dev_num & UCT_ROCM_IPC_KEY_FLAG_PID) ||
        (key->pid_ns != ucs_sys_get_ns(UCS_SYS_NS_TYPE_PID))) {
        return NULL;
    }

    return uct_ipc_watcher_owner_get(&uct_rocm_ipc_watcher, key->pid);
}

ucs_status_t uct_rocm_ipc_region_attach(const uct_rocm_ipc_import_t *import,
                                        uct_rocm_ipc_region_t **region_p)
{
    const uct_rocm_ipc_key_t *key = import->key;
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;
    int ret;

    ret = ucs_posix_memalign((void**)&region,
                             ucs_max(sizeof(void*), UCS_PGT_ENTRY_MIN_ALIGN),
                             sizeof(*region), "rocm_ipc_region");
    if (ret != 0) {
        ucs_error("failed to allocate a ROCm IPC region");
        return UCS_ERR_NO_MEMORY;
    }

    region->address       = key->address;
    region->length        = key->length;
    region->handle        = key->ipc;
    region->signal_handle = key->signal;
    region->with_signal   = import->with_signal;
    region->owner_pid     = key->pid;
    region->super.owner   = uct_rocm_ipc_import_owner(import);

    if (region->with_signal) {
        status = uct_rocm_ipc_region_attach_signal(region, key);
        if (status != UCS_OK) {
            goto err_free;
        }
    }

    status = uct_rocm_ipc_region_attach_memory(region, key);
    if (status != UCS_OK) {
        goto err_release_channel;
    }

    /* Closed race: freed since the signal was read the first time */
    if (region->with_signal &&
        !uct_rocm_ipc_channel_is_alive(region->channel)) {
        uct_rocm_ipc_log_freed(key);
        status = UCS_ERR_INVALID_ADDR;
        goto err_detach;
    }

    *region_p = region;
    return UCS_OK;

err_detach:
    uct_rocm_ipc_region_detach(&region->super);
err_release_channel:
    uct_rocm_ipc_region_release_channel(&region->super);
err_free:
    uct_rocm_ipc_region_free(&region->super);
    return status;
}

void uct_rocm_ipc_region_discard(uct_rocm_ipc_region_t *region)
{
    uct_rocm_ipc_region_detach(&region->super);
    uct_rocm_ipc_region_release_channel(&region->super);
    uct_rocm_ipc_region_free(&region->super);
}
