source "${SCENE%/*/*}/words.sh"

# small OPTION: a small program with a shared library, which was compiled with the option; its sources are in original/.
sources=$PWD/original
small() {
    mkdir original
    "$SUBJECT" program original clang=$clang linker=$linker kind=shared language=c++ optimization=-O0 compile=$1 functions=40
    prepare program libsecond.so
    profile 3 program
    start_server
}
