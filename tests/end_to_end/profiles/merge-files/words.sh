# For the scenes of merge.
export LLVM_PROFDATA=llvm-profdata-19

merge() {
    covsplit merge --store store "$@"
}
