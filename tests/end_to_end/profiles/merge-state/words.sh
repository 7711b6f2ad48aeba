# For the scenes of states: the output from a state is that of a direct merge of the same profiles, of any kind and in any number
# of steps.
export LLVM_PROFDATA=llvm-profdata-22

merge() {
    covsplit merge --store store "$@"
}

# same_counts STATE INPUT...: STATE are words. What llvm-profdata reads is the same; the order of functions in a file is of no
# matter.
same_counts() {
    merge -o direct.profdata "${@:2}"
    merge -o state.profdata $1
    $LLVM_PROFDATA merge --text -o direct.text direct.profdata
    $LLVM_PROFDATA merge --text -o state.text state.profdata
    same direct.text state.text
}
