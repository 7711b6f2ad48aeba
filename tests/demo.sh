#!/bin/bash
# Shows the main job on a real program: compiles SQLite for coverage, splits it, runs it, and joins it.
#
# Installs what is needed (Debian 12), builds covsplit, and works in build/demo. COVSPLIT names another
# command to show, such as the static one of a release; it may be one for another machine, with binfmt_misc or
# as a script that calls an emulator.
#
# Usage: demo.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
work=$build/demo
sqlite=$build/fetched/better-sqlite3/deps/sqlite3

size() {
    stat --format=%s "$1"
}

# row LABEL BEFORE AFTER
row() {
    printf '%-26s %10d %10d   %3d%%\n' "$1" "$2" "$3" $((100 * $3 / $2))
}

"$root/tests/install-packages.sh"
covsplit=${COVSPLIT-}
if [ -z "$covsplit" ]; then
    cmake -S "$root" -B "$build/demo-build" -G Ninja -DCOVSPLIT_TESTS=OFF >/dev/null
    cmake --build "$build/demo-build"
    covsplit=$build/demo-build/split/covsplit
fi
"$root/tests/fetch.sh" "$build/fetched"

rm -rf "$work"
mkdir -p "$work"
cd "$work"

echo "== compile SQLite with coverage (half a minute)"
clang-19 -O1 -w -fprofile-instr-generate -fcoverage-mapping -fuse-ld=lld -Wl,--build-id=sha1 \
    -I"$sqlite" -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION \
    "$sqlite/sqlite3.c" "$root/tests/fixtures/sqlite_driver.c" -lm -o sqlite

echo "== covsplit split"
"$covsplit" split -o sqlite.stripped --sidecar sqlite.covsplit sqlite
"$covsplit" show sqlite.covsplit

echo "== run both"
LLVM_PROFILE_FILE=full.profraw ./sqlite >full.txt
LLVM_PROFILE_FILE=light.profraw ./sqlite.stripped >light.txt
cmp full.txt light.txt
echo "both print the same $(wc -l <full.txt) lines"

echo "== covsplit join"
"$covsplit" join --sidecar sqlite.covsplit -o sqlite.joined sqlite.stripped
cmp sqlite sqlite.joined
echo "the joined image is the original, byte for byte"

echo "== covsplit merge"
"$covsplit" merge --sidecar sqlite.covsplit --llvm-profdata llvm-profdata-19 -o light.profdata \
    light.profraw
llvm-profdata-19 merge full.profraw -o full.profdata
cmp full.profdata light.profdata
echo "the lightweight profile, merged, is the full one, byte for byte"

echo "== covsplit report, from the profile and the sidecar"
llvm-cov-19 report sqlite -instr-profile=full.profdata >full-report.txt
"$covsplit" report --sidecar sqlite.covsplit --include / --llvm-cov llvm-cov-19 \
    --llvm-profdata llvm-profdata-19 light.profraw >light-report.txt
cmp full-report.txt light-report.txt
cat light-report.txt
echo "the report is that of the unsplit image"

echo
printf '%-26s %10s %10s\n' "bytes" before after
row "image" "$(size sqlite)" "$(size sqlite.stripped)"
row "raw profile of a run" "$(size full.profraw)" "$(size light.profraw)"
printf '%-26s %10s %10d\n' "sidecar" "" "$(size sqlite.covsplit)"
