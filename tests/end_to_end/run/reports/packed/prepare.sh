source "${preparation%/*/*}/leveldb.sh"
# The same of packed objects. The images have build IDs of their own, so only the ways that name the objects are taken.
packed=1
"$SUBJECT" leveldb . $clang
cp -r objects/. packed-objects
find packed-objects -name "*.o" -exec "$COVSPLIT" pack {} +
link_leveldb $PWD/packed-objects packed
rm -r objects packed-objects
prepare db_bench libleveldb.so
for image in db_bench libleveldb.so; do
    for section in __llvm_covmap __llvm_covfun; do
        for directory in objects original; do
            llvm-objcopy-19 --dump-section $section=$directory.section $directory/$image /dev/null
        done
        [ -s original.section ]
        same objects.section original.section
    done
done
profile_leveldb
