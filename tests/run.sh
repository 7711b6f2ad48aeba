#!/bin/bash
# Installs what is needed (Debian 12), builds in every way that matters, and runs the daily tests:
#
#   the layout of the sources       clang-format
#   gcc, Release, -Werror           the tests
#   clang-19, -Werror, sanitizers   ASan and UBSan: the tests that profit from them, with images by two of the
#                                   four compilers
#
# Usage: run.sh [quick] [BUILD]      quick: the first build only, with the modules' tests and a few others
#                                    BUILD: the directory to build in; default: build below the repository
#
# Of tests with many rounds, an eighth of the rounds are run, and fewer in quick and with sanitizers;
# campaign.sh runs all of them. The last line counts all tests, in ctest's words. Exits with 0 only if
# everything passed.
set -euo pipefail

tier=daily
if [ "${1-}" = quick ]; then
    tier=quick
    shift
fi
build=${1:-$(dirname "$0")/../build}
. "$(dirname "$0")/suites.sh"

prepare
build_release
if [ $tier = quick ]; then
    COVSPLIT_TEST_PERCENT=4 test_variant release -L '^quick$'
else
    build_sanitized daily_tests 14 22
    COVSPLIT_TEST_PERCENT=12 test_variant release -L '^(quick|daily)$'
    COVSPLIT_TEST_PERCENT=5 test_variant sanitized -L '^(quick|daily)$'
fi
finish
