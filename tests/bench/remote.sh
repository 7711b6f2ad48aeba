#!/bin/bash
# Measures reports of a program with many images whose sidecars are behind a web server, beside those from a directory. Prints
# a table; remote.py says what is measured.
#
# git and 17 of its commands are made by clang 22 unless they are in the cache, which takes some minutes of processor time. It
# needs the packages of tests/install-packages.sh, nginx, and 1 GB of disk; nothing else should run.
#
# With --write, the table of docs/benchmarks.md is written.
#
# Usage: remote.sh [--cache DIRECTORY] [--write]
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=$root/build/builds
write=()
while [ $# -gt 0 ]; do
    case $1 in
    --cache) cache=$2 && shift ;;
    --write) write=(--write "$root") ;;
    *)
        sed -n '/^# Usage/s/^# //p' "$0" >&2
        exit 2
        ;;
    esac
    shift
done

"$root/tests/install-packages.sh" nginx-light
"$root/tests/fetch.sh" "$cache" git
cmake -S "$root" -B "$cache/covsplit" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOVSPLIT_TESTS=OFF >/dev/null
ninja -C "$cache/covsplit"
python3 -B "$root/tests/bench/remote.py" "${write[@]}" "$cache" "$cache/programs" "$cache/covsplit/split/covsplit"
