/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "leak_list.h"

#include "message.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace emul {

static const char *destination()
{
    const char *where = getenv("EMUL_LEAK_REPORT");

    return ((where == nullptr) || (*where == '\0')) ? nullptr : where;
}

bool leak_list::wanted()
{
    return destination() != nullptr;
}

void leak_list::add(const char *what, uint64_t handle)
{
    char line[128];

    snprintf(line, sizeof(line), "emul[%d]: leak: %s %#llx\n", int(getpid()),
             what, (unsigned long long)handle);
    m_text += line;
}

void leak_list::add(const char *what, uint64_t size, const void *address)
{
    std::string text = std::string(what) + " of " + std::to_string(size) +
                       " bytes at";

    add(text.c_str(), uintptr_t(address));
}

void leak_list::write() const
{
    const char *where = destination();
    int fd            = STDERR_FILENO;

    if ((where == nullptr) || m_text.empty()) {
        return;
    }

    if (strcmp(where, "stderr")) {
        fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }

    if ((fd < 0) || (::write(fd, m_text.data(), m_text.size()) < 0)) {
        message("cannot write the leak report to %s", where);
    }

    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

} // namespace emul
