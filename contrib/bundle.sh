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
usage: contrib/bundle.sh [-o FILE] [OPTION...]

Pack what a machine with an NVIDIA GPU needs to run the CUDA tests: it needs no
UCX, toolkit or compiler, only the GPU's driver, bash and python3. Unpack the
archive there, and start ucx-cuda-tests/run. Installs what is missing and builds
in build/ first.

  -o FILE                the archive, .tar.xz or .tar.gz (default:
                         build/ucx-cuda-tests.tar.xz)
$setup_usage
USAGE
}

archive=
while [ $# -gt 0 ]; do
    case $1 in
    -o)
        case ${2-} in
        *.tar.xz|*.tar.gz) archive=$(realpath -m "$2") ;;
        *) die "-o takes a name that ends in .tar.xz or .tar.gz, not '${2-}'" ;;
        esac
        shift
        ;;
    --help|-h) usage; exit 0 ;;
    *) setup_option "$1" || { usage >&2; die "no option $1"; } ;;
    esac
    shift
done

setup check bench
build_all
build_tests
archive=${archive:-$build/ucx-cuda-tests.tar.xz}
step bundle "Packing $archive" \
    "$top/buildlib/make-bundle" "$build/buildlib/settings.sh" "$archive"
tail -n 1 "$log_dir/bundle.log"
