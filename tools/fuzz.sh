#!/bin/bash
# Builds the fuzz targets and runs each for a while: fuzz.sh SECONDS [TARGET...]. With 0 seconds the seeds are
# replayed once, as a smoke test. Needs a C++ compiler for libFuzzer, and no cargo-fuzz: coverage comes from flags that
# the stable compiler knows. Address checking is left out, because the parsers are free of unsafe code.
#
# New inputs go to ${PODWARD_CACHE:-~/.cache/podward}/fuzz/<target>; a failing one to fuzz/artifacts/<target>, which
# `target/fuzz/<triple>/release/<target> FILE` replays.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/fuzz
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
triple=$(rustc -vV | sed -n 's/^host: //p')
targets=("$@")
if [ $# = 0 ]; then
    targets=(document manifest config resolv_conf image_name log_folder log_lines log_queries stream_channels spdy_frames)
fi

say() { printf 'fuzz: %s\n' "$*"; }

command -v c++ >/dev/null || {
    say "error: no C++ compiler; install Debian's g++" >&2
    exit 1
}
say "building ${targets[*]}"
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
# With an explicit target, build scripts and macros stay free of the flags.
RUSTFLAGS=$flags cargo build --quiet --locked --release --manifest-path "$root/fuzz/Cargo.toml" \
    --target "$triple" --target-dir "$root/target/fuzz" "${targets[@]/#/--bin=}"

failed=()
for target in "${targets[@]}"; do
    found=$cache/$target
    artifacts=$root/fuzz/artifacts/$target
    mkdir -p "$found" "$artifacts"
    corpus=("$found" "$root/fuzz/corpus/$target")
    case $target in
    document | manifest) corpus+=("$root/crates/manifest/testdata/static_uid" "$root/examples") ;;
    config) corpus+=("$root/crates/config/src/load/testdata") ;;
    esac
    options=(-artifact_prefix="$artifacts/" -rss_limit_mb=1024 -timeout=10 -max_len=4096 -print_final_stats=1)
    case $seconds in
    0) options+=(-runs=0) ;;
    *) options+=(-max_total_time="$seconds") ;;
    esac
    say "$target for $seconds s"
    log=$cache/$target.log
    if "$root/target/fuzz/$triple/release/$target" "${options[@]}" "${corpus[@]}" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
        say "$target: fine after $runs inputs, $(grep -o 'cov: [0-9]*' "$log" | tail -1)"
    else
        say "$target: FAILED; the log $log ends with"
        tail -n 25 "$log"
        failed+=("$target")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]}"
    exit 1
fi
