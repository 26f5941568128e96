#!/bin/bash
# Runs the checks of tests/vm in the test machines, one after the other, and prints a summary; `make vm` builds what they
# need. Usage: all.sh [trixie|testing]... [NAME]...: machines, and parts of names of checks; all without arguments.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cd "$top"
podward=${PODWARD_BIN:-$top/target/release/podward}
upstream=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/bin
machines="" names=""
for argument in "$@"; do
    case $argument in
    trixie | testing) machines="$machines $argument" ;;
    *) names="$names $argument" ;;
    esac
done
[ -n "$machines" ] || machines="trixie testing"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
trap 'exit 130' INT TERM
target/debug/image-tar "$stage" >/dev/null
# Debug information is most of a program's size, and would be copied to the machine's disk.
for program in "$podward" target/debug/vm_checks target/debug/compare_metrics; do
    objcopy --strip-debug "$program" "$stage/$(basename "$program")"
done
(cd tools && CGO_ENABLED=0 GOWORK=off GOFLAGS="-buildvcs=false -mod=readonly" go build -trimpath -o "$stage/podresources" ./podresources)
cp -L "$upstream"/{kubelet,kube-apiserver,kubectl} "$stage/"
openssl genrsa -out "$stage/service-accounts.key" 2048 2>/dev/null
cp -r tests/vm/golden tests/vm/journal-allowed.txt "$stage/"
cat tests/metrics-allowed.txt tests/vm/metrics-allowed.txt >"$stage/metrics-allowed.txt"
printf '#!/bin/sh\nexec ./vm_checks "$@"\n' >"$stage/suite.sh"
# With a shell nothing runs by itself.
[ -z "${PODWARD_VM_SHELL:-}" ] || printf '#!/bin/sh\nexec sleep 100000\n' >"$stage/suite.sh"

code=0
summary=""
for machine in $machines; do
    started=$SECONDS
    results=target/vm/$machine
    rm -rf "$results"
    echo "$machine" >"$stage/machine"
    "$here/run.sh" -t "${PODWARD_VM_TIMEOUT:-14400}" -o "$results" -a "$names" "$machine" "$stage/suite.sh" "$stage"/* || code=1
    line=$(cat "$results/summary.txt" 2>/dev/null || echo "no result")
    summary+=$(printf '\nvm: %s: %s, %d s; journal and results in %s' "$machine" "$line" $((SECONDS - started)) "$results")
done
printf '%s\n' "$summary"
exit $code
