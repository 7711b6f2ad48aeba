# For the preparation of LevelDB's db_bench with its library.
source "${preparation%/*/*}/words.sh"

link_leveldb() { # OBJECTS DIRECTORY
    mkdir $2
    cd $2
    compile++ $clang -pthread -Wl,--build-id=sha1 -fuse-ld=$linker -shared -o libleveldb.so $1/library/*.o
    compile++ $clang -pthread -Wl,--build-id=sha1 -fuse-ld=$linker $1/{db_bench,histogram,testutil}.o libleveldb.so \
        '-Wl,-rpath,$ORIGIN' -o db_bench
    cd ..
}

profile_leveldb() {
    profile 0 db_bench --db=database --num=2000 --benchmarks=fillseq,readseq,readrandom
}

"$SUBJECT" leveldb . $clang
link_leveldb $(readlink -f objects) original
rm objects
