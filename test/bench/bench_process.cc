/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "bench_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace bench {

peer_process::peer_process(const std::string &role, size_t count)
{
    auto [ours, theirs]    = demo::channel::make_pair();
    const std::string fd   = std::to_string(theirs.fd());
    const std::string text = std::to_string(count);
    /* Read, not run: what runs is valgrind if this is measured in it */
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");

    m_pid = fork();
    if (m_pid == -1) {
        throw demo::error(std::string("fork: ") + strerror(errno));
    } else if (m_pid == 0) {
        /* Only async-signal-safe calls: there may be threads */
        fcntl(theirs.fd(), F_SETFD, 0);
        execl(self.c_str(), self.c_str(), role.c_str(), fd.c_str(),
              text.c_str(), nullptr);
        _exit(EXIT_FAILURE);
    }

    theirs.close();
    m_channel = std::make_unique<demo::channel>(std::move(ours));
}

peer_process::~peer_process()
{
    m_channel.reset();
    waitpid(m_pid, nullptr, 0);
}

void peer_process::kill()
{
    ::kill(m_pid, SIGKILL);
}

namespace {

int usage(const char *program, const command_list &measures)
{
    fprintf(stderr, "usage: %s MEASURE ARGUMENT...\n", program);
    for (size_t i = 0; i < measures.count; ++i) {
        fprintf(stderr, "  %s %s\n", measures.first[i].name,
                measures.first[i].arguments);
    }
    return 2;
}

/* The command of that name that takes this many arguments, or NULL */
const command *
find(const command_list &commands, const char *name, int num_arguments)
{
    for (size_t i = 0; i < commands.count; ++i) {
        const command &candidate = commands.first[i];

        if (!strcmp(candidate.name, name) &&
            (candidate.num_arguments == num_arguments)) {
            return &candidate;
        }
    }

    return nullptr;
}

void run_role(const command &role, char **arguments)
{
    try {
        role.run(arguments);
    } catch (const demo::peer_gone&) {
        _exit(EXIT_SUCCESS); /* The other process is done */
    } catch (const std::exception &e) {
        fprintf(stderr, "peer: %s\n", e.what());
    }
    _exit(EXIT_FAILURE);
}

} // namespace

int run_command(int argc, char **argv, void (*open_gpu)(),
                const command_list &measures, const command_list &roles)
{
    if (argc < 2) {
        return usage(argv[0], measures);
    }

    const command *const role = find(roles, argv[1], argc - 2);
    if (role != nullptr) {
        run_role(*role, argv + 2);
    }

    const command *const measure = find(measures, argv[1], argc - 2);
    if (measure == nullptr) {
        return usage(argv[0], measures);
    }

    try {
        open_gpu();
        measure->run(argv + 2);
    } catch (const std::exception &e) {
        fprintf(stderr, "%s: %s\n", argv[1], e.what());
        return EXIT_FAILURE;
    }

    return EXIT_SUCCESS;
}

} // namespace bench
