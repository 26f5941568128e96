#!/bin/sh
# Installs programs that `make check` and `make dist` need beside Rust: checkers.sh NAME... Does nothing for those that are
# installed.
#   cargo-deny, cargo-machete, cargo-cyclonedx   pinned versions from crates.io, into ${PODWARD_CACHE:-~/.cache/podward}/checkers
#   "shellcheck"                from Debian, as root
set -eu

cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}
cargo_deny=0.20.2
cargo_machete=0.9.2
cargo_cyclonedx=0.5.9

say() { printf 'checkers: %s\n' "$*"; }
fail() {
    printf 'checkers: error: %s\n' "$*" >&2
    exit 1
}

install_shellcheck() {
    if command -v shellcheck >/dev/null; then return; fi
    say "installing shellcheck"
    [ "$(id -u)" = 0 ] || fail "shellcheck is not installed: run apt-get install shellcheck as root"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends shellcheck >/dev/null
}

# install_crate NAME VERSION [FLAG]
install_crate() {
    marker=$cache/checkers/$1-$2
    if [ -e "$marker" ] && [ -x "$cache/checkers/bin/$1" ]; then return; fi
    say "building $1 $2"
    # The temporary target folder and the working directory keep CARGO_TARGET_DIR and the settings of the workspace out of
    # the build.
    build=$(mktemp -d)
    trap 'rm -rf "$build"' EXIT
    (cd / && cargo install --quiet --locked ${3:+"$3"} --force --target-dir "$build" --root "$cache/checkers" "$1@$2")
    rm -rf "$build"
    touch "$marker"
}

for name in "$@"; do
    case $name in
    shellcheck) install_shellcheck ;;
    # Unoptimised, because it runs for seconds and builds in a third of the time.
    cargo-deny) install_crate cargo-deny "$cargo_deny" --debug ;;
    cargo-cyclonedx) install_crate cargo-cyclonedx "$cargo_cyclonedx" --debug ;;
    cargo-machete) install_crate cargo-machete "$cargo_machete" ;;
    *) fail "unknown program $name" ;;
    esac
done
