#!/bin/bash
# Measures what the tests reach of covsplit, with covsplit: builds it and the tests with coverage (clang-19;
# lines, branches, MC/DC), splits every image in place into a store, the command itself included, runs the
# tests on the stripped images, merges their profiles with `covsplit merge`, and has llvm-cov report from
# the store. All of that is done by the command that is measured; there is no other build of it.
#
# Usage: coverage.sh [--compare] [--write] [BUILD] [CTEST-OPTION...]
#
#   BUILD         the directory to build in; default: build below the repository
#   CTEST-OPTION  chooses among the tests; default: the daily ones, but for two that look at the symbols of
#                 the module of `covsplit run`, which has more of them with coverage
#   --compare     first runs a few tests with their images split, and joined again: LLVM's tools alone must
#                 say the same of these as covsplit and llvm-cov say of the others
#   --write       puts the tables into docs/coverage.md
#
# COVSPLIT_TEST_PERCENT is as for the tests themselves; 20 if it is not set. In BUILD/coverage remain
# report.json, what llvm-cov exports, and missing.txt, each line and branch that no test reached. Exits
# with 0 only if all tests passed.
set -euo pipefail

compare=
write=
while [[ ${1-} == --* ]]; do
    case $1 in
    --compare) compare=1 ;;
    --write) write=1 ;;
    *) echo "coverage.sh: no such option: $1" >&2 && exit 2 ;;
    esac
    shift
done
build=${1:-$(dirname "$0")/../build}
shift $(($# > 0))
[ $# -gt 0 ] || set -- -L '^(quick|daily)$' -E '^(run-process|c-libraries)$'
. "$(dirname "$0")/suites.sh"
export COVSPLIT_TEST_PERCENT=${COVSPLIT_TEST_PERCENT:-20}

place=$build/coverage
covsplit=$place/split/covsplit
profiles=$place/profiles
store=$place/store
module=$place/split/libcovsplit-preload.so

# The profiles of tests that run as another user are there too.
forget_profiles() {
    rm -rf "$profiles"
    mkdir -m 1777 "$profiles"
}

# Every image of the build, each ended by a NUL. The module of `covsplit run` stays as it is: programs open it
# under `covsplit run`, and tests assert that this is the file that they get.
images() {
    find "$place" -type f \( -perm -u+x -o -name '*.so' -o -name '*.so.*[0-9]' \) \
        ! -path '*/CMakeFiles/*' ! -path '*/empty/*' ! -path "$place/joined/*" \
        ! -path "$module" ! -name '*_anywhere.so' \
        -exec sh -c 'head -c 4 "$1" | grep -q ELF' - {} \; -print0
}

# Leaves in the store only what belongs to the images of this build.
split_images() {
    step "split"
    forget_profiles
    images | xargs -0 "$covsplit" split --store "$store" -j "$jobs" --json >"$place/split.json"
    grep -o '"uuid": "[0-9a-f]*"' "$place/split.json" | cut -d '"' -f 4 |
        "$covsplit" store gc --older-than 0 --keep-list - "$store" | tail -n 1
    "$covsplit" store list "$store" | tail -n 1
}

# Tests that do the same each time: what others do depends on time or on random numbers.
same_tests=(bytes edit inverse json names object profile token_text tripwire)

# report_same DIRECTORY PROFILE [COMMAND...]: llvm-cov's report on these tests, run by the command.
report_same() {
    local -a options=()
    for name in "${same_tests[@]}"; do
        options+=(-object "$1/test_$name")
    done
    "${@:3}" llvm-cov-19 report -show-mcdc-summary -instr-profile="$2" "${options[@]}"
}

compare_reports() {
    local joined=$place/joined name
    mkdir -p "$joined"
    forget_profiles
    for name in "${same_tests[@]}"; do
        "$covsplit" join --store "$store" -o "$joined/test_$name" "$place/tests/unit/test_$name"
    done
    forget_profiles
    for name in "${same_tests[@]}"; do
        "$joined/test_$name" >/dev/null
    done
    llvm-profdata-19 merge -o "$joined/full.profdata" "$profiles"
    report_same "$joined" "$joined/full.profdata" >"$joined/full.report"

    forget_profiles
    for name in "${same_tests[@]}"; do
        "$place/tests/unit/test_$name" >/dev/null
    done
    "$covsplit" merge --store "$store" -o "$joined/light.profdata" "$profiles"
    report_same "$place/tests/unit" "$joined/light.profdata" "$covsplit" run --store "$store" -- \
        >"$joined/light.report"
    cmp "$joined/full.report" "$joined/light.report"
    tail -n 1 "$joined/light.report"
}

"$root/tests/install-packages.sh"
# Warnings: of conditions that clang has no MC/DC for.
build_variant coverage -DCMAKE_C_COMPILER=clang-19 -DCMAKE_C_FLAGS_RELEASE=-O1 -DCOVSPLIT_COVERAGE=ON \
    -DCOVSPLIT_WERROR=OFF

split_images

if [ "$compare" ]; then
    step "compare"
    compare_reports
fi

forget_profiles
test_variant coverage "$@"

step "report"
"$covsplit" merge --store "$store" -o "$place/tests.profdata" "$profiles"
"$covsplit" run --store "$store" -- llvm-cov-19 export -instr-profile="$place/tests.profdata" "$store" \
    -object "$module" >"$place/report.json"
"$root/tests/coverage.py" missing "$place/report.json" "$root" >"$place/missing.txt"
"$root/tests/coverage.py" table "$place/report.json" "$root"
if [ "$write" ]; then
    "$root/tests/coverage.py" write "$place/report.json" "$root"
fi
finish
