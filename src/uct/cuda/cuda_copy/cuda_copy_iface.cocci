// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// A flush of cuda_copy.
#if UCX_HAS_CUDA_SHARED_QUEUES
#if !UCX_HAS_CUDA_CTX_RSC_CHECK

@ include_flush @
@@
 #include <uct/cuda/base/cuda_md.h>
+#include <uct/cuda/base/cuda_iface_flush.h>
#endif
#if !UCX_HAS_CUDA_BASE_EP_FLUSH

@ operation @
typedef uct_iface_ops_t;
@@
 static uct_iface_ops_t uct_cuda_copy_iface_ops = {
     ...,
     .ep_flush =
-    uct_base_ep_flush
+    uct_cuda_base_ep_flush
     ,
     ...,
 };
#endif
#if !UCX_HAS_CUDA_CTX_RSC_VALID && !UCX_HAS_CUDA_CTX_RSC_CHECK

@ stream_cleanup @
typedef uct_iface_h, uct_cuda_ctx_rsc_t;
identifier tl_iface, super, ctx_rsc;
@@
 uct_cuda_copy_ctx_rsc_destroy(uct_iface_h tl_iface, uct_cuda_ctx_rsc_t *super)
 {
     ...
+    if (!uct_cuda_ctx_rsc_is_lost(super)) {
     uct_cuda_base_stream_destroy(&ctx_rsc->short_stream);
+    }
     ...
 }
#endif
#else
// Its queues become those of base/cuda_flush.h, which has their progress as well: in
// upstream's, a copy that has failed never completes, and each completion walks
// through all that is queued behind it.

@ include_flush @
@@
 #include <uct/cuda/base/cuda_iface.h>
+#include <uct/cuda/base/cuda_flush.h>

@ queue_desc @
@@
-typedef struct uct_cuda_copy_queue_desc { ... } uct_cuda_copy_queue_desc_t;
+typedef uct_cuda_queue_desc_t uct_cuda_copy_queue_desc_t;

@ event_desc @
@@
-typedef struct uct_cuda_copy_event_desc { ... } uct_cuda_copy_event_desc_t;
+typedef uct_cuda_event_desc_t uct_cuda_copy_event_desc_t;

@ context @
@@
 typedef struct uct_cuda_copy_iface {
     ...
     ucs_mpool_t cuda_event_desc;
+    /* what is needed to flush the endpoints */
+    uct_cuda_flush_ctx_t        flush;
     ...
 } uct_cuda_copy_iface_t;

@ head_ready @
expression desc, queue_head;
symbol cudaSuccess, CUDA_SUCCESS;
@@
 uct_cuda_copy_queue_head_ready(...)
 {
     <...
(
-    if (ucs_queue_is_empty(queue_head)) { return 0; }
|
-    cudaSuccess == cudaEventQuery(desc->event)
+    uct_cuda_event_is_reached(desc)
|
-    CUDA_SUCCESS == cuEventQuery(desc->event)
+    uct_cuda_event_is_reached(desc)
)
     ...>
 }

@ queue_progress @
attribute name UCS_F_ALWAYS_INLINE;
@@
-static UCS_F_ALWAYS_INLINE unsigned
-uct_cuda_copy_progress_event_queue(...)
-{
-    ...
-}

@ progress @
identifier iface, tl_iface;
@@
 static unsigned uct_cuda_copy_iface_progress(...)
 {
     uct_cuda_copy_iface_t *iface = ucs_derived_of(tl_iface, uct_cuda_copy_iface_t);
-    ...
+    return uct_cuda_queues_progress(&iface->flush, &iface->active_queue);
 }

#if UCX_HAS_CUDA_STREAM_SYNC
// Nothing waits in the driver.

@ wait @
typedef ucs_status_t;
@@
-static ucs_status_t uct_cuda_copy_sync_streams(...) { ... }

@ iface_flush @
identifier iface, status;
@@
 uct_cuda_copy_iface_flush(...)
 {
     ...
-    ucs_status_t status;
     ...
-    status = uct_cuda_copy_sync_streams(iface);
-    if (status != UCS_OK) {
-        return status;
-    }
     ...
 }

@ operation @
typedef uct_ep_h, uct_completion_t;
identifier iface, status, tl_ep, flags, comp;
@@
 uct_cuda_copy_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
 {
     uct_cuda_copy_iface_t *iface = ucs_derived_of(tl_ep->iface,
                                                   uct_cuda_copy_iface_t);
-    ucs_status_t status;
-    status = uct_cuda_copy_sync_streams(iface);
-    if (status != UCS_OK) {
-        return status;
-    }
-    return uct_base_ep_flush(tl_ep, flags, comp);
+
+    return uct_cuda_queues_flush(ucs_derived_of(tl_ep, uct_base_ep_t),
+                                 &iface->flush, &iface->active_queue, comp);
 }
#else
@ operation @
typedef ucs_status_t, uct_ep_h, uct_completion_t, uct_iface_ops_t;
@@
+static ucs_status_t
+uct_cuda_copy_ep_flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t *comp)
+{
+    uct_cuda_copy_iface_t *iface = ucs_derived_of(tl_ep->iface,
+                                                  uct_cuda_copy_iface_t);
+
+    return uct_cuda_queues_flush(ucs_derived_of(tl_ep, uct_base_ep_t),
+                                 &iface->flush, &iface->active_queue, comp);
+}
+
 static uct_iface_ops_t uct_cuda_copy_iface_ops = {
     ...,
     .ep_flush =
-    uct_base_ep_flush
+    uct_cuda_copy_ep_flush
     ,
     ...,
 };
#endif

@ arm @
typedef ucs_queue_iter_t;
identifier iface, tl_iface, iter;
@@
 uct_cuda_copy_iface_event_fd_arm(...)
 {
     uct_cuda_copy_iface_t *iface = ucs_derived_of(tl_iface, uct_cuda_copy_iface_t);
     ...
     ucs_queue_iter_t iter;
+
+    if (uct_cuda_flush_is_lost(&iface->flush)) {
+        return UCS_ERR_BUSY;
+    }
     ...
 }

@ destroyed @
identifier self, current;
@@
     UCT_CUDADRV_FUNC_LOG_ERR(cuCtxGetCurrent(&current));
+    if (uct_cuda_ctx_rsc_is_lost(&self->flush.ctx_rsc)) {
+        self->cuda_context = NULL;
+    }
+
     if (uct_cuda_base_context_match(current, self->cuda_context)) {
         ...
         if (self->short_stream) { ... }
     }

@ cleanup @
identifier self;
@@
+    uct_cuda_queues_drop(&self->flush, &self->active_queue);
+    uct_cuda_flush_cleanup(&self->flush, "cuda_copy");
     ucs_mpool_cleanup(&self->cuda_event_desc, 1);

@ init @
identifier self, status, mp_params;
statement failed;
@@
(
     status = ucs_mpool_init(&self->cuda_event_desc, ...);
|
     status = ucs_mpool_init(&mp_params, &self->cuda_event_desc);
)
     if (UCS_OK != status) failed
+
+    status = uct_cuda_flush_init(&self->flush,
+                                 sizeof(uct_cuda_copy_event_desc_t));
+    if (status != UCS_OK) {
+        ucs_mpool_cleanup(&self->cuda_event_desc, 1);
+        return status;
+    }
+
+    uct_cuda_flush_set_config(&self->flush, self->config.max_cuda_events,
+                              self->config.max_poll, &self->cuda_context);
#endif
