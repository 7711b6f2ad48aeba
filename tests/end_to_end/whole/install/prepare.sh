# A program, split, with its profile.
subject program linker=bfd optimization=-O0 functions=20
covsplit split -o split --sidecar side.covsplit program
LLVM_PROFILE_FILE=run.profraw exits 3 ./split
