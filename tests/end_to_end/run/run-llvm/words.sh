# For the scenes of `covsplit run` with LLVM's tools, of the version CLANG: what they make of lightweight profiles, stripped images
# and sidecars is what they make of the profiles and images as they were before the split.
source "${SCENE%/*}/application.sh"
place=--store

plain() { # TOOL WORD...
    run $1-$clang "${@:2}"
}

# Under `covsplit run`, which has nothing to say. (llvm-cov warns where an image is newer than a profile.)
under() {
    covsplit run $place store -- $1-$clang "${@:2}"
    not grep covsplit "$kept/err"
}

# same_merged THREADS NAME: of NAME-original, which makes NAME.profdata, and of NAME-split.
same_merged() {
    plain llvm-profdata merge -num-threads=$1 ${binary_file-} -o $2.profdata $(profiles_in $2-original)
    under llvm-profdata merge -num-threads=$1 -o found.profdata $(profiles_in $2-split)
    same found.profdata $2.profdata
}

same_profiles() {
    same_merged 4 profiles
    same_merged 1 profiles
    same_merged 1 pool
}

# of DIRECTORY: llvm-cov's words for its images
of() {
    echo -instr-profile=profiles.profdata $1/program
    if [ -e $1/libsecond.so ]; then
        echo -object=$1/libsecond.so
    fi
}

# The reports name no object, so they are equal to the byte, whatever the object is. The files of a report come in the order of
# the objects: with the sidecars, whose order is that of their UUIDs, only the sum is compared where there are several.
same_reports() {
    local words source sidecars=($(find store -name "*.covsplit"))
    is ${#sidecars[@]} $(ls split | wc -l)
    for words in report show "show -show-branches=count -show-regions" \
        "show -path-equivalence=/nowhere,/elsewhere -show-line-counts-or-regions" export "export -format=lcov"; do
        plain llvm-cov $words $(of original) >expected
        grep first.c expected >grepped
        under llvm-cov $words $(of split) >found
        same found expected
        if [ ${#sidecars[@]} = 1 ]; then
            under llvm-cov $words -instr-profile=profiles.profdata $sidecars >found
            same found expected
        fi
    done
    # The path in the mapping is that of where it was compiled.
    source=$(sed -n '/\/first\.c$/{s/^SF://p;q}' expected)
    plain llvm-cov report -show-functions $(of original) $source >expected
    grep first_run expected >grepped
    under llvm-cov report -show-functions $(of split) $source >found
    same found expected
    plain llvm-cov report $(of original) | grep TOTAL >expected
    under llvm-cov report -instr-profile=profiles.profdata ${sidecars[0]} ${sidecars[@]/#/-object=} | grep TOTAL >found
    same found expected
}
