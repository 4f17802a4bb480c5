// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// A copy which could not be issued is an error of its own: upstream forgets it
// when the event behind it could be recorded, and the descriptor when not. And
// nobody would wait for a copy without an event, so that is done at once.

#if UCX_HAS_CUDA_SHARED_QUEUES
@ post @
expression desc, stream, status;
@@
#if !UCX_HAS_CUDA_EVENT_PUT
     status = UCT_CUDADRV_FUNC_LOG_ERR(cuMemcpyAsync(...));
     if (ucs_unlikely(UCS_OK != status)) {
+        ucs_mpool_put(desc);
         ...
     }
#endif
     status = UCT_CUDADRV_FUNC_LOG_ERR(cuEventRecord(desc->event, stream));
     if (ucs_unlikely(UCS_OK != status)) {
+        UCT_CUDADRV_FUNC_LOG_ERR(cuStreamSynchronize(stream));
#if !UCX_HAS_CUDA_EVENT_PUT
+        ucs_mpool_put(desc);
#endif
         ...
     }
#else
@ post @
expression desc, event_q, stream;
identifier status;
statement failed;
symbol cudaMemcpyAsync, cudaEventRecord;
@@
     status = \(
         UCT_CUDA_FUNC_LOG_ERR(cudaMemcpyAsync(...))
     \|
         UCT_CUDA_CALL_LOG_ERR(cudaMemcpyAsync, ...)
     \|
         UCT_CUDADRV_FUNC_LOG_ERR(cuMemcpyAsync(...))
     \);
+    if (UCS_OK != status) {
+        goto err_put;
+    }
     status = \(
         UCT_CUDA_FUNC_LOG_ERR(cudaEventRecord(desc->event, stream))
     \|
         UCT_CUDA_CALL_LOG_ERR(cudaEventRecord, desc->event, stream)
     \|
         UCT_CUDADRV_FUNC_LOG_ERR(cuEventRecord(desc->event, stream))
     \);
-    if (UCS_OK != status) failed
+    if (UCS_OK != status) {
+        goto err_sync;
+    }
     ...
     ucs_queue_push(event_q, &desc->queue);
     ...
     return UCS_INPROGRESS;
+
+err_sync:
+    UCT_CUDADRV_FUNC_LOG_ERR(cuStreamSynchronize(stream));
+err_put:
+    ucs_mpool_put(desc);
+    return UCS_ERR_IO_ERROR;
#endif
