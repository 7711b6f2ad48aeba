#!/bin/bash
# Seeds for the targets of the image formats: small images of program.c, for all machines.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Enough text and records that whole pages can be cut out.
long=-DLONG=a_function_with_a_name_that_is_rather_long_as_those_of_templates_are_

# ---- ELF ----

# compile_elf CLANG "OPTION..." SOURCE OBJECT [INSTRUMENTATION...]
compile_elf() {
    local clang=$1 options=$2 source=$3 object=$4
    shift 4
    # shellcheck disable=SC2086
    try "clang-$clang" $options -O1 -ffreestanding -w "$@" -c "$source" -o "$object"
}

# elf NAME CLANG "OPTION..." LINK-OPTION...: a large image and a small one
elf() {
    local name=$1 clang=$2 options=$3 part size
    shift 3
    for part in profile_runtime profile_writer library; do
        compile_elf "$clang" "$options -isystem $fixtures/freestanding/include" \
            "$fixtures/freestanding/$part.c" $part.o || return 0
    done
    for size in "$long" -DSHORT; do
        compile_elf "$clang" "$options" "$fuzz/seeds/program.c" program.o -fprofile-instr-generate \
            -fcoverage-mapping -mllvm -enable-name-compression=false "$size" || return 0
        try "ld.lld-$clang" --build-id=fast -z max-page-size=4096 --discard-all "$@" program.o \
            profile_runtime.o profile_writer.o library.o -o image || return 0
        seed elf "$name-$clang${size:0:3}" image '\0'
    done
}

for clang in 14 16 19 22; do
    elf x86-64 $clang "--target=x86_64-linux-gnu -fPIC" -pie
done
elf aarch64 19 "--target=aarch64-linux-gnu -fPIC" -pie
