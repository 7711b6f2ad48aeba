# For the scenes of profiles of LevelDB as a shared library, from 20 runs: what covsplit merges is what llvm-profdata merges from the
# profiles of the unsplit images, to the byte, and llvm-cov reports the same.
source "$SUPPORT/application.sh"
clang=${CLANG:-22} linker=${LINKER:-lld}
export LLVM_PROFDATA=llvm-profdata-$clang

# link_leveldb OBJECT...: a program with the library in original/, split in split/.
link_leveldb() {
    local image objects
    "$SUBJECT" leveldb . $clang
    objects=$(readlink -f objects)
    mkdir original split
    cd original
    compile++ $clang -pthread -Wl,--build-id=sha1 -fuse-ld=$linker -shared -o libleveldb.so $objects/library/*.o
    compile++ $clang -pthread -Wl,--build-id=sha1 -fuse-ld=$linker "${@/#/$objects/}" libleveldb.so '-Wl,-rpath,$ORIGIN' -o program
    cd ..
    for image in program libleveldb.so; do
        covsplit split --store store -o split/$image original/$image
    done
}

# run_all WORD...: 20 times, both; the two profiles of each run are in original-NN/ and split-NN/.
run_all() {
    local kind run
    for kind in original split; do
        for run in {01..20}; do
            rm -rf work
            mkdir work
            (cd work && LLVM_PROFILE_FILE=../$kind-$run/%m.profraw ../$kind/program "$@") >/dev/null
            is $(ls $kind-$run | wc -l) 2
        done
    done
}

cov() { # SUBCOMMAND PROFILE
    llvm-cov-$clang $1 -instr-profile=$2 original/program -object original/libleveldb.so
}

same_merged() {
    local original split profile
    original=$(profiles_in original-??)
    split=$(profiles_in split-??)
    $LLVM_PROFDATA merge -num-threads=1 -o expected.profdata $original
    covsplit merge --store store -o merged.profdata $split
    for profile in expected merged; do
        $LLVM_PROFDATA show --all-functions --counts $profile.profdata >$profile.shown
        cov report $profile.profdata >$profile.report
        cov export $profile.profdata >$profile.export
    done
    same merged.shown expected.shown
    same merged.profdata expected.profdata
    grep TOTAL expected.report
    same merged.report expected.report
    same merged.export expected.export
    $LLVM_PROFDATA merge -num-threads=1 -sparse -o expected.profdata $original
    covsplit merge --sparse --store store -o merged.profdata $split
    same merged.profdata expected.profdata
}
