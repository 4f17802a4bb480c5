# shellcheck shell=bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
#
# An apt of our own: the machine's lists are read, never changed, and neither are
# its indexes and its cache. Sourced, never run; needs common.sh, and $here, the
# folder buildlib/.

# A configuration file is the one way to take away what the machine's own
# configuration has added: hooks that act on the machine after an update.
# Signatures are checked as always. Only the unprivileged download user is
# given up, because it may not be allowed to enter the folder.
write_apt_config()
{
    local dir=$1

    cat >"$dir/apt.conf" <<CONFIG
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Dir::Etc::SourceList "/dev/null";
Dir::Etc::SourceParts "$dir/lists.d";
Dir::State::Lists "$dir/indexes";
Dir::Cache "$dir/cache";
Dir::Cache::archives "archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
CONFIG
}

# private_apt DIR PACKAGE [OPTION...]: set up in DIR an apt that knows what the
# machine's archives have; OPTIONs go to apt-sources. The apt commands use it
# with -c DIR/apt.conf.
private_apt()
{
    local dir=$1 package=$2

    shift 2
    rm -rf "$dir/lists.d"
    mkdir -p "$dir/indexes/partial" "$dir/cache/archives/partial"
    "${here:?}/apt-sources" "$@" "$dir/lists.d"
    write_apt_config "$dir"

    # One archive of many may be out of reach; what counts is what is found
    apt-get -c "$dir/apt.conf" update ||
        echo "apt-get update failed; looking for $package in what it got"
}
