#!/bin/bash
# Seeds for the targets of sidecars, of what is in them, and of profiles: covered.cc for several
# machines and by several compilers, split by covsplit.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

tools=$(dirname "$COVSPLIT")/../tests/fuzz
mkdir -p "$directory"/{decoders,encoders,profile,sidecar,snapshot,state}

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
    local name=$1 bits
    shift
    try "$COVSPLIT" split "$@" -o stripped --sidecar sidecar image || return 0
    for bits in 11 22 44 88; do # what is done with the sidecar: sidecar.c
        parts "\\x$bits\\x40\\x80\\x00" sidecar stripped sidecar >"$directory/sidecar/$name-$bits"
    done
}

# digest FILE: XXH3-128
digest() {
    python3 - "$1" <<'END'
import ctypes, sys
class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
hash = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
hash.argtypes, hash.restype = [ctypes.c_char_p, ctypes.c_size_t], Hash
data = open(sys.argv[1], "rb").read()
value = hash(data, len(data))
print(f"{value.high:016x}{value.low:016x}")
END
}

# delta_seeds NAME OPTION...: the sidecar of "image" as the delta to the one with these options
delta_seeds() {
    local name=$1 bits base packed
    shift
    rm -rf store
    try "$COVSPLIT" split "$@" -o stripped --sidecar base.covsplit image &&
        try "$COVSPLIT" split --store store -o stripped image || return 0
    mkdir -p store/.build-id/bases
    base=store/.build-id/bases/$(digest base.covsplit).base
    mv base.covsplit "$base"
    try "$COVSPLIT" store delta --level 3 store || return 0
    packed=$(echo store/.build-id/??/*.covsplit)
    for bits in 10 20 44 80; do
        parts "\\x$bits\\x40\\x80\\x00" "$packed" stripped "$base" >"$directory/sidecar/$name-$bits"
    done
}

# core_seeds NAME: of the images "image" and "stripped", which have the byte order and class of x86-64
core_seeds() {
    local image
    : >none
    for image in image stripped; do
        try python3 "$fuzz/seeds/core_of_image.py" $image core || continue
        parts '\0\0\0\0' core $image none >"$directory/snapshot/$1-$image-file"
        parts '\0\0\0\0' core none sidecar >"$directory/snapshot/$1-$image-sidecar"
        if try zstd -q -f core -o compressed; then
            parts '\0\0\0\0' compressed $image none >"$directory/snapshot/$1-$image-compressed"
        fi
    done
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

kind=-pie
link() {
    local runtime=(profile_runtime.o)
    [ ! -e profile_writer.o ] || runtime+=(profile_writer.o library.o)
    try "ld.lld-$1" "$kind" --build-id=fast -z max-page-size=4096 --discard-all covered.o other.o \
        --unresolved-symbols=ignore-all "${runtime[@]}" -o image
}

# machine NAME CLANG TARGET [OPTION...]
machine() {
    local name=$1-$2
    freestanding "$@" || return 0
    link "$2" || return 0
    split_seeds "$name"
    of_sidecar "$name" sidecar
    [[ $3 = i386-* || $3 = s390x-* ]] || core_seeds "$name"
    split_seeds "$name-portable" --portable
    delta_seeds "$name-delta" --level 1
    delta_seeds "$name-delta-portable" --portable
}

for clang in 14 16 19 22; do
    machine x86-64 $clang x86_64-linux-gnu
done
machine mcdc 19 x86_64-linux-gnu -fcoverage-mcdc
machine plain 19 x86_64-linux-gnu -mllvm -enable-name-compression=false
machine aarch64 19 aarch64-linux-gnu
machine i386 19 i386-linux-gnu
kind=-no-pie # the linker writes no sound dynamic section for it
machine s390x 19 s390x-linux-gnu
kind=-pie

# ---- packed objects ----

if freestanding packed 19 x86_64-linux-gnu; then
    # Some objects, then all.
    for part in other covered; do
        try "$COVSPLIT" pack $part.o && link 19 || continue
        split_seeds packed-$part
        of_sidecar packed-$part sidecar
    done
fi

# ---- profiles ----

# with_runtime CLANG [OPTION...]: builds "image", which runs
with_runtime() {
    local clang=$1
    shift
    try "clang-$clang" -O1 -w -std=c++17 -fno-exceptions "$@" -c "$fuzz/seeds/covered.cc" -o covered.o &&
        try "clang-$clang" -O1 -w -std=c++17 -fno-exceptions "$@" -DOTHER -c "$fuzz/seeds/covered.cc" \
            -o other.o &&
        try "clang-$clang" "$@" -Wl,--build-id covered.o other.o -o image
}

# run_image IMAGE PROFILE
run_image() {
    LLVM_PROFILE_FILE=$work/$2 try "./$1"
}

# profiles NAME CLANG [OPTION...]: of the image before and after the split
profiles() {
    local name=$1-$2
    shift
    rm -f ./*.profraw sidecar
    with_runtime "$@" && run_image image full.profraw || return 0
    : >sidecar
    if try "$COVSPLIT" split -o stripped --sidecar sidecar image && run_image stripped light.profraw; then
        parts '\0\0\0\0' light.profraw full.profraw sidecar light.profraw >"$directory/profile/$name-light"
    fi
    parts '\0\0\0\0' full.profraw full.profraw sidecar >"$directory/profile/$name-full"
    if try python3 "$fuzz/../support/sparse_profile.py" make full.profraw sparse; then
        parts '\0\0\0\0' sparse full.profraw sidecar >"$directory/profile/$name-sparse"
        parts '\x15\0\0\0\0' sparse >"$directory/decoders/$name-sparse"
    fi
}

covered="-fprofile-instr-generate -fcoverage-mapping"
for clang in 14 16 19 22; do
    # shellcheck disable=SC2086
    profiles run $clang $covered
done
# shellcheck disable=SC2086
{
    profiles mcdc 19 $covered -fcoverage-mcdc
    profiles binary 19 $covered -mllvm -profile-correlate=binary
}
profiles pgo 16 -fprofile-generate
profiles bytes 16 -fprofile-generate -mllvm -pgo-function-entry-coverage

# ---- states ----

# state_seed NAME: of the state "state"
state_seed() {
    parts '\0\0\0\0' state/covsplit-state sidecar state/images/* $(find state/batches -type f) \
        >"$directory/state/$1"
}

# shellcheck disable=SC2086
if with_runtime 19 $covered && try "$COVSPLIT" split -o stripped --sidecar sidecar image; then
    for run in first second third; do
        run_image stripped $run.profraw
        try "$COVSPLIT" merge --sidecar sidecar --into state $run.profraw
    done
    state_seed light
    run_image image full.profraw
    try "$COVSPLIT" merge --sidecar sidecar --into state full.profraw
    state_seed full
    try "$COVSPLIT" export --sidecar sidecar --union -o union.a
    parts '\1\0\0\0' union.a >"$directory/state/union"
fi
