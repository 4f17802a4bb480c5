# shellcheck shell=bash
#
# SPDX-License-Identifier: BSD-3-Clause
# See file LICENSE for terms.
#
# Install the Debian packages that are missing. Sourced, never run; needs
# common.sh. The list is buildlib/packages.

# packages_of LIST GROUP...: the packages of these groups
packages_of()
{
    local list=$1

    shift
    awk -v groups=" $* " '
        /^[^#]/ && index(groups, " " $2 " ") { print $1 }' "$list"
}

# missing_packages PACKAGE...: those that are not installed
missing_packages()
{
    local installed

    installed=$(dpkg-query --show --showformat '${db:Status-Abbrev} ${Package}\n' \
                    "$@" 2>/dev/null | awk '$1 == "ii" { print $2 }' || true)
    comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

apt_install()
{
    export DEBIAN_FRONTEND=noninteractive
    # An index that cannot be updated may still be good enough to install from
    apt-get update || echo "apt-get update failed; trying what is known"
    apt-get install --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@"
}

# install_packages LIST GROUP...: make sure that these groups are installed, and
# say in $packages_installed whether there was anything to do
install_packages()
{
    local -a wanted missing

    packages_installed=no
    mapfile -t wanted < <(packages_of "$@")
    [ ${#wanted[@]} -gt 0 ] || die "$1 has no packages of ${*:2}"
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null
    then
        say "This is no Debian system; it must have what Debian has in:" \
            "${wanted[*]}"
        return 0
    fi

    mapfile -t missing < <(missing_packages "${wanted[@]}")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        die "these Debian packages are missing: ${missing[*]}" \
            $'\n'"Install them as root with: apt-get install" \
            "--no-install-recommends ${missing[*]}"
    fi
    need_disk /usr 600 "installing packages"
    step packages "Installing Debian packages: ${missing[*]}" \
        apt_install "${missing[@]}" ||
        die "these Debian packages could not be installed: ${missing[*]}"
    # shellcheck disable=SC2034 # the caller uses it
    packages_installed=yes
}
