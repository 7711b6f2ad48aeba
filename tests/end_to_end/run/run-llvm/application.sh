# The programs of the scenes, for their preparation and those that make others.
clang=${CLANG:-22} linker=${LINKER:-lld}

# application PARAMETER...: a program in original/, split with $options in split/, and the profiles of 16 runs of each: in
# profiles-*/ each run has its own for each image, in pool-*/ they share files.
application() {
    local kind run image
    mkdir original split store
    cd original
    subject program clang=$clang linker=$linker "$@"
    for image in program $(ls | grep '\.so$'); do
        (cd .. && covsplit split ${options---store store} -o split/$image original/$image)
    done
    cd ..
    for kind in original split; do
        mkdir profiles-$kind pool-$kind
        for run in {01..16}; do
            LLVM_PROFILE_FILE=profiles-$kind/run-$run-%m.profraw exits 3 $kind/program $((10#$run))
            LLVM_PROFILE_FILE=pool-$kind/%2m.profraw exits 3 $kind/program $((10#$run))
        done
    done >/dev/null 2>&1
}
