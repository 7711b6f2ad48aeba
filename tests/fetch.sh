#!/bin/bash
# Fetches the sources of the real programs that the tests and the demo compile, real images for
# Darwin that the tests split and join, and a server that a recipe uploads to, and checks their digests.
# None of them is kept in the repository.
#
# Usage: fetch.sh DIRECTORY [PACKAGE]
# Afterwards, DIRECTORY has a directory for each package, such as "leveldown". Those that exist already
# are not fetched again. With PACKAGE, only that one is fetched: packages that only benchmarks compile
# are fetched only in this way.
set -euo pipefail

# package, version, SHA-512 of the tarball
packages="
better-sqlite3 11.10.0 13084ea725e23842ff94acc7cfd016d66b1614dcc673fcfe2f3781dff8e7149a71bbeb61db2aafcec4966acd6ff6382cf7ec625c9703e40f02271006d936a085
leveldown      6.1.1   f3c73e13e122ce7e029103811f0aa50896933448c6a5a1088a49f54be70835ce44f4712f27bedba98e0963f1f14f9bb471a5aab1cdcfdc370520a048d6f1edf8
re2             1.24.0  a419ba70c68e6f461bd2483449fc3f9382f00cc90f49c6ff35577b1ab125943c1fb0f66cb6c648a3ddc0e8d9f4c19b96270de1e7b19dce4ace93cd44a1f298fe
@esbuild/darwin-arm64 0.28.2 9f82aa90e42badac4725c82333546fc1b8a07d028828956933bc69f8ab318b2512ad17485e7b7bdd586b3c0c747d5e388607e62152a3c4c37d275b798f249593
@esbuild/darwin-x64 0.28.2 baaeacb885983f7eeacc675d04a3f0e501103e2e8788b1ac3bb5269297f2698350dc3fab37ac3a59fc07fa7baa7065d6bdac06c31384ae83b86069c587de5acf
@biomejs/cli-darwin-arm64 2.5.15 05957316127f994bd32cc61b73dc7a7a5d28d94bf9ccfedb0026328456fa7d2735822ae85e6ecf2f46b92aa309f45fbf0679184636a00ff44e48354e67a79aa6
"
# source package of Debian, version of its upstream tarball and how that is compressed, SHA-512 of it
debian_packages="
lua5.4         5.4.4 gz af0c35d5ba00fecbb2dd617bd7b825edf7418a16a73076e04f2a0df58cdbf098dc3ff4402e974afd789eb5d86d2e12ec6df9c84b99b23656ea694a85f83bcd21
"
# what tests/bench/large.sh, builds.sh and link.sh compile
benchmarks="
rocksdb        5.2.1   48df5144b7ea0c419f67a3207e3a50e03227dfe4dd3791022981e07ae3ca172e98c3423d858c84e3a8222e2767823654e3b25752659724366e5350b211c7f817
duckdb         1.4.4   844249e61c9517454b8f776638ba6c5ab411d1bddde1892ab72826ea25178c72430e74aa83f5122b171be6abcdace84560f824b5ac94e9d5c2b603ea7269a9a2
"
debian_benchmarks="
postgresql-15  15.18 bz2 01f6ff71dcc24d5c2240a53ac2d70c64fadf143ea46134a3c5af1c367857edca38c88b09d5903b5e679dd6139c3b21e1041e1bada0b6ba691a82ec3b854fd2d5
git            2.39.5 xz f866789971e1fb83a482beca54f19fb02f23b5d1d06dec5bcb10fcf262e24c746cb470a81beae97a48884188b5826437f76f70b4f62a78b578a18557233730d6
"

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 DIRECTORY [PACKAGE]" >&2
    exit 2
fi
wanted=$packages
debian_wanted=$debian_packages
if [ $# -eq 2 ]; then
    wanted=$(grep "^$2 " <<<"$packages$benchmarks") || true
    debian_wanted=$(grep "^$2 " <<<"$debian_packages$debian_benchmarks") || true
    if [ -z "$wanted$debian_wanted" ]; then
        echo "$0: there is no package '$2'" >&2
        exit 2
    fi
fi
locked=$(cd "$(dirname "$0")/s3rver" && pwd)
mkdir -p "$1"
cd "$1"

# download_npm PACKAGE VERSION TARBALL: into $work
download_npm() {
    (cd "$work" && npm pack --silent --ignore-scripts "$1@$2" >/dev/null)
}

# The same. APT gets the system's sources as sources of packages' sources, and an index of its own; it
# does not matter if some cannot be fetched, as long as the package is in another. A source can list a later
# version as well, so the one that is wanted is named.
download_debian() {
    mkdir -p "$work/apt/parts" "$work/apt/lists/partial"
    local file version
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        if [ -f "$file" ]; then
            sed 's/^deb /deb-src /; s/^Types: .*/Types: deb-src/' "$file" >"$work/apt/parts/$(basename "$file")"
        fi
    done
    cat >"$work/apt/apt.conf" <<END
APT::Sandbox::User "root";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/apt/parts";
Dir::State::lists "$work/apt/lists";
Acquire::Languages "none";
END
    export APT_CONFIG=$work/apt/apt.conf
    apt-get update -q -o pkgCacheFile::Generate=false >"$work/apt/log" 2>&1 || true
    version=$(apt-cache showsrc "$1" 2>>"$work/apt/log" | sed -n "s/^Version: \($2-.*\)/\1/p" | head -n 1)
    (cd "$work" && apt-get source -q --download-only --tar-only "$1${version:+=$version}" >>"$work/apt/log" 2>&1) || {
        cat "$work/apt/log" >&2
        exit 1
    }
    unset APT_CONFIG
}

# fetch DOWNLOAD PACKAGE VERSION DIGEST TARBALL: unpacks the package beside its final place, a directory
# without the scope ("@scope/") in its name, and renames it, so that it exists completely or not at all.
fetch() {
    local download=$1 package=$2 version=$3 digest=$4 tarball=$5
    local name=${package#@}
    name=${name/\//-}
    if [ -d "$name" ]; then
        return
    fi
    work=$(mktemp -d "$PWD/fetch-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    if [ ! -f "$tarball" ]; then
        "$download" "$package" "$version"
        if [ ! -f "$work/$tarball" ]; then
            echo "$0: $tarball is no longer to be had" >&2
            exit 1
        fi
        mv "$work/$tarball" "$tarball"
    fi
    if ! echo "$digest  $tarball" | sha512sum --check --status; then
        echo "$0: $tarball is not the file that was expected; removed" >&2
        rm -f "$tarball"
        exit 1
    fi
    mkdir "$work/unpacked"
    tar -xf "$tarball" -C "$work/unpacked" --no-same-owner
    mv "$work"/unpacked/* "$name"
    rm -rf "$work"
    trap - EXIT
}

while read -r name version digest; do
    if [ -n "$name" ]; then
        # As npm names tarballs: @scope/name becomes scope-name.
        tarball=${name#@}
        fetch download_npm "$name" "$version" "$digest" "${tarball/\//-}-$version.tgz"
    fi
done <<<"$wanted"
while read -r name version compression digest; do
    if [ -n "$name" ]; then
        fetch download_debian "$name" "$version" "$digest" "${name}_$version.orig.tar.$compression"
    fi
done <<<"$debian_wanted"
# s3rver with all that it depends on. npm checks the digests in the lock file.
if [ $# -eq 1 ] && ! cmp -s s3rver/package-lock.json "$locked/package-lock.json"; then
    work=$(mktemp -d "$PWD/fetch-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cp "$locked"/package*.json "$work"
    (cd "$work" && npm ci --silent --ignore-scripts --no-audit --no-fund)
    rm -rf s3rver
    mv "$work" s3rver
fi
