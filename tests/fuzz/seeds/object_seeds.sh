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
    object msvc-$clang clang++-$clang --target=x86_64-pc-windows-msvc
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
object mingw clang++-19 --target=x86_64-w64-mingw32
object arm64-msvc clang++-19 --target=aarch64-pc-windows-msvc
object i686-msvc clang++-19 --target=i686-pc-windows-msvc
object sections-msvc clang++-19 --target=x86_64-pc-windows-msvc -ffunction-sections -gcodeview -g1
# The form of objects that have too many sections for the ordinary one.
if try python3 - msvc-19.o big.o <<'PYTHON'; then
import struct
import sys

data = open(sys.argv[1], "rb").read()
machine, sections, date, symbols, count, _, _ = struct.unpack_from("<HHIIIHH", data)
more = 56 - 20
big = struct.pack("<HHHHI16sIIIIIII", 0, 0xFFFF, 2, machine, date,
                  bytes.fromhex("c7a1bad1eebaa94baf20faf66aa4dcb8"), 0, 0, 0, 0, sections, symbols + more, count)
for at in range(20, 20 + sections * 40, 40):
    header = list(struct.unpack_from("<8sIIIIIIHHI", data, at))
    for field in (4, 5):
        header[field] += more if header[field] != 0 else 0
    big += struct.pack("<8sIIIIIIHHI", *header)
big += data[20 + sections * 40:symbols]
index = 0
while index < count:
    symbol = data[symbols + index * 18:symbols + (index + 1) * 18]
    name, value, section, kind, storage, auxiliary = struct.unpack("<8sIhHBB", symbol)
    big += struct.pack("<8sIiHBB", name, value, section, kind, storage, auxiliary)
    for extra in range(1, auxiliary + 1):
        big += data[symbols + (index + extra) * 18:symbols + (index + extra + 1) * 18] + bytes(2)
    index += 1 + auxiliary
big += data[symbols + count * 18:]
open(sys.argv[2], "wb").write(big)
PYTHON
    seed object big big.o
fi
for name in x86-64-19 msvc-19; do
    cp "$name.o" "packed-$name.o"
    if try "$COVSPLIT" pack "packed-$name.o"; then
        seed object "packed-$name" "packed-$name.o"
    fi
done
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
archive coff coff "" msvc-19.o mingw.o
archive thin gnu T x86-64-19.o
archive no-index gnu S x86-64-19.o packed-x86-64-19.o
SYM64_THRESHOLD=0 archive gnu64 gnu "" x86-64-19.o
