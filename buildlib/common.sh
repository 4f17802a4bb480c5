# shellcheck shell=bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
#
# Shared by the scripts of buildlib/ and contrib/: messages, steps with a log
# each, the lock on a build folder, free disk space, ccache. Sourced, never run.
# The caller sets $log_dir before its first step.

say()
{
    printf '%s\n' "$*"
}

die()
{
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# disk_free_mib DIR: free space for DIR, or for its nearest parent that exists
disk_free_mib()
{
    local dir=$1

    while [ ! -d "$dir" ]; do
        dir=$(dirname "$dir")
    done
    df --output=avail -k "$dir" | awk 'NR == 2 { print int($1 / 1024) }'
}

# need_disk DIR MIB WHAT: stop early and clearly rather than half way
need_disk()
{
    local dir=$1 mib=$2 what=$3 free

    free=$(disk_free_mib "$dir")
    [ "$free" -ge "$mib" ] ||
        die "$what needs $mib MiB of disk space, and $dir has $free MiB left." \
            "Free some, then run the same command again."
}

# disk_is_full DIR: whether a megabyte more can be written there. What the file
# system says to be free is not asked: it may be for others.
disk_is_full()
{
    local probe=$1/.probe full=1

    head -c 1048576 /dev/zero >"$probe" 2>/dev/null || full=0
    rm -f "$probe"
    return "$full"
}

# A log does not always say why a tool failed, least of all one on a full disk
explain_failure()
{
    local log=$1

    if grep -q 'No space left on device' "$log" 2>/dev/null ||
       disk_is_full "$(dirname "$log")"; then
        say "The disk is full: free some space, then run the same command" \
            "again; it goes on from here."
    fi
}

# step NAME WHAT COMMAND...: run COMMAND with its output in $log_dir/NAME.log.
# One line says what is going on, and ends with the seconds that it took.
step()
{
    local what=$2 log=${log_dir:?}/$1.log start=$SECONDS rc=0

    shift 2
    printf '%s ... ' "$what"
    if ! { mkdir -p "${log%/*}" && : >"$log"; } 2>/dev/null; then
        say "failed"
        die "cannot write the log $log: disk full, or no permission"
    fi

    # The lock belongs to this script: what a step leaves running must not
    # keep it.
    "$@" >"$log" 2>&1 </dev/null 9>&- || rc=$?
    if [ "$rc" -eq 0 ]; then
        say "$((SECONDS - start)) s"
        return 0
    fi

    say "failed after $((SECONDS - start)) s"
    say "--- last lines of $log"
    tail -n 25 "$log"
    say "---"
    explain_failure "$log"
    say "The whole log: $log"
    return "$rc"
}

# lock_dir DIR: hold the only right to work in DIR until this script ends. A
# script that was started by the holder goes on under the holder's lock.
lock_dir()
{
    local dir=$1

    [ "${BUILD_LOCK_HELD:-}" != "$dir" ] || return 0
    mkdir -p "$dir" || die "cannot create $dir"
    exec 9>>"$dir/.lock" || die "cannot write to $dir"
    if ! flock -n 9; then
        say "Another run works in $dir; waiting until it is done."
        flock 9
    fi
    export BUILD_LOCK_HELD=$dir
}

# is_stamped STAMP KEY: whether the stage was completed with this very KEY
is_stamped()
{
    [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}

# stamp STAMP KEY: appears whole or not at all, whenever we are killed
stamp()
{
    mkdir -p "$(dirname "$1")"
    printf '%s\n' "$2" >"$1.new"
    mv "$1.new" "$1"
}

# use_ccache FOLDER BASE: keep what is compiled in FOLDER, for what is compiled again;
# names below BASE do not count. Sets $cached, what is before a compiler's name then:
# nothing where there is no ccache.
use_ccache()
{
    cached=
    # shellcheck disable=SC2034 # whoever compiles uses it
    ! command -v ccache >/dev/null || cached="ccache "
    export CCACHE_DIR=$1 CCACHE_BASEDIR=$2 CCACHE_NOHASHDIR=1
}
