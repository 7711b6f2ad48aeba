# For the scenes of exported objects through elfutils' debuginfod: a report with no image and no local file, which llvm-cov asks for by
# the UUIDs in the profile.
source "$SUPPORT/debuginfod.sh"

# build CLANG: a program in app-CLANG/, with its profile, and that alone in another directory.
build() {
    mkdir app-$1
    cd app-$1
    subject units clang=$1
    LLVM_PROFILE_FILE=app.profraw ./app
    llvm-profdata-$1 merge app.profraw -o app.profdata
    mkdir alone
    cp app.profdata alone
    cd ..
}

# report_through PORT CLANG WORD...
report_through() {
    (
        cd app-$2/alone
        DEBUGINFOD_CACHE_PATH=$PWD/../cache DEBUGINFOD_URLS=http://127.0.0.1:$1 llvm-cov-$2 "${@:3}" \
            -instr-profile=app.profdata
    )
}
