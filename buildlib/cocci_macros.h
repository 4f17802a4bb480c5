/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * What spatch has to take UCX's macros for, so that it can parse the functions
 * which they begin. It sees nothing else of UCX's headers.
 */

#define UCS_CLASS_INIT_FUNC(...)       ucs_status_t ucs_class_init(void)
#define UCS_CLASS_CLEANUP_FUNC(_type)  void ucs_class_cleanup(void)
#define UCS_PROFILE_FUNC(...)          ucs_status_t ucs_profile_func(void)

/* And so that it can parse what is declared or repeated by these */
#define khash_t(_name)                 struct khash
#define ucs_queue_for_each_extract(_elem, _head, _member, _cond) while (_cond)
