# Functions that run.sh and campaign.sh share. The caller sets `build`, the directory to build in.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "$build"
build=$(cd "$build" && pwd)
jobs=$(nproc)
# The tools of Debian's packages, not a version manager's scripts of the same names, which start ten
# processes for each.
PATH=/usr/bin:/bin:$PATH
cd "$root"

step() {
    printf '\n== %s\n' "$*"
}

# prepare [PACKAGE...]: with packages that only some tests need.
prepare() {
    step "packages"
    "$root/tests/install-packages.sh" "$@"

    step "layout"
    find common device formats reader share split tests \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) -print0 |
        xargs -0 -n 40 -P "$jobs" clang-format-14 --dry-run -Werror
}

# build_variant NAME CMAKE-OPTION...: builds everything, or what the variable `target` says.
build_variant() {
    local name=$1
    shift
    step "build: $name"
    cmake -S "$root" -B "$build/$name" -G Ninja -DCOVSPLIT_WERROR=ON \
        -DCOVSPLIT_TEST_CACHE="$build/fetched" "$@" >"$build/$name.configure.log" ||
        { cat "$build/$name.configure.log"; return 1; }
    cmake --build "$build/$name" --parallel "$jobs" --target "${target-all}"
}

build_release() {
    build_variant release -DCMAKE_C_COMPILER=gcc
}

# Compiles everything with the oldest clang, for its warnings, which are the same without optimization.
build_clang() {
    build_variant clang -DCMAKE_C_COMPILER=clang-14 \
        -DCMAKE_C_FLAGS_RELEASE="-O0 -DNDEBUG"
}

# build_sanitized TARGET CLANGS...: the tests of this build use images made by these compilers.
build_sanitized() {
    local target=$1 clangs
    shift
    clangs=$(IFS=';' && echo "$*")
    build_variant sanitized -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1" -DCOVSPLIT_SANITIZE=ON \
        -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold -DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=mold \
        -DCOVSPLIT_TEST_CLANGS="$clangs"
}

# build_and_test_sanitized memory|thread: with MemorySanitizer, the tests of modules, of damaged files, and
# some of each other kind; with ThreadSanitizer, those whose subjects start threads. They take ten times
# as long as others, so few rounds are run, unless COVSPLIT_TEST_PERCENT is set.
build_and_test_sanitized() {
    local sanitizer=$1 chosen
    case $sanitizer in
    memory)
        chosen='unit-.*|bad-(archives|dumps-1|files|images-1|macho-1|macho-files|objects-1|profiles)'
        chosen+='|bad-(sidecars-1|unions-1)|coff-bad-(files|images-1)|sidecar-safety|command-files|link'
        chosen+='|matrix-clang14-bfd|matrix-clang22-lld|batch|merge-files|store|export'
        ;;
    thread)
        chosen='unit-(claims|names|packed_units|parallel|profile_sum|reader.*|sidecar.*|state|zstd)'
        chosen+='|batch|merge-files|merge-state|per-image|consume|pack|archives|repack|store|store-writers'
        chosen+='|union-clang22'
        ;;
    esac
    build_variant "$sanitizer" -DCMAKE_C_COMPILER=clang-19 -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1" -DCOVSPLIT_SANITIZE="$sanitizer" \
        -DCOVSPLIT_WITH_LIEF=OFF "-DCOVSPLIT_TEST_CLANGS=14;22"
    CK_TIMEOUT_MULTIPLIER=10 COVSPLIT_TEST_PERCENT=${COVSPLIT_TEST_PERCENT-4} \
        test_variant "$sanitizer" -R "^($chosen)\$"
}

# test_variant NAME CTEST-OPTION...: adds to the counts; a failed test does not end the script. Many
# tests wait for wine, disks or timers, so twice as many tests as processors run at the same time.
tests=0
failed=0
test_variant() {
    local name=$1 line
    shift
    step "test: $name"
    ctest --test-dir "$build/$name" --parallel $((2 * jobs)) --output-on-failure --no-tests=error "$@" \
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

# Prints the last line, which counts all tests in ctest's words, and sets the script's exit status.
finish() {
    printf '\n%d%% tests passed, %d tests failed out of %d\n' \
        $((100 * (tests - failed) / tests)) "$failed" "$tests"
    [ "$failed" -eq 0 ]
}
