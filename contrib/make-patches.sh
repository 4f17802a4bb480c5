#!/bin/bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.

set -euo pipefail

top=$(dirname "$(dirname "$(readlink -f "$0")")")
# shellcheck source=buildlib/common.sh
. "$top/buildlib/common.sh"
# shellcheck source=buildlib/packages.sh
. "$top/buildlib/packages.sh"

usage()
{
    cat <<USAGE
usage: contrib/make-patches.sh DIR [-o OUT] [--strict]

Turn the patch set into a series for 'git am' onto the UCX in DIR, a git checkout
or an unpacked release, which is not changed. Each patch is at most 500 lines
long where its content allows, and builds by itself. Applied to a clean tree, the
series gives what 'buildlib/overlay apply' gives; that is tried before anything
is written.

Patches are signed by the user that git knows in DIR.

  -o OUT                 the folder for the patches, new, empty or with an earlier
                         series (default: DIR's name with '-patches', here)
  --strict               what reviewers of UCX would not like is an error
  --help                 show this text
USAGE
}

tree=
out=
args=()
while [ $# -gt 0 ]; do
    case $1 in
    -o)
        [ -n "${2-}" ] || die "-o takes the name of a folder"
        out=$2
        shift
        ;;
    --strict) args+=("$1") ;;
    --help|-h) usage; exit 0 ;;
    -*) usage >&2; die "no option $1" ;;
    *)
        [ -z "$tree" ] || die "one tree at a time, not '$tree' and '$1'"
        tree=$1
        ;;
    esac
    shift
done
[ -n "$tree" ] || { usage >&2; die "no DIR was given"; }
[ -d "$tree" ] || die "no folder '$tree'"
tree=$(cd "$tree" && pwd)

# shellcheck disable=SC2034 # step uses it
log_dir=$top/build/logs
install_packages "$top/buildlib/packages" series
exec "$top/buildlib/make-series" "${args[@]}" "$top" "$tree" \
    "${out:-${tree##*/}-patches}"
