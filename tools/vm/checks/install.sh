#!/bin/bash
# Runs in a test machine: follows the sections of docs/install.md that start from the archive, as they are written. Where a
# section needs another machine, a stand-in is named. install.sh of the parent folder starts it with install.md, the archive
# and the upstream kubelet.
set -euo pipefail

# shellcheck disable=SC2034 # machine.sh uses it
image=docker.io/library/busybox:stable
# shellcheck disable=SC2034 # machine.sh uses it
check_name=install
scratch=$(mktemp -d)
# shellcheck source=machine.sh
. ./machine.sh

# The commands of the N-th block of a section, without prompts: block SECTION N
block() {
    awk -v heading="## $1" -v wanted="$2" '
        /^## / { inside = ($0 == heading) }
        inside && /^```/ { open = !open; if (open) number++; next }
        inside && open && number == wanted' "$VM_FILES/install.md" | sed 's/^[#$] //' >"$scratch/block"
    [ -s "$scratch/block" ] || fail "install.md has no block $2 in section $1"
    sed 's/^/    /' "$scratch/block"
}
# Runs it: run_block SECTION N
run_block() {
    block "$1" "$2"
    # shellcheck source=/dev/null
    . "$scratch/block"
}
agent_of() { basename "$(readlink "/proc/$(systemctl show --value -p MainPID "$1")/exe")"; }
runs() { [ "$(agent_of kubelet.service)" = "$1" ]; }
kubelet_is_healthy() { [ "$(busybox wget -q -O - http://127.0.0.1:10248/healthz 2>/dev/null)" = ok ]; }
hello_answers() { [ "$(busybox wget -q -O - http://127.0.0.1:8080/ 2>/dev/null)" = "hello from podward" ]; }
has_no_tasks() { [ -z "$(ctr -n k8s.io tasks ls -q)" ]; }

# Fails unless the kubelet's unit runs this agent with the same containers: check_agent PROGRAM STEP
check_agent() {
    wait_for 900 runs "$1"
    wait_for 900 kubelet_is_healthy
    # Wrong decisions would be made in the first passes after a start.
    sleep 10
    containers >"$scratch/now"
    diff "$scratch/containers" "$scratch/now" || fail "containers changed after: $2"
    hello_answers || fail "the pod does not answer after: $2"
    say "$2: $1 runs, with the same $(wc -l <"$scratch/now") containers"
}

step_archive() {
    say "== Archive"
    mkdir "$scratch/download"
    cd "$scratch/download"
    cp "$VM_FILES"/dist/* .
    block Archive 1 >/dev/null
    version=$(basename podward-*-x86_64-linux.tar.gz -x86_64-linux.tar.gz | sed 's/^podward-//')
    sed -i "s/VERSION/$version/g" "$scratch/block"
    sed 's/^/    /' "$scratch/block"
    # shellcheck source=/dev/null
    . "$scratch/block"
    archive=$PWD
    wait_for 900 is_active podward.service
    podward version
    cp /usr/share/doc/podward/examples/hello.yaml /etc/podward/manifests/
    wait_for 900 pod_is_ready
    wait_for 900 hello_answers
    podward get pods
    rm /etc/podward/manifests/hello.yaml
    wait_for 900 has_no_tasks
    systemctl disable --now podward
    # What a kubelet does not have.
    umount /var/lib/kubelet 2>/dev/null || true
    rm -rf /var/lib/kubelet /usr/lib/systemd/system/podward.service
    systemctl daemon-reload
}

# The unit and the drop-in have the form of the kubelet's Debian package, with the files of `kubeadm init` for a node whose
# pods are static.
set_up_kubelet() {
    mkdir -p /etc/systemd/system/kubelet.service.d /var/lib/kubelet /etc/kubernetes/manifests
    cp "$VM_FILES/kubelet" /usr/bin/kubelet
    cat >/etc/systemd/system/kubelet.service <<'END'
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
END
    cat >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf <<'END'
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
    echo 'KUBELET_KUBEADM_ARGS="--node-ip=127.0.0.1"' >/var/lib/kubelet/kubeadm-flags.env
    cat >/var/lib/kubelet/config.yaml <<'END'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
END
    systemctl daemon-reload
    systemctl enable --now kubelet
    cp /usr/share/doc/podward/examples/hello.yaml /etc/kubernetes/manifests/
    wait_for 900 hello_answers
    containers >"$scratch/containers"
    say "upstream's kubelet runs $(wc -l <"$scratch/containers") containers"
}

step_replace() {
    say "== Replace the kubelet of a kubeadm node"
    # The archive has been unpacked, which has the same files as the package.
    apt() { say "(installed from the archive: apt $*)"; }
    run_block "Replace the kubelet of a kubeadm node" 1
    check_agent podward "replaced"
    podward get pods
    run_block "Replace the kubelet of a kubeadm node" 2
    check_agent kubelet "went back"
}

# The machine stands for the node, which is a container of Docker elsewhere.
docker() {
    case $1 in
    cp) cp "$2" "${3#*:}" ;;
    exec)
        shift 2
        "$@"
        ;;
    esac
}
step_kind() {
    say "== In a kind node (without Docker: the node's commands run in this machine)"
    cd "$archive"
    run_block "In a kind node" 1
    check_agent podward "replaced"
    run_block "In a kind node" 2
    check_agent kubelet "went back"
}

wait_for 900 is_active containerd.service
import_image
step_archive
set_up_kubelet
step_replace
step_kind
say "passed after $SECONDS s"
