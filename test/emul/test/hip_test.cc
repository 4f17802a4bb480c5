/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "../emul.h"

#include <gtest/gtest.h>

#include <hip/hip_runtime_api.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t MEBIBYTE = 1024 * 1024;

/* What a test allocates is freed when it leaves the scope */
class device_buffer {
public:
    explicit device_buffer(size_t size)
    {
        EXPECT_EQ(hipSuccess, hipMalloc(&m_ptr, size));
    }

    device_buffer(const device_buffer&)            = delete;
    device_buffer &operator=(const device_buffer&) = delete;

    ~device_buffer()
    {
        EXPECT_EQ(hipSuccess, hipFree(m_ptr));
    }

    char *get() const
    {
        return static_cast<char*>(m_ptr);
    }

private:
    void *m_ptr = nullptr;
};

class hip_test : public ::testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_EQ(hipSuccess, hipInit(0));
        ASSERT_EQ(hipSuccess, hipSetDevice(0));
        m_api = emul_get();
        ASSERT_NE(nullptr, m_api) << "not running on the emulator";
    }

    static size_t free_bytes()
    {
        size_t free_size = 0, total_size = 0;

        EXPECT_EQ(hipSuccess, hipMemGetInfo(&free_size, &total_size));
        EXPECT_LE(free_size, total_size);
        return free_size;
    }

    static hipPointerAttribute_t attributes(const void *ptr)
    {
        hipPointerAttribute_t attr = {};

        EXPECT_EQ(hipSuccess, hipPointerGetAttributes(&attr, ptr));
        return attr;
    }

    static hsa_device_type_t owner_type(void *ptr)
    {
        hsa_amd_pointer_info_t info = {};
        hsa_device_type_t type      = HSA_DEVICE_TYPE_DSP;

        info.size = sizeof(info);
        EXPECT_EQ(HSA_STATUS_SUCCESS,
                  hsa_amd_pointer_info(ptr, &info, nullptr, nullptr, nullptr));
        EXPECT_EQ(HSA_EXT_POINTER_TYPE_HSA, info.type);
        EXPECT_EQ(HSA_STATUS_SUCCESS,
                  hsa_agent_get_info(info.agentOwner, HSA_AGENT_INFO_DEVICE,
                                     &type));
        return type;
    }

    int64_t calls(const char *function) const
    {
        int64_t value = -1;

        EXPECT_EQ(0, m_api->calls(getpid(), function, &value));
        return value;
    }

    int64_t count(emul_count_t what) const
    {
        int64_t value = -1;

        EXPECT_EQ(0, m_api->count(getpid(), what, &value));
        return value;
    }

    void fail_next(const char *function, hsa_status_t status) const
    {
        ASSERT_EQ(0, m_api->fail(getpid(), function, 1, 1, status));
    }

    const emul_api_t *m_api = nullptr;
};

/* Runs a death test in a process of its own: the runtime has threads */
class hip_death_test : public hip_test {
protected:
    void SetUp() override
    {
        ::testing::FLAGS_gtest_death_test_style = "threadsafe";
        hip_test::SetUp();
    }
};

TEST_F(hip_test, devices_are_the_gpu_agents_of_hsa)
{
    int device_count = 0, gpu_agents = 0;

    ASSERT_EQ(HSA_STATUS_SUCCESS,
              hsa_iterate_agents(
                      [](hsa_agent_t agent, void *arg) {
                          hsa_device_type_t type;

                          hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE,
                                             &type);
                          *static_cast<int*>(arg) +=
                                  (type == HSA_DEVICE_TYPE_GPU);
                          return HSA_STATUS_SUCCESS;
                      },
                      &gpu_agents));

    ASSERT_EQ(hipSuccess, hipGetDeviceCount(&device_count));
    EXPECT_GT(gpu_agents, 0);
    EXPECT_EQ(gpu_agents, device_count);
}

TEST_F(hip_test, device_number_out_of_range_is_refused)
{
    int device_count = 0, device = -1;
    char name[64];

    ASSERT_EQ(hipSuccess, hipGetDeviceCount(&device_count));
    EXPECT_EQ(hipErrorInvalidDevice, hipSetDevice(device_count));
    EXPECT_EQ(hipErrorInvalidDevice, hipSetDevice(-1));
    EXPECT_EQ(hipErrorInvalidDevice, hipDeviceGet(&device, device_count));
    EXPECT_EQ(hipErrorInvalidDevice,
              hipDeviceGetName(name, sizeof(name), device_count));
    ASSERT_EQ(hipSuccess, hipGetDevice(&device));
    EXPECT_EQ(0, device) << "a refused call changes nothing";
}

TEST_F(hip_test, selected_device_belongs_to_the_thread)
{
    int device_count = 0, device_of_other = -1, device = -1;

    ASSERT_EQ(hipSuccess, hipGetDeviceCount(&device_count));
    ASSERT_EQ(hipSuccess, hipSetDevice(device_count - 1));
    std::thread([&]() {
        EXPECT_EQ(hipSuccess, hipGetDevice(&device_of_other));
    }).join();
    ASSERT_EQ(hipSuccess, hipGetDevice(&device));
    EXPECT_EQ(0, device_of_other);
    EXPECT_EQ(device_count - 1, device);
}

TEST_F(hip_test, allocation_is_on_the_selected_device)
{
    int device_count = 0;

    ASSERT_EQ(hipSuccess, hipGetDeviceCount(&device_count));
    for (int device = 0; device < device_count; ++device) {
        ASSERT_EQ(hipSuccess, hipSetDevice(device));
        device_buffer buffer(4096);
        const hipPointerAttribute_t attr = attributes(buffer.get() + 100);

        EXPECT_EQ(hipMemoryTypeDevice, attr.memoryType);
        EXPECT_EQ(device, attr.device);
        EXPECT_EQ(buffer.get() + 100, attr.devicePointer);
        EXPECT_EQ(nullptr, attr.hostPointer);
        EXPECT_FALSE(attr.isManaged);
        EXPECT_EQ(HSA_DEVICE_TYPE_GPU, owner_type(buffer.get()));
    }
}

TEST_F(hip_test, memory_info_follows_allocation_and_free)
{
    const size_t size   = 8 * MEBIBYTE;
    const size_t before = free_bytes();

    {
        device_buffer buffer(size);
        EXPECT_EQ(before - size, free_bytes());
    }

    EXPECT_EQ(before, free_bytes());
}

TEST_F(hip_test, managed_memory_is_owned_by_the_cpu)
{
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMallocManaged(&ptr, 4096));
    EXPECT_EQ(HSA_DEVICE_TYPE_CPU, owner_type(ptr));
    EXPECT_TRUE(attributes(ptr).isManaged);
    memset(ptr, 0x5a, 4096); /* The host writes to it as to its own memory */
    EXPECT_EQ(0x5a, static_cast<char*>(ptr)[4095]);
    EXPECT_EQ(hipSuccess, hipFree(ptr));
    EXPECT_EQ(hipErrorInvalidValue, hipMallocManaged(&ptr, 4096, 0x80));
}

TEST_F(hip_test, managed_memory_type_can_be_selected)
{
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMallocManaged(&ptr, 64));
    unsetenv("EMUL_HIP_MANAGED");
    EXPECT_EQ(hipMemoryTypeHost, attributes(ptr).memoryType);
    setenv("EMUL_HIP_MANAGED", "unified", 1);
    EXPECT_EQ(hipMemoryTypeUnified, attributes(ptr).memoryType);
    unsetenv("EMUL_HIP_MANAGED");
    EXPECT_EQ(hipSuccess, hipFree(ptr));
}

TEST_F(hip_test, host_memory_has_the_same_address_everywhere)
{
    void *ptr = nullptr, *device_ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipHostMalloc(&ptr, 4096, hipHostMallocMapped));
    ASSERT_EQ(hipSuccess, hipHostGetDevicePointer(&device_ptr, ptr, 0));
    EXPECT_EQ(ptr, device_ptr);
    EXPECT_EQ(hipMemoryTypeHost, attributes(ptr).memoryType);
    EXPECT_EQ(hipHostMallocMapped, attributes(ptr).allocationFlags);
    EXPECT_EQ(hipSuccess, hipHostFree(ptr));

    device_buffer buffer(64);
    EXPECT_EQ(hipErrorInvalidValue, hipHostFree(buffer.get()));
    EXPECT_EQ(hipErrorInvalidValue,
              hipHostGetDevicePointer(&device_ptr, buffer.get(), 0));
}

TEST_F(hip_test, pitch_covers_the_row_and_is_aligned)
{
    const size_t before = free_bytes();
    hipDeviceptr_t base = nullptr;
    size_t pitch = 0, size = 0;
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMallocPitch(&ptr, &pitch, 300, 8));
    EXPECT_GE(pitch, 300u);
    EXPECT_EQ(0u, pitch % 256);
    ASSERT_EQ(hipSuccess,
              hipMemGetAddressRange(&base, &size,
                                    static_cast<char*>(ptr) + pitch));
    EXPECT_EQ(ptr, base);
    EXPECT_EQ(pitch * 8, size);
    EXPECT_EQ(hipSuccess, hipFree(ptr));
    EXPECT_EQ(before, free_bytes());

    EXPECT_EQ(hipErrorOutOfMemory,
              hipMallocPitch(&ptr, &pitch, SIZE_MAX / 2, 8));
}

TEST_F(hip_test, copies_in_every_direction_keep_the_data)
{
    const size_t size = 3 * MEBIBYTE + 17;
    std::vector<char> pattern(size), readback(size);
    device_buffer first(size), second(size);

    for (size_t i = 0; i < size; ++i) {
        pattern[i] = static_cast<char>(i * 31 + (i >> 12));
    }

    ASSERT_EQ(hipSuccess, hipMemcpy(first.get(), pattern.data(), size,
                                    hipMemcpyHostToDevice));
    ASSERT_EQ(hipSuccess, hipMemcpy(second.get(), first.get(), size,
                                    hipMemcpyDeviceToDevice));
    ASSERT_EQ(hipSuccess, hipMemcpy(readback.data(), second.get(), size,
                                    hipMemcpyDefault));
    ASSERT_EQ(hipSuccess, hipDeviceSynchronize());
    EXPECT_EQ(pattern, readback);
}

TEST_F(hip_test, memset_fills_its_range_and_nothing_else)
{
    /* More than one chunk, and an odd rest; a byte left on either side */
    const size_t fill = 2 * MEBIBYTE + 13;
    const size_t size = fill + 2;
    std::vector<char> readback(size);
    device_buffer buffer(size);

    ASSERT_EQ(hipSuccess, hipMemset(buffer.get(), 1, size));
    ASSERT_EQ(hipSuccess, hipMemset(buffer.get() + 1, 0xc3, fill));
    ASSERT_EQ(hipSuccess, hipMemcpy(readback.data(), buffer.get(), size,
                                    hipMemcpyDeviceToHost));
    EXPECT_EQ(1, readback.front());
    EXPECT_EQ(1, readback.back());
    for (size_t i = 1; i <= fill; ++i) {
        ASSERT_EQ('\xc3', readback[i]) << "offset " << i;
    }
}

TEST_F(hip_test, range_beyond_the_allocation_is_refused)
{
    device_buffer buffer(4096);
    std::vector<char> host(8192);

    EXPECT_EQ(hipErrorInvalidValue, hipMemcpy(buffer.get() + 1, host.data(),
                                              4096, hipMemcpyDefault));
    EXPECT_EQ(hipErrorInvalidValue, hipMemcpy(host.data(), buffer.get() + 1,
                                              4096, hipMemcpyDefault));
    EXPECT_EQ(hipErrorInvalidValue, hipMemset(buffer.get() + 4095, 0, 2));
    EXPECT_EQ(hipSuccess, hipMemset(buffer.get() + 4095, 0, 1));
}

TEST_F(hip_test, bad_arguments_are_refused)
{
    device_buffer buffer(64);
    hipPointerAttribute_t attr;
    int on_stack = 0;

    EXPECT_EQ(hipErrorInvalidValue, hipMalloc(nullptr, 64));
    EXPECT_EQ(hipErrorInvalidValue, hipGetDeviceCount(nullptr));
    EXPECT_EQ(hipErrorInvalidValue, hipMemGetInfo(nullptr, nullptr));
    EXPECT_EQ(hipErrorInvalidValue, hipFree(&on_stack));
    EXPECT_EQ(hipErrorInvalidValue, hipFree(buffer.get() + 1));
    EXPECT_EQ(hipErrorInvalidValue, hipPointerGetAttributes(&attr, &on_stack));
    EXPECT_EQ(hipErrorInvalidValue, hipMemset(nullptr, 0, 1));
    EXPECT_EQ(hipErrorInvalidMemcpyDirection,
              hipMemcpy(&on_stack, buffer.get(), 4,
                        static_cast<hipMemcpyKind>(hipMemcpyDefault + 1)));
    EXPECT_EQ(hipErrorInvalidValue, hipInit(1));
}

TEST_F(hip_test, nothing_is_done_for_null_and_for_no_bytes)
{
    void *ptr = &ptr;

    EXPECT_EQ(hipSuccess, hipFree(nullptr));
    EXPECT_EQ(hipSuccess, hipHostFree(nullptr));
    EXPECT_EQ(hipSuccess, hipMalloc(&ptr, 0));
    EXPECT_EQ(nullptr, ptr);
    EXPECT_EQ(hipSuccess, hipMemcpy(nullptr, nullptr, 0, hipMemcpyDefault));
    EXPECT_EQ(hipSuccess, hipMemset(nullptr, 0, 0));
}

TEST_F(hip_test, second_free_of_an_address_is_refused)
{
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMalloc(&ptr, 64));
    EXPECT_EQ(hipSuccess, hipFree(ptr));
    EXPECT_EQ(hipErrorInvalidValue, hipFree(ptr));
}

TEST_F(hip_test, last_error_is_kept_for_the_thread_until_it_is_read)
{
    EXPECT_EQ(hipErrorInvalidDevice, hipSetDevice(-1));
    std::thread([]() { EXPECT_EQ(hipSuccess, hipPeekAtLastError()); }).join();
    EXPECT_EQ(hipErrorInvalidDevice, hipPeekAtLastError());
    EXPECT_EQ(hipErrorInvalidDevice, hipGetLastError());
    EXPECT_EQ(hipSuccess, hipGetLastError());
}

TEST_F(hip_test, errors_have_a_name_and_a_text)
{
    EXPECT_STREQ("hipErrorOutOfMemory", hipGetErrorName(hipErrorOutOfMemory));
    EXPECT_STREQ("out of memory", hipGetErrorString(hipErrorOutOfMemory));
    EXPECT_STREQ("hipSuccess", hipGetErrorName(hipSuccess));
    EXPECT_STREQ("hipErrorUnknown", hipGetErrorName(hipErrorTbd));
}

TEST_F(hip_test, device_and_managed_memory_use_the_exported_hsa_functions)
{
    const int64_t allocated = calls("hsa_amd_memory_pool_allocate");
    const int64_t freed     = calls("hsa_amd_memory_pool_free");
    void *ptr               = nullptr;

    ASSERT_EQ(hipSuccess, hipMalloc(&ptr, 64));
    ASSERT_EQ(hipSuccess, hipFree(ptr));
    ASSERT_EQ(hipSuccess, hipMallocManaged(&ptr, 64));
    ASSERT_EQ(hipSuccess, hipFree(ptr));
    EXPECT_EQ(allocated + 2, calls("hsa_amd_memory_pool_allocate"));
    EXPECT_EQ(freed + 2, calls("hsa_amd_memory_pool_free"));
}

TEST_F(hip_test, too_large_an_allocation_is_out_of_memory)
{
    size_t free_size = 0, total_size = 0;
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMemGetInfo(&free_size, &total_size));
    EXPECT_EQ(hipErrorOutOfMemory, hipMalloc(&ptr, total_size + 4096));
    EXPECT_EQ(nullptr, ptr);
    EXPECT_EQ(free_size, free_bytes());
}

TEST_F(hip_test, failed_allocation_leaves_nothing_behind)
{
    const int64_t before = count(EMUL_COUNT_ALLOCATIONS);
    void *ptr            = nullptr;

    fail_next("hsa_amd_memory_pool_allocate", HSA_STATUS_ERROR);
    EXPECT_EQ(hipErrorOutOfMemory, hipMalloc(&ptr, 64));
    fail_next("hsa_amd_agents_allow_access", HSA_STATUS_ERROR);
    EXPECT_EQ(hipErrorOutOfMemory, hipMallocManaged(&ptr, 64));
    EXPECT_EQ(before, count(EMUL_COUNT_ALLOCATIONS));
}

TEST_F(hip_test, failed_free_leaves_the_allocation_usable)
{
    void *ptr = nullptr;

    ASSERT_EQ(hipSuccess, hipMalloc(&ptr, 64));
    fail_next("hsa_amd_memory_pool_free", HSA_STATUS_ERROR);
    EXPECT_EQ(hipErrorUnknown, hipFree(ptr));
    EXPECT_EQ(hipSuccess, hipMemset(ptr, 0, 64));
    EXPECT_EQ(hipSuccess, hipFree(ptr));
}

TEST_F(hip_test, failed_copy_is_reported)
{
    device_buffer buffer(64);

    fail_next("hsa_memory_copy", HSA_STATUS_ERROR);
    EXPECT_EQ(hipErrorUnknown, hipMemset(buffer.get(), 0, 64));
    EXPECT_EQ(hipErrorUnknown, hipGetLastError());
    EXPECT_EQ(hipSuccess, hipMemset(buffer.get(), 0, 64));
}

TEST_F(hip_test, free_that_waits_holds_up_nobody_else)
{
    const char *const point = "hsa_amd_memory_pool_free";
    int64_t waiters         = 0;
    void *ptr               = nullptr;

    device_buffer other(64);
    ASSERT_EQ(hipSuccess, hipMalloc(&ptr, 64));
    ASSERT_EQ(0, m_api->gate_close(getpid(), point));
    std::thread freeing([ptr]() { EXPECT_EQ(hipSuccess, hipFree(ptr)); });

    while (waiters == 0) {
        ASSERT_EQ(0, m_api->gate_waiters(getpid(), point, &waiters));
        sched_yield();
    }

    /* Would hang here if the waiting thread held a lock */
    EXPECT_EQ(hipMemoryTypeDevice, attributes(other.get()).memoryType);
    EXPECT_EQ(hipSuccess, hipMemset(other.get(), 0, 64));
    EXPECT_EQ(hipErrorInvalidValue, hipFree(ptr)) << "freed already";

    ASSERT_EQ(0, m_api->gate_open(getpid(), point));
    freeing.join();
}

struct versioned_name {
    const char *name;
    const char *node;
};

class hip_version_test : public ::testing::TestWithParam<versioned_name> {
};

TEST_P(hip_version_test, symbol_is_at_its_node)
{
    EXPECT_NE(nullptr,
              dlvsym(RTLD_DEFAULT, GetParam().name, GetParam().node))
            << GetParam().name << "@" << GetParam().node;
}

INSTANTIATE_TEST_SUITE_P(
        hip, hip_version_test,
        ::testing::Values(versioned_name{"hipMalloc", "hip_4.2"},
                          versioned_name{"hipFree", "hip_4.2"},
                          versioned_name{"hipGraphCreate", "hip_4.3"},
                          versioned_name{"hipStreamWaitValue32", "hip_4.4"},
                          versioned_name{"hipGraphClone", "hip_4.5"},
                          versioned_name{"hipPointerGetAttribute", "hip_5.0"},
                          versioned_name{"hipMallocAsync", "hip_5.1"},
                          versioned_name{"hipMemcpy_spt", "hip_5.2"}),
        [](const auto &info) { return std::string(info.param.name); });

TEST_F(hip_death_test, what_is_not_emulated_aborts_with_its_name)
{
    int value;

    EXPECT_DEATH((void)hipDeviceReset(), "hipDeviceReset is not emulated");
    EXPECT_DEATH((void)hipGraphDestroy(nullptr),
                 "hipGraphDestroy is not emulated");
    EXPECT_DEATH((void)hipDeviceGetAttribute(&value,
                                             hipDeviceAttributeEccEnabled, 0),
                 "attribute [0-9]+ is not emulated");
}

} // namespace
