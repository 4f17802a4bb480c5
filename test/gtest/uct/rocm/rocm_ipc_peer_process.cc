/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* LeakSanitizer asks for this. In a forked child it would find leaks that are
 * none: the stacks of the threads, which point to the memory, are not there. */
static bool is_forked_child = false;

extern "C" int __lsan_is_turned_off()
{
    return is_forked_child;
}
#endif

namespace rocm_ipc {

void peer_process::fork(const command &cmd, answer &ans)
{
    const unsigned hang = 20; /* Seconds */
    int exit_status     = 0;
    pid_t pid;

    pid = ::fork();
    if (pid == 0) {
#ifdef __SANITIZE_ADDRESS__
        is_forked_child = true;
#endif
        alarm(hang); /* Kills the child if it does not come to an end */
        if (cmd.head.number[0]) {
            exit(EXIT_SUCCESS);
        }
        _exit(EXIT_SUCCESS);
    }

    if ((pid < 0) || (waitpid(pid, &exit_status, 0) != pid)) {
        ans.head.status = UCS_ERR_IO_ERROR;
    }
    ans.head.number[0] = exit_status;
}

void peer_process::limit_files(const command &cmd, answer &ans)
{
    struct rlimit limit;
    int fd;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        ans.head.status = UCS_ERR_IO_ERROR;
        return;
    }

    if (cmd.head.number[0] == UINT64_MAX) {
        limit.rlim_cur = limit.rlim_max;
    } else {
        /* New files get the lowest free numbers, and the limit is on numbers */
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            ans.head.status = UCS_ERR_IO_ERROR;
            return;
        }

        for (rlim_t left = cmd.head.number[0], number = fd;; ++number) {
            if ((number == (rlim_t)fd) || (fcntl((int)number, F_GETFD) == -1)) {
                if (left-- == 0) {
                    limit.rlim_cur = number;
                    break;
                }
            }
        }
        close(fd);
    }

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        ans.head.status = UCS_ERR_IO_ERROR;
    }
}

void peer_process::refuse_pidfd(const command &, answer &ans)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    };
    struct sock_fprog program = {
        (unsigned short)(sizeof(filter) / sizeof(filter[0])), filter
    };

    /* For all threads, whichever calls it */
    if ((prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ||
        (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                 SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)) {
        ans.head.status = UCS_ERR_UNSUPPORTED;
    }
}

} /* namespace rocm_ipc */
