#!/bin/sh
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
#
# Creates configure. Needs autoconf, automake and libtool.

set -e

cd "$(dirname "$0")"
for tool in autoreconf automake libtoolize; do
    command -v $tool >/dev/null || {
        echo "error: $tool is missing; see buildlib/packages" >&2
        exit 1
    }
done

mkdir -p config/aux
autoreconf --install --force "$@"
rm -rf autom4te.cache
