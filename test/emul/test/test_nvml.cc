/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <nvml.h>

#include <cstring>

/*
 * NVML: the GPUs and how they are connected.
 */

#define EXPECT_NVML(_call) EXPECT_EQ(NVML_SUCCESS, (_call))

class nvml : public cuda_test {
protected:
    void SetUp() override
    {
        cuda_test::SetUp();
        EXPECT_NVML(nvmlInit());
        EXPECT_NVML(nvmlDeviceGetHandleByIndex(0, &m_device));
    }

    void TearDown() override
    {
        EXPECT_NVML(nvmlShutdown());
        cuda_test::TearDown();
    }

    unsigned link_count()
    {
        nvmlFieldValue_t field = {};

        field.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT;
        EXPECT_NVML(nvmlDeviceGetFieldValues(m_device, 1, &field));
        EXPECT_NVML(field.nvmlReturn);
        EXPECT_EQ(NVML_VALUE_TYPE_UNSIGNED_INT, field.valueType);
        return field.value.uiVal;
    }

    nvmlDevice_t m_device;
};

TEST_F(nvml, devices)
{
    unsigned count = 0, index = 1;
    nvmlPciInfo_t pci;
    nvmlDevice_t device;
    char name[96] = "";
    int devices = 0, bus = 0;

    EXPECT_NVML(nvmlDeviceGetCount(&count));
    EXPECT_OK(cuDeviceGetCount(&devices));
    EXPECT_GE(int(count), devices);
    EXPECT_NVML(nvmlDeviceGetIndex(m_device, &index));
    EXPECT_EQ(0u, index);
    EXPECT_NVML(nvmlDeviceGetName(m_device, name, sizeof(name)));
    EXPECT_NE('\0', name[0]);
    EXPECT_NVML(nvmlDeviceGetPciInfo(m_device, &pci));
    EXPECT_NVML(nvmlDeviceGetHandleByPciBusId(pci.busId, &device));
    EXPECT_EQ(m_device, device);
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
              nvmlDeviceGetHandleByIndex(count, &device));

    if (int(count) == devices) {
        EXPECT_OK(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                       0));
        EXPECT_EQ(unsigned(bus), pci.bus);
    }
}

TEST_F(nvml, memory_behind_the_bus)
{
    nvmlBAR1Memory_t bar;

    EXPECT_NVML(nvmlDeviceGetBAR1MemoryInfo(m_device, &bar));
    EXPECT_EQ(bar.bar1Total, bar.bar1Free + bar.bar1Used);
}

TEST_F(nvml, unknown_field_says_so_itself)
{
    nvmlFieldValue_t field = {};

    field.fieldId = 99999;
    EXPECT_NVML(nvmlDeviceGetFieldValues(m_device, 1, &field));
    EXPECT_NE(NVML_SUCCESS, field.nvmlReturn);
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
              nvmlDeviceGetFieldValues(m_device, 0, &field));
}

TEST_F(nvml, links)
{
    nvmlEnableState_t active;
    nvmlPciInfo_t pci;

    REQUIRE_EMULATOR();
    EXPECT_EQ(18u, link_count());
    EXPECT_NVML(nvmlDeviceGetNvLinkState(m_device, 0, &active));
    EXPECT_EQ(NVML_FEATURE_ENABLED, active);
    EXPECT_NVML(nvmlDeviceGetNvLinkRemotePciInfo(m_device, 17, &pci));
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
              nvmlDeviceGetNvLinkRemotePciInfo(m_device, 18, &pci));

    setenv("EMUL_NVLINKS", "0", 1);
    EXPECT_EQ(0u, link_count());
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
              nvmlDeviceGetNvLinkRemotePciInfo(m_device, 0, &pci));
    unsetenv("EMUL_NVLINKS");
}

TEST_F(nvml, functions_fail_as_they_are_told)
{
    unsigned count;

    REQUIRE_EMULATOR();
    fail("nvmlDeviceGetCount", 1, 1, NVML_ERROR_NO_PERMISSION);
    EXPECT_EQ(NVML_ERROR_NO_PERMISSION, nvmlDeviceGetCount(&count));
    EXPECT_NVML(nvmlDeviceGetCount(&count));
}

TEST_F(nvml, must_be_initialized)
{
    unsigned count;

    EXPECT_NVML(nvmlShutdown());
    EXPECT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount(&count));
    EXPECT_EQ(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
    EXPECT_STREQ("Uninitialized", nvmlErrorString(NVML_ERROR_UNINITIALIZED));
    EXPECT_NVML(nvmlInit());
}
