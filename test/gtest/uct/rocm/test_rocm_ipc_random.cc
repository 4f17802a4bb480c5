/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <deque>
#include <random>

#include <stdlib.h>

using namespace rocm_ipc;

/*
 * A random schedule: processes which are owners and importers at once, several
 * threads in each, that share, free, copy, hold pointers, reconnect, and are
 * stopped at gates and killed. All decisions are the director's; they follow
 * from the seed alone and never from what the processes answer or how long they
 * take, so that a seed repeats them. Every byte that is read is checked.
 *
 * ROCM_IPC_RANDOM_SEED repeats a run, ROCM_IPC_RANDOM_SECONDS is its duration.
 */
class test_rocm_ipc_random : public test_rocm_ipc {
protected:
    enum {
        NUM_SLOTS  = 3,            /* Allocations of each process */
        NUM_LANES  = 2,            /* Importing threads of each process */
        FIRST_LANE = LANE_LAST,
        FREE_LANE  = FIRST_LANE + NUM_LANES
    };

    /** Memory of a process, one part for its own pattern and one for each
     *  writer. */
    struct slot {
        bool     is_shared;
        shared   remote;
        shared   former; /**< What was surely freed before */
        uint64_t freed;  /**< The last free, which may still wait, or 0 */

        slot() : is_shared(false), freed(0)
        {
        }
    };

    /** Work that was given to a lane. */
    struct job {
        uint64_t id;
        bool     may_be_refused; /**< The memory is freed by now, or its owner
                                      is dead */
        bool     must_be_refused; /**< It was freed before */
        size_t   owner;
        size_t   which;
    };

    struct process {
        peer               *who;
        unsigned           generation;
        slot               slots[NUM_SLOTS];
        std::vector<route> ways[NUM_LANES]; /**< By the number of the owner */
        std::deque<job>    jobs[NUM_LANES];
    };

    test_rocm_ipc_random() :
        m_seed(0),
        m_num_started(0),
        m_num_jobs(0),
        m_num_ok(0),
        m_num_refused(0),
        m_num_kills(0),
        m_gates_closed(0)
    {
        set("EMUL_ADDRESS_REUSE", "force");
        /* Owners at equal addresses */
        set("EMUL_ADDRESS_START", "0x7ea000000000");
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

    /** @name Processes
     *  @{ */
    void start_one(size_t p)
    {
        static const char *bounds[] = {"inf", "1", "2", "5"};
        process fresh;

        fresh.who        = &start("process" + ucs::to_string(p) + "_" +
                                          ucs::to_string(m_num_started++),
                                  {{"UCX_ROCM_IPC_CACHE_MAX_REGIONS",
                                    bounds[pick(4)]}});
        fresh.generation = m_num_started;
        m_processes[p]   = fresh;
    }

    void connect_pair(size_t from, size_t to)
    {
        for (int lane = 0; lane < NUM_LANES; ++lane) {
            std::vector<route> &ways = m_processes[from].ways[lane];

            ways.resize(m_processes.size());
            if (from != to) {
                ways[to] = m_processes[from].who->connect_lane(
                        *m_processes[to].who, FIRST_LANE + lane);
            }
        }
    }

    void connect_all()
    {
        for (size_t from = 0; from < m_processes.size(); ++from) {
            for (size_t to = 0; to < m_processes.size(); ++to) {
                connect_pair(from, to);
            }
        }
    }

    void kill_one(size_t p)
    {
        /* What it was doing is lost, and so is what others do with it */
        open_gates();
        m_processes[p].who->kill();
        ++m_num_kills;
        for (size_t i = 0; i < m_processes.size(); ++i) {
            if (i != p) {
                refuse_jobs(i, p, -1);
            }
        }

        start_one(p);
        for (size_t i = 0; i < m_processes.size(); ++i) {
            if (i != p) {
                finish_jobs(i);
                connect_pair(i, p);
                connect_pair(p, i);
            }
        }
    }
    /** @} */

    /** @name Gates
     *  @{ */
    void close_gate()
    {
        static const char *points[] = {
            "hsa_amd_ipc_memory_attach", "hsa_amd_ipc_memory_detach",
            "hsa_amd_ipc_signal_attach", "hsa_amd_signal_async_handler",
            "hsa_amd_memory_async_copy", "hsa_signal_destroy", "copy",
            "handler"
        };
        const char *point = points[pick(ucs_static_array_size(points))];
        peer *who         = m_processes[pick(m_processes.size())].who;

        the_node().close_gate(who, point);
        m_gates.push_back(std::make_pair(who, point));
        ++m_gates_closed;
    }

    void open_gates()
    {
        for (size_t i = 0; i < m_gates.size(); ++i) {
            the_node().open_gate(m_gates[i].first, m_gates[i].second);
        }
        m_gates.clear();
    }
    /** @} */

    /** @name Memory
     *  @{ */
    void free_slot(size_t p, size_t which)
    {
        slot &freed = m_processes[p].slots[which];

        for (size_t i = 0; i < m_processes.size(); ++i) {
            refuse_jobs(i, p, (int)which);
        }

        freed.is_shared = false;
        freed.freed     = m_processes[p].who->post(VERB_FREE,
                                                   FREE_LANE + (uint32_t)which,
                                                   {freed.remote.mem.address});
    }

    void share_slot(size_t p, size_t which)
    {
        slot &made = m_processes[p].slots[which];

        /* Nothing that the answers depend on may wait at a gate */
        open_gates();
        if (made.freed != 0) {
            EXPECT_UCS_OK(m_processes[p].who->wait(made.freed).status);
            made.freed = 0;
        }

        made.former = made.remote;
        made.remote = share(*m_processes[p].who, num_parts() * part << pick(2));
        made.is_shared = true;
        EXPECT_UCS_OK(m_processes[p].who->dereg(made.remote.memh));
    }

    /** One part for the owner's pattern, one for each writer. */
    size_t num_parts() const
    {
        return 1 + m_processes.size() * NUM_LANES;
    }
    /** @} */

    /** @name Work
     *  @{ */
    void start_job(size_t p)
    {
        static const uint64_t kinds[] = {0, WORK_PUT, WORK_POINTER};
        size_t lane                   = pick(NUM_LANES);
        size_t owner                  = (p + 1 + pick(m_processes.size() - 1)) %
                       m_processes.size();
        size_t which     = pick(NUM_SLOTS);
        uint64_t kind    = kinds[pick(3)];
        uint64_t rounds  = 1 + pick(5);
        process &proc    = m_processes[p];
        const slot &used = m_processes[owner].slots[which];
        bool is_stale    = pick(8) == 0;
        const shared &r  = is_stale ? used.former : used.remote;
        size_t number    = (kind == WORK_PUT) ? 1 + p * NUM_LANES + lane : 0;
        size_t offset    = number * part;
        job started;

        if (r.key.empty()) {
            return; /* Never shared */
        }

        /* A lane that waits at a gate is given no more than so much */
        if (proc.jobs[lane].size() >= 8) {
            open_gates();
            finish_jobs(p);
        }

        started.id = proc.who->post_work(proc.ways[lane][owner], r.key,
                                         r.mem.address + offset, part,
                                         r.mem.seed + number * 1000000,
                                         (number == 0) ? 0 : offset, rounds,
                                         kind);
        started.may_be_refused  = is_stale || !used.is_shared;
        started.must_be_refused = is_stale;
        started.owner           = owner;
        started.which           = which;
        proc.jobs[lane].push_back(started);
        ++m_num_jobs;
    }

    /** From now on, work with this memory may fail. */
    void refuse_jobs(size_t p, size_t owner, int which)
    {
        for (int lane = 0; lane < NUM_LANES; ++lane) {
            std::deque<job> &jobs = m_processes[p].jobs[lane];

            for (size_t i = 0; i < jobs.size(); ++i) {
                if ((jobs[i].owner == owner) &&
                    ((which == -1) || (jobs[i].which == (size_t)which))) {
                    jobs[i].may_be_refused = true;
                }
            }
        }
    }

    void finish_jobs(size_t p)
    {
        for (int lane = 0; lane < NUM_LANES; ++lane) {
            std::deque<job> &jobs = m_processes[p].jobs[lane];

            while (!jobs.empty()) {
                work_result res = peer::to_work_result(
                        m_processes[p].who->wait(jobs.front().id));

                EXPECT_UCS_OK(res.status);
                EXPECT_EQ(0u, res.num_wrong) << "wrong data";
                EXPECT_NE(UCS_ERR_TIMED_OUT, res.last_error);
                if (jobs.front().must_be_refused) {
                    EXPECT_EQ(0u, res.num_ok) << "memory was freed before";
                } else if (!jobs.front().may_be_refused) {
                    EXPECT_EQ(0u, res.num_refused)
                            << ucs_status_string(res.last_error);
                }
                m_num_ok      += res.num_ok;
                m_num_refused += res.num_refused;
                jobs.pop_front();
            }
        }
    }
    /** @} */

    void step()
    {
        size_t p     = pick(m_processes.size());
        size_t which = pick(NUM_SLOTS);
        uint64_t die = pick(1000);

        if (die < 600) {
            start_job(p);
        } else if (die < 850) {
            if (!m_processes[p].slots[which].is_shared) {
                share_slot(p, which);
            } else if (pick(3) == 0) {
                free_slot(p, which);
            }
        } else if (die < 920) {
            close_gate();
        } else if (die < 970) {
            open_gates();
        } else if (die < 995) {
            open_gates();
            finish_jobs(p);
        } else {
            kill_one(p);
        }
    }

    void finish_all()
    {
        open_gates();
        for (size_t p = 0; p < m_processes.size(); ++p) {
            finish_jobs(p);
        }
        for (size_t p = 0; p < m_processes.size(); ++p) {
            for (size_t which = 0; which < NUM_SLOTS; ++which) {
                uint64_t freed = m_processes[p].slots[which].freed;

                if (freed != 0) {
                    EXPECT_UCS_OK(m_processes[p].who->wait(freed).status);
                }
            }
        }
    }

    static const size_t part = 4 * UCS_KBYTE;

    std::mt19937_64                           m_random;
    uint64_t                                  m_seed;
    std::vector<process>                      m_processes;
    std::vector<std::pair<peer*, std::string> > m_gates;
    unsigned                                  m_num_started;
    uint64_t                                  m_num_jobs;
    uint64_t                                  m_num_ok;
    uint64_t                                  m_num_refused;
    uint64_t                                  m_num_kills;
    uint64_t                                  m_gates_closed;
};

const size_t test_rocm_ipc_random::part;

UCS_TEST_P(test_rocm_ipc_random, schedule)
{
    double seconds = environment_number("ROCM_IPC_RANDOM_SECONDS", 5);
    const char *given = getenv("ROCM_IPC_RANDOM_SEED");
    uint64_t num_steps = 0;
    ucs_time_t end;

    need_emulator();
    expect_log_messages();

    m_seed = (given == NULL) ? std::random_device()() :
                               strtoull(given, NULL, 10);
    UCS_TEST_MESSAGE << "ROCM_IPC_RANDOM_SEED=" << m_seed;
    m_random.seed(m_seed);

    m_processes.resize(2 + pick(3));
    for (size_t p = 0; p < m_processes.size(); ++p) {
        start_one(p);
    }
    connect_all();

    end = ucs_get_time() + ucs_time_from_sec(seconds);
    while ((ucs_get_time() < end) && !HasFailure()) {
        step();
        ++num_steps;
    }
    finish_all();

    UCS_TEST_MESSAGE << m_processes.size() << " processes, " << num_steps
                     << " steps, " << m_gates_closed << " gates, "
                     << m_num_kills << " kills, " << m_num_jobs
                     << " jobs: " << m_num_ok << " rounds were well, "
                     << m_num_refused << " were refused";
    EXPECT_GT(m_num_ok, 0u);
    if (HasFailure()) {
        UCS_TEST_MESSAGE << "repeat by ROCM_IPC_RANDOM_SEED=" << m_seed;
    }
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_random)
