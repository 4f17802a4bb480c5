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
usage: contrib/check.sh [OPTION...]

Run the whole test suite, on the emulated ROCm and CUDA runtimes. Installs what
is missing and builds in build/ first. The last line is 'N passed, N failed, N
skipped'; the exit status is zero if something passed and nothing failed.

  --asan                 everything with AddressSanitizer, in build/asan
  --tsan                 the tests with two processes and the emulators' with
                         ThreadSanitizer, in build/tsan
  --stress SECONDS       how long the random schedules run (default: 60)
$setup_usage
USAGE
}

suites_args=()
while [ $# -gt 0 ]; do
    case $1 in
    --asan) configure_args+=(--enable-asan); build=$top/build/asan ;;
    --tsan) configure_args+=(--enable-tsan); build=$top/build/tsan ;;
    --stress)
        [[ ${2-} =~ ^[1-9][0-9]*$ ]] ||
            die "--stress takes a number of seconds, not '${2-}'"
        suites_args+=("$1" "$2")
        shift
        ;;
    --help|-h) usage; exit 0 ;;
    *) setup_option "$1" || { usage >&2; die "no option $1"; } ;;
    esac
    shift
done

setup check
build_all
build_tests
step fuzz-target "Building the fuzz target" make -C "$build/test/fuzz" check
exec "$top/buildlib/run-suites" "${suites_args[@]}" \
    "$build/buildlib/settings.sh"
