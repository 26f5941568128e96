#!/bin/bash
# Builds the disk image of a test machine with mmdebstrap and prints its folder, which contains root.ext4, vmlinuz, initrd
# and packages.txt. Usage: image.sh trixie|testing (as root).
#
# The image is in ${PODWARD_CACHE:-~/.cache/podward}/vm/<suite>-<key>; the key is a hash of this script, which contains the
# package list. PODWARD_VM_REBUILD=1 builds it again, for newer packages. The mirror and its proxy are those of this
# machine's apt.
set -euo pipefail

suite=${1:?usage: image.sh trixie|testing}
case $suite in
trixie | testing) ;;
*)
    echo "vm: unknown machine $suite: trixie or testing" >&2
    exit 2
    ;;
esac
cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/vm

# The kernel for virtual machines has few drivers, so that it boots fast even in emulation; ext4 is built in.
packages="linux-image-cloud-amd64 initramfs-tools systemd systemd-sysv libpam-systemd udev dbus apparmor
    containerd runc containernetworking-plugins busybox-static etcd-server
    ca-certificates conntrack e2fsprogs iproute2 iptables kmod mount nftables procps socat"

say() { printf 'vm: %s\n' "$*" >&2; }

key=$(sha256sum "$0" | cut -c1-12)
folder=$cache/$suite-$key
mkdir -p "$cache"
exec 8>"$cache/.$suite.lock"
flock 8 # another run may be building the same image
if [ -e "$folder/root.ext4" ] && [ "${PODWARD_VM_REBUILD:-0}" = 0 ]; then
    echo "$folder"
    exit 0
fi

work=$(mktemp -d "$cache/.build-XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

# The repository of this machine's Debian serves the other suites, too; apt knows it whatever its file of sources is.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Origin: Debian' | sort -u | grep -v security | head -n 1)
[ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' | head -n 1)
[ -n "$mirror" ] || {
    say "error: apt has no package lists: run apt-get update"
    exit 1
}
apt-config dump | grep -Ei '^Acquire::(https?::|Check-Valid-Until|Retries)' >"$work/apt.conf" || true

# Runs in the new system before its remaining packages are installed: the initrd needs no more than the disk's driver.
cat >"$work/before.sh" <<'END'
set -eu
mkdir -p "$1/etc/initramfs-tools/conf.d"
echo 'MODULES=list' >"$1/etc/initramfs-tools/conf.d/vm"
echo virtio_blk >"$1/etc/initramfs-tools/modules"
END
# Runs in the new system after the installation.
cat >"$work/after.sh" <<'END'
set -eu
root=$1
echo '/dev/vda / ext4 defaults 0 1' >"$root/etc/fstab"
echo vm >"$root/etc/hostname"
echo '127.0.0.1 localhost vm' >"$root/etc/hosts"
# Compiling the profiles of programs that are not installed would take most of the boot.
find "$root/etc/apparmor.d" -maxdepth 1 -type f -delete
cat >"$root/etc/systemd/system/vm.service" <<UNIT
[Unit]
Description=Test run
After=containerd.service dbus.service systemd-logind.service
[Service]
ExecStartPre=mount -o ro /dev/vdb /mnt
ExecStart=sh /mnt/guest.sh
KillMode=process
TimeoutStopSec=10min
UNIT
ln -s ../vm.service "$root/etc/systemd/system/multi-user.target.wants/vm.service"
for unit in getty@tty1.service serial-getty@ttyS0.service etcd.service e2scrub_reap.service ldconfig.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    modprobe@drm.service modprobe@efi_pstore.service systemd-pstore.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
mkdir -p "$root/var/log/journal"
END

say "building the image of Debian $suite; takes a few minutes"
started=$SECONDS
mmdebstrap --quiet --mode=root --variant=minbase --include="$(echo $packages | tr ' ' ,)" \
    --aptopt="$work/apt.conf" --aptopt='Acquire::Languages "none"' --aptopt='Apt::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --essential-hook="sh $work/before.sh \"\$1\"" --customize-hook="sh $work/after.sh \"\$1\"" \
    "$suite" "$root" "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
    >"$cache/$suite.log" 2>&1 </dev/null || {
    tail -n 20 "$cache/$suite.log" >&2
    say "error: mmdebstrap failed: see $cache/$suite.log"
    exit 1
}
mkdir "$work/image"
cp "$root"/boot/vmlinuz-* "$work/image/vmlinuz"
cp "$root"/boot/initrd.img-* "$work/image/initrd"
dpkg-query --admindir="$root/var/lib/dpkg" -W >"$work/image/packages.txt"
mkfs.ext4 -q -F -O ^has_journal -d "$root" "$work/image/root.ext4" 8G >/dev/null
rm -rf "$folder"
mv "$work/image" "$folder"
say "built the image of Debian $suite in $((SECONDS - started)) s: $(du -sh "$folder" | cut -f1)"
echo "$folder"
