#!/bin/bash
# Installs what is needed (Debian 12), builds in every way that counts, and runs all tests:
#
#   the layout of the sources       clang-format
#   gcc, Release, -Werror           all tests
#   clang-14, Release, -Werror      builds
#   clang-19, ASan and UBSan        all tests, with two of the four compilers
#
# Usage: run.sh [BUILD]      the directory to build in; default: build below the repository
#
# The last line counts all tests, in ctest's words. Exits with 0 only where everything passed.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
mkdir -p "$build"
build=$(cd "$build" && pwd)
jobs=$(nproc)
cd "$root"

step() {
    printf '\n== %s\n' "$*"
}

# build_variant NAME CMAKE-OPTION...
build_variant() {
    local name=$1
    shift
    step "build: $name"
    cmake -S "$root" -B "$build/$name" -G Ninja -DCOVSPLIT_WERROR=ON \
        -DCOVSPLIT_TEST_CACHE="$build/fetched" "$@" >"$build/$name.configure.log" ||
        { cat "$build/$name.configure.log"; return 1; }
    cmake --build "$build/$name" --parallel "$jobs"
}

# test_variant NAME: adds to the counts; a failed test does not end the script.
tests=0
failed=0
test_variant() {
    local name=$1 line
    step "test: $name"
    ctest --test-dir "$build/$name" --parallel "$jobs" --output-on-failure --no-tests=error \
        </dev/null 2>&1 | tee "$build/$name.test.log" || true
    line=$(grep -E '^[0-9]+% tests passed, ' "$build/$name.test.log" || true)
    if [[ $line =~ ,\ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
        failed=$((failed + BASH_REMATCH[1]))
        tests=$((tests + BASH_REMATCH[2]))
    else
        echo "$name: ctest did not come to its end" >&2
        exit 1
    fi
}

step "packages"
"$root/tests/install-packages.sh"

step "layout"
find common formats reader split tests \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) -print0 |
    xargs -0 clang-format-14 --dry-run -Werror

build_variant release -DCMAKE_C_COMPILER=gcc
build_variant clang -DCMAKE_C_COMPILER=clang-14
build_variant sanitized -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCOVSPLIT_SANITIZE=ON "-DCOVSPLIT_TEST_CLANGS=14;22" -DCOVSPLIT_TEST_KILLS=50

test_variant release
test_variant sanitized

printf '\n%d%% tests passed, %d tests failed out of %d\n' \
    $((100 * (tests - failed) / tests)) "$failed" "$tests"
[ "$failed" -eq 0 ]
