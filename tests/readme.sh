#!/bin/bash
# Walks through the README from the top, as a new user would: runs every command in it as it is
# written, one block after the other, in a root of its own.
#
# The root has the packages of this machine (/usr, /etc, what dpkg and apt know), which it can only
# read, and nothing else: an empty /usr/local, /root, /tmp and /run, and the sources without what was
# built from them. Nothing of it outlives the walk, and nothing outside of it is changed. This needs
# to be root.
#
# Blocks without a language are commands; what the README takes for granted (more programs,
# profiles) is made by `make_what_is_taken_for_granted`. One block is left out: the one that runs the
# whole suite, since that runs this.
#
# With --fresh, the packages too are new: a minimal Debian (clean-root.sh), into which the README's
# first command installs what it needs. That takes some minutes more, and 4 GB, so the suite leaves
# it out.
#
# Usage: readme.sh [--fresh]
set -euo pipefail

sources=$(cd "$(dirname "$0")/.." && pwd)

# ---- outside: the root ----

# As many of these as there are.
packages=(usr etc bin lib lib32 lib64 libx32 sbin var/lib/dpkg var/lib/apt var/cache/apt)

share_packages() {
    local part
    for part in "${packages[@]}"; do
        if [ -L "/$part" ]; then
            cp -P "/$part" "$root/$part"
        elif [ -d "/$part" ]; then
            mkdir -p "$root/$part"
            mount --bind "/$part" "$root/$part"
            mount -o remount,bind,ro "$root/$part"
        fi
    done
    mkdir -p "$root"/{proc,dev,sys,root,run,home,var/tmp}
    mkdir -m 1777 "$root/tmp"
    mkdir "$work/local"
    mount --bind "$work/local" "$root/usr/local"
}

make_root() {
    if [ "$kind" = fresh ]; then
        "$sources/tests/clean-root.sh" "$root"
    else
        mkdir "$root"
        share_packages
    fi
    mount --rbind /proc "$root/proc"
    mount --rbind /dev "$root/dev"
    # How packages are reached is no state.
    if [ -f "$HOME/.npmrc" ]; then
        cp "$HOME/.npmrc" "$root/root/"
    fi
    cp /etc/hosts "$work/hosts"
    echo "127.0.0.1 server front" >>"$work/hosts"
    mount --bind "$work/hosts" "$root/etc/hosts"
    mkdir "$root/root/covsplit"
    tar -C "$sources" --exclude=./build* --exclude=./.git -cf - . | tar -C "$root/root/covsplit" -xf -
}

# The mounts are those of another namespace, and gone with it. Were they not, this would delete what
# is mounted.
remove_work() {
    if ! grep -q " $work/" /proc/self/mounts; then
        rm -rf "$work"
    fi
}

case ${1-} in
"" | --fresh)
    if [ "$(id -u)" -ne 0 ] || ! unshare --mount true 2>/dev/null; then
        echo "not walked: this must be root, and may make mounts of its own"
        exit 0
    fi
    work=$(mktemp -d)
    kind=${1:+fresh}
    trap remove_work EXIT
    export work kind
    unshare --mount --propagation private bash "$0" --in-namespace
    exit
    ;;
--in-namespace)
    root=$work/root
    # How the network is reached is no state either.
    mapfile -t network < <(env | grep -iE '^(npm_config|node|ssl|curl|[a-z]*_proxy)[^=]*=' || true)
    make_root
    exec env -i TERM=dumb HOME=/root PATH=/usr/lib/llvm-19/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin \
        "${network[@]}" chroot "$root" bash /root/covsplit/tests/readme.sh --inside
    ;;
esac

# ---- inside: the walk ----

readme=/root/covsplit/README.md
servers=()
trap '[ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true' EXIT

make_what_is_taken_for_granted() {
    mkdir -p dist profiles nothing
    cp app dist/program
    cp default.profraw profiles/
    (cd sidecars/.build-id && ls -d -- */*.covsplit) | sed 's|/||; s|\.covsplit$||' >released.txt
    printf 'coverage:\n\tllvm-cov report app.stripped -instr-profile=app.profdata\n' >Makefile
    printf 'cmake_minimum_required(VERSION 3.21)\nproject(app LANGUAGES C CXX)\n' >CMakeLists.txt
}

# Until the server has what the walk asks it for. Asking too early would be remembered.
wait_for_server() {
    local url=http://localhost:$1/buildid/$(head -n 1 released.txt)/debuginfo
    for _ in $(seq 100); do
        if python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])' "$url" \
            2>/dev/null; then
            return
        fi
        sleep 0.3
    done
    echo "no answer from port $1"
    return 1
}

# Servers stay, while what follows them runs.
run_with_servers() {
    local line port=8002
    while IFS= read -r line; do
        if [[ ! $line =~ (^| )debuginfod\  ]]; then
            bash -c "$line"
            continue
        fi
        bash -c "$(sed 's/debuginfod -/exec debuginfod -/; s/^\(DEBUGINFOD_URLS=[^ ]*\) exec/exec env \1/' <<<"$line")" \
            >/dev/null 2>&1 &
        servers+=($!)
        wait_for_server "$port"
        port=$((port + 1))
    done <<<"$1"
}

# check_row LABEL FILE...: the README's row has the sizes of these files of the demo, to a fiftieth.
check_row() {
    local label=$1 told size file numbers
    shift
    mapfile -t numbers < <(grep -m 1 "^| $label  *|" "$readme" | grep -oE '[0-9]+ kB' | cut -d ' ' -f 1)
    for file; do
        told=${numbers[0]-0}
        numbers=("${numbers[@]:1}")
        size=$(stat --format=%s "/root/covsplit/build/demo/$file")
        if [ $((told * 1000)) -lt $((size - size / 50)) ] ||
            [ $((told * 1000)) -gt $((size + size / 50)) ]; then
            echo "$label: the README has $told kB, $file has $size bytes"
            return 1
        fi
    done
}

check_table() {
    check_row image sqlite sqlite.stripped
    check_row "raw profile of a run" full.profraw light.profraw
    check_row sidecar sqlite.covsplit
}

walk() {
    local block=$1 number=$2
    printf '\n== line %d of the README\n%s\n--\n' "$number" "$block"
    case $block in
    tests/run.sh) echo "(left out: it runs this)" ;;
    tests/demo.sh)
        bash -e -o pipefail -c "$block"
        check_table
        ;;
    *debuginfod\ -F*) run_with_servers "$block" ;;
    *) bash -e -o pipefail -c "$block" ;;
    esac
}

cd /root/covsplit
number=0 start=0 blocks=0 block='' state=text
while IFS= read -r line <&3; do
    number=$((number + 1))
    if [ "$line" = '## First steps' ]; then
        mkdir /root/demo
        cd /root/demo
    fi
    case $state:$line in
    text:'```') state=commands start=$((number + 1)) block='' ;;
    text:'```'*) state=other ;;
    commands:'```')
        state=text
        blocks=$((blocks + 1))
        walk "$block" "$start"
        if [ -f app.stripped ] && [ ! -d dist ]; then
            make_what_is_taken_for_granted
        fi
        ;;
    other:'```') state=text ;;
    commands:*) block+=${block:+$'\n'}$line ;;
    esac
done 3<"$readme"
printf '\n%d blocks of commands, all as written\n' "$blocks"
[ "$blocks" -ge 15 ]
