#!/bin/bash
# Makes the files of a release:
#
#   covsplit-VERSION.tar.xz                 the sources
#   covsplit_VERSION_ARCHITECTURE.deb       Debian's packages: the command,
#   libcovsplit0_…, libcovsplit-dev_…       the library, and the files needed to compile with it
#   covsplit-VERSION-linux-MACHINE.tar.xz   the command as one static file that runs on any Linux of
#                                           this machine, x86_64 or aarch64
#   SHA256SUMS                              of all these; sha256sum --check SHA256SUMS
#
# Everything is built from the archive of the sources. With the same Debian packages installed, the
# files are the same whenever and wherever they are made. DIRECTORY must not exist; it is created only
# when everything is done.
#
# With --also aarch64, the static command is built for that machine, too: by aarch64-linux-gnu-gcc, with
# the static libraries of Debian's packages for it. qemu-aarch64 runs it to print its manual pages.
#
# Usage: release.sh [--also aarch64] DIRECTORY [CMAKE-OPTION...]
set -euo pipefail

also=
if [ "${1-}" = --also ] && [ "${2-}" = aarch64 ]; then
    also=$2
    shift 2
fi
if [ $# -lt 1 ] || [[ $1 == -* ]]; then
    echo "usage: release.sh [--also aarch64] DIRECTORY [CMAKE-OPTION...]" >&2
    exit 2
fi
umask 022
sources=$(cd "$(dirname "$0")/.." && pwd)
if [ -e "$1" ]; then
    echo "release.sh: $1 exists already" >&2
    exit 2
fi
directory=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
release=$work/release
mkdir "$release"

# run LOG COMMAND...: runs the command; prints its output only if it fails.
run() {
    local log=$work/$1.log
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
}

# configure NAME SOURCES CMAKE-OPTION...
configure() {
    local build=$work/$1 from=$2
    shift 2
    run configure cmake -S "$from" -B "$build" -G Ninja -DCOVSPLIT_TESTS=OFF "$@"
}

# package NAME CPACK-OPTION...: packages a build, and puts the packages into the release.
package() {
    local name=$1
    shift
    (cd "$work/$name" && run package cpack -B "$work/made/$name" "$@")
    find "$work/made/$name" -maxdepth 1 -type f -exec mv -t "$release" {} +
}

echo "release: sources"
configure archive "$sources"
package archive --config CPackSourceConfig.cmake
mkdir "$work/sources"
tar -C "$work/sources" -xf "$release"/covsplit-*.tar.xz --strip-components=1

echo "release: Debian's packages"
configure debian "$work/sources" -DCMAKE_INSTALL_PREFIX=/usr "$@"
run build cmake --build "$work/debian"
package debian

echo "release: the static command"
configure static "$work/sources" -DCOVSPLIT_STATIC=ON "$@"
run build cmake --build "$work/static"
package static

if [ "$also" ]; then
    echo "release: the static command for $also"
    libraries=$work/libraries/usr/lib/$also-linux-gnu
    mkdir -p "$work/debs" "$libraries"
    "$sources/share/download-debs.sh" arm64 "$work/debs" libzstd-dev libxxhash-dev libdeflate-dev nettle-dev
    for deb in "$work"/debs/*.deb; do
        dpkg-deb --extract "$deb" "$work/libraries"
    done
    export PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/libraries
    configure "static-$also" "$work/sources" -DCOVSPLIT_STATIC=ON -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR="$also" -DCMAKE_C_COMPILER="$also-linux-gnu-gcc" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-$also" -DCMAKE_EXE_LINKER_FLAGS="-L$libraries" "$@"
    run build cmake --build "$work/static-$also"
    package "static-$also"
fi

(cd "$release" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
mv "$release" "$directory"
