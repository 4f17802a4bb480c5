#!/bin/bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.

set -euo pipefail

top=$(dirname "$(dirname "$(readlink -f "$0")")")
# shellcheck source=buildlib/setup.sh
. "$top/buildlib/setup.sh"

usage()
{
    cat <<USAGE
usage: contrib/versions.sh [OPTION...] DIR...

Try the patch set on several UCX source trees, git checkouts or unpacked releases,
which are not changed. For each it is said whether the patch set applies, builds
without a warning, passes its tests, and comes as a series for 'git am'. A tree
that fails does not keep the others from being tried. The exit status is zero if
there was no failure at all.

Each tree has a folder in build/versions. What was found there is not done again
unless something has changed or it had failed, and what was interrupted goes on.

  --suites LIST          which suites of tests: "lifetime cuda" (the default), and
                         others of buildlib/run-suites, as "ucx ucx_cuda", UCX's
                         own, which take long to build; "" for none
  --stress SECONDS       how long the random schedules run (default: 60)
  --build-steps          build each commit of the series as well
  --interop              let the oldest and the newest of these versions share
                         memory with each other, stock and patched
  --rst FILE             write the table for the documentation, too
  --with-rocm=DIR, --with-cuda=DIR, --without-cuda, --with-nvml=DIR
                         as for contrib/check.sh
  --help                 show this text
USAGE
}

args=()
trees=()
while [ $# -gt 0 ]; do
    case $1 in
    --suites|--rst|--stress)
        [ $# -gt 1 ] || die "$1 needs a value"
        args+=("$1" "$2")
        shift
        ;;
    --build-steps|--interop) args+=("$1") ;;
    --help|-h) usage; exit 0 ;;
    --with-ucx-source=*) die "trees are given without --with-ucx-source" ;;
    -*) setup_option "$1" || { usage >&2; die "no option $1"; } ;;
    *)
        [ -d "$1" ] || die "no folder '$1'"
        trees+=("$(cd "$1" && pwd)")
        ;;
    esac
    shift
done
[ ${#trees[@]} -gt 0 ] || { usage >&2; die "no DIR was given"; }
"$top/buildlib/versions.py" --check "${args[@]}" "$top" "${trees[@]}"

# What all trees need, once
prepare()
{
    log_dir=$build/logs
    lock_dir "$build"
    # shellcheck disable=SC2046 # a group that is not needed is no word
    install_packages "$top/buildlib/packages" build check series $(rocm_group)
    ! needs_nvml || fetch_nvml
    if needs_autogen; then
        step autogen "Running autogen.sh" "$top/autogen.sh"
    fi
}

(prepare)
if [ -f "$build/nvml/include/nvml.h" ] && ! given --with-nvml >/dev/null; then
    configure_args+=("--with-nvml=$build/nvml")
fi
exec "$top/buildlib/versions.py" "${args[@]}" "$top" "${trees[@]}" -- \
    "${configure_args[@]}"
