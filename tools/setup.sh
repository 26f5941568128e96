#!/bin/sh
# Installs the Debian packages that the tests with root and the scenarios need: a container runtime (containerd,
# runc, CNI plugins), the host tools that the upstream kubelet and containerd call, and a static busybox for test images.
# Installs missing packages only, starts no service, and works with or without a running systemd. Run as root.
set -eu

# containerd needs runc, the CNI plugins, iptables (bridge masquerade, portmap), kmod (overlay) and socat (port-forward).
# The kubelet needs mount, iptables, conntrack, nftables, iproute2 and kmod (modprobe). The tests need apparmor for its
# parser of profiles, busybox-static for images, docker-registry to pull them from, etcd-server for the control plane, the
# daemon of dbus for the fake logind, and btrfs-progs for subvolumes.
packages="apparmor ca-certificates containerd docker-registry etcd-server runc containernetworking-plugins busybox-static
    btrfs-progs iproute2 nftables conntrack dbus iptables kmod mount procps socat util-linux"

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 1
}

[ "$(id -u)" = 0 ] || fail "must run as root"
command -v apt-get >/dev/null || fail "apt-get not found: this script supports Debian only; install these packages manually: $(echo $packages)"

missing=""
for package in $packages; do
    case "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)" in
    *" ok installed") ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -z "$missing" ]; then
    say "all packages are installed"
    exit 0
fi
say "missing:$missing"

# Package scripts call policy-rc.d before they start a service; exit code 101 means "not allowed". The scenarios start a
# private containerd, so the service of the package must not start. An existing policy is restored afterwards.
policy=/usr/sbin/policy-rc.d
saved="$policy.podward-saved"
restore_policy() {
    rm -f "$policy"
    if [ -e "$saved" ] || [ -L "$saved" ]; then mv "$saved" "$policy"; fi
}
trap restore_policy EXIT
trap 'exit 1' HUP INT TERM
if [ -e "$policy" ] || [ -L "$policy" ]; then mv "$policy" "$saved"; fi
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'restore_policy; rm -f "$log"' EXIT
run() {
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        fail "failed: $*"
    }
}
say "updating the package lists"
run apt-get -q update
say "installing$missing"
# shellcheck disable=SC2086 # one word per package
run apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing

for package in $missing; do
    say "installed $package $(dpkg-query -W -f '${Version}' "$package")"
done
