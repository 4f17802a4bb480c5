/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"
#if UCX_HAS_CUDA_IPC_MD_CACHE

extern "C" {
#include <uct/cuda/cuda_ipc/cuda_ipc_md.h>
}
#endif

#if UCX_HAS_CUDA_SHARED_QUEUES

#include <cuda_runtime.h>
#endif

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace cuda_test;

uint64_t test_cuda_base::last_seed = 0;
#if UCX_HAS_CUDA_IPC_MD_CACHE
uct_component_h test_cuda_base::ipc_component = NULL;
#endif

/* The lanes of cuda_copy. Types that UCX does not know at once come last. */
static const struct {
    memory_type_t source;
    memory_type_t destination;
} local_lanes[] = {
        {MEMORY_DEVICE, MEMORY_DEVICE},  {MEMORY_HOST, MEMORY_DEVICE},
        {MEMORY_DEVICE, MEMORY_HOST},    {MEMORY_HOST, MEMORY_HOST},
        {MEMORY_MANAGED, MEMORY_DEVICE}, {MEMORY_DEVICE, MEMORY_MANAGED},
        {MEMORY_MANAGED, MEMORY_HOST},   {MEMORY_HOST, MEMORY_MANAGED},
        {MEMORY_MANAGED, MEMORY_MANAGED}};

std::string
cuda_test_transport_name(const ::testing::TestParamInfo<const char*> &info)
{
    return info.param;
}

test_cuda_base::test_cuda_base() :
    m_ep(NULL),
    m_event_fd(-1),
    m_max_devices(4),
    m_is_broken(false),
    m_messages_allowed(false)
{
}

void test_cuda_base::init()
{
    ucs::test_base::init();
    if (num_devices() == 0) {
        UCS_TEST_SKIP_R("no CUDA device");
    }

    begin_messages();
}

/*
 * The scene
 */

bool test_cuda_base::is_ipc() const
{
    return std::string(GetParam()) == "cuda_ipc";
}

std::string test_cuda_base::leaves_copies_message() const
{
#if UCX_HAS_CUDA_SHARED_QUEUES
    return "outstanding events";
#else
    return is_ipc() ? "outstanding events" : "queue not empty";
#endif
}

bool test_cuda_base::emulated() const
{
    return m_emulator.present();
}

void test_cuda_base::need_emulator()
{
    if (!emulated()) {
        UCS_TEST_SKIP_R("needs an emulated runtime");
    }
}

unsigned test_cuda_base::num_lanes() const
{
    return is_ipc() ? ucs_min((unsigned)num_devices(), m_max_devices) :
                      ucs_static_array_size(local_lanes);
}

void test_cuda_base::need_lanes(unsigned num)
{
    if (num_lanes() < num) {
        UCS_TEST_SKIP_R("needs " + ucs::to_string(num) + " devices");
    }
}

/* Large enough on a GPU that a copy takes a while */
size_t test_cuda_base::slot_length() const
{
    return emulated() ? 4 * UCS_KBYTE : 256 * UCS_KBYTE;
}

test_cuda_base::config_t test_cuda_base::without_cache() const
{
    config_t config;

    if (is_ipc()) {
        config["CACHE"] = "n";
    }
    return config;
}
#if UCX_HAS_CUDA_IPC_MD_CACHE

/* A process reads this once, and no memory domain may say otherwise. */
void test_cuda_base::set_cache(bool is_enabled)
{
    if (ipc_component != NULL) {
        ucs_derived_of(ipc_component, uct_cuda_ipc_component_t)
                ->enable_remote_cache = is_enabled;
    }
}
#endif

int64_t test_cuda_base::count(emul_count_t what) const
{
    return emulated() ? m_emulator.count(what) : 0;
}

void test_cuda_base::open(const config_t &changes, unsigned num_slots)
{
    config_t config = changes;

    for (int i = 0; emulated() && (i < EMUL_COUNT_LAST); ++i) {
        m_counts[(emul_count_t)i] = count((emul_count_t)i);
    }

    /* Each stream is made, used or not, and the emulator numbers but so many */
    if (is_ipc()) {
        config.insert(
                std::make_pair("MAX_STREAMS", ucs::to_string(m_max_devices)));
    }

#if UCX_HAS_CUDA_SHARED_QUEUES
    /* In which UCX 1.19 and newer copies and maps */
    m_context.reset(new context(0, true));
#else
    m_context.reset(new context(0));
#endif
    m_event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
#if UCX_HAS_CUDA_IPC_MD_CACHE
    bool is_cached = config.erase("CACHE") == 0;

    set_cache(true);
#endif
    m_transport.reset(new transport(GetParam(), config,
                                    is_ipc() ? NULL : event_cb, this));
#if UCX_HAS_CUDA_IPC_MD_CACHE
    if (is_ipc()) {
        ipc_component = m_transport->component();
        set_cache(is_cached);
    }
#endif
    if (m_transport->has_event_fd()) {
        close(m_event_fd);
        ASSERT_UCS_OK(uct_iface_event_fd_get(iface(), &m_event_fd));
    }

    if (is_ipc()) {
        m_owner.reset(new remote_owner());
    }

    m_ep = connect();
    open_lanes(num_slots);
}

void test_cuda_base::open_lanes(unsigned num_slots)
{
    for (unsigned i = 0; i < num_lanes(); ++i) {
        lane *opened;

        if (is_ipc()) {
            opened = new cuda_test::ipc_lane(*m_transport, *m_owner, i,
                                             num_slots, slot_length());
        } else {
            opened = new local_lane(local_lanes[i].source,
                                    local_lanes[i].destination, num_slots,
                                    slot_length());
        }
        m_lanes.push_back(std::unique_ptr<lane>(opened));
    }
}

cuda_test::ipc_lane &test_cuda_base::ipc_lane(unsigned index)
{
    return dynamic_cast<cuda_test::ipc_lane &>(*m_lanes.at(index));
}

uct_ep_h test_cuda_base::connect()
{
    return m_transport->connect(is_ipc() ? m_owner->address() :
                                           m_transport->address());
}

void test_cuda_base::close_iface()
{
    if (m_ep != NULL) {
        uct_ep_destroy(m_ep);
        m_ep = NULL;
    }
    m_transport->close_iface();
}

void test_cuda_base::context_is_broken()
{
    m_is_broken = true;
}

void test_cuda_base::event_cb(void *arg, unsigned)
{
    test_cuda_base *self = (test_cuda_base*)arg;
    uint64_t one    = 1;

    EXPECT_EQ((ssize_t)sizeof(one), write(self->m_event_fd, &one, sizeof(one)));
}

/*
 * Copies
 */

copy &test_cuda_base::prepare(unsigned lane_index)
{
    lane &where   = *m_lanes.at(lane_index);
    unsigned slot = m_next_slot[&where]++ % where.num_slots;

    ++last_seed;
    m_copies.emplace_back(where, slot, (last_seed % 2) != 0, last_seed);
    return m_copies.back();
}

ucs_status_t test_cuda_base::post(copy &c, bool with_completion)
{
    return c.where.post(m_ep, c.slot, c.is_put,
                        with_completion ? c.done.get() : NULL);
}

copy &test_cuda_base::start(unsigned lane_index)
{
    copy &c = prepare(lane_index);

    EXPECT_EQ(UCS_INPROGRESS, post(c));
    return c;
}

ucs_status_t test_cuda_base::flush(completion *comp, unsigned flags)
{
    return uct_ep_flush(m_ep, flags, (comp == NULL) ? NULL : comp->get());
}

void test_cuda_base::start_flush(completion &comp, unsigned flags)
{
    EXPECT_EQ(UCS_INPROGRESS, flush(&comp, flags));
    expect_waiting(comp);
}

unsigned test_cuda_base::progress()
{
    return uct_iface_progress(iface());
}

bool test_cuda_base::is_idle()
{
    return uct_iface_flush(iface(), UCT_FLUSH_FLAG_LOCAL, NULL) == UCS_OK;
}

::testing::AssertionResult
test_cuda_base::progress_until(const completion &comp)
{
    ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(time_limit());

    while (comp.calls() == 0) {
        if ((progress() == 0) && is_idle()) {
            return ::testing::AssertionFailure() << "will never be called";
        }
        if (ucs_get_time() > deadline) {
            return ::testing::AssertionFailure() << "was not called in time";
        }
        sched_yield();
    }

    return ::testing::AssertionSuccess();
}

::testing::AssertionResult test_cuda_base::progress_all()
{
    ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(time_limit());

    while (!is_idle()) {
        if ((progress() == 0) && (ucs_get_time() > deadline)) {
            return ::testing::AssertionFailure() << "did not end in time";
        }
        sched_yield();
    }

    return ::testing::AssertionSuccess();
}

/*
 * Time
 */

void test_cuda_base::hold()
{
    if (emulated()) {
        m_emulator.close_gate("copy");
    }
}

void test_cuda_base::pass(unsigned num)
{
    if (emulated()) {
        m_emulator.pass_gate("copy", num);
    }
}

void test_cuda_base::release()
{
    m_emulator.open_gates();
}

void test_cuda_base::settle()
{
    must(cuCtxSynchronize(), "cuCtxSynchronize");
}

/* The stream is the one that has begun more than before. Other streams have
 * nothing to do meanwhile. */
std::string test_cuda_base::gate_of(unsigned lane)
{
    std::vector<int64_t> before;

    start(lane);
    EXPECT_TRUE(progress_all()); /* Now it exists */
    for (unsigned i = 0; m_emulator.stream_operations(i) >= 0; ++i) {
        before.push_back(m_emulator.stream_operations(i));
    }

    start(lane);
    EXPECT_TRUE(progress_all());
    for (unsigned i = 1; i < before.size(); ++i) {
        if (m_emulator.stream_operations(i) != before[i]) {
            return "stream-" + ucs::to_string(i);
        }
    }

    throw failure("found no stream of a lane");
}

int64_t test_cuda_base::num_callbacks() const
{
    return m_emulator.calls("cuStreamAddCallback") +
           m_emulator.calls("cuLaunchHostFunc");
}

int64_t test_cuda_base::num_busy_streams()
{
    int64_t before = num_callbacks();

    EXPECT_UCS_OK(uct_iface_event_arm(iface(), UCT_EVENT_SEND_COMP));
    return num_callbacks() - before;
}

/*
 * Expectations
 */

void test_cuda_base::expect_done(const completion &comp, ucs_status_t status)
{
    EXPECT_EQ(1u, comp.calls());
    EXPECT_EQ(0, comp.count());
    EXPECT_EQ(status, comp.status());
}

void test_cuda_base::expect_waiting(const completion &comp)
{
    EXPECT_EQ(0u, comp.calls());
    EXPECT_EQ(1, comp.count());
}

/*
 * The end
 */

void test_cuda_base::cleanup()
{
    try {
        m_emulator.fail_none();
        release();
        if (m_transport) {
            end_tidily();
        }
    } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
    }

    close_all();
    end_messages();
    ucs::test_base::cleanup();
}

void test_cuda_base::end_tidily()
{
    bool is_well = !HasFailure() && !m_is_broken;

    if (m_transport->iface() != NULL) {
        EXPECT_TRUE(progress_all());
        close_iface();
    }

    if (is_well) {
        expect_all_returned({EMUL_COUNT_STREAMS, EMUL_COUNT_EVENTS,
                             EMUL_COUNT_CALLBACKS, EMUL_COUNT_COPIES});
    }

    m_lanes.clear();
    if (m_owner) {
        m_owner->quit();
    }

    m_transport.reset();
    m_context.reset();
    if (is_well) {
        expect_all_returned({EMUL_COUNT_ALLOCATIONS, EMUL_COUNT_CONTEXTS});
    }
}

void test_cuda_base::expect_all_returned(const std::vector<emul_count_t> &counts)
{
    for (size_t i = 0; emulated() && (i < counts.size()); ++i) {
        EXPECT_TRUE(m_emulator.reaches(counts[i], m_counts[counts[i]]));
    }
}

#if UCX_HAS_CUDA_SHARED_QUEUES
/* UCX's test program has made the primary context current when it began, and
 * holds it: an error that sticks to it would fail the tests after this one. */
static void renew_primary_context()
{
    cudaDeviceReset();
    cudaSetDevice(0);
    cudaFree(0);
}

#endif
/* Whatever is left, after a failure. */
void test_cuda_base::close_all()
{
    bool is_own_fd = !is_ipc() && (m_event_fd != -1);

    m_lanes.clear();
    m_transport.reset();
    m_owner.reset();
    m_context.reset();
#if UCX_HAS_CUDA_SHARED_QUEUES
    if (m_is_broken) {
        renew_primary_context();
    }
#endif
    m_copies.clear();
    if (is_own_fd) {
        close(m_event_fd);
    }
}
