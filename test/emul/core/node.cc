/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "node.h"

#include "allocation.h"
#include "futex.h"
#include "message.h"
#include "process.h"
#include "shared_cells.h"
#include "switches.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace emul {

namespace {

constexpr uint64_t layout_magic = 0x656d756c00000002ull;

/* What this process is to its node; only the first becomes the second, and that
 * one of the others. */
enum class membership { outside, joined, forked, left };

/* Plain data without destructors: exit handlers of others still call us after
 * the static objects of this library would have been destroyed. */
struct {
    std::string             *directory;
    int                     fd;
    node_shared_t           *shared;
    unsigned                slot;
    std::atomic<membership> member;
} here = {nullptr, -1, nullptr, nobody, {membership::outside}};

std::mutex &join_mutex()
{
    static std::mutex *mutex = new std::mutex;
    return *mutex;
}

std::string default_directory()
{
    return "/dev/shm/emul-node-" + std::to_string(getuid());
}

void choose_directory()
{
    const char *name = getenv("EMUL_NODE");

    delete here.directory;
    here.directory = new std::string((name != nullptr) && (*name != '\0') ?
                                     name : default_directory());
}

/* What a forked child has inherited is its parent's: it must not touch it. */
void after_fork_in_child()
{
    if (node_joined()) {
        here.member.store(membership::forked);
    }
}

void remove_memory_files()
{
    DIR *directory = opendir(here.directory->c_str());
    dirent *entry;

    if (directory == nullptr) {
        return;
    }

    while ((entry = readdir(directory)) != nullptr) {
        if (!strncmp(entry->d_name, "mem-", 4)) {
            unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    closedir(directory);
}

/* A directory that we have made is marked, so that whoever is last removes it.
 * Not in the control block: the process that makes the directory need not be
 * the one that creates that. */
void mark_directory()
{
    close(open(node_path("made").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC,
               0600));
}

/* The control block is open, its flock held */
void remove_node()
{
    bool made = unlink(node_path("made").c_str()) == 0;

    remove_memory_files();
    unlink(node_path("node").c_str());
    if (made && (rmdir(here.directory->c_str()) != 0)) {
        /* the next one is being created in it already */
        mark_directory();
    }
}

bool lock_is_for_the_current_file()
{
    struct stat open_file, named_file;

    return (fstat(here.fd, &open_file) == 0) &&
           (stat(node_path("node").c_str(), &named_file) == 0) &&
           (open_file.st_ino == named_file.st_ino) &&
           (open_file.st_dev == named_file.st_dev);
}

/* Closes the control block; nothing of this process is locked in it yet */
void close_node()
{
    if (here.shared != nullptr) {
        munmap(here.shared, sizeof(node_shared_t));
        here.shared = nullptr;
    }
    close(here.fd);
    here.fd = -1;
}

bool map_node()
{
    void *address = mmap(nullptr, sizeof(node_shared_t),
                         PROT_READ | PROT_WRITE, MAP_SHARED, here.fd, 0);

    here.shared = (address == MAP_FAILED) ? nullptr : (node_shared_t*)address;
    return here.shared != nullptr;
}

bool create_control_block()
{
    pthread_mutexattr_t attributes;

    if ((ftruncate(here.fd, sizeof(node_shared_t)) != 0) || !map_node()) {
        return false;
    }

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&here.shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);

    if (getrandom(&here.shared->secret, sizeof(here.shared->secret), 0) < 0) {
        return false;
    }

    here.shared->size = sizeof(node_shared_t);
    here.shared->next_id.store(1);
    settings_initialize();
    here.shared->magic.store(layout_magic);
    return true;
}

enum class found { usable, fresh, stale, foreign };

bool any_process_alive()
{
    for (unsigned slot = 0; slot < max_processes; ++slot) {
        if ((here.shared->processes[slot].serial.load() != 0) &&
            (slot != here.slot) && process_alive(slot)) {
            return true;
        }
    }
    return false;
}

found examine_node()
{
    struct stat file;

    if ((fstat(here.fd, &file) != 0) || (file.st_size == 0)) {
        return found::fresh;
    }

    if ((size_t(file.st_size) != sizeof(node_shared_t)) || !map_node() ||
        (here.shared->magic.load() != layout_magic)) {
        /* A creator was killed half way, or another build made it. The flock
         * is ours, so nobody is creating it now. */
        return process_locks_any(here.fd) ? found::foreign : found::stale;
    }

    return any_process_alive() ? found::usable : found::stale;
}

/* One attempt; *again says that the file went away under the lock */
bool open_node(bool *again)
{
    bool made_directory = mkdir(here.directory->c_str(), 0700) == 0;

    if (made_directory) {
        mark_directory();
    }

    *again  = false;
    here.fd = open(node_path("node").c_str(), O_RDWR | O_CREAT | O_CLOEXEC,
                   0600);
    if (here.fd < 0) {
        /* the last process of the old node removes the directory */
        *again = made_directory || (errno == ENOENT &&
                                    access(here.directory->c_str(), F_OK) != 0);
        return false;
    }

    while ((flock(here.fd, LOCK_EX) != 0) && (errno == EINTR)) {
    }

    if (!lock_is_for_the_current_file()) {
        *again = true;
        close_node();
        return false;
    }

    switch (examine_node()) {
    case found::usable:
        settings_compare_environment();
        return true;
    case found::fresh:
        return create_control_block();
    case found::stale:
        remove_node();
        *again = true;
        break;
    case found::foreign:
        message("the node %s is in use by another build of the emulator",
                here.directory->c_str());
        break;
    }

    close_node();
    return false;
}

/* A holder of the lock has died: what is derived may be half changed */
void repair()
{
    allocations_repair();
    switches_repair();
}

bool join_locked()
{
    bool again;

    choose_directory();
    do {
        if (open_node(&again)) {
            break;
        }
        if (!again) {
            message("cannot use the node %s: %s", here.directory->c_str(),
                    strerror(errno));
            return false;
        }
    } while (true);

    {
        node_lock lock;

        processes_reap();
        here.slot = process_enter(here.fd);
    }
    flock(here.fd, LOCK_UN);

    if (here.slot == nobody) {
        message("the node %s has %u processes already",
                here.directory->c_str(), max_processes);
        close_node();
        return false;
    }

    here.member.store(membership::joined);
    return true;
}

} // namespace

bool node_join()
{
    if (here.member.load() != membership::outside) {
        return node_joined();
    }

    std::lock_guard<std::mutex> guard(join_mutex());
    static const int registered = pthread_atfork(nullptr, nullptr,
                                                 after_fork_in_child);

    (void)registered;
    return node_joined() || join_locked();
}

bool node_joined()
{
    return here.member.load() == membership::joined;
}

bool node_is_forked_child()
{
    return here.member.load() == membership::forked;
}

bool node_has_left()
{
    return here.member.load() == membership::left;
}

void node_leave()
{
    membership joined = membership::joined;

    if (!here.member.compare_exchange_strong(joined, membership::left)) {
        return;
    }

    while ((flock(here.fd, LOCK_EX) != 0) && (errno == EINTR)) {
    }

    {
        node_lock lock(true);

        process_remove(here.slot);
        processes_reap();
        if (!any_process_alive()) {
            remove_node();
        }
    }
    flock(here.fd, LOCK_UN);
    /* The descriptor is not closed: a thread of ours may still be inside a
     * call, and dropping the record lock early gains nothing. */
}

bool node_observe()
{
    choose_directory();
    here.fd = open(node_path("node").c_str(), O_RDWR | O_CLOEXEC);
    if (here.fd < 0) {
        return false;
    }

    if (examine_node() != found::usable) {
        close_node();
        return false;
    }
    return true;
}

node_shared_t *node_shared()
{
    return here.shared;
}

process_record *node_self()
{
    return &here.shared->processes[here.slot];
}

unsigned node_self_slot()
{
    return here.slot;
}

std::string node_path(const std::string &name)
{
    return *here.directory + "/" + name;
}

std::string node_memory_path(uint64_t allocation_id)
{
    return node_path("mem-" + std::to_string(allocation_id));
}

node_lock::node_lock(bool leaving)
{
    int error = pthread_mutex_lock(&here.shared->lock);

    if (error == EOWNERDEAD) {
        pthread_mutex_consistent(&here.shared->lock);
        repair();
    } else if (error != 0) {
        fatal("lock of the node: %s", strerror(error));
    }

    if (!leaving && (here.member.load() == membership::left)) {
        /* A thread that was inside of a call, perhaps a free that waits, while
         * the process left: the records that it knows are others' by now. The
         * process is about to end, and the thread with it. */
        pthread_mutex_unlock(&here.shared->lock);
        for (;;) {
            pause();
        }
    }
}

node_lock::~node_lock()
{
    pthread_mutex_unlock(&here.shared->lock);
}

int node_descriptor()
{
    return here.fd;
}

} // namespace emul
