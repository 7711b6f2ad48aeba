#!/bin/bash
# Downloads Debian packages of another architecture, for their libraries. Nothing is installed, and the
# system's list of architectures is not changed: APT gets its own configuration, index and cache, with the
# system's sources and keys. It checks signatures and digests as always.
#
# Usage: download-debs.sh ARCHITECTURE DIRECTORY PACKAGE...
# Afterwards DIRECTORY, which must exist, has a PACKAGE_VERSION_ARCHITECTURE.deb of each.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: download-debs.sh ARCHITECTURE DIRECTORY PACKAGE..." >&2
    exit 2
fi
architecture=$1 directory=$2
shift 2
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
touch "$apt/status"
cat >"$apt/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Sandbox::User "root";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
END
export APT_CONFIG=$apt/apt.conf
# It does not matter if some of the indexes cannot be fetched, as long as the packages are in others. What
# APT makes of them is left to the download, which makes it anyway.
apt-get update -q -o pkgCacheFile::Generate=false >"$apt/log" 2>&1 || true
if ! (cd "$directory" && apt-get download -q "$@" >>"$apt/log" 2>&1); then
    cat "$apt/log" >&2
    exit 1
fi
