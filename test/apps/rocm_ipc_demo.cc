/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * Two processes share a GPU buffer through UCX, and its owner frees it while
 * the other one is alive and idle. This program plays that scene twice, once
 * with UCX's own module for AMD GPUs and once with the patched one, and prints
 * what has happened side by side.
 *
 * Each scene is two processes of this same program (see demo_roles.h), started
 * anew, because a process loads its UCX modules once.
 */

#include "demo_channel.h"
#include "demo_roles.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace demo {

namespace {

constexpr size_t MEBIBYTE     = 1024 * 1024;
constexpr size_t DEFAULT_SIZE = 256 * MEBIBYTE;

/* What one run has shown */
struct outcome {
    report owner;
    report importer;

    bool data_right() const
    {
        return owner.data_right && importer.data_right;
    }

    bool all_bytes_back() const
    {
        return owner.free_bytes_known &&
               (owner.bytes_given_back >=
                static_cast<int64_t>(owner.buffer_size));
    }

    /* The owner got everything back that it freed */
    bool released() const
    {
        return owner.free_finished && !owner.free_failed &&
               (owner.mappings_left == 0) && all_bytes_back();
    }
};

/* A child process; killed if it is still there when its object goes */
class child {
public:
    child(const std::vector<std::string> &args,
          const std::vector<const channel*> &inherited,
          const std::string &search_path)
    {
        m_pid = fork();
        if (m_pid == -1) {
            throw error(std::string("fork: ") + strerror(errno));
        }

        if (m_pid == 0) {
            execute(args, inherited, search_path);
        }
    }

    child(const child&)            = delete;
    child &operator=(const child&) = delete;

    ~child()
    {
        if (m_pid != -1) {
            kill(m_pid, SIGKILL);
            waitpid(m_pid, nullptr, 0);
        }
    }

    /* Wait for its end; empty, or how it ended if that was not by itself */
    std::string wait()
    {
        static const timespec pause = {0, 1000000}; /* Nanoseconds: 1 ms */
        const auto deadline         = std::chrono::steady_clock::now() +
                                      HANG_TIMEOUT;
        int status                  = 0;

        while (waitpid(m_pid, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() >= deadline) {
                return "does not end";
            }

            nanosleep(&pause, nullptr);
        }

        m_pid = -1;
        return WIFSIGNALED(status) ?
                       std::string("was killed by signal: ") +
                               strsignal(WTERMSIG(status)) :
                       "";
    }

private:
    [[noreturn]] static void
    execute(const std::vector<std::string> &args,
            const std::vector<const channel*> &inherited,
            const std::string &search_path)
    {
        std::vector<char*> argv;

        for (const std::string &arg : args) {
            argv.push_back(const_cast<char*>(arg.c_str()));
        }

        argv.push_back(nullptr);
        for (const channel *end : inherited) {
            fcntl(end->fd(), F_SETFD, 0); /* Stay open across exec */
        }

        setenv("LD_LIBRARY_PATH", search_path.c_str(), 1);
        execv("/proc/self/exe", argv.data());
        perror("rocm_ipc_demo: cannot start itself again");
        _exit(EXIT_FAILURE);
    }

    pid_t m_pid;
};

report receive_report(const channel &from, child *process,
                      const std::string &role)
{
    try {
        return from.receive<report>();
    } catch (const peer_gone&) {
        const std::string end = process->wait();
        report result         = {};

        result.failed = true;
        snprintf(result.failure, sizeof(result.failure),
                 "the %s %s", role.c_str(),
                 end.empty() ? "ended without a result" : end.c_str());
        return result;
    }
}

/* Which of two reports tells what has gone wrong; NULL if all is well */
const report *find_failure(const outcome &result)
{
    const report *lost = nullptr;

    for (const report *candidate : {&result.owner, &result.importer}) {
        if (candidate->failed && !candidate->lost_peer) {
            return candidate;
        }

        lost = candidate->failed ? candidate : lost;
    }

    return lost;
}

std::string real_path(const std::string &path)
{
    char buffer[PATH_MAX];

    return (realpath(path.c_str(), buffer) == nullptr) ? "" : buffer;
}

/* The module file that UCX is meant to load from a module folder */
std::string module_file(const std::string &modules)
{
    return real_path(modules + "/libuct_rocm.so.0");
}

void check_modules(const std::string &modules, const char *which)
{
    static const std::pair<const char*, const char*> files[] = {
        {"libuct_rocm.so.0", "moves the memory of AMD GPUs"},
        {"libucm_rocm.so.0", "sees it being freed"}
    };
    struct stat info;

    if ((stat(modules.c_str(), &info) != 0) || !S_ISDIR(info.st_mode)) {
        throw error(std::string("the ") + which + " modules: no folder " +
                    modules);
    }

    for (const auto &[name, purpose] : files) {
        if (real_path(modules + "/" + name).empty()) {
            throw error(std::string("the ") + which + " modules: no " + name +
                        " in " + modules + "; it is the module of UCX that " +
                        purpose);
        }
    }
}

/* A result of the wrong module would be worse than none */
void check_loaded(const report &process, const std::string &modules)
{
    if (real_path(process.module_path) != module_file(modules)) {
        throw error(std::string("UCX has loaded ") +
                    (*process.module_path ? process.module_path : "no module") +
                    " instead of " + module_file(modules));
    }
}

/* A crash on the way out counts, too */
void check_ended(child *process, const char *role, const char *which)
{
    const std::string end = process->wait();

    if (!end.empty()) {
        throw error(std::string("with the ") + which + " module: the " + role +
                    " has done its part, and then " + end);
    }
}

/*
 * UCX looks for modules in the folder "ucx" beside its libucs.so, before it
 * looks in UCX_MODULE_DIR. So a run gets a folder with links to the UCX
 * libraries that this program has loaded itself, and with the wanted modules as
 * "ucx".
 */
class library_folder {
public:
    explicit library_folder(const std::string &modules)
    {
        char name[] = "/tmp/rocm-ipc-demo-XXXXXX";

        if (mkdtemp(name) == nullptr) {
            throw error(std::string("cannot make a folder in /tmp: ") +
                        strerror(errno));
        }

        m_folder = name;
        link("ucx", real_path(modules));
        for (const std::filesystem::path &library : loaded_libraries()) {
            for (const char *start : {"libucm.", "libucs.", "libuct."}) {
                if (library.filename().string().find(start) == 0) {
                    link(library.filename(), real_path(library));
                }
            }
        }
    }

    library_folder(const library_folder&)            = delete;
    library_folder &operator=(const library_folder&) = delete;

    ~library_folder()
    {
        std::error_code ignored;

        std::filesystem::remove_all(m_folder, ignored);
    }

    /* LD_LIBRARY_PATH with this folder first */
    std::string search_path() const
    {
        const char *path = getenv("LD_LIBRARY_PATH");

        return (path == nullptr) ? m_folder : m_folder + ":" + path;
    }

private:
    void link(const std::string &name, const std::string &target) const
    {
        if (symlink(target.c_str(), (m_folder + "/" + name).c_str()) != 0) {
            throw error("cannot make a link in " + m_folder + ": " +
                        strerror(errno));
        }
    }

    /* With the names by which they were loaded */
    static std::vector<std::filesystem::path> loaded_libraries()
    {
        std::vector<std::filesystem::path> paths;

        dl_iterate_phdr(
                [](dl_phdr_info *info, size_t, void *arg) {
                    static_cast<decltype(paths)*>(arg)->emplace_back(
                            info->dlpi_name);
                    return 0;
                },
                &paths);
        return paths;
    }

    std::string m_folder;
};

/*
 * An emulated node of its own for a run, so that nobody else's memory is
 * counted. A real runtime does not look at the variable. The emulator removes
 * the node's folder with its last process, unless that was killed.
 */
class private_node {
public:
    explicit private_node(const char *which) :
        m_folder(start_of_name() + "-" + which)
    {
        setenv("EMUL_NODE", m_folder.c_str(), 1);
    }

    private_node(const private_node&)            = delete;
    private_node &operator=(const private_node&) = delete;

    ~private_node()
    {
        std::error_code ignored;

        std::filesystem::remove_all(m_folder, ignored);
    }

private:
    /* The user's own choice of a place, if there is one */
    static const std::string &start_of_name()
    {
        static const char *const chosen = getenv("EMUL_NODE");
        static const std::string start  =
                (chosen != nullptr) ? chosen :
                                      "/dev/shm/rocm-ipc-demo-" +
                                              std::to_string(getpid());

        return start;
    }

    const std::string m_folder;
};

outcome play(const std::string &modules, const char *which, size_t size)
{
    auto [owner_peer, importer_peer] = channel::make_pair();
    auto [owner_out, owner_in]       = channel::make_pair();
    auto [importer_out, importer_in] = channel::make_pair();
    const std::string size_text      = std::to_string(size);
    const library_folder libraries(modules);
    const private_node node(which);
    outcome result = {};

    printf("Running with the %s module ...\n", which);
    fflush(stdout);

    child owner({"rocm_ipc_demo", "owner", std::to_string(owner_peer.fd()),
                 std::to_string(owner_out.fd()), size_text},
                {&owner_peer, &owner_out}, libraries.search_path());
    child importer({"rocm_ipc_demo", "importer",
                    std::to_string(importer_peer.fd()),
                    std::to_string(importer_out.fd()), size_text},
                   {&importer_peer, &importer_out}, libraries.search_path());

    /* Or nobody would notice when one of the two ends */
    for (channel *end : {&owner_peer, &importer_peer, &owner_out,
                         &importer_out}) {
        end->close();
    }

    result.importer = receive_report(importer_in, &importer, "importer");
    result.owner    = receive_report(owner_in, &owner, "owner");

    const report *failure = find_failure(result);
    if (failure != nullptr) {
        throw error(std::string("with the ") + which + " module: " +
                    failure->failure);
    }

    check_ended(&owner, "owner", which);
    check_ended(&importer, "importer", which);
    check_loaded(result.owner, modules);
    check_loaded(result.importer, modules);
    return result;
}

std::string format(const char *form, ...)
        __attribute__((format(printf, 1, 2)));

std::string format(const char *form, ...)
{
    char text[256];
    va_list args;

    va_start(args, form);
    vsnprintf(text, sizeof(text), form, args);
    va_end(args);
    return text;
}

std::string describe_time(double seconds)
{
    return (seconds < 1.0) ? format("%.1f ms", seconds * 1e3) :
                             format("%.1f s", seconds);
}

std::string describe_mapped(const outcome &result)
{
    return (result.owner.mappings_made == 0) ?
                   "not visible in /proc" :
                   format("yes, %" PRIu64 " mapping%s",
                          result.owner.mappings_made,
                          (result.owner.mappings_made == 1) ? "" : "s");
}

std::string describe_data(const outcome &result)
{
    return result.data_right() ?
                   "all right" :
                   format("WRONG from byte %" PRIu64 " on",
                          result.owner.bytes_verified);
}

std::string describe_free(const outcome &result)
{
    if (!result.owner.free_finished) {
        return format("blocked after %d s", RESULT_SECONDS);
    }

    return (result.owner.free_failed ? "failed after " : "returned after ") +
           describe_time(result.owner.free_seconds);
}

std::string describe_end(const outcome &result)
{
    if (result.owner.free_finished) {
        return "not needed";
    }

    if (!result.owner.ended_after_peer_exit) {
        return "never ended";
    }

    return "ended, after " + describe_time(result.owner.free_seconds);
}

std::string describe_left(const outcome &result)
{
    return (result.owner.mappings_made == 0) ?
                   "not visible in /proc" :
                   format("%" PRIu64, result.owner.mappings_left);
}

std::string describe_bytes(const outcome &result)
{
    if (!result.owner.free_bytes_known) {
        return "runtime did not say";
    }

    return format("%.0f of %.0f MiB",
                  static_cast<double>(result.owner.bytes_given_back) / MEBIBYTE,
                  static_cast<double>(result.owner.buffer_size) / MEBIBYTE);
}

void print_row(const char *what, const std::string &stock,
               const std::string &patched)
{
    printf("  %-40s %-22s %s\n", what, stock.c_str(), patched.c_str());
}

void print_row(const char *what, std::string (*describe)(const outcome&),
               const outcome &stock, const outcome &patched)
{
    print_row(what, describe(stock), describe(patched));
}

void print_table(const outcome &stock, const outcome &patched)
{
    printf("\nOne process owns a GPU buffer of %zu MiB, another one maps and "
           "reads it through\nUCX and then sleeps. The owner frees the "
           "buffer:\n\n",
           static_cast<size_t>(stock.owner.buffer_size) / MEBIBYTE);
    print_row("", "stock UCX", "patched UCX");
    print_row("buffer mapped by the peer", describe_mapped, stock, patched);
    print_row("bytes that the peer has read", describe_data, stock, patched);
    print_row("the owner's hipFree", describe_free, stock, patched);
    print_row("... once the peer had exited", describe_end, stock, patched);
    print_row("mappings left at the living peer", describe_left, stock,
              patched);
    print_row("memory given back while the peer lives", describe_bytes, stock,
              patched);
}

void print_surroundings(const outcome &stock, const outcome &patched)
{
    if (patched.owner.emulated) {
        printf("\nRuntime: EMULATED, no GPU was used (%s)\n",
               patched.owner.hip_path);
    } else {
        printf("\nRuntime: GPU \"%s\" (%s)\n", patched.owner.device_name,
               patched.owner.hip_path);
    }

    printf("Stock module:   %s\n", stock.owner.module_path);
    printf("Patched module: %s\n", patched.owner.module_path);
}

/* What stock UCX did wrong in this run, or an empty text */
std::string stock_fault(const outcome &stock)
{
    if (!stock.owner.free_finished) {
        return "With stock UCX the owner's hipFree was blocked by the peer's "
               "mapping";
    }

    if (!stock.all_bytes_back()) {
        return "With stock UCX hipFree returned, but the memory stayed charged";
    }

    if (stock.owner.mappings_left != 0) {
        return "With stock UCX hipFree returned, but the peer kept its mapping";
    }

    return "";
}

/* Says what has been shown. True if it is what the patch promises. */
bool judge(const outcome &stock, const outcome &patched)
{
    const std::string fault = stock_fault(stock);

    if (!stock.data_right() || !patched.data_right()) {
        printf("\nFAILED: the peer has read wrong data.\n");
        return false;
    }

    if (patched.owner.emulated && ((stock.owner.mappings_made == 0) ||
                                   (patched.owner.mappings_made == 0))) {
        printf("\nFAILED: the peer's mapping was not seen on the emulated "
               "node.\n");
        return false;
    }

    if (!patched.released()) {
        printf("\nFAILED: with the patched module the freed memory was not "
               "given back.\n");
        return false;
    }

    if (fault.empty()) {
        printf("\nFAILED: stock UCX gave the memory back as well, so this run "
               "shows no difference.\n");
        return false;
    }

    printf("\n%s;\n"
           "with the patched module the peer let go of it, and the memory came "
           "back.\n", fault.c_str());
    return true;
}

int compare(const std::string &stock_modules,
            const std::string &patched_modules, size_t size)
{
    check_modules(stock_modules, "stock");
    check_modules(patched_modules, "patched");

    const outcome stock   = play(stock_modules, "stock", size);
    const outcome patched = play(patched_modules, "patched", size);

    print_table(stock, patched);
    print_surroundings(stock, patched);
    return judge(stock, patched) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int usage()
{
    fprintf(stderr,
            "usage: rocm_ipc_demo compare STOCK_MODULES PATCHED_MODULES "
            "[MIB]\n"
            "\n"
            "Let two processes share a GPU buffer through UCX and free it "
            "while both live,\n"
            "with the UCX modules in the folder STOCK_MODULES and with those "
            "in\n"
            "PATCHED_MODULES, and print what happens. MIB is the size of the "
            "buffer (%zu if\n"
            "not given). Exit status 0 only if the stock modules kept the "
            "memory and the\n"
            "patched ones gave it back.\n", DEFAULT_SIZE / MEBIBYTE);
    return 2;
}

size_t parse_size(const char *text)
{
    char *end;
    const unsigned long long mib = strtoull(text, &end, 10);

    if ((*text < '0') || (*text > '9') || (*end != '\0') || (mib == 0) ||
        (mib > SIZE_MAX / MEBIBYTE)) {
        throw error(std::string("not a size in MiB: ") + text);
    }

    return mib * MEBIBYTE;
}

int run(const std::vector<std::string> &args)
{
    if (((args.size() == 3) || (args.size() == 4)) && (args[0] == "compare")) {
        return compare(args[1], args[2],
                       (args.size() == 4) ? parse_size(args[3].c_str()) :
                                            DEFAULT_SIZE);
    }

    if ((args.size() == 4) && (args[0] == "owner")) {
        return run_owner(std::stoi(args[1]), std::stoi(args[2]),
                         std::stoul(args[3]));
    }

    if ((args.size() == 4) && (args[0] == "importer")) {
        return run_importer(std::stoi(args[1]), std::stoi(args[2]),
                            std::stoul(args[3]));
    }

    return usage();
}

} // namespace

} // namespace demo

int main(int argc, char **argv)
{
    try {
        return demo::run(std::vector<std::string>(argv + 1, argv + argc));
    } catch (const std::exception &e) {
        fflush(stdout);
        fprintf(stderr, "rocm_ipc_demo: %s\n", e.what());
        return EXIT_FAILURE;
    }
}
