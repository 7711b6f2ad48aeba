# For the scenes of copies: "uuid" has the UUIDs of the four images, which begin with 00, 25, 4a and 6f.
mapfile -t uuid <uuids

# has STORE IMAGES: the store has sidecars of the images of these digits, whole, and no others.
has() {
    local i
    for i in 0 1 2 3; do
        if [[ $2 == *$i* ]]; then
            present "$(entry $1 ${uuid[i]})"
        else
            absent "$(entry $1 ${uuid[i]})"
        fi
    done
    [ ! -e $1 ] || is "$(covsplit store check $1 | grep -o '^[0-9]* ')" "${#2} "
}

# All are in "store", and a little old.
fill() {
    covsplit store add store side
    find store -name '*.covsplit' -exec touch -d "1 hour ago" {} +
}
