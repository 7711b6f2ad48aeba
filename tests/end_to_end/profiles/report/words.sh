# For the scenes of reports: what covsplit report prints is what llvm-cov prints of the unsplit images, and what it makes of
# that is compared with a second implementation (tests/support/report_check.py). They begin in the directory of the split
# images, where the program finds its libraries.
cd split
export LD_LIBRARY_PATH=$PWD
images="app libunits.so libplugin.so"

report() {
    covsplit report --store store "$@"
}

# theirs CLANG WORD...: what llvm-cov prints of the unsplit images, in the order of their names.
theirs() {
    (cd ../unsplit && llvm-cov-$1 "${@:2}" app -object libplugin.so -object libunits.so -instr-profile=app.profdata)
}

# is_report WANTED: what was printed last, which is something.
is_report() {
    [ "$(stat -c %s $1)" -gt 100 ]
    same $1 "$kept/out"
}

# files LCOV: how many a tracefile has
files() {
    grep -c "^SF:" $1
}

check_by() {
    python3 $SUPPORT/report_check.py "$@"
}
