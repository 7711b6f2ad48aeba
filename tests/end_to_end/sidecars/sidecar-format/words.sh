# For the scenes that show that docs/format.md is true: a reader that was written from that page alone reads sidecars, and brings
# the original back.
reader() {
    run python3 $SUPPORT/sidecar_reader.py "$@"
}

split() { # IMAGE OPTION...
    covsplit split "${@:2}" -o stripped --sidecar sidecar $1
}

# rejoins IMAGE [SIDECAR]
rejoins() {
    reader join ${2-sidecar} stripped joined
    same joined $1
}

# prints_lines END...: with these ends, each.
prints_lines() {
    local text
    for text; do
        grep -e "$text\$" "$kept/out" >/dev/null
    done
}

# One image of each class: ELF with 64 bits, and COFF with 32.
elf="program clang=22 language=c++"
coff="windows clang=22 machine=i686"

# In the store, with deltas: BASE [OPTION] split first, IMAGE [OPTION] then, into `delta`.
split_deltas() { # BASE OPTION IMAGE OPTION
    rm -rf store
    covsplit split -o base --store store --delta $2 $1
    covsplit split -o stripped --store store --delta $4 $3
    delta=$(entry store $(build_id $3))
}

link() {
    compile++ 22 -fuse-ld=lld -pie "$@"
}

# A program of those of first.o alone.
link_part() {
    cat >part.cc <<'EOF'
extern "C" long first_run(long seed);
extern "C" void stop_here(long) {}
int main(int count, char **) { return first_run(count) == 1; }
EOF
    compile++ 22 -O1 -fPIE -c part.cc -o part.o
    link part.o first.o -o part
}

# row BASE OPTION IMAGE OPTION SECTION: as the reader tells it.
row() {
    split_deltas "${@:1:4}"
    reader check $delta
    prints_lines "$5"
    rejoins $3 $delta
}
