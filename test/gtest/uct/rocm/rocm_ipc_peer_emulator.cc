/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

namespace rocm_ipc {

/** Pass a call to the emulator on, if this is one. */
template<typename F> static void ask_emulator(answer &ans, const F &question)
{
    const emul_api_t *api = emul_get();
    int64_t value         = 0;
    int ret;

    if (api == NULL) {
        ans.head.status = UCS_ERR_UNSUPPORTED;
        return;
    }

    ret                = question(api, &value);
    ans.head.status    = (ret == 0) ? UCS_OK : UCS_ERR_INVALID_PARAM;
    ans.head.number[0] = (ret == 0) ? (uint64_t)value : (uint64_t)-ret;
}

static pid_t pid_of(const command &cmd)
{
    return (pid_t)cmd.head.number[0];
}

void peer_emulator::count(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t *value_p) {
        return api->count(pid_of(cmd), (emul_count_t)cmd.head.number[1],
                          value_p);
    });
}

void peer_emulator::calls(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t *value_p) {
        return api->calls(pid_of(cmd), cmd.data.c_str(), value_p);
    });
}

void peer_emulator::fail(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t*) {
        return api->fail(pid_of(cmd), cmd.data.c_str(), cmd.head.number[1],
                         cmd.head.number[2], (int)cmd.head.number[3]);
    });
}

void peer_emulator::gate_close(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t*) {
        return api->gate_close(pid_of(cmd), cmd.data.c_str());
    });
}

void peer_emulator::gate_open(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t*) {
        return api->gate_open(pid_of(cmd), cmd.data.c_str());
    });
}

void peer_emulator::gate_waiters(const command &cmd, answer &ans)
{
    ask_emulator(ans, [&cmd](const emul_api_t *api, int64_t *value_p) {
        return api->gate_waiters(pid_of(cmd), cmd.data.c_str(), value_p);
    });
}

void peer_emulator::set(const command &cmd, answer &ans)
{
    /* The name ends at its NUL; the value's is the string's own */
    const char *name  = cmd.data.c_str();
    const char *value = cmd.data.c_str() +
                        std::min(cmd.data.find('\0') + 1, cmd.data.size());

    ask_emulator(ans, [name, value](const emul_api_t *api, int64_t*) {
        return api->set(name, value);
    });
}

} /* namespace rocm_ipc */
