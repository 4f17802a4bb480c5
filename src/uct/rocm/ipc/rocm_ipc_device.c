#if UCX_HAS_ROCM_DEVICE_EP
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "rocm_ipc_device.h"
#include "rocm_ipc_signal.h"

#include <uct/rocm/base/rocm_base.h>
#include <ucs/debug/log.h>


UCS_CLASS_INIT_FUNC(uct_rocm_ipc_device_ep_t, const uct_ep_params_t *params)
{
    UCS_CLASS_CALL_SUPER_INIT(uct_rocm_ipc_ep_t, params);

    self->handle = NULL;
    return UCS_OK;
}

static void uct_rocm_ipc_device_ep_free(uct_device_ep_h handle)
{
    hsa_status_t status = hsa_amd_memory_pool_free(handle);

    if (status != HSA_STATUS_SUCCESS) {
        ucs_warn("failed to free the device part of an endpoint: %s",
                 uct_rocm_ipc_hsa_status_string(status));
    }
}

static UCS_CLASS_CLEANUP_FUNC(uct_rocm_ipc_device_ep_t)
{
    if (self->handle != NULL) {
        uct_rocm_ipc_device_ep_free(self->handle);
    }
}

UCS_CLASS_DEFINE(uct_rocm_ipc_device_ep_t, uct_rocm_ipc_ep_t);

static ucs_status_t uct_rocm_ipc_device_ep_alloc(uct_device_ep_h *handle_p)
{
    const uct_device_ep_t device_ep = {.uct_tl_id = UCT_DEVICE_TL_ROCM_IPC};
    hsa_amd_memory_pool_t pool;
    ucs_status_t status;
    hsa_status_t hsa_status;
    void *handle;

    status = uct_rocm_base_get_last_device_pool(&pool);
    if (status != UCS_OK) {
        ucs_error("no pool of device memory for an endpoint: %s",
                  ucs_status_string(status));
        return status;
    }

    hsa_status = hsa_amd_memory_pool_allocate(pool, sizeof(device_ep), 0,
                                              &handle);
    if (hsa_status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to allocate the device part of an endpoint: %s",
                  uct_rocm_ipc_hsa_status_string(hsa_status));
        return UCS_ERR_NO_MEMORY;
    }

    hsa_status = hsa_memory_copy(handle, &device_ep, sizeof(device_ep));
    if (hsa_status != HSA_STATUS_SUCCESS) {
        ucs_error("failed to write the device part of an endpoint: %s",
                  uct_rocm_ipc_hsa_status_string(hsa_status));
        uct_rocm_ipc_device_ep_free(handle);
        return UCS_ERR_IO_ERROR;
    }

    *handle_p = handle;
    return UCS_OK;
}

ucs_status_t
uct_rocm_ipc_ep_get_device_ep(uct_ep_h tl_ep, uct_device_ep_h *device_ep_p)
{
    uct_rocm_ipc_device_ep_t *ep = ucs_derived_of(tl_ep,
                                                  uct_rocm_ipc_device_ep_t);
    ucs_status_t status;

    if (ep->handle == NULL) {
        status = uct_rocm_ipc_device_ep_alloc(&ep->handle);
        if (status != UCS_OK) {
            return status;
        }
    }

    *device_ep_p = ep->handle;
    return UCS_OK;
}

/* Pins the region of the key. A region may be found which its owner has freed
 * just now; who starts to use it now has to be told. */
static ucs_status_t uct_rocm_ipc_mem_elem_pin(uct_rocm_ipc_rkey_t *rkey,
                                              int signal_import,
                                              uct_rocm_ipc_region_t **region_p)
{
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    status = uct_rocm_ipc_rkey_pin(rkey, 0, signal_import, &region);
    if (status != UCS_OK) {
        return status;
    }

    uct_rocm_ipc_region_check(&region->super);
    if (uct_rocm_ipc_region_is_freed(region)) {
        uct_rocm_ipc_log_freed(&rkey->key);
        uct_rocm_ipc_region_unpin(region);
        return UCS_ERR_INVALID_ADDR;
    }

    *region_p = region;
    return UCS_OK;
}

ucs_status_t uct_rocm_ipc_mem_elem_pack(uct_md_h uct_md, uct_mem_h memh,
                                        uct_rkey_t uct_rkey,
                                        uct_device_mem_elem_t *mem_elem,
                                        void **release_handle_p)
{
    uct_rocm_ipc_md_t *md = ucs_derived_of(uct_md, uct_rocm_ipc_md_t);
    uct_rocm_ipc_region_t *region;
    ucs_status_t status;

    if (uct_rkey == UCT_INVALID_RKEY) {
        /* Local memory has one address for all */
        mem_elem->rocm_ipc_mem_element.mapped_offset = 0;
        *release_handle_p                            = NULL;
        return UCS_OK;
    }

    status = uct_rocm_ipc_mem_elem_pin((uct_rocm_ipc_rkey_t*)uct_rkey,
                                       md->signal_import, &region);
    if (status != UCS_OK) {
        return status;
    }

    mem_elem->rocm_ipc_mem_element.mapped_offset =
            UCS_PTR_BYTE_DIFF(region->address, region->super.mapped_addr);
    *release_handle_p                            = region;
    return UCS_OK;
}

void uct_rocm_ipc_mem_elem_release(uct_md_h uct_md, void *release_handle)
{
    /* The pin has kept the record, too */
    uct_rocm_ipc_region_t *region = release_handle;

    if (region != NULL) {
        uct_rocm_ipc_region_let_go(region);
    }
}
#endif
