# The programs of the scenes, for their preparation and those that make others.
source "$SUPPORT/application.sh"
clang=${CLANG:-22} linker=${LINKER:-lld}

# run_application PARAMETER...: a program in original/, split with $options in split/, and the profiles of 16 runs of each: in
# profiles-*/ each run has its own for each image, in pool-*/ they share files.
run_application() {
    local kind run
    application "$@"
    for kind in original split; do
        mkdir profiles-$kind pool-$kind
        for run in {01..16}; do
            LLVM_PROFILE_FILE=profiles-$kind/run-$run-%m.profraw exits 3 $kind/program $((10#$run))
            LLVM_PROFILE_FILE=pool-$kind/%2m.profraw exits 3 $kind/program $((10#$run))
        done
    done >/dev/null 2>&1
}
