# For the scenes of exported objects in place of images: what LLVM's tools say of them must be what they say of the unsplit
# image, and what is in the way must not be lost.
uuid=$(build_id app)

# debug_file DIRECTORY IMAGE
debug_file() {
    local name
    name=$(entry $1 "$(build_id $2)")
    echo ${name%.covsplit}.debug
}

# build KEY=VALUE...: another program, with its profile as app.profdata, in a directory of its own.
build() {
    cd "$(mktemp -d $PWD/build-XXXX)"
    subject units "$@"
    LLVM_PROFILE_FILE=%m.profraw ./app
    local clang=19 word
    for word; do
        [[ $word != clang=* ]] || clang=${word#clang=}
    done
    llvm-profdata-$clang merge -o app.profdata *.profraw
    rm *.profraw
}

# same_reports CLANG BEFORE AFTER: all reports of these words are the same.
same_reports() {
    local report
    for report in report "show -show-branches=count -show-expansions -show-instantiations" export "export -format=lcov"; do
        llvm-cov-$1 $report -instr-profile=app.profdata $2 >expected
        llvm-cov-$1 $report -instr-profile=app.profdata $3 >found
        [ "$(stat -c %s expected)" -gt 100 ]
        same expected found
    done
}
