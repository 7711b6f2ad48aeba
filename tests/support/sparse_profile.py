"""A reader and a writer of sparse profiles, written from docs/format.md ("Sparse profiles") alone.

Usage: sparse_profile.py expand SPARSE PLAIN     a file with one profile
       sparse_profile.py make PLAIN SPARSE [LONGEST_RUN]
"""
import struct
import sys

MAGIC = b"\xffcspar\x01"


def fail(why):
    sys.exit(f"sparse_profile.py: {why}")


def take_number(data, at):
    value = shift = 0
    start = at
    while True:
        if at == len(data):
            fail("cut short")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            break
    if at - start > 1 and byte == 0:
        fail("a number has more bytes than it needs")
    if value >= 1 << 64:
        fail("a number is too large")
    return value, at


def number(value):
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def expand(data):
    if data[:7] != MAGIC or data[7:8] not in (b"l", b"b"):
        fail("not a sparse profile")
    order = "<" if data[7:8] == b"l" else ">"
    words = []
    at = 8
    while at < len(data):
        value, at = take_number(data, at)
        if value == 0:
            run, at = take_number(data, at)
            if run == 0:
                fail("a run of nothing")
            words += [0] * run
        else:
            words.append(value)
    return struct.pack(f"{order}{len(words)}Q", *words)


def make(plain, longest):
    # 0xff is the first byte of the magic number in memory only if that is big-endian.
    is_big = plain[0] == 0xFF
    plain += bytes(-len(plain) % 8)
    words = struct.unpack(f"{'>' if is_big else '<'}{len(plain) // 8}Q", plain)
    sparse = bytearray(MAGIC + (b"b" if is_big else b"l"))
    at = 0
    while at < len(words):
        run = 0
        while at + run < len(words) and words[at + run] == 0 and run < longest:
            run += 1
        sparse += b"\0" + number(run) if run else number(words[at])
        at += run or 1
    return bytes(sparse)


def main():
    mode, source, target = sys.argv[1:4]
    with open(source, "rb") as file:
        data = file.read()
    longest = int(sys.argv[4]) if len(sys.argv) > 4 else 1 << 63
    with open(target, "wb") as file:
        file.write(expand(data) if mode == "expand" else make(data, longest))


main()
