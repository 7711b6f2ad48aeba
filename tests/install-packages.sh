#!/bin/bash
# Installs the Debian 12 packages that building, testing and the demo need. Quick if all of them are
# installed already.
#
# Usage: install-packages.sh [PACKAGE...]      and these
set -euo pipefail

packages=(
    # to build
    cmake ninja-build pkg-config gcc g++ libelf-dev liblief-dev libzstd-dev libxxhash-dev libdeflate-dev
    nettle-dev libcurl4-openssl-dev
    # to test
    check zlib1g-dev llvm-19-tools clang-14 clang-format-14 binutils debuginfod elfutils gdb python3 zstd xz-utils
    file g++-mingw-w64-x86-64-win32 util-linux wine wine64 groff-base zsh fish make
    dpkg-dev lintian openssl mold musl-tools patchelf dwz debugedit debhelper bolt-19
    # for other builds, and for reports
    meson autoconf automake libtool ccache lcov parallel jq git diff-cover grcov
    # to serve stores
    nginx-light rclone
)
for version in 14 16 19 22; do
    packages+=("clang-$version" "lld-$version" "llvm-$version" "libclang-rt-$version-dev")
done
# for other machines: compilers, C libraries and GNU ld, and emulators to run their programs
packages+=(qemu-user qemu-system-arm)
for triple in aarch64-linux-gnu arm-linux-gnueabihf i686-linux-gnu powerpc64le-linux-gnu \
    s390x-linux-gnu mips64el-linux-gnuabi64 riscv64-linux-gnu; do
    packages+=("gcc-$triple")
done
for architecture in arm64 armhf i386 ppc64el s390x mips64el riscv64; do
    packages+=("libc6-dev-$architecture-cross")
done
# npm is often installed from elsewhere.
if ! command -v npm >/dev/null; then
    packages+=(nodejs npm)
fi

packages+=("$@")

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    if [ "$status" != installed ]; then
        missing+=("$package")
    fi
done
if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}"
