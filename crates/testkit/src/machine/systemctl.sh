#!/bin/sh
# The machine's `systemctl`: kubeadm controls the agent with it. Knows one service, kubelet, which boot.sh supervises.
folder=${0%/bin/systemctl}
command=$1
service=${2:-}

wait_until_exited() {
    pid=$(cat "$folder/kubelet.pid" 2>/dev/null) || return 0
    kill "$pid" 2>/dev/null
    while [ -d "/proc/$pid" ]; do sleep 0.05; done
}

case $command in
daemon-reload) exit 0 ;;
esac
[ "${service%.service}" = kubelet ] || {
    echo "Unit $service could not be found."
    exit 4
}
case $command in
start) touch "$folder/kubelet.wanted" ;;
stop)
    rm -f "$folder/kubelet.wanted"
    wait_until_exited
    ;;
restart)
    touch "$folder/kubelet.wanted"
    wait_until_exited
    ;;
is-active)
    if [ -e "$folder/kubelet.pid" ]; then echo active; else echo inactive; fi
    ;;
is-enabled | status) ;;
*) exit 1 ;;
esac
