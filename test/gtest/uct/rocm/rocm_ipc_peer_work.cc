/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <hip_runtime.h>

#include <sched.h>

#include <chrono>
#include <vector>

/**
 * @file rocm_ipc_peer_work.cc
 * @brief Work that a lane does at one go, fast enough to meet that of others.
 */
namespace rocm_ipc {

/** Device memory for as long as the object lives. */
class device_memory {
public:
    explicit device_memory(size_t length) : m_address(NULL), m_length(length)
    {
        if (hipMalloc(&m_address, length) != hipSuccess) {
            throw std::bad_alloc();
        }
    }

    ~device_memory()
    {
        hipFree(m_address);
    }

    void *get() const
    {
        return m_address;
    }

    void fill(uint64_t seed, uint64_t position)
    {
        std::vector<uint8_t> bytes(m_length);

        for (size_t i = 0; i < m_length; ++i) {
            bytes[i] = pattern_byte(seed, position + i);
        }
        hipMemcpy(m_address, &bytes[0], m_length, hipMemcpyHostToDevice);
    }

    bool holds(uint64_t seed, uint64_t position) const
    {
        std::vector<uint8_t> bytes(m_length);

        hipMemcpy(&bytes[0], m_address, m_length, hipMemcpyDeviceToHost);
        for (size_t i = 0; i < m_length; ++i) {
            if (bytes[i] != pattern_byte(seed, position + i)) {
                return false;
            }
        }
        return true;
    }

private:
    device_memory(const device_memory &);
    device_memory &operator=(const device_memory &);

    void   *m_address;
    size_t m_length;
};

/** What one round needs. */
struct peer_transport::work {
    iface         on;
    uct_ep_h      ep;
    uint64_t      remote_address;
    size_t        length;
    uint64_t      seed;
    uint64_t      position;
    uint64_t      kind; /* mask of work_t */
    device_memory *local;
    std::string   key;
};

ucs_status_t peer_transport::share_once(size_t length)
{
    device_memory memory(length);
    uct_md_attr_t attr;
    ucs_status_t status;
    uct_mem_h memh;

    status = uct_md_query(m_md, &attr);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_md_mem_reg(m_md, memory.get(), length, UCT_MD_MEM_ACCESS_ALL,
                            &memh);
    if (status != UCS_OK) {
        return status;
    }

    std::vector<char> key(attr.rkey_packed_size);
    status = uct_md_mkey_pack(m_md, memh, &key[0]);
    uct_md_mem_dereg(m_md, memh);
    return status;
}

void peer_transport::work_share(const command &cmd, answer &ans)
{
    for (uint64_t round = 0; round < cmd.head.number[0]; ++round) {
        if (share_once(cmd.head.number[1]) != UCS_OK) {
            ++ans.head.number[0];
        }
    }
}

ucs_status_t peer_transport::zcopy_once(const work &todo,
                                        const uct_rkey_bundle_t &rkey,
                                        bool is_put)
{
    const std::chrono::seconds hang(20);
    std::chrono::steady_clock::time_point deadline =
            std::chrono::steady_clock::now() + hang;
    completion *comp = new_completion();
    uct_iov_t iov    = {};
    ucs_status_t status;

    iov.buffer = todo.local->get();
    iov.length = todo.length;
    iov.memh   = UCT_MEM_HANDLE_NULL;
    iov.count  = 1;
    status = is_put ? uct_ep_put_zcopy(todo.ep, &iov, 1, todo.remote_address,
                                       rkey.rkey, &comp->super) :
                      uct_ep_get_zcopy(todo.ep, &iov, 1, todo.remote_address,
                                       rkey.rkey, &comp->super);
    if (status == UCS_INPROGRESS) {
        while (comp->calls.load() == 0) {
            if (uct_worker_progress(todo.on.worker) == 0) {
                sched_yield();
            }

            if (std::chrono::steady_clock::now() > deadline) {
                return UCS_ERR_TIMED_OUT; /* The completion is still in use */
            }
        }
        status = comp->super.status;
    }

    delete comp;
    return status;
}

ucs_status_t
peer_transport::copy_once(const work &todo, const uct_rkey_bundle_t &rkey)
{
    const uint64_t untouched = ~todo.seed;
    ucs_status_t status;

    if (todo.kind & WORK_PUT) {
        todo.local->fill(todo.seed, todo.position);
        status = zcopy_once(todo, rkey, true);
        if (status != UCS_OK) {
            return status;
        }
    }

    todo.local->fill(untouched, 0);
    status = zcopy_once(todo, rkey, false);
    if (status == UCS_OK) {
        return todo.local->holds(todo.seed, todo.position) ?
                       UCS_OK :
                       UCS_ERR_INVALID_PARAM;
    } else if (status == UCS_ERR_TIMED_OUT) {
        return status;
    }

    return todo.local->holds(untouched, 0) ? status : UCS_ERR_INVALID_PARAM;
}

static bool pointer_shows(const void *address, size_t length, uint64_t seed,
                          uint64_t position)
{
    const uint8_t *bytes = (const uint8_t*)address;

    for (size_t i = 0; i < length; ++i) {
        if (bytes[i] != pattern_byte(seed, position + i)) {
            return false;
        }
    }

    return true;
}

/** UCS_ERR_INVALID_PARAM stands for wrong data: with a good key nothing else
 *  returns it. */
ucs_status_t peer_transport::import_once(const work &todo)
{
    uct_rkey_bundle_t rkey;
    ucs_status_t status;
    void *pointer;

    status = uct_rkey_unpack(m_component, todo.key.data(), &rkey);
    if (status != UCS_OK) {
        return status;
    }

    if (todo.kind & WORK_POINTER) {
        status = uct_rkey_ptr(m_component, &rkey, todo.remote_address,
                              &pointer);
        if ((status == UCS_OK) &&
            !pointer_shows(pointer, todo.length, todo.seed, todo.position)) {
            status = UCS_ERR_INVALID_PARAM;
        }
    } else {
        status = copy_once(todo, rkey);
    }

    uct_rkey_release(m_component, &rkey);
    return status;
}

void peer_transport::work_import(const command &cmd, answer &ans)
{
    device_memory local(cmd.head.number[3]);
    work todo = {
        m_ifaces.get(cmd.head.number[0]), m_eps.get(cmd.head.number[1]),
        cmd.head.number[2], (size_t)cmd.head.number[3], cmd.head.number[4],
        cmd.head.number[5], cmd.head.number[7], &local, cmd.data
    };
    ucs_status_t status;

    for (uint64_t round = 0; round < cmd.head.number[6]; ++round) {
        status = import_once(todo);
        if (status == UCS_OK) {
            ++ans.head.number[0];
            continue;
        }

        ++ans.head.number[(status == UCS_ERR_INVALID_PARAM) ? 2 : 1];
        ans.head.number[3] = (uint64_t)(int64_t)status;
    }
}

void peer_transport::work_progress(const command &cmd, answer &)
{
    uct_worker_h worker = m_ifaces.get(cmd.head.number[0]).worker;

    for (uint64_t round = 0; round < cmd.head.number[1]; ++round) {
        uct_worker_progress(worker);
        sched_yield();
    }
}

} /* namespace rocm_ipc */
