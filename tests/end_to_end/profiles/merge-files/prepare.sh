# A program with its sidecar in a store, split, and four profiles of it, two of them in a directory below.
subject program linker=bfd optimization=-O0 functions=20
covsplit split --store store -o split program
mkdir -p profiles/below
for i in 1 2 3 4; do
    LLVM_PROFILE_FILE=$i.profraw exits 3 ./split $i
done
mv 1.profraw 3.profraw profiles
mv 2.profraw 4.profraw profiles/below
covsplit correlate --store store -o whole.profraw profiles/1.profraw
