# For the scenes of merges that make a file for each image.
export LLVM_PROFDATA=llvm-profdata-19

merge() {
    covsplit merge --store store "$@"
}

# of DIRECTORY IMAGE: the file of an image, by the UUID under which the store has it.
of() {
    echo $1/$("$COVSPLIT" store list store $2 | sed -n '2s/ .*//p').profdata
}

# have COUNT DIRECTORY: so many files are there.
have() {
    is "$(names $2 | wc -w)" $1
}
