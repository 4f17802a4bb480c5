/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef DEMO_UCT_H_
#define DEMO_UCT_H_

#include <uct/api/uct.h>

#include <string>
#include <vector>

namespace demo {

/** Throws if UCX could not do it. */
void check_ucx(ucs_status_t status, const std::string &what);

/**
 * A transport of UCX, opened in this process through UCT, the layer of UCX that
 * has one function for each thing that a transport can do.
 */
class transport {
public:
    transport(const transport&)            = delete;
    transport &operator=(const transport&) = delete;

    /** What a peer needs to know to reach this process. */
    std::string device_address() const;
    std::string iface_address() const;

    /** Register GPU memory, so that a key for it can be made. Undo it with
     *  @ref deregister; the memory stays the caller's. */
    uct_mem_h register_memory(void *address, size_t length) const;

    /** The key that lets a peer map registered memory: bytes to be sent. */
    std::string pack_key(uct_mem_h memory) const;

    void deregister(uct_mem_h memory) const;

    /** An endpoint, which is the caller's, to who has these addresses. */
    uct_ep_h connect(const std::string &device_address,
                     const std::string &iface_address) const;

    const std::string &name() const
    {
        return m_name;
    }

    uct_component_h component() const
    {
        return m_component;
    }

    uct_iface_h iface() const
    {
        return m_iface;
    }

    uct_worker_h worker() const
    {
        return m_worker;
    }

protected:
    /**
     * Open the transport. Throws demo::error if UCX does not offer it.
     *
     * @param name      The transport's.
     * @param component The name of what it is a part of.
     * @param module    UCX's library that has it.
     * @param event_cb  Called when something has completed, if not NULL.
     */
    transport(const std::string &name, const std::string &component,
              const std::string &module,
              uct_async_event_cb_t event_cb = nullptr);

    ~transport();

    const uct_iface_attr_t &iface_attr() const
    {
        return m_iface_attr;
    }

private:
    void open(const std::string &component, const std::string &module,
              uct_async_event_cb_t event_cb);
    void close();
    void open_md();
    void open_iface(uct_async_event_cb_t event_cb);

    const std::string   m_name;
    uct_component_h     m_component = nullptr;
    uct_md_h            m_md        = nullptr;
    ucs_async_context_t *m_async    = nullptr;
    uct_worker_h        m_worker    = nullptr;
    uct_iface_h         m_iface     = nullptr;
    uct_iface_attr_t    m_iface_attr;
    size_t              m_key_size  = 0;
};

/** UCX's rocm_ipc transport. */
class rocm_ipc : public transport {
public:
    rocm_ipc() : transport("rocm_ipc", "rocm_ipc", "libuct_rocm.so")
    {
    }
};

/** A peer's memory, reached through rocm_ipc. */
class remote_memory {
public:
    /** Connect to the peer with these addresses and take its packed key. */
    remote_memory(const rocm_ipc &transport, const std::string &device_address,
                  const std::string &iface_address, const std::string &key);

    remote_memory(const remote_memory&)            = delete;
    remote_memory &operator=(const remote_memory&) = delete;

    ~remote_memory();

    /** Copy @a length bytes from the peer's @a remote_address to local GPU
     *  memory. Maps the peer's memory and returns when the copy is done. */
    void get(void *local, uint64_t remote_address, size_t length);

private:
    const rocm_ipc    &m_transport;
    const uct_ep_h    m_ep;
    uct_rkey_bundle_t m_rkey;
};

} // namespace demo

#endif
