# For the scenes of what `cmake --install` puts in place: the command, and the libraries as others use them, through pkg-config and
# through CMake, from C and from C++.
prefix="$PWD/prefix with blank"
flock $SUBJECTS.installation cmake --install ${SUBJECTS%/tests/*} --prefix "$prefix" >"$kept/installation"
library=$(dirname "$(find "$prefix" -name pkgconfig)")
examples=$SHARE/examples/library
strict="-Wall -Wextra -Wpedantic -Werror"

# uses COMPILER LANGUAGE SOURCE PROGRAM: compiles it with what pkg-config says. The shell takes that apart, as a Makefile does.
uses() {
    local flags
    flags=$(PKG_CONFIG_PATH="$library/pkgconfig" pkg-config --cflags --libs covsplit)
    eval "$1 $strict -x $2 $3 -o $4 $flags"
}

# by_library PROGRAM WORD...
by_library() {
    LD_LIBRARY_PATH="$library" ASAN_OPTIONS=verify_asan_link_order=0 run "./$1" "${@:2}"
}

# describes PROGRAM: it describes the sidecar and brings the original back.
describes() {
    by_library $1 side.covsplit split restored
    grep "ELF, machine 62\$" "$kept/out"
    prints "__llvm_covfun "
    same restored program
}

# finds_functions PROGRAM: those that llvm-profdata says have been called.
finds_functions() {
    covsplit correlate --sidecar side.covsplit -o full.profraw run.profraw
    llvm-profdata-19 show --all-functions --covered full.profraw | sort >expected
    by_library $1 side.covsplit run.profraw | sort >found
    [ $(wc -l <found) -gt 20 ]
    same found expected
}

# configure SOURCE BUILD
configure() {
    cmake -S $1 -B $2 "-DCMAKE_PREFIX_PATH=$prefix"
    cmake --build $2
}
