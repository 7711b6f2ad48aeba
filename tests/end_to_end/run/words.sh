# For the scenes of `covsplit run`.

# reads WORD...: the program ends well, and nobody says anything.
reads() {
    silent run --store store -- "$@"
    prints_just ""
}

# many COUNT TO [FIRST]: so many profiles, each another one by its last counter, as TO/N.profraw.
many() {
    mkdir -p $2
    python3 - light.profraw ${*:1:2} ${3-1} <<'END'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
ids, _, before, counters, after = struct.unpack_from("<5Q", data, 16) # the header of version 10
records = struct.unpack_from("<Q", data, 24)[0]
end = 16 * 8 + ids + records * 64 + struct.unpack_from("<Q", data, 32)[0] + counters * 8
for i in range(int(sys.argv[4]), int(sys.argv[4]) + int(sys.argv[2])):
    data[end - 8] = i % 256
    open(f"{sys.argv[3]}/{i}.profraw", "wb").write(data)
END
}

# warns FILE OPTION...: FILE is read three times, in two processes, which must get the file itself, and one line on standard
# error says why.
warns() {
    exits 5 covsplit run "${@:2}" -- sh -c 'cat "$0" "$0"; cat "$0"; exit 5' "$1" >"$kept/read"
    cat "$1" "$1" "$1" | cmp - "$kept/read"
    error_lines 1
    says "covsplit: warning: " "$1" "; read as it is"
}
