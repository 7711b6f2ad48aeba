#!/bin/bash
# Tells which functions of common/, formats/ and reader/ no fuzz target reaches with the corpora that
# run.sh keeps (see there for COVSPLIT_FUZZ_DIRECTORY) and the seeds. Builds the targets with clang's
# coverage for that, and runs each on its corpus without an engine.
#
# Usage: reach.sh [lines]      lines: for each file, how many lines are reached, too
#
# Prints the functions by file, and a last line with the counts.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
directory=$(cd "${COVSPLIT_FUZZ_DIRECTORY:-$root/build/fuzz}" && pwd)
reach=$directory/reach
mkdir -p "$reach/profiles"
rm -f "$reach"/profiles/*

cmake -S "$root" -B "$reach/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCOVSPLIT_TESTS=OFF -DCOVSPLIT_WITH_LIEF=OFF \
    -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCOVSPLIT_FUZZ_ENGINE=replay \
    "-DCMAKE_C_FLAGS=-O1 -fprofile-instr-generate -fcoverage-mapping" >"$reach/configure.log"
cmake --build "$reach/build" --target fuzz covsplit >"$reach/build.log"

programs=()
for name in $(sed -n 's/^\([a-z][a-z_0-9]*\) .*/\1/p' "$root/tests/fuzz/targets.txt"); do
    program=$reach/build/tests/fuzz/fuzz_$name
    inputs=()
    for place in "$directory/corpus/$name" "$directory/work/seeds/$name"; do
        if [ -d "$place" ]; then
            inputs+=("$place")
        fi
    done
    LLVM_PROFILE_FILE=$reach/profiles/$name-%p.profraw "$program" "${inputs[@]}" >"$reach/$name.log" 2>&1 ||
        echo "fuzz_$name: $(tail -n 1 "$reach/$name.log")" >&2
    programs+=(-object "$program")
done

llvm-profdata-19 merge -o "$reach/all.profdata" "$reach"/profiles/*.profraw
# The command has the code that no target is linked with.
llvm-cov-19 export "$reach/build/split/covsplit" "${programs[@]}" -instr-profile="$reach/all.profdata" \
    >"$reach/all.json" 2>"$reach/export.log"
python3 - "$root" "$reach/all.json" "${1-}" <<'PYTHON'
import collections
import json
import sys

root, path, mode = sys.argv[1:]
data = json.load(open(path))["data"][0]
counts = collections.defaultdict(int)
for function in data["functions"]:
    file = function["filenames"][0].removeprefix(root + "/")
    if file.startswith(("common/", "formats/", "reader/")):
        counts[file, function["name"].split(":")[-1]] += function["count"]
by_file = collections.defaultdict(list)
for (file, name), count in sorted(counts.items()):
    by_file[file].append((name, count))
for file, functions in by_file.items():
    missing = [name for name, count in functions if count == 0]
    if len(missing) == len(functions):
        print(f"{file}: all {len(missing)}")
    elif missing:
        print(f"{file}: {' '.join(missing)}")
if mode == "lines":
    for entry in data["files"]:
        file = entry["filename"].removeprefix(root + "/")
        lines = entry["summary"]["lines"]
        if file in by_file:
            print(f"{lines['percent']:6.1f}% of {lines['count']:5} lines  {file}")
reached = sum(count != 0 for count in counts.values())
print(f"{len(counts)} functions, {reached} reached, {len(counts) - reached} not")
PYTHON
