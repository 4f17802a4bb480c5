// SPDX-License-Identifier: BSD-3-Clause
// See file LICENSE for terms.
//
// A copy which could not be issued is an error of its own: upstream forgets it
// when the event behind it could be recorded, and the descriptor when not. And
// nobody would wait for a copy without an event, so that is done at once.

@ post @
expression desc, event_q, stream;
identifier status;
statement failed;
@@
     status = UCT_CUDA_FUNC_LOG_ERR(cudaMemcpyAsync(...));
+    if (UCS_OK != status) {
+        goto err_put;
+    }
     status = UCT_CUDA_FUNC_LOG_ERR(cudaEventRecord(desc->event, stream));
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
+    UCT_CUDA_FUNC_LOG_ERR(cudaStreamSynchronize(stream));
+err_put:
+    ucs_mpool_put(desc);
+    return UCS_ERR_IO_ERROR;
