// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// A flush of cuda_ipc.
#if UCX_HAS_CUDA_SHARED_QUEUES
#if !UCX_HAS_CUDA_BASE_EP_FLUSH

@ include_flush @
@@
 #include <uct/cuda/base/cuda_md.h>
+#include <uct/cuda/base/cuda_iface_flush.h>

@ operation @
typedef uct_iface_ops_t;
@@
 static uct_iface_ops_t uct_cuda_ipc_iface_ops = {
     ...,
     .ep_flush =
-    uct_base_ep_flush
+    uct_cuda_base_ep_flush
     ,
     ...,
 };
#endif
#if !UCX_HAS_CUDA_IPC_MD_CACHE
// What was mapped in a context that is gone or broken cannot be unmapped.

@ unmapped @
expression addr;
@@
-    ucs_fatal(
+    ucs_error(
              "failed to unmap addr:%p", addr);
#endif
#else
// While there are markers, and where a copy has failed, progress is that of
// cuda_ipc_flush.c; else it stays upstream's. An interface which is destroyed drops
// what is queued.

@ include_flush @
@@
 #include "cuda_ipc_cache.h"
+
+#include <uct/cuda/base/cuda_flush.h>

@ include_ops @
@@
 #include "cuda_ipc_iface.h"
+#include "cuda_ipc_flush.h"

@ descriptor @
@@
 typedef struct uct_cuda_ipc_event_desc {
-    CUevent event;
+    uct_cuda_event_desc_t super;
     ...
-    uct_completion_t *comp;
-    ucs_queue_elem_t queue;
     ...
 } uct_cuda_ipc_event_desc_t;

@ context @
@@
 typedef struct uct_cuda_ipc_iface {
     ...
     ucs_mpool_t event_desc;
     ucs_queue_head_t outstanding_d2d_event_q;
+    uct_cuda_flush_ctx_t flush;
+    unsigned poll_limit; /* max_poll, or 0 while there are markers */
     ...
 } uct_cuda_ipc_iface_t;

@ event_use @
typedef uct_cuda_ipc_event_desc_t;
uct_cuda_ipc_event_desc_t *desc;
@@
(
-desc->event
+desc->super.event
|
-desc->comp
+desc->super.comp
|
-desc->queue
+desc->super.queue
)

@ progress @
attribute name UCS_F_ALWAYS_INLINE;
typedef uct_cuda_ipc_iface_t;
identifier iface, count, desc, iter, max_events;
expression event_q;
iterator name ucs_queue_for_each_safe;
statement complete;
@@
 uct_cuda_ipc_progress_event_q(uct_cuda_ipc_iface_t *iface, ...)
 {
     unsigned count = 0;
+    CUresult result;
     ...
-    unsigned max_events = iface->config.max_poll;
+
+    if (!ucs_queue_is_empty(event_q) && (iface->poll_limit == 0)) {
+        return uct_cuda_ipc_iface_progress_flush(iface);
+    }
+
     ucs_queue_for_each_safe(desc, iter, event_q,
-                            queue
+                            super.queue
                             ) complete
     ...
 }

@ failure @
identifier progress.iface, progress.count;
expression event, status;
@@
-status = UCT_CUDADRV_FUNC_LOG_ERR(cuEventQuery(event));
+result = cuEventQuery(event);
 if (
-    UCS_INPROGRESS == status
+    result == CUDA_ERROR_NOT_READY
     ) {
     continue;
 } else if (
-    UCS_OK != status
+    ucs_unlikely(result != CUDA_SUCCESS)
     ) {
-    return status;
+    return count + uct_cuda_ipc_iface_progress_flush(iface);
 }

@ limit @
identifier progress.iface, progress.count, progress.max_events;
@@
 count++;
+/* If a callback has flushed, the limit is 0 now */
 if (count >=
-    max_events
+    iface->poll_limit
     ) { break; }

@ operation @
typedef uct_iface_ops_t;
@@
 static uct_iface_ops_t uct_cuda_ipc_iface_ops = {
     ...,
     .ep_flush =
-    uct_base_ep_flush
+    uct_cuda_ipc_ep_flush
     ,
     ...,
 };

@ cleanup @
identifier self, current;
@@
     UCT_CUDADRV_FUNC_LOG_ERR(cuCtxGetCurrent(&current));
+    uct_cuda_ipc_iface_drop_events(self);
+    if (uct_cuda_ctx_rsc_is_lost(&self->flush.ctx_rsc)) {
+        self->cuda_context = NULL;
+    }
+
     if (self->streams_initialized && ...) { ... }
     ...
+    uct_cuda_flush_cleanup(&self->flush, "cuda_ipc");
     ucs_mpool_cleanup(&self->event_desc, 1);

@ init @
identifier self, status, mp_params;
statement failed;
@@
(
     status = ucs_mpool_init(&self->event_desc, ...);
|
     status = ucs_mpool_init(&mp_params, &self->event_desc);
)
     if (UCS_OK != status) failed
+
+    status = uct_cuda_flush_init(&self->flush,
+                                 sizeof(uct_cuda_ipc_event_desc_t));
+    if (status != UCS_OK) {
+        ucs_mpool_cleanup(&self->event_desc, 1);
+        return status;
+    }
+
+    uct_cuda_flush_set_config(&self->flush, self->config.max_cuda_ipc_events,
+                              self->config.max_poll, &self->cuda_context);
+    self->poll_limit = self->config.max_poll;
#endif
