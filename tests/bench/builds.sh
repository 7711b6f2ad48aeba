#!/bin/bash
# Measures stores that have the sidecars of many builds, whole and as deltas: their sizes, and the costs of
# making deltas, splits, reports and joins. Prints tables; programs.py says how the builds differ, and builds.py
# what is measured.
#
# The sources come from npm's packages and Debian's (fetch.sh). The builds are made by clang 22 unless they
# are in the cache: the first of RE2 takes some five minutes of processor time, each of SQLite 25 seconds,
# and the others less than that. It needs the packages of tests/install-packages.sh, and 8 GB of disk.
#
# With --write, the tables of docs/benchmarks.md are written.
#
# Usage: builds.sh [--cache DIRECTORY] [--write] [PROGRAM:COUNT...]     PROGRAM is sqlite, leveldb, re2 or git
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=$root/build/builds
write=()
while [ $# -gt 0 ]; do
    case $1 in
    --cache) cache=$2 && shift ;;
    --write) write=(--write "$root") ;;
    *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    set -- git:10 re2:10 sqlite:10 leveldb:10 leveldb:100
fi
for word in "$@"; do
    if ! [[ $word =~ ^(sqlite|leveldb|re2|git):[0-9]+$ ]]; then
        sed -n '/^# Usage/s/^# //p' "$0" >&2
        exit 2
    fi
done

for package in better-sqlite3 leveldown re2 git; do
    "$root/tests/fetch.sh" "$cache" "$package"
done
cmake -S "$root" -B "$cache/covsplit" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOVSPLIT_TESTS=OFF >/dev/null
ninja -C "$cache/covsplit"
python3 "$root/tests/bench/builds.py" "${write[@]}" "$cache" "$cache/programs" \
    "$cache/covsplit/split/covsplit" "$@"
