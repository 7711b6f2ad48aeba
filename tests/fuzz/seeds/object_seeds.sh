#!/bin/bash
# Seeds for the target of objects and archives: small objects of shared.cc, which has functions in
# groups and without, for all machines.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# object NAME COMPILER OPTION...: the object stays, as NAME.o
object() {
    local name=$1 compiler=$2
    shift 2
    try "$compiler" -O1 -w -ffreestanding -fno-exceptions -fprofile-instr-generate -fcoverage-mapping "$@" \
        -c "$fuzz/seeds/shared.cc" -o "$name.o" || return 0
    seed object "$name" "$name.o"
}

for clang in 14 16 19 22; do
    object x86-64-$clang clang++-$clang --target=x86_64-linux-gnu
done
object sections clang++-19 --target=x86_64-linux-gnu -ffunction-sections -fdata-sections
object debug clang++-19 --target=x86_64-linux-gnu -g1
object local clang++-19 --target=x86_64-linux-gnu -mno-relax -fno-addrsig
object crel clang++-22 --target=x86_64-linux-gnu -Wa,--crel,--allow-experimental-crel
object gnu clang++-19 --target=x86_64-linux-gnu -fno-integrated-as
for machine in aarch64-linux-gnu arm-linux-gnueabihf i686-linux-gnu powerpc64le-linux-gnu s390x-linux-gnu \
    mips64el-linux-gnuabi64 riscv64-linux-gnu loongarch64-linux-gnu; do
    object "${machine%%-*}" clang++-19 "--target=$machine"
done
object uncovered clang++-19 --target=x86_64-linux-gnu -fno-profile-instr-generate -fno-coverage-mapping
object bitcode clang++-19 --target=x86_64-linux-gnu -flto
cp x86-64-19.o packed-x86-64-19.o
if try "$COVSPLIT" pack packed-x86-64-19.o; then
    seed object packed-x86-64-19 packed-x86-64-19.o
fi
if try ld.bfd -r -z muldefs x86-64-14.o x86-64-22.o -o relinked.o; then
    seed object relinked relinked.o
fi

# archive NAME FORMAT "OPTION" OBJECT...
archive() {
    local name=$1 format=$2 options=$3
    shift 3
    rm -f archive
    if try llvm-ar-19 "--format=$format" "rcs$options" archive "$@"; then
        seed object "archive-$name" archive
    fi
}
cp x86-64-19.o a_file_whose_name_is_too_long_for_a_header.o
archive gnu gnu "" x86-64-19.o a_file_whose_name_is_too_long_for_a_header.o uncovered.o
archive packed gnu "" packed-x86-64-19.o
archive bsd bsd "" x86-64-19.o a_file_whose_name_is_too_long_for_a_header.o
archive darwin darwin "" x86-64-19.o
archive thin gnu T x86-64-19.o
archive no-index gnu S x86-64-19.o packed-x86-64-19.o
SYM64_THRESHOLD=0 archive gnu64 gnu "" x86-64-19.o
