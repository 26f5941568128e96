#!/bin/bash
# Installs the Debian packages that build and run the test machines, if they are missing. Run as root.
set -euo pipefail

[ "$(id -u)" = 0 ] || {
    echo "vm: error: must run as root" >&2
    exit 1
}
packages="mmdebstrap qemu-system-x86 qemu-utils e2fsprogs openssl binutils debian-archive-keyring"
missing=""
for package in $packages; do
    case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" in
    *" ok installed") ;;
    *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0
echo "vm: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get -q update >/dev/null
# shellcheck disable=SC2086 # one word per package
apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing >/dev/null
