/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

using namespace rocm_ipc;

const size_t test_rocm_ipc::default_length;

const rocm_ipc_mode rocm_ipc_mode_accept = {"accept", "accept", "prompt"};
const rocm_ipc_mode rocm_ipc_mode_refuse = {"refuse", "refuse", "prompt"};
const rocm_ipc_mode rocm_ipc_mode_late   = {"late", "accept", "late"};
const rocm_ipc_mode rocm_ipc_mode_lost   = {"lost", "accept", "lost"};

std::ostream &operator<<(std::ostream &os, const rocm_ipc_mode &mode)
{
    return os << mode.name;
}

std::string
rocm_ipc_mode_name(const ::testing::TestParamInfo<rocm_ipc_mode> &info)
{
    return info.param.name;
}

test_rocm_ipc::test_rocm_ipc() :
    m_log_messages_expected(false), m_leaks_expected(false)
{
    set("EMUL_IPC_HANDLER", GetParam().handler);
    set("EMUL_HANDLER_WAKEUP", GetParam().wakeup);

    /* What the tests rely on, whatever the test program was started with */
    set("EMUL_FREE", "block");
    set("EMUL_LATE_ATTACH", "error");
}

void test_rocm_ipc::set(const std::string &name, const std::string &value)
{
    m_environment[name] = value;
}

test_rocm_ipc::node &test_rocm_ipc::the_node()
{
    if (!m_node) {
        m_node.reset(new node(m_environment));
    }

    if (m_node->num_devices() == 0) {
        UCS_TEST_SKIP_R("no ROCm device");
    }

    if (!m_node->emulated() &&
        (std::string(GetParam().name) != rocm_ipc_mode_accept.name)) {
        UCS_TEST_SKIP_R("a real runtime has a mode of its own");
    }

    return *m_node;
}

bool test_rocm_ipc::emulated()
{
    return the_node().emulated();
}

void test_rocm_ipc::need_emulator()
{
    if (!emulated()) {
        UCS_TEST_SKIP_R("needs an emulated runtime");
    }
}

bool test_rocm_ipc::has_handlers() const
{
    return std::string(GetParam().handler) == "accept";
}

void test_rocm_ipc::need_handlers()
{
    need_emulator();
    if (!has_handlers()) {
        UCS_TEST_SKIP_R("needs a runtime that calls handlers");
    }
}

void test_rocm_ipc::expect_still_mapped(peer &owner, peer &importer,
                                        uint64_t freed)
{
    EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1, &owner));
    EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES, &importer));
    EXPECT_FALSE(owner.replied(freed));
}

::testing::AssertionResult test_rocm_ipc::noticed(const peer &importer)
{
    return the_node().reaches(EMUL_COUNT_IPC_SIGNAL_ATTACHES, 0, &importer);
}

test_rocm_ipc::peer &
test_rocm_ipc::start(const std::string &name, const environment_t &environment,
                     const std::vector<std::string> &wrapper)
{
    peer &started = the_node().start(name, environment, wrapper);

    started.open();
    return started;
}

void test_rocm_ipc::expect_log_messages()
{
    m_log_messages_expected = true;
}

void test_rocm_ipc::expect_leaks_at_exit()
{
    m_leaks_expected = true;
}

test_rocm_ipc::shared test_rocm_ipc::share(peer &owner, size_t length)
{
    shared made;

    made.mem = owner.alloc(length);
    owner.fill(made.mem);
    ASSERT_UCS_OK(owner.reg(made.mem.address, length, made.memh));
    ASSERT_UCS_OK(owner.pack(made.memh, made.key));
    return made;
}

uint64_t test_rocm_ipc::import(peer &importer, const shared &remote)
{
    uint64_t rkey;

    ASSERT_UCS_OK(importer.unpack(remote.key, rkey));
    return rkey;
}

ucs_status_t test_rocm_ipc::get_part(peer &importer, uint64_t ep, uint64_t rkey,
                                     const shared &remote, size_t offset,
                                     size_t length)
{
    buffer local = importer.alloc(length);
    ucs_status_t status;

    importer.fill(local);
    status = importer.get(ep, rkey, remote.mem.address + offset, local.address,
                          length);
    if (status == UCS_OK) {
        EXPECT_TRUE(
                importer.holds(local.address, length, remote.mem.seed, offset));
    } else {
        EXPECT_TRUE(importer.holds(local));
    }

    importer.free(local);
    return status;
}

ucs_status_t test_rocm_ipc::get(peer &importer, uint64_t ep, uint64_t rkey,
                                const shared &remote)
{
    return get_part(importer, ep, rkey, remote, 0, remote.mem.length);
}

ucs_status_t test_rocm_ipc::put(peer &owner, peer &importer, uint64_t ep,
                                uint64_t rkey, shared &remote)
{
    buffer local = importer.alloc(remote.mem.length);
    ucs_status_t status;

    importer.fill(local);
    status = importer.put(ep, rkey, remote.mem.address, local.address,
                          local.length);
    if (status == UCS_OK) {
        remote.mem.seed = local.seed;
        EXPECT_TRUE(owner.holds(remote.mem));
    }

    importer.free(local);
    return status;
}

void test_rocm_ipc::expect_useless(peer &importer, uint64_t ep,
                                   const std::string &key,
                                   uint64_t remote_address)
{
    const size_t length = 64;
    buffer local;
    uint64_t rkey;

    if (importer.unpack(key, rkey) != UCS_OK) {
        return;
    }

    local = importer.alloc(length);
    importer.fill(local);
    EXPECT_TRUE(UCS_STATUS_IS_ERR(
            importer.get(ep, rkey, remote_address, local.address, length)));
    EXPECT_TRUE(importer.holds(local));
    EXPECT_UCS_OK(importer.release(rkey));
    importer.free(local);
}

void test_rocm_ipc::cleanup()
{
    if (m_node) {
        try {
            if (!HasFailure()) {
                end_tidily();
            }
        } catch (const ucs::test_abort_exception &) {
            /* gtest knows of it already */
        }

        if (HasFailure()) {
            m_node->print_output();
        }
        m_node.reset();
    }

    test_base::cleanup();
}

void test_rocm_ipc::end_tidily()
{
    std::vector<peer*> all = m_node->peers();
    std::vector<peer*> live;

    /* A handler that a runtime has missed stays armed, which is no leak of the
     * transport's: let the runtime call it */
    if (m_node->emulated()) {
        m_node->change_setting("EMUL_HANDLER_WAKEUP", "prompt");
    }

    for (size_t i = 0; i < all.size(); ++i) {
        if (all[i]->running()) {
            live.push_back(all[i]);
        }
    }

    for (size_t i = 0; i < live.size(); ++i) {
        live[i]->close_transport();
    }

    for (size_t i = 0; i < live.size(); ++i) {
        live[i]->free_all();
        live[i]->close_md();
    }

    if (m_node->emulated()) {
        expect_all_returned();
    }

    for (size_t i = 0; i < live.size(); ++i) {
        live[i]->quit();
    }

    expect_no_leak_at_exit();
    expect_silence();
}

void test_rocm_ipc::expect_all_returned()
{
    static const emul_count_t counts[] = {
        EMUL_COUNT_ALLOCATIONS,         EMUL_COUNT_BYTES_CHARGED,
        EMUL_COUNT_ATTACHES,            EMUL_COUNT_SIGNALS,
        EMUL_COUNT_IPC_SIGNALS,         EMUL_COUNT_IPC_SIGNAL_ATTACHES,
        EMUL_COUNT_HANDLERS,            EMUL_COUNT_COPIES,
        EMUL_COUNT_FREES_BLOCKED
    };

    /* A thread of the runtime may still be on its way out of a handler */
    for (size_t i = 0; i < ucs_static_array_size(counts); ++i) {
        EXPECT_TRUE(m_node->reaches(counts[i], 0));
    }

    EXPECT_EQ(0, m_node->count(EMUL_COUNT_HANDLERS_DROPPED));
}

/* What the emulator reports of processes that were told to exit. One that was
 * told so while it had memory or interfaces may leave these; what the transport
 * keeps for itself it must give back in any case. There is one exception: where
 * the owner has not freed, a handler is still armed, since the runtime has no
 * call to disarm it, and its signal is still attached. */
void test_rocm_ipc::expect_no_leak_at_exit()
{
    static const char *leaks[] = {"leak: attach of", "leak: IPC signal"};
    std::vector<peer*> all = m_node->peers();

    for (size_t i = 0; (i < all.size()) && !m_leaks_expected; ++i) {
        std::string output = all[i]->output();

        for (size_t j = 0; j < ucs_static_array_size(leaks); ++j) {
            EXPECT_EQ(std::string::npos, output.find(leaks[j]))
                    << leaks[j] << " by " << all[i]->name();
        }
    }
}

void test_rocm_ipc::expect_silence()
{
    std::vector<peer*> all = m_node->peers();

    for (size_t i = 0; (i < all.size()) && !m_log_messages_expected; ++i) {
        std::string output = all[i]->output();

        EXPECT_EQ(std::string::npos, output.find(" WARN "));
        EXPECT_EQ(std::string::npos, output.find(" ERROR "));
    }
}
