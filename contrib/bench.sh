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
usage: contrib/bench.sh [OPTION...]

Measure stock and patched UCX side by side, on the emulated ROCm and CUDA
runtimes: prints a table, and writes it and plots into build/bench. Takes some
minutes. Installs what is missing and builds in build/ first.

  --quick                fewer repetitions, to see whether it works
$setup_usage
USAGE
}

bench_args=()
for option; do
    case $option in
    --quick) bench_args+=("$option") ;;
    --help|-h) usage; exit 0 ;;
    *) setup_option "$option" || { usage >&2; die "no option $option"; } ;;
    esac
done

setup bench
build_all
build_benchmarks
exec "$top/buildlib/run-bench" "$build/buildlib/settings.sh" "${bench_args[@]}"
