#!/bin/bash
# Makes the files of a release:
#
#   covsplit-VERSION.tar.xz                 the sources
#   covsplit_VERSION_ARCHITECTURE.deb       Debian's packages: the command,
#   libcovsplit0_…, libcovsplit-dev_…       the library, and the files needed to compile with it
#   covsplit-VERSION-linux-MACHINE.tar.xz   the command as one static file that runs on any Linux
#   SHA256SUMS                              of all these; sha256sum --check SHA256SUMS
#
# Everything is built from the archive of the sources. With the same Debian packages installed, the
# files are the same whenever and wherever they are made. DIRECTORY must not exist; it is created only
# when everything is done.
#
# Usage: release.sh DIRECTORY [CMAKE-OPTION...]
set -euo pipefail

if [ $# -lt 1 ]; then
    echo "usage: release.sh DIRECTORY [CMAKE-OPTION...]" >&2
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

(cd "$release" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
mv "$release" "$directory"
