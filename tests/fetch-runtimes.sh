#!/bin/bash
# Fetches LLVM's profile runtimes for other machines than this one from Debian's packages, which are only
# unpacked, not installed (../share/download-debs.sh).
#
# The version is the current one of the archive, which keeps no older ones. It is in the name of the
# directory, so that results of compilers with different versions are not mixed up.
#
# Usage: fetch-runtimes.sh DIRECTORY
# Afterwards, DIRECTORY has a resource directory of clang for each runtime, such as "runtimes/arm64-19",
# which contains only the profile runtime. Those that exist already are not fetched again.
set -euo pipefail

# Debian's name of the architecture, and the LLVM versions
runtimes="
arm64    14 16 19 22
armhf    14 19
i386     14 19
ppc64el  14 19
s390x    14 19
mips64el 14 19
"

if [ $# -ne 1 ]; then
    echo "usage: $0 DIRECTORY" >&2
    exit 2
fi
download=$(cd "$(dirname "$0")/../share" && pwd)/download-debs.sh
mkdir -p "$1/runtimes"
cd "$1/runtimes"

# missing ARCH VERSION...: the packages of those runtimes that do not exist yet.
missing() {
    local architecture=$1 version
    shift
    for version in "$@"; do
        if [ ! -e "$architecture-$version" ]; then
            echo "libclang-rt-$version-dev"
        fi
    done
}

# Unpacks a package and keeps only the runtime, which then exists completely or not at all.
unpack() {
    local deb=$1 version
    version=$(basename "$deb" .deb)
    rm -rf "$work/root" "$work/new"
    mkdir -p "$work/root" "$work/new/lib/linux"
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --wildcards '*/libclang_rt.profile-*.a'
    mv "$work"/root/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.profile-*.a "$work/new/lib/linux"
    rm -rf "$version"
    mv "$work/new" "$version"
    # libclang-rt-19-dev_VERSION_arm64 becomes arm64-19.
    local number=${version#libclang-rt-}
    ln -sfn "$version" "${version##*_}-${number%%-*}"
}

fetch() {
    local packages
    packages=$(missing "$@")
    if [ -z "$packages" ]; then
        return
    fi
    work=$(mktemp -d "$PWD/fetch-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # shellcheck disable=SC2086
    "$download" "$1" "$work" $packages
    local deb
    for deb in "$work"/*.deb; do
        unpack "$deb"
    done
    rm -rf "$work"
    trap - EXIT
}

while read -r architecture versions; do
    if [ -n "$architecture" ]; then
        # shellcheck disable=SC2086
        fetch "$architecture" $versions
    fi
done <<<"$runtimes"
