/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <stdlib.h>
#include <string.h>

#include <fstream>

using namespace rocm_ipc;

/* What a process does besides: fork, threads, endings, and peers that are not
 * like it. */
class test_rocm_ipc_process : public test_rocm_ipc {
protected:
    static const size_t page = 4 * UCS_KBYTE;

    static int num_in_output(const peer &who, const std::string &text)
    {
        std::string output = who.output();
        int count          = 0;
        size_t at          = 0;

        while ((at = output.find(text, at)) != std::string::npos) {
            ++count;
            at += text.size();
        }
        return count;
    }

    /** Wait until the process has said something so often. */
    static ::testing::AssertionResult
    says(peer &who, const std::string &text, int times)
    {
        double deadline = ucs_time_to_sec(ucs_get_time()) + time_limit();
        int count;

        while ((count = num_in_output(who, text)) < times) {
            who.call(VERB_HELLO, {}, "", LANE_CONTROL);
            if (ucs_time_to_sec(ucs_get_time()) > deadline) {
                return ::testing::AssertionFailure()
                       << who.name() << " has said '" << text << "' " << count
                       << " times";
            }
        }

        return (count == times) ?
                       ::testing::AssertionSuccess() :
                       (::testing::AssertionFailure() << count << " times");
    }

    static std::string hex(uint64_t value)
    {
        std::stringstream text;

        text << "0x" << std::hex << value;
        return text.str();
    }

    void fork_and_expect_nothing_touched(bool run_exit_functions)
    {
        peer &owner      = start("owner");
        peer &importer   = start("importer");
        uint64_t ep      = importer.connect(owner);
        shared remote    = share(owner);
        shared other     = share(owner);
        uint64_t rkey    = import(importer, remote);
        uint64_t rkey2   = import(importer, other);
        int64_t handlers = 0;

        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        if (emulated()) {
            handlers = the_node().count(EMUL_COUNT_HANDLERS);
        }

        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(0u,
                      importer.call(VERB_FORK, {run_exit_functions}).number[0]);
            EXPECT_EQ(0u,
                      owner.call(VERB_FORK, {run_exit_functions}).number[0]);
        }

        if (emulated()) {
            EXPECT_EQ(1, the_node().count(EMUL_COUNT_ATTACHES));
            EXPECT_EQ(2, the_node().count(EMUL_COUNT_IPC_SIGNALS));
            EXPECT_EQ(handlers, the_node().count(EMUL_COUNT_HANDLERS));
        }
        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
        EXPECT_UCS_OK(get(importer, ep, rkey2, other));
        owner.free(remote.mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(get(importer, ep, rkey2, other));
        owner.free(other.mem);
        EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey2, other));
    }
};

const size_t test_rocm_ipc_process::page;

UCS_TEST_P(test_rocm_ipc_process, forked_child_exits_at_once)
{
    fork_and_expect_nothing_touched(false);
}

UCS_TEST_P(test_rocm_ipc_process, forked_child_exits_tidily)
{
    fork_and_expect_nothing_touched(true);
}

/* The user is told who waits for what: once for each pointer. */
UCS_TEST_P(test_rocm_ipc_process, pointer_held_too_long_is_reported_once)
{
    static const char text[] = "waits to free its memory";

    need_emulator();
    expect_log_messages();

    peer &owner    = start("owner");
    peer &importer = start("importer");
    std::vector<shared> remotes;
    std::vector<uint64_t> rkeys, frees;
    uint64_t pointer;

    for (int i = 0; i < 2; ++i) {
        remotes.push_back(share(owner));
        rkeys.push_back(import(importer, remotes[i]));
        ASSERT_UCS_OK(
                importer.rkey_ptr(rkeys[i], remotes[i].mem.address, pointer));
        frees.push_back(
                owner.post(VERB_FREE, LANE_LAST + i, {remotes[i].mem.address}));
        EXPECT_TRUE(says(importer, text, i + 1));
        EXPECT_NE(std::string::npos,
                  importer.output().find(hex(remotes[i].mem.address)));
    }
    EXPECT_EQ(2, num_in_output(importer,
                               "process " + ucs::to_string(owner.pid())));
    EXPECT_EQ(2, num_in_output(importer, " WARN "));

    for (int i = 0; i < 2; ++i) {
        EXPECT_FALSE(owner.replied(frees[i]));
        EXPECT_UCS_OK(importer.release(rkeys[i]));
        EXPECT_UCS_OK(owner.wait(frees[i]).status);
    }
}

UCS_TEST_P(test_rocm_ipc_process, many_threads)
{
    const unsigned num_lanes = 3, first_lane = 10;
    const uint64_t rounds    = 200 / ucs::test_time_multiplier();
    const size_t num_shared  = 4;
    static const uint64_t kinds[] = {0, WORK_PUT, WORK_POINTER};
    std::vector<shared> remotes;
    std::vector<route> ways;

    set("EMUL_ADDRESS_REUSE", "force");

    peer &owner    = start("owner");
    peer &importer = start("importer",
                           {{"UCX_ROCM_IPC_CACHE_MAX_REGIONS", "2"}});

    for (unsigned i = 0; i < num_lanes; ++i) {
        ways.push_back(importer.connect_lane(owner, first_lane + i));
    }

    expect_log_messages();
    for (int repeat = 0; repeat < 10; ++repeat) {
        std::vector<uint64_t> works, shares;
        uint64_t num_ok = 0, num_refused = 0;

        for (size_t i = 0; i < num_shared; ++i) {
            remotes.push_back(share(owner, 16 * page));
        }

        for (size_t i = 0; i < num_shared; ++i) {
            for (unsigned lane = 0; lane < num_lanes; ++lane) {
                const buffer &mem = remotes[i].mem;
                uint64_t kind     = kinds[(i + lane) % 3];
                /* Only one of them writes, to a part of its own */
                size_t offset     = (kind == WORK_PUT) ? 8 * page : 0;

                works.push_back(importer.post_work(
                        ways[lane], remotes[i].key, mem.address + offset, page,
                        (kind == WORK_PUT) ? mem.seed + 1000000 : mem.seed,
                        offset, rounds, kind));
            }
        }

        /* Meanwhile the owner shares and frees other memory, and frees half of
         * what is in use */
        for (unsigned lane = 0; lane < num_lanes; ++lane) {
            shares.push_back(owner.post(VERB_WORK_SHARE, first_lane + lane,
                                        {rounds, page}));
        }
        for (size_t i = 0; i < num_shared / 2; ++i) {
            owner.free(remotes[i].mem);
        }
        importer.progress();

        for (size_t i = 0; i < works.size(); ++i) {
            work_result res = peer::to_work_result(importer.wait(works[i]));

            EXPECT_UCS_OK(res.status);
            EXPECT_EQ(0u, res.num_wrong);
            EXPECT_TRUE((res.num_refused == 0) ||
                        (res.last_error == UCS_ERR_INVALID_ADDR))
                    << ucs_status_string(res.last_error);
            num_ok      += res.num_ok;
            num_refused += res.num_refused;
        }
        EXPECT_GE(num_ok, (num_shared / 2) * num_lanes * rounds);
        EXPECT_EQ(works.size() * rounds, num_ok + num_refused);
        for (size_t i = 0; i < shares.size(); ++i) {
            EXPECT_EQ(0u, owner.wait(shares[i]).number[0]);
        }
        for (size_t i = num_shared / 2; i < num_shared; ++i) {
            owner.free(remotes[i].mem);
        }
        remotes.clear();
    }
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_process)


/* The importer ends, in whatever order and state. */
class test_rocm_ipc_teardown : public test_rocm_ipc {
protected:
    enum owner_state_t {
        OWNER_ALIVE,
        OWNER_FREED,
        OWNER_DEAD,
        OWNER_LAST
    };

    static constexpr double soon = 1.0;

    void close_one(peer &importer, uint64_t kind)
    {
        result res = importer.call(VERB_CLOSE, {kind});

        EXPECT_LT(res.elapsed, soon * ucs::test_time_multiplier())
                << "closing " << kind;
    }

    void tear_down(const std::vector<uint64_t> &order, owner_state_t state,
                   bool detach_fails, const std::string &name)
    {
        peer &owner    = start("owner" + name);
        peer &importer = start("importer" + name);
        uint64_t ep    = importer.connect(owner);
        shared remote  = share(owner);
        shared held    = share(owner);
        uint64_t rkey  = import(importer, remote);
        uint64_t rkey2 = import(importer, held);
        uint64_t pointer, freed = 0;

        ASSERT_UCS_OK(get(importer, ep, rkey, remote));
        ASSERT_UCS_OK(importer.rkey_ptr(rkey2, held.mem.address, pointer));
        if (detach_fails) {
            the_node().fail(&importer, "hsa_amd_ipc_memory_detach", 1, 1000,
                            0x1000 /* HSA_STATUS_ERROR */);
        }

        if (state == OWNER_DEAD) {
            owner.kill();
        } else if (state == OWNER_FREED) {
            freed = owner.post_free(remote.mem);
        }

        for (size_t i = 0; i < order.size(); ++i) {
            close_one(importer, order[i]);
        }
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES,
                                       detach_fails ? 2 : 0, &importer));
        importer.free_all();
        importer.quit();
        if (state == OWNER_FREED) {
            EXPECT_UCS_OK(owner.wait(freed).status);
        }
        if (state != OWNER_DEAD) {
            owner.free(held.mem);
        }
    }

    void tear_down_all(const std::vector<uint64_t> &order)
    {
        need_emulator();
        expect_log_messages();
        expect_leaks_at_exit();

        for (int state = 0; state < OWNER_LAST; ++state) {
            for (int detach_fails = 0; detach_fails < 2; ++detach_fails) {
                tear_down(order, (owner_state_t)state, detach_fails != 0,
                          ucs::to_string(state * 2 + detach_fails));
            }
        }
    }
};

constexpr double test_rocm_ipc_teardown::soon;

UCS_TEST_P(test_rocm_ipc_teardown, keys_first)
{
    tear_down_all({OBJECT_RKEYS, OBJECT_EPS, OBJECT_IFACES, OBJECT_MD});
}

UCS_TEST_P(test_rocm_ipc_teardown, keys_before_interfaces)
{
    tear_down_all({OBJECT_EPS, OBJECT_RKEYS, OBJECT_IFACES, OBJECT_MD});
}

UCS_TEST_P(test_rocm_ipc_teardown, keys_before_domain)
{
    tear_down_all({OBJECT_EPS, OBJECT_IFACES, OBJECT_RKEYS, OBJECT_MD});
}

UCS_TEST_P(test_rocm_ipc_teardown, keys_last)
{
    tear_down_all({OBJECT_EPS, OBJECT_IFACES, OBJECT_MD, OBJECT_RKEYS});
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_teardown)


/* Peers of which one has UCX as it is without this transport's changes. */
class test_rocm_ipc_stock : public test_rocm_ipc {
protected:
    enum {
        OFFSET_DEVICE = 48,
        OFFSET_PID    = 52,
        OFFSET_PID_NS = 56,
        KEY_LENGTH    = 96
    };

    peer &start_stock(const std::string &name)
    {
        const char *stock = getenv("ROCM_IPC_STOCK_MODULES");

        if (stock == NULL) {
            UCS_TEST_SKIP_R("ROCM_IPC_STOCK_MODULES names no folder with the"
                            " modules of an unchanged UCX");
        }

        return start(name, {{"UCX_MODULE_DIR", stock}});
    }

    /** As a patched importer sees a stock peer's key, which may lie anywhere:
     *  behind its end is what happens to be there. */
    static std::string lengthen(std::string key, char behind)
    {
        key.resize(KEY_LENGTH, behind);
        return key;
    }

    /** The key as newer versions of stock UCX would have made it. */
    static std::string newer_layout(const peer &owner, std::string key)
    {
        int32_t pid     = owner.own_pid();
        uint64_t pid_ns = 0x1234;

        key.resize(OFFSET_PID);
        key.append((const char*)&pid, sizeof(pid));
        key.append((const char*)&pid_ns, sizeof(pid_ns));
        return lengthen(key, (char)0x5a);
    }

    void import_from_stock(bool newer)
    {
        peer &owner    = start_stock("owner");
        peer &importer = start("importer");
        uint64_t ep    = importer.connect(owner);
        shared remote  = share(owner);
        uint64_t freed, rkey;

        EXPECT_LE(remote.key.size(), 64u);
        remote.key = newer ? newer_layout(owner, remote.key) :
                             lengthen(remote.key, (char)0xff);
        rkey       = import(importer, remote);
        for (int i = 0; i < 3; ++i) {
            EXPECT_UCS_OK(get(importer, ep, rkey, remote));
            EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
        }
        if (emulated()) {
            EXPECT_EQ(1,
                      the_node().calls("hsa_amd_ipc_memory_attach", &importer));
            EXPECT_EQ(0, the_node().count(EMUL_COUNT_IPC_SIGNAL_ATTACHES));
        }

        /* As ever: the mapping goes with the connection */
        freed = owner.post_free(remote.mem);
        if (emulated()) {
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
        }
        EXPECT_UCS_OK(importer.release(rkey));
        importer.disconnect(ep);
        EXPECT_UCS_OK(owner.wait(freed).status);
    }
};

UCS_TEST_P(test_rocm_ipc_stock, owner)
{
    import_from_stock(false);
}

UCS_TEST_P(test_rocm_ipc_stock, owner_with_newer_layout)
{
    import_from_stock(true);
}

UCS_TEST_P(test_rocm_ipc_stock, importer)
{
    peer &owner    = start("owner");
    peer &importer = start_stock("importer");
    uint64_t ep    = importer.connect(owner);
    shared remote  = share(owner);
    shared second  = share(owner);
    uint64_t rkey  = import(importer, remote);
    uint64_t rkey2 = import(importer, second);
    uint64_t freed;

    EXPECT_EQ((size_t)KEY_LENGTH, remote.key.size());
    for (int i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get(importer, ep, rkey, remote));
        EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
        EXPECT_UCS_OK(get(importer, ep, rkey2, second));
    }

    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_FREES_BLOCKED, 1));
    }
    importer.close_transport();
    importer.quit();
    EXPECT_UCS_OK(owner.wait(freed).status);
}

/* A patched importer of a stock and of a patched owner, and a stock importer of
 * the same patched owner, all at once. */
UCS_TEST_P(test_rocm_ipc_stock, all_together)
{
    peer &stock_owner    = start_stock("stock_owner");
    peer &owner          = start("owner");
    peer &stock_importer = start_stock("stock_importer");
    peer &importer       = start("importer");
    shared old_remote    = share(stock_owner);
    shared remote        = share(owner);
    uint64_t ep1 = importer.connect(stock_owner);
    uint64_t ep2 = importer.connect(owner);
    uint64_t ep3 = stock_importer.connect(owner);
    uint64_t rkey1, rkey2, rkey3, freed;

    old_remote.key = lengthen(old_remote.key, 0);
    rkey1          = import(importer, old_remote);
    rkey2          = import(importer, remote);
    rkey3          = import(stock_importer, remote);
    for (int i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get(importer, ep1, rkey1, old_remote));
        EXPECT_UCS_OK(get(importer, ep2, rkey2, remote));
        EXPECT_UCS_OK(get(stock_importer, ep3, rkey3, remote));
    }

    freed = owner.post_free(remote.mem);
    if (emulated()) {
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, 1, &importer));
        EXPECT_FALSE(owner.replied(freed));
    }
    EXPECT_UCS_OK(get(importer, ep1, rkey1, old_remote));
    stock_importer.close_transport();
    stock_importer.quit();
    EXPECT_UCS_OK(owner.wait(freed).status);
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_stock)


/* Peers in PID namespaces of their own, where they have equal pids. */
class test_rocm_ipc_namespace : public test_rocm_ipc {
protected:
    test_rocm_ipc_namespace()
    {
        /* And equal addresses, to make it worse */
        set("EMUL_ADDRESS_START", "0x7ea000000000");
    }

    peer &start_apart(const std::string &name)
    {
        static const char test[] = "unshare --pid --fork true 2>/dev/null";

        if (system(test) != 0) {
            UCS_TEST_SKIP_R("no new PID namespace can be made here");
        }

        return start(name, environment_t(),
                     {"unshare", "--pid", "--fork", "--kill-child"});
    }
};

UCS_TEST_P(test_rocm_ipc_namespace, owners_with_equal_pids)
{
    peer &owner1   = start_apart("owner1");
    peer &owner2   = start_apart("owner2");
    peer &importer = start("importer");
    shared remote1 = share(owner1);
    shared remote2 = share(owner2);
    uint64_t ep1 = importer.connect(owner1), ep2 = importer.connect(owner2);
    uint64_t rkey1 = import(importer, remote1);
    uint64_t rkey2 = import(importer, remote2);

    ASSERT_EQ(owner1.own_pid(), owner2.own_pid());
    for (int i = 0; i < 3; ++i) {
        EXPECT_UCS_OK(get(importer, ep1, rkey1, remote1));
        EXPECT_UCS_OK(get(importer, ep2, rkey2, remote2));
        EXPECT_UCS_OK(put(owner1, importer, ep1, rkey1, remote1));
    }
    if (emulated()) {
        EXPECT_EQ(remote1.mem.address, remote2.mem.address);
        EXPECT_EQ(2, the_node().calls("hsa_amd_ipc_memory_attach", &importer));
    }

    owner1.free(remote1.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep1, rkey1, remote1));
    EXPECT_UCS_OK(get(importer, ep2, rkey2, remote2));
    owner2.free(remote2.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep2, rkey2, remote2));
}

UCS_TEST_P(test_rocm_ipc_namespace, importer_is_apart)
{
    peer &owner    = start("owner");
    peer &importer = start_apart("importer");
    shared remote  = share(owner);
    uint64_t ep    = importer.connect(owner);
    uint64_t rkey  = import(importer, remote);

    EXPECT_UCS_OK(get(importer, ep, rkey, remote));
    EXPECT_UCS_OK(put(owner, importer, ep, rkey, remote));
    owner.free(remote.mem);
    EXPECT_EQ(UCS_ERR_INVALID_ADDR, get(importer, ep, rkey, remote));
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_namespace)
