# For the scenes of reports: llvm-cov must say the same whatever stands for the unsplit image. Each report is taken from the unsplit
# images, and then in all the ways below. All of them read one and the same profile: that profiles come out right is the matter
# of other scenes. Each way has a directory of its own in which the images have the same relative names, so that the tool has no
# other name to print. CLANG and LINKER make the images; $packed is 1 where those in packed/ were linked of packed objects.
source "$SUPPORT/debuginfod.sh"
clang=${CLANG:-22} linker=${LINKER:-lld} packed=0

# What llvm-cov finds by itself, by the binary IDs of a profile, it finds since LLVM 16.
finds_objects() {
    [ $clang -ge 16 ]
}

# prepare IMAGE...: all ways' files of the images in original/, which are split from packed/ if these are packed. llvm-cov lists
# functions in the order of the objects. Those that it looks for by itself come in the order of their binary IDs, so these are
# named in that order too: in `images`.
prepare() {
    local image from=original
    [ $packed = 0 ] || from=packed
    mkdir -p split sidecars objects nothing
    for image; do
        mkdir -p {split,sidecars,objects}/$(dirname $image)
        covsplit split -o split/$image --store store $from/$image
        covsplit split -o again --sidecar sidecars/$image $from/$image
        covsplit export --sidecar sidecars/$image -o objects/$image
        echo "$(build_id original/$image) $image"
    done | sort | cut -d' ' -f2 >images
    is $(wc -l <images) $#
    if [ $packed = 0 ]; then
        covsplit export --store store --debug-dir debug
        covsplit export --union --store store -o all.a
    fi
}

# profile STATUS PROGRAM WORD...: runs the program, which was not split, and indexes its profiles: app.profdata.
profile() {
    local from=$PWD/original
    [ $packed = 0 ] || from=$PWD/packed
    mkdir work
    cd work
    LLVM_PROFILE_FILE=../raw/%m.profraw exits $1 "$from/$2" "${@:3}"
    cd ..
    rm -r work
    is $(ls raw | wc -l) $(wc -l <images)
    llvm-profdata-$clang merge -o app.profdata raw/*
}

# take DIRECTORY RUNNER OBJECTS COMMAND WORD...: a report by llvm-cov in that directory, or `covsplit RUNNER` with it, into `taken`, with
# what it says. (It warns of functions that several images have, and must warn of the same.) The minute of the report goes.
take() {
    local objects=$3
    if [ -z "$objects" ]; then
        objects=$(cat images)
        objects=${objects/$'\n'/ -object }
    fi
    rm -rf taken
    mkdir taken
    (
        cd $1 &&
            ${2:+"$COVSPLIT" $2} llvm-cov-$clang $4 $objects -instr-profile=../app.profdata "${@:5}" >../taken/out \
                2>../taken/err
    ) || fail "$(cat taken/err)"
    [ ! -e $1/html ] || mv $1/html taken
    find taken -type f -exec sed -i 's/Created: [-0-9: ]*/Created: /' {} +
}

# same_report PART COMMAND WORD...: by all ways, and it has that part, so that there is no agreement on nothing.
same_report() {
    same_named "$@"
    ((packed)) || same_found "${@:2}"
}

is_same() {
    take "$@"
    diff -r expected taken >"$kept/difference" || fail "by $1 ${*:2}:" "$(head -c 1000 "$kept/difference")"
}

# The same by the ways in which each of several objects is named.
same_named() {
    export DEBUGINFOD_URLS=
    take original "" "" "${@:2}"
    rm -rf expected
    mv taken expected
    grep -rF "$1" expected >"$kept/grepped"
    [ $packed = 0 ] || is_same packed "run --" "" "${@:2}"
    is_same split "run --store ../store --" "" "${@:2}"
    is_same sidecars "run --" "" "${@:2}"
    is_same objects "" "" "${@:2}"
}

# And by those in which one stands for all, or none is named.
same_found() {
    is_same nothing "" ../all.a "$@"
    is_same nothing "run --" ../all.a "$@"
    is_same nothing "run --" ../store "$@"
    if finds_objects; then
        is_same nothing "" -debug-file-directory=../debug "$@"
        DEBUGINFOD_URLS=http://127.0.0.1:$port DEBUGINFOD_CACHE_PATH=$PWD/cache is_same nothing "" -debuginfod "$@"
    fi
}

# The server for all reports of a scene.
start_server() {
    ! finds_objects || serve server debug ""
}
