#!/bin/bash
# Builds the release program so that the result depends on the sources and the toolchain only: release-build.sh [TARGET_FOLDER]
# Prints the path of the program. Paths of this machine are replaced, and version and commit come from tools/version.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-$PWD/target/dist}
here=$PWD
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)

PODWARD_VERSION=$(tools/version.sh version)
PODWARD_COMMIT=$(tools/version.sh commit)
SOURCE_DATE_EPOCH=$(tools/version.sh epoch)
export PODWARD_VERSION PODWARD_COMMIT SOURCE_DATE_EPOCH
# The separator allows spaces in paths. C code (ring) gets the same treatment.
map() { printf -- '--remap-path-prefix=%s=%s\x1f' "$1" "$2"; }
CARGO_ENCODED_RUSTFLAGS=$(map "$folder" /target)$(map "$here" /podward)$(map "$cargo_home" /cargo)$(map "$sysroot" /rust)
export CARGO_ENCODED_RUSTFLAGS=${CARGO_ENCODED_RUSTFLAGS%$'\x1f'}
export CFLAGS="-ffile-prefix-map=$folder=/target -ffile-prefix-map=$here=/podward -ffile-prefix-map=$cargo_home=/cargo"
export CARGO_INCREMENTAL=0
unset CARGO_TARGET_DIR

cargo build --locked --release -p podward --bin podward --target-dir "$folder" >&2
echo "$folder/release/podward"
