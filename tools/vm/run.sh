#!/bin/bash
# Runs a script as root in a new boot of a throw-away copy of a test machine; shows its output and returns its exit code.
# Usage: run.sh [-t SECONDS] [-o FOLDER] [-a "ARGUMENTS"] trixie|testing SCRIPT [FILE|FOLDER]...
# README.md in this folder describes what the script finds in the machine.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
timeout=900 results="" arguments=""
usage() {
    sed -n 's/^# Usage: /usage: /p' "$0" >&2
    exit 2
}
while getopts t:o:a: option; do
    case $option in
    t) timeout=$OPTARG ;;
    o) results=$OPTARG ;;
    a) arguments=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || usage
machine=$1 script=$2
shift 2
[ -n "$results" ] || results=$here/../../target/vm/$machine

say() { printf 'vm: %s: %s\n' "$machine" "$*"; }

"$here/setup.sh"
image=$("$here/image.sh" "$machine")
work=$(mktemp -d /var/tmp/podward-vm-XXXXXX)
qemu=""
finish() {
    [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Disks: the system (a copy on write), the files for the machine, and space for its results, which it writes as a tar.
# The kernel has no 9p, and a disk is faster in emulation.
mkdir -p "$work/in/files" "$results"
cp "$here/guest.sh" "$work/in/"
install -m 0755 "$script" "$work/in/script"
echo "$arguments" >"$work/in/arguments"
[ -z "${PODWARD_VM_SHELL:-}" ] || touch "$work/in/shell"
for file in "$@"; do cp -rL "$file" "$work/in/files/"; done
size=$(($(du -sm "$work/in" | cut -f1) * 11 / 10 + 32))
mkfs.ext4 -q -F -O ^has_journal -d "$work/in" "$work/files.ext4" "${size}M" >/dev/null
rm -rf "$work/in"
qemu-img create -q -f qcow2 -b "$image/root.ext4" -F raw "$work/root.qcow2"
truncate -s 1G "$work/results.tar"
rm -f "$results/console.log"

# QEMU 7.2 emulates cmpxchg16b wrongly, and Linux crashes.
accelerator=$("$here/accelerator.sh")
case $accelerator in
kvm) cpu="-accel kvm -cpu max" ;;
*) cpu="-accel tcg,thread=multi,tb-size=512 -cpu max,la57=off,-cx16" ;;
esac
# "quiet" and most of the rest: output and checks of the kernel's own crypto take seconds in emulation. On a busy host the kernel's
# check of its timer fails, and it stops.
kernel="root=/dev/vda rw console=ttyS0 panic=-1 no_timer_check quiet systemd.show_status=0 mitigations=off cryptomgr.notests"
kernel+=" net.ifnames=0 transparent_hugepage=never"
# The journal starts in more than systemd's default of 90 s when the host's processors are overloaded.
kernel+=" systemd.default_timeout_start_sec=900 systemd.default_device_timeout_sec=900"

# A root shell for attempts by hand, see README.md; the machine has no network otherwise.
shell=""
[ -z "${PODWARD_VM_SHELL:-}" ] || shell="-nic user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$PODWARD_VM_SHELL-:2222"

# One boot. Prints the script's output; $work/state gets the last "@vm" line.
boot() {
    : >"$work/state"
    booted=no
    mkfifo "$work/output"
    # shellcheck disable=SC2086 # several options
    timeout --foreground --kill-after=10 "$left" qemu-system-x86_64 $cpu $shell \
        -smp "${PODWARD_VM_CPUS:-2}" -m "${PODWARD_VM_MEMORY:-3072}" \
        -nodefaults -display none -no-reboot -rtc base=utc -device virtio-rng-pci \
        -kernel "$image/vmlinuz" -initrd "$image/initrd" -append "$kernel" \
        -drive "file=$work/root.qcow2,if=virtio,format=qcow2,cache=unsafe" \
        -drive "file=$work/files.ext4,if=virtio,format=raw,readonly=on" \
        -drive "file=$work/results.tar,if=virtio,format=raw,cache=unsafe" \
        -serial "file:$work/console.log" -serial stdio </dev/null >"$work/output" 2>"$work/qemu.log" &
    qemu=$!
    while IFS= read -r line; do
        line=${line%$'\r'}
        case $line in
        "@vm boot "*)
            booted=yes
            say "booted after $((SECONDS - started)) s"
            ;;
        "@vm "*) echo "${line#@vm }" >"$work/state" ;;
        *) printf '%s\n' "$line" ;;
        esac
    done <"$work/output"
    code=0
    wait "$qemu" || code=$?
    qemu=""
    rm "$work/output"
    cat "$work/console.log" >>"$results/console.log"
    [ $code != 124 ] || say "error: not finished after $timeout s: see $results/console.log"
    [ $code = 0 ] || cat "$work/qemu.log"
}

# QEMU 7.2 sometimes runs a breakpoint that the kernel has already removed from its own code, and the kernel panics within
# seconds. Such a boot has changed nothing, so it is repeated.
crashed_in_boot() {
    [ -z "$state" ] && [ "$booted" = no ] && grep -q 'Oops: int3' "$work/console.log"
}

began=$SECONDS
state=again
crashes=0
while [ "$state" = again ]; do
    left=$((timeout - SECONDS + began))
    [ $left -gt 0 ] || left=1
    started=$SECONDS
    say "booting ($accelerator)"
    boot
    state=$(cat "$work/state")
    if crashed_in_boot && [ $crashes -lt 3 ]; then
        crashes=$((crashes + 1))
        say "the kernel crashed in emulated code; booting again"
        state=again
    fi
done
case $state in
"exit "*)
    tar -C "$results" -xf "$work/results.tar"
    exit "${state#exit }"
    ;;
*)
    tail -n 15 "$results/console.log"
    say "error: the machine ended without a result: see $results/console.log"
    exit 1
    ;;
esac
