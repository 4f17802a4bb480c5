/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "demo_uct.h"
#include "demo_channel.h"

#include <ucs/async/async_fwd.h>

namespace demo {

void check_ucx(ucs_status_t status, const std::string &what)
{
    if (status != UCS_OK) {
        throw error("UCX cannot " + what + ": " + ucs_status_string(status));
    }
}

namespace {

/* Component of that name, or NULL if UCX has not found its module */
uct_component_h find_component(const std::string &name)
{
    uct_component_h *components, found = nullptr;
    unsigned count;

    check_ucx(uct_query_components(&components, &count), "list its components");

    for (unsigned i = 0; i < count; ++i) {
        uct_component_attr_t attr = {};

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        if ((uct_component_query(components[i], &attr) == UCS_OK) &&
            (attr.name == name)) {
            found = components[i];
        }
    }

    uct_release_component_list(components);
    return found;
}

/* Name of the component's memory domain; asking for it makes the component look
 * for GPUs, too. */
std::string find_md(uct_component_h component, const std::string &transport)
{
    std::vector<uct_md_resource_desc_t> resources;
    uct_component_attr_t attr = {};

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check_ucx(uct_component_query(component, &attr), "query " + transport);
    if (attr.md_resource_count == 0) {
        throw error("UCX's " + transport + " transport finds no GPU");
    }

    resources.resize(attr.md_resource_count);
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = resources.data();
    check_ucx(uct_component_query(component, &attr), "query " + transport);
    return resources[0].md_name;
}

/* Device of the first transport of the memory domain that has this name */
std::string find_device(uct_md_h md, const std::string &transport)
{
    uct_tl_resource_desc_t *resources;
    std::string device;
    unsigned count;

    check_ucx(uct_md_query_tl_resources(md, &resources, &count),
          "list the devices of its " + transport + " transport");

    for (unsigned i = count; i-- > 0;) {
        if (resources[i].tl_name == transport) {
            device = resources[i].dev_name;
        }
    }

    uct_release_tl_resource_list(resources);
    if (device.empty()) {
        throw error("UCX's " + transport + " transport finds no GPU");
    }

    return device;
}

/* Completion that remembers how the operation has ended */
struct completion {
    uct_completion_t super = {};
    bool             done  = false;

    completion()
    {
        super.count  = 1;
        super.status = UCS_OK;
        super.func   = [](uct_completion_t *comp) {
            reinterpret_cast<completion*>(comp)->done = true;
        };
    }
};

} // namespace

transport::transport(const std::string &name, const std::string &component,
                     const std::string &module, uct_async_event_cb_t event_cb) :
    m_name(name)
{
    try {
        open(component, module, event_cb);
    } catch (...) {
        close();
        throw;
    }
}

transport::~transport()
{
    close();
}

void transport::open(const std::string &component, const std::string &module,
                     uct_async_event_cb_t event_cb)
{
    m_component = find_component(component);
    if (m_component == nullptr) {
        throw error("UCX has no " + m_name + " transport: its module " +
                    module + " was not loaded, see UCX_MODULE_DIR");
    }

    open_md();
    check_ucx(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                       &m_async),
              "create an async context");
    check_ucx(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker),
              "create a worker");
    open_iface(event_cb);
}

void transport::open_md()
{
    const std::string md_name = find_md(m_component, m_name);
    uct_md_config_t *config;
    uct_md_attr_t attr;
    ucs_status_t status;

    check_ucx(uct_md_config_read(m_component, nullptr, nullptr, &config),
              "read the configuration of " + m_name);
    status = uct_md_open(m_component, md_name.c_str(), config, &m_md);
    uct_config_release(config);
    check_ucx(status, "open " + m_name);

    check_ucx(uct_md_query(m_md, &attr), "query " + m_name);
    m_key_size = attr.rkey_packed_size;
}

void transport::open_iface(uct_async_event_cb_t event_cb)
{
    const std::string device  = find_device(m_md, m_name);
    uct_iface_params_t params = {};
    uct_iface_config_t *config;
    ucs_status_t status;

    params.field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                  UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = m_name.c_str();
    params.mode.device.dev_name = device.c_str();
    if (event_cb != nullptr) {
        params.field_mask    |= UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_CB;
        params.async_event_cb = event_cb;
    }

    check_ucx(uct_md_iface_config_read(m_md, m_name.c_str(), nullptr, nullptr,
                                       &config),
              "read the configuration of the " + m_name + " interface");
    status = uct_iface_open(m_md, m_worker, &params, config, &m_iface);
    uct_config_release(config);
    check_ucx(status, "open the " + m_name + " interface");

    check_ucx(uct_iface_query(m_iface, &m_iface_attr),
              "query the " + m_name + " interface");
    uct_iface_progress_enable(m_iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

void transport::close()
{
    if (m_iface != nullptr) {
        uct_iface_close(m_iface);
    }

    if (m_worker != nullptr) {
        uct_worker_destroy(m_worker);
    }

    if (m_async != nullptr) {
        ucs_async_context_destroy(m_async);
    }

    if (m_md != nullptr) {
        uct_md_close(m_md);
    }
}

std::string transport::device_address() const
{
    std::string address(m_iface_attr.device_addr_len, '\0');

    check_ucx(uct_iface_get_device_address(
                  m_iface,
                  reinterpret_cast<uct_device_addr_t*>(address.data())),
          "tell its device address");
    return address;
}

std::string transport::iface_address() const
{
    std::string address(m_iface_attr.iface_addr_len, '\0');

    check_ucx(uct_iface_get_address(
                  m_iface, reinterpret_cast<uct_iface_addr_t*>(address.data())),
          "tell its interface address");
    return address;
}

uct_mem_h transport::register_memory(void *address, size_t length) const
{
    uct_mem_h memory;

    check_ucx(uct_md_mem_reg(m_md, address, length, UCT_MD_MEM_ACCESS_ALL, &memory),
          "register the buffer");
    return memory;
}

std::string transport::pack_key(uct_mem_h memory) const
{
    std::string key(m_key_size, '\0');

    check_ucx(uct_md_mkey_pack(m_md, memory, key.data()), "make a key");
    return key;
}

void transport::deregister(uct_mem_h memory) const
{
    check_ucx(uct_md_mem_dereg(m_md, memory), "deregister the buffer");
}

uct_ep_h transport::connect(const std::string &device_address,
                            const std::string &iface_address) const
{
    const auto *device_addr = reinterpret_cast<const uct_device_addr_t*>(
            device_address.data());
    const auto *iface_addr  = reinterpret_cast<const uct_iface_addr_t*>(
            iface_address.data());
    uct_ep_params_t params  = {};
    uct_ep_h ep;

    if (!uct_iface_is_reachable(m_iface, device_addr, iface_addr)) {
        throw error("UCX says that the owner cannot be reached by " + m_name);
    }

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = m_iface;
    params.dev_addr   = device_addr;
    params.iface_addr = iface_addr;
    check_ucx(uct_ep_create(&params, &ep), "connect to the owner");
    return ep;
}

remote_memory::remote_memory(const rocm_ipc &transport,
                             const std::string &device_address,
                             const std::string &iface_address,
                             const std::string &key) :
    m_transport(transport),
    m_ep(transport.connect(device_address, iface_address))
{
    const ucs_status_t status = uct_rkey_unpack(transport.component(),
                                                key.data(), &m_rkey);
    if (status != UCS_OK) {
        uct_ep_destroy(m_ep);
        check_ucx(status, "unpack the owner's key");
    }
}

remote_memory::~remote_memory()
{
    uct_rkey_release(m_transport.component(), &m_rkey);
    uct_ep_destroy(m_ep);
}

void remote_memory::get(void *local, uint64_t remote_address, size_t length)
{
    completion comp;
    uct_iov_t iov = {};

    iov.buffer = local;
    iov.length = length;
    iov.memh   = UCT_MEM_HANDLE_NULL;
    iov.count  = 1;

    const ucs_status_t status = uct_ep_get_zcopy(m_ep, &iov, 1, remote_address,
                                                 m_rkey.rkey, &comp.super);
    if (status == UCS_OK) {
        return;
    }

    if (status != UCS_INPROGRESS) {
        check_ucx(status, "copy from the owner's buffer");
    }

    while (!comp.done) {
        uct_worker_progress(m_transport.worker());
    }

    check_ucx(comp.super.status, "copy from the owner's buffer");
}

} // namespace demo
