#!/bin/bash
# Walks through the README and the pages in docs/ from the top, as a new user would: runs every
# command in them as it is written, one block after the other. Blocks without a language are
# commands. docs/recipes.md has its own suite.
#
# The walk has its own root file system, with read-only access to the packages of this machine (/usr,
# /etc, the state of dpkg and apt), and otherwise only an empty /usr/local, /root, /tmp and /run, and
# the sources without build results. It is removed after the walk, and nothing outside it is changed.
# This needs root.
#
# With --fresh, the packages are new as well: a minimal Debian (clean-root.sh), into which the README's
# commands install what they need. That takes some minutes more, and 4 GB, so the suite does not do it.
#
# With --docs BUILD, only the pages in docs/ are walked, in a temporary directory, with the covsplit
# of that build. That takes seconds. Servers are left out: their ports may be in use.
#
# Each page in docs/ is walked in its own directory, which contains the guide's program app.c. The block
# that runs the whole suite is left out, since the suite runs this script.
#
# Usage: readme.sh [--fresh | --docs BUILD]
set -euo pipefail
shopt -s extglob

sources=$(cd "$(dirname "$0")/.." && pwd)

# ---- outside: the root ----

# The directories to share with the root, if they exist.
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
    # The configuration for fetching packages is kept.
    if [ -f "$HOME/.npmrc" ]; then
        cp "$HOME/.npmrc" "$root/root/"
    fi
    cp /etc/hosts "$work/hosts"
    echo "127.0.0.1 server front" >>"$work/hosts"
    mount --bind "$work/hosts" "$root/etc/hosts"
    mkdir "$root/root/covsplit"
    tar -C "$sources" --exclude=./build* --exclude=./.git -cf - . | tar -C "$root/root/covsplit" -xf -
}

# The mounts belong to another namespace and are gone with it. Otherwise this would delete what is
# mounted.
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
    # The configuration of the network is kept, too.
    mapfile -t network < <(env | grep -iE '^(npm_config|node|ssl|curl|[a-z]*_proxy)[^=]*=' || true)
    make_root
    exec env -i TERM=dumb HOME=/root kind="$kind" PATH=/usr/lib/llvm-19/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin \
        "${network[@]}" chroot "$root" bash /root/covsplit/tests/readme.sh --inside
    ;;
--inside | --docs) ;;
*)
    echo "usage: $0 [--fresh | --docs BUILD]" >&2
    exit 2
    ;;
esac

# ---- inside: the walk ----

servers=()
clean_up() {
    [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
    [ -z "${temporary-}" ] || rm -rf "$temporary"
}
trap clean_up EXIT

# Waits until the server has what the walk asks for. It would remember the answer to an early question.
wait_for_server() {
    local url
    url=http://localhost:$1/buildid/$(head -n 1 released.txt)/debuginfo
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

# Servers keep running during the blocks that follow.
run_with_servers() {
    local line port=8002
    mkdir nothing
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

# check_row PAGE PART LABEL FILE...: checks that the first row of this label in the page has the sizes of
# these files, to one part in PART.
check_row() {
    local page=$1 part=$2 label=$3 told size file numbers
    shift 3
    mapfile -t numbers < <(grep -m 1 "^| $label  *|" "$sources/$page" | grep -oE '[0-9]+ kB' | cut -d ' ' -f 1)
    for file; do
        told=${numbers[0]-0}
        numbers=("${numbers[@]:1}")
        size=$(stat --format=%s "$file")
        if [ $((told * 1000)) -lt $((size - size / part)) ] ||
            [ $((told * 1000)) -gt $((size + size / part)) ]; then
            echo "$label: $page has $told kB, $file has $size bytes"
            return 1
        fi
    done
}

check_sqlite() {
    local demo=$sources/build/demo
    check_row docs/benchmarks.md 50 image "$demo/sqlite" "$demo/sqlite.stripped"
    check_row docs/benchmarks.md 50 "raw profile of a run" "$demo/full.profraw" "$demo/light.profraw"
    check_row docs/benchmarks.md 50 sidecar "$demo/sqlite.covsplit"
}

# The sizes of the first steps are those of the compiler that the README installs.
check_first_steps() {
    local flags=(-fprofile-instr-generate -fcoverage-mapping)
    if ! command -v clang++-14 >/dev/null; then
        return
    fi
    clang++-14 "${flags[@]}" -o first words.cpp
    covsplit split -o first.stripped first
    LLVM_PROFILE_FILE=full.profraw ./first <<<"to be or not to be"
    LLVM_PROFILE_FILE=light.profraw ./first.stripped <<<"to be or not to be"
    check_row README.md 20 image first first.stripped
    check_row README.md 20 "raw profile of a run" full.profraw light.profraw
    check_row README.md 20 sidecar first.covsplit
}

# This machine's packages cannot be changed; a fresh root gets those that the README installs.
install_packages() {
    local line words
    while IFS= read -r line; do
        read -r -a words <<<"${line#sudo }"
        if [ "$kind" = fresh ]; then
            DEBIAN_FRONTEND=noninteractive "${words[@]}"
        else
            apt-cache show "${words[@]:3}" >/dev/null
        fi
    done <<<"$1"
}

# run_block BLOCK PAGE LINE
run_block() {
    local block=$1
    printf '\n== %s, line %d\n%s\n--\n' "$2" "$3" "$block"
    case $block in
    tests/run.sh) echo "(left out: it runs this)" ;;
    tests/demo.sh)
        bash -e -o pipefail -c "$block"
        check_sqlite
        ;;
    *"| ./words"*)
        bash -e -o pipefail -c "$block"
        check_first_steps
        ;;
    "sudo apt-get install "*) install_packages "$block" ;;
    *debuginfod\ -F*)
        if [ "$mode" = --docs ]; then
            echo "(left out: no servers here)"
        else
            run_with_servers "$block"
        fi
        ;;
    *) bash -e -o pipefail -c "$block" ;;
    esac
}

# Makes a project like one of a reader of the README, with a program and a test.
make_project() {
    mkdir "$home/project"
    cd "$home/project"
    printf 'int main(int count, char **words) { return count == 9 && words[0]; }\n' >app.c
    printf '%s\n' 'cmake_minimum_required(VERSION 3.21)' 'project(app LANGUAGES C CXX)' \
        'add_executable(app app.c)' 'enable_testing()' 'add_test(NAME app COMMAND app)' >CMakeLists.txt
    printf 'app: app.c\ncheck: app\n\t./app\n' >Makefile
    # The block of the first screen, for which nothing is installed yet when the walk comes to it.
    run_block "$(sed -n '/^```sh$/,/^```$/{/^```$/q;/^```/!p}' "$sources/README.md")" README.md 11
}

# walk_page FILE: walks in the current directory. Blocks may be indented, as in lists.
walk_page() {
    local page=${1#"$sources/"} line number=0 start=0 block='' state=text indent=''
    while IFS= read -r line <&3; do
        number=$((number + 1))
        case $page:$line in
        'README.md:## In your own project') make_project ;;
        'README.md:## Try the demo, run the tests') cd "$sources" ;;
        esac
        case $state:${line#"$indent"} in
        text:*([ ])'```')
            state=commands start=$((number + 1)) block='' indent=${line%'```'}
            ;;
        text:*([ ])'```'*) state=other indent=${line%%'`'*} ;;
        commands:'```')
            state=text indent=''
            blocks=$((blocks + 1))
            run_block "$block" "$page" "$start"
            ;;
        other:'```') state=text indent='' ;;
        commands:*) block+=${block:+$'\n'}${line#"$indent"} ;;
        esac
    done 3<"$1"
}

walk_docs() {
    local page name
    for page in "$sources"/docs/{guide,*}.md; do
        name=$(basename "$page" .md)
        if [ "$name" = recipes ] || [ -d "$home/$name" ]; then
            continue
        fi
        mkdir "$home/$name"
        cd "$home/$name"
        if [ "$name" != guide ]; then
            cp ../guide/app.c .
        fi
        walk_page "$page"
    done
}

mode=$1
blocks=0
if [ "$mode" = --docs ]; then
    PATH=$(cd "$2/split" && pwd):/usr/lib/llvm-19/bin:$PATH
    temporary=$(mktemp -d)
    home=$temporary
    export HOME=$home
    walk_docs
else
    home=/root
    cd "$sources"
    walk_page "$sources/README.md"
    walk_docs
fi
printf '\n%d blocks of commands, all as written\n' "$blocks"
[ "$blocks" -ge 15 ]
