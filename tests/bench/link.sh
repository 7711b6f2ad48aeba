#!/bin/bash
# Measures a split beside the link before it, on five programs: processor time, elapsed time on one thread and on
# two, memory, and the sidecar's size. Prints a table; link.py says what is measured.
#
# The sources come from npm's packages and Debian's (fetch.sh). The programs are built by clang 19 unless they
# are in the cache: some 30 minutes of processor time. After that, a run takes two minutes, on a machine that
# does nothing else. It needs the packages of tests/install-packages.sh and 'time', and 4 GB of disk.
#
# With --before, another covsplit is measured as well, in the same turns. With --write, the table of
# docs/benchmarks.md is written.
#
# Usage: link.sh [--cache DIRECTORY] [--before COVSPLIT] [--write] [PROGRAM...]
#        PROGRAM is postgres, rocksdb, git, sqlite or re2
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=$root/build/large
options=()
while [ $# -gt 0 ]; do
    case $1 in
    --cache) cache=$2 && shift ;;
    --before) options+=(--before "$2") && shift ;;
    --write) options+=(--write "$root") ;;
    *) break ;;
    esac
    shift
done
if [ $# -eq 0 ]; then
    set -- postgres rocksdb git sqlite re2
fi
for program in "$@"; do
    case $program in
    postgres) package=postgresql-15 ;;
    sqlite) package=better-sqlite3 ;;
    git | re2 | rocksdb) package=$program ;;
    *)
        sed -n '/^# Usage/,/^#   /s/^# //p' "$0" >&2
        exit 2
        ;;
    esac
    "$root/tests/fetch.sh" "$cache" "$package"
    if [ "$program" = rocksdb ]; then
        "$root/tests/bench/large.sh" --cache "$cache" --link-only rocksdb
    fi
done
cmake -S "$root" -B "$cache/covsplit" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOVSPLIT_TESTS=OFF >/dev/null
ninja -C "$cache/covsplit"
BENCH_CLANG=clang-19 python3 "$root/tests/bench/link.py" "${options[@]}" "$cache" \
    "$cache/covsplit/split/covsplit" "$@"
