/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_cuda.h"

#include <deque>
#include <random>

#include <stdlib.h>

using namespace cuda_test;

/*
 * A random schedule: copies on all streams, flushes with and without
 * completion, callbacks which copy and flush, gates which hold all copies or a
 * stream or let some pass. Whatever happens: when a flush completes, the data
 * of each copy that was issued before it is where it belongs; every completion
 * is called once; and flushes complete in the order in which they were issued.
 *
 * What is decided follows from the seed; when it happens does not, since it
 * depends on threads. CUDA_FLUSH_RANDOM_SEED repeats the decisions of a run,
 * CUDA_FLUSH_RANDOM_SECONDS is its duration.
 */
class test_cuda_flush_random : public test_cuda_base {
protected:
    enum {
        NUM_SLOTS = 24 /* Of each lane */
    };

    /** A copy, as long as a flush may want to see its data. */
    struct record {
        copy     *what;
        unsigned lane;
        bool     has_completion;
        bool     is_checked; /**< Its data was seen to be there */
    };

    struct flush_record {
        completion done;
        uint64_t   num_before; /**< Copies that were issued before it */
    };

    test_cuda_flush_random() :
        m_held(false),
        m_num_copies(0),
        m_num_flushes(0),
        m_num_idle(0),
        m_num_called(0),
        m_num_gates(0),
        m_nesting(0)
    {
    }

    static double environment_number(const char *name, double otherwise)
    {
        const char *value = getenv(name);

        return (value == NULL) ? otherwise : strtod(value, NULL);
    }

    uint64_t pick(uint64_t num)
    {
        return m_random() % num;
    }

    /** @name Copies
     *  @{ */
    void issue_copy()
    {
        unsigned lane = pick(num_lanes());
        record added;

        if (m_num_on_lane[lane] == NUM_SLOTS) {
            return; /* Each slot belongs to a copy */
        }

        added.what           = &prepare(lane);
        added.lane           = lane;
        added.has_completion = pick(4) != 0;
        added.is_checked     = false;
        if (added.has_completion && (pick(8) == 0)) {
            added.what->done.action = [this] { act_in_callback(); };
        }

        ASSERT_EQ(UCS_INPROGRESS, post(*added.what, added.has_completion));
        m_records.push_back(added);
        ++m_num_on_lane[lane];
        ++m_num_copies;
    }

    /** All data of the copies with a smaller number is there. */
    void expect_arrived(uint64_t num)
    {
        uint64_t first = m_num_copies - m_records.size();

        for (uint64_t i = first; i < num; ++i) {
            record &seen = m_records[i - first];

            if (!seen.is_checked) {
                EXPECT_TRUE(seen.what->arrived()) << "copy " << i;
                EXPECT_EQ(seen.has_completion ? 1u : 0u, seen.what->done.calls())
                        << "copy " << i;
                seen.is_checked = true;
            }
        }
    }

    /** Use the slots of copies that were checked again. */
    void forget_checked()
    {
        while (!m_records.empty() && m_records.front().is_checked) {
            ASSERT_EQ(m_records.front().what, &m_copies.front());
            --m_num_on_lane[m_records.front().lane];
            m_records.pop_front();
            m_copies.pop_front();
        }
    }
    /** @} */

    /** @name Flushes
     *  @{ */
    void issue_flush()
    {
        ucs_status_t status;
        flush_record *issued;

        m_flushes.emplace_back();
        issued              = &m_flushes.back();
        issued->num_before  = m_num_copies;
        issued->done.action = [this, issued] { flushed(*issued); };
        status              = flush(&issued->done, pick(3));
        if (status == UCS_INPROGRESS) {
            ++m_num_flushes;
            return;
        }

        /* There was nothing to wait for */
        EXPECT_UCS_OK(status);
        expect_waiting(issued->done);
        if (m_nesting == 0) {
            expect_arrived(m_num_copies);
        }
        m_flushes.pop_back();
        ++m_num_idle;
    }

    void issue_flush_without_completion()
    {
        if ((flush(NULL, pick(3)) == UCS_OK) && (m_nesting == 0)) {
            expect_arrived(m_num_copies);
            ++m_num_idle;
        }
    }

    void flushed(flush_record &which)
    {
        EXPECT_EQ(&m_flushes.front(), &which) << "flushes changed places";
        EXPECT_UCS_OK(which.done.status());
        EXPECT_EQ(1u, which.done.calls());
        ++m_num_called;
        expect_arrived(which.num_before);
        if (pick(8) == 0) {
            act_in_callback();
        }
        m_called.splice(m_called.end(), m_flushes, m_flushes.begin());
    }
    /** @} */

    void act_in_callback()
    {
        ++m_nesting;
        switch (pick(3)) {
        case 0:
            issue_copy();
            break;
        case 1:
            issue_flush();
            break;
        default:
            issue_flush_without_completion();
        }
        --m_nesting;
    }

    void work_with_gates()
    {
        if (!emulated()) {
            return;
        }

        ++m_num_gates;
        switch (pick(4)) {
        case 0:
            hold();
            m_held = true;
            break;
        case 1:
            m_emulator.close_gate(m_gates[pick(m_gates.size())]);
            break;
        case 2:
            if (m_held) {
                pass(1 + pick(5));
            }
            break;
        default:
            open_all();
        }
    }

    void open_all()
    {
        release();
        m_held = false;
    }

    void step()
    {
        uint64_t die = pick(100);

        if (die < 40) {
            issue_copy();
        } else if (die < 50) {
            issue_flush();
        } else if (die < 53) {
            issue_flush_without_completion();
        } else if (die < 60) {
            work_with_gates();
        } else if (die < 61) {
            open_all();
            EXPECT_TRUE(progress_all());
        } else {
            progress();
        }

        m_called.clear();
        forget_checked();
        if (m_records.size() >= (size_t)(NUM_SLOTS * num_lanes())) {
            finish();
        }
    }

    /** To the end of all that was issued. */
    void finish()
    {
        open_all();
        EXPECT_TRUE(progress_all());
        expect_arrived(m_num_copies);
        EXPECT_TRUE(m_flushes.empty());
        EXPECT_EQ(m_num_flushes, m_num_called);
        m_called.clear();
        forget_checked();
    }

    std::mt19937_64         m_random;
    std::deque<record>      m_records; /* In order of issue, as m_copies */
    std::list<flush_record> m_flushes; /* Outstanding, in order of issue */
    std::list<flush_record> m_called;
    std::map<unsigned, unsigned> m_num_on_lane;
    std::vector<std::string>     m_gates;
    bool                    m_held;
    uint64_t                m_num_copies;
    uint64_t                m_num_flushes;
    uint64_t                m_num_idle;
    uint64_t                m_num_called;
    uint64_t                m_num_gates;
    unsigned                m_nesting;
};

UCS_TEST_P(test_cuda_flush_random, schedule)
{
    static const char *polls[] = {"1", "2", "7", "16"};
    double seconds     = environment_number("CUDA_FLUSH_RANDOM_SECONDS", 5);
    const char *given  = getenv("CUDA_FLUSH_RANDOM_SEED");
    uint64_t seed      = (given == NULL) ? std::random_device()() :
                                           strtoull(given, NULL, 10);
    uint64_t num_steps = 0;
    ucs_time_t end;

    UCS_TEST_MESSAGE << "CUDA_FLUSH_RANDOM_SEED=" << seed;
    m_random.seed(seed);
    m_max_devices = 16;
    open({{"MAX_POLL", polls[pick(4)]}}, NUM_SLOTS);
    for (unsigned lane = 0; emulated() && (lane < num_lanes()); ++lane) {
        m_gates.push_back(gate_of(lane));
    }
    m_copies.clear();

    end = ucs_get_time() + ucs_time_from_sec(seconds);
    while ((ucs_get_time() < end) && !HasFailure()) {
        step();
        ++num_steps;
    }
    finish();

    UCS_TEST_MESSAGE << num_steps << " steps, " << m_num_copies << " copies, "
                     << m_num_flushes << " flushes, " << m_num_idle
                     << " had nothing to wait for, " << m_num_gates << " gates";
    EXPECT_LT(0u, m_num_called);
    if (HasFailure()) {
        UCS_TEST_MESSAGE << "repeat by CUDA_FLUSH_RANDOM_SEED=" << seed;
    }
}

CUDA_TEST_TRANSPORTS(test_cuda_flush_random)
