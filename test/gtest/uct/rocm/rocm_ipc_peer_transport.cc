/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_peer.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <new>

namespace rocm_ipc {

static const char component_name[] = "rocm_ipc";

/**
 * Memory whose last byte is the last one before a page that cannot be touched:
 * whoever reads or writes beyond a key dies.
 */
class guarded_bytes {
public:
    guarded_bytes(size_t length, int first_value)
    {
        size_t page = sysconf(_SC_PAGESIZE);

        m_mapped = ((length + page - 1) / page) * page;
        m_map    = mmap(NULL, m_mapped + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if ((m_map == MAP_FAILED) ||
            (mprotect((char*)m_map + m_mapped, page, PROT_NONE) != 0)) {
            throw std::bad_alloc();
        }

        m_mapped += page;
        m_bytes   = (char*)m_map + m_mapped - page - length;
        memset(m_bytes, first_value, length);
    }

    ~guarded_bytes()
    {
        munmap(m_map, m_mapped);
    }

    char *get() const
    {
        return m_bytes;
    }

private:
    guarded_bytes(const guarded_bytes &);
    guarded_bytes &operator=(const guarded_bytes &);

    void   *m_map;
    size_t m_mapped;
    char   *m_bytes;
};

peer_transport::peer_transport() : m_component(NULL), m_md(NULL)
{
}

ucs_status_t peer_transport::find_component()
{
    uct_component_attr_t attr;
    uct_component_h *components;
    unsigned num_components, i;
    ucs_status_t status;

    status = uct_query_components(&components, &num_components);
    if (status != UCS_OK) {
        return status;
    }

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
    for (i = 0; i < num_components; ++i) {
        if ((uct_component_query(components[i], &attr) == UCS_OK) &&
            (strcmp(attr.name, component_name) == 0)) {
            m_component = components[i];
        }
    }

    uct_release_component_list(components);
    return (m_component == NULL) ? UCS_ERR_NO_DEVICE : UCS_OK;
}

void peer_transport::md_open(const command &, answer &ans)
{
    uct_component_attr_t attr;
    uct_md_config_t *config;

    ans.head.status = find_component();
    if (ans.head.status != UCS_OK) {
        return;
    }

    /* A component without a device has no memory domain to open */
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    ans.head.status = uct_component_query(m_component, &attr);
    if ((ans.head.status != UCS_OK) || (attr.md_resource_count == 0)) {
        ans.head.status = UCS_ERR_NO_DEVICE;
        return;
    }

    ans.head.status = uct_md_config_read(m_component, NULL, NULL, &config);
    if (ans.head.status != UCS_OK) {
        return;
    }

    ans.head.status = uct_md_open(m_component, component_name, config, &m_md);
    uct_config_release(config);
}

void peer_transport::md_query(const command &, answer &ans)
{
    uct_md_attr_t attr;

    ans.head.status    = uct_md_query(m_md, &attr);
    ans.head.number[0] = attr.cap.flags;
    ans.head.number[1] = attr.cap.reg_mem_types;
    ans.head.number[2] = attr.cap.access_mem_types;
    ans.head.number[3] = attr.cap.max_reg;
    ans.head.number[4] = attr.rkey_packed_size;
}

void peer_transport::reg(const command &cmd, answer &ans)
{
    uct_mem_h memh;

    ans.head.status = uct_md_mem_reg(m_md, (void*)cmd.head.number[0],
                                     cmd.head.number[1], UCT_MD_MEM_ACCESS_ALL,
                                     &memh);
    if (ans.head.status == UCS_OK) {
        ans.head.number[0] = m_memhs.add(memh);
    }
}

void peer_transport::dereg(const command &cmd, answer &ans)
{
    ans.head.status = uct_md_mem_dereg(m_md,
                                       m_memhs.remove(cmd.head.number[0]));
}

void peer_transport::pack(const command &cmd, answer &ans)
{
    static std::atomic<int> first_value(0);
    uct_md_attr_t attr;

    ans.head.status = uct_md_query(m_md, &attr);
    if (ans.head.status != UCS_OK) {
        return;
    }

    /* Another background each time: two keys of one allocation that compare
     * equal have no byte that was left as it was */
    guarded_bytes key(attr.rkey_packed_size, ++first_value);

    ans.head.status = uct_md_mkey_pack(m_md, m_memhs.get(cmd.head.number[0]),
                                       key.get());
    ans.data.assign(key.get(), attr.rkey_packed_size);
}

ucs_status_t peer_transport::open_iface(iface &opened)
{
    uct_iface_params_t params = {};
    uct_iface_config_t *config;
    ucs_status_t status;

    status = uct_md_iface_config_read(m_md, component_name, NULL, NULL,
                                      &config);
    if (status != UCS_OK) {
        return status;
    }

    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                        UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = component_name;
    params.mode.device.dev_name = component_name;

    status = uct_iface_open(m_md, opened.worker, &params, config,
                            &opened.iface);
    uct_config_release(config);
    return status;
}

void peer_transport::iface_open(const command &, answer &ans)
{
    iface opened;

    ans.head.status = ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                               &opened.async);
    if (ans.head.status != UCS_OK) {
        return;
    }

    ans.head.status = uct_worker_create(opened.async, UCS_THREAD_MODE_SINGLE,
                                        &opened.worker);
    if (ans.head.status != UCS_OK) {
        ucs_async_context_destroy(opened.async);
        return;
    }

    ans.head.status = open_iface(opened);
    if (ans.head.status != UCS_OK) {
        uct_worker_destroy(opened.worker);
        ucs_async_context_destroy(opened.async);
        return;
    }

    uct_iface_progress_enable(opened.iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    ans.head.number[0] = m_ifaces.add(opened);
}

void peer_transport::close_iface(const iface &closed)
{
    uct_iface_close(closed.iface);
    uct_worker_destroy(closed.worker);
    ucs_async_context_destroy(closed.async);
}

void peer_transport::iface_query(const command &cmd, answer &ans)
{
    uct_iface_attr_t attr;

    ans.head.status    = uct_iface_query(m_ifaces.get(cmd.head.number[0]).iface,
                                         &attr);
    ans.head.number[0] = attr.cap.flags;
    ans.head.number[1] = attr.cap.put.max_zcopy;
    ans.head.number[2] = attr.cap.put.max_iov;
    ans.head.number[3] = attr.cap.get.max_zcopy;
    ans.head.number[4] = attr.cap.get.max_iov;
    ans.head.number[5] = attr.cap.put.min_zcopy;
    ans.head.number[6] = attr.cap.get.min_zcopy;
    ans.head.number[7] = (uint64_t)((attr.latency.c * 1e12) + 0.5);
}

void peer_transport::iface_address(const command &cmd, answer &ans)
{
    uct_iface_h tl_iface = m_ifaces.get(cmd.head.number[0]).iface;
    uct_iface_attr_t attr;

    ans.head.status = uct_iface_query(tl_iface, &attr);
    if (ans.head.status != UCS_OK) {
        return;
    }

    /* Two buffers: an address that is written too long must hit the guard */
    guarded_bytes dev_addr(attr.device_addr_len, 0);
    guarded_bytes iface_addr(attr.iface_addr_len, 0);

    ans.head.status = uct_iface_get_device_address(
            tl_iface, (uct_device_addr_t*)dev_addr.get());
    if (ans.head.status != UCS_OK) {
        return;
    }

    ans.head.status    = uct_iface_get_address(tl_iface, (uct_iface_addr_t *)
                                                                 iface_addr.get());
    ans.head.number[0] = attr.device_addr_len;
    ans.data           = std::string(dev_addr.get(), attr.device_addr_len) +
               std::string(iface_addr.get(), attr.iface_addr_len);
}

void peer_transport::iface_reachable(const command &cmd, answer &ans)
{
    const char *dev_addr = cmd.data.data();

    ans.head.number[0] = uct_iface_is_reachable(
            m_ifaces.get(cmd.head.number[0]).iface,
            (const uct_device_addr_t*)dev_addr,
            (const uct_iface_addr_t*)(dev_addr + cmd.head.number[1]));
}

void peer_transport::ep_create(const command &cmd, answer &ans)
{
    const char *dev_addr   = cmd.data.data();
    uct_ep_params_t params = {};
    uct_ep_h ep;

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                        UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = m_ifaces.get(cmd.head.number[0]).iface;
    params.dev_addr   = (const uct_device_addr_t *)dev_addr;
    params.iface_addr = (const uct_iface_addr_t *)(dev_addr +
                                                   cmd.head.number[1]);

    ans.head.status = uct_ep_create(&params, &ep);
    if (ans.head.status == UCS_OK) {
        ans.head.number[0] = m_eps.add(ep);
    }
}

void peer_transport::ep_destroy(const command &cmd, answer &)
{
    uct_ep_destroy(m_eps.remove(cmd.head.number[0]));
}

peer_transport::completion *peer_transport::new_completion()
{
    completion *comp = new completion();

    comp->super.func   = completed;
    comp->super.count  = 1;
    comp->super.status = UCS_OK;
    return comp;
}

void peer_transport::completed(uct_completion_t *self)
{
    reinterpret_cast<completion*>(self)->calls.fetch_add(1);
}

void peer_transport::report_completion(const completion *comp, answer &ans)
{
    ans.head.number[0] = comp->calls.load();
    ans.head.number[1] = (uint64_t)(int64_t)comp->super.count;
    ans.head.number[2] = (uint64_t)(int64_t)comp->super.status;
}

void peer_transport::ep_zcopy(const command &cmd, answer &ans)
{
    uct_ep_h ep             = m_eps.get(cmd.head.number[0]);
    uct_rkey_bundle_t rkey  = m_rkeys.get(cmd.head.number[1]);
    uint64_t remote_address = cmd.head.number[2];
    completion *comp        = new_completion();
    uct_iov_t iov           = {};

    iov.buffer = (void*)cmd.head.number[3];
    iov.length = cmd.head.number[4];
    iov.memh   = UCT_MEM_HANDLE_NULL;
    iov.count  = 1;

    /* Known before it is used: the operation may complete at once */
    ans.head.number[0] = m_completions.add(comp);
    if (cmd.head.verb == VERB_EP_PUT) {
        ans.head.status = uct_ep_put_zcopy(ep, &iov, 1, remote_address,
                                           rkey.rkey, &comp->super);
    } else {
        ans.head.status = uct_ep_get_zcopy(ep, &iov, 1, remote_address,
                                           rkey.rkey, &comp->super);
    }
}

void peer_transport::ep_flush(const command &cmd, answer &ans)
{
    uct_ep_h ep      = m_eps.get(cmd.head.number[0]);
    completion *comp = NULL;

    if (cmd.head.number[1]) {
        comp               = new_completion();
        ans.head.number[0] = m_completions.add(comp);
    }

    ans.head.status = uct_ep_flush(ep, UCT_FLUSH_FLAG_LOCAL,
                                   (comp == NULL) ? NULL : &comp->super);
}

void peer_transport::iface_flush(const command &cmd, answer &ans)
{
    uct_iface_h tl_iface = m_ifaces.get(cmd.head.number[0]).iface;
    completion *comp     = NULL;

    if (cmd.head.number[1]) {
        comp               = new_completion();
        ans.head.number[0] = m_completions.add(comp);
    }

    ans.head.status = uct_iface_flush(tl_iface, UCT_FLUSH_FLAG_LOCAL,
                                      (comp == NULL) ? NULL : &comp->super);
}

void peer_transport::unpack(const command &cmd, answer &ans)
{
    guarded_bytes key(cmd.data.size(), 0);
    uct_rkey_bundle_t rkey;

    memcpy(key.get(), cmd.data.data(), cmd.data.size());
    ans.head.status = uct_rkey_unpack(m_component, key.get(), &rkey);
    if (ans.head.status == UCS_OK) {
        ans.head.number[0] = m_rkeys.add(rkey);
    }
}

void peer_transport::rkey_ptr(const command &cmd, answer &ans)
{
    uct_rkey_bundle_t rkey = m_rkeys.get(cmd.head.number[0]);
    void *address          = NULL;

    ans.head.status    = uct_rkey_ptr(m_component, &rkey, cmd.head.number[1],
                                      &address);
    ans.head.number[0] = (uintptr_t)address;
}

void peer_transport::rkey_release(const command &cmd, answer &ans)
{
    uct_rkey_bundle_t rkey = m_rkeys.remove(cmd.head.number[0]);

    ans.head.status = uct_rkey_release(m_component, &rkey);
}

void peer_transport::progress(const command &cmd, answer &ans)
{
    uct_worker_h worker = m_ifaces.get(cmd.head.number[0]).worker;
    std::chrono::steady_clock::time_point deadline;
    completion *comp;

    if (cmd.head.number[1] == 0) {
        uct_worker_progress(worker);
        return;
    }

    comp     = m_completions.get(cmd.head.number[1]);
    deadline = std::chrono::steady_clock::now() +
               std::chrono::milliseconds(cmd.head.number[2]);
    while (comp->calls.load() == 0) {
        if (uct_worker_progress(worker) != 0) {
            continue;
        }

        if (std::chrono::steady_clock::now() > deadline) {
            ans.head.status = UCS_ERR_TIMED_OUT;
            break;
        }

        sched_yield();
    }

    report_completion(comp, ans);
}

void peer_transport::completion_query(const command &cmd, answer &ans)
{
    report_completion(m_completions.get(cmd.head.number[0]), ans);
}

void peer_transport::close_rkeys()
{
    std::map<uint64_t, uct_rkey_bundle_t> rkeys = m_rkeys.remove_all();
    std::map<uint64_t, uct_rkey_bundle_t>::iterator it;

    for (it = rkeys.begin(); it != rkeys.end(); ++it) {
        uct_rkey_release(m_component, &it->second);
    }
}

void peer_transport::close_eps()
{
    std::map<uint64_t, uct_ep_h> eps = m_eps.remove_all();
    std::map<uint64_t, uct_ep_h>::iterator it;

    for (it = eps.begin(); it != eps.end(); ++it) {
        uct_ep_destroy(it->second);
    }
}

void peer_transport::close_ifaces()
{
    std::map<uint64_t, iface> ifaces = m_ifaces.remove_all();
    std::map<uint64_t, iface>::iterator it;

    for (it = ifaces.begin(); it != ifaces.end(); ++it) {
        close_iface(it->second);
    }
}

void peer_transport::close_completions()
{
    std::map<uint64_t, completion*> completions = m_completions.remove_all();
    std::map<uint64_t, completion*>::iterator it;

    for (it = completions.begin(); it != completions.end(); ++it) {
        delete it->second;
    }
}

void peer_transport::close_memhs()
{
    std::map<uint64_t, uct_mem_h> memhs = m_memhs.remove_all();
    std::map<uint64_t, uct_mem_h>::iterator it;

    for (it = memhs.begin(); it != memhs.end(); ++it) {
        uct_md_mem_dereg(m_md, it->second);
    }
}

void peer_transport::close_md()
{
    if (m_md != NULL) {
        uct_md_close(m_md);
        m_md = NULL;
    }
}

} /* namespace rocm_ipc */
