# LevelDB's driver, linked statically of two builds, of which one file was changed between them; and with an empty line before all of
# that file: `first`, `changed`, `moved`, split, with their profiles.
clang=${CLANG:-22}
leveldb=$SOURCES/leveldown/deps/leveldb/leveldb-1.20
"$SUBJECT" leveldb . $clang
objects=$(readlink -f objects)
library=$(ls $objects/library/*.o | grep -v /coding.o)

build() { # NAME: of coding.cc
    compile++ $clang -fcoverage-compilation-dir=/sources -w -O1 -std=c++11 -fPIC -DOS_LINUX -DLEVELDB_PLATFORM_POSIX -I$leveldb \
        -I$leveldb/include -c coding.cc -o coding.o
    clang++-$clang -fprofile-instr-generate -pthread -Wl,--build-id=sha1 $objects/leveldb_driver.o coding.o $library -o $1
    covsplit split --store store $1
    mkdir work
    cd work
    LLVM_PROFILE_FILE=../$1.profraw ../$1 >/dev/null
    cd ..
    rm -r work $1
}

cp $leveldb/util/coding.cc source
cp source coding.cc
build first
# In EncodeVarint32: another condition, in as many lines.
is $(grep -cF "if (v < (1<<7)) {" source) 1
sed 's/if (v < (1<<7)) {/if (v < (1<<7) \&\& v + 1 != 0) {/' source >coding.cc
build changed
(echo && cat source) >coding.cc
build moved
rm objects
