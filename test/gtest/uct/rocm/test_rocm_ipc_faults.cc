/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "test_rocm_ipc.h"

#include <string.h>

using namespace rocm_ipc;

/*
 * A story of registering, packing, importing, copying, freeing, importing again
 * and closing is told again and again; each time another call of the runtime
 * fails. One failure is the error of at most one operation, which works when it
 * is tried again. Where a function fails from some call on, whatever still
 * succeeds is right, and everything comes to an end.
 */
class test_rocm_ipc_faults : public test_rocm_ipc {
protected:
    enum {
        STATUS_ERROR            = 0x1000, /* HSA_STATUS_ERROR */
        STATUS_INVALID_SIGNAL   = 0x1006, /* HSA_STATUS_ERROR_INVALID_SIGNAL */
        STATUS_OUT_OF_RESOURCES = 0x1008  /* ..._OUT_OF_RESOURCES */
    };

    /** One way to fail. */
    struct fault {
        std::string function;
        uint64_t    nth;
        bool        once; /**< Or from the nth call on */
        int         status;
    };

    /** A get that has succeeded: its data is looked at when nothing fails any
     *  more, since looking calls the runtime, too. */
    struct copied {
        buffer   local;
        uint64_t seed;
    };

    test_rocm_ipc_faults() :
        m_owner(NULL),
        m_importer(NULL),
        m_faulty(NULL),
        m_ep(0),
        m_freed(0),
        m_num_errors(0),
        m_num_runs(0),
        m_num_points(0)
    {
    }

    /** Tell the story for each function and each call of it. */
    void
    fail_everywhere(bool owner_fails, const std::vector<std::string> &functions)
    {
        static const int statuses[] = {STATUS_ERROR, STATUS_INVALID_SIGNAL,
                                       STATUS_OUT_OF_RESOURCES};

        need_emulator();
        expect_log_messages();
        expect_leaks_at_exit();

        for (size_t i = 0; i < functions.size(); ++i) {
            unsigned reached = 0;

            for (size_t kind = 0; kind < 4; ++kind) {
                fault f = {functions[i], 0, kind != 3, statuses[kind % 3]};
                bool was_reached;

                /* A copy knows one way to fail */
                if ((f.function == "copy") && (kind != 0) && (kind != 3)) {
                    continue;
                }

                do {
                    ++f.nth;
                    was_reached = tell(owner_fails, f);
                    reached    += was_reached;
                    if (HasFailure()) {
                        return;
                    }
                } while (was_reached);
            }

            /* Or the list of functions is not what the transport calls */
            EXPECT_TRUE((reached > 0) || !has_handlers()) << functions[i];
            m_num_points += reached;
        }

        UCS_TEST_MESSAGE << m_num_points << " fault points were tried";
    }

private:
    /** @return whether the fault was reached. */
    bool tell(bool owner_fails, const fault &f)
    {
        std::string number = ucs::to_string(m_num_runs++);
        SCOPED_TRACE("call " + ucs::to_string(f.nth) + " of " + f.function +
                     (f.once ? "" : " and all later ones") + " fails with " +
                     ucs::to_string(f.status));
        int64_t calls_before, num_failed;

        m_owner      = &start("owner" + number);
        m_importer   = &start("importer" + number);
        m_faulty     = owner_fails ? m_owner : m_importer;
        m_fault      = f;
        m_num_errors = 0;
        m_copied.clear();
        m_ep         = m_importer->connect(*m_owner);
        prepare();

        calls_before = num_calls();
        the_node().fail(m_faulty, f.function, f.nth,
                        f.once ? 1 : (uint64_t)INT32_MAX, f.status);
        if ((f.nth % 2) == 0) {
            /* What is only called when something else has failed */
            the_node().fail(m_faulty, "hsa_status_string", 1, INT32_MAX,
                            STATUS_ERROR);
        }

        if (owner_fails) {
            owner_story();
        } else {
            importer_story();
        }

        num_failed = num_calls() - calls_before - (int64_t)f.nth + 1;
        if (f.once) {
            num_failed = std::min(num_failed, (int64_t)1);
        }
        the_node().fail(m_faulty, f.function, 0, 0, 0);
        end(std::max(num_failed, (int64_t)0));
        return num_failed > 0;
    }

    /** A copy happens as often as one is started. */
    int64_t num_calls()
    {
        return the_node().calls((m_fault.function == "copy") ?
                                        "hsa_amd_memory_async_copy" :
                                        m_fault.function,
                                m_faulty);
    }

    /** All memory that the story needs: the harness calls the runtime itself
     *  to allocate and fill it, which shall not fail. */
    void prepare()
    {
        for (int i = 0; i < 3; ++i) {
            m_memory[i] = m_owner->alloc(length);
            m_owner->fill(m_memory[i]);
        }
        for (int i = 0; i < 5; ++i) {
            m_local[i] = m_importer->alloc(length);
            m_importer->fill(m_local[i]);
        }
    }

    /** An operation which may fail once, if it is one that the fault concerns.
     *  @return how it ended. */
    template<typename F> ucs_status_t attempt(const F &operation)
    {
        ucs_status_t status = operation();

        if (status == UCS_OK) {
            return status;
        }

        EXPECT_TRUE(UCS_STATUS_IS_ERR(status));
        EXPECT_NE(UCS_ERR_TIMED_OUT, status);
        EXPECT_FALSE(is_dispensable()) << ucs_status_string(status);
        ++m_num_errors;
        status = operation();
        EXPECT_TRUE((status == UCS_OK) || !m_fault.once)
                << "again: " << ucs_status_string(status);
        return status;
    }

    /** Whether every operation can do without what the function does: memory
     *  is shared without a signal and watched without a handler. */
    bool is_dispensable() const
    {
        static const char *functions[] = {
            "hsa_amd_signal_create", "hsa_amd_ipc_signal_create",
            "hsa_amd_signal_async_handler", "hsa_amd_ipc_memory_detach",
            "hsa_signal_destroy"
        };

        for (size_t i = 0; i < ucs_static_array_size(functions); ++i) {
            if (m_fault.function == functions[i]) {
                return true;
            }
        }

        return false;
    }

    bool share_one(const buffer &mem, shared &made)
    {
        made.mem  = mem;
        made.memh = 0;
        return (attempt([&]() {
                    return m_owner->reg(mem.address, mem.length, made.memh);
                }) == UCS_OK) &&
               (attempt([&]() { return m_owner->pack(made.memh, made.key); }) ==
                UCS_OK);
    }

    bool import_one(const shared &remote, uint64_t &rkey)
    {
        return attempt([&]() {
                   return m_importer->unpack(remote.key, rkey);
               }) == UCS_OK;
    }

    bool get_one(const shared &remote, uint64_t rkey, const buffer &local)
    {
        copied done = {local, remote.mem.seed};

        if (attempt([&]() {
                return m_importer->get(m_ep, rkey, remote.mem.address,
                                       local.address, local.length);
            }) != UCS_OK) {
            return false;
        }

        m_copied.push_back(done);
        return true;
    }

    static bool has_signal(const shared &remote)
    {
        uint32_t device;

        memcpy(&device, remote.key.data() + 48, sizeof(device));
        return (device & UCS_BIT(30)) != 0;
    }

    /** The owner frees what peers may have mapped. */
    void free_one(const shared &remote, bool is_told)
    {
        uint64_t freed;

        /* UCM finds the length by the same call, and sends no event without */
        if (m_fault.function == "hsa_amd_pointer_info") {
            the_node().fail(m_faulty, m_fault.function, 0, 0, 0);
        }

        freed = m_owner->post_free(remote.mem);
        if (!is_told) {
            m_importer->disconnect(m_ep);
            m_ep = m_importer->connect(*m_owner);
        }

        if (can_detach()) {
            EXPECT_UCS_OK(m_owner->wait(freed).status);
        } else {
            /* Those of the second memory stay */
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_IPC_SIGNAL_ATTACHES, 1,
                                           m_importer));
            m_freed = freed;
        }
    }

    bool can_detach() const
    {
        return m_fault.function != "hsa_amd_ipc_memory_detach";
    }

    void owner_story()
    {
        shared first, part, second, third;
        uint64_t rkey1 = 0, rkey2, rkey3;
        bool is_shared, is_mapped = false;

        is_shared = share_one(m_memory[0], first);
        if (is_shared && share_one(m_memory[0], part)) {
            EXPECT_EQ(first.key, part.key);
        }
        if (is_shared) {
            is_mapped = import_one(first, rkey1) &&
                        get_one(first, rkey1, m_local[0]);
            EXPECT_TRUE(is_mapped);
        }
        if (share_one(m_memory[1], second)) {
            EXPECT_TRUE(import_one(second, rkey2) &&
                        get_one(second, rkey2, m_local[1]));
        }

        free_one(first, is_shared && has_signal(first));
        if (is_mapped && has_signal(first)) {
            EXPECT_EQ(UCS_ERR_INVALID_ADDR,
                      m_importer->get(m_ep, rkey1, m_memory[0].address,
                                      m_local[0].address, length));
        }

        if (share_one(m_memory[2], third)) {
            EXPECT_TRUE(import_one(third, rkey3) &&
                        get_one(third, rkey3, m_local[2]));
        }
        m_owner->close_transport();
        m_owner->close_md();
    }

    void importer_story()
    {
        shared first, second, third;
        uint64_t rkey1 = 0, rkey2 = 0, rkey3, pointer;
        uint64_t put_seed = m_local[3].seed;

        share_one(m_memory[0], first);
        share_one(m_memory[1], second);
        share_one(m_memory[2], third);

        import_one(first, rkey1);
        get_one(first, rkey1, m_local[0]);
        get_one(first, rkey1, m_local[1]);

        import_one(second, rkey2);
        if (attempt([&]() {
                return m_importer->rkey_ptr(rkey2, second.mem.address, pointer);
            }) == UCS_OK) {
            EXPECT_TRUE(m_importer->holds(pointer, length, second.mem.seed, 0,
                                          ACCESS_CPU));
        }

        free_one(first, true);
        EXPECT_TRUE(UCS_STATUS_IS_ERR(
                m_importer->get(m_ep, rkey1, first.mem.address,
                                m_local[4].address, length)));

        import_one(third, rkey3);
        get_one(third, rkey3, m_local[2]);
        if (attempt([&]() {
                return m_importer->put(m_ep, rkey3, third.mem.address,
                                       m_local[3].address, length);
            }) == UCS_OK) {
            EXPECT_TRUE(m_owner->holds(third.mem.address, length, put_seed));
        }

        m_importer->close_transport();
        m_importer->close_md();
    }

    /** Everything must be given back, but for what the fault itself was. */
    void end(int64_t num_failed)
    {
        int64_t mappings = can_detach() ? 0 : num_failed;
        int64_t signals  = (m_fault.function == "hsa_signal_destroy") ?
                                   num_failed :
                                   0;

        if (m_fault.once) {
            EXPECT_LE(m_num_errors, num_failed);
        }
        for (size_t i = 0; i < m_copied.size(); ++i) {
            EXPECT_TRUE(m_importer->holds(m_copied[i].local.address, length,
                                          m_copied[i].seed));
        }

        m_importer->close_transport();
        m_importer->free_all();
        m_importer->close_md();
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_ATTACHES, mappings));
        if (!can_detach()) {
            /* A free that waits keeps the owner from closing its domain, since
             * UCM holds its lock meanwhile */
            m_importer->quit();
            EXPECT_UCS_OK(m_owner->wait(m_freed).status);
        }
        m_owner->close_transport();
        m_owner->close_md();

        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_COPIES, 0));
        if (signals == 0) {
            /* The owner has closed its memory domain, which tells importers */
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_HANDLERS, 0));
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_IPC_SIGNALS, 0));
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_IPC_SIGNAL_ATTACHES, 0));
            EXPECT_TRUE(the_node().reaches(EMUL_COUNT_SIGNALS, 0));
        } else {
            EXPECT_LE(the_node().count(EMUL_COUNT_IPC_SIGNALS) +
                              the_node().count(EMUL_COUNT_SIGNALS),
                      signals);
        }

        if (can_detach()) {
            m_importer->quit();
        }
        m_owner->free_all();
        m_owner->quit();
        EXPECT_TRUE(the_node().reaches(EMUL_COUNT_BYTES_CHARGED, 0));
    }

    static const size_t length = 16 * UCS_KBYTE;

    peer                *m_owner;
    peer                *m_importer;
    peer                *m_faulty;
    fault               m_fault;
    uint64_t            m_ep;
    uint64_t            m_freed;
    buffer              m_memory[3];
    buffer              m_local[5];
    std::vector<copied> m_copied;
    int64_t             m_num_errors;
    int                 m_num_runs;
    unsigned            m_num_points;
};

const size_t test_rocm_ipc_faults::length;

UCS_TEST_P(test_rocm_ipc_faults, calls_of_owner)
{
    fail_everywhere(true, {"hsa_amd_pointer_info", "hsa_amd_ipc_memory_create",
                           "hsa_amd_signal_create", "hsa_amd_ipc_signal_create",
                           "hsa_signal_destroy"});
}

UCS_TEST_P(test_rocm_ipc_faults, calls_of_importer)
{
    fail_everywhere(false,
                    {"hsa_amd_ipc_signal_attach", "hsa_amd_ipc_memory_attach",
                     "hsa_amd_pointer_info", "hsa_amd_signal_async_handler",
                     "hsa_amd_agents_allow_access", "hsa_signal_create",
                     "hsa_amd_memory_async_copy", "copy",
                     "hsa_amd_ipc_memory_detach", "hsa_signal_destroy"});
}

ROCM_IPC_TEST_MODES(test_rocm_ipc_faults)
