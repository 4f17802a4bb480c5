/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef DEMO_ROLES_H_
#define DEMO_ROLES_H_

#include <cstddef>
#include <cstdint>

namespace demo {

/** A free that takes longer than this counts as blocked, and what has not been
 *  given back by then as not given back. */
constexpr int RESULT_SECONDS = 2;

/** What one process of a run tells the program that started it. */
struct report {
    bool     failed;
    bool     lost_peer;               /**< ... because the other process had
                                           ended; its report says more */
    char     failure[512];            /**< Why, if failed */

    /* Surroundings */
    char     module_path[1024];       /**< libuct_rocm.so that it has loaded */
    char     hip_path[1024];          /**< libamdhip64.so that it has loaded */
    char     device_name[256];        /**< The GPU */
    bool     emulated;                /**< That GPU is emulated */

    /* Importer and owner */
    bool     data_right;              /**< Every byte read was the owner's */
    uint64_t bytes_verified;

    /* Owner only */
    uint64_t buffer_size;             /**< Bytes */
    uint64_t mappings_made;           /**< GPU mappings that the import added
                                           to the importer */
    uint64_t mappings_left;           /**< ... still there when the result was
                                           taken */
    bool     free_finished;           /**< hipFree returned in time */
    bool     free_failed;             /**< hipFree returned an error */
    double   free_seconds;            /**< How long hipFree took in all */
    bool     free_bytes_known;        /**< hipMemGetInfo answered in time */
    int64_t  bytes_given_back;        /**< Rise of free device memory, when the
                                           result was taken */
    bool     ended_after_peer_exit;   /**< A blocked hipFree returned once the
                                           importer had exited */
};

/**
 * The process that owns the buffer.
 *
 * @param peer_fd   Socket to the importer.
 * @param parent_fd Socket for the @ref report.
 * @param size      Bytes of the buffer.
 * @return Exit status.
 */
int run_owner(int peer_fd, int parent_fd, size_t size);

/** The process that maps the owner's buffer; parameters as in run_owner(). */
int run_importer(int peer_fd, int parent_fd, size_t size);

} // namespace demo

#endif
