#!/bin/bash
# Runs all tests, in every build, with all compilers, linkers and rounds, as before a release, and those
# of sanitizers.sh. This takes far longer than run.sh, which runs the daily tests. In the end it prints
# how many processes were killed, and what the kills found.
#
# Usage: campaign.sh [BUILD] [CTEST-OPTION...]      the options, such as -R REGEX, choose among the tests
set -euo pipefail

build=${1:-$(dirname "$0")/../build}
shift $(($# > 0))
. "$(dirname "$0")/suites.sh"
unset COVSPLIT_TEST_PERCENT

prepare bazel-bootstrap
build_release
build_clang
build_sanitized all 14 16 19 22
test_variant release "$@"
test_variant sanitized "$@"
if [ $# -eq 0 ]; then # they choose their tests themselves
    build_and_test_sanitized memory
    build_and_test_sanitized thread
fi

step "kills"
grep -hE '[0-9] kills' "$build"/{release,sanitized}/Testing/Temporary/LastTest.log || true
finish
