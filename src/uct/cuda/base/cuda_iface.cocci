#if UCX_HAS_CUDA_SHARED_QUEUES
// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// The flush of what the interfaces of CUDA share. cuda_flush.h has its queues'
// progress as well: in upstream's, a copy that has failed never completes, and one
// which starts another from its callback makes its stream active twice.

@ include_ctx @
@@
 #include <ucs/datastruct/khash.h>
+#include <uct/cuda/base/cuda_flush_ctx.h>

@ include_flush @
@@
 #include "cuda_iface.h"
+#include "cuda_iface_flush.h"

#if UCX_HAS_CUDA_BASE_EP_FLUSH
@ flush_desc @
@@
-typedef struct { ... } uct_cuda_flush_desc_t;

@ flush_stream_desc @
@@
-typedef struct { ... } uct_cuda_flush_stream_desc_t;

@ context @
@@
 typedef struct {
     ...
-    ucs_mpool_t flush_mpool;
+    uct_cuda_flush_ctx_t      flush;
     ...
 } uct_cuda_iface_t;

@ flushed @
@@
-static void uct_cuda_base_stream_flushed_cb(...) { ... }

@ ep_flush @
typedef ucs_status_t;
@@
-ucs_status_t uct_cuda_base_ep_flush(...) { ... }

@ is_flush @
attribute name UCS_F_ALWAYS_INLINE;
@@
-static UCS_F_ALWAYS_INLINE int uct_cuda_base_event_is_flush(...) { ... }

@ pool_ops @
typedef ucs_mpool_ops_t;
@@
-static ucs_mpool_ops_t uct_cuda_flush_desc_mpool_ops = { ... };

@ init @
typedef ucs_mpool_params_t;
identifier self, mp_params, status;
@@
 ucs_class_init(...)
 {
-    ucs_mpool_params_t mp_params;
-    ucs_status_t status;
     ...
     ucs_queue_head_init(&self->active_queue);
-    ucs_mpool_params_reset(&mp_params);
-    ...
-    return status;
+    return uct_cuda_flush_init(&self->flush, sizeof(uct_cuda_event_desc_t));
 }

@ pool @
identifier self;
@@
-    ucs_mpool_cleanup(&self->flush_mpool, 1);
#else
@ context @
@@
 typedef struct {
     ...
     uct_cuda_iface_ops_t *ops;
+    uct_cuda_flush_ctx_t      flush;
     ...
 } uct_cuda_iface_t;

@ init @
identifier self;
@@
     ucs_queue_head_init(&self->active_queue);
-    return UCS_OK;
+    return uct_cuda_flush_init(&self->flush, sizeof(uct_cuda_event_desc_t));
#endif

@ head_ready @
attribute name UCS_F_ALWAYS_INLINE;
@@
-static UCS_F_ALWAYS_INLINE unsigned uct_cuda_base_queue_head_ready(...) { ... }

@ arm @
expression event_q;
@@
-    uct_cuda_base_queue_head_ready(event_q)
+    uct_cuda_queue_is_reached(&iface->flush, event_q)

@ queue_progress @
attribute name UCS_F_ALWAYS_INLINE;
@@
-static UCS_F_ALWAYS_INLINE unsigned
-uct_cuda_base_progress_event_queue(...) { ... }

@ progress @
@@
-unsigned uct_cuda_base_iface_progress(...) { ... }

@ cleanup @
identifier self;
@@
     uct_base_iface_progress_disable(&self->super.super, ...);
+    uct_cuda_base_iface_flush_cleanup(self);

#if UCX_HAS_CUDA_CTX_RSC_CHECK
@ check @
typedef uct_cuda_ctx_rsc_t;
identifier ctx_rsc;
symbol CU_DEVICE_INVALID;
@@
 uct_cuda_base_ctx_rsc_check(const uct_cuda_ctx_rsc_t *ctx_rsc)
 {
     ...
+    if (uct_cuda_ctx_rsc_is_lost(ctx_rsc)) {
+        return UCS_ERR_NO_DEVICE;
+    }
+
     if (ctx_rsc->cuda_device == CU_DEVICE_INVALID) { ... }
     ...
 }
#elif !UCX_HAS_CUDA_CTX_RSC_VALID
@ event_cleanup @
typedef ucs_mpool_t, uct_cuda_ctx_rsc_t, uct_cuda_event_desc_t;
identifier mp, obj, desc;
@@
 uct_cuda_base_event_desc_cleanup(ucs_mpool_t *mp, void *obj)
 {
     uct_cuda_event_desc_t *desc = obj;
+
+    if (uct_cuda_base_event_mp_is_lost(mp)) {
+        return;
+    }
     ...
 }

@ stream_cleanup @
identifier ctx_rsc, qdesc;
@@
 uct_cuda_base_queue_desc_destroy(const uct_cuda_ctx_rsc_t *ctx_rsc,
                                  uct_cuda_queue_desc_t *qdesc)
 {
     ...
+    if (uct_cuda_ctx_rsc_is_lost(ctx_rsc)) {
+        return;
+    }
+
     uct_cuda_base_stream_destroy(&qdesc->stream);
 }
#endif
#endif
