/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef ROCM_IPC_DIRECTOR_H
#define ROCM_IPC_DIRECTOR_H

#include "rocm_ipc_protocol.h"

#include <common/test.h>

extern "C" {
#include <uct/api/uct.h>
}

#include <emul/emul.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

/**
 * @file rocm_ipc_director.h
 * @brief Processes that a test starts and leads through a story.
 *
 * The director itself never touches a GPU runtime. A call that a peer does not
 * answer in time aborts the test (ucs::test_abort_exception); so does anything
 * that the harness needs and does not get. What the transport answers is for
 * the test to judge and is returned as a status.
 */
namespace rocm_ipc {

typedef std::map<std::string, std::string> environment_t;

/** Seconds after which whatever has not happened counts as a hang. */
double time_limit();

/** What a peer answered. */
struct result {
    ucs_status_t status;
    uint64_t     number[max_numbers];
    std::string  data;
    double       elapsed; /**< Seconds that it took in the peer */
};

/** Device memory of a peer. */
struct buffer {
    uint64_t address;
    size_t   length;
    uint64_t seed;   /**< Of the pattern that it was filled with */

    buffer() : address(0), length(0), seed(0)
    {
    }

    uint64_t end() const
    {
        return address + length;
    }
};

/** An interface of a lane, and an endpoint of it. */
struct route {
    uint32_t lane;
    uint64_t iface;
    uint64_t ep;
};

/** What has come of repeated work. */
struct work_result {
    ucs_status_t status;     /**< Of the work as a whole */
    uint64_t     num_ok;
    uint64_t     num_refused;
    uint64_t     num_wrong;  /**< Data was not what it must be */
    ucs_status_t last_error; /**< What the last refusal was, or UCS_OK */
};

/** A copy that was started. */
struct operation {
    ucs_status_t status;     /**< What starting it returned */
    uint64_t     completion; /**< Identifier of its completion */
};

/** State of a completion. */
struct completion_state {
    ucs_status_t progress_status; /**< UCS_ERR_TIMED_OUT: not reached in time */
    int          calls;           /**< How often the callback was called */
    int          count;           /**< What is left of the counter */
    ucs_status_t status;          /**< What the operation reported */
};

struct md_attributes {
    uint64_t flags;
    uint64_t reg_mem_types;
    uint64_t access_mem_types;
    uint64_t max_reg;
    size_t   rkey_packed_size;
};

struct iface_attributes {
    uint64_t flags;
    uint64_t put_max_zcopy;
    uint64_t put_max_iov;
    uint64_t get_max_zcopy;
    uint64_t get_max_iov;
    uint64_t put_min_zcopy;
    uint64_t get_min_zcopy;
    double   latency;
};

/** One process. */
class peer {
public:
    /** Starts the process. Its output goes to a file in @a directory.
     *  @a wrapper is the beginning of the command line, if not empty. */
    peer(const std::string &name, const std::string &directory,
         const environment_t &environment,
         const std::vector<std::string> &wrapper = std::vector<std::string>());

    /** Kills the process if it still runs. */
    ~peer();

    const std::string &name() const
    {
        return m_name;
    }

    pid_t pid() const
    {
        return m_pid;
    }

    /** As the process itself sees it. */
    pid_t own_pid() const
    {
        return m_own_pid;
    }

    bool running() const
    {
        return m_running;
    }

    int num_devices() const
    {
        return m_num_devices;
    }

    bool emulated() const
    {
        return m_emulated;
    }

    /** Everything that the process has printed so far. */
    std::string output() const;

    /** @name The conversation
     *  @{ */

    /** Send a request and do not wait. @return its number, for @ref wait. */
    uint64_t
    post(verb_t verb, uint32_t lane = LANE_MAIN,
         const std::vector<uint64_t> &numbers = std::vector<uint64_t>(),
         const std::string &data              = std::string());

    /** Wait for the reply to a request, at most @ref time_limit. */
    result wait(uint64_t id);

    /** @return whether the reply to a request has come; does not wait. */
    bool replied(uint64_t id);

    /** @ref post and @ref wait. */
    result call(verb_t verb,
                const std::vector<uint64_t> &numbers = std::vector<uint64_t>(),
                const std::string &data              = std::string(),
                uint32_t lane                        = LANE_MAIN);
    /** @} */

    /** @name Life of the process
     *  @{ */

    /** Open the memory domain and an interface. */
    void open();

    /** Close what is open, memory and memory domain excepted. */
    void close_transport();

    /** Free all memory that is still there and expect that it finishes. */
    void free_all();

    void close_md();

    /** Let the process exit and expect that it exits with status 0. What it
     *  has not closed stays open. */
    void quit();

    /** Kill the process by SIGKILL and wait until it is gone. */
    void kill();
    /** @} */

    /** @name Memory
     *  @{ */
    buffer alloc(size_t length, ucs_memory_type_t type = UCS_MEMORY_TYPE_ROCM,
                 int device = 0);

    /** Free and expect that it finishes. */
    void free(const buffer &mem);

    /** Start to free, on a lane of its own. @return for @ref wait. */
    uint64_t post_free(const buffer &mem);

    /** Fill with the pattern of a new seed. */
    void fill(buffer &mem);

    /** Fill a range of memory with a part of a pattern. */
    void fill(uint64_t address, size_t length, uint64_t seed,
              uint64_t position = 0, access_t access = ACCESS_RUNTIME);

    /** Does the memory hold this part of this pattern? */
    ::testing::AssertionResult holds(uint64_t address, size_t length,
                                     uint64_t seed, uint64_t position = 0,
                                     access_t access = ACCESS_RUNTIME);

    /** Does the buffer hold its own pattern? */
    ::testing::AssertionResult holds(const buffer &mem);
    /** @} */

    /** @name Transport
     *  @{ */
    md_attributes query_md();
    iface_attributes query_iface();
    ucs_status_t reg(uint64_t address, size_t length, uint64_t &memh);
    ucs_status_t dereg(uint64_t memh);
    ucs_status_t pack(uint64_t memh, std::string &key);

    /** Address of the interface. @a device_length: bytes of it that are the
     *  device's. */
    std::string iface_address(size_t &device_length);
    bool reaches(peer &other);

    /** Create an endpoint to another peer (or to itself). */
    uint64_t connect(peer &other);
    void disconnect(uint64_t ep);

    ucs_status_t unpack(const std::string &key, uint64_t &rkey);
    ucs_status_t release(uint64_t rkey);
    ucs_status_t
    rkey_ptr(uint64_t rkey, uint64_t remote_address, uint64_t &pointer);
#if UCX_HAS_ROCM_DEVICE_EP

    /** What device code sees of an endpoint: where, and its first byte. */
    ucs_status_t device_ep(uint64_t ep, uint64_t &address, uint64_t &tl_id);

    /** Describe memory to device code; rkey 0 is local memory. @a pointer:
     *  where device code finds what the owner has at @a remote_address. */
    ucs_status_t pack_elem(uint64_t rkey, uint64_t remote_address,
                           uint64_t &elem, uint64_t &pointer);
    void release_elem(uint64_t elem);
#endif

    operation start_put(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                        uint64_t local_address, size_t length);
    operation start_get(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                        uint64_t local_address, size_t length);

    /** Progress until the operation is done. @return how it ended. */
    ucs_status_t finish(const operation &op);
    ucs_status_t put(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                     uint64_t local_address, size_t length);
    ucs_status_t get(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                     uint64_t local_address, size_t length);

    ucs_status_t flush_ep(uint64_t ep);
    ucs_status_t flush_iface();
    operation start_flush_ep(uint64_t ep);
    operation start_flush_iface();

    /** Progress once. */
    void progress();

    /** Progress until the completion was called. */
    completion_state progress_until(uint64_t completion);

    /** Look at a completion without any progress. */
    completion_state look_at(uint64_t completion);

    /** Open another interface, for the use of one lane, and connect it. */
    route connect_lane(peer &other, uint32_t lane);

    /** Let a lane work with a key, @a rounds times. @return for @ref
     *  to_work_result, when the reply has come. */
    uint64_t post_work(const route &way, const std::string &key,
                       uint64_t remote_address, size_t length, uint64_t seed,
                       uint64_t position, uint64_t rounds, uint64_t kind = 0);
    static work_result to_work_result(const result &res);
    /** @} */

private:
    peer(const peer &);
    peer &operator=(const peer &);

    void start(const environment_t &environment,
               const std::vector<std::string> &wrapper);
    bool receive(double seconds);
    void reap(bool expect_success);
    void await_exit();
    operation start_zcopy(verb_t verb, uint64_t ep, uint64_t rkey,
                          uint64_t remote_address, uint64_t local_address,
                          size_t length);
    completion_state to_completion_state(const result &res);
    void abort(const std::string &reason);

    std::string                m_name;
    std::string                m_log;
    pid_t                      m_pid;
    pid_t                      m_own_pid;
    int                        m_socket;
    bool                       m_running;
    int                        m_num_devices;
    bool                       m_emulated;
    uint64_t                   m_last_id;
    std::map<uint64_t, verb_t> m_posted;
    std::map<uint64_t, result> m_replies;
    uint64_t                   m_iface;
};

/**
 * The processes of one test and what they run on: an emulated node of their
 * own, or the GPUs of this machine.
 */
class node {
public:
    /** @a environment is that of all its processes, on top of the test
     *  program's own. */
    explicit node(const environment_t &environment);
    ~node();

    /** Start a process of the node. The node keeps owning it. */
    peer &
    start(const std::string &name,
          const environment_t &environment        = environment_t(),
          const std::vector<std::string> &wrapper = std::vector<std::string>());

    std::vector<peer*> peers() const;

    bool emulated() const
    {
        return m_observer->emulated();
    }

    int num_devices() const
    {
        return m_observer->num_devices();
    }

    /** @name The emulator, see emul.h
     *  To be called only where @ref emulated is true; @a who may be NULL for
     *  all processes of the node.
     *  @{ */
    int64_t count(emul_count_t what, const peer *who = NULL);
    int64_t calls(const std::string &function, const peer *who = NULL);
    void fail(const peer *who, const std::string &function, uint64_t nth,
              uint64_t count, int status);
    void close_gate(const peer *who, const std::string &point);
    void open_gate(const peer *who, const std::string &point);
    int64_t gate_waiters(const std::string &point, const peer *who = NULL);
    void change_setting(const std::string &name, const std::string &value);

    /** Wait until a count has a value. */
    ::testing::AssertionResult
    reaches(emul_count_t what, int64_t value, const peer *who = NULL);

    /** Wait until so many wait at a gate. */
    ::testing::AssertionResult
    waiting(const std::string &point, int64_t value, const peer *who = NULL);
    /** @} */

    /** Print what the processes printed. */
    void print_output() const;

private:
    node(const node &);
    node &operator=(const node &);

    uint64_t ask(verb_t verb, const std::vector<uint64_t> &numbers,
                 const std::string &data = std::string());

    std::string                         m_directory;
    environment_t                       m_environment;
    std::unique_ptr<peer>               m_observer;
    std::vector<std::unique_ptr<peer> > m_peers;
};

} /* namespace rocm_ipc */

#endif
