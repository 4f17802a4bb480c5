/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_emulator.h"
#include "cuda_ipc_remote.h"

#include <sched.h>
#include <unistd.h>

namespace cuda_test {

static void must_emulate(int ret, const std::string &what)
{
    if (ret != 0) {
        throw failure("emulator: " + what + ": " + strerror(-ret));
    }
}

emulator::emulator() : m_api(emul_get())
{
}

emulator::~emulator()
{
    open_gates();
    fail_none();
}

int64_t emulator::count(emul_count_t what) const
{
    int64_t value;

    must_emulate(m_api->count(getpid(), what, &value), "count");
    return value;
}

int64_t emulator::calls(const std::string &function) const
{
    int64_t value;

    must_emulate(m_api->calls(getpid(), function.c_str(), &value), function);
    return value;
}

int64_t emulator::stream_operations(unsigned ordinal) const
{
    std::string point = "stream-" + ucs::to_string(ordinal);
    int64_t value;

    return (m_api->calls(getpid(), point.c_str(), &value) == 0) ? value : -1;
}

void emulator::fail(const std::string &function, CUresult result, uint64_t nth,
                    uint64_t num)
{
    must_emulate(m_api->fail(getpid(), function.c_str(), nth, num, result),
                 function);
    m_failing.insert(function);
}

void emulator::fail_none()
{
    std::set<std::string>::iterator it;

    for (it = m_failing.begin(); it != m_failing.end(); ++it) {
        m_api->fail(getpid(), it->c_str(), 1, 0, 0);
    }
    m_failing.clear();
}

void emulator::close_gate(const std::string &point)
{
    must_emulate(m_api->gate_close(getpid(), point.c_str()), point);
    m_closed.insert(point);
}

void emulator::open_gate(const std::string &point)
{
    must_emulate(m_api->gate_open(getpid(), point.c_str()), point);
    m_closed.erase(point);
}

void emulator::open_gates()
{
    while (!m_closed.empty()) {
        m_api->gate_open(getpid(), m_closed.begin()->c_str());
        m_closed.erase(m_closed.begin());
    }
}

void emulator::pass_gate(const std::string &point, uint64_t num)
{
    must_emulate(m_api->gate_pass(getpid(), point.c_str(), num), point);
}

void emulator::set(const std::string &name, const std::string &value)
{
    must_emulate(m_api->set(name.c_str(), value.c_str()), name);
}

::testing::AssertionResult
emulator::reaches(emul_count_t what, int64_t value) const
{
    ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(time_limit());
    int64_t now;

    do {
        now = count(what);
        if (now == value) {
            return ::testing::AssertionSuccess();
        }
        sched_yield();
    } while (ucs_get_time() < deadline);

    return ::testing::AssertionFailure()
           << "emulator: count " << what << " is " << now << ", not " << value;
}

} /* namespace cuda_test */
