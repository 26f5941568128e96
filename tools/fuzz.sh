#!/bin/bash
# Builds the fuzz targets and runs each of them: fuzz.sh SECONDS [TARGET...]. With 0 seconds each target only replays its
# seeds, as a smoke test. Needs a C++ compiler for libFuzzer, but not cargo-fuzz: flags of the stable compiler enable the
# coverage instrumentation. The address sanitizer is not used, because the parsers contain no unsafe code.
#
# New inputs are stored in ${PODWARD_CACHE:-~/.cache/podward}/fuzz/<target>, failing ones in fuzz/artifacts/<target>. Replay
# one with `target/fuzz/<triple>/release/<target> FILE`.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${PODWARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/podward}/fuzz
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
triple=$(rustc -vV | sed -n 's/^host: //p')
targets=("$@")
if [ $# = 0 ]; then
    # Every target, so that a new one cannot be forgotten here.
    mapfile -t targets < <(cd "$root/fuzz/fuzz_targets" && printf '%s\n' *.rs | sed 's/\.rs$//')
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
# With an explicit target, the flags do not apply to build scripts and procedural macros.
RUSTFLAGS=$flags cargo build --quiet --locked --release --manifest-path "$root/fuzz/Cargo.toml" \
    --target "$triple" --target-dir "$root/target/fuzz" "${targets[@]/#/--bin=}"

failed=()
summary=()
for target in "${targets[@]}"; do
    found=$cache/$target
    artifacts=$root/fuzz/artifacts/$target
    mkdir -p "$found" "$artifacts"
    corpus=("$found" "$root/fuzz/corpus/$target")
    case $target in
    document | manifest) corpus+=("$root/crates/manifest/testdata/static_uid" "$root/examples") ;;
    config) corpus+=("$root/crates/config/src/load/testdata") ;;
    esac
    max_length=4096
    # Each entry of an archive takes at least 512 bytes.
    [ "$target" != image_layer ] || max_length=16384
    options=(-artifact_prefix="$artifacts/" -rss_limit_mb=1024 -timeout=10 -max_len="$max_length" -print_final_stats=1)
    case $seconds in
    0) options+=(-runs=0) ;;
    *) options+=(-max_total_time="$seconds") ;;
    esac
    say "running $target for $seconds s"
    log=$cache/$target.log
    if "$root/target/fuzz/$triple/release/$target" "${options[@]}" "${corpus[@]}" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
        coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -1 || true)
        say "$target: passed after $runs inputs, $coverage"
        summary+=("$(printf '%-20s %12s inputs  %s' "$target" "$runs" "$coverage")")
    else
        say "$target: FAILED; last lines of $log:"
        tail -n 25 "$log"
        failed+=("$target")
    fi
done
say "coverage (edges reached) of ${#targets[@]} targets:"
[ ${#summary[@]} = 0 ] || printf '  %s\n' "${summary[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    say "failed: ${failed[*]}"
    exit 1
fi
