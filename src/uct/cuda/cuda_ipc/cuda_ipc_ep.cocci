// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// A copy that could not be issued leaves nothing behind: neither its mapping in
// use, nor its stream with work. Nobody would wait for a copy without an event, so
// that is done at once.
#if UCX_HAS_CUDA_SHARED_QUEUES

@ include_compat @
@@
 #include "cuda_ipc.inl"
+#include <uct/cuda/base/cuda_compat.h>

@ unmap @
expression is_ctx_pushed, status;
@@
 out:
     uct_cuda_ipc_check_and_pop_ctx(is_ctx_pushed);
     return status;
+
+err_unmap:
+    uct_cuda_ipc_unmap_key(iface, key, mapped_addr, cuda_device);
+    goto out;

@ record @
expression event, stream, status;
@@
     status = UCT_CUDADRV_FUNC_LOG_ERR(cuEventRecord(event, stream));
     if (...) {
+        UCT_CUDADRV_FUNC_LOG_ERR(cuStreamSynchronize(stream));
         ...
     }

@ map @
expression status;
position p;
@@
 status = \(uct_cuda_ipc_map_memhandle\|uct_cuda_ipc_get_remote_address\)(...);
 if (...) { goto@p out; }

@ undo @
position q != map.p;
@@
 uct_cuda_ipc_post_cuda_async_copy(...)
 {
     <...
-    goto@q out;
+    goto err_unmap;
     ...>
 }
#else
// Descriptors begin with what base/cuda_flush.h knows of them.

@ map @
expression key, mapped_addr;
@@
 uct_cuda_ipc_map_memhandle(key, &mapped_addr)

@ undo @
expression map.key, map.mapped_addr;
typedef uct_cuda_ipc_event_desc_t;
uct_cuda_ipc_event_desc_t *desc;
expression iface, queue_head, stream_d2d;
typedef CUstream;
CUstream stream;
@@
 stream = stream_d2d;
 ...
 desc = ucs_mpool_get(&iface->event_desc);
 ...
 ucs_queue_push(queue_head, &desc->queue);
 ...
 return UCS_INPROGRESS;
+
+err_sync:
+UCT_CUDADRV_FUNC_LOG_ERR(
+        cuStreamSynchronize(stream_d2d));
+err_put:
+ucs_mpool_put(desc);
+err_unmap:
+uct_cuda_ipc_unmap_memhandle(key->pid, key->d_bptr, mapped_addr,
+                             iface->config.enable_cache);
+return status;

@ context @
expression iface;
@@
 if (iface->cuda_context == NULL) {
     ucs_error(...);
-    return UCS_ERR_IO_ERROR;
+    status = UCS_ERR_IO_ERROR;
+    goto err_unmap;
 }

@ streams @
expression iface, status;
@@
 status = uct_cuda_ipc_iface_init_streams(iface);
 if (UCS_OK != status) {
-    return status;
+    goto err_unmap;
 }

@ descriptor @
uct_cuda_ipc_event_desc_t *desc;
@@
 if (ucs_unlikely(desc == NULL)) {
     ucs_error(...);
-    return UCS_ERR_NO_MEMORY;
+    status = UCS_ERR_NO_MEMORY;
+    goto err_unmap;
 }

@ copy @
expression desc, status, refcount;
statement next;
@@
 status = UCT_CUDADRV_FUNC_LOG_ERR(\(cuMemcpyDtoDAsync\|cuMemcpyAsync\)(...));
 if (UCS_OK != status) {
-    ucs_mpool_put(desc);
-    return status;
+    goto err_put;
 }
-refcount++;
 next
 status = UCT_CUDADRV_FUNC_LOG_ERR(cuEventRecord(desc->event, ...));
 if (UCS_OK != status) {
-    ucs_mpool_put(desc);
-    return status;
+    goto err_sync;
 }
+
+refcount++;

@ event_use @
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
#endif
