#!/bin/sh
# Builds a program on one machine, runs it on another, and reports its coverage on a third.
#
# Directories in DIRECTORY, which must not exist, stand for the machines. Only the image gets to the
# device, only profiles come back from it, and the build host is gone before the report is made.
#
# This needs covsplit, and clang, llvm-profdata and llvm-cov of one version, 16 or later, in PATH.
#
# Usage: ship.sh DIRECTORY [WORD...]      the words are arguments of the program
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir "$1"
cd "$1"
shift
mkdir build device device/profiles report

echo "== build host: the image is shipped, its sidecar is archived"
cp "$here/greet.c" build/
(
    cd build
    clang -fprofile-instr-generate -fcoverage-mapping -Wl,--build-id -static -o greet greet.c
    covsplit split --store sidecars greet
)
cp build/greet device/
cp -r build/sidecars report/
rm -r build

echo "== device: the program runs, and writes a small profile"
# Root can leave the program alone with its directory. %m: all runs of an image add up in one profile.
if [ "$(id -u)" -eq 0 ]; then
    LLVM_PROFILE_FILE=/profiles/greet-%m.profraw chroot device /greet "$@"
else
    (cd device && LLVM_PROFILE_FILE=profiles/greet-%m.profraw ./greet "$@")
fi
ls -l device/greet device/profiles
cp -r device/profiles report/
rm -r device

echo "== report host: profiles and sidecars, but no image"
cd report
covsplit merge --store sidecars -o greet.profdata profiles
covsplit export --store sidecars --debug-dir objects
llvm-cov report -instr-profile=greet.profdata -debug-file-directory=objects
