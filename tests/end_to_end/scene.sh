# The words of scenes, and the play itself: bash runs this file, which runs the scene. See lit.cfg.py.
#
# What covsplit has printed last is kept in $kept/out and $kept/err, for `prints` and `says`; "$kept" is beside the
# directory of the scene, so that a scene can look at all that is in that.
set -Eeuo pipefail
trap 'echo "$SCENE:${BASH_LINENO[*]:0:${#BASH_LINENO[@]}-1}: failed: $BASH_COMMAND" >&2' ERR

fail() {
    printf '%s\n' "$@" >&2
    return 1
}

# rounds N: how many of so many to play, by COVSPLIT_TEST_PERCENT as in tests/support/suite.h; at least one.
rounds() {
    local percent=${COVSPLIT_TEST_PERCENT:-100}
    echo $(($1 * (percent < 100 ? percent : 100) / 100 ? $1 * (percent < 100 ? percent : 100) / 100 : 1))
}

all_rounds() {
    [ "${COVSPLIT_TEST_PERCENT:-100}" -ge 100 ]
}

# chosen NUMBER OF: whether to play this case of a table, of which it is every few, or all.
chosen() {
    all_rounds || [ $(($1 % $2)) = 0 ]
}

# ---- commands ----

# run COMMAND...: with its standard output and errors kept, and passed on.
run() {
    local status=0
    "$@" >"$kept/out" 2>"$kept/err" || status=$?
    [ ! -s "$kept/out" ] || cat "$kept/out"
    [ ! -s "$kept/err" ] || cat "$kept/err" >&2
    return $status
}

# covsplit WORD...: the command under test.
covsplit() {
    run "$COVSPLIT" "$@" || return
    if [ "${COVSPLIT_TEST_DELTAS-}" = 1 ]; then
        "$SUBJECT" settle-after covsplit "$@" >"$kept/settle" || fail "$(cat "$kept/settle")"
    fi
}

# exits STATUS COMMAND...
exits() {
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" = "$wanted" ] || fail "exit $status, not $wanted: $*"
}

# not COMMAND...: which must fail (a bare "!" would not end the scene).
not() {
    if "$@"; then
        fail "this should have failed: $*"
    fi
}

# refused WORD...: covsplit refuses in the right way, with status 1 and one line.
refused() {
    exits 1 covsplit "$@"
    is_one_error
}

is_one_error() {
    [ "$(wc -l <"$kept/err")" = 1 ] && [[ $(cat "$kept/err") == "covsplit: error: "* ]] ||
        fail "one error was expected: $(cat "$kept/err")"
}

# silent WORD...: covsplit has nothing to complain about.
silent() {
    covsplit "$@"
    [ ! -s "$kept/err" ]
}

# as_nobody COMMAND...: as a user without rights, who must be able to read the command.
as_nobody() {
    if [ "$(id -u)" = 0 ]; then
        set -- setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
    fi
    run "$@"
}

# The rest of the scene is for root alone.
root_only() {
    [ "$(id -u)" = 0 ] || exit 77
}

# run_image IMAGE [ARGUMENT...]: which writes a profile of its own name, IMAGE.profraw; its exit status is
# that of the tests' programs.
run_image() {
    exits 3 env LLVM_PROFILE_FILE="${1##*/}.profraw" "./$@"
}

# ---- subjects ----

# once KEY COMMAND...: puts here what the command makes in an empty directory, which it does once for each key.
once() {
    local directory=$SUBJECTS/$1
    mkdir -p "$SUBJECTS"
    (
        flock 9
        [ ! -e "$directory.made" ] || exit 0
        rm -rf "$directory"
        mkdir "$directory"
        cd "$directory"
        trap '[ -e "$directory.made" ] || cat "$kept/once" >&2' EXIT
        # What nobody has used for a day goes: it was made by programs of before.
        find "$SUBJECTS" -name "*.lock" -mmin +1440 | while read -r old; do
            rm -rf "${old%.lock}" "${old%.lock}.made" "$old"
        done
        "${@:2}" >"$kept/once" 2>&1
        touch "$directory.made"
    ) 9>"$directory.lock"
    cp -a "$directory/." .
}

# version_of FILE...: in a key, for what is made by these.
version_of() {
    stat -c %Y "$@" /var/lib/dpkg/status | tr '\n' -
}

# subject NAME [PARAMETER...]: puts the files of a subject (tests/support/subject.c) here.
subject() {
    once "$(version_of "$SUBJECT")$(tr '/ :' '___' <<<"$*")" "$SUBJECT" "$1" . "${@:2}"
}

# compile VERSION WORD...: clang with instrumentation, kept in the compilers' cache; compile++ VERSION WORD...
compile() {
    compile_by "clang-$1" "${@:2}"
}

compile++() {
    compile_by "clang++-$1" "${@:2}"
}

compile_by() {
    "$SUBJECT" compile . "$1" -fprofile-instr-generate -fcoverage-mapping "${@:2}" >"$kept/subject" 2>&1 ||
        fail "$(cat "$kept/subject")"
}

# settle STORE: in a run with deltas, what has come into it by other ways than covsplit becomes one, too.
settle() {
    "$SUBJECT" settle "$1" >"$kept/settle" || fail "$(cat "$kept/settle")"
}

# ---- expectations ----

# says TEXT...: on standard error; prints TEXT...: on standard output. Each occurs there.
says() {
    occur "$kept/err" "$@"
}

prints() {
    occur "$kept/out" "$@"
}

occur() {
    local text
    for text in "${@:2}"; do
        grep -qF -e "$text" "$1" || fail "'$text' is not in:" "$(cat "$1")"
    done
}

# says_just TEXT, prints_just TEXT: exactly these lines; "" for none.
says_just() {
    diff <(printf '%s' "${1:+$1$'\n'}") "$kept/err"
}

prints_just() {
    diff <(printf '%s' "${1:+$1$'\n'}") "$kept/out"
}

# check [PREFIX]: standard input is as the lines "# PREFIX: ..." of the scene say.
check() {
    FileCheck-19 --check-prefix="${1-CHECK}" --dump-input=fail --match-full-lines "$SCENE"
}

# lines N: of standard output; error_lines N
lines() {
    is "$(wc -l <"$kept/out")" "$1"
}

error_lines() {
    is "$(wc -l <"$kept/err")" "$1"
}

# is FOUND WANTED
is() {
    [ "$1" = "$2" ] || fail "'$1' is not '$2'"
}

# same FILE OTHER...: all have the same bytes.
same() {
    local other
    for other in "${@:2}"; do
        cmp "$1" "$other"
    done
}

# stored_same ENTRY WHOLE: the sidecar of a store is that file, or comes out of a delta so.
stored_same() {
    "$SUBJECT" stored-same "$PWD/$1" "$2" >"$kept/same" || fail "$(cat "$kept/same")"
}

absent() {
    local file
    for file; do
        [ ! -e "$file" ] && [ ! -L "$file" ] || fail "$file is there"
    done
}

present() {
    local file
    for file; do
        [ -e "$file" ] || fail "$file is not there"
    done
}

# ---- files ----

# All names in a directory, on one line.
names() {
    ls -A "${1-.}" | tr '\n' ' ' | sed 's/ $//'
}

# Which files these are, and when they were written.
stamp() {
    stat -c '%n %i %y %a' "$@"
}

# elsewhere: a new directory on another file system, which the scene removes.
elsewhere() {
    local place
    for place in /dev/shm /var/tmp /tmp; do
        if [ -w $place ] && [ "$(stat -c %d $place)" != "$(stat -c %d .)" ]; then
            mktemp -d $place/covsplit-test-XXXXXX
            return
        fi
    done
    fail "there is no other file system"
}

mode_of() {
    stat -c %a "$1"
}

# set_attribute FILE NAME HEXADECIMAL: an extended one; false where the file system has none of that kind.
set_attribute() {
    python3 -c 'import os, sys; os.setxattr(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]))' "$@"
}

# attributes FILE: all of them, in one line: "NAME=HEXADECIMAL ..."
attributes() {
    python3 -c '
import os, sys
print(*(f"{name}={os.getxattr(sys.argv[1], name).hex()}" for name in sorted(os.listxattr(sys.argv[1]))))' "$1"
}

# part PROFILE counters|bitmap OUT: of a raw profile; set_counters PROFILE OUT VALUE...: a copy with its first counters set.
part() {
    changed part "$@"
}

set_counters() {
    changed set-counters "$@"
}

# mutate FILE OUT SEED: an ELF file, damaged; so mutate_bytes any file.
mutate() {
    changed mutate "$@"
}

mutate_bytes() {
    changed mutate-bytes "$@"
}

changed() {
    "$SUBJECT" $1 . "${@:2}" >"$kept/subject" 2>&1 || fail "$(cat "$kept/subject")"
}

# Turns a bit of the byte at an offset; without one, in the middle.
flip() {
    python3 -c '
import os, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = int(sys.argv[2]) if len(sys.argv) > 2 else len(data) // 2
data[at] ^= 1 if len(sys.argv) < 4 else int(sys.argv[3])
open(sys.argv[1], "r+b").write(data)' "$@"
}

# age HOURS FILE...: as if they had been written then.
age() {
    touch -h -d "$1 hours ago" "${@:2}"
}

# The build ID of an ELF file.
build_id() {
    readelf -n "$1" | sed -n 's/.*Build ID: //p'
}

# entry STORE UUID: its sidecar
entry() {
    echo "$1/.build-id/${2:0:2}/${2:2}.covsplit"
}

# section FILE NAME: its offset and size in an ELF file; "0 0" where it takes no room.
section() {
    readelf -SW "$1" | python3 -c '
import re, sys
found = [m for m in map(re.compile(r"\] (\S+) +(\S+) +\S+ (\S+) (\S+)").search, sys.stdin) if m and m[1] == sys.argv[1]]
print(*(int(found[0][i], 16) if found and found[0][2] != "NOBITS" else 0 for i in (3, 4)))' "$2"
}

section_size() {
    section "$@" | cut -d' ' -f2
}

# The offset of its last byte.
section_end() {
    local offset size
    read -r offset size <<<"$(section "$@")"
    echo $((offset + size - 1))
}

# Where the folder or its room has a file prepare.sh, a scene begins with what that makes here, which is made once; words.sh
# has words of its own.
nearest() {
    local folder=${SCENE%/*}
    [ -e "$folder/$1" ] || folder=${folder%/*}
    [ ! -e "$folder/$1" ] || echo "$folder/$1"
}

preparation=$(nearest prepare.sh)
if [ -n "$preparation" ]; then
    key=$(version_of "$COVSPLIT" ${COVSPLIT_PORTABLE-} "$SUBJECT" "$preparation")$(tr / _ <<<"$COVSPLIT")
    once "$(basename "${preparation%/*}")-${COVSPLIT_TEST_DELTAS-}-${CLANG-}-${LINKER-}-$key" source "$preparation"
fi
words=$(nearest words.sh)
[ -z "$words" ] || source "$words"
source "$SCENE"
