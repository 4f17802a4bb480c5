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
usage: contrib/demo.sh [OPTION...]

Show what the patch set does: two processes share a GPU buffer through UCX, once
over UCX's own module for ROCm and once over the patched one; then its owner
frees the buffer. Installs what is missing and builds in build/ first. Without
an AMD GPU, emulators stand in for the ROCm runtime.

$setup_usage
USAGE
}

for option; do
    case $option in
    --help|-h) usage; exit 0 ;;
    *) setup_option "$option" || { usage >&2; die "no option $option"; } ;;
    esac
done

# shellcheck disable=SC2119 # it needs no more than the base
setup
build_all
exec "$top/buildlib/run-demo" "$build/buildlib/settings.sh"
