# For the scenes of merge --into STATE --watch: profiles that appear in any way are consumed soon, in directories that come, move and go;
# until a signal ends it, with all that was begun finished.
source "${SCENE%/*/*}/consume/words.sh"
trap '[ -z "${watcher-}" ] || kill -KILL $watcher 2>/dev/null || true' EXIT

# watch WORD...: `said` is what it writes to standard output, `errors` to standard error. (A shell has what is in the background ignore
# the interrupt.)
watch() {
    env --default-signal "$COVSPLIT" merge --into state --watch -v "$@" >said 2>>errors &
    watcher=$!
}

# soon COMMAND...: waits until it succeeds. Whatever is consumed is so within this time; what is looked for from time to time, too.
soon() {
    local end=$((SECONDS + 40))
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "not soon: $*" "$(cat errors)"
        kill -0 $watcher || fail "it ended: $(cat errors)"
        read -rt 0.02 -u 6 || true # no process of its own
    done
}
exec 6<> <(:)

consumed() { # FILE...
    local file
    for file; do
        soon eval "[ ! -e $file ]"
    done
}

# What is gone may only have another name yet.
is_counted() {
    local files=("$1"/* state/batches/*)
    [ ${#files[@]} = 0 ]
}
shopt -s nullglob dotglob

counted() {
    [ -z "$(ls -A "$1" state/batches)" ] || [ "$(ls -A "$1" state/batches)" = "$1:"$'\n\n'"state/batches:" ]
}

counted() { # DIRECTORY
    soon is_counted $1
}

ends() { # SIGNAL
    kill -$1 $watcher
    wait $watcher
    watcher=
}

# Ends it by the signal; all has been counted, with so many lines of errors.
finish() { # SIGNAL LINES
    ends $1
    same_sums
    is $(wc -l <errors) ${2-0}
}

: >errors
