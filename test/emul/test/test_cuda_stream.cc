/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_test.h"

#include <thread>
#include <vector>

/*
 * Streams, events and host functions: what comes after what.
 */

class cuda_stream : public cuda_test {
protected:
    void SetUp() override
    {
        cuda_test::SetUp();
        m_source      = allocate(megabyte);
        m_destination = allocate(megabyte);
        write(m_source, 42);
        write(m_destination, 0);
        m_stream = make_stream();
        m_event  = make_event();
    }

    void TearDown() override
    {
        EXPECT_OK(cuEventDestroy(m_event));
        EXPECT_OK(cuStreamDestroy(m_stream));
        release(m_source);
        release(m_destination);
        cuda_test::TearDown();
    }

    void copy(CUstream stream)
    {
        EXPECT_OK(cuMemcpyAsync(m_destination, m_source, 8, stream));
    }

    CUdeviceptr m_source;
    CUdeviceptr m_destination;
    CUstream    m_stream;
    CUevent     m_event;
};

using cuda_stream_death = cuda_stream;

TEST_F(cuda_stream_death, handles_of_what_was_destroyed)
{
    REQUIRE_EMULATOR(); /* a real driver crashes */
    EXPECT_ABORT({
        CUevent event = make_event();

        cuEventDestroy(event);
        cuEventQuery(event);
    }, "use of the event .*, which was destroyed");
    EXPECT_ABORT({
        CUstream stream = make_stream();

        cuStreamDestroy(stream);
        cuStreamQuery(stream);
    }, "use of the stream .*, which was destroyed");
    EXPECT_ABORT({
        CUcontext own   = make_context();
        CUstream stream = make_stream();

        cuCtxDestroy(own);
        cuStreamQuery(stream);
    }, "use of the stream .*, which was destroyed");
}

TEST_F(cuda_stream, event_that_was_never_recorded_is_reached)
{
    EXPECT_OK(cuEventQuery(m_event));
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_OK(cuStreamWaitEvent(m_stream, m_event, 0));
}

TEST_F(cuda_stream, event_is_reached_when_all_before_it_is_done)
{
    blocker block(m_stream);

    copy(m_stream);
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(m_stream));

    block.release();
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_OK(cuEventQuery(m_event));
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_OK(cuStreamQuery(m_stream));
    EXPECT_EQ(42u, read(m_destination));
}

TEST_F(cuda_stream, event_that_is_recorded_again_means_the_last_time)
{
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_OK(cuEventSynchronize(m_event));

    blocker block(m_stream);
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
}

TEST_F(cuda_stream, event_in_an_idle_stream_is_reached_soon)
{
    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_TRUE(eventually([this] {
        return cuEventQuery(m_event) == CUDA_SUCCESS;
    }));
}

TEST_F(cuda_stream, wait_holds_one_stream_for_another)
{
    CUstream second = make_stream();

    {
        blocker block(m_stream);

        EXPECT_OK(cuEventRecord(m_event, m_stream));
        EXPECT_OK(cuStreamWaitEvent(second, m_event, 0));
        copy(second);
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    }
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(42u, read(m_destination));
    EXPECT_OK(cuStreamDestroy(second));
}

TEST_F(cuda_stream, wait_is_for_what_was_recorded_at_the_time_of_the_call)
{
    CUstream second = make_stream();
    CUstream third  = make_stream();

    {
        blocker block(m_stream);

        EXPECT_OK(cuEventRecord(m_event, m_stream));
        EXPECT_OK(cuStreamWaitEvent(second, m_event, 0));

        /* elsewhere it is reached at once, which lets nobody through */
        EXPECT_OK(cuEventRecord(m_event, third));
        EXPECT_OK(cuEventSynchronize(m_event));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(second));
    }
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_OK(cuStreamDestroy(second));
    EXPECT_OK(cuStreamDestroy(third));
}

TEST_F(cuda_stream, streams_run_side_by_side)
{
    CUstream second = make_stream();
    blocker block(m_stream);

    EXPECT_TRUE(eventually([&block] { return block.entered(); }));
    copy(second);
    EXPECT_OK(cuStreamSynchronize(second));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(m_stream));
    EXPECT_OK(cuStreamDestroy(second));
}

TEST_F(cuda_stream, host_functions_are_called_in_order)
{
    static std::vector<int> order;
    auto first  = [](void *) { order.push_back(1); };
    auto second = [](CUstream, CUresult status, void *arg) {
        EXPECT_EQ(CUDA_SUCCESS, status);
        EXPECT_EQ(&order, arg);
        order.push_back(2);
    };

    order.clear();
    EXPECT_OK(cuLaunchHostFunc(m_stream, first, nullptr));
    EXPECT_OK(cuStreamAddCallback(m_stream, second, &order, 0));
    EXPECT_OK(cuLaunchHostFunc(m_stream, first, nullptr));
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ((std::vector<int>{1, 2, 1}), order);
}

TEST_F(cuda_stream, callback_gets_the_handle_of_its_stream)
{
    static CUstream seen;
    auto look = [](CUstream stream, CUresult, void *) { seen = stream; };

    seen = nullptr;
    EXPECT_OK(cuStreamAddCallback(m_stream, look, nullptr, 0));
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ(m_stream, seen);
}

TEST_F(cuda_stream, arguments_are_checked)
{
    CUstream stream;
    CUevent event;
    unsigned flags;

    EXPECT_INVALID(cuStreamCreate(nullptr, 0));
    EXPECT_INVALID(cuStreamCreate(&stream, 0x80));
    EXPECT_INVALID(cuEventCreate(nullptr, 0));
    EXPECT_INVALID(cuEventCreate(&event, 0x80));
    EXPECT_INVALID(cuLaunchHostFunc(m_stream, nullptr, nullptr));
    EXPECT_INVALID(cuStreamAddCallback(m_stream, nullptr, nullptr, 0));
    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(nullptr));

    EXPECT_OK(cuStreamGetFlags(m_stream, &flags));
    EXPECT_EQ(unsigned(CU_STREAM_NON_BLOCKING), flags);
}

TEST_F(cuda_stream, time_between_events)
{
    CUevent from = make_event(CU_EVENT_DEFAULT);
    CUevent to   = make_event(CU_EVENT_DEFAULT);
    float milliseconds = -1;

    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
              cuEventElapsedTime(&milliseconds, from, to));
    EXPECT_OK(cuEventRecord(from, m_stream));
    {
        blocker block(m_stream);

        EXPECT_OK(cuEventRecord(to, m_stream));
        EXPECT_EQ(CUDA_ERROR_NOT_READY,
                  cuEventElapsedTime(&milliseconds, from, to));
    }
    EXPECT_OK(cuEventSynchronize(to));
    EXPECT_OK(cuEventElapsedTime(&milliseconds, from, to));
    EXPECT_GE(milliseconds, 0);

    EXPECT_OK(cuEventRecord(m_event, m_stream));
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
              cuEventElapsedTime(&milliseconds, from, m_event));
    EXPECT_OK(cuEventDestroy(from));
    EXPECT_OK(cuEventDestroy(to));
}

TEST_F(cuda_stream, destroyed_stream_finishes_its_work)
{
    CUstream doomed = make_stream();

    {
        blocker block(doomed);

        copy(doomed);
        EXPECT_OK(cuEventRecord(m_event, doomed));
        EXPECT_OK(cuStreamDestroy(doomed));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
    }
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(42u, read(m_destination));
}

TEST_F(cuda_stream, destroyed_event_does_not_disturb_its_stream)
{
    CUevent doomed = make_event();

    {
        blocker block(m_stream);

        EXPECT_OK(cuEventRecord(doomed, m_stream));
        EXPECT_OK(cuEventDestroy(doomed));
        copy(m_stream);
    }
    EXPECT_OK(cuStreamSynchronize(m_stream));
    EXPECT_EQ(42u, read(m_destination));
}

TEST_F(cuda_stream, default_stream_waits_for_blocking_streams)
{
    CUstream blocking = make_stream(CU_STREAM_DEFAULT);

    {
        blocker block(blocking);

        copy(nullptr);
        EXPECT_OK(cuEventRecord(m_event, nullptr));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
    }
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(42u, read(m_destination));
    EXPECT_OK(cuStreamDestroy(blocking));
}

TEST_F(cuda_stream, blocking_streams_wait_for_the_default_stream)
{
    CUstream blocking = make_stream(CU_STREAM_DEFAULT);

    {
        blocker block(nullptr);

        copy(blocking);
        EXPECT_OK(cuEventRecord(m_event, blocking));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(m_event));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
    }
    EXPECT_OK(cuStreamSynchronize(nullptr));
    EXPECT_OK(cuEventSynchronize(m_event));
    EXPECT_EQ(42u, read(m_destination));
    EXPECT_OK(cuStreamDestroy(blocking));
}

TEST_F(cuda_stream, non_blocking_streams_and_the_default_stream_do_not_wait)
{
    blocker block(m_stream);

    EXPECT_TRUE(eventually([&block] { return block.entered(); }));
    copy(nullptr);
    EXPECT_OK(cuStreamSynchronize(nullptr));
    EXPECT_EQ(42u, read(m_destination));
}

TEST_F(cuda_stream, each_thread_has_a_stream_of_its_own)
{
    blocker block(CU_STREAM_PER_THREAD);

    EXPECT_TRUE(eventually([&block] { return block.entered(); }));
    EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
    std::thread([] {
        EXPECT_OK(cuCtxSetCurrent(primary()));
        EXPECT_OK(cuStreamQuery(CU_STREAM_PER_THREAD));
    }).join();
}

TEST_F(cuda_stream, priorities_are_kept_within_their_range)
{
    int least = -1, greatest = 1, priority = 1;
    CUstream stream;

    EXPECT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    EXPECT_EQ(0, least);
    EXPECT_LT(greatest, 0);

    EXPECT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
                                         greatest - 10));
    EXPECT_OK(cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(greatest, priority);
    EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(cuda_stream, context_synchronize_waits_for_all_streams)
{
    std::atomic<bool> returned{false};
    std::thread waiter;

    {
        blocker block(m_stream);

        waiter = std::thread([&returned] {
            EXPECT_OK(cuCtxSetCurrent(primary()));
            EXPECT_OK(cuCtxSynchronize());
            returned.store(true);
        });
        EXPECT_TRUE(eventually([&block] { return block.entered(); }));
        EXPECT_FALSE(returned.load());
    }
    waiter.join();
    EXPECT_OK(cuStreamQuery(m_stream));
}
