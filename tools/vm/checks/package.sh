#!/bin/bash
# Runs in a test machine: installs the Debian package from a repository, runs the example of its README, upgrades it, removes
# and purges it. No container may restart, and a purge must leave nothing. package.sh of the parent folder starts it with the
# repositories "old" and "new".
set -euo pipefail

manifest=/etc/podward/manifests/hello.yaml
readme=/usr/share/doc/podward/README.Debian
# shellcheck disable=SC2034 # machine.sh uses it
image=docker.io/library/busybox:stable
scratch=$(mktemp -d)
# shellcheck disable=SC2034 # machine.sh uses it
check_name=package
export DEBIAN_FRONTEND=noninteractive

# shellcheck source=machine.sh
. ./machine.sh

# What must be the same before the installation and after the purge: files, units, cgroups, mounts, packet filter. Data of
# the package manager, the runtime, the journal and of this test are not compared.
snapshot() {
    {
        find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /mnt \
            -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/lib/containerd -o -path /var/lib/vm \
            -o -path /var/log/journal -o -path /var/log/apt -o -path /var/log/dpkg.log -o -path /var/tmp \
            -o -path /root \) -prune -o -print | sort | sed 's/^/file /'
        systemctl list-unit-files --no-legend --no-pager | awk '{ print "unit", $1, $2 }' | sort
        systemctl list-units --all --plain --no-legend --no-pager | awk '/kube|podward/ { print "loaded", $1, $3 }' | sort
        find /sys/fs/cgroup -type d | grep -E '^/sys/fs/cgroup/[^/]*$|kube|podward' | sort | sed 's/^/cgroup /'
        awk '{ print "mount", $5 }' /proc/self/mountinfo | grep -v ' /run/containerd/' | sort
        for program in iptables ip6tables; do "$program-save" 2>/dev/null | grep KUBE | sed "s/^/$program /" || true; done
    } >"$1"
}

# The machine has no network: apt uses only the repository of this test. Its dpkg leaves out all documentation.
apt_do() {
    apt-get -qq -y --no-install-recommends -o "Dir::Etc::sourcelist=$scratch/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dpkg::Use-Pty=0 -o 'Dpkg::Options::=--path-include=/usr/share/doc/podward/*' "$@"
}
use_repository() {
    echo "deb [trusted=yes] file:$VM_FILES/$1 ./" >"$scratch/sources.list"
    apt_do update >/dev/null
}
agent_pid() { systemctl show --value -p MainPID podward.service; }
agent_answers() { podward get pods >/dev/null 2>&1; }
has_no_pods() { [ "$(podward get pods --no-headers 2>/dev/null | grep -c hello)" = 0 ] && [ -z "$(ctr -n k8s.io tasks ls -q)" ]; }
installed_version() { dpkg-query -W -f '${Version}' podward; }
is_not_enabled() { ! systemctl --quiet is-enabled podward.service; }

# One command of the first example in README.Debian, by its first word.
example() {
    command=$(sed -n '/^A first pod/,/^The last command/s/^    //p' "$readme" | grep "^$1 ")
    [ -n "$command" ] || fail "$readme has no command $1"
    say "\$ $command"
    eval "$command"
}
curl() { busybox wget -q -O - "$1"; }

step_beside_kubelet() {
    say "== next to a kubelet that runs"
    printf '[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/kubelet.service
    systemctl daemon-reload
    systemctl --quiet enable --now kubelet.service
    apt_do install podward
    is_active kubelet.service || fail "the installation stopped the kubelet"
    if is_active podward.service; then fail "two agents run"; fi
    is_not_enabled || fail "podward.service is enabled beside kubelet.service"
    systemctl start --no-block podward.service
    wait_for 900 is_active podward.service
    if is_active kubelet.service; then fail "the kubelet still runs beside podward"; fi
    systemctl start kubelet.service
    wait_for 900 is_active kubelet.service
    if is_active podward.service; then fail "podward still runs beside the kubelet"; fi
    # The kubelet owns the state folder, except for one part.
    [ -d /var/lib/kubelet/podward ] || fail "no state of podward"
    apt_do purge podward
    [ -d /var/lib/kubelet ] || fail "the purge removed the state of the kubelet"
    [ ! -e /var/lib/kubelet/podward ] || fail "the purge left the state of podward"
    systemctl --quiet disable --now kubelet.service
    rm /etc/systemd/system/kubelet.service
    systemctl daemon-reload
    # What the kubelet would have left.
    umount /var/lib/kubelet 2>/dev/null || true
    rm -r /var/lib/kubelet
}

step_install() {
    say "== install"
    apt_do install podward
    wait_for 900 is_active podward.service
    wait_for 900 agent_answers
    systemctl --quiet is-enabled podward.service || fail "podward.service is not enabled"
    podward version
    systemctl show -p Type,WatchdogUSec,NRestarts podward.service | tr '\n' ' '
    echo
    # Only the health check of the machine itself is served, on 127.0.0.1.
    if ss -Hltn | grep -q ':1025[05] '; then fail "a standalone node has an open port"; fi
}

step_example() {
    say "== the example of README.Debian"
    example cp
    wait_for 900 pod_is_ready
    example podward
    [ "$(example curl | tail -n 1)" = "hello from podward" ] || fail "the example does not answer"
    containers >"$scratch/containers"
    say "containers: $(wc -l <"$scratch/containers")"
}

step_upgrade() {
    say "== upgrade"
    local pid version
    pid=$(agent_pid) version=$(installed_version)
    use_repository new
    apt_do upgrade
    [ "$(installed_version)" != "$version" ] || fail "apt upgrade installed no new version"
    say "upgraded from $version to $(installed_version)"
    is_replaced() { [ "$(agent_pid)" != "$pid" ] && is_active podward.service; }
    wait_for 900 is_replaced
    wait_for 900 agent_answers
    check_containers upgrade
}

step_remove_with_pods() {
    say "== remove and purge while a pod runs, and install again"
    apt_do remove podward
    [ ! -e /usr/bin/podward ] || fail "the program is still there"
    containers >"$scratch/now"
    cmp "$scratch/containers" "$scratch/now" || fail "the removal changed containers"
    apt_do purge podward 2>&1 | tee "$scratch/purge.log"
    grep -q "pods still run" "$scratch/purge.log" || fail "the purge does not say that pods still run"
    [ -d /var/lib/kubelet/pods ] || fail "the purge removed the state of running pods"
    [ -e $manifest ] || fail "the purge removed a manifest of the administrator"
    apt_do install podward
    wait_for 900 is_active podward.service
    wait_for 900 pod_is_ready
    check_containers "new installation"
}

step_purge() {
    say "== end the pod and purge"
    example rm
    wait_for 900 has_no_pods
    apt_do purge podward
    dpkg-query -W podward 2>/dev/null && fail "dpkg still knows the package"
    snapshot "$VM_RESULTS/after.txt"
    diff "$VM_RESULTS/before.txt" "$VM_RESULTS/after.txt" || fail "the purge left something, or removed too much"
    say "nothing is left: $(wc -l <"$VM_RESULTS/after.txt") files, units, cgroups and mounts are the same as before"
}

wait_for 900 is_active containerd.service
import_image
systemctl daemon-reload
snapshot "$VM_RESULTS/before.txt"
use_repository old
step_beside_kubelet
step_install
step_example
step_upgrade
step_remove_with_pods
step_purge
journalctl --no-pager -u podward.service | grep -E ' (WARN|ERROR) ' | sort | uniq -c | head -n 20 || true
say "passed after $SECONDS s"
