/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <csignal>
#include <cstring>

/*
 * Agents, pools, allocations and what is known about addresses.
 */

class memory : public emul_test {
protected:
    template<typename type>
    static type agent_info(hsa_agent_t agent, unsigned attribute)
    {
        type value = {};

        EXPECT_OK(hsa_agent_get_info(agent, hsa_agent_info_t(attribute),
                                     &value));
        return value;
    }

    template<typename type>
    static type pool_info(hsa_amd_memory_pool_t pool,
                          hsa_amd_memory_pool_info_t attribute)
    {
        type value = {};

        EXPECT_OK(hsa_amd_memory_pool_get_info(pool, attribute, &value));
        return value;
    }

    static void free(void *pointer)
    {
        EXPECT_OK(hsa_amd_memory_pool_free(pointer));
    }

    static hsa_status_t allocate_status(size_t size)
    {
        void *pointer;

        return hsa_amd_memory_pool_allocate(gpu_pool(0), size, 0, &pointer);
    }
};

TEST_F(memory, there_are_two_gpus_and_a_cpu)
{
    EXPECT_EQ(1u, agents_of(HSA_DEVICE_TYPE_CPU).size());
    EXPECT_EQ(2u, agents_of(HSA_DEVICE_TYPE_GPU).size());
    EXPECT_NE(agent_info<uint32_t>(gpu(0), HSA_AMD_AGENT_INFO_BDFID),
              agent_info<uint32_t>(gpu(1), HSA_AMD_AGENT_INFO_BDFID));

    char name[64];
    EXPECT_OK(hsa_agent_get_info(gpu(0), HSA_AGENT_INFO_NAME, name));
    EXPECT_STREQ("gfx90a", name);
    EXPECT_INVALID(hsa_agent_get_info(gpu(0), hsa_agent_info_t(0x7777), name));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_AGENT,
              hsa_agent_get_info(hsa_agent_t{0}, HSA_AGENT_INFO_NAME, name));
}

TEST_F(memory, iterating_stops_when_told)
{
    int calls = 0;

    EXPECT_EQ(HSA_STATUS_INFO_BREAK,
              hsa_iterate_agents([](hsa_agent_t, void *data) {
                  ++*(int*)data;
                  return HSA_STATUS_INFO_BREAK;
              }, &calls));
    EXPECT_EQ(1, calls);
}

TEST_F(memory, pools_say_what_they_are)
{
    EXPECT_EQ(3u, pools_of(cpu()).size());
    EXPECT_EQ(2u, pools_of(gpu(0)).size());

    EXPECT_EQ(size_t(16) << 30,
              pool_info<size_t>(gpu_pool(0), HSA_AMD_MEMORY_POOL_INFO_SIZE));
    EXPECT_EQ(4096u, pool_info<size_t>(
            gpu_pool(0), HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE));
    EXPECT_TRUE(pool_info<bool>(
            gpu_pool(0), HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED));
    EXPECT_TRUE(pool_info<bool>(
            host_pool(), HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL));
    EXPECT_FALSE(pool_info<bool>(
            gpu_pool(0), HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL));
    EXPECT_NE(0u, pool_with(cpu(),
                            HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
              .handle);

    size_t size;
    EXPECT_EQ(int(HSA_STATUS_ERROR_INVALID_MEMORY_POOL),
              int(hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t{3},
                                               HSA_AMD_MEMORY_POOL_INFO_SIZE,
                                               &size)));
}

TEST_F(memory, gpus_are_linked_to_each_other)
{
    hsa_amd_memory_pool_link_info_t link;
    hsa_amd_memory_pool_access_t access;
    uint32_t hops;

    EXPECT_OK(hsa_amd_agent_memory_pool_get_info(
            gpu(0), gpu_pool(1), HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO,
            &link));
    EXPECT_EQ(HSA_AMD_LINK_INFO_TYPE_XGMI, link.link_type);
    EXPECT_OK(hsa_amd_agent_memory_pool_get_info(
            cpu(), gpu_pool(1), HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO,
            &link));
    EXPECT_EQ(HSA_AMD_LINK_INFO_TYPE_PCIE, link.link_type);
    EXPECT_OK(hsa_amd_agent_memory_pool_get_info(
            gpu(0), gpu_pool(0), HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS,
            &hops));
    EXPECT_EQ(0u, hops);
    EXPECT_OK(hsa_amd_agent_memory_pool_get_info(
            gpu(0), gpu_pool(0), HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS,
            &access));
    EXPECT_EQ(HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT, access);
}

TEST_F(memory, allocations_are_counted_and_charged)
{
    uint64_t *first  = allocate(5000);
    uint64_t *second = allocate(megabyte, 1);

    EXPECT_EQ(2, count(EMUL_COUNT_ALLOCATIONS));
    EXPECT_EQ(int64_t(8192 + megabyte), count(EMUL_COUNT_BYTES_ALLOCATED));
    EXPECT_EQ(int64_t(8192 + megabyte),
              count(EMUL_COUNT_BYTES_CHARGED, EMUL_ANY_PROCESS));
    memset(first, 1, 5000);
    second[megabyte / 8 - 1] = 1;
    free(first);
    EXPECT_EQ(1, count(EMUL_COUNT_ALLOCATIONS));
    free(second);
}

TEST_F(memory, an_overrun_faults)
{
    volatile uint64_t *pointer = allocate(4096);

    EXPECT_FAULT(pointer[512] = 1);
    free((void*)pointer);
}

TEST_F(memory, wrong_arguments_are_refused)
{
    void *pointer;
    int on_stack;

    EXPECT_INVALID(allocate_status(0));
    EXPECT_INVALID(hsa_amd_memory_pool_allocate(gpu_pool(0), 8, 0, nullptr));
    EXPECT_INVALID(hsa_amd_memory_pool_allocate(gpu_pool(0), 8, 1, &pointer));
    EXPECT_EQ(int(HSA_STATUS_ERROR_INVALID_MEMORY_POOL),
              int(hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t{9}, 8, 0,
                                               &pointer)));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              allocate_status(size_t(17) << 30));

    EXPECT_OK(hsa_amd_memory_pool_free(nullptr));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              hsa_amd_memory_pool_free(&on_stack));

    pointer = allocate(4096);
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              hsa_amd_memory_pool_free((char*)pointer + 8));
    free(pointer);
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              hsa_amd_memory_pool_free(pointer));
}

TEST_F(memory, a_device_runs_out)
{
    set("EMUL_GPU_MEMORY", "1m");
    uint64_t *most = allocate(megabyte - 4096);

    EXPECT_NO_ROOM(allocate_status(8192));
    uint64_t *rest = allocate(4096);
    EXPECT_NO_ROOM(allocate_status(1));

    /* the other one has its own */
    uint64_t *other = allocate(megabyte, 1);

    free(rest);
    rest = allocate(1);
    free(rest);
    free(most);
    free(other);
}

TEST_F(memory, is_given_back_by_a_killed_owner)
{
    peer owner;

    set("EMUL_GPU_MEMORY", "1m");
    ASSERT_TRUE(owner.ask(verb::allocate, megabyte).ok());
    EXPECT_NO_ROOM(allocate_status(1));
    owner.kill();
    free(allocate(megabyte));
}

TEST_F(memory, forced_reuse_is_last_in_first_out)
{
    set("EMUL_ADDRESS_REUSE", "force");
    uint64_t *a = allocate(megabyte);
    uint64_t *b = allocate(megabyte);

    free(a);
    free(b);
    EXPECT_EQ(b, allocate(megabyte));
    EXPECT_EQ(a, allocate(megabyte));
    free(a);

    /* also for other sizes */
    EXPECT_EQ(a, allocate(2 * megabyte));
    a[megabyte / 8] = 1;
    free(a);
    EXPECT_EQ(a, allocate(4096));
    EXPECT_EQ(0u, a[0]);
    free(a);
    free(b);
}

TEST_F(memory, forbidden_reuse_never_happens)
{
    uint64_t *before = nullptr;

    set("EMUL_ADDRESS_REUSE", "forbid");
    for (int i = 0; i < 600; ++i) {
        uint64_t *pointer = allocate(8192);

        EXPECT_NE(before, pointer);
        if (i == 0) {
            before = pointer;
        }
        free(pointer);
    }
}

TEST_F(memory, freed_memory_faults)
{
    EXPECT_FAULT({
        volatile uint64_t *pointer = allocate(4096);

        free((void*)pointer);
        *pointer = 1;
    });
}

TEST_F(memory, pointer_info_of_everything)
{
    char *device = (char*)allocate(5000, 1);
    hsa_amd_pointer_info_t info;
    void *host;

    info = info_of(device + 4999);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_HSA, info.type);
    EXPECT_EQ(device, info.agentBaseAddress);
    EXPECT_EQ(device, info.hostBaseAddress);
    EXPECT_EQ(5000u, info.sizeInBytes);
    EXPECT_EQ(gpu(1).handle, info.agentOwner.handle);
    EXPECT_EQ(unsigned(HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED),
              info.global_flags);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info_of(device + 5000).type);

    ASSERT_OK(hsa_amd_memory_pool_allocate(host_pool(), 100, 0, &host));
    info = info_of(host);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_HSA, info.type);
    EXPECT_EQ(cpu().handle, info.agentOwner.handle);
    EXPECT_EQ(1, count(EMUL_COUNT_ALLOCATIONS)); /* of device memory */
    free(host);

    EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info_of(&info).type);
    free(device);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info_of(device).type);
}

TEST_F(memory, pointer_info_respects_a_shorter_structure)
{
    uint64_t *pointer = allocate(4096);
    hsa_amd_pointer_info_t info;

    memset(&info, 0x77, sizeof(info));
    info.size = offsetof(hsa_amd_pointer_info_t, sizeInBytes);
    EXPECT_OK(hsa_amd_pointer_info(pointer, &info, nullptr, nullptr, nullptr));
    EXPECT_EQ(pointer, info.agentBaseAddress);
    EXPECT_EQ(0x7777777777777777u, info.sizeInBytes);

    info.size = 0;
    EXPECT_INVALID(hsa_amd_pointer_info(pointer, &info, nullptr, nullptr,
                                        nullptr));
    free(pointer);
}

TEST_F(memory, pointer_info_lists_agents_and_keeps_user_data)
{
    uint64_t *pointer = allocate(4096);
    hsa_amd_pointer_info_t info = {};
    hsa_agent_t *agents;
    uint32_t number;

    info.size = sizeof(info);
    EXPECT_OK(hsa_amd_pointer_info_set_userdata(pointer, &number));
    EXPECT_OK(hsa_amd_pointer_info(pointer, &info, malloc, &number, &agents));
    EXPECT_EQ(&number, info.userData);
    EXPECT_EQ(2u, number);
    EXPECT_EQ(gpu(0).handle, agents[0].handle);
    ::free(agents);
    EXPECT_INVALID(hsa_amd_pointer_info_set_userdata(&info, nullptr));
    free(pointer);
}

TEST_F(memory, locked_memory_has_an_address_for_agents)
{
    std::vector<char> host(10000);
    char *begin = host.data() + 10;
    hsa_amd_pointer_info_t info;
    void *agent_pointer, *other;

    ASSERT_OK(hsa_amd_memory_lock(begin, 9000, nullptr, 0, &agent_pointer));
    for (const char *pointer : {begin + 5, (char*)agent_pointer + 5}) {
        info = info_of(pointer);
        EXPECT_EQ(HSA_EXT_POINTER_TYPE_LOCKED, info.type);
        EXPECT_EQ(agent_pointer, info.agentBaseAddress);
        EXPECT_EQ(begin, info.hostBaseAddress);
        EXPECT_EQ(9000u, info.sizeInBytes);
        EXPECT_EQ(cpu().handle, info.agentOwner.handle);
    }

    /* locks may overlap */
    ASSERT_OK(hsa_amd_memory_lock(begin + 1000, 100, nullptr, 0, &other));
    EXPECT_OK(hsa_amd_memory_unlock(begin + 1000));
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_LOCKED, info_of(begin + 8000).type);
    EXPECT_OK(hsa_amd_memory_unlock(begin));
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_UNKNOWN, info_of(begin).type);
    EXPECT_OK(hsa_amd_memory_unlock(begin));
}

TEST_F(memory, lock_refuses_what_cannot_be_locked)
{
    char byte;
    void *pointer;
    hsa_agent_t agent = gpu(0);

    EXPECT_INVALID(hsa_amd_memory_lock(&byte, 0, nullptr, 0, &pointer));
    EXPECT_INVALID(hsa_amd_memory_lock(nullptr, 1, nullptr, 0, &pointer));
    EXPECT_INVALID(hsa_amd_memory_lock(&byte, 1, nullptr, 0, nullptr));
    EXPECT_INVALID(hsa_amd_memory_lock(&byte, 1, &agent, 0, &pointer));
    EXPECT_INVALID(hsa_amd_memory_lock(&byte, 1, nullptr, 1, &pointer));
    EXPECT_NO_ROOM(hsa_amd_memory_lock((void*)0x1000, 1, nullptr, 0, &pointer));
    EXPECT_EQ(int(HSA_STATUS_ERROR_INVALID_MEMORY_POOL),
              int(hsa_amd_memory_lock_to_pool(&byte, 1, nullptr, 0, gpu_pool(0),
                                              0, &pointer)));

    ASSERT_OK(hsa_amd_memory_lock_to_pool(&byte, 1, &agent, 1, host_pool(), 0,
                                          &pointer));
    EXPECT_OK(hsa_amd_memory_unlock(&byte));

    /* known memory keeps its address */
    uint64_t *device = allocate(4096);
    ASSERT_OK(hsa_amd_memory_lock(device, 8, nullptr, 0, &pointer));
    EXPECT_EQ(device, pointer);
    EXPECT_EQ(HSA_EXT_POINTER_TYPE_HSA, info_of(device).type);
    free(device);
}

TEST_F(memory, access_is_granted_for_a_base_address)
{
    char *pointer      = (char*)allocate(4096);
    hsa_agent_t agents[] = {gpu(0), gpu(1), {5}};
    uint32_t flags     = 0;

    EXPECT_OK(hsa_amd_agents_allow_access(2, agents, nullptr, pointer));
    EXPECT_EQ(HSA_STATUS_ERROR,
              hsa_amd_agents_allow_access(2, agents, nullptr, pointer + 8));
    EXPECT_EQ(HSA_STATUS_ERROR,
              hsa_amd_agents_allow_access(2, agents, nullptr, agents));
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_AGENT,
              hsa_amd_agents_allow_access(3, agents, nullptr, pointer));
    EXPECT_INVALID(hsa_amd_agents_allow_access(0, agents, nullptr, pointer));
    EXPECT_INVALID(hsa_amd_agents_allow_access(1, nullptr, nullptr, pointer));
    EXPECT_INVALID(hsa_amd_agents_allow_access(1, agents, &flags, pointer));
    EXPECT_INVALID(hsa_amd_agents_allow_access(1, agents, nullptr, nullptr));
    free(pointer);
}

TEST_F(memory, deallocation_callbacks_run_before_the_memory_goes)
{
    uint64_t *pointer = allocate(4096);
    uint64_t seen[2]  = {0, 0};
    auto look         = [](void *p, void *data) {
        *(uint64_t*)data = *(uint64_t*)p;
    };

    *pointer = 8;
    EXPECT_OK(hsa_amd_register_deallocation_callback(pointer, look, &seen[0]));
    EXPECT_OK(hsa_amd_register_deallocation_callback(pointer + 1, look,
                                                     &seen[1]));
    EXPECT_OK(hsa_amd_deregister_deallocation_callback(pointer + 1, look));
    EXPECT_INVALID(hsa_amd_deregister_deallocation_callback(pointer + 1, look));
    pointer[1] = 9;
    free(pointer);
    EXPECT_EQ(8u, seen[0]);
    EXPECT_EQ(0u, seen[1]);
    EXPECT_EQ(HSA_STATUS_ERROR_INVALID_ALLOCATION,
              hsa_amd_register_deallocation_callback(pointer, look, seen));
}

TEST_F(memory, status_codes_have_names)
{
    const char *name;

    EXPECT_OK(hsa_status_string(HSA_STATUS_ERROR_OUT_OF_RESOURCES, &name));
    EXPECT_STREQ("HSA_STATUS_ERROR_OUT_OF_RESOURCES", name);
    EXPECT_INVALID(hsa_status_string(hsa_status_t(1234567), &name));
}
