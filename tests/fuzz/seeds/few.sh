#!/bin/bash
# Makes some of the seeds, for the tests of every build (see CMakeLists.txt): of images one of each form
# that others do not stand for, and all objects, sidecars and profiles. They are kept until a script that
# makes them changes, or the forms in sidecars or the inputs of the codec's targets do.
#
# Usage: few.sh DIRECTORY      with the built command in $COVSPLIT
set -euo pipefail

seeds=$(dirname "${BASH_SOURCE[0]}")
makers=("$seeds" "$seeds"/../codec_{input,seeds}.c "$seeds/../../../common/codec/transform.h")
mkdir -p "$1"
if [ -e "$1/complete" ] && [ -z "$(find "${makers[@]}" -newer "$1/complete")" ]; then
    exit
fi
elf="packed-14|relr-19|crel-22|bfd-19|raw-7-19|ir-19|no-id-19|arm-static-19|i686-19|i686-static-19"
elf+="|loongarch64-static-19|mips64el-19|relocations-19|zeros-19"
coff="large-symbols-19|i386-symbols-19|merged-aarch64-19|followed-19|fixed-19"
macho="no-uuid-19|opcodes-19|arm64-14|arm64-19|x86-64-19|signed-19|bundle-19"
export COVSPLIT_SEEDS="^(elf/($elf)|coff/($coff)|macho/($macho))$"
"$seeds/image_seeds.sh" "$1"
"$seeds/object_seeds.sh" "$1"
"$seeds/data_seeds.sh" "$1"
touch "$1/complete"
