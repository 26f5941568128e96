#!/bin/sh
# Runs in the test machine, as root, under systemd: executes /mnt/script and reports to the host over the second serial
# port. Lines that begin with "@vm" are for run.sh:
#
#   @vm boot N       the machine has booted, for the N-th time
#   @vm again        the script asked for another boot: run.sh starts the machine once more, with the same disk
#   @vm exit CODE    the script has ended
set -u

state=/var/lib/vm
port=/dev/ttyS1
export VM_FILES=/mnt/files VM_RESULTS=$state/results
mkdir -p "$VM_RESULTS"
stty -F $port raw

VM_BOOT=$(($(cat $state/boot 2>/dev/null || echo 0) + 1))
echo $VM_BOOT >$state/boot
export VM_BOOT
rm -f $state/again

# The script calls `vm-power-off` to end this boot like an operator would, and runs again in the next one.
cat >/usr/local/bin/vm-power-off <<'END'
#!/bin/sh
touch /var/lib/vm/again
echo '@vm again' >/dev/ttyS1
exec systemctl poweroff
END
chmod +x /usr/local/bin/vm-power-off

# A root shell on port 2222, which QEMU forwards.
if [ -e /mnt/shell ]; then
    ip link set eth0 up && ip address add 10.0.2.15/24 dev eth0
    socat -t 3600 TCP-LISTEN:2222,fork,reuseaddr EXEC:'/bin/bash -s',stderr &
fi

echo "@vm boot $VM_BOOT" >$port
cd $VM_FILES || exit 1
code=0
# shellcheck disable=SC2046 # one word per argument
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    sh -c 'exec "$0" "$@" 2>&1' /mnt/script $(cat /mnt/arguments) >$port </dev/null || code=$?
[ -e $state/again ] && exit 0

journalctl --sync
journalctl -o short-iso-precise --no-pager >"$VM_RESULTS/journal.txt" 2>/dev/null
tar -C "$VM_RESULTS" -cf /dev/vdc .
echo "@vm exit $code" >$port
systemctl poweroff --force
