#!/bin/sh
# Checks that podward compiles for arm64, including the C and assembly code of ring. Links nothing.
set -eu
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu
command -v aarch64-linux-gnu-gcc >/dev/null || {
    echo "check-arm64: no C compiler for arm64: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2
    exit 1
}
if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$target"; then rustup target add "$target"; fi
CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc cargo check --locked -p podward --target "$target"
