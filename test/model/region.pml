/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

/*
 * The life of a region, for SPIN: ipc_region.h and ipc_cache.c of
 * src/uct/base/ipc, and rocm_ipc_channel.c, rocm_ipc_region.c, rocm_ipc_cache.c
 * and rocm_ipc_rkey.c of src/uct/rocm/ipc. The names are those of the code,
 * less their prefixes; what only the model knows is marked as ghost.
 * test/model/run says which options are checked.
 *
 * Must hold in every state that can be reached:
 *
 *  - A mapping is detached once, and nobody uses it after that.
 *  - Who uses the key of memory that was allocated again at the same address
 *    gets its mapping and not the former one. An operation fails only if the
 *    owner has freed the memory of its key.
 *  - A signal is not read, armed or destroyed after it was destroyed, and not
 *    destroyed while a handler is armed on it. A channel has one handler.
 *  - A record, of a region or of a channel, is not accessed after it was freed.
 *    When that of a region is freed, the region is unmapped, out of the table,
 *    and has let go of its channel.
 *
 * Where nothing can happen any more: all threads have come to their ends, the
 * owner's frees have finished, and all mappings, signals and records are gone.
 * In every run in which no thread rests for ever while it can go on (weak
 * fairness): the owner's frees finish.
 *
 * The threads are two importers, which can share a key; one which evicts,
 * without a free; the runtime's, which calls the handlers; the watcher; and the
 * owner, another process. SPIN interleaves them in every possible way: a
 * handler is late by any time.
 *
 * What is left out, and why nothing is lost by it:
 *
 *  - An atomic operation of the code is a step, and so is a call of the
 *    runtime, and a read or write that another thread can tell. A loop of
 *    compare-and-swap is one step: a swap succeeds on the present value only,
 *    and what else the loaded value decides, "dead", is for ever.
 *  - What is done under a lock is one step: nobody waits for anything there.
 *    What others do meanwhile, without the lock, decides it at one moment: when
 *    the word changes, or is found dead, which is for ever.
 *  - Reading that a signal says "freed" is one step with what comes next: it
 *    says so for ever.
 *  - The use of a mapping is one step with its unpin: what is detached is never
 *    mapped again.
 *  - A detach, and giving up a reference, are one step with what the thread has
 *    done before: what another thread does between these, it could as well do
 *    after. Nobody but the owner waits for either, and he waits for all.
 *  - Steps are sequentially consistent. Whether the memory orders in the code
 *    suffice is for ThreadSanitizer and the comments there.
 *  - All regions are at one address, so that the table has one entry. Regions
 *    which do not overlap share the locks and nothing else.
 *  - A record that is being attached begins to exist when it is inserted, or
 *    listed: before that nobody else can reach it. No number of a record is
 *    used again, so that a late access finds a freed record, not the next one.
 *  - The runtime has one object for all that attach the same signal, and counts
 *    them. Here a channel may use its own attachment only, which is stricter.
 *  - Closing the last endpoint to a peer, and bounds of the cache, take some
 *    regions: at that moment the region goes by any eviction, or nothing does.
 *  - uct_rkey_ptr() pins like an operation that takes long. With
 *    CACHE_IPC_HANDLES=n a region has one user. What cannot be allocated,
 *    attached or listed was not seen by anybody else, like what was freed.
 *  - An attach to memory that is gone fails here. That it can block in some
 *    runtimes is why the signal is looked at before; see rocm_ipc_region.h.
 *  - The owner does not die: then the watcher claims as if it had read the
 *    signal, and writes the signal, whose handlers come as after a free.
 *  - The watcher lets a dead region go at any time, pinned or not. One that was
 *    dead before it was added is not added: it would only be let go.
 *
 * Options:
 *
 *   OPS1, OPS2      number of operations of each importer by a key of memory 1
 *   REUSE           memory 2 is allocated at the address of memory 1 ...
 *   REUSE1, REUSE2  ... and that many operations use its key
 *   SAME_BYTES      its key and that of memory 1 cannot be told apart, nor can
 *                   the handles of their signals
 *   FREE_RETURNS    a free returns at once, and the memory stays charged until
 *                   it is detached, instead of waiting for that
 *   FREE_LAST       the owner frees after all operations
 *   REFUSE          the runtime may refuse to arm a handler, each time
 *   ALWAYS_REFUSE   it does
 *   NO_EVICTION     nothing is evicted
 *   CLOSE           after all operations the importers' process detaches all
 *   WATCH=n         there is a watcher, which looks at the signal n times at
 *                   any moment, and whenever there is something to see
 *   WATCH_FOREVER   it looks all the time
 *   DROP_...        one rule is not kept, which SPIN must notice
 */

#ifndef REUSE
#define REUSE1 0
#define REUSE2 0
#endif

/* More are never inserted or listed, which is checked */
#define RECORDS  4
#define CHANNELS 5

#define NONE 0

/* What is left to do after a claim. Who has claimed always tries to unlink. */
#define TODO_CHANNEL 1
#define TODO_DETACH  2
#define TODO_PUT     4

typedef region_t {
    bit      exists;           /* Ghost: the record is allocated */
    unsigned pins : 3;         /* The word: pins, ... */
    bit      dead;             /* ... and DEAD */
    unsigned refcount : 4;
    bit      owner_freed;
    unsigned key : 2;          /* Bytes of the key it was attached by */
    unsigned memory : 2;       /* Ghost: memory which is mapped */
    bit      mapped;           /* Ghost: it is attached */
    unsigned channel : 3;      /* Or NONE, after it was released */
    bit      watched           /* The watcher has it, with a reference */
}

/* The signal is attached for as long as the record exists */
typedef channel_t {
    bit      exists;           /* Ghost: the record is allocated */
    unsigned handle : 2;       /* Bytes of the key */
    unsigned signal : 2;       /* Memory whose signal it is */
    unsigned refcount : 3;
    bit      is_armed;
    unsigned region : 3;       /* Which the handler claims, or NONE */
    bit      armed             /* The runtime is to call the handler */
}

typedef rkey_t {
    byte     region;            /* Region used last, or NONE */
    byte     past[RECORDS + 1]; /* Number of times in the list of former ones */
    unsigned users : 2          /* Ghost: importers which still use the key */
}

/* Importers */
region_t  regions[RECORDS + 1];
channel_t channels[CHANNELS + 1];
rkey_t    rkeys[3];        /* Of memory 1 and of memory 2 */
byte      table;           /* Region in the table, or NONE */
byte      listed[3];       /* Channel that is found by a handle, or NONE */
byte      inserted;        /* Ghost: regions which were given a number, ... */
byte      created;         /* ... and channels */
byte      records;         /* Ghost: records of regions which exist */
byte      signals;         /* Ghost: signals which are attached */
byte      importers_ended;
byte      threads_ended;   /* Those that end at all */

/* Owner: memory 1, and after it memory 2 at the same address */
byte     current = 1;      /* The last one that was allocated */
bit      same_bytes;       /* Both have the same key */
bit      alive[3];         /* Value of the signal */
bit      attachable[3];    /* Not freed, or the free still waits */
byte     mappings[3];      /* Ghost: how often it is attached */
bit      free_finished;    /* Ghost: the owner has all its memory back */

/* Used within a step */
hidden byte replaced, released;

/* Bytes of the key of a memory, and the memory that is attached by them */
#define bytes_of_key(m)  (same_bytes -> 1 : (m))
#define found_by_key(m)  (same_bytes && current == 2 -> 2 : (m))

#define access(r)          assert(regions[r].exists)
#define access_channel(c)  assert(channels[c].exists)

/* Of the channel's signal, to which the caller has access */
#define is_alive(c)  alive[channels[c].signal]


/*
 * The word: ipc_region.h. An inline that is named by an outcome belongs into
 * the step that begins with the condition of this outcome.
 */

inline pinned(r)
{
    access(r);
    regions[r].pins++
}

inline not_pinned(r)
{
    access(r)
#ifdef DROP_PIN_COMPARES
    ;
    regions[r].pins++;
    unpin(r)
#endif
}

inline claimed(r, todo)
{
#ifndef DROP_CLAIM_ONCE
    !regions[r].dead;
#endif
    access(r);
    regions[r].dead = 1;
    todo = TODO_CHANNEL | (regions[r].pins -> 0 : TODO_DETACH)
}

#ifdef DROP_CLAIM_ONCE
#define claimed_before(r)  false
#else
#define claimed_before(r)  regions[r].dead; access(r)
#endif


/*
 * References and pins, as parts of a step: ipc_region.h, ipc_cache.h
 */

inline add_reference(r)
{
    access(r);
    regions[r].refcount++
}

inline drop_reference(r)
{
    access(r);
    assert(regions[r].refcount > 0);
    regions[r].refcount--;
    if
    :: regions[r].refcount == 0 ->
        assert(!regions[r].mapped);
        assert(table != r);
        assert(!regions[r].channel);
        regions[r].exists      = 0;
        regions[r].dead        = 0;
        regions[r].owner_freed = 0;
        regions[r].key         = 0;
        regions[r].memory      = 0;
        records--
    :: else
    fi
}

inline detach(r)
{
    access(r);
    assert(regions[r].mapped);
    regions[r].mapped = 0;
    mappings[regions[r].memory]--;
#ifndef DROP_MAPPING_REFERENCE
    drop_reference(r)
#endif
}

inline unpin(r)
{
    access(r);
    assert(regions[r].pins > 0);
    regions[r].pins--;
    if
    :: regions[r].dead && regions[r].pins == 0 -> detach(r)
    :: else
    fi
}


/*
 * Channels: rocm_ipc_channel.c. First what is part of a step.
 */

inline channel_unlist(c)
{
    access_channel(c);
    if
    :: listed[channels[c].handle] == c -> listed[channels[c].handle] = NONE
    :: else
    fi
}

inline channel_clear_region(c)
{
    access_channel(c);
    replaced           = channels[c].region;
    channels[c].region = NONE;
    if
    :: replaced != NONE -> drop_reference(replaced)
    :: else
    fi
}

/* Adds a reference of the region */
inline channel_set_region(c, r)
{
    access(r);
    if
#ifndef DROP_DEAD_IS_NOT_SET
    :: regions[r].dead
#endif
#ifdef DROP_REGION_IS_REPLACED
    :: channels[c].region != NONE
#endif
    :: else ->
        channel_clear_region(c);
        channels[c].region = r;
#ifndef DROP_CHANNEL_REFERS_REGION
        add_reference(r)
#endif
    fi
}

inline channel_put(c)
{
    access_channel(c);
    assert(channels[c].refcount > 0);
    channels[c].refcount--;
    if
    :: channels[c].refcount == 0 ->
        channel_unlist(c);
#ifndef DROP_LAST_PUT_LETS_REGION_GO
        channel_clear_region(c);
#endif
        assert(!channels[c].armed);
        signals--;
        channels[c].exists   = 0;
        channels[c].handle   = 0;
        channels[c].signal   = 0;
        channels[c].is_armed = 0;
        channels[c].region   = NONE
    :: else
    fi
}

inline channel_release(r)
{
    access(r);
    released           = regions[r].channel;
    regions[r].channel = NONE;
    if
    :: released != NONE -> channel_put(released)
    :: else
    fi
}

/* c: the region's channel, or NONE after it was released */
inline region_get_channel(r, c)
{
#ifdef DROP_REFERENCE_UNDER_LOCK
    d_step {
        access(r);
        c = regions[r].channel
    }
#endif
    d_step {
#ifndef DROP_REFERENCE_UNDER_LOCK
        access(r);
        c = regions[r].channel;
#endif
        if
        :: c != NONE ->
            access_channel(c);
            channels[c].refcount++
        :: else
        fi
    }
}

/* signal, c: what is attached, or 0 */
inline channel_create(c, m)
{
    d_step {
        signal  = (alive[found_by_key(m)] -> found_by_key(m) : 0);
        signals = signals + (signal != 0)
    }
    if
    :: d_step {
            signal != 0;
            created++;
            assert(created <= CHANNELS);
            c                    = created;
            channels[c].exists   = 1;
            channels[c].refcount = 1;
            channels[c].handle   = bytes_of_key(m);
            channels[c].signal   = signal;
            signal               = 0;
            if
            :: listed[channels[c].handle] == NONE ->
                listed[channels[c].handle] = c
            :: else
            fi
        }
    :: signal == 0
    fi
}

/* c: with a reference, or NONE if the memory was freed */
inline channel_get(c, m)
{
    d_step {
        c = listed[bytes_of_key(m)];
        if
        :: c != NONE ->
            access_channel(c);
            channels[c].refcount++
        :: else
        fi
    }
#ifndef DROP_LISTED_IS_ALIVE
    if
    :: d_step { c != NONE && is_alive(c); access_channel(c) }
    :: d_step {
            c != NONE && !is_alive(c);
            channel_unlist(c);
            channel_put(c);
            c = NONE
        }
    :: c == NONE
    fi;
#endif
    if
    :: c == NONE -> channel_create(c, m)
    :: else
    fi
}

inline channel_arm(c, r)
{
    d_step { access_channel(c); channel_set_region(c, r) }
    if
#ifndef DROP_ARM_ONCE
    :: d_step { channels[c].is_armed; access_channel(c) }
#endif
    :: d_step {
#ifndef DROP_ARM_ONCE
            !channels[c].is_armed;
#endif
            access_channel(c);
            channels[c].is_armed = 1
#ifndef DROP_HANDLER_REFERENCE
            ;
            channels[c].refcount++
#endif
        }
        if
#ifndef ALWAYS_REFUSE
        :: d_step {
                access_channel(c);
                assert(!channels[c].armed);
                channels[c].armed = 1
            }
#endif
#if defined(REFUSE) || defined(ALWAYS_REFUSE)
        :: d_step {
                access_channel(c);
                channels[c].is_armed = 0
            }
            d_step {
                if
                :: channels[c].region == r -> channel_clear_region(c)
                :: else
                fi;
                channel_put(c)
            }
#endif
        fi
    fi
}

/* c: armed no more. The runtime has its own reference to the signal while it
 * calls this. */
inline channel_handler(c, r)
{
    d_step {
        access_channel(c);
        r                  = channels[c].region;
        channels[c].region = NONE;
        channel_unlist(c)
    }
    if
    :: r != NONE ->
        d_step { set_owner_freed(r) };
        cache_claim(r)
    :: else
    fi;
    d_step {
        if
        :: r != NONE -> drop_reference(r)
        :: else
        fi;
#ifndef DROP_HANDLER_REFERENCE
        channel_put(c);
#endif
        r = NONE;
        c = NONE
    }
}


/*
 * The cache: ipc_cache.c
 */
inline unlink(r, todo)
{
    access(r);
    if
#ifndef DROP_UNLINK_ONCE
    :: table != r
#endif
    :: else ->
        assert(table == r);
        table = NONE;
        todo  = todo | TODO_PUT
    fi
}

inline match(r, m)
{
    r = (table != NONE && regions[table].key == bytes_of_key(m) -> table : NONE)
}

inline cache_finish(r, todo)
{
    d_step {
        if
#ifndef DROP_CLAIM_RELEASES
        :: todo & TODO_CHANNEL -> channel_release(r)
#endif
        :: else
        fi;
        if
        :: todo & TODO_DETACH -> detach(r)
        :: else
        fi;
        if
        :: todo & TODO_PUT -> drop_reference(r)
        :: else
        fi;
        todo = 0
    }
}

inline cache_claim(r)
{
    if
    :: d_step { claimed(r, todo) };
        d_step { unlink(r, todo) }
        cache_finish(r, todo)
    :: d_step { claimed_before(r) }
    fi
}

/* Under the write lock, as part of a step */
inline cache_take(r, todo)
{
    if
    :: regions[r].dead -> access(r)
    :: else            -> claimed(r, todo)
    fi;
    unlink(r, todo)
}

/* r: pinned and referenced, or NONE */
inline cache_find(r, m)
{
    d_step {
        match(r, m);
        if
        :: r != NONE && !regions[r].dead ->
            pinned(r);
            add_reference(r)
        :: r != NONE && regions[r].dead ->
            not_pinned(r);
            r = NONE
        :: else
        fi
    }
}

/* The region that was attached becomes r. Its references are those of the
 * mapping, the table, and the caller. */
inline link_region(r, m)
{
    inserted++;
    records++;
    assert(inserted <= RECORDS);
    r                   = inserted;
    table               = r;
    regions[r].exists   = 1;
    regions[r].pins     = 1;
    regions[r].key      = bytes_of_key(m);
    regions[r].memory   = memory;
    regions[r].mapped   = 1;
    regions[r].channel  = c;
#ifdef DROP_MAPPING_REFERENCE
    regions[r].refcount = 2;
#else
    regions[r].refcount = 3;
#endif
    memory = 0;
    c      = NONE
}

/* r: the region that was attached, or that which another thread has inserted
 * meanwhile, pinned and referenced */
inline cache_insert(r, m, is_new)
{
    d_step {
        match(r, m);
        if
        :: r != NONE && !regions[r].dead ->
            pinned(r);
            add_reference(r);
            attach_undo()
        :: else ->
            if
            :: r != NONE -> not_pinned(r)
            :: else
            fi;
            taken = table;
            if
            :: taken != NONE -> cache_take(taken, todo)
            :: else
            fi;
            link_region(r, m);
            is_new = 1
        fi
    }
    if
    :: taken != NONE ->
        cache_finish(taken, todo);
        taken = NONE
    :: else
    fi
}

/* Claim the region in the table */
inline cache_purge(r)
{
    d_step {
        r = table;
        if
        :: r != NONE -> cache_take(r, todo)
        :: else
        fi
    }
    if
    :: r != NONE ->
        cache_finish(r, todo);
        r = NONE
    :: else
    fi
}


/*
 * Regions: rocm_ipc_region.c
 */

/* Part of a step */
inline set_owner_freed(r)
{
    access(r);
    regions[r].owner_freed = 1
}

/* c: the region's channel, or NONE */
inline region_look(r, c)
{
    if
    :: d_step { c != NONE && is_alive(c); channel_put(c); c = NONE }
    :: d_step {
            c != NONE && !is_alive(c);
            access_channel(c);
            set_owner_freed(r)
        }
        cache_claim(r);
        d_step { channel_put(c); c = NONE }
    :: c == NONE
    fi
}

inline region_check(r, c)
{
    region_get_channel(r, c);
    region_look(r, c)
}

/* Part of a step: give back what was attached and is nobody else's */
inline attach_undo()
{
    if
    :: memory -> mappings[memory]--
    :: else
    fi;
    channel_put(c);
    c      = NONE;
    memory = 0
}

/* c, memory: what is attached, or 0 */
inline region_attach(m)
{
    channel_get(c, m);
    if
    :: d_step {
            c != NONE && attachable[found_by_key(m)];
            memory = found_by_key(m);
            mappings[memory]++
        }
        if
        :: d_step { is_alive(c); access_channel(c) }
        :: d_step { !is_alive(c); access_channel(c); attach_undo() }
        fi
    :: d_step { c != NONE && !attachable[found_by_key(m)]; attach_undo() }
    :: c == NONE
    fi
}


/*
 * The cache of this transport: rocm_ipc_cache.c
 */

inline cache_watch(r)
{
    region_get_channel(r, c);
    if
    :: c != NONE ->
        channel_arm(c, r);
        d_step {
            channel_put(c);
#ifdef WATCH
            add_reference(r);
            regions[r].watched = 1;
#endif
            c = NONE
        }
    :: else
    fi
}

/* r: pinned and referenced, or NONE */
inline cache_import(r, m)
{
    region_attach(m);
    if
    :: c != NONE ->
        cache_insert(r, m, is_new);
        if
        :: is_new ->
            is_new = 0;
            cache_watch(r)
        :: else
        fi
    :: else
    fi
}

/* r: pinned and referenced, may be dead; or NONE if the memory was freed */
inline cache_get(r, m)
{
    cache_find(r, m);
    if
    :: r == NONE -> cache_import(r, m)
    :: else
    fi
#ifndef DROP_LOOK_AFTER_ARMING
    ;
    if
    :: r != NONE -> region_check(r, c)
    :: else
    fi
#endif
}


/*
 * Remote keys: rocm_ipc_rkey.c, rocm_ipc_rkey.h
 */

/* Takes over a reference */
inline rkey_remember(k, r)
{
    if
    :: d_step { rkeys[k].region == NONE; rkeys[k].region = r }
    :: d_step { rkeys[k].region == r;    drop_reference(r) }
    :: d_step { rkeys[k].region != NONE && rkeys[k].region != r };
        d_step {
            old             = rkeys[k].region;
            rkeys[k].region = r;
#ifdef DROP_PAST_REGIONS
            drop_reference(old);
#else
            rkeys[k].past[old]++;
#endif
            old = NONE
        }
    fi
}

/* r: pinned, or NONE if the memory was freed */
inline rkey_pin(k, r)
{
    r = rkeys[k].region;
    if
    :: d_step { r != NONE && !regions[r].dead; pinned(r) }
    :: d_step {
            r == NONE || regions[r].dead;
            if
            :: r != NONE -> not_pinned(r)
            :: else
            fi
        }
        rkey_pin_slow(k, r)
    fi
}

inline rkey_pin_slow(k, r)
{
    r = rkeys[k].region;
    if
    :: d_step {
            r != NONE && regions[r].owner_freed;
            access(r);
            assert(!alive[k]);
            r = NONE
        }
    :: d_step {
            r == NONE || !regions[r].owner_freed;
            if
            :: r != NONE -> access(r)
            :: else
            fi
        }
        rkey_find_region(k, r)
    fi
}

inline rkey_find_region(k, r)
{
    do
    :: true ->
        cache_get(r, k);
        if
        :: d_step { r == NONE; assert(!alive[k]) };
            break
#ifdef DROP_DEAD_IS_NOT_USED
        :: r != NONE ->
            rkey_remember(k, r);
            break
#else
        :: d_step { r != NONE && !regions[r].dead; access(r) };
            rkey_remember(k, r);
            break
        :: d_step {
                r != NONE && regions[r].dead;
                unpin(r);
                drop_reference(r);
                r = NONE
            }
#endif
        fi
    od
}

/* The last user destroys the key */
inline rkey_release(k)
{
    d_step {
        rkeys[k].users--;
        if
        :: rkeys[k].users == 0 ->
            old             = rkeys[k].region;
            rkeys[k].region = NONE;
            if
            :: old != NONE -> drop_reference(old)
            :: else
            fi;
            old = 1;
            do
            :: old <= RECORDS ->
                if
                :: rkeys[k].past[old] ->
                    rkeys[k].past[old]--;
                    drop_reference(old)
                :: else -> old++
                fi
            :: else -> break
            od;
            old = NONE
        :: else
        fi
    }
}


/*
 * The threads
 */

/* An operation on memory m. Importer 0 lets go of the key before its last
 * operation has ended, importer 1 after it. */
inline operation(m, is_last)
{
    rkey_pin(m, r);
    if
    :: (is_last) && !id -> rkey_release(m)
    :: else
    fi;
    if
    :: r != NONE ->
        d_step {
            assert(regions[r].mapped);
            assert(m == 1 || regions[r].memory == 2);
            unpin(r);
            r = NONE
        }
    :: else
    fi;
    if
    :: (is_last) && id -> rkey_release(m)
    :: else
    fi
}

inline operations(m, count)
{
    n = count;
    do
    :: n > 0 ->
        operation(m, n == 1);
        n--
    :: else -> break
    od
}

proctype importer(bit id)
{
    byte r, c, taken, old, todo, memory, signal, n;
    bit  is_new;

    operations(1, (id -> OPS2 : OPS1));
#ifdef REUSE
    current == 2;
    operations(2, (id -> REUSE2 : REUSE1));
#endif
    importers_ended++;
    threads_ended++
}

/* Connections come and go; in the end the memory domain may be closed */
proctype evictor()
{
    byte r, todo;

#ifndef NO_EVICTION
    cache_purge(r);
#endif
#ifdef CLOSE
    importers_ended == 2;
    cache_purge(r);
#endif
    threads_ended++
}

#define must_call(n)  (channels[n].armed && !is_alive(n))

/* The runtime has one thread for all handlers. Each is called once. */
proctype handlers()
{
    byte r, c, todo;

end:
    do
    :: atomic {
           if
           :: must_call(1) -> c = 1
           :: must_call(2) -> c = 2
           :: must_call(3) -> c = 3
           :: must_call(4) -> c = 4
           :: must_call(5) -> c = 5
           fi;
           channels[c].armed = 0
       }
       channel_handler(c, r)
    od
}

#ifdef WATCH
#define can_look(n)  (regions[n].watched && \
                      (looks > 0 || regions[n].dead || \
                       !is_alive(regions[n].channel)))

/* Only one region at a time is not dead, since all are at one address; so that
 * each is looked at again and again, in whatever order */
proctype watcher()
{
    byte r, c, todo, looks = WATCH;

end:
    do
    :: atomic {
           if
           :: can_look(1) -> r = 1
           :: can_look(2) -> r = 2
           :: can_look(3) -> r = 3
           :: can_look(4) -> r = 4
           fi;
           access(r);
           if
           :: regions[r].dead ->
               regions[r].watched = 0;
               drop_reference(r);
               r = NONE
           :: else ->
#ifndef WATCH_FOREVER
               looks = looks - (looks > 0 -> 1 : 0);
#endif
               region_get_channel(r, c)
           fi
       }
       region_look(r, c);
       r = NONE
    od
}
#endif

inline free(m)
{
    alive[m] = 0;
#ifdef FREE_RETURNS
    attachable[m] = 0
#else
    d_step {
        mappings[m] == 0;
        attachable[m] = 0
    }
#endif
}

proctype owner()
{
#ifdef FREE_LAST
    importers_ended == 2;
#endif
    free(1);
#ifdef REUSE
    d_step {
        current       = 2;
#ifdef SAME_BYTES
        same_bytes    = 1;
#endif
        alive[2]      = 1;
        attachable[2] = 1
    }
    free(2);
#endif
    mappings[1] == 0 && mappings[2] == 0;
    d_step {
        free_finished = 1;
        threads_ended++
    }
}

init
{
    d_step {
        alive[1]       = 1;
        attachable[1]  = 1;
        rkeys[1].users = (OPS1 > 0 -> 1 : 0) + (OPS2 > 0 -> 1 : 0);
        rkeys[2].users = (REUSE1 > 0 -> 1 : 0) + (REUSE2 > 0 -> 1 : 0)
    }
    atomic {
        run importer(0);
        run importer(1);
        run evictor();
        run handlers();
#ifdef WATCH
        run watcher();
#endif
        run owner()
    }

    /* Nothing more can happen */
    timeout;
    assert(free_finished);
    assert(threads_ended == 4);
    assert(signals == 0);
    assert(records == 0)
}

ltl frees_finish { <> free_finished }
