#if UCX_HAS_CUDA_SHARED_QUEUES
/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "cuda_iface_flush.h"

#include <ucs/debug/log.h>
#include <uct/base/uct_md.h>


ucs_status_t
uct_cuda_base_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
{
    uct_cuda_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_cuda_iface_t);

    return uct_cuda_queues_flush(ucs_derived_of(tl_ep, uct_base_ep_t),
                                 &iface->flush, &iface->active_queue, comp);
}

unsigned uct_cuda_base_iface_progress(uct_iface_h tl_iface)
{
    uct_cuda_iface_t *iface = ucs_derived_of(tl_iface, uct_cuda_iface_t);

    return uct_cuda_queues_progress(&iface->flush, &iface->active_queue);
}

void uct_cuda_base_iface_flush_cleanup(uct_cuda_iface_t *iface)
{
    const char *name = iface->super.md->component->name;
    size_t num_copies;

    num_copies = uct_cuda_queues_drop(&iface->flush, &iface->active_queue);
    if (num_copies > 0) {
        ucs_warn("%s interface destroyed with %zu outstanding events", name,
                 num_copies);
    }

    uct_cuda_flush_cleanup(&iface->flush, name);
}
#endif
