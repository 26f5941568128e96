#!/bin/bash
# Builds the release program of HEAD twice, in two folders with different names, and compares the results byte by byte.
# The first build is the one of dist.sh if its target folder is up to date. Takes two builds with link-time optimisation,
# about 10 minutes each on one core.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -z "$(git status --porcelain --untracked-files=no)" ] || {
    echo "reproducible: commit your changes first: the second build is one of HEAD" >&2
    exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PODWARD_VERSION=$(tools/version.sh version)
PODWARD_COMMIT=$(tools/version.sh commit)
SOURCE_DATE_EPOCH=$(tools/version.sh epoch)
export PODWARD_VERSION PODWARD_COMMIT SOURCE_DATE_EPOCH

first=$(tools/release-build.sh)
other=$scratch/another-folder
mkdir "$other"
git archive HEAD | tar -x -C "$other"
second=$("$other/tools/release-build.sh" "$other/target/elsewhere")

sha256sum "$first" "$second"
cmp "$first" "$second" || {
    echo "reproducible: the two builds differ" >&2
    exit 1
}
leaked=$(strings "$first" | grep -F -e "$PWD/" -e "${CARGO_HOME:-$HOME/.cargo}/" -e "$scratch" | head -3 || true)
[ -z "$leaked" ] || {
    printf 'reproducible: the program contains paths of this machine:\n%s\n' "$leaked" >&2
    exit 1
}
echo "reproducible: both builds are identical"
