#!/bin/bash
# Measures covsplit on a large real program, beside what LLVM and binutils have for the same purpose:
# the sizes of images, profiles and what is kept for reports; time and memory of the split, of merging
# 100 profiles, and of a report. Prints tables; large.py says what is measured.
#
# The sources come from npm's packages (fetch.sh). The program is built twice, once for each way of
# instrumenting it, and only if it is not in the cache: that takes RocksDB 15 minutes of processor time
# each, DuckDB two hours. (--debug-info builds it once more, for LLVM's correlation by debug information,
# from which llvm-cov 19 has no report.) After that, a run takes some minutes, on a machine that does
# nothing else. It needs the packages of tests/install-packages.sh, and 4 GB of disk.
#
# With --write, the tables of docs/benchmarks.md are written, and what shown.py makes of them.
#
# Usage: large.sh [--jobs N] [--cache DIRECTORY] [--build-only] [--link-only] [--debug-info]
#                 [--write] [rocksdb | duckdb]
#
# With --link-only, the library is built in one way, and nothing more is done.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
jobs=$(nproc)
cache=$root/build/large
program=rocksdb
build_only=
link_only=
debug_info=
write=()
while [ $# -gt 0 ]; do
    case $1 in
    --jobs) jobs=$2 && shift ;;
    --cache) cache=$2 && shift ;;
    --build-only) build_only=yes ;;
    --link-only) link_only=yes ;;
    --debug-info) debug_info=yes ;;
    --write) write=(--write "$root") ;;
    rocksdb | duckdb) program=$1 ;;
    *)
        echo "usage: $0 [--jobs N] [--cache DIRECTORY] [--build-only] [--link-only]" \
            "[--debug-info] [--write] [rocksdb | duckdb]" >&2
        exit 2
        ;;
    esac
    shift
done

compiler=clang++-19
coverage="-O1 -fprofile-instr-generate -fcoverage-mapping"

# For each program: its sources, as its package lists them; their options; and the driver's.
rocksdb_sources() {
    local base=$cache/rocksdb/deps/rocksdb
    # The list in src.mk ends at the first line that does not go on.
    sed -n '/^LIB_SOURCES =/,/[^\\]$/p' "$base/rocksdb/src.mk" | grep -oE '[a-z_0-9/]+\.cc' |
        grep -v '^util/build_version' | sed "s|^|$base/rocksdb/|"
    echo "$base/build_version.cc"
}
rocksdb_options() {
    local base=$cache/rocksdb/deps/rocksdb/rocksdb
    echo "-std=c++11 -I$base -I$base/include -DROCKSDB_PLATFORM_POSIX=1 -DROCKSDB_LIB_IO_POSIX=1" \
        "-DOS_LINUX=1 -DNDEBUG -include cstdint -pthread"
}
duckdb_sources() {
    grep -oE '"src/duckdb/[A-Za-z_0-9/.+-]+\.(cpp|cc|c)"' "$cache/duckdb/binding.gyp" | tr -d '"' |
        sed "s|^|$cache/duckdb/|"
}
duckdb_options() {
    sed -n '/"include_dirs"/,/]/p' "$cache/duckdb/binding.gyp" | grep -oE '"src/[^"]*"' | tr -d '"' |
        sed "s|^|-I$cache/duckdb/|" | tr '\n' ' '
    echo "-std=c++11 -DDUCKDB_EXTENSION_PARQUET_LINKED -DDUCKDB_EXTENSION_JSON_LINKED" \
        "-DDUCKDB_EXTENSION_CORE_FUNCTIONS_LINKED -DDUCKDB_EXTENSION_ICU_LINKED -DNDEBUG -pthread"
}

# build KIND OPTIONS: libPROGRAM.so in CACHE/PROGRAM-KIND; link.sh beside it links it again.
build() {
    local place=$cache/$program-$1 options link source object objects=()
    options="-w -fPIC $coverage $2 $("${program}_options")"
    link="$compiler -shared -Wl,-z,defs $coverage -fuse-ld=lld -Wl,--build-id=sha1 -pthread"
    mkdir -p "$place"
    {
        echo "rule compile"
        echo "  command = $compiler $options -MD -MF \$out.d -c \$in -o \$out"
        echo "  depfile = \$out.d"
        echo "rule link"
        echo "  command = $link @\$out.rsp -o \$out && echo '$link @\$out.rsp -o \"\$\$1\"' >link.sh"
        echo "  rspfile = \$out.rsp"
        echo "  rspfile_content = \$in"
        while read -r source; do
            object=$(sed "s|^$cache/||; s|/|-|g" <<<"$source").o
            echo "build $object: compile $source"
            objects+=("$object")
        done < <("${program}_sources")
        echo "build lib$program.so: link ${objects[*]}"
    } >"$place/build.ninja.new"
    mv "$place/build.ninja.new" "$place/build.ninja"
    ninja -C "$place" -j "$jobs" -d keeprsp
}

# The driver has no coverage: the library alone writes profiles.
build_driver() {
    local options
    read -r -a options <<<"$("${program}_options")"
    "$compiler" -O1 -w "${options[@]}" "$root/tests/fixtures/${program}_driver.cc" \
        -L"$cache/$program-plain" "-l$program" -o "$cache/$program-driver"
}

"$root/tests/fetch.sh" "$cache" "$program"
build plain ""
if [ -n "$link_only" ]; then
    exit
fi
build binary "-mllvm -profile-correlate=binary"
if [ -n "$debug_info" ]; then
    build debug-info "-g -mllvm -profile-correlate=debug-info"
fi
build_driver
cmake -S "$root" -B "$cache/covsplit" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOVSPLIT_TESTS=OFF >/dev/null
ninja -C "$cache/covsplit"
if [ -z "$build_only" ]; then
    python3 "$root/tests/bench/large.py" "${write[@]}" "$cache" "$program"
fi
