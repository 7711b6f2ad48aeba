# For the scenes of images that were linked from packed objects, all or some of them. What a split makes of such an image is
# what it makes of the image of ordinary objects: the same sections in the sidecar, the same program. And join gives back
# the image that was linked.
clang=${CLANG:-22}
linker=$([ $clang = 14 ] && echo bfd || echo lld)
images="packed-image first middle last ends"

# With this UUID all images and their sidecars have the same.
split() {
    covsplit split --uuid 00112233445566778899aabbccddeeff "$@"
}

# joins IMAGE [FILE WORD...]: that is the original of the file, which is `out`, with these words; or else with `side`.
joins() {
    covsplit join -o joined "${@:3}" $([ $# -gt 2 ] || echo --sidecar side) ${2-out}
    same joined $1
}

sections_of() {
    objdump -s -j __llvm_covmap -j __llvm_covfun -j __llvm_prf_names $1 | tail -n +3
}

# Tools get the same of `side` as of the sidecar of the ordinary image, addresses included.
same_sections() {
    covsplit export --sidecar side -o object
    sections_of object >found
    sections_of ordinary-object | diff - found
    is $(grep -c "^Contents of section" found) 3
}

# refuses TEXT WORD...: so that no file is made.
refuses() {
    rm -f out side
    refused "${@:2}"
    says "$1"
    absent out side
}

shows() { # FILE TEXT...
    covsplit show --json $1 >"$kept/shown"
    prints "${@:2}"
}

shows_not() {
    covsplit show --json $1 >"$kept/shown"
    not grep $2 "$kept/out"
}
