# For the scenes of the store: "file" is an array of the sidecars in it.
. ./uuids
deltas=${COVSPLIT_TEST_DELTAS:-0}
for i in 0 1 2 3 4 5; do
    file[i]=$(entry store ${uuid[i]})
done
age 1 "${file[@]}"

# keep_first N: the store has only the first N images.
keep_first() {
    local gone
    for gone in "${file[@]:$1}"; do
        rm -r "${gone%/*}"
    done
}

# has_fault N: of the sidecar of image N, a line names it, and it is counted.
has_fault() {
    is_one_error
    says "covsplit: error: ${file[$1]}: "
    prints ", 1 fault"
}

# The first three images become old; "list" has 0, 1, 3 and 4.
write_keep_list() {
    age 49 "${file[@]:0:3}"
    printf '# in use\n\n%s\r\n  %.8s # by its first bytes\n%s\n%.10s\n%s' ${uuid[0]} ${uuid[1]} ${uuid[3]^^} ${uuid[4]} \
        ${uuid[0]} >list
}

# is_left STORE REMOVED: all but these digits of images, also their directories.
is_left() {
    local i path
    for i in 0 1 2 3 4 5; do
        path=$1${file[i]#store}
        if [[ $2 == *$i* ]]; then
            absent "${path%/*}"
        else
            present "$path"
        fi
    done
}

# with_mask MASK WORD...: covsplit with this umask; as_member USER MASK WORD...: by a member of the group 4321, in a
# directory beside "tool".
with_mask() {
    (umask $1 && run "$COVSPLIT" "${@:2}")
}

as_member() {
    (umask $2 && run setpriv --reuid $1 --regid $1 --groups 4321 ../tool "${@:3}")
}

# none TEST...: nothing below "store" is like that.
none() {
    local found
    found=$(find store "$@")
    is "$found" ""
}
