#!/bin/sh
# Installs what `make check` needs beside Rust: shellcheck from Debian, and a pinned cargo-deny into
# ${PODWARD_CACHE:-~/.cache/podward}/checkers. Does nothing when both are there.
set -eu

cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}
cargo_deny=0.20.2

say() { printf 'checkers: %s\n' "$*"; }

if ! command -v shellcheck >/dev/null; then
    say "installing shellcheck"
    [ "$(id -u)" = 0 ] || {
        say "error: must run as root to install shellcheck" >&2
        exit 1
    }
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends shellcheck >/dev/null
fi

if [ "$("$cache/checkers/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $cargo_deny" ]; then
    say "building cargo-deny $cargo_deny"
    # Unoptimised: it runs for seconds, and building it that way takes a third of the time. In a folder of its own, so
    # that a stray CARGO_TARGET_DIR or the workspace's flags do not matter.
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
    (cd / && cargo install --quiet --locked --debug --target-dir "$build" --root "$cache/checkers" "cargo-deny@$cargo_deny")
fi
