/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_compat.h"
#include "test_rocm_ipc.h"

#include <string.h>

/* What the component of stock UCX offers is still there. */
class test_rocm_ipc_attr : public test_rocm_ipc {};

UCS_TEST_P(test_rocm_ipc_attr, memory_domain)
{
    const uint64_t stock_flags = rocm_ipc::stock_md_flags;
    const uint64_t rocm        = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    rocm_ipc::md_attributes attr = start("owner").query_md();

    EXPECT_EQ(stock_flags, attr.flags & stock_flags);
    EXPECT_EQ(rocm, attr.reg_mem_types & rocm);
    EXPECT_EQ(rocm, attr.access_mem_types & rocm);
    EXPECT_EQ(ULONG_MAX, attr.max_reg);
}

UCS_TEST_P(test_rocm_ipc_attr, interface)
{
    const uint64_t stock_flags = rocm_ipc::stock_iface_flags;
    rocm_ipc::iface_attributes attr = start("owner").query_iface();

    EXPECT_EQ(stock_flags, attr.flags & stock_flags);
    EXPECT_EQ(SIZE_MAX, attr.put_max_zcopy);
    EXPECT_EQ(SIZE_MAX, attr.get_max_zcopy);
    EXPECT_EQ(rocm_ipc::stock_min_zcopy, attr.put_min_zcopy);
    EXPECT_EQ(rocm_ipc::stock_min_zcopy, attr.get_min_zcopy);
    EXPECT_DOUBLE_EQ(rocm_ipc::stock_latency, attr.latency);
    EXPECT_LE(1u, attr.put_max_iov);
    EXPECT_LE(1u, attr.get_max_iov);
}

UCS_TEST_P(test_rocm_ipc_attr, interface_as_configured)
{
    set("UCX_ROCM_IPC_MIN_ZCOPY", "4k");
    set("UCX_ROCM_IPC_LAT", "2us");

    rocm_ipc::iface_attributes attr = start("owner").query_iface();

    EXPECT_EQ(4 * UCS_KBYTE, attr.put_min_zcopy);
    EXPECT_EQ(4 * UCS_KBYTE, attr.get_min_zcopy);
    EXPECT_DOUBLE_EQ(2e-6, attr.latency);
}

/* A stock peer reads our address and we read its. */
UCS_TEST_P(test_rocm_ipc_attr, address_is_as_stock_has_it)
{
    peer &owner = start("owner");
    size_t device_length;
    std::string address = owner.iface_address(device_length);
    pid_t pid;

    EXPECT_EQ(sizeof(uint64_t), device_length);
    ASSERT_EQ(sizeof(uint64_t) + sizeof(pid_t), address.size());
    memcpy(&pid, address.data() + device_length, sizeof(pid));
    EXPECT_EQ(owner.pid(), pid);
}

UCS_TEST_P(test_rocm_ipc_attr, processes_reach_each_other_and_not_themselves)
{
    peer &owner    = start("owner");
    peer &importer = start("importer");

    EXPECT_TRUE(importer.reaches(owner));
    EXPECT_TRUE(owner.reaches(importer));
    EXPECT_FALSE(owner.reaches(owner));
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_attr)
