#!/bin/bash
# Seeds for the target of map files: the map of lld-link, and the image without symbols that it is of.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# map NAME ARCHITECTURE MACHINE LINK-OPTION...
map() {
    local name=$1 machine=$3 target=--target=$2-pc-windows-msvc
    shift 3
    try clang-19 "$target" -O1 -w -ffreestanding -c "$fixtures/windows/profile_sections.c" -o sections.o &&
        try clang-19 "$target" -O1 -w -ffreestanding -DLIBRARY -fprofile-instr-generate -fcoverage-mapping \
            -c "$fuzz/seeds/program.c" -o program.o &&
        try lld-link-19 "/machine:$machine" /dll /noentry /nodefaultlib "$@" program.o sections.o \
            /out:image /map:image.map || return 0
    seed map "$name" image.map '\0'
    cat image >>"$directory/map/$name"
    printf '\0' >>"$directory/map/$name"
}

map x86-64 x86_64 x64
map aarch64 aarch64 arm64
map i386 i686 x86 /safeseh:no
map merged x86_64 x64 /merge:.lprfd=.data /merge:.lprfn=.rdata
map no-id x86_64 x64 /build-id:no
