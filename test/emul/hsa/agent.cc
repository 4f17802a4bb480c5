/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "agent.h"

#include "api.h"

#include <core/settings.h>

#include <cstdio>
#include <cstring>

namespace emul {

namespace {

/* Any number that is no pointer and not small, so that mistakes show */
constexpr uint64_t agent_tag = 0x656d756c61670000;

constexpr size_t name_size = 64; /* as the standard says of *_NAME */

template<typename type> hsa_status_t give(void *value, type what)
{
    memcpy(value, &what, sizeof(what));
    return HSA_STATUS_SUCCESS;
}

hsa_status_t give_name(void *value, const char *name)
{
    memset(value, 0, name_size - 1);
    memcpy(value, name, strlen(name) + 1);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t give_zeros(void *value, size_t size)
{
    memset(value, 0, size);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t give_product_name(unsigned number, void *value)
{
    char name[name_size];

    snprintf(name, sizeof(name), "Emulated %s",
             agent_is_gpu(number) ? "GPU" : "CPU");
    return give_name(value, name);
}

hsa_status_t give_uuid(unsigned number, void *value)
{
    /* 21 bytes with the end, as the documentation says */
    snprintf((char*)value, 21, "%s-%016x", agent_is_gpu(number) ? "GPU" : "CPU",
             number);
    return HSA_STATUS_SUCCESS;
}

/* bus:device.function, one bus for each GPU */
uint32_t bdfid(unsigned number)
{
    return agent_is_gpu(number) ? number << 8 : 0;
}

hsa_status_t agent_get_amd_info(unsigned number, unsigned attribute,
                                void *value)
{
    bool gpu = agent_is_gpu(number);

    switch (attribute) {
    case HSA_AMD_AGENT_INFO_CHIP_ID:
        return give(value, uint32_t(gpu ? 0x740c : 0));
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
        return give(value, uint32_t(64));
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
        return give(value, uint32_t(gpu ? 104 : 2));
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
        return give(value, uint32_t(1700));
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
        return give(value, uint32_t(number));
    case HSA_AMD_AGENT_INFO_BDFID:
        return give(value, bdfid(number));
    case HSA_AMD_AGENT_INFO_DOMAIN:
        return give(value, uint32_t(0));
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
        return give(value, uint32_t(gpu ? 4096 : 64));
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
        return give(value, uint32_t(1600));
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
        return give_product_name(number, value);
    case HSA_AMD_AGENT_INFO_UUID:
        return give_uuid(number, value);
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
        return give(value, !gpu);
    default:
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    }
}

hsa_status_t agent_get_info(unsigned number, unsigned attribute, void *value)
{
    bool gpu = agent_is_gpu(number);

    switch (attribute) {
    case HSA_AGENT_INFO_NAME:
        return give_name(value, gpu ? "gfx90a" : "Emulated CPU");
    case HSA_AGENT_INFO_VENDOR_NAME:
        return give_name(value, gpu ? "AMD" : "CPU");
    case HSA_AGENT_INFO_FEATURE:
        return give(value, gpu ? HSA_AGENT_FEATURE_KERNEL_DISPATCH :
                                 hsa_agent_feature_t(0));
    case HSA_AGENT_INFO_MACHINE_MODEL:
        return give(value, HSA_MACHINE_MODEL_LARGE);
    case HSA_AGENT_INFO_PROFILE:
        return give(value, gpu ? HSA_PROFILE_BASE : HSA_PROFILE_FULL);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
        return give(value, uint32_t(gpu ? 64 : 0));
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
        return give(value, uint32_t(gpu ? 1024 : 0));
    case HSA_AGENT_INFO_NODE:
        return give(value, uint32_t(number));
    case HSA_AGENT_INFO_DEVICE:
        return give(value, gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU);
    case HSA_AGENT_INFO_QUEUES_MAX: /* there is nothing that could run */
        return give(value, uint32_t(0));
    case HSA_AGENT_INFO_EXTENSIONS:
        return give_zeros(value, 128);
    case HSA_AGENT_INFO_VERSION_MAJOR:
    case HSA_AGENT_INFO_VERSION_MINOR:
        return give(value, uint16_t(1));
    default:
        return agent_get_amd_info(number, attribute, value);
    }
}

} // namespace

unsigned agent_count()
{
    return 1 + unsigned(setting_value(setting_gpus));
}

hsa_agent_t agent_handle(unsigned number)
{
    return hsa_agent_t{agent_tag + number};
}

unsigned agent_number(hsa_agent_t agent)
{
    uint64_t number = agent.handle - agent_tag;

    require(number < agent_count(), HSA_STATUS_ERROR_INVALID_AGENT);
    return unsigned(number);
}

} // namespace emul

using namespace emul;

hsa_status_t HSA_API hsa_iterate_agents(
        hsa_status_t (*callback)(hsa_agent_t agent, void *data), void *data)
{
    return call(fn_hsa_iterate_agents, [&] {
        hsa_status_t status = HSA_STATUS_SUCCESS;

        require_argument(callback != nullptr);
        for (unsigned i = 0; (i < agent_count()) && !status; ++i) {
            status = callback(agent_handle(i), data);
        }
        return status;
    });
}

hsa_status_t HSA_API hsa_agent_get_info(hsa_agent_t agent,
                                        hsa_agent_info_t attribute, void *value)
{
    return call(fn_hsa_agent_get_info, [&] {
        require_argument(value != nullptr);
        return emul::agent_get_info(agent_number(agent), attribute, value);
    });
}
