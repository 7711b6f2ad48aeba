#!/bin/bash
# Builds the fuzz targets by clang-19, with AddressSanitizer and UndefinedBehaviorSanitizer, and runs
# each with libFuzzer, one after the other, where its last run ended. Prints a table:
#
#   executions  of this run, and a second; and all of this target so far, with the processor's minutes
#   edges       of the control flow that the corpus reaches
#   features    that libFuzzer tells inputs apart by: edges, how often each is taken, compared values
#   corpus      the number of inputs kept
#   findings    inputs on which the target failed
#
# Usage: run.sh [SECONDS] [TARGET...]      20 seconds each by default, and all targets
#
# COVSPLIT_FUZZ_DIRECTORY is where everything is kept, build/fuzz by default: corpus/TARGET, and in
# findings/TARGET the inputs that failed. They are tried again first, and removed if all is well.
# Several runs at the same time, of different targets, may use one directory.
#
# COVSPLIT_FUZZ_SANITIZERS names other sanitizers, or none if it is empty: then the decoders run three
# times as fast. Use a directory of its own, and give what it finds and keeps to the others afterwards.
#
# Exits with 0 if there is no finding, or else with 1.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
directory=${COVSPLIT_FUZZ_DIRECTORY:-$root/build/fuzz}
seconds=20
if [[ ${1-} =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi

# ---- building ----

mkdir -p "$directory"/{src,out,work,corpus,findings,logs,totals}
directory=$(cd "$directory" && pwd)
export SRC=$directory/src OUT=$directory/out WORK=$directory/work
sanitizers=${COVSPLIT_FUZZ_SANITIZERS-address,undefined}
export CC=clang-19 CXX=clang++-19
export CFLAGS="-O2 -gline-tables-only -fno-omit-frame-pointer -fsanitize=fuzzer-no-link${sanitizers:+,$sanitizers} \
-fno-sanitize-recover=all" CXXFLAGS="${sanitizers:+-fsanitize=$sanitizers}" LIB_FUZZING_ENGINE=-fsanitize=fuzzer
ln -sfn "$root" "$SRC/covsplit"
flock "$directory/lock" "$root/tests/fuzz/build.sh"

# ---- running ----

# The frames of a leak must be found before those of the function that kept the memory are gone.
export ASAN_OPTIONS=quarantine_size_mb=16:detect_stack_use_after_return=0

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    mapfile -t targets < <(sed -n 's/^\([a-z][a-z_0-9]*\) .*/\1/p' "$root/tests/fuzz/targets.txt")
fi

# count FILE PATTERN: the last number in the log that follows the pattern; 0 if there is none.
count() {
    sed -n "s/.*$2 *\([0-9][0-9]*\).*/\1/p" "$1" | tail -n 1 | grep . || echo 0
}

# What `time` prints: the processor's seconds, of the program and of the system on its behalf.
TIMEFORMAT='%U+%S'

# run_target NAME: sets `executions` and so on
run_target() {
    local name=$1 program=$OUT/fuzz_$1 log=$directory/logs/$1.log kept
    local options=() dictionary=()
    mapfile -t options < <(sed -n 's/^\(.*\) = /-\1=/p' "$program.options")
    if [ -e "$program.dict" ]; then
        dictionary=("-dict=$program.dict")
    fi
    findings=$directory/findings/$name
    mkdir -p "$directory/corpus/$name" "$findings"
    for kept in "$findings"/*; do
        if [ -e "$kept" ] && "$program" "${options[@]}" "$kept" >"$log" 2>&1; then
            rm "$kept"
        fi
    done
    used=$({ time "$program" "${options[@]}" "${dictionary[@]}" -max_total_time="$seconds" \
        -print_final_stats=1 -artifact_prefix="$findings/" "$directory/corpus/$name" \
        "$WORK/seeds/$name" >"$log" 2>&1 || true; } 2>&1)
    executions=$(count "$log" "number_of_executed_units:")
    rate=$(count "$log" "average_exec_per_sec:")
    edges=$(count "$log" "cov:")
    features=$(count "$log" "ft:")
}

status=0
printf '%-10s %12s %8s %14s %8s %7s %9s %7s %8s\n' \
    target executions each/s "in all" minutes edges features corpus findings
for name in "${targets[@]}"; do
    run_target "$name"
    read -r total minutes < <(cat "$directory/totals/$name" 2>/dev/null || echo 0 0)
    total=$((total + executions))
    minutes=$(awk "BEGIN { printf \"%.2f\", $minutes + ($used) / 60 }")
    echo "$total $minutes" >"$directory/totals/$name"
    found=$(find "$findings" -type f ! -name 'slow-unit-*' | wc -l)
    if [ "$executions" -eq 0 ] && [ "$found" -eq 0 ]; then
        echo "$name did not run: see $directory/logs/$name.log" >&2
        status=1
    fi
    printf '%-10s %12d %8d %14d %8.1f %7d %9d %7d %8d\n' "$name" "$executions" "$rate" "$total" \
        "$minutes" "$edges" "$features" "$(find "$directory/corpus/$name" -type f | wc -l)" "$found"
    if [ "$found" -ne 0 ]; then
        status=1
    fi
done
exit $status
