/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_transport.h"

#include <ctype.h>
#include <string.h>

#include <algorithm>

namespace cuda_test {

static void must_uct(ucs_status_t status, const std::string &call)
{
    if (status != UCS_OK) {
        throw failure(call + ": " + ucs_status_string(status));
    }
}

transport::transport(const std::string &name, const config_t &config,
                     uct_async_event_cb_t event_cb, void *arg) :
    m_component(NULL), m_md(NULL), m_async(NULL), m_worker(NULL), m_iface(NULL)
{
    try {
        open_md(name);
        open_iface(name, config, event_cb, arg);
    } catch (const failure &) {
        close();
        throw;
    }
}

transport::~transport()
{
    close();
}

void transport::open_md(const std::string &name)
{
    uct_component_h *components;
    unsigned num_components;

    must_uct(uct_query_components(&components, &num_components),
             "uct_query_components");
    for (unsigned i = 0; (i < num_components) && (m_md == NULL); ++i) {
        open_md_of(components[i], name);
    }
    uct_release_component_list(components);

    if (m_md == NULL) {
        throw failure("there is no transport " + name);
    }
}

/** Open the component's memory domain if it has this transport. */
void transport::open_md_of(uct_component_h component, const std::string &name)
{
    uct_component_attr_t attr;
    uct_md_config_t *config;
    ucs_status_t status;
    uct_md_h md;

    /* Others than those of CUDA would be opened in vain */
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    if ((uct_component_query(component, &attr) != UCS_OK) ||
        (strncmp(attr.name, "cuda", 4) != 0) || (attr.md_resource_count == 0)) {
        return;
    }

    must_uct(uct_md_config_read(component, NULL, NULL, &config),
             "uct_md_config_read");
    status = uct_md_open(component, attr.name, config, &md);
    uct_config_release(config);
    if (status != UCS_OK) {
        return;
    }

    if (!has_transport(md, name)) {
        uct_md_close(md);
        return;
    }

    m_component = component;
    m_md        = md;
}

bool transport::has_transport(uct_md_h md, const std::string &name)
{
    uct_tl_resource_desc_t *resources;
    unsigned num_resources;
    bool found = false;

    must_uct(uct_md_query_tl_resources(md, &resources, &num_resources),
             "uct_md_query_tl_resources");
    for (unsigned i = 0; i < num_resources; ++i) {
        if (name == resources[i].tl_name) {
            m_device = resources[i].dev_name;
            found    = true;
        }
    }

    uct_release_tl_resource_list(resources);
    return found;
}

/** Newer releases of UCX want the name of a variable with the transport's. */
static ucs_status_t modify(uct_iface_config_t *values, std::string prefix,
                           const std::string &name, const std::string &value)
{
    ucs_status_t status;

    status = uct_config_modify(values, name.c_str(), value.c_str());
    if (status != UCS_ERR_NO_ELEM) {
        return status;
    }

    std::transform(prefix.begin(), prefix.end(), prefix.begin(), toupper);
    return uct_config_modify(values, (prefix + "_" + name).c_str(),
                             value.c_str());
}

void transport::open_iface(const std::string &name, const config_t &config,
                           uct_async_event_cb_t event_cb, void *arg)
{
    uct_iface_params_t params = {};
    uct_iface_config_t *values;
    config_t::const_iterator it;
    ucs_status_t status;

    /* The transport's callback comes on a thread of the driver */
    must_uct(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &m_async),
             "ucs_async_context_create");
    must_uct(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker),
             "uct_worker_create");
    must_uct(uct_md_iface_config_read(m_md, name.c_str(), NULL, NULL, &values),
             "uct_md_iface_config_read");

    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                        UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = name.c_str();
    params.mode.device.dev_name = m_device.c_str();
    if (event_cb != NULL) {
        params.field_mask |= UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_CB |
                             UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_ARG;
        params.async_event_cb  = event_cb;
        params.async_event_arg = arg;
    }

    status = UCS_OK;
    for (it = config.begin(); (it != config.end()) && (status == UCS_OK);
         ++it) {
        status = modify(values, name, it->first, it->second);
    }

    if (status == UCS_OK) {
        status = uct_iface_open(m_md, m_worker, &params, values, &m_iface);
    }
    uct_config_release(values);
    must_uct(status, "uct_iface_open");
}

void transport::close_iface()
{
    if (m_iface != NULL) {
        uct_iface_close(m_iface);
        m_iface = NULL;
    }
}

void transport::close()
{
    for (size_t i = 0; i < m_rkeys.size(); ++i) {
        uct_rkey_release(m_component, &m_rkeys[i]);
    }
    for (size_t i = 0; i < m_memhs.size(); ++i) {
        uct_md_mem_dereg(m_md, m_memhs[i]);
    }

    close_iface();
    if (m_worker != NULL) {
        uct_worker_destroy(m_worker);
    }
    if (m_async != NULL) {
        ucs_async_context_destroy(m_async);
    }
    if (m_md != NULL) {
        uct_md_close(m_md);
    }
}

interface_address transport::address() const
{
    interface_address result;
    uct_iface_attr_t attr;

    must_uct(uct_iface_query(m_iface, &attr), "uct_iface_query");
    result.device.resize(attr.device_addr_len);
    result.iface.resize(attr.iface_addr_len);
    must_uct(uct_iface_get_device_address(
                     m_iface, (uct_device_addr_t*)&result.device[0]),
             "uct_iface_get_device_address");
    must_uct(uct_iface_get_address(m_iface,
                                   (uct_iface_addr_t*)&result.iface[0]),
             "uct_iface_get_address");
    return result;
}

bool transport::has_event_fd() const
{
    uct_iface_attr_t attr;

    must_uct(uct_iface_query(m_iface, &attr), "uct_iface_query");
    return (attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) != 0;
}

uct_ep_h transport::connect(const interface_address &peer) const
{
    uct_ep_params_t params = {};
    uct_ep_h ep;

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = m_iface;
    params.dev_addr   = (const uct_device_addr_t*)peer.device.data();
    params.iface_addr = (const uct_iface_addr_t*)peer.iface.data();
    must_uct(uct_ep_create(&params, &ep), "uct_ep_create");
    return ep;
}

std::string transport::share(void *address, size_t length)
{
    std::string key;
    uct_md_attr_t attr;
    uct_mem_h memh;

    must_uct(uct_md_query(m_md, &attr), "uct_md_query");
    must_uct(uct_md_mem_reg(m_md, address, length, UCT_MD_MEM_ACCESS_ALL,
                            &memh),
             "uct_md_mem_reg");
    m_memhs.push_back(memh);
    key.resize(attr.rkey_packed_size);
#if UCX_HAS_MKEY_PACK_RANGE
    uct_md_mkey_pack_params_t params = {};

    must_uct(uct_md_mkey_pack_v2(m_md, memh, address, length, &params, &key[0]),
             "uct_md_mkey_pack_v2");
#else
    must_uct(uct_md_mkey_pack(m_md, memh, &key[0]), "uct_md_mkey_pack");
#endif
    return key;
}

uct_rkey_t transport::import(const std::string &key)
{
    std::string writable(key); /* Some releases write into it */
    uct_rkey_bundle_t bundle;

    must_uct(uct_rkey_unpack(m_component, &writable[0], &bundle),
             "uct_rkey_unpack");
    m_rkeys.push_back(bundle);
    return bundle.rkey;
}

} /* namespace cuda_test */
