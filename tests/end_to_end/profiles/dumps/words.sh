# For the scenes of plain copies of counters.
mcdc=compile=-fcoverage-mcdc
bytes="compile=-mllvm -enable-single-byte-coverage=true"

# make PARAMETER...: a program, split with $options, and run by $emulator: `split`, `side` and light.profraw. The copies are
# counters.bin and, if there is a bitmap, bitmap.bin; $copies are the words for them.
make() {
    subject program "$@" kind=no-pie optimization=-O0 functions=12
    covsplit split ${options-} --sidecar side -o split program
    LLVM_PROFILE_FILE=light.profraw exits 3 ${emulator-} ./split >/dev/null
    part light.profraw counters counters.bin
    part light.profraw bitmap bitmap.bin
    copies="--counters counters.bin"
    if [ -s bitmap.bin ]; then
        copies+=" --bitmap bitmap.bin"
    fi
}

# wrong PROBLEM WORD...: correlate refuses these.
wrong() {
    refused correlate "${@:2}" -o no.profraw
    says "$1"
    absent no.profraw
}
