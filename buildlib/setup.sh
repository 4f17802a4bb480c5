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
  --with-cuda=DIR        where the CUDA toolkit is (default: /usr/local/cuda,
                         else that of nvcc, else /usr); --without-cuda leaves
                         the CUDA part out, as does a machine without one
  --with-nvml=DIR        folder with include/nvml.h and lib/libnvidia-ml.so
                         (default: the toolkit's, else the distribution's
                         package, through apt)
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
    --with-rocm=*|--with-cuda=*|--without-cuda|--with-nvml=*)
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

# given ARG: the last value that option ARG of configure was given; fails if none
given()
{
    local arg value

    for arg in "${configure_args[@]}"; do
        case $arg in "$1="*) value=${arg#*=} ;; esac
    done
    [ -n "${value-}" ] && printf '%s\n' "$value"
}

# The CUDA toolkit that configure will take, or nothing. Where it looks is in
# config/m4/cuda_dir.m4.
cuda_toolkit()
{
    local dir nvcc
    local -a dirs

    [[ " ${configure_args[*]} " != *" --without-cuda "* ]] || return 0
    nvcc=$(readlink -f "$(command -v nvcc)" || true)
    dirs=(/usr/local/cuda ${nvcc:+"${nvcc%/*/*}"} /usr)
    case $(given --with-cuda || true) in
    no) return 0 ;;
    yes|"") ;;
    *) dirs=("$(given --with-cuda)") ;;
    esac

    for dir in "${dirs[@]}"; do
        if [ -f "$dir/include/cuda.h" ] &&
           [ -f "$dir/include/cuda_runtime.h" ]; then
            printf '%s\n' "$dir"
            return 0
        fi
    done
}

# Whether there is a CUDA toolkit, and no nvml.h for it
needs_nvml()
{
    local toolkit

    toolkit=$(cuda_toolkit)
    [ -n "$toolkit" ] && ! given --with-nvml >/dev/null &&
        [ ! -f "$build/nvml/include/nvml.h" ] &&
        [ ! -f "$toolkit/include/nvml.h" ] && [ ! -f /usr/include/nvml.h ]
}

# Without it the CUDA part is left out, or configure fails if a toolkit was named:
# it says so
fetch_nvml()
{
    step nvml "Fetching NVML, which UCX's CUDA transports use" \
        "$top/buildlib/nvml-fetch" "$build/nvml" || return 0
    rm -f "$build/.configured"
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
    ! needs_nvml || fetch_nvml
    if needs_autogen; then
        step autogen "Running autogen.sh" "$top/autogen.sh"
    fi
    key=$(printf '%s\n' "${configure_args[@]}" "toolkit: $(cuda_toolkit)")
    if [ ! -f "$build/Makefile" ] ||
       [ "$top/configure" -nt "$build/config.status" ] ||
       ! is_stamped "$build/.configured" "$key"; then
        rm -f "$build/.configured"
        step configure "Configuring" run_configure
        grep -h '^configure: the CUDA part is left out' "$log_dir/configure.log" |
            sed 's/^configure: /Note: /' || true
        stamp "$build/.configured" "$key"
    fi
}

build_interop()
{
    step interop "Building the interoperation test" \
        make -C "$build/test/apps" check
}

# build_all: what all commands need: UCX, the emulators, the demo
build_all()
{
    make -s -C "$build" ucx
    step emulators "Building the emulators" make -C "$build/test/emul"
    step demo "Building the demo" make -C "$build/test/apps"
}

# build_benchmarks: after build_all, the programs that measure
build_benchmarks()
{
    step bench-programs "Building the benchmarks" \
        make -C "$build/test/bench" programs
}

# build_tests: after build_all, all programs that test or measure
build_tests()
{
    make -s -C "$build" ucx-gtest
    step emulator-tests "Building the emulators' tests" \
        make -C "$build/test/emul" check TESTS=
    build_interop
    build_benchmarks
}
