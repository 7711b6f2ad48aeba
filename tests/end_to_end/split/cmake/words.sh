# For the scenes of the CMake package, which is installed for each.
prefix="$PWD/prefix with blank"
flock $SUBJECTS.installation cmake --install ${SUBJECTS%/tests/*} --prefix "$PWD/first" >"$kept/installation"
mv first "$prefix"

# The generator, and the configuration, "" where there is one.
generator=${GENERATOR:-Ninja} configuration=${CONFIGURATION-}

# configure SOURCE BUILD OPTION...
configure() {
    run cmake -DCMAKE_C_COMPILER=clang-22 -S $FIXTURES/$1 -B "$2" -G "$generator" "-DCMAKE_PREFIX_PATH=$prefix" "${@:3}"
}

# build DIRECTORY WORD...
build() {
    run cmake --build "$1" ${configuration:+--config $configuration} "${@:2}"
}

install() { # BUILD PREFIX
    run cmake --install "$1" ${configuration:+--config $configuration} --prefix "$2"
}

# smooth COMMAND...: without warnings.
smooth() {
    "$@"
    not grep -E "Warning|covsplit: warning" "$kept/out" "$kept/err"
}

# fails TEXT COMMAND...: with a message that has this.
fails() {
    not "${@:2}"
    cat "$kept/out" "$kept/err" >"$kept/both"
    occur "$kept/both" "$1"
}

is_split() { # IMAGE
    run "$COVSPLIT" show "$1"
    grep -q "already split        yes" "$kept/out"
}

# How objects and all in an archive are.
has_section() { # FILE NAME
    llvm-readelf-22 -SW "$1" | grep -F " $2 " >"$kept/sections"
}

has_records() {
    has_section "$1" __llvm_covfun
}

is_packed() {
    has_section "$1" __llvm_covmap
    not has_records "$1"
}
