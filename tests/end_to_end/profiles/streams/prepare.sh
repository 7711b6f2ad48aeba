# Two programs, and a store for both; their profiles 14.light and 19.light, sparse ones, and files of several.
for clang in 14 19; do
    mkdir $clang
    cd $clang
    options=
    [ $clang = 14 ] || options=-fcoverage-mcdc
    subject program clang=$clang linker=bfd kind=no-pie optimization=-O0 compile=$options functions=12
    covsplit split --store ../store -o split program
    cd ..
    LLVM_PROFILE_FILE=$clang.light exits 3 $clang/split
    python3 $SUPPORT/sparse_profile.py make $clang.light $clang.sparse
done
cat 14.light 19.light >both
cat 19.sparse 14.light 14.sparse 19.light >mixed
