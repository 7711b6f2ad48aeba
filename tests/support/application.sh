# A program before and after a split, with what profiles it writes.

# application PARAMETER...: a program of these (tests/support/subject.c) in original/, and split with $options in split/; what the split
# says is in `said`.
application() {
    local image
    mkdir original split store
    cd original
    subject program clang=$clang linker=$linker "$@"
    cd ..
    : >said
    for image in program libsecond.so; do
        [ -e original/$image ] || continue
        covsplit split ${options---store store} -o split/$image original/$image 2>>said
    done
}

# profiles_in DIRECTORY...: in each by run, where they have the names run-NN-..., and then by the number of counters: what LLVM writes
# depends a little on the order of its inputs, and other names have other hashes in them.
profiles_in() {
    python3 - ${@/%/\/*} <<'EOF'
import os, struct, sys
def order(path):
    directory, name = os.path.split(path)
    run = name[:6] if name.startswith("run-") else ""
    return directory, run, struct.unpack_from("<Q", open(path, "rb").read(48), 40), path
print(*sorted(sys.argv[1:], key=order))
EOF
}
