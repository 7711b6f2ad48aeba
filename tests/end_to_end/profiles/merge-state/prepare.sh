# Programs of several kinds, with profiles of the images before the split and after it, in NAME/full-* and NAME/light-*; in mixed/
# several profiles in one file, and a sparse one.
make_kind() { # NAME CLANG KIND OPTIONS
    mkdir build-$1 build-$1/split $1
    cd build-$1
    subject program clang=$2 kind=$3 "compile=$4" optimization=-O0 functions=20
    for image in program libsecond.so; do
        [ ! -e $image ] || covsplit split --store ../store -o split/$image $image
    done
    for i in 1 2 3; do
        LLVM_PROFILE_FILE=../$1/full-$i-%m.profraw LD_LIBRARY_PATH=. exits 3 ./program $i
        LLVM_PROFILE_FILE=../$1/light-$i-%m.profraw LD_LIBRARY_PATH=split exits 3 split/program $i
    done
    cd ..
    rm -r build-$1
}
make_kind plain 19 pie ""
make_kind shared 22 shared ""
make_kind bitmap 19 pie -fcoverage-mcdc
make_kind bytes 19 pie "-mllvm -enable-single-byte-coverage=true"
make_kind old 14 pie ""
mkdir mixed
cat plain/full-1*.profraw plain/light-2*.profraw >mixed/several.profraw
python3 $SUPPORT/sparse_profile.py make plain/light-1*.profraw mixed/sparse.profraw
