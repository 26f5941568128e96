#!/bin/bash
# Makes the archive podward-VERSION-x86_64-linux.tar.gz with its bill of materials and checksums, in target/packages:
# dist.sh [BINARY]. Without BINARY it builds the release program.
set -euo pipefail
cd "$(dirname "$0")/.."
# The program runs on every distribution with this glibc or a newer one (Debian 12, Ubuntu 22.04, RHEL 9).
newest_glibc=2.34

fail() {
    echo "dist: $*" >&2
    exit 1
}

binary=${1:-$(tools/release-build.sh)}
needed=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
[ "$(printf '%s\n' "GLIBC_$newest_glibc" "$needed" | sort -V | tail -1)" = "GLIBC_$newest_glibc" ] ||
    fail "the program needs $needed, which is newer than $newest_glibc"

version=$(tools/version.sh version)
epoch=$(tools/version.sh epoch)
name=podward-$version-x86_64-linux
output=target/packages
mkdir -p "$output"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tools/package-tree.sh "$binary" "$scratch/$name"
install -m 644 LICENSE packaging/README.md "$scratch/$name/"
tools/sbom.sh "$output/$name.cdx.json"
install -m 644 "$output/$name.cdx.json" "$scratch/$name/sbom.cdx.json"
# The same content gives the same archive.
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu -cf - "$name" |
    gzip -9n >"$output/$name.tar.gz"
(cd "$output" && sha256sum "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
echo "dist: $output/$name.tar.gz ($(stat -c %s "$output/$name.tar.gz") bytes, needs $needed)"
cat "$output/SHA256SUMS"
