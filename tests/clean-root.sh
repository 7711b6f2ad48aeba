#!/bin/bash
# Makes a root file system from Debian's packages alone: a minimal Debian, and what `apt-get` installs
# into it. Of this machine, it only has apt's sources and options. Packages that this machine has
# fetched before are not fetched again.
#
# DIR must not exist, or be empty; the caller removes it afterwards. Nothing is mounted, and nothing
# outside DIR is changed. This needs root, and debootstrap.
#
# Usage: clean-root.sh DIR [PACKAGE...]      the packages are installed in it, too
set -euo pipefail

if [ $# -lt 1 ]; then
    echo "usage: clean-root.sh DIR [PACKAGE...]" >&2
    exit 2
fi
mkdir -p "$1"
root=$(cd "$1" && pwd)
shift
if [ -n "$(ls -A "$root")" ]; then
    echo "clean-root.sh: $root is not empty" >&2
    exit 2
fi

log=$root.log
run_quietly() {
    if ! "$@" >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        return 1
    fi
}

# The first apt source of Debian's own packages.
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(CREATED_BY) $(SITE)' |
    awk -v suite="$suite" '$1 == suite && $2 == "main" && $3 == "Packages" {print $4; exit}')

# Hard links: removing packages there does not remove them here.
archives=$root/var/cache/apt/archives
mkdir -p "$archives"
find /var/cache/apt/archives -maxdepth 1 -name '*.deb' -exec cp --link -t "$archives" {} + 2>>"$log" ||
    true

# The root is removed soon, so nothing is synced to disk, and documentation is not installed.
mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
cat >"$root/etc/dpkg/dpkg.cfg.d/clean-root" <<'END'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/locale/*
END

run_quietly debootstrap --variant=minbase "$suite" "$root" "$mirror"

# The configuration for fetching packages, without credentials.
rm -f "$root/etc/apt/sources.list"
for part in sources.list sources.list.d apt.conf apt.conf.d preferences preferences.d trusted.gpg.d \
    keyrings; do
    if [ -e "/etc/apt/$part" ]; then
        cp -r "/etc/apt/$part" "$root/etc/apt/"
    fi
done
cp -r /usr/share/keyrings/. "$root/usr/share/keyrings/"
cp /etc/resolv.conf "$root/etc/"
cp /etc/hosts "$root/etc/"
mkdir -p "$root/usr/local/share/ca-certificates"
cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null || true

# Packages must not start services.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod +x "$root/usr/sbin/policy-rc.d"

if [ $# -ne 0 ]; then
    run_quietly chroot "$root" apt-get update -q
    run_quietly chroot "$root" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "$@"
fi
rm -f "$log"
