# For the scenes of finding sidecars without being told where they are, or only roughly: each command, each place, the order
# of the places, and what lies there besides. Whatever is found has to fit.
top=$PWD
makers="join correlate merge export run-profile run-image"

# room KIND: an empty one. Commands run in room/here; what they read is in room/in; sidecars may be in room/side.
room() {
    kind=$1
    uuid=$(build_id $top/$kind/original)
    rm -rf $top/room
    mkdir -p $top/room/here $top/room/in $top/room/side
    cp $top/$kind/app $top/$kind/light $top/room/in
    cd $top/room/here
}

# put KIND PLACE: its sidecar, as a file or into the store of the room.
put() {
    local to=$top/room/$2
    if [ $2 = store ]; then
        to=$(entry $to "$(build_id $top/$1/original)")
        mkdir -p ${to%/*}
    fi
    cp $top/$1/sidecar $to
    [ $2 != store ] || settle $top/room/store
}

# damaged PLACE: one whose UUID can be read, but that is damaged.
put_damaged() {
    cp $top/$kind/sidecar $top/room/$1
    flip $top/room/$1 $(($(stat -c %s $top/room/$1) - 1))
}

# make MAKER OPTIONS STORE: a command that needs the sidecar of the room's image, with COVSPLIT_STORE.
make() {
    local words wanted=$uuid
    rm -f out out.profraw
    [ "$2" != "--sidecar ../side/named" ] || wanted= # one file needs no UUID to choose it
    case $1 in
        join) words="join -o out $2 ../in/app" ;;
        correlate) words="correlate -o out $2 ../in/light" ;;
        merge) words="merge -o out.profraw $2 ../in/light" ;;
        export) words="export -o out $2 $wanted" ;;
        run-profile) words="run $2 -- cmp ../in/light $top/$kind/full" ;;
        run-image) words="run $2 -- cmp ../in/app $top/$kind/object" ;;
    esac
    COVSPLIT_STORE=$3 covsplit $words
}

# finds MAKER OPTIONS STORE: it makes what it must, and says nothing.
finds() {
    make "$@"
    [ ! -s "$kept/err" ]
    case $1 in
        join) same out $top/$kind/original ;;
        correlate) same out $top/$kind/full ;;
        merge) same out.profraw $top/$kind/full ;;
        export) same out $top/$kind/object ;;
    esac
}

# lacks MAKER OPTIONS STORE TEXT: it makes nothing, and says why in a line.
lacks() {
    exits 1 make "${@:1:3}"
    error_lines 1
    case $1 in
        run-*) says "covsplit: warning: " "$4" ;;
        *) says "covsplit: error: " "$4" ;;
    esac
    absent out out.profraw
}
