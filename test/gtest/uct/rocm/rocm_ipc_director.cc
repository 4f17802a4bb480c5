/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "rocm_ipc_director.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace rocm_ipc {

double time_limit()
{
    return 30.0 * ucs::test_time_multiplier();
}

static double now()
{
    return ucs_time_to_sec(ucs_get_time());
}

/** The program lies beside the test program: both are built together. */
static std::string peer_program()
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
    std::string self(path, (length > 0) ? length : 0);

    return self.substr(0, self.rfind('/') + 1) + "rocm_ipc_peer";
}

/** The environment of this process with some variables replaced, in the form
 *  that exec wants. */
class environment_strings {
public:
    explicit environment_strings(const environment_t &changes)
    {
        environment_t::const_iterator it;
        char **inherited;

        for (it = changes.begin(); it != changes.end(); ++it) {
            m_strings.push_back(it->first + "=" + it->second);
        }

        for (inherited = environ; *inherited != NULL; ++inherited) {
            std::string string(*inherited);

            if (changes.count(string.substr(0, string.find('='))) == 0) {
                m_strings.push_back(string);
            }
        }

        for (size_t i = 0; i < m_strings.size(); ++i) {
            m_pointers.push_back(const_cast<char*>(m_strings[i].c_str()));
        }
        m_pointers.push_back(NULL);
    }

    char **get()
    {
        return &m_pointers[0];
    }

private:
    std::vector<std::string> m_strings;
    std::vector<char*>       m_pointers;
};

peer::peer(const std::string &name, const std::string &directory,
           const environment_t &environment,
           const std::vector<std::string> &wrapper) :
    m_name(name),
    m_log(directory + "/" + name + ".log"),
    m_pid(-1),
    m_own_pid(-1),
    m_socket(-1),
    m_running(false),
    m_num_devices(0),
    m_emulated(false),
    m_last_id(0),
    m_iface(0)
{
    result res;

    start(environment, wrapper);
    res           = call(VERB_HELLO);
    m_own_pid     = (pid_t)res.number[0];
    m_num_devices = (int)res.number[1];
    m_emulated    = res.number[2] != 0;
}

peer::~peer()
{
    if (m_running) {
        ::kill(m_pid, SIGKILL);
        waitpid(m_pid, NULL, 0);
    }

    if (m_socket >= 0) {
        close(m_socket);
    }
}

void peer::start(const environment_t &environment,
                 const std::vector<std::string> &wrapper)
{
    std::vector<std::string> words = wrapper;
    environment_strings strings(environment);
    std::vector<char*> argv;
    posix_spawn_file_actions_t actions;
    int sockets[2];
    int ret;

    /* Not inherited: a peer that held another peer's socket would keep it from
     * noticing that the director is gone */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        abort(std::string("socketpair: ") + strerror(errno));
    }

    words.push_back(peer_program());
    for (size_t i = 0; i < words.size(); ++i) {
        argv.push_back(const_cast<char*>(words[i].c_str()));
    }
    argv.push_back(NULL);

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, m_log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, sockets[1], peer_socket_fd);
    ret = posix_spawnp(&m_pid, argv[0], &actions, NULL, &argv[0],
                       strings.get());
    posix_spawn_file_actions_destroy(&actions);
    close(sockets[1]);
    m_socket = sockets[0];
    if (ret != 0) {
        abort(words[0] + ": " + strerror(ret));
    }

    m_running = true;
}

std::string peer::output() const
{
    std::ifstream file(m_log.c_str());
    std::stringstream text;

    text << file.rdbuf();
    return text.str();
}

void peer::abort(const std::string &reason)
{
    UCS_TEST_ABORT("process '" << m_name << "' (" << m_pid << "): " << reason);
}

/** Reap the process, which has closed its end of the socket. */
void peer::reap(bool expect_success)
{
    int exit_status = 0;

    if (waitpid(m_pid, &exit_status, 0) != m_pid) {
        abort(std::string("waitpid: ") + strerror(errno));
    }

    m_running = false;
    if (expect_success && (exit_status != 0)) {
        abort(ucs::exit_status_info(exit_status));
    }
}

/** Take at most one reply from the socket.
 *  @return false if none has come within this time. */
bool peer::receive(double seconds)
{
    char bytes[sizeof(reply) + max_data];
    struct pollfd pfd = {m_socket, POLLIN, 0};
    result res        = {};
    ssize_t length;
    reply head;

    if (poll(&pfd, 1, (int)(seconds * 1e3)) <= 0) {
        return false;
    }

    length = recv(m_socket, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (length < (ssize_t)sizeof(head)) {
        reap(true);
        abort("exited in the middle of the test");
    }

    memcpy(&head, bytes, sizeof(head));
    res.status  = (ucs_status_t)head.status;
    res.elapsed = head.elapsed_ns * 1e-9;
    res.data.assign(bytes + sizeof(head), length - sizeof(head));
    std::copy(head.number, head.number + max_numbers, res.number);
    m_replies[head.id] = res;
    return true;
}

uint64_t peer::post(verb_t verb, uint32_t lane,
                    const std::vector<uint64_t> &numbers,
                    const std::string &data)
{
    request head = {};
    struct iovec iov[2];
    struct msghdr message = {};
    ssize_t sent;

    head.id     = ++m_last_id;
    head.verb   = verb;
    head.lane   = lane;
    head.length = (uint32_t)data.size();
    std::copy(numbers.begin(), numbers.end(), head.number);

    iov[0].iov_base    = &head;
    iov[0].iov_len     = sizeof(head);
    iov[1].iov_base    = (void*)data.data();
    iov[1].iov_len     = data.size();
    message.msg_iov    = iov;
    message.msg_iovlen = 2;

    do {
        sent = sendmsg(m_socket, &message, MSG_NOSIGNAL);
    } while ((sent < 0) && (errno == EINTR));

    if (sent < 0) {
        abort(std::string("cannot be told anything: ") + strerror(errno));
    }

    m_posted[head.id] = verb;
    return head.id;
}

bool peer::replied(uint64_t id)
{
    while (receive(0)) {
    }

    return m_replies.count(id) != 0;
}

result peer::wait(uint64_t id)
{
    double deadline = now() + time_limit();
    result res;

    while (m_replies.count(id) == 0) {
        if (!receive(std::max(deadline - now(), 0.0)) && (now() > deadline)) {
            abort("no reply to request " + ucs::to_string(m_posted[id]) +
                  " within " + ucs::to_string(time_limit()) + " s");
        }
    }

    res = m_replies[id];
    m_replies.erase(id);
    m_posted.erase(id);
    return res;
}

result peer::call(verb_t verb, const std::vector<uint64_t> &numbers,
                  const std::string &data, uint32_t lane)
{
    return wait(post(verb, lane, numbers, data));
}

void peer::open()
{
    result res = call(VERB_MD_OPEN);

    if (res.status == UCS_OK) {
        res     = call(VERB_IFACE_OPEN);
        m_iface = res.number[0];
    }

    if (res.status != UCS_OK) {
        abort(std::string("cannot open the transport: ") +
              ucs_status_string(res.status));
    }
}

void peer::close_transport()
{
    call(VERB_CLOSE, {OBJECT_RKEYS | OBJECT_EPS | OBJECT_IFACES |
                      OBJECT_COMPLETIONS | OBJECT_MEMHS});
}

void peer::free_all()
{
    EXPECT_UCS_OK(call(VERB_CLOSE, {OBJECT_MEMORY}, "", LANE_FREE).status);
}

void peer::close_md()
{
    call(VERB_CLOSE, {OBJECT_MD});
}

/** Wait until the process has closed its end of the socket by exiting. */
void peer::await_exit()
{
    double deadline   = now() + time_limit();
    struct pollfd pfd = {m_socket, POLLIN, 0};
    char byte;

    /* Late replies may still lie before the end */
    do {
        poll(&pfd, 1, (int)(std::max(deadline - now(), 0.0) * 1e3));
        if (now() > deadline) {
            abort("does not exit");
        }
    } while (recv(m_socket, &byte, sizeof(byte), MSG_DONTWAIT) != 0);
}

void peer::quit()
{
    call(VERB_EXIT);
    await_exit();
    reap(true);
}

void peer::kill()
{
    ::kill(m_pid, SIGKILL);
    reap(false);
}

buffer peer::alloc(size_t length, ucs_memory_type_t type, int device)
{
    result res = call(VERB_ALLOC, {length, (uint64_t)type, (uint64_t)device});
    buffer mem;

    if (res.status != UCS_OK) {
        abort("cannot allocate " + ucs::to_string(length) +
              " bytes: " + ucs_status_string(res.status));
    }

    mem.address = res.number[0];
    mem.length  = length;
    return mem;
}

uint64_t peer::post_free(const buffer &mem)
{
    return post(VERB_FREE, LANE_FREE, {mem.address});
}

void peer::free(const buffer &mem)
{
    EXPECT_UCS_OK(wait(post_free(mem)).status);
}

void peer::fill(buffer &mem)
{
    static uint64_t last_seed = 0;

    mem.seed = ++last_seed;
    fill(mem.address, mem.length, mem.seed);
}

void peer::fill(uint64_t address, size_t length, uint64_t seed,
                uint64_t position, access_t access)
{
    EXPECT_UCS_OK(
            call(VERB_FILL, {address, length, seed, position, (uint64_t)access})
                    .status);
}

::testing::AssertionResult peer::holds(uint64_t address, size_t length,
                                       uint64_t seed, uint64_t position,
                                       access_t access)
{
    result res = call(VERB_CHECK,
                      {address, length, seed, position, (uint64_t)access});

    if (res.status != UCS_OK) {
        return ::testing::AssertionFailure()
               << m_name
               << " cannot read its memory: " << ucs_status_string(res.status);
    }

    if (res.number[0] != length) {
        return ::testing::AssertionFailure()
               << "wrong data at " << m_name << " from byte " << res.number[0]
               << " of " << length;
    }

    return ::testing::AssertionSuccess();
}

::testing::AssertionResult peer::holds(const buffer &mem)
{
    return holds(mem.address, mem.length, mem.seed);
}

md_attributes peer::query_md()
{
    result res = call(VERB_MD_QUERY);
    md_attributes attributes;

    EXPECT_UCS_OK(res.status);
    attributes.flags            = res.number[0];
    attributes.reg_mem_types    = res.number[1];
    attributes.access_mem_types = res.number[2];
    attributes.max_reg          = res.number[3];
    attributes.rkey_packed_size = res.number[4];
    return attributes;
}

iface_attributes peer::query_iface()
{
    result res = call(VERB_IFACE_QUERY, {m_iface});
    iface_attributes attributes;

    EXPECT_UCS_OK(res.status);
    attributes.flags         = res.number[0];
    attributes.put_max_zcopy = res.number[1];
    attributes.put_max_iov   = res.number[2];
    attributes.get_max_zcopy = res.number[3];
    attributes.get_max_iov   = res.number[4];
    attributes.put_min_zcopy = res.number[5];
    attributes.get_min_zcopy = res.number[6];
    attributes.latency       = res.number[7] * 1e-12;
    return attributes;
}

ucs_status_t peer::reg(uint64_t address, size_t length, uint64_t &memh)
{
    result res = call(VERB_REG, {address, length});

    memh = res.number[0];
    return res.status;
}

ucs_status_t peer::dereg(uint64_t memh)
{
    return call(VERB_DEREG, {memh}).status;
}

ucs_status_t peer::pack(uint64_t memh, std::string &key)
{
    result res = call(VERB_PACK, {memh});

    key = res.data;
    return res.status;
}

std::string peer::iface_address(size_t &device_length)
{
    result res = call(VERB_IFACE_ADDRESS, {m_iface});

    EXPECT_UCS_OK(res.status);
    device_length = res.number[0];
    return res.data;
}

bool peer::reaches(peer &other)
{
    size_t device_length;
    std::string address = other.iface_address(device_length);

    return call(VERB_IFACE_REACHABLE, {m_iface, device_length}, address)
                   .number[0] != 0;
}

uint64_t peer::connect(peer &other)
{
    size_t device_length;
    std::string address = other.iface_address(device_length);
    result res = call(VERB_EP_CREATE, {m_iface, device_length}, address);

    if (res.status != UCS_OK) {
        abort("cannot connect to " + other.name() + ": " +
              ucs_status_string(res.status));
    }

    return res.number[0];
}

void peer::disconnect(uint64_t ep)
{
    EXPECT_UCS_OK(call(VERB_EP_DESTROY, {ep}).status);
}

ucs_status_t peer::unpack(const std::string &key, uint64_t &rkey)
{
    result res = call(VERB_UNPACK, {}, key);

    rkey = res.number[0];
    return res.status;
}

ucs_status_t peer::release(uint64_t rkey)
{
    return call(VERB_RKEY_RELEASE, {rkey}).status;
}

ucs_status_t
peer::rkey_ptr(uint64_t rkey, uint64_t remote_address, uint64_t &pointer)
{
    result res = call(VERB_RKEY_PTR, {rkey, remote_address});

    pointer = res.number[0];
    return res.status;
}

#if UCX_HAS_ROCM_DEVICE_EP
ucs_status_t peer::device_ep(uint64_t ep, uint64_t &address, uint64_t &tl_id)
{
    result res = call(VERB_DEVICE_EP, {ep});

    address = res.number[0];
    tl_id   = res.number[1];
    return res.status;
}

ucs_status_t peer::pack_elem(uint64_t rkey, uint64_t remote_address,
                             uint64_t &elem, uint64_t &pointer)
{
    result res = call(VERB_ELEM_PACK, {rkey});

    elem    = res.number[0];
    pointer = remote_address + res.number[1];
    return res.status;
}

void peer::release_elem(uint64_t elem)
{
    EXPECT_UCS_OK(call(VERB_ELEM_RELEASE, {elem}).status);
}
#endif

operation peer::start_zcopy(verb_t verb, uint64_t ep, uint64_t rkey,
                            uint64_t remote_address, uint64_t local_address,
                            size_t length)
{
    result res = call(verb, {ep, rkey, remote_address, local_address, length});
    operation op = {res.status, res.number[0]};

    return op;
}

operation peer::start_put(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                          uint64_t local_address, size_t length)
{
    return start_zcopy(VERB_EP_PUT, ep, rkey, remote_address, local_address,
                       length);
}

operation peer::start_get(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                          uint64_t local_address, size_t length)
{
    return start_zcopy(VERB_EP_GET, ep, rkey, remote_address, local_address,
                       length);
}

ucs_status_t peer::finish(const operation &op)
{
    completion_state state;

    if (op.status != UCS_INPROGRESS) {
        return op.status;
    }

    state = progress_until(op.completion);
    if (state.progress_status != UCS_OK) {
        return state.progress_status;
    }

    EXPECT_EQ(1, state.calls);
    EXPECT_EQ(0, state.count);
    return state.status;
}

ucs_status_t peer::put(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                       uint64_t local_address, size_t length)
{
    return finish(start_put(ep, rkey, remote_address, local_address, length));
}

ucs_status_t peer::get(uint64_t ep, uint64_t rkey, uint64_t remote_address,
                       uint64_t local_address, size_t length)
{
    return finish(start_get(ep, rkey, remote_address, local_address, length));
}

ucs_status_t peer::flush_ep(uint64_t ep)
{
    return call(VERB_EP_FLUSH, {ep, 0}).status;
}

ucs_status_t peer::flush_iface()
{
    return call(VERB_IFACE_FLUSH, {m_iface, 0}).status;
}

operation peer::start_flush_ep(uint64_t ep)
{
    result res   = call(VERB_EP_FLUSH, {ep, 1});
    operation op = {res.status, res.number[0]};

    return op;
}

operation peer::start_flush_iface()
{
    result res   = call(VERB_IFACE_FLUSH, {m_iface, 1});
    operation op = {res.status, res.number[0]};

    return op;
}

void peer::progress()
{
    EXPECT_UCS_OK(call(VERB_PROGRESS, {m_iface, 0, 0}).status);
}

completion_state peer::to_completion_state(const result &res)
{
    completion_state state;

    state.progress_status = res.status;
    state.calls           = (int)res.number[0];
    state.count           = (int)res.number[1];
    state.status          = (ucs_status_t)(int)res.number[2];
    return state;
}

completion_state peer::progress_until(uint64_t completion)
{
    /* The peer gives up first, so that the test learns that it was progress
     * that did not help */
    uint64_t limit_ms = (uint64_t)(time_limit() * 0.8 * 1e3);

    return to_completion_state(
            call(VERB_PROGRESS, {m_iface, completion, limit_ms}));
}

completion_state peer::look_at(uint64_t completion)
{
    return to_completion_state(call(VERB_COMPLETION, {completion}));
}

route peer::connect_lane(peer &other, uint32_t lane)
{
    size_t device_length;
    std::string address = other.iface_address(device_length);
    route made          = {lane, 0, 0};
    result res;

    res = call(VERB_IFACE_OPEN, {}, "", lane);
    if (res.status == UCS_OK) {
        made.iface = res.number[0];
        res = call(VERB_EP_CREATE, {made.iface, device_length}, address, lane);
    }

    if (res.status != UCS_OK) {
        abort("cannot connect a lane to " + other.name() + ": " +
              ucs_status_string(res.status));
    }

    made.ep = res.number[0];
    return made;
}

uint64_t peer::post_work(const route &way, const std::string &key,
                         uint64_t remote_address, size_t length, uint64_t seed,
                         uint64_t position, uint64_t rounds, uint64_t kind)
{
    return post(VERB_WORK_IMPORT, way.lane,
                {way.iface, way.ep, remote_address, length, seed, position,
                 rounds, kind},
                key);
}

work_result peer::to_work_result(const result &res)
{
    work_result work = {res.status, res.number[0], res.number[1],
                        res.number[2], (ucs_status_t)(int64_t)res.number[3]};

    return work;
}

static std::string make_directory()
{
    const char *parent = getenv("TMPDIR");
    std::string path   = std::string((parent == NULL) ? "/tmp" : parent) +
                       "/rocm_ipc_XXXXXX";

    if (mkdtemp(&path[0]) == NULL) {
        UCS_TEST_ABORT("cannot make directory " << path << ": "
                                                << strerror(errno));
    }

    return path;
}

static int
remove_entry(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

node::node(const environment_t &environment) :
    m_directory(make_directory()), m_environment(environment)
{
    m_environment["EMUL_NODE"]        = m_directory;
    m_environment["EMUL_LEAK_REPORT"] = "stderr";
    /* A peer that crashes must die, not wait for a debugger */
    m_environment["UCX_HANDLE_ERRORS"]        = "none";
    m_environment["UCX_LOG_LEVEL"]            = "warn";
    m_environment["UCX_LOG_FILE"]             = "";
    m_environment["UCX_WARN_UNUSED_ENV_VARS"] = "n";
    m_observer.reset(new peer("observer", m_directory, m_environment));
}

node::~node()
{
    m_peers.clear();
    m_observer.reset();
    nftw(m_directory.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

peer &node::start(const std::string &name, const environment_t &environment,
                  const std::vector<std::string> &wrapper)
{
    environment_t merged = environment;

    merged.insert(m_environment.begin(), m_environment.end());
    m_peers.push_back(std::unique_ptr<peer>(
            new peer(name, m_directory, merged, wrapper)));
    return *m_peers.back();
}

std::vector<peer*> node::peers() const
{
    std::vector<peer*> list;

    for (size_t i = 0; i < m_peers.size(); ++i) {
        list.push_back(m_peers[i].get());
    }

    return list;
}

void node::print_output() const
{
    for (size_t i = 0; i < m_peers.size(); ++i) {
        UCS_TEST_MESSAGE << "output of '" << m_peers[i]->name() << "':\n"
                         << m_peers[i]->output();
    }

    UCS_TEST_MESSAGE << "output of '" << m_observer->name() << "':\n"
                     << m_observer->output();
}

static uint64_t pid_of(const peer *who)
{
    return (who == NULL) ? EMUL_ANY_PROCESS : who->pid();
}

uint64_t node::ask(verb_t verb, const std::vector<uint64_t> &numbers,
                   const std::string &data)
{
    result res = m_observer->call(verb, numbers, data, LANE_CONTROL);

    if (res.status != UCS_OK) {
        UCS_TEST_ABORT("the emulator refuses request "
                       << verb << " for '" << data
                       << "': " << strerror((int)res.number[0]));
    }

    return res.number[0];
}

int64_t node::count(emul_count_t what, const peer *who)
{
    return ask(VERB_EMUL_COUNT, {pid_of(who), (uint64_t)what});
}

int64_t node::calls(const std::string &function, const peer *who)
{
    return ask(VERB_EMUL_CALLS, {pid_of(who)}, function);
}

void node::fail(const peer *who, const std::string &function, uint64_t nth,
                uint64_t count, int status)
{
    ask(VERB_EMUL_FAIL, {pid_of(who), nth, count, (uint64_t)status}, function);
}

void node::close_gate(const peer *who, const std::string &point)
{
    ask(VERB_EMUL_GATE_CLOSE, {pid_of(who)}, point);
}

void node::open_gate(const peer *who, const std::string &point)
{
    ask(VERB_EMUL_GATE_OPEN, {pid_of(who)}, point);
}

int64_t node::gate_waiters(const std::string &point, const peer *who)
{
    return ask(VERB_EMUL_GATE_WAITERS, {pid_of(who)}, point);
}

void node::change_setting(const std::string &name, const std::string &value)
{
    ask(VERB_EMUL_SET, {}, name + '\0' + value);
}

::testing::AssertionResult
node::reaches(emul_count_t what, int64_t value, const peer *who)
{
    double deadline = now() + time_limit();
    int64_t last;

    /* Each look is a conversation with another process, which leaves the
     * processors to those who work */
    while ((last = count(what, who)) != value) {
        if (now() > deadline) {
            return ::testing::AssertionFailure()
                   << "count " << what << " of "
                   << ((who == NULL) ? "all" : who->name()) << " stays at "
                   << last << " instead of " << value;
        }
    }

    return ::testing::AssertionSuccess();
}

::testing::AssertionResult
node::waiting(const std::string &point, int64_t value, const peer *who)
{
    double deadline = now() + time_limit();
    int64_t last;

    while ((last = gate_waiters(point, who)) != value) {
        if (now() > deadline) {
            return ::testing::AssertionFailure()
                   << last << " instead of " << value << " wait at gate '"
                   << point << "'";
        }
    }

    return ::testing::AssertionSuccess();
}

} /* namespace rocm_ipc */
