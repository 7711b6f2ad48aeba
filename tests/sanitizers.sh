#!/bin/bash
# Builds with MemorySanitizer and ThreadSanitizer of clang-19, and runs the tests that profit from them.
# AddressSanitizer and UndefinedBehaviorSanitizer are part of run.sh; campaign.sh runs all four.
#
# Usage: sanitizers.sh [memory|thread] [BUILD]      BUILD: as for run.sh
set -euo pipefail

sanitizers="memory thread"
if [ "${1-}" = memory ] || [ "${1-}" = thread ]; then
    sanitizers=$1
    shift
fi
build=${1:-$(dirname "$0")/../build}
. "$(dirname "$0")/suites.sh"

prepare
for sanitizer in $sanitizers; do
    build_and_test_sanitized "$sanitizer"
done
finish
