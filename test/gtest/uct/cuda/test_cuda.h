/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef TEST_CUDA_H
#define TEST_CUDA_H

#include "cuda_copies.h"
#include "cuda_emulator.h"

#include <common/test.h>

#include <list>
#include <memory>

/** Not in all releases of UCX. Transports that know of no remote side take it
 *  for an ordinary flush. */
#define CUDA_FLUSH_FLAG_REMOTE UCS_BIT(1)

/** Run the tests of a class over the transports that are named. */
#define CUDA_TEST_OVER(_test_class, ...) \
    INSTANTIATE_TEST_SUITE_P(, _test_class, ::testing::Values(__VA_ARGS__), \
                             cuda_test_transport_name);

/** Run the tests of a class over all transports that have a flush. */
#define CUDA_TEST_TRANSPORTS(_test_class) \
    CUDA_TEST_OVER(_test_class, "cuda_copy", "cuda_ipc")

std::string
cuda_test_transport_name(const ::testing::TestParamInfo<const char*> &info);

/**
 * A test of copies over an interface of a CUDA transport.
 *
 * On an emulated runtime copies can be held and made to fail, and each test
 * ends with a look at what the transport has not given back. On a real GPU
 * nothing is held, and all else is expected the same; a test that would say
 * nothing then skips itself.
 *
 * A message of UCX that was not expected makes the test fail.
 */
class test_cuda_base : public ucs::test_with_param<const char*> {
protected:
    typedef cuda_test::completion          completion;
    typedef cuda_test::copy                copy;
    typedef cuda_test::transport::config_t config_t;

    test_cuda_base();
    virtual void init();
    virtual void cleanup();

    /** @name The scene
     *  @{ */

    /** Open an interface, with an endpoint and lanes of so many slots. */
    void open(const config_t &changes = config_t(), unsigned num_slots = 64);

    /** Skip the test on a real GPU. */
    void need_emulator();

    /** Skip the test if there are less. */
    void need_lanes(unsigned num);

    bool is_ipc() const;
    bool emulated() const;
    unsigned num_lanes() const;

    /** What UCX says of copies that an interface leaves when it is closed. */
    std::string leaves_copies_message() const;

    /** For @ref open: what nobody uses does not stay mapped. */
    config_t without_cache() const;

    /** A lane of cuda_copy on which UCX allocates nothing to know the type of
     *  memory. */
    static const unsigned host_to_host = 3;

    /** A lane of cuda_ipc. */
    cuda_test::ipc_lane &ipc_lane(unsigned index);

    uct_iface_h iface() const
    {
        return m_transport->iface();
    }

    /** Another endpoint of the interface; the caller destroys it. */
    uct_ep_h connect();

    /** Close endpoint and interface now. */
    void close_iface();

    /** An error sticks to the context: nothing can be given back. */
    void context_is_broken();
    /** @} */

    /** @name Copies
     *  @{ */

    /** Prepare a copy over a lane; puts and gets take turns. */
    copy &prepare(unsigned lane);
    ucs_status_t post(copy &c, bool with_completion = true);

    /** Prepare and post, and expect that it is under way. */
    copy &start(unsigned lane);

    /** Flush the endpoint, without completion if it is NULL. */
    ucs_status_t flush(completion *comp, unsigned flags = UCT_FLUSH_FLAG_LOCAL);

    /** Flush with a completion, and expect that it is under way. */
    void start_flush(completion &comp, unsigned flags = UCT_FLUSH_FLAG_LOCAL);

    unsigned progress();

    /** Whether the interface has nothing outstanding. */
    bool is_idle();

    ::testing::AssertionResult progress_until(const completion &comp);

    /** Progress until the interface has nothing to do. */
    ::testing::AssertionResult progress_all();
    /** @} */

    /** @name Time
     *  @{ */

    /** On an emulated runtime, hold all copies from now on. */
    void hold();

    /** Let so many pass. */
    void pass(unsigned num);

    void release();

    /** Wait until the device has done all; nothing may be held. */
    void settle();

    /** The gate of a lane's stream. Copies over the lane. */
    std::string gate_of(unsigned lane);

    /** So many streams have work, as the transport believes: it adds a callback
     *  to each of them when it is asked to wake somebody up. */
    int64_t num_busy_streams();
    /** @} */

    /** @name Expectations
     *  @{ */
    static void
    expect_done(const completion &comp, ucs_status_t status = UCS_OK);
    static void expect_waiting(const completion &comp);

    /** The messages with this text are expected, and there is at least one. */
    void expect_message(const std::string &text);

    /** Messages are of no interest from now on. */
    void allow_messages();

    static size_t num_messages(const std::string &text);
    /** @} */

    /** What one side of a copy holds, in bytes. */
    size_t slot_length() const;

    cuda_test::emulator                          m_emulator;
    std::unique_ptr<cuda_test::context>          m_context;
    std::unique_ptr<cuda_test::remote_owner>     m_owner;
    std::unique_ptr<cuda_test::transport>        m_transport;
    std::vector<std::unique_ptr<cuda_test::lane> > m_lanes;
    uct_ep_h                                     m_ep;
    std::list<copy>                              m_copies;

    /** Readable when the transport has called for progress. */
    int                                          m_event_fd;

    /** So many of the owner's devices are used at most; for @ref open. */
    unsigned                                     m_max_devices;

private:
#if UCX_HAS_CUDA_IPC_MD_CACHE
    static void set_cache(bool is_enabled);
#endif
    void open_lanes(unsigned num_slots);
    void end_tidily();
    void expect_all_returned(const std::vector<emul_count_t> &counts);
    void begin_messages();
    void end_messages();
    void expect_no_other_message();
    void close_all();
    int64_t count(emul_count_t what) const;
    int64_t num_callbacks() const;
    static void event_cb(void *arg, unsigned flags);
    static ucs_log_func_rc_t logger(const char *file, unsigned line,
                                    const char *function, ucs_log_level_t level,
                                    const ucs_log_component_config_t *comp_conf,
                                    const char *message, va_list ap);

    bool                            m_is_broken;
    bool                            m_messages_allowed;
    std::vector<std::string>        m_expected;
    std::map<emul_count_t, int64_t> m_counts;
    std::map<cuda_test::lane*, unsigned> m_next_slot;
    static std::vector<std::string> messages;
    static uint64_t                 last_seed;
#if UCX_HAS_CUDA_IPC_MD_CACHE
    static uct_component_h          ipc_component;
#endif
};

#endif
