#!/bin/bash
# Writes the software bill of materials of the program, in CycloneDX's JSON format: sbom.sh FILE
set -euo pipefail
output=$(realpath "$1")
cd "$(dirname "$0")/.."
tools/checkers.sh cargo-cyclonedx >&2
SOURCE_DATE_EPOCH=$(tools/version.sh epoch)
export SOURCE_DATE_EPOCH
# It writes a file beside the manifest of every crate of the workspace, of which one is wanted. A copy keeps the tree clean.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git ls-files -z --cached --exclude-standard -- Cargo.toml Cargo.lock crates tests | xargs -0 cp --parents -t "$scratch"
PATH=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/checkers/bin:$PATH
(cd "$scratch" && cargo cyclonedx --quiet --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu \
    --manifest-path crates/podward/Cargo.toml --override-filename sbom.cdx)
# Relative paths instead of those of the copy.
sed "s|file://$scratch/|file:///podward/|g; s|$scratch|/podward|g" "$scratch/crates/podward/sbom.cdx.json" >"$output"
