#!/bin/bash
# All tests, in every build, with all compilers, linkers and rounds: what is run before a release.
# It takes far longer than run.sh, which has what is run every day.
#
# Usage: campaign.sh [BUILD] [CTEST-OPTION...]      the options, as -R REGEX, choose among the tests
set -euo pipefail

build=${1:-$(dirname "$0")/../build}
shift $(($# > 0))
. "$(dirname "$0")/suites.sh"
unset COVSPLIT_TEST_PERCENT

prepare
build_release
build_clang ON
build_sanitized 14 16 19 22
test_variant release "$@"
test_variant sanitized "$@"
finish
