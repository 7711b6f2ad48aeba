#!/bin/bash
# Seeds for the targets of sidecars, of what is in them, and of profiles: covered.cc for several
# machines and by several compilers, split by covsplit.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

tools=$(dirname "$COVSPLIT")/../tests/fuzz
mkdir -p "$directory"/{decoders,encoders,sidecar}

# parts FIXED FILE...: an input of parts (parts.h) with the fixed bytes in printf's escapes
parts() {
    local file size
    printf "$1"
    shift
    for file in "$@"; do
        size=$(stat -c %s "$file")
        while [ "$size" -ge 128 ]; do
            printf "\\x$(printf %x $((size % 128 + 128)))"
            size=$((size / 128))
        done
        printf "\\x$(printf %x "$size")"
        cat "$file"
    done
}

# of_sidecar NAME SIDECAR: seeds of what the sidecar holds
of_sidecar() {
    try "$tools/fuzz_codec_seeds" "$directory" "$1" "$2"
}

# split_seeds NAME OPTION...: seeds of the image "image"
split_seeds() {
    local name=$1
    shift
    try "$COVSPLIT" split "$@" -o stripped --sidecar sidecar image || return 0
    parts '\x0f\x40\x80\x00' sidecar stripped sidecar >"$directory/sidecar/$name"
}

# ---- images without a C library ----

# freestanding NAME CLANG TARGET [OPTION...]: builds "image"
freestanding() {
    local clang=$2 target=$3 part
    local options=("--target=$target" -O1 -ffreestanding -fPIC -w)
    shift 3
    # Not every machine is known to the writer, which nothing needs that does not run.
    for part in profile_runtime profile_writer library; do
        rm -f $part.o
        [ $part = profile_runtime ] || [[ $target = x86_64-* ]] || continue
        try "clang-$clang" "${options[@]}" -isystem "$fixtures/freestanding/include" \
            -c "$fixtures/freestanding/$part.c" -o "$part.o" || return 1
    done
    options+=(-std=c++17 -fno-exceptions -DFREESTANDING -fprofile-instr-generate -fcoverage-mapping)
    try "clang-$clang" "${options[@]}" "$@" -c "$fuzz/seeds/covered.cc" -o covered.o &&
        try "clang-$clang" "${options[@]}" "$@" -DOTHER -c "$fuzz/seeds/covered.cc" -o other.o
}

link() {
    local runtime=(profile_runtime.o)
    [ ! -e profile_writer.o ] || runtime+=(profile_writer.o library.o)
    try "ld.lld-$1" -pie --build-id=fast -z max-page-size=4096 --discard-all covered.o other.o \
        --unresolved-symbols=ignore-all "${runtime[@]}" -o image
}

# machine NAME CLANG TARGET [OPTION...]
machine() {
    local name=$1-$2
    freestanding "$@" || return 0
    link "$2" || return 0
    split_seeds "$name"
    of_sidecar "$name" sidecar
    split_seeds "$name-portable" --portable
}

for clang in 14 16 19 22; do
    machine x86-64 $clang x86_64-linux-gnu
done
machine mcdc 19 x86_64-linux-gnu -fcoverage-mcdc
machine plain 19 x86_64-linux-gnu -mllvm -enable-name-compression=false
machine s390x 19 s390x-linux-gnu
machine i386 19 i386-linux-gnu
machine aarch64 19 aarch64-linux-gnu

# ---- packed objects ----

if freestanding packed 19 x86_64-linux-gnu && try "$COVSPLIT" pack covered.o other.o && link 19; then
    split_seeds packed
    of_sidecar packed sidecar
fi
