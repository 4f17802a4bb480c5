/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CUDA_COMPANION_H_
#define EMUL_CUDA_COMPANION_H_

/*
 * What the emulated libcuda exports for the other two libraries, which have no
 * place on the node of their own. They find it at run time: like the real ones
 * they are not linked with libcuda.
 */

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/** Make functions known as points on the node; called again it finds them.
 *  @param points  Filled with what to pass to emul_companion_enter.
 *  @return 0 if the process cannot be on a node. */
int emul_companion_attach(const char *const *names, unsigned count,
                          unsigned *points);

/** A call of a function begins. @return 1 if it must return *status_p. */
int emul_companion_enter(const char *name, unsigned point, int *status_p);

/** It ends. */
void emul_companion_leave(const char *name, int status);

/** The number of GPUs of the node. */
unsigned emul_companion_gpus(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
