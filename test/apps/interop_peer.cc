/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * One of two processes that share device memory through UCX, each perhaps with
 * another build of it. It does what it is told: every line that it reads is a
 * command, and it answers each with one line: "ok", with what there is to tell
 * as NAME=VALUE, or "error" with the reason. buildlib/interop.py tells it.
 *
 *   open            start UCX; say what was loaded and the worker's address
 *   connect WORKER  to the process whose worker has this address
 *   allocate SIZE   a buffer in device memory
 *   fill SEED       with a pattern
 *   check SEED      how many of its bytes, from the start, hold the pattern
 *   send, receive   the whole buffer
 *   counts          of the emulated node, and of this process's calls to it
 *   sleep           from now on, no call into UCX while waiting for commands
 *   free            the buffer
 *   close           stop UCX
 *
 * It ends when there are no more commands.
 */

#include "demo_channel.h"
#include "demo_maps.h"
#include "interop_device.h"
#include "interop_ucp.h"

#include "../emul/emul.h"

#include <poll.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <vector>

namespace interop {

namespace {

/* Milliseconds between two looks into UCX */
constexpr int PROGRESS_INTERVAL = 1;

std::string to_hex(const std::string &bytes)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;

    for (const unsigned char byte : bytes) {
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }

    return text;
}

std::string from_hex(const std::string &text)
{
    std::string bytes;

    for (size_t i = 0; i + 1 < text.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
    }

    return bytes;
}

/* The lines of standard input */
class line_reader {
public:
    /* Next line, or nothing at the end. Calls @a idle again and again while it
     * waits, if there is one. */
    std::optional<std::string> next(const std::function<void()> &idle)
    {
        size_t end;

        while ((end = m_read.find('\n')) == std::string::npos) {
            if (!read_more(idle)) {
                return std::nullopt;
            }
        }

        const std::string line = m_read.substr(0, end);

        m_read.erase(0, end + 1);
        return line;
    }

private:
    bool read_more(const std::function<void()> &idle)
    {
        pollfd event = {STDIN_FILENO, POLLIN, 0};
        char bytes[4096];
        int ready;

        do {
            if (idle) {
                idle();
            }

            ready = poll(&event, 1, idle ? PROGRESS_INTERVAL : -1);
        } while ((ready == 0) || ((ready == -1) && (errno == EINTR)));

        const ssize_t length = read(STDIN_FILENO, bytes, sizeof(bytes));

        if (length <= 0) {
            return false;
        }

        m_read.append(bytes, length);
        return true;
    }

    std::string m_read;
};

class peer {
public:
    void run(int answer_fd)
    {
        const std::function<void()> progress = [this]() { m_ucx->progress(); };
        const std::function<void()> nothing;

        while (const auto line = m_input.next((m_ucx && !m_sleeps) ? progress :
                                                                     nothing)) {
            const std::string text = answer(*line) + "\n";

            if (write(answer_fd, text.data(), text.size()) !=
                static_cast<ssize_t>(text.size())) {
                throw demo::error("nobody listens to the answers");
            }
        }
    }

private:
    using words = std::vector<std::string>;

    struct command {
        std::string (peer::*run)(const words &arguments);
        size_t      arguments;
    };

    static const std::map<std::string, command> &commands()
    {
        static const std::map<std::string, command> all = {
            {"open", {&peer::open, 0}},
            {"allocate", {&peer::allocate_buffer, 1}},
            {"fill", {&peer::fill, 1}},
            {"check", {&peer::check, 1}},
            {"connect", {&peer::connect, 1}},
            {"send", {&peer::send, 0}},
            {"receive", {&peer::receive, 0}},
            {"counts", {&peer::counts, 0}},
            {"sleep", {&peer::sleep, 0}},
            {"free", {&peer::free_buffer, 0}},
            {"close", {&peer::close, 0}},
        };

        return all;
    }

    std::string answer(const std::string &line)
    {
        std::istringstream text(line);
        words arguments{std::istream_iterator<std::string>(text), {}};

        try {
            if (arguments.empty()) {
                throw demo::error("an empty line is no command");
            }

            const auto found = commands().find(arguments[0]);

            arguments.erase(arguments.begin());
            if ((found == commands().end()) ||
                (found->second.arguments != arguments.size())) {
                throw demo::error("no such command: " + line);
            }

            return "ok " + (this->*found->second.run)(arguments);
        } catch (const std::exception &e) {
            return std::string("error ") + e.what();
        }
    }

    std::string open(const words&)
    {
        std::ostringstream told;

        open_device();
        m_ucx = std::make_unique<ucp_peer>();

        told << "version=" << ucp_get_version_string()
             << " emulated=" << (emul_get() != nullptr)
             << " worker=" << to_hex(m_ucx->address());
        for (const std::string library : {"libucm.so", "libucs.so", "libuct.so",
                                          "libucp.so", device_module}) {
            told << " " << library << "=" << demo::loaded_library(library);
        }

        return told.str();
    }

    std::string allocate_buffer(const words &arguments)
    {
        m_size   = std::stoul(arguments[0]);
        m_buffer = allocate(m_size);
        return "";
    }

    /* Another seed makes every word of the pattern another one, most likely */
    std::vector<uint64_t> pattern(const std::string &seed) const
    {
        std::vector<uint64_t> numbers((m_size + sizeof(uint64_t) - 1) /
                                      sizeof(uint64_t));
        std::mt19937_64 random(std::stoull(seed));

        std::generate(numbers.begin(), numbers.end(), random);
        return numbers;
    }

    std::string fill(const words &arguments)
    {
        write_memory(m_buffer, pattern(arguments[0]).data(), m_size);
        return "";
    }

    std::string check(const words &arguments)
    {
        const auto numbers   = pattern(arguments[0]);
        const auto *expected = reinterpret_cast<const char*>(numbers.data());
        std::vector<char> bytes(m_size);

        read_memory(bytes.data(), m_buffer, m_size);

        const auto differs = std::mismatch(bytes.begin(), bytes.end(),
                                           expected).first;

        return "right=" + std::to_string(differs - bytes.begin());
    }

    std::string connect(const words &arguments)
    {
        m_ucx->connect(from_hex(arguments[0]));
        return "";
    }

    std::string send(const words&)
    {
        m_ucx->send(m_buffer, m_size);
        return "";
    }

    std::string receive(const words&)
    {
        m_ucx->receive(m_buffer, m_size);
        return "";
    }

    std::string sleep(const words&)
    {
        m_sleeps = true;
        return "";
    }

    std::string free_buffer(const words&)
    {
        free_memory(std::exchange(m_buffer, nullptr));
        return "";
    }

    std::string close(const words&)
    {
        m_ucx.reset();
        return "";
    }

    static int64_t calls(const emul_api_t *emulator, const char *function)
    {
        int64_t value;

        return (emulator->calls(getpid(), function, &value) == 0) ? value : 0;
    }

    /* Of this process: what it has mapped now, and how many copies it has made
     * of the kind that transports make. Of the node: how many frees wait. */
    std::string counts(const words&)
    {
        const emul_api_t *emulator = emul_get();
        int64_t attached, blocked, copies = 0;

        if (emulator == nullptr) {
            throw demo::error("there is no emulator to ask");
        }

        if ((emulator->count(getpid(), EMUL_COUNT_ATTACHES, &attached) != 0) ||
            (emulator->count(EMUL_ANY_PROCESS, EMUL_COUNT_FREES_BLOCKED,
                             &blocked) != 0)) {
            throw demo::error("the emulator does not count");
        }

        for (auto call = device_copy_calls; *call != nullptr; ++call) {
            copies += calls(emulator, *call);
        }

        return "attached=" + std::to_string(attached) +
               " copies=" + std::to_string(copies) +
               " blocked_frees=" + std::to_string(blocked);
    }

    line_reader               m_input;
    std::unique_ptr<ucp_peer> m_ucx;
    bool                      m_sleeps  = false;
    void                      *m_buffer = nullptr;
    size_t                    m_size    = 0;
};

/* What UCX and the runtime print goes where their errors go. Returns where the
 * answers go. */
int take_stdout()
{
    const int answer_fd = dup(STDOUT_FILENO);

    if ((answer_fd == -1) || (dup2(STDERR_FILENO, STDOUT_FILENO) == -1)) {
        throw demo::error(std::string("dup: ") + strerror(errno));
    }

    return answer_fd;
}

} // namespace

} // namespace interop

int main()
{
    try {
        interop::peer().run(interop::take_stdout());
    } catch (const std::exception &e) {
        fprintf(stderr, "interop: %s\n", e.what());
        return EXIT_FAILURE;
    }
}
