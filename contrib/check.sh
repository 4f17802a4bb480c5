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

Run the whole test suite, on the emulated ROCm runtime. Installs what is missing
and builds in build/ first. The last line is 'N passed, N failed, N skipped'; the
exit status is zero if something passed and nothing failed.

  --asan                 everything with AddressSanitizer, in build/asan
  --tsan                 the tests with two processes and the emulators' with
                         ThreadSanitizer, in build/tsan
$setup_usage
USAGE
}

for option; do
    case $option in
    --asan) configure_args+=(--enable-asan); build=$top/build/asan ;;
    --tsan) configure_args+=(--enable-tsan); build=$top/build/tsan ;;
    --help|-h) usage; exit 0 ;;
    *) setup_option "$option" || { usage >&2; die "no option $option"; } ;;
    esac
done

setup check
build_all
make -s -C "$build" ucx-gtest
step emulator-tests "Building the emulators' tests" \
    make -C "$build/test/emul" check TESTS=
exec "$top/buildlib/run-suites" "$build/buildlib/settings.sh"
