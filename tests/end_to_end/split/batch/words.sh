# For the scenes of many images in one split.

# is_split IMAGE NAME: it was, and joining with the store gives the original of this name.
is_split() {
    not cmp -s $1 originals/$2
    covsplit join --store store -o joined $1
    same originals/$2 joined
}
