# For the scenes of deltas: whatever reads a store with deltas makes of it what it makes of the whole one, to the byte, and
# nothing is lost. They run in one of the places.
original=()
for i in 0 1 2 3; do
    original[i]=$(echo $PWD/original/$i/*)
    split[i]=$PWD/split/$i
    uuid[i]=$(build_id ${original[i]})
    stored[i]=$(entry store ${uuid[i]})
done

# The compression type of a delta's sections, in the byte order of each machine.
is_delta() {
    LC_ALL=C grep -qaP '\x01\x07vl|lv\x07\x01' $1
}

# The one base of a store of these builds.
base_of() {
    find store/.build-id/bases -name "*.base"
}

# The number of a build that is a delta to the sidecar of another one. (Those of split --delta may be of another level.)
delta_build() {
    local i
    for i in 0 1 2 3; do
        if is_delta ${stored[i]} && ! cmp -s ../whole/${stored[i]} $(base_of); then
            echo $i
            return
        fi
    done
    fail "there is no delta"
}

# joins NUMBER: the original comes back.
joins() {
    rm -f joined
    covsplit join --store store -o joined ${split[$1]}
    same ${original[$1]} joined
}

# are_whole STORE: its sidecars are those of the whole store.
are_whole() {
    local i
    for i in 0 1 2 3; do
        same ../whole/${stored[i]} $1${stored[i]#store}
    done
}
