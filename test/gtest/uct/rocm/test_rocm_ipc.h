/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef TEST_ROCM_IPC_H
#define TEST_ROCM_IPC_H

#include "rocm_ipc_director.h"

/** How the runtime treats async handlers on IPC signals: runtimes differ. */
struct rocm_ipc_mode {
    const char *name;
    const char *handler; /**< Value of EMUL_IPC_HANDLER */
    const char *wakeup;  /**< Value of EMUL_HANDLER_WAKEUP */
};

std::ostream &operator<<(std::ostream &os, const rocm_ipc_mode &mode);

/** Handlers are called at once. */
extern const rocm_ipc_mode rocm_ipc_mode_accept;

/** Handlers are refused. */
extern const rocm_ipc_mode rocm_ipc_mode_refuse;

/** Handlers are armed, and called when something unrelated happens next. */
extern const rocm_ipc_mode rocm_ipc_mode_late;

/** Handlers are armed and never called. */
extern const rocm_ipc_mode rocm_ipc_mode_lost;

/** Names a test by its mode. */
std::string
rocm_ipc_mode_name(const ::testing::TestParamInfo<rocm_ipc_mode> &info);

/** Run the tests of a class in the modes that are named. */
#define ROCM_IPC_TEST_IN_MODES(_test_class, ...) \
    INSTANTIATE_TEST_SUITE_P(, _test_class, ::testing::Values(__VA_ARGS__), \
                             rocm_ipc_mode_name);

/** Run the tests of a class in each mode in which a free is noticed by a way of
 *  its own, and all that was armed is called. */
#define ROCM_IPC_TEST_MODES(_test_class) \
    ROCM_IPC_TEST_IN_MODES(_test_class, rocm_ipc_mode_accept, \
                           rocm_ipc_mode_refuse)

/**
 * A test in which processes share device memory by the ROCm IPC transport.
 *
 * Where the runtime is emulated, each test has a node of its own and ends with
 * a look at the node's counts: whatever the transport has not given back after
 * all was closed and freed makes the test fail. On a real GPU the same
 * behaviour is expected, without the counts, and in the runtime's own mode.
 */
class test_rocm_ipc : public ucs::test_with_param<rocm_ipc_mode> {
protected:
    typedef rocm_ipc::peer          peer;
    typedef rocm_ipc::node          node;
    typedef rocm_ipc::buffer        buffer;
    typedef rocm_ipc::operation     operation;
    typedef rocm_ipc::environment_t environment_t;

    static const size_t default_length = 256 * UCS_KBYTE;

    /** Memory that its owner has handed out. */
    struct shared {
        buffer      mem;
        uint64_t    memh;
        std::string key;
    };

    test_rocm_ipc();
    virtual void cleanup();

    /** Set a variable for all processes, before the first one is started. */
    void set(const std::string &name, const std::string &value);

    /** The node of this test; skips the test if there is no device. */
    node &the_node();

    bool emulated();

    /** Skip the test on a real GPU. */
    void need_emulator();

    /** Whether the runtime is willing to call handlers. */
    bool has_handlers() const;

    /** Skip the test where no handler is called. */
    void need_handlers();

    /** Wait until the importer has learned that all memory which it has mapped
     *  is freed: then it has let go of the signals, however it has learned. */
    ::testing::AssertionResult noticed(const peer &importer);

    /** The owner's free, which is under way, waits for the importer's only
     *  mapping. */
    void expect_still_mapped(peer &owner, peer &importer, uint64_t freed);

    /** Start a process and open the transport in it. */
    peer &
    start(const std::string &name,
          const environment_t &environment        = environment_t(),
          const std::vector<std::string> &wrapper = std::vector<std::string>());

    /** The test provokes warnings or errors in the log. */
    void expect_log_messages();

    /** The test makes calls fail by which things are given back, so that some
     *  are left when a process exits. */
    void expect_leaks_at_exit();

    /** Allocate, fill, register and pack. */
    shared share(peer &owner, size_t length = default_length);

    /** Unpack the key, which must succeed. */
    uint64_t import(peer &importer, const shared &remote);

    /** Get a part of the remote memory and return how that ended; if it is
     *  well, the data must be the pattern that the owner has filled in. */
    ucs_status_t get_part(peer &importer, uint64_t ep, uint64_t rkey,
                          const shared &remote, size_t offset, size_t length);
    ucs_status_t
    get(peer &importer, uint64_t ep, uint64_t rkey, const shared &remote);

    /** Put a new pattern into all of the remote memory and return how that
     *  ended; if it is well, the owner must find it. */
    ucs_status_t put(peer &owner, peer &importer, uint64_t ep, uint64_t rkey,
                     shared &remote);

    /** Expect that a key is of no use: it is refused when it is unpacked, or
     *  by the operation that it is used for. */
    void expect_useless(peer &importer, uint64_t ep, const std::string &key,
                        uint64_t remote_address);

private:
    void end_tidily();
    void expect_all_returned();
    void expect_no_leak_at_exit();
    void expect_silence();

    environment_t         m_environment;
    std::unique_ptr<node> m_node;
    bool                  m_log_messages_expected;
    bool                  m_leaks_expected;
};

#endif
