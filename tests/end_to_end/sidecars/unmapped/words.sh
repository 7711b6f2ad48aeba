# For the scenes of images without coverage mapping among others: as of a library that is instrumented for PGO alone. What is made of all
# sidecars leaves them out with one warning. But mapping that stayed in its image must not be left out.
advice="compile it with -fcoverage-mapping"
ways=("" --portable --fast "--sections names,data") # to split a library

# says_one START END: there is one message, which begins and ends like this.
says_one() {
    error_lines 1
    [[ $(cat "$kept/err") == "covsplit: $1"*"$2" ]] || fail "not '$1 ... $2'"
}

# again WAY: goes to a new copy of what was prepared.
again() {
    mkdir "$kept/again$1"
    cp "$kept"/work/* "$kept/again$1"
    cd "$kept/again$1"
}
