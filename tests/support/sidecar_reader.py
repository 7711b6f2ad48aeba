"""Reads sidecars, by nothing but docs/format.md.

Usage: sidecar_reader.py check SIDECAR                     checks digests and prints what there is
       sidecar_reader.py names SIDECAR                     prints the distinct names of functions
       sidecar_reader.py section SIDECAR NAME OUT          writes the contents of a section
       sidecar_reader.py join SIDECAR STRIPPED OUT         brings the original image back

The base of a delta is looked for in the store where it is, or with --bases DIRECTORY in front, there.

Digests are computed by libxxhash, zstd frames decompressed by the command zstd.
"""
import ctypes
import hashlib
import struct
import subprocess
import sys
import zlib

# What runs this leaves nothing in the sources.
sys.dont_write_bytecode = True

from delta_reader import DELTA, Part, base_path, uncompressed_blocks, uncompressed_unit
from linked_reader import decode_linked_covmap
from mapping_reader import Mappings
from name_reader import NameLists, name_text
from sidecar_numbers import Numbers, uleb128, unzigzag
from symbol_reader import symbol_tables

KINDS = {1: "__llvm_covmap", 2: "__llvm_covfun", 3: "__llvm_prf_names", 4: "__llvm_prf_data",
         5: "__llvm_covnames", 6: "__llvm_covdata", 7: "__llvm_prf_cnts", 8: "__llvm_prf_bits",
         9: "xray_instr_map", 10: "xray_fn_idx", 11: ".covsplit.covmap", 12: ".covsplit.covfun"}
TABLES = 31
SHT_NOTE, SHT_NOBITS, SHF_COMPRESSED = 7, 8, 0x800
RECORDED = KINDS[7], KINDS[8]
IDENTIFYING = [KINDS[3], KINDS[4], KINDS[1], KINDS[2]]
ZSTD, NAMES, DATA, FILENAMES = 2, 0x6c760103, 0x6c760205, 0x6c760303
MAPPING, MAPPING_BLOCKS, LINKED_COVMAP = 0x6c760409, 0x6c76040a, 0x6c760502
VERSION, NOTE_TYPE = 5, 0x1001
STUB, PLACEHOLDER, RECORDS, IS_DELTA = 1, 2, 4, 8


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


def streams_of(packed):
    numbers = Numbers(packed)
    sizes = []
    for _ in range(numbers.take()):
        size = numbers.take()
        sizes.append((size, numbers.take() if size != 0 else 0))
    return [decompress(numbers.rest(stored)) if stored else numbers.rest(size)
            for size, stored in sizes]


def blocks_of(packed):
    """Of each block its size, compact form, and digest."""
    numbers = Numbers(packed)
    entries = [(numbers.take(), numbers.take(), numbers.rest(16)) for _ in range(numbers.take())]
    return [(size, numbers.rest(stored), expected) for size, stored, expected in entries]


class Sidecar:
    def __init__(self, path, bases=None):
        with open(path, "rb") as file:
            self.file = file.read()
        self.base, self.restored = None, {}
        require(self.file[:4] == b"\x7fELF", "no ELF file")
        self.wide = self.file[4] == 2
        self.order = ">" if self.file[5] == 2 else "<"
        self.pointer_size = 8 if self.wide else 4
        self.read_sections()
        self.read_note()
        if self.base_digest is not None:
            self.base = Sidecar(base_path(path, self.base_digest, bases))
            require(digest(self.base.file) == self.base_digest and self.base.base is None and
                    len(self.base.file) == self.base_size, "not the base of this delta")

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
        """Its form, ch_size, what follows the Chdr in a whole sidecar, and its contents: one of the
        two is None, which a delta does not store."""
        if name not in self.restored:
            ch_type, ch_size, start = self.chdr(name)
            _, _, _, offset, length = self.sections[name]
            packed = self.file[start:offset + length]
            require((ch_type == DELTA) == (self.base is not None),
                    "only a delta has sections of one")
            self.restored[name] = ((ch_type, ch_size, packed, None) if self.base is None
                                   else self.restore(name, Part(packed), ch_size))
        return self.restored[name]

    def restore(self, name, part, ch_size):
        require(part.is_sound and (part.is_of_streams or part.size == ch_size),
                name + " is not that of a delta")
        restored = part.restore(self.base.prefix(name, part.is_of_streams))
        require(restored is not None, name + " has another size")
        return (part.form, ch_size) + ((restored, None) if part.is_of_streams else (None, restored))

    def prefix(self, name, is_of_streams):
        """Of a base, for the section of a delta."""
        if name not in self.sections or not self.sections[name][1] & SHF_COMPRESSED:
            return b""
        form, size, packed, _ = self.stored(name)
        if is_of_streams and form in BLOCKS:
            return uncompressed_blocks(blocks_of(packed), streams_of)
        if is_of_streams and form == NAMES:
            codes, word_codes, words, *others = streams_of(packed)
            text = b"".join(one + b"\x01" for one in name_text(codes, word_codes, words))
            if text and len(text) + sum(map(len, others)) < 64 * size:
                return uncompressed_unit([text, b"", b"", *others])
        if is_of_streams and form != ZSTD:
            return uncompressed_unit(streams_of(packed))
        return self.contents(name)

    def find_note(self):
        """Where the description of the note is, and its size."""
        kind, _, _, offset, length = self.sections[".note.gnu.build-id"]
        require(kind == SHT_NOTE, "its notes are none")
        end = offset + length
        while offset < end:
            name_size, size, note_type = self.unpack("III", offset)
            owner = self.file[offset + 12:offset + 12 + name_size]
            start = offset + 12 + (name_size + 3) // 4 * 4
            if owner == b"covsplit\0" and note_type == NOTE_TYPE:
                return start, size
            offset = start + (size + 3) // 4 * 4
        sys.exit("there is no note")

    def read_note(self):
        start, size = self.find_note()
        self.version, = self.unpack("I", start)
        require(self.version == VERSION, "another format version")
        self.seal_place = start + 4
        note = Numbers(self.file[start + 20:start + size])
        self.flags, _, _, self.raw_version = [note.take() for _ in range(4)]
        self.original_size, self.original_digest = note.take(), note.rest(16)
        self.stripped_size, self.stripped_digest = note.take(), note.rest(16)
        stub = note.rest(16) if self.flags & STUB else b""
        if self.flags & RECORDS:
            note.rest(16)
        note.take()
        self.base_digest = None
        if self.flags & IS_DELTA:
            self.base_digest = note.rest(16)
            self.base_size, self.whole_size = note.take(), note.take()
        self.image_name = note.rest(note.take())
        self.removed = {}
        for _ in range(note.take()):
            number = note.take()
            if KINDS[number] in RECORDED:
                note.take(), note.take(), note.take()
            else:
                self.removed[KINDS[number]] = (note.take(), note.rest(16))
        self.inverse_digest = note.rest(16)
        for _ in range(note.take()):
            note.take(), note.take(), note.rest(note.take())
        require(note.place == size - 20, "the note has another size")
        self.check_stub(stub)

    def check_stub(self, stub):
        """NameRef is the start of the UUID. FuncHash is a digest of four sections of the image."""
        digests = [self.removed[name][1] for name in IDENTIFYING if name in self.removed]
        is_other = KINDS[11] in self.sections
        if stub and len(digests) == len(IDENTIFYING) and not is_other:
            require(digest(b"".join(digests))[:8] == stub[8:], "the stub is of another image")

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

    def contents(self, name):
        form, ch_size, packed, contents = self.stored(name)
        if contents is not None:
            return contents
        if form == ZSTD:
            return decompress(packed)
        require(form in DECODERS or form in BLOCKS, name + " is in an unknown form")
        decode, units = DECODERS.get(form), [(ch_size, packed, None)]
        if form in BLOCKS:
            decode, units = DECODERS[BLOCKS[form]], blocks_of(packed)
        contents = bytearray()
        for size, unit, unit_digest in units:
            contents += decode(self, streams_of(unit), size)
            require(unit_digest in (None, digest(contents[-size:])), "a block's digest is wrong")
        return contents

    def section(self, name):
        contents = self.contents(name)
        require(len(contents) == self.chdr(name)[1] and digest(contents) == self.removed[name][1],
                name + " has another digest")
        return contents

    def how(self, name):
        """The form, and for a delta what is stored."""
        form, _, packed, _ = self.stored(name)
        return hex(form) + (" as streams" if packed is not None else " as contents") * bool(self.base)

    def inverse(self):
        ch_type, ch_size, _, _ = self.stored(".covsplit.inverse")
        contents = self.contents(".covsplit.inverse")
        require(ch_type == ZSTD and len(contents) == ch_size and
                digest(contents) == self.inverse_digest, "the inverse script has another digest")
        return contents

    def source(self, source, recipe, stripped):
        if source != TABLES:
            return self.section(KINDS[source])
        records = next(name for name in (KINDS[12], KINDS[2]) if name in self.removed)
        return symbol_tables(recipe, self.order, self.wide, stripped, self.section(records))

    def join(self, stripped):
        require(len(stripped) == self.stripped_size and digest(stripped) == self.stripped_digest,
                "not the stripped image of this sidecar")
        script = Numbers(self.inverse())
        step_count, literal_count = script.take(), script.take()
        recipe, steps = script.rest(script.take()), []
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
                sections[source] = self.source(source, recipe, stripped)
            part = sections[source][offset:offset + insert]
            require(len(part) == insert, "a step leaves its section")
            original += part
        original += stripped[place:]
        require(len(original) == self.original_size and
                digest(original) == self.original_digest, "the original has another digest")
        return original

    def names_of(self, name):
        form, _, packed, _ = self.stored(name)
        if form == NAMES and packed is not None:
            return name_text(*streams_of(packed)[:3])
        return names_of_chunks(self.section(name))

    def names(self):
        return self.names_of("__llvm_prf_names")

    def compact_names(self):
        """Those that other compact forms count on."""
        for name in "__llvm_prf_names", "__llvm_covnames":
            if name in self.removed and self.stored(name)[0] == NAMES:
                return self.names_of(name)
        return []

    def byte_order(self):
        return "big" if self.order == ">" else "little"


def compressed(text, form):
    return zlib.compress(text, 6 if form == 2 else 9) if form != 1 else b""


def decode_names(_, streams, size):
    pieces = Numbers(streams[5])
    lists = NameLists(name_text(*streams[:3]), streams[3], streams[4], pieces.take())
    rest, section = Numbers(streams[6]), bytearray()
    for _ in range(pieces.take()):
        form, number = pieces.take(), pieces.take()
        if form == 0:
            section += bytes(number)
        elif form == 4:
            section += rest.rest(number)
        else:
            text = b"\x01".join(lists.take_list(number))
            stream = compressed(text, form)
            section += uleb128(len(text)) + uleb128(len(stream)) + (stream or text)
    require(lists.at_end() and rest.at_end(), "a stream has more")
    return section


def decode_covmap(sidecar, streams, size):
    numbers = Numbers(streams[3])
    lists = NameLists(streams[0].split(b"\x01")[:-1], streams[1], streams[2], numbers.take())
    section = bytearray()
    for _ in range(numbers.take()):
        records, coverage, version, form, count = [numbers.take() for _ in range(5)]
        text = b"".join(uleb128(len(name)) + name for name in lists.take_list(count))
        stream = compressed(text, form)
        names = uleb128(count) + uleb128(len(text)) + uleb128(len(stream)) + (stream or text)
        section += struct.pack(sidecar.order + "IIII", records, len(names), coverage, version)
        section += names
        section += bytes(min(-len(section) % 8, size - len(section)))
    require(lists.at_end(), "a stream has more")
    return section + streams[4]


class Record:
    """Where the fields of a data record are."""

    def __init__(self, sidecar):
        version, pointer = sidecar.raw_version & 0xffffff, sidecar.pointer_size
        self.fields, self.end = {}, 0
        self.add("NameRef", 8)
        self.add("FuncHash", 8)
        self.add("CounterPtr", pointer)
        if version >= 11:
            self.add("UniformCounterPtr", pointer)
        if version >= 9:
            self.add("BitmapPtr", pointer)
        self.add("FunctionPointer", pointer)
        self.add("Values", pointer)
        self.add("NumCounters", 4)
        self.kinds = 3 if version >= 10 else 2
        for kind in range(self.kinds):
            self.add("NumValueSites%d" % kind, 2)
        if version >= 11:
            self.add("OffloadDeviceWaveSize", 2)
        if version >= 9:
            self.end += -self.end % 4
            self.add("NumBitmapBytes", 4)
        self.end += -self.end % 8

    def add(self, name, width):
        self.fields[name] = (self.end, width)
        self.end += width


class NameRefs:
    def __init__(self, sidecar, codes, others):
        self.names = [int.from_bytes(hashlib.md5(name).digest()[:8], "little")
                      for name in sidecar.compact_names()]
        self.codes, self.others = codes, others
        self.next, self.left = 0, []

    def take_number(self, code):
        number = self.next
        if 1 <= code <= 4:
            number = self.left.pop(code - 1)
        elif code >= 6:
            require(code == 6, "no such code")
            number += self.others.signed()
        if code != 0:
            self.left = [self.next] + self.left[:3]
        require(number >= 0, "a name before all names")
        self.next = number + 1
        return number

    def take(self):
        code = self.codes.byte()
        if code == 5:
            return self.others.low_first(8)
        return self.names[self.take_number(code)]


def take_func_hash(numbers):
    """By its digits in base 64, or as it is."""
    value, digit = 0, numbers.byte()
    if digit == 64:
        return numbers.low_first(8)
    while digit:
        value, digit = value * 64 + digit, numbers.byte()
    return value


def decode_data(sidecar, streams, size):
    record = Record(sidecar)
    cursors = [Numbers(part) for part in streams]
    references = NameRefs(sidecar, cursors[0], cursors[1])
    expected = {name: 0 for name in record.fields}
    relative = sidecar.raw_version & 0xffffff >= 8
    units = {"CounterPtr": ("NumCounters", 1 if sidecar.raw_version >> 60 & 1 else 8),
             "BitmapPtr": ("NumBitmapBytes", 1)}
    section = bytearray()
    while size - len(section) >= record.end:
        offset, values = len(section), {}
        values["NameRef"] = references.take()
        values["NumCounters"] = cursors[2].take()
        values["FuncHash"] = take_func_hash(cursors[2])
        for name, part in (("CounterPtr", 3), ("BitmapPtr", 7), ("FunctionPointer", 4),
                           ("Values", 5)):
            if name not in record.fields:
                continue
            code = cursors[part].take()
            values[name] = 0
            if code:
                moved = offset if relative and name in units else 0
                values[name] = unzigzag(code - 1) + expected[name] - moved
        for kind in range(record.kinds):
            values["NumValueSites%d" % kind] = cursors[6].take()
        if "NumBitmapBytes" in record.fields:
            values["NumBitmapBytes"] = cursors[8].take()
        for name in ("CounterPtr", "BitmapPtr", "FunctionPointer", "Values"):
            if values.get(name, 0) == 0:
                continue
            expected[name] = values[name]
            if name in units:
                number, unit = units[name]
                expected[name] += values[number] * unit + (offset if relative else 0)
        packed = bytearray(record.end)
        for name, (place, width) in record.fields.items():
            value = values.get(name, 0) % 256 ** width
            packed[place:place + width] = value.to_bytes(width, sidecar.byte_order())
        section += packed
    return section + streams[9]


def records_of_data(sidecar):
    """NameRef and FuncHash of each."""
    if "__llvm_prf_data" not in sidecar.removed:
        return []
    data, size = sidecar.section("__llvm_prf_data"), Record(sidecar).end
    return [struct.unpack_from(sidecar.order + "QQ", data, offset)
            for offset in range(0, len(data) - size + 1, size)]


class FilenamesRefs:
    def __init__(self, numbers, references):
        self.numbers, self.references, self.all = numbers, references, []

    def take(self):
        code = self.numbers.take()
        if code == 1:
            self.all.append(self.references.low_first(8))
            self.before = self.all[-1]
        elif code > 1:
            self.before = self.all[code - 2]
        return self.before


def func_hash_of_record(cursors, reference, hashes):
    form = cursors[2].byte()
    if form == 0:
        return hashes[reference]
    return 0 if form == 1 else take_func_hash(cursors[3])


def decode_covfun(sidecar, streams, size):
    cursors = [Numbers(part) for part in streams]
    data = records_of_data(sidecar)
    references = NameRefs(sidecar, cursors[0], cursors[1])
    hashes = dict(reversed(data))  # the first of each
    filenames, mappings = FilenamesRefs(cursors[4], cursors[5]), Mappings(cursors)
    known, section = [], bytearray()
    while not cursors[0].at_end():
        reference = references.take()
        func_hash = func_hash_of_record(cursors, reference, hashes)
        filenames_ref, code = filenames.take(), cursors[6].take()
        if code == 0:
            known.append(mappings.take())
        elif code == 1:
            known.append(cursors[7].rest(cursors[6].take()))
        mapping = known[-1] if code < 2 else known[-(code - 1)]
        section += struct.pack(sidecar.order + "QIQQ", reference, len(mapping), func_hash,
                               filenames_ref) + mapping
        section += bytes(min(-len(section) % 8, size - len(section)))
    require(all(cursor.at_end() for cursor in cursors[:8] + cursors[9:]), "a stream has more")
    return section + streams[8]


DECODERS = {NAMES: decode_names, DATA: decode_data, FILENAMES: decode_covmap,
            MAPPING: decode_covfun, LINKED_COVMAP: decode_linked_covmap}
# Forms that are blocks of another.
BLOCKS = {MAPPING_BLOCKS: MAPPING}


def names_of_chunks(section):
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
    bases = None
    if words[0] == "--bases":
        bases, words = words[1], words[2:]
    sidecar = Sidecar(words[1], bases)
    if words[0] == "check":
        sidecar.check_seal()
        sidecar.inverse()
        for name in sidecar.removed:
            print(name, len(sidecar.section(name)), sidecar.how(name))
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


if __name__ == "__main__":
    main(sys.argv[1:])
