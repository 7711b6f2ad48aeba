"""Reads sidecars, by nothing but docs/sidecar-format.md and docs/compact-forms.md.

Usage: sidecar_reader.py check SIDECAR                     checks digests and prints what there is
       sidecar_reader.py names SIDECAR                     prints the distinct names of functions
       sidecar_reader.py section SIDECAR NAME OUT          writes the contents of a section
       sidecar_reader.py join SIDECAR STRIPPED OUT         brings the original image back

Digests are computed by libxxhash, zstd frames decompressed by the command zstd.
"""
import ctypes
import struct
import subprocess
import sys

# Tests leave nothing in the sources.
sys.dont_write_bytecode = True

import compact_forms
from compact_forms import NAMES_1, DATA_1, COVMAP_1, COVFUN_1, Numbers

KINDS = {1: "__llvm_covmap", 2: "__llvm_covfun", 3: "__llvm_prf_names", 4: "__llvm_prf_data",
         5: "__llvm_covnames", 6: "__llvm_covdata", 7: "__llvm_prf_cnts", 8: "__llvm_prf_bits"}
SHT_NOTE, SHT_NOBITS, SHF_COMPRESSED = 7, 8, 0x800
ZSTD = 2
FORMAT, IMAGE, REMOVED, KEPT, INVERSE, SEAL = range(0x1001, 0x1007)


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
XXHASH.XXH3_128bits.restype = Hash128


def digest(contents):
    value = XXHASH.XXH3_128bits(bytes(contents), len(contents))
    return struct.pack(">QQ", value.high, value.low)


def decompress(frames):
    return subprocess.run(["zstd", "-dcq", "--memory=2048MB"], input=frames, capture_output=True,
                          check=True).stdout


def require(condition, what):
    if not condition:
        sys.exit(what)


class Sidecar:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.file = file.read()
        require(self.file[:4] == b"\x7fELF", "no ELF file")
        self.wide = self.file[4] == 2
        self.order = ">" if self.file[5] == 2 else "<"
        self.read_sections()
        self.read_notes()

    def unpack(self, layout, place):
        return struct.unpack_from(self.order + layout, self.file, place)

    def read_sections(self):
        if self.wide:
            table, = self.unpack("Q", 40)
            size, count, names_index = self.unpack("HHH", 58)
            layout = "IIQQQQ"
        else:
            table, = self.unpack("I", 32)
            size, count, names_index = self.unpack("HHH", 46)
            layout = "IIIIII"
        headers = [self.unpack(layout, table + i * size) for i in range(count)]
        names = headers[names_index][4]
        self.sections = {}
        for name, kind, flags, address, offset, length in headers:
            text = self.file[names + name:self.file.index(b"\0", names + name)].decode()
            self.sections[text] = (kind, flags, address, offset, length)

    def chdr(self, name):
        """ch_type, ch_size, and where what follows starts."""
        offset = self.sections[name][3]
        if self.wide:
            ch_type, _, ch_size, _ = self.unpack("IIQQ", offset)
            return ch_type, ch_size, offset + 24
        ch_type, ch_size, _ = self.unpack("III", offset)
        return ch_type, ch_size, offset + 12

    def stored(self, name):
        ch_type, ch_size, start = self.chdr(name)
        _, _, _, offset, length = self.sections[name]
        return ch_type, ch_size, self.file[start:offset + length]

    def read_notes(self):
        kind, _, _, offset, length = self.sections[".note.covsplit"]
        require(kind == SHT_NOTE, "its notes are none")
        self.notes, end = [], offset + length
        while offset < end:
            name_size, size, note_type = self.unpack("III", offset)
            owner = self.file[offset + 12:offset + 12 + name_size]
            start = offset + 12 + (name_size + 3) // 4 * 4
            if owner == b"covsplit\0":
                self.notes.append((note_type, start, size))
            offset = start + (size + 3) // 4 * 4
        require(self.notes[0][0] == FORMAT, "the first note is not FORMAT")
        self.version, = self.unpack("I", self.notes[0][1])
        require(self.version in (1, 2), "another format version")
        place = next(start for note_type, start, _ in self.notes if note_type == IMAGE)
        (_, self.machine, self.pointer_size, _, self.flags, _, self.raw_version,
         self.original_size) = self.unpack("IIIIIIQQ", place)
        self.original_digest = self.file[place + 40:place + 56]
        self.stripped_size, = self.unpack("Q", place + 56)
        self.stripped_digest = self.file[place + 64:place + 80]
        self.removed = {}
        for note_type, start, _ in self.notes:
            if note_type == REMOVED:
                number, flags, size = self.unpack("IIQ", start)
                self.removed[KINDS[number]] = (flags, size, self.file[start + 16:start + 32])
            elif note_type == INVERSE:
                self.inverse_size, = self.unpack("Q", start)
                self.inverse_digest = self.file[start + 8:start + 24]
            elif note_type == SEAL:
                self.seal_place = start

    def check_seal(self):
        sealed = bytearray(self.file)
        seal = bytes(sealed[self.seal_place:self.seal_place + 16])
        sealed[self.seal_place:self.seal_place + 16] = bytes(16)
        cuts = sorted((self.chdr(name)[2], offset + length)
                      for name, (_, flags, _, offset, length) in self.sections.items()
                      if flags & SHF_COMPRESSED)
        for start, end in reversed(cuts):
            del sealed[start:end]
        require(digest(sealed) == seal, "the seal is wrong")

    def section(self, name):
        ch_type, ch_size, frames = self.stored(name)
        contents = decompress(frames) if ch_type == ZSTD else self.undo(name, ch_type, ch_size)
        _, size, expected = self.removed[name]
        require(len(contents) == ch_size == size and digest(contents) == expected,
                name + " has another digest")
        return contents

    def undo(self, name, ch_type, size):
        """The contents of a section in a compact form."""
        parts = [Numbers(part) for part in self.parts(name)]
        order = compact_forms.ORDERS[self.order]
        if ch_type == NAMES_1:
            return compact_forms.names_1(parts, size)
        if ch_type == COVMAP_1:
            return compact_forms.covmap_1(parts, size, order)
        if ch_type == DATA_1:
            return compact_forms.data_1(parts, size, order, self.compact_names(),
                                        self.raw_version, self.pointer_size)
        require(ch_type == COVFUN_1, name + " is in an unknown form")
        hashes = {}
        if "__llvm_prf_data" in self.removed:
            hashes = compact_forms.hashes_of_data(self.section("__llvm_prf_data"), order,
                                                  self.raw_version, self.pointer_size)
        return compact_forms.covfun_1(parts, size, order, self.compact_names(), hashes)

    def compact_names(self):
        """Those that others count on."""
        for name in "__llvm_prf_names", "__llvm_covnames":
            if name in self.removed and self.stored(name)[0] == NAMES_1:
                return self.parts(name)[0].split(b"\x01")[:-1]
        return []

    def inverse(self):
        ch_type, ch_size, frames = self.stored(".covsplit.inverse")
        contents = decompress(frames)
        require(ch_type == ZSTD and len(contents) == ch_size == self.inverse_size and
                digest(contents) == self.inverse_digest, "the inverse script has another digest")
        return contents

    def join(self, stripped):
        require(len(stripped) == self.stripped_size and digest(stripped) == self.stripped_digest,
                "not the stripped image of this sidecar")
        script = Numbers(self.inverse())
        step_count, literal_count = script.take(), script.take()
        steps = []
        for _ in range(step_count):
            keep, drop, insert, source = [script.take() for _ in range(4)]
            steps.append((keep, drop, insert, source, script.take() if source else 0))
        literals = Numbers(script.rest(literal_count))
        sections, original, place = {}, bytearray(), 0
        for keep, drop, insert, source, offset in steps:
            original += stripped[place:place + keep]
            place += keep + drop
            require(place <= len(stripped), "a step leaves the stripped image")
            if source == 0:
                original += literals.rest(insert)
                continue
            if source not in sections:
                sections[source] = self.section(KINDS[source])
            part = sections[source][offset:offset + insert]
            require(len(part) == insert, "a step leaves its section")
            original += part
        original += stripped[place:]
        require(len(original) == self.original_size and
                digest(original) == self.original_digest, "the original has another digest")
        return original

    def parts(self, name):
        _, _, packed = self.stored(name)
        numbers = Numbers(packed)
        sizes = [(numbers.take(), numbers.take()) for _ in range(numbers.take())]
        return [decompress(numbers.rest(stored)) if stored else numbers.rest(size)
                for size, stored in sizes]

    def names(self):
        ch_type, _, _ = self.stored("__llvm_prf_names")
        if ch_type == NAMES_1:
            return self.parts("__llvm_prf_names")[0].split(b"\x01")[:-1]
        return names_of_chunks(self.section("__llvm_prf_names"))


def names_of_chunks(section):
    import zlib
    numbers, names = Numbers(section), {}
    while numbers.place < len(section):
        size, stored = numbers.take(), numbers.take()
        if size == 0:
            numbers.place -= 1  # the two were zeros of padding
            continue
        text = zlib.decompress(numbers.rest(stored)) if stored else numbers.rest(size)
        for name in text.split(b"\x01"):
            names[name] = True
    return list(names)


def main(words):
    sidecar = Sidecar(words[1])
    if words[0] == "check":
        sidecar.check_seal()
        sidecar.inverse()
        for name in sidecar.removed:
            print(name, hex(sidecar.stored(name)[0]), len(sidecar.section(name)))
    elif words[0] == "names":
        sys.stdout.buffer.write(b"".join(name + b"\n" for name in sidecar.names()))
    elif words[0] == "section":
        with open(words[3], "wb") as file:
            file.write(sidecar.section(words[2]))
    elif words[0] == "join":
        with open(words[2], "rb") as file:
            stripped = file.read()
        with open(words[3], "wb") as file:
            file.write(sidecar.join(stripped))


main(sys.argv[1:])
