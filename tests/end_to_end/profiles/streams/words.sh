# For the scenes of profiles from standard input and FIFOs, plain and sparse: the result is that for the same bytes in files; or
# there is an error that says what is missing, soon, and no output.

merge() {
    run timeout 20 "$COVSPLIT" merge --store store "$@"
}

correlate() {
    run timeout 20 "$COVSPLIT" correlate --store store "$@"
}

show() {
    run timeout 20 "$COVSPLIT" show "$@"
}

# lacks SUBJECT PROBLEM COMMAND...: an error of one line, which says both, and no output.
lacks() {
    exits 1 "${@:3}"
    is_one_error
    says "covsplit: error: $1: " "$2"
    absent no.profraw
}
