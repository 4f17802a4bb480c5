/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef ROCM_IPC_PEER_H
#define ROCM_IPC_PEER_H

#include "rocm_ipc_protocol.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <emul/emul.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

/**
 * @file rocm_ipc_peer.h
 * @brief What a peer does when it is told to; rocm_ipc_protocol.h has the
 *        meaning of each verb, its arguments and its results.
 *
 * All of this may be called from any lane.
 */
namespace rocm_ipc {

/** A request as the peer received it. */
struct command {
    request     head;
    std::string data;
};

/** A reply that the peer is making up. */
struct answer {
    reply       head;
    std::string data;
};

/** The director named an object that does not exist: a fault of the test. */
class no_such_object : public std::runtime_error {
public:
    no_such_object() : std::runtime_error("no such object")
    {
    }
};

/** Objects of one kind, by identifiers that are never used twice. */
template<typename T> class object_table {
public:
    object_table() : m_last_id(0)
    {
    }

    uint64_t add(const T &object)
    {
        std::lock_guard<std::mutex> guard(m_lock);
        m_objects[++m_last_id] = object;
        return m_last_id;
    }

    T get(uint64_t id)
    {
        std::lock_guard<std::mutex> guard(m_lock);
        return find(id)->second;
    }

    T remove(uint64_t id)
    {
        std::lock_guard<std::mutex> guard(m_lock);
        typename std::map<uint64_t, T>::iterator it = find(id);
        T object                                    = it->second;

        m_objects.erase(it);
        return object;
    }

    /** Take all objects out of the table. */
    std::map<uint64_t, T> remove_all()
    {
        std::lock_guard<std::mutex> guard(m_lock);
        std::map<uint64_t, T> objects;

        objects.swap(m_objects);
        return objects;
    }

private:
    typename std::map<uint64_t, T>::iterator find(uint64_t id)
    {
        typename std::map<uint64_t, T>::iterator it = m_objects.find(id);

        if (it == m_objects.end()) {
            throw no_such_object();
        }

        return it;
    }

    std::mutex            m_lock;
    std::map<uint64_t, T> m_objects;
    uint64_t              m_last_id;
};

/** Memory of the peer: allocated and freed as an application does it, through
 *  HIP, so that the hooks of UCM see it or fail to see it as in real life. */
class peer_memory {
public:
    /** @return number of GPUs, which also starts the runtime */
    static int num_devices();

    void alloc(const command &cmd, answer &ans);
    void free(const command &cmd, answer &ans);
    void fill(const command &cmd, answer &ans);
    void check(const command &cmd, answer &ans);
    ucs_status_t free_all();

private:
    struct block {
        size_t            length;
        ucs_memory_type_t type;
    };

    static ucs_status_t free_block(uint64_t address, ucs_memory_type_t type);
    bool needs_runtime(const command &cmd);

    std::mutex                m_lock;
    std::map<uint64_t, block> m_blocks; /* by address */
};

/** The transport under test, through UCT's public interface only. */
class peer_transport {
public:
    peer_transport();

    void md_open(const command &cmd, answer &ans);
    void md_query(const command &cmd, answer &ans);
    void reg(const command &cmd, answer &ans);
    void dereg(const command &cmd, answer &ans);
    void pack(const command &cmd, answer &ans);
    void iface_open(const command &cmd, answer &ans);
    void iface_query(const command &cmd, answer &ans);
    void iface_address(const command &cmd, answer &ans);
    void iface_reachable(const command &cmd, answer &ans);
    void iface_flush(const command &cmd, answer &ans);
    void ep_create(const command &cmd, answer &ans);
    void ep_destroy(const command &cmd, answer &ans);
    void ep_zcopy(const command &cmd, answer &ans);
    void ep_flush(const command &cmd, answer &ans);
    void unpack(const command &cmd, answer &ans);
    void rkey_ptr(const command &cmd, answer &ans);
    void rkey_release(const command &cmd, answer &ans);
#if UCX_HAS_ROCM_DEVICE_EP
    void device_ep(const command &cmd, answer &ans);
    void elem_pack(const command &cmd, answer &ans);
    void elem_release(const command &cmd, answer &ans);
#endif
    void progress(const command &cmd, answer &ans);
    void completion_query(const command &cmd, answer &ans);

    void work_share(const command &cmd, answer &ans);
    void work_import(const command &cmd, answer &ans);
    void work_progress(const command &cmd, answer &ans);

    void close_rkeys();
    void close_eps();
    void close_ifaces();
    void close_completions();
    void close_memhs();
    void close_md();

private:
    struct iface {
        ucs_async_context_t *async;
        uct_worker_h        worker;
        uct_iface_h         iface;
    };

    struct completion {
        uct_completion_t super; /* first: the callback casts back */
        std::atomic<int> calls;
    };

    struct work;

    ucs_status_t share_once(size_t length);
    ucs_status_t import_once(const work &todo);
    ucs_status_t copy_once(const work &todo, const uct_rkey_bundle_t &rkey);
    ucs_status_t
    zcopy_once(const work &todo, const uct_rkey_bundle_t &rkey, bool is_put);
    ucs_status_t find_component();
    ucs_status_t open_iface(iface &opened);
    static void close_iface(const iface &closed);
    static completion *new_completion();
    static void completed(uct_completion_t *self);
    static void report_completion(const completion *comp, answer &ans);

    uct_component_h            m_component;
    uct_md_h                   m_md;
    object_table<uct_mem_h>    m_memhs;
    object_table<iface>        m_ifaces;
    object_table<uct_ep_h>     m_eps;
    object_table<uct_rkey_bundle_t> m_rkeys;
    object_table<completion*>  m_completions;
#if UCX_HAS_ROCM_DEVICE_EP
    object_table<void*>        m_elems;
#endif
};

/** What the operating system does to the peer. */
class peer_process {
public:
    static void fork(const command &cmd, answer &ans);
    static void limit_files(const command &cmd, answer &ans);
    static void refuse_pidfd(const command &cmd, answer &ans);
};

/** The emulated runtime, where there is one. */
class peer_emulator {
public:
    static void count(const command &cmd, answer &ans);
    static void calls(const command &cmd, answer &ans);
    static void fail(const command &cmd, answer &ans);
    static void gate_close(const command &cmd, answer &ans);
    static void gate_open(const command &cmd, answer &ans);
    static void gate_waiters(const command &cmd, answer &ans);
    static void set(const command &cmd, answer &ans);
};

} /* namespace rocm_ipc */

#endif
