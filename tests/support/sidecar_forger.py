"""Forges sidecars that are small and claim to hold very much, with a seal that is right.

Usage: sidecar_forger.py SIDECAR KIND OUT

SIDECAR is of ELFCLASS64 and little-endian, OUT the same with one section in its place that has far too
much; for the kind "delta", all sections of a delta. All is made by docs/format.md and RFC
8878 alone.
"""
import struct
import sys
import zlib

import sidecar_reader as reader
from sidecar_numbers import uleb128

MIB, GIB = 1 << 20, 1 << 30
MAGIC, WINDOW_OF_128_MIB, BLOCK_MAX, RLE, LAST = 0xfd2fb528, 17 << 3, 128 << 10, 1 << 1, 1


def block(size, byte, flags=0):
    return struct.pack("<I", size << 3 | RLE | flags)[:3] + bytes([byte])


def repeated(size, byte=0, last_byte=None):
    """The size and the zstd frame of one byte again and again, 4 bytes for each 128 KiB; the last
    one may be another if it has a block for itself."""
    last = (size - 1) % BLOCK_MAX + 1
    return size, (struct.pack("<IBBQ", MAGIC, 0xc0, WINDOW_OF_128_MIB, size) +
                  block(BLOCK_MAX, byte) * ((size - last) // BLOCK_MAX) +
                  block(last, byte if last_byte is None else last_byte, LAST))


def unit(*streams):
    """A compact form of these streams: bytes, or the size and the frame of one."""
    sizes, stored = uleb128(len(streams)), b""
    for stream in streams:
        size, frame = stream if isinstance(stream, tuple) else (len(stream), b"")
        sizes += uleb128(size) + (uleb128(len(frame)) if size else b"")
        stored += frame or stream
    return sizes + stored


def mapping_blocks(count, size):
    """Blocks of zeros, each of which is sound."""
    one = unit(*[b""] * 8, repeated(size), *[b""] * 53)
    entry = uleb128(size) + uleb128(len(one)) + reader.digest(bytes(size))
    return uleb128(count) + entry * count + one * count


def long_lists(count):
    """As many lists of one name of 32 MiB: the codes, the numbers of two bytes, and the name."""
    return (b"\x01" + b"\x02" * (count - 1), bytes(2 * (count - 1)),
            repeated(32 * MIB + 1, ord("a"), 1))


def names(count):
    """As many chunks, all to be made zlib streams again."""
    codes, numbers, name = long_lists(count)
    return unit(name, b"", b"", codes, numbers, uleb128(2) + uleb128(count) + b"\x02\x01" * count, b"")


def filenames(count):
    """As many records, likewise."""
    codes, numbers, name = long_lists(count)
    records = uleb128(2) + uleb128(count) + b"\x00\x00\x06\x02\x01" * count
    return unit(name, codes, numbers, records, b"")


# Of each kind the section, its form and size, and what follows the Chdr.
KINDS = {
    "zstd": ("__llvm_covfun", reader.ZSTD, 200 * GIB, lambda: repeated(200 * GIB)[1]),
    "names-zstd": ("__llvm_prf_names", reader.ZSTD, 20 * GIB, lambda: repeated(20 * GIB)[1]),
    "inverse": (".covsplit.inverse", reader.ZSTD, 200 * GIB, lambda: repeated(200 * GIB)[1]),
    "data": ("__llvm_prf_data", reader.DATA, 2 * GIB,
             lambda: unit(*[b""] * 9, repeated(2 * GIB))),
    "blocks": ("__llvm_covfun", reader.MAPPING_BLOCKS, 32 * GIB,
               lambda: mapping_blocks(1024, 32 * MIB)),
    "names": ("__llvm_prf_names", reader.NAMES, 32 * MIB, lambda: names(200)),
    "filenames": ("__llvm_covmap", reader.FILENAMES, 32 * MIB, lambda: filenames(200)),
}


class Forgery(reader.Sidecar):
    def rewrite(self, replaced):
        """The file with other sections: of each name its ch_type, its size, and what follows."""
        table, = self.unpack("Q", 40)
        count, names_index = self.unpack("HH", 60)
        headers = [list(self.unpack("IIQQQQIIQQ", table + 64 * i)) for i in range(count)]
        names = headers[names_index][4]
        made = bytearray(self.file[:headers[1][4]])
        cuts = []
        for header in headers[1:]:
            name = self.file[names + header[0]:].split(b"\0", 1)[0].decode()
            _, kind, flags, _, offset, length, *_ = header
            contents = self.file[offset:offset + length]
            made += bytes(-len(made) % 8)
            if name in replaced:
                ch_type, size, stored = replaced[name]
                contents = struct.pack("<IIQQ", ch_type, 0, size, 1) + stored
            if kind == reader.SHT_NOTE:
                seal = len(made) + self.seal_place - offset
            header[4] = len(made)
            if kind != reader.SHT_NOBITS:
                header[5] = len(contents)
                made += contents
            if flags & reader.SHF_COMPRESSED:
                cuts.append((header[4] + 24, len(made)))
        made += bytes(-len(made) % 8)
        made[40:48] = struct.pack("<Q", len(made))
        for header in headers:
            made += struct.pack("<IIQQQQIIQQ", *header)
        return self.sealed(made, seal, cuts)

    @staticmethod
    def sealed(made, seal, cuts):
        made[seal:seal + 16] = bytes(16)
        covered = bytearray(made)
        for start, end in reversed(cuts):
            del covered[start:end]
        made[seal:seal + 16] = reader.digest(covered)
        return made


def forge(sidecar, kind):
    if kind != "delta":
        name, form, size, stored = KINDS[kind]
        return sidecar.rewrite({name: (form, size, stored())})
    size, frame = repeated(2 * GIB)
    part = uleb128(reader.ZSTD) + uleb128(0) + uleb128(size) + frame
    return sidecar.rewrite({name: (reader.DELTA, size, part)
                            for name, (_, flags, *_) in sidecar.sections.items()
                            if flags & reader.SHF_COMPRESSED})


if __name__ == "__main__":
    with open(sys.argv[3], "wb") as file:
        file.write(forge(Forgery(sys.argv[1]), sys.argv[2]))
