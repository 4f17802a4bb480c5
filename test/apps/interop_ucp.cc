/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "interop_ucp.h"
#include "interop_device.h"
#include "demo_channel.h"

namespace interop {

namespace {

constexpr ucp_tag_t TAG = 0x1ee7;

void check(ucs_status_t status, const std::string &what)
{
    if (status != UCS_OK) {
        throw demo::error("UCX cannot " + what + ": " +
                          ucs_status_string(status));
    }
}

ucp_request_param_t device_memory()
{
    ucp_request_param_t param = {};

    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type  = device_memory_type;
    return param;
}

} // namespace

ucp_peer::ucp_peer()
{
    try {
        open();
    } catch (...) {
        close();
        throw;
    }
}

ucp_peer::~ucp_peer()
{
    close();
}

void ucp_peer::open()
{
    ucp_params_t params               = {};
    ucp_worker_params_t worker_params = {};

    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_TAG;
    check(ucp_init(&params, nullptr, &m_context), "start");

    worker_params.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    check(ucp_worker_create(m_context, &worker_params, &m_worker),
          "create a worker");
}

void ucp_peer::close()
{
    if (m_worker != nullptr) {
        ucp_worker_destroy(m_worker);
    }

    if (m_context != nullptr) {
        ucp_cleanup(m_context);
    }
}

std::string ucp_peer::address() const
{
    ucp_address_t *address;
    size_t length;

    check(ucp_worker_get_address(m_worker, &address, &length),
          "tell the worker's address");

    const std::string bytes(reinterpret_cast<const char*>(address), length);

    ucp_worker_release_address(m_worker, address);
    return bytes;
}

void ucp_peer::connect(const std::string &address)
{
    ucp_ep_params_t params = {};

    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address    = reinterpret_cast<const ucp_address_t*>(address.data());
    check(ucp_ep_create(m_worker, &params, &m_ep), "connect");
}

void ucp_peer::send(const void *buffer, size_t size)
{
    const ucp_request_param_t param = device_memory();

    wait(ucp_tag_send_nbx(m_ep, buffer, size, TAG, &param), "send");
}

void ucp_peer::receive(void *buffer, size_t size)
{
    const ucp_request_param_t param = device_memory();

    wait(ucp_tag_recv_nbx(m_worker, buffer, size, TAG, ~UINT64_C(0), &param),
         "receive");
}

void ucp_peer::progress()
{
    ucp_worker_progress(m_worker);
}

void ucp_peer::wait(ucs_status_ptr_t request, const std::string &what)
{
    if (!UCS_PTR_IS_PTR(request)) {
        check(UCS_PTR_STATUS(request), what);
        return;
    }

    ucs_status_t status;

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(m_worker);
    }

    ucp_request_free(request);
    check(status, what);
}

} // namespace interop
