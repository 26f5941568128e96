#!/bin/bash
# Follows docs/install.md in a test machine: install.sh [-b BINARY] [trixie|testing]. Makes the archive and runs
# checks/install.sh with it. Without -b it builds the release program.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
binary=""
while getopts b: option; do
    case $option in
    b) binary=$OPTARG ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
machine=${1:-trixie}
binary=${binary:-$("$top/tools/release-build.sh")}
upstream=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$top/tools/dist.sh" "$binary"
mkdir "$scratch/dist"
name=podward-$("$top/tools/version.sh" version)-x86_64-linux
cp "$top/target/packages/SHA256SUMS" "$top/target/packages/$name".{tar.gz,cdx.json} "$scratch/dist/"
cp "$top/docs/install.md" "$here/checks/machine.sh" "$scratch/"
cp -L "$upstream/kubelet" "$scratch/"
"$here/run.sh" -t 7200 -o "$top/target/vm/install-$machine" "$machine" "$here/checks/install.sh" "$scratch"/*
