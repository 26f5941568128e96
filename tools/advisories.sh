#!/bin/sh
# Checks the dependencies against the RustSec advisory database and fails if one of them has an advisory that deny.toml
# does not list. Without access to the database (no network, or a proxy that blocks GitHub) the check is skipped with
# a message, because a build machine may have access to the package registry only.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}
cargo_deny=$cache/checkers/bin/cargo-deny

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cd "$root"
if ! timeout 120 "$cargo_deny" --log-level error fetch db >"$log" 2>&1; then
    printf 'advisories: SKIPPED, failed to download the advisory database:\n'
    sed '/^$/d; s/^/    /' "$log"
    exit 0
fi
"$cargo_deny" --log-level error --offline check --hide-inclusion-graph advisories
