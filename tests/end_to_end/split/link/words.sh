# For the scenes of links: what covsplit link splits, what it leaves alone, and that it is like the command otherwise.
clang=clang-22
coverage="-fprofile-instr-generate -fcoverage-mapping"

# links WORD...: without a word.
links() {
    silent link "$@"
    prints_just ""
}

# wrapped COMMAND...: with covsplit where covsplit-cc looks for it, and a store for that.
wrapped() {
    PATH=${COVSPLIT%/*}:$PATH COVSPLIT_LINK_STORE="$PWD/side cars" run "$@"
}
