#!/bin/sh
# First process of a machine in namespaces: boot.sh FOLDER NAME. It gives the machine private versions of the folders that
# kubeadm, containerd and the agent use, starts containerd, and supervises the agent as the packaged unit of the kubelet
# does: it starts while FOLDER/kubelet.wanted exists, and again when it exits.
set -eu
folder=$1
name=$2

hostname "$name"
mount -t proc proc /proc
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward

# Changes of the system's folders stay in the machine's own folder.
for path in etc opt usr var; do
    mkdir -p "$folder/upper/$path" "$folder/work/$path"
    mount -t overlay overlay -o "lowerdir=/$path,upperdir=$folder/upper/$path,workdir=$folder/work/$path" "/$path"
done
# Folders that must start empty, or that cannot be on an overlay: containerd keeps overlays in its own.
for path in etc/kubernetes etc/cni/net.d var/lib/cni var/lib/containerd var/lib/kubelet var/log; do
    mkdir -p "$folder/disk/$path" "/$path"
    mount --bind "$folder/disk/$path" "/$path"
done
# In memory: etcd syncs every write, and the data does not have to survive a power cut.
mkdir -p /var/lib/etcd
for path in var/lib/etcd run; do
    mount -t tmpfs tmpfs "/$path"
done
mkdir -p /run/lock
rm -f /etc/resolv.conf
echo 'nameserver 192.0.2.53' >/etc/resolv.conf
# As on any machine with systemd; volumes with mount propagation need it.
mount --make-rshared /

containerd --config "$folder/containerd.toml" >>"$folder/containerd.log" 2>&1 &

run_agent() {
    KUBELET_KUBEADM_ARGS=
    # shellcheck disable=SC1091 # kubeadm writes it
    . /var/lib/kubelet/kubeadm-flags.env
    # shellcheck disable=SC2086 # one word per flag
    kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
        --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS >>"$folder/kubelet.log" 2>&1 &
    echo $! >"$folder/kubelet.pid"
    wait $! || echo "supervisor: the agent exited with status $?" >>"$folder/kubelet.log"
    rm "$folder/kubelet.pid"
}

touch "$folder/booted"
while :; do
    if [ -e "$folder/kubelet.wanted" ]; then run_agent; fi
    sleep 0.2
done
