# build CLANG: a program with its libraries in unsplit/, and split copies of all in split/, with the profiles of both. The name
# of the library libplugin.so is between the others; the program needs it, too.
build() {
    mkdir unsplit split
    cd unsplit
    subject units clang=$1 shared=yes options=-O1
    cat >plugin.cc <<'END'
#include "plugin.h"
static int used = bigger(3, 5);
int unused(int a)
{
    return a > 1 ? bigger(a, used) : 0;
}
END
    cat >plugin.h <<'END'
template <class T> T bigger(T a, T b)
{
    if (a > b)
        return a;
    return b;
}
END
    clang++-$1 -O1 -fprofile-instr-generate -fcoverage-mapping -Wl,--build-id -shared -fPIC -o libplugin.so $PWD/plugin.cc
    patchelf --add-needed libplugin.so app
    LD_LIBRARY_PATH=. LLVM_PROFILE_FILE=../full/%m.profraw ./app
    llvm-profdata-$1 merge -o app.profdata ../full/*
    cp app libunits.so libplugin.so ../split
    cd ../split
    covsplit split --store store app libunits.so libplugin.so
    LD_LIBRARY_PATH=. LLVM_PROFILE_FILE=profiles/%m.profraw ./app
    cd ..
}
