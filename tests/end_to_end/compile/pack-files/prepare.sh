# Objects, archives, and what is neither; in "packed", what the first are when they are packed, and in "inputs" all again.
subject units-sources
for i in 0 1 2; do
    compile++ 19 -c unit$i.cc -o unit$i.o
done
compile++ 19 -flto -c unit0.cc -o bitcode.o
clang++-19 -c unit0.cc -o plain.o
compile++ 19 --target=arm64-apple-macos13 -c unit0.cc -o mach.o
for machine in x86_64 i686 aarch64 arm64ec thumbv7; do
    compile++ 19 --target=$machine-pc-windows-msvc -c unit0.cc -o $machine.o
done
llvm-lib-19 /out:x86_64.lib x86_64.o
# A record that is in no group of records.
compile++ 19 -S -o kept.s unit0.cc
sed -i 's/__covrec_[0-9A-F]*u\?,comdat/strange,comdat/' kept.s
clang++-19 -c kept.s
echo 'int main(void) { return 0; }' >main.c
compile 19 -o image main.c
clang-19 -o plain-image main.c
: >empty
echo hello >text
mkdir directory
ar rcs lib.a unit0.o unit1.o plain.o
ar rcs plain.a plain.o
ar rcsT thin.a unit1.o unit2.o
rm *.cc *.c *.s *.h
touch -d @1000000000 *
mkdir packed
cp -a *.o lib.a thin.a packed
(cd packed && covsplit pack unit0.o unit1.o unit2.o lib.a thin.a) 2>"$kept/packing"
mkdir inputs
cp -a *[!s] inputs
