# shellcheck shell=bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
#
# What the commands in contrib/ do before their own work. Sourced, never run;
# the caller has set $top, the project's top folder.

: "${top:?}"
# shellcheck source=buildlib/common.sh
. "$top/buildlib/common.sh"
# shellcheck source=buildlib/packages.sh
. "$top/buildlib/packages.sh"

# shellcheck disable=SC2034 # the commands use it
# The options that all commands share, for their --help
setup_usage="  --with-ucx-source=DIR  UCX's source tree, a git checkout or an unpacked
                         release; it is copied, never changed (default: the
                         distribution's source package, through apt)
  --with-rocm=DIR        where ROCm is (default: /opt/rocm, else /usr)
  --help                 show this text"

configure_args=()
ucx_source=
build=$top/build

# setup_option ARG: true if ARG is one of the shared options
setup_option()
{
    case $1 in
    --with-ucx-source=*)
        ucx_source=${1#*=}
        [ -d "$ucx_source" ] || die "--with-ucx-source: no folder '$ucx_source'"
        ucx_source=$(cd "$ucx_source" && pwd)
        configure_args+=("--with-ucx-source=$ucx_source")
        ;;
    --with-rocm=*)
        configure_args+=("$1")
        ;;
    *)
        return 1
        ;;
    esac
}

# With AMD's own ROCm, or another one that was named, Debian's is not needed
rocm_group()
{
    if [ ! -f /opt/rocm/include/hsa/hsa.h ] &&
       [[ " ${configure_args[*]} " != *" --with-rocm="* ]]; then
        echo rocm
    fi
}

# The package that the source comes from is only needed for that
fetch_group()
{
    [ -n "$ucx_source" ] || echo fetch
}

needs_autogen()
{
    local file

    [ -f "$top/configure" ] && [ -f "$top/Makefile.in" ] || return 0
    for file in "$top/configure.ac" "$top"/config/m4/*.m4 \
                "$top"/Makefile.am "$top"/test/*/Makefile.am; do
        [ ! "$file" -nt "$top/configure" ] || return 0
    done
    return 1
}

# configure asks the same, and would say it after much else
check_ucx_source()
{
    "$top/buildlib/overlay" check "$top" "$ucx_source" >/dev/null ||
        die "--with-ucx-source=$ucx_source cannot be used"
}

run_configure()
{
    cd "$build" && "$top/configure" "${configure_args[@]}"
}

# setup GROUP...: install what is missing, for building and for GROUPs; hold the
# lock on the build folder; have it configured
setup()
{
    local key

    # shellcheck disable=SC2034 # step uses it
    log_dir=$build/logs
    lock_dir "$build"

    # shellcheck disable=SC2046 # a group that is not needed is no word
    install_packages "$top/buildlib/packages" build "$@" \
        $(fetch_group) $(rocm_group)
    # configure may have missed what is there now
    [ "$packages_installed" = no ] || rm -f "$build/.configured"

    [ -z "$ucx_source" ] || check_ucx_source
    if needs_autogen; then
        step autogen "Running autogen.sh" "$top/autogen.sh"
    fi
    key=$(printf '%s\n' "${configure_args[@]}")
    if [ ! -f "$build/Makefile" ] ||
       [ "$top/configure" -nt "$build/config.status" ] ||
       ! is_stamped "$build/.configured" "$key"; then
        rm -f "$build/.configured"
        step configure "Configuring" run_configure
        stamp "$build/.configured" "$key"
    fi
}

# build_all: what both commands need: UCX, the emulators, the demo
build_all()
{
    make -s -C "$build" ucx
    step emulators "Building the emulators" make -C "$build/test/emul"
    step demo "Building the demo" make -C "$build/test/apps"
}
