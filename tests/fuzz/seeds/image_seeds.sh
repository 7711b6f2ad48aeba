#!/bin/bash
# Seeds for the targets of the image formats: small images of program.c, of all kinds.
#
# Of most there are two: a short one, and one with enough names, records and mapping that whole pages
# can be cut out.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

coverage="-fprofile-instr-generate -fcoverage-mapping -mllvm -enable-name-compression=false"
long=-DLONG=a_function_with_a_name_that_is_rather_long_as_those_of_templates_are_

# What the functions below take from their callers: options for the program's compilation and for the
# runtime's, whether the program's object is packed, the files of the runtime, the linker, the sizes.
instrument=$coverage
runtime=
packed=
parts="profile_runtime profile_writer library"
linker=
sizes="-DSHORT $long"

# compile CLANG "OPTION..." SOURCE OBJECT
compile() {
    # shellcheck disable=SC2086
    try "clang-$1" $2 -Os -w -c "$3" -o "$4"
}

# compile_program CLANG "OPTION..." NAME-SUFFIX
compile_program() {
    compile "$1" "$2 $instrument" "$fuzz/seeds/program.c" program.o &&
        { [ -z "$packed" ] || try "$COVSPLIT" pack program.o; }
}

# ---- ELF ----

# elf NAME CLANG "OPTION..." LINK-OPTION...
elf() {
    local name=$1 clang=$2 options=$3 part size
    shift 3
    wanted "elf/$name-$clang" || return 0
    for part in $parts; do
        compile "$clang" "$options $runtime -ffreestanding -isystem $fixtures/freestanding/include" \
            "$fixtures/freestanding/$part.c" $part.o || return 0
    done
    for size in $sizes; do
        compile_program "$clang" "$options $size -ffreestanding" || return 0
        try "${linker:-ld.lld-$clang}" -z max-page-size=4096 --discard-all "$@" program.o \
            ${parts// /.o }.o -o image || return 0
        seed elf "$name-$clang-${size:2:1}" image '\0'
    done
}

x86="--target=x86_64-linux-gnu"
for clang in 14 16 19 22; do
    elf x86-64 $clang "$x86 -fPIC" -pie --build-id=sha1
    packed=yes elf packed $clang "$x86 -fPIC" -pie --build-id=sha1
done
sizes=-DSHORT
for version in 7 9 11; do
    runtime=-DPROFILE_RAW_VERSION=$version elf raw-$version 19 "$x86 -fPIC" -pie --build-id=sha1
done
elf no-id 19 "$x86 -fPIC" -pie
elf frame 19 "$x86 -fPIC -O0 -fcf-protection=full -fno-omit-frame-pointer" -pie --build-id=fast
elf stripped 19 "$x86 -fPIC" -pie --strip-all
instrument=-O1 elf uncovered 19 "$x86 -fPIC" -pie --build-id=sha1
instrument="$coverage -fcoverage-mcdc" elf mcdc 19 "$x86 -fPIC" -pie --build-id=sha1
instrument="-fprofile-generate -mllvm -disable-vp=true" elf ir 19 "$x86 -fPIC" -pie --build-id=sha1
instrument=-fprofile-generate elf values 19 "$x86 -fPIC" -pie --build-id=sha1
instrument="$coverage -mllvm -profile-correlate=binary" elf correlated 19 "$x86 -fPIC" -pie --build-id=sha1
instrument="-fprofile-instr-generate -fcoverage-mapping" elf zlib 19 "$x86 -fPIC" -pie --build-id=sha1
elf debug 19 "$x86 -fPIC -g1" -pie --build-id=sha1
elf relocations 19 "$x86 -fPIC" -pie --build-id=sha1 --emit-relocs
sizes=$long
elf relr 19 "$x86 -fPIC" -pie --build-id=sha1 --pack-dyn-relocs=relr
elf android 19 "$x86 -fPIC" -pie --build-id=sha1 --pack-dyn-relocs=android
elf crel 22 "$x86 -fPIC" -pie --build-id=sha1 --emit-relocs
elf static 19 "$x86 -fno-pic" -static --build-id=sha1
elf zeros 19 "$x86 -fPIC -DZEROS" -pie --build-id=sha1
elf shared 19 "$x86 -fPIC -DLIBRARY" -shared --build-id=sha1
elf segments 19 "$x86 -fPIC" -pie --build-id=sha1 -z separate-loadable-segments
elf one-segment 19 "$x86 -fPIC" -pie --build-id=sha1 --no-rosegment
elf folded 19 "$x86 -fPIC -ffunction-sections" -pie --build-id=sha1 --icf=all
for linker in ld.bfd ld.gold mold; do
    elf "${linker#ld.}" 19 "$x86 -fPIC" -pie --build-id=sha1
done
linker=ld.bfd elf relr-bfd 19 "$x86 -fPIC" -pie --build-id=sha1 -z pack-relative-relocs
linker=
# The writer is not for all machines.
parts=profile_runtime
for machine in "aarch64-linux-gnu" "arm-linux-gnueabihf" "arm-linux-gnueabihf -mthumb" \
    "i686-linux-gnu" "powerpc64le-linux-gnu" "s390x-linux-gnu" "mips64el-linux-gnuabi64" \
    "riscv64-linux-gnu" "riscv32-linux-gnu" "loongarch64-linux-gnu"; do
    name=${machine/-linux-gnu* -m/-}
    name=${name%%-linux*}
    elf "$name" 19 "--target=$machine -fPIC -DLIBRARY" -shared --build-id=sha1 \
        --unresolved-symbols=ignore-all
    elf "$name-static" 19 "--target=$machine -fno-pic" -static --build-id=sha1 \
        --unresolved-symbols=ignore-all
done
packed=yes elf packed-s390x 19 "--target=s390x-linux-gnu -fPIC -DLIBRARY" -shared --build-id=sha1
sizes="-DSHORT $long"

# Records of the layout that compilers later than these write.
for part in profile_runtime profile_writer library; do
    compile 19 "$x86 -fPIC -DPROFILE_RAW_VERSION=11 -ffreestanding -isystem $fixtures/freestanding/include" \
        "$fixtures/freestanding/$part.c" $part.o
done
if try clang-19 $x86 -fPIC -Os -w $coverage -ffreestanding -S -emit-llvm "$fuzz/seeds/program.c" -o before.ll &&
    try python3 "$fuzz/../support/raw_version_ir.py" before.ll after.ll &&
    try clang-19 $x86 -fPIC -w -c after.ll -o program.o &&
    try ld.lld-19 -pie --build-id=sha1 program.o profile_runtime.o profile_writer.o library.o -o image; then
    seed elf raw-11-19-records image '\0'
fi

# Of a unit that is packed and one that is not, which have functions in common.
mixed() {
    local run
    compile 19 "$x86 -fPIC -ffreestanding" "$fixtures/freestanding/profile_runtime.c" profile_runtime.o || return 0
    for run in first second; do
        try clang++-19 $x86 -fPIC -Os -w -ffreestanding -fno-exceptions $coverage -DRUN=$run \
            -c "$fuzz/seeds/shared.cc" -o $run.o || return 0
    done
    try "$COVSPLIT" pack "$1.o" &&
        try ld.lld-19 -shared --build-id=sha1 -z max-page-size=4096 first.o second.o profile_runtime.o -o image &&
        seed elf "mixed-$1" image '\0'
}
mixed first
mixed second

# A program for a device, which is in flash at other addresses than it runs.
for size in -DSHORT "$long"; do
    if compile 19 "--target=thumbv7m-none-eabi -ffreestanding" "$fixtures/freestanding/profile_runtime.c" \
        profile_runtime.o &&
        compile 19 "--target=thumbv7m-none-eabi -ffreestanding $coverage $size" "$fuzz/seeds/program.c" program.o &&
        try ld.lld-19 -n --build-id=sha1 -T "$fuzz/../../share/examples/device/device.ld" program.o \
            profile_runtime.o -o image; then
        seed elf "device-${size:2:1}" image '\0'
    fi
done

# ---- COFF ----

# compile_windows CLANG TARGET: the runtime's objects
compile_windows() {
    local part
    for part in sections writer; do
        compile "$1" "--target=$2 $runtime -ffreestanding -DPROFILE_MODULE=\"image\"" \
            "$fixtures/windows/profile_$part.c" $part.o || return
    done
}

for machine in x64:i386:x86-64 arm64:arm64 x86:i386; do
    definition=$fixtures/windows/kernel32.def
    options=
    if [ $machine = x86:i386 ]; then
        definition=$fixtures/windows/kernel32-x86.def
        options=-k
    fi
    try llvm-dlltool-19 $options -m "${machine#*:}" -d "$definition" -l "kernel32-${machine%%:*}.lib" || true
done

# coff NAME CLANG ARCHITECTURE MACHINE LINK-OPTION...
coff() {
    local name=$1 clang=$2 target=$3-pc-windows-msvc machine=$4 size
    shift 4
    wanted "coff/$name-$clang" || return 0
    compile_windows "$clang" "$target" || return 0
    for size in $sizes; do
        compile_program "$clang" "--target=$target $size -DLIBRARY -DWRITES -ffreestanding" || return 0
        rm -f image.pdb
        try "lld-link-$clang" "/machine:$machine" /dll /noentry /nodefaultlib "$@" program.o sections.o \
            writer.o "kernel32-$machine.lib" /out:image || return 0
        seed coff "$name-$clang-${size:2:1}" image '\0'
    done
}

for clang in 14 16 19 22; do
    coff x86-64 $clang x86_64 x64 /debug
done
coff aarch64 19 aarch64 arm64 /debug
sizes=-DSHORT
coff i386 19 i686 x86 /debug /safeseh:no
coff symbols 19 x86_64 x64 /debug:symtab /build-id
coff i386-symbols 19 i686 x86 /debug:symtab /safeseh:no
coff aarch64-symbols 19 aarch64 arm64 /debug:symtab
coff exports 19 x86_64 x64 /debug /export:__llvm_profile_begin_data /export:__llvm_profile_end_data \
    /export:__llvm_profile_begin_names /export:__llvm_profile_end_names
coff no-id 19 x86_64 x64 /build-id:no
coff fixed 19 x86_64 x64 /debug /dynamicbase:no /fixed
coff merged-names 19 x86_64 x64 /debug /merge:.lprfn=.rdata
runtime=-DPROFILE_MERGED coff merged 19 x86_64 x64 /debug
runtime=-DPROFILE_MERGED coff merged-no-id 19 x86_64 x64 /build-id:no
runtime="-DPROFILE_MERGED -DPROFILE_FOLLOWED" coff followed 19 x86_64 x64 /debug
instrument="$coverage -mllvm -profile-correlate=binary" coff correlated 19 x86_64 x64 /debug
instrument=-O1 coff uncovered 19 x86_64 x64 /debug
sizes=$long
runtime=-DPROFILE_MERGED coff merged-aarch64 19 aarch64 arm64 /debug
coff large-symbols 19 x86_64 x64 /debug:symtab
coff guard 19 x86_64 x64 /debug /guard:cf

# mingw NAME LINK-OPTION...
mingw() {
    local name=$1 target=x86_64-w64-mingw32
    shift
    wanted "coff/mingw-$name" || return 0
    compile_windows 19 $target &&
        compile_program 19 "--target=$target -DSHORT -DLIBRARY -DWRITES -ffreestanding" &&
        try clang-19 --target=$target -fuse-ld=lld -shared -nostdlib -Wl,-e,program_entry "$@" program.o \
            sections.o writer.o kernel32-x64.lib -o image || return 0
    seed coff "mingw-$name" image '\0'
}
mingw plain -Wl,--build-id
mingw stripped -Wl,--build-id -s
sizes="-DSHORT $long"

# ---- Mach-O ----

# Symbols that an image needs least, and that make it large.
cat >local <<'END'
___prof?_*
_a_function_*
___covrec_*
END

# macho NAME CLANG ARCHITECTURE LINK-OPTION...: the images stay, as macho-NAME, for those below
macho() {
    local name=$1 clang=$2 architecture=$3 size
    local target="--target=$architecture-apple-macos13"
    shift 3
    wanted "macho/$name-$clang" || return 0
    compile "$clang" "$target -ffreestanding" "$fixtures/darwin/profile_runtime.c" runtime.o &&
        compile "$clang" "$target -ffreestanding" "$fixtures/darwin/profile_writer.c" writer.o || return 0
    for size in $sizes; do
        compile_program "$clang" "$target $size -DLIBRARY -DWRITES -ffreestanding" || return 0
        try "ld64.lld-$clang" -arch "$architecture" -platform_version macos 13 13 -dylib -install_name lib \
            -undefined dynamic_lookup -non_global_symbols_strip_list local "$@" program.o runtime.o writer.o -o "macho-$name" || return 0
        seed macho "$name-$clang-${size:2:1}" "macho-$name" '\0'
    done
}

for clang in 14 16 19 22; do
    macho arm64 $clang arm64 -fixup_chains
done
macho x86-64 19 x86_64 -fixup_chains
macho opcodes 19 x86_64 -no_fixup_chains
# For its pages of 16 KiB.
sizes=$long$(printf 'and_longer_%.0s' {1..15})
macho arm64 19 arm64 -fixup_chains
macho opcodes-arm64 19 arm64 -no_fixup_chains
sizes=-DSHORT
macho no-uuid 19 arm64 -no_uuid
macho signed 19 x86_64 -adhoc_codesign
instrument=-O1 macho uncovered 19 arm64
macho bundle 19 arm64 -bundle
if try llvm-lipo-19 -create macho-no-uuid macho-signed -output universal; then
    seed macho universal universal '\0'
    seed macho universal-drop universal '\20'
fi
for options in '\1' '\2' '\3' '\4' '\5' '\6' '\10' '\20'; do
    if [ -e "$directory/elf/x86-64-19-S" ]; then
        head -c -1 "$directory/elf/x86-64-19-S" >image
        seed elf "options-${options#?}" image "$options"
    fi
done
