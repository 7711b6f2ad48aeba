# What the scripts with seeds share. They are called as SCRIPT DIRECTORY, with the built command in
# $COVSPLIT, and put seeds for a target into DIRECTORY/TARGET.
#
# A tool that is missing, or cannot do what is asked of it, only means fewer seeds: `try` says so.

directory=$(cd "$1" && pwd)
fuzz=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
fixtures=$fuzz/../fixtures
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# try COMMAND...: 0 if it worked
try() {
    "$@" >"$work/try.log" 2>&1 && return
    echo "no seed of: $*: $(grep -m 1 -i -E 'error|not found' "$work/try.log" || true)" >&2
    return 1
}

# seed TARGET NAME FILE [SUFFIX]: the bytes of SUFFIX, in printf's escapes, come behind the file's.
seed() {
    mkdir -p "$directory/$1"
    { cat "$3" && printf "${4-}"; } >"$directory/$1/$2"
}

# wanted TARGET/NAME: whether this seed is to be made. COVSPLIT_SEEDS is a regular expression for those
# that are; without it all are.
wanted() {
    [[ $1 =~ ${COVSPLIT_SEEDS-} ]]
}
