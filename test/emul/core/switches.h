/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_SWITCHES_H_
#define EMUL_CORE_SWITCHES_H_

#include "layout.h"

#include <string>

/*
 * Points are what gates and fault rules are set on: API functions and a few
 * places inside of a runtime. A runtime makes its points known when it joins;
 * every call passes point_enter().
 *
 * With no gate closed and no rule set on a point, passing costs one addition
 * and one load.
 */

namespace emul {

enum point_kind : uint32_t {
    point_function,        /* returns a status, so it can be made to fail */
    point_plain_function,  /* returns something else */
    point_place,           /* not a function */
    point_queue            /* the same, and what passes is counted */
};

/** Make a point known, or find it. @return Its index. */
unsigned point_add(const char *name, point_kind kind);

/** The same for "<name>-0" to "<name>-<count - 1>".
 *  @return Index of the first; the others follow. */
unsigned point_add_numbered(const char *name, unsigned count, point_kind kind);

/** A call of this function begins: count it, wait at its gate, apply its fault
 *  rule. @return true if the call must return *status_p and do nothing. */
bool point_enter(unsigned point, int *status_p);

/** The same without counting a call. */
bool point_pass(unsigned point, int *status_p);

/** Whether point_pass might wait now. */
bool point_is_gated(unsigned point);

/* The functions of emul_api_t; see there. */
int calls_read(pid_t pid, const char *function, int64_t *value_p);
int fault_set(pid_t pid, const char *function, uint64_t nth, uint64_t count,
              int status);
int gate_set(pid_t pid, const char *point, bool closed);
int gate_pass(pid_t pid, const char *point, uint64_t count);
int gate_waiters(pid_t pid, const char *point, int64_t *value_p);

/** Bind switches that were set for a pid before it joined. Lock held. */
void switches_resolve(unsigned slot);

/** Forget the switches of a process that is gone. Lock held. */
void switches_drop_process(uint64_t serial);

/** Compute again what is derived. Lock held. */
void switches_repair();

} // namespace emul

#endif
