/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_TRANSPORT_H
#define CUDA_TRANSPORT_H

#include "cuda_device.h"

extern "C" {
#include <uct/api/uct.h>
#if UCX_HAS_MKEY_PACK_RANGE
#include <uct/api/v2/uct_v2.h>
#endif
}

#include <map>
#include <string>
#include <vector>

/**
 * @file cuda_transport.h
 * @brief A UCT transport with one interface, for one thread. Used by the test
 *        program and by the owner process.
 */
namespace cuda_test {

/** Where an interface is reached, as it goes from process to process. */
struct interface_address {
    std::string device;
    std::string iface;
};

class transport {
public:
    /** Variables of the interface's configuration, without any prefix. */
    typedef std::map<std::string, std::string> config_t;

    /**
     * Open the memory domain and an interface.
     *
     * @param [in] name     Of the transport.
     * @param [in] config   What differs from the defaults.
     * @param [in] event_cb Called, on any thread, by a transport that has no
     *                      event file descriptor.
     * @param [in] arg      For @a event_cb.
     */
    transport(const std::string &name, const config_t &config,
              uct_async_event_cb_t event_cb = NULL, void *arg = NULL);
    ~transport();

    uct_md_h md() const
    {
        return m_md;
    }

    uct_iface_h iface() const
    {
        return m_iface;
    }

    uct_component_h component() const
    {
        return m_component;
    }

    interface_address address() const;

    /** Whether the transport has an event file descriptor. */
    bool has_event_fd() const;

    /** The caller destroys it. */
    uct_ep_h connect(const interface_address &peer) const;

    /** Register memory and pack its key. The registration ends with this. */
    std::string share(void *address, size_t length);

    /** Unpack a key, which ends with this. */
    uct_rkey_t import(const std::string &key);

    /** Close the interface and no more. */
    void close_iface();

private:
    transport(const transport &);
    transport &operator=(const transport &);

    void open_md(const std::string &name);
    void open_md_of(uct_component_h component, const std::string &name);
    bool has_transport(uct_md_h md, const std::string &name);
    void open_iface(const std::string &name, const config_t &config,
                    uct_async_event_cb_t event_cb, void *arg);
    void close();

    uct_component_h                m_component;
    uct_md_h                       m_md;
    std::string                    m_device;
    ucs_async_context_t            *m_async;
    uct_worker_h                   m_worker;
    uct_iface_h                    m_iface;
    std::vector<uct_mem_h>         m_memhs;
    std::vector<uct_rkey_bundle_t> m_rkeys;
};

} /* namespace cuda_test */

#endif
