/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "leak_report.h"

#include "handler.h"
#include "memory_map.h"
#include "signal.h"

#include <core/message.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace emul {

namespace {

void add_line(void *text, const char *what, uint64_t handle)
{
    char line[128];

    snprintf(line, sizeof(line), "emul[%d]: leak: %s %#llx\n", int(getpid()),
             what, (unsigned long long)handle);
    *(std::string*)text += line;
}

const char *kind_name(mapping_kind kind)
{
    switch (kind) {
    case mapping_kind::device:
        return "allocation";
    case mapping_kind::host:
        return "host allocation";
    case mapping_kind::attached:
        return "attach";
    default:
        return "lock";
    }
}

void list_memory(std::string *text)
{
    memory_map &map = memory_map::instance();
    std::shared_lock<std::shared_mutex> lock(map.mutex);

    map.each([text](const mapping &m) {
        std::string what = std::string(kind_name(m.kind)) + " of " +
                           std::to_string(m.size) + " bytes at";

        add_line(text, what.c_str(), uintptr_t(m.base));
    });
}

void list_signal(const signal_slot &slot, void *text)
{
    const char *what = "signal";

    if (slot.kind == signal_kind::ipc_created) {
        what = "IPC signal";
    } else if (slot.kind == signal_kind::ipc_attached) {
        what = "attached IPC signal";
    }
    add_line(text, what, slot.handle.load());
}

void list_handler(uint64_t signal, void *text)
{
    add_line(text, "armed handler of signal", signal);
}

void write_text(const char *where, const std::string &text)
{
    int fd = STDERR_FILENO;

    if (strcmp(where, "stderr")) {
        fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }

    if ((fd < 0) || (write(fd, text.data(), text.size()) < 0)) {
        message("cannot write the leak report to %s", where);
    }

    if (fd > STDERR_FILENO) {
        close(fd);
    }
}

} // namespace

void leak_report()
{
    const char *where = getenv("EMUL_LEAK_REPORT");
    std::string text;

    if ((where == nullptr) || (*where == '\0')) {
        return;
    }

    list_memory(&text);
    signals_each(list_signal, &text);
    handlers_each(list_handler, &text);
    if (!text.empty()) {
        write_text(where, text);
    }
}

} // namespace emul
