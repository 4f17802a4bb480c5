/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_transport.h"

#include <ucs/async/async_fwd.h>

#include <cstring>
#include <vector>

#include <unistd.h>

namespace bench {

void check_cuda(cudaError_t status, const char *call)
{
    if (status != cudaSuccess) {
        throw demo::error(std::string(call) + " failed: " +
                          cudaGetErrorString(status));
    }
}

void check_ucx(ucs_status_t status, const std::string &what)
{
    if (status != UCS_OK) {
        throw demo::error("UCX cannot " + what + ": " +
                          ucs_status_string(status));
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

/* Name of the component's memory domain */
std::string find_md(uct_component_h component)
{
    std::vector<uct_md_resource_desc_t> resources;
    uct_component_attr_t attr = {};

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    check_ucx(uct_component_query(component, &attr), "query a component");
    if (attr.md_resource_count == 0) {
        throw demo::error("UCX's CUDA transports find no GPU");
    }

    resources.resize(attr.md_resource_count);
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = resources.data();
    check_ucx(uct_component_query(component, &attr), "query a component");
    return resources[0].md_name;
}

/* The only device of the memory domain's transport */
std::string find_device(uct_md_h md)
{
    uct_tl_resource_desc_t *resources;
    std::string device;
    unsigned count;

    check_ucx(uct_md_query_tl_resources(md, &resources, &count),
              "list the devices of a transport");
    if (count > 0) {
        device = resources[0].dev_name;
    }

    uct_release_tl_resource_list(resources);
    if (device.empty()) {
        throw demo::error("UCX's CUDA transports find no GPU");
    }

    return device;
}

void do_nothing(void *, unsigned)
{
}

} // namespace

cuda_transport::cuda_transport(const std::string &name) : m_name(name)
{
    try {
        open();
    } catch (...) {
        close();
        throw;
    }
}

cuda_transport::~cuda_transport()
{
    close();
}

void cuda_transport::open()
{
    /* Components have the names of their transports */
    m_component = find_component((m_name == "cuda_copy") ? "cuda_cpy" : m_name);
    if (m_component == nullptr) {
        throw demo::error("UCX has no " + m_name + " transport: its module "
                          "libuct_cuda.so was not loaded, see UCX_MODULE_DIR");
    }

    open_md();
    check_ucx(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                       &m_async),
              "create an async context");
    check_ucx(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker),
              "create a worker");
    open_iface();
}

void cuda_transport::open_md()
{
    const std::string md_name = find_md(m_component);
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

void cuda_transport::open_iface()
{
    const std::string device  = find_device(m_md);
    uct_iface_params_t params = {};
    uct_iface_config_t *config;
    ucs_status_t status;

    params.field_mask           = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                                  UCT_IFACE_PARAM_FIELD_DEVICE |
                                  UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_CB;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = m_name.c_str();
    params.mode.device.dev_name = device.c_str();
    params.async_event_cb       = do_nothing;

    check_ucx(uct_md_iface_config_read(m_md, m_name.c_str(), nullptr, nullptr,
                                       &config),
              "read the configuration of the interface");
    status = uct_iface_open(m_md, m_worker, &params, config, &m_iface);
    uct_config_release(config);
    check_ucx(status, "open the interface");

    check_ucx(uct_iface_query(m_iface, &m_iface_attr), "query the interface");
    uct_iface_progress_enable(m_iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    if (m_iface_attr.cap.event_flags & UCT_IFACE_FLAG_EVENT_FD) {
        check_ucx(uct_iface_event_fd_get(m_iface, &m_event_fd),
                  "tell its file descriptor");
    }
}

void cuda_transport::close()
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

std::string cuda_transport::device_address() const
{
    std::string address(m_iface_attr.device_addr_len, '\0');

    check_ucx(uct_iface_get_device_address(
                      m_iface,
                      reinterpret_cast<uct_device_addr_t*>(address.data())),
              "tell its device address");
    return address;
}

std::string cuda_transport::iface_address() const
{
    std::string address(m_iface_attr.iface_addr_len, '\0');

    check_ucx(uct_iface_get_address(
                      m_iface,
                      reinterpret_cast<uct_iface_addr_t*>(address.data())),
              "tell its interface address");
    return address;
}

std::string cuda_transport::make_key(void *address, size_t length) const
{
    std::string key(m_key_size, '\0');
    uct_mem_h memory;

    check_ucx(uct_md_mem_reg(m_md, address, length, UCT_MD_MEM_ACCESS_ALL,
                             &memory),
              "register a buffer");

    const ucs_status_t status = uct_md_mkey_pack(m_md, memory, key.data());

    uct_md_mem_dereg(m_md, memory);
    check_ucx(status, "make a key");
    return key;
}

uct_ep_h cuda_transport::connect(const std::string &device_address,
                                 const std::string &iface_address) const
{
    uct_ep_params_t params = {};
    uct_ep_h ep;

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                        UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = m_iface;
    params.dev_addr   = reinterpret_cast<const uct_device_addr_t*>(
            device_address.data());
    params.iface_addr = reinterpret_cast<const uct_iface_addr_t*>(
            iface_address.data());
    check_ucx(uct_ep_create(&params, &ep), "connect by " + m_name);
    return ep;
}

void cuda_transport::finish() const
{
    while (uct_iface_flush(m_iface, 0, nullptr) == UCS_INPROGRESS) {
        progress();
    }
}

void cuda_transport::disarm() const
{
    uint64_t count;

    if ((m_event_fd != -1) &&
        (read(m_event_fd, &count, sizeof(count)) == -1) && (errno != EAGAIN)) {
        throw demo::error(std::string("read: ") + strerror(errno));
    }
}

} // namespace bench
