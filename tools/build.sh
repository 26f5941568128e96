#!/bin/sh
# Builds pinned third-party programs that the scenarios use, into a cache outside the tree:
#   ${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/bin/<name>-<version>-<key>, and a symlink bin/<name> to it.
# The key is a hash of the module's go.mod and go.sum, this script and the Go sources in this folder. A program is built
# again when its key changes, and otherwise not. Usage: build.sh NAME...; `build.sh --list` prints the known names.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}
bin=$cache/bin
names="kubelet kube-apiserver kube-controller-manager kube-scheduler kubectl kubeadm etcd
    containerd containerd-shim-runc-v2 ctr crictl critest podschema"

say() { printf 'tools: %s\n' "$*"; }
fail() {
    printf 'tools: error: %s\n' "$*" >&2
    exit 1
}

# Sets the variables that describe one tool: module directory, pinned module path, package to build, and the kind of
# version stamp (see link_flags).
describe() {
    kind=build
    case $1 in
    kubelet | kube-apiserver | kube-controller-manager | kube-scheduler | kubectl | kubeadm)
        directory=$tools pin=k8s.io/kubernetes package=k8s.io/kubernetes/cmd/$1 stamp=kubernetes
        ;;
    etcd)
        directory=$tools pin=go.etcd.io/etcd/server/v3 package=go.etcd.io/etcd/server/v3 stamp=none
        ;;
    podschema)
        directory=$tools pin=k8s.io/kubernetes package=./podschema stamp=kubernetes
        ;;
    containerd | containerd-shim-runc-v2 | ctr)
        directory=$tools/containerd pin=github.com/containerd/containerd/v2 stamp=containerd
        package=github.com/containerd/containerd/v2/cmd/$1
        ;;
    crictl)
        directory=$tools/cri-tools pin=sigs.k8s.io/cri-tools package=sigs.k8s.io/cri-tools/cmd/crictl stamp=cri-tools
        ;;
    critest)
        directory=$tools/cri-tools pin=sigs.k8s.io/cri-tools package=sigs.k8s.io/cri-tools/cmd/critest stamp=cri-tools
        kind=test
        ;;
    *) fail "unknown tool $1; known: $(echo $names)" ;;
    esac
}

pinned_version() { awk -v module="$pin" '{ sub(/^require /, "") } $1 == module { print $2; exit }' "$directory/go.mod"; }

key() {
    {
        cat "$directory/go.mod" "$directory/go.sum" "$tools/build.sh"
        if [ "$1" = podschema ]; then cat "$tools"/podschema/*.go; fi
    } | sha256sum | cut -c1-12
}

link_flags() {
    flags="-s -w"
    case $stamp in
    kubernetes)
        rest=${version#v}
        for path in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
            flags="$flags -X $path.gitVersion=$version -X $path.gitMajor=${rest%%.*}"
            minor=${rest#*.}
            flags="$flags -X $path.gitMinor=${minor%%.*} -X $path.gitCommit=unknown -X $path.gitTreeState=clean"
        done
        ;;
    containerd)
        flags="$flags -X github.com/containerd/containerd/v2/version.Version=$version"
        ;;
    cri-tools)
        flags="$flags -X sigs.k8s.io/cri-tools/pkg/version.Version=$version"
        ;;
    esac
    echo "$flags"
}

# Runs Go inside the module, so that GOTOOLCHAIN=auto can download the version that the module requires.
need_go() {
    needed=$(awk '$1 == "go" { print $2; exit }' "$directory/go.mod")
    advice="install Go $needed or newer from https://go.dev/dl/ (Debian's golang package is too old)"
    command -v go >/dev/null || fail "go not found: $advice"
    (cd "$directory" && GOWORK=off go list -m >/dev/null) || fail "$(go env GOVERSION) is too old: $advice"
}

build() {
    name=$1
    describe "$name"
    version=$(pinned_version)
    [ -n "$version" ] || fail "no version of $pin is pinned in $directory/go.mod"
    file=$name-$version-$(key "$name")
    if [ -x "$bin/$file" ]; then
        ln -sfn "$file" "$bin/$name"
        say "$name $version: already built"
        return
    fi
    need_go
    mkdir -p "$bin"
    partial=$bin/.$file.$$
    say "$name $version: building"
    started=$(date +%s)
    case $kind in
    build) set -- build ;;
    test) set -- test -c ;;
    esac
    (
        cd "$directory"
        CGO_ENABLED=0 GOFLAGS="-p=2 -buildvcs=false -mod=readonly" GOWORK=off \
            nice go "$@" -trimpath -ldflags "$(link_flags)" -o "$partial" "$package"
    ) || {
        rm -f "$partial"
        fail "could not build $name $version"
    }
    mv "$partial" "$bin/$file"
    ln -sfn "$file" "$bin/$name"
    say "$name $version: built in $(($(date +%s) - started)) s"
}

case ${1:-} in
"" | -h | --help) fail "usage: build.sh NAME...; known: $(echo $names)" ;;
--list)
    printf '%s\n' $names
    exit 0
    ;;
esac
for name in "$@"; do describe "$name"; done
for name in "$@"; do build "$name"; done
