# shellcheck shell=bash disable=SC2154
# Functions of the checks in this folder, which set $check_name, $image and $scratch and read this file.

say() { echo "$check_name: $*"; }
fail() {
    say "FAILED: $*"
    systemctl status --no-pager -l podward.service || true
    journalctl --no-pager -u podward.service | tail -n 30
    ctr -n k8s.io tasks ls || true
    exit 1
}

# wait_for SECONDS CONDITION...
wait_for() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $deadline ] || fail "not within its time: $*"
        sleep 0.5
    done
}

# The image of the example, also under the name that the runtime uses for sandboxes. Its own command only waits.
import_image() {
    local tree=$scratch/image sandbox layer
    mkdir -p "$tree/layer/bin"
    cp /bin/busybox "$tree/layer/bin/"
    for name in sh sleep mkdir httpd echo; do ln -s busybox "$tree/layer/bin/$name"; done
    tar -C "$tree/layer" -cf "$tree/layer.tar" .
    layer=$(sha256sum "$tree/layer.tar" | cut -d ' ' -f 1)
    sandbox=$(containerd config default | sed -n "s/^ *\(sandbox_image\|sandbox\) = ['\"]\(.*:.*\)['\"]/\2/p" | head -n 1)
    cat >"$tree/config.json" <<END
{"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
END
    echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$image\", \"$sandbox\"], \"Layers\": [\"layer.tar\"]}]" >"$tree/manifest.json"
    tar -C "$tree" -cf "$scratch/image.tar" manifest.json config.json layer.tar
    ctr -n k8s.io images import "$scratch/image.tar" >/dev/null
}

is_active() { systemctl --quiet is-active "$1"; }
# The processes of all containers, and when each started: equal lists mean that no container was restarted.
containers() {
    ctr -n k8s.io tasks ls -q | sort | while read -r id; do
        pid=$(ctr -n k8s.io tasks ls | awk -v id="$id" '$1 == id { print $2 }')
        echo "$id $pid $(cut -d ' ' -f 22 "/proc/$pid/stat")"
    done
}
pod_is_ready() { podward get pods 2>/dev/null | grep -Eq '^default +hello-vm +1/1 +Running +0 '; }

# Fails unless all containers are those in $scratch/containers.
check_containers() {
    containers >"$scratch/now"
    diff "$scratch/containers" "$scratch/now" || fail "containers changed after $1"
    pod_is_ready || wait_for 900 pod_is_ready
    say "$1: the same $(wc -l <"$scratch/now") containers run"
}
