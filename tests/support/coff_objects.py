"""Tells whether packed COFF objects are what their originals are without the coverage mapping.

Usage: coff_objects.py ORIGINAL PACKED [ORIGINAL PACKED]...

Written from Microsoft's "PE Format" and LLVM's sources, for objects of clang. Sections and symbols
are compared by what they are, with every number of one replaced by its place among those that
stay. The packed units in .lcovmap$M must have the original's units and records.
"""
import re
import struct
import sys
import zlib

from object_reader import Damaged, covfun_records, covmap_units, files_reference, unpack_unit

LISTS = b".gfids$y", b".giats$y", b".gljmp$y", b".gehcont$y", b".sxdata"
RECORD, UNITS = b".lcovfun$M", b".lcovmap$M"
STATIC, FILE, WEAK = 3, 103, 105
CHANGED = LISTS + (UNITS, b".drectve", b".llvm_addrsig", b".llvm.call-graph-profile")
COMDAT, I386 = 0x1000, 0x14C
DIRECTIVE = re.compile(rb"[ \0]*[-/](?:include|exclude-symbols):_?(__covrec_[0-9A-F]+u?)(?=[ \0]|$)",
                       re.IGNORECASE)


def fail(what):
    raise ValueError(what)


class Symbol:
    def __init__(self, data, at, size, big):
        self.fixed = data[at:at + size]
        self.value, = struct.unpack_from("<I", data, at + 8)
        self.section, = struct.unpack_from("<i" if big else "<H", data, at + 12)
        if not big and self.section > 0xFEFF:
            self.section -= 0x10000
        self.type, self.kind, self.aux_count = struct.unpack_from("<HBB", data, at + size - 4)
        self.aux = data[at + size:at + size * (1 + self.aux_count)]

    def is_definition(self):
        return self.kind == STATIC and self.section > 0 and self.aux_count == 1


class Section:
    def __init__(self, data, at):
        (self.short, self.virtual, self.address, self.size, self.raw, self.relocated, self.lines,
         count, self.line_count, self.flags) = struct.unpack_from("<8sIIIIIIHHI", data, at)
        self.contents = data[self.raw:self.raw + self.size] if self.raw else b""
        self.relocations = []
        start = self.relocated
        if self.flags & 0x01000000 and count == 0xFFFF:
            count = struct.unpack_from("<I", data, start)[0] - 1
            start += 10
        for i in range(count):
            self.relocations.append(struct.unpack_from("<IIH", data, start + 10 * i))
        self.definition = None


class Object:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = data = file.read()
        self.big = data[:4] == b"\0\0\xff\xff"
        if self.big:
            self.machine, self.stamp = struct.unpack_from("<HI", data, 6)
            count, self.table, self.symbol_count = struct.unpack_from("<III", data, 44)
            start, self.rest = 56, data[:44]
        else:
            self.machine, count, self.stamp, self.table, self.symbol_count = \
                struct.unpack_from("<HHIII", data)
            start, self.rest = 20, data[16:20]
        size = 20 if self.big else 18
        end = self.table + size * self.symbol_count
        self.strings = data[end:]
        if struct.unpack_from("<I", self.strings)[0] != len(self.strings):
            fail("the string table does not end the file")
        self.sections = [Section(data, start + 40 * i) for i in range(count)]
        for section in self.sections:
            section.name = self.section_name(section.short)
        self.symbols, index = {}, 0
        while index < self.symbol_count:
            symbol = self.symbols[index] = Symbol(data, self.table + size * index, size, self.big)
            symbol.name = self.symbol_name(symbol.fixed)
            if symbol.is_definition() and self.sections[symbol.section - 1].definition is None:
                self.sections[symbol.section - 1].definition = symbol
            index += 1 + symbol.aux_count

    def string(self, offset):
        if not 4 <= offset < len(self.strings):
            fail("a name is not in the string table")
        return self.strings[offset:self.strings.index(b"\0", offset)]

    def section_name(self, short):
        if short[:2] == b"//":
            offset = 0
            for digit in short[2:]:
                offset = offset * 64 + (b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        b"0123456789+/").index(digit)
            return self.string(offset)
        short = short.split(b"\0")[0]
        return self.string(int(short[1:])) if re.fullmatch(rb"/[0-9]+", short) else short

    def symbol_name(self, fixed):
        if fixed[:4] == b"\0\0\0\0":
            return self.string(struct.unpack_from("<I", fixed, 4)[0])
        return fixed[:8].split(b"\0")[0]

    def ranks(self):
        """The places of what stays, among what stays."""
        self.section_ranks, self.symbol_ranks = {0: 0}, {}
        for number, section in enumerate(self.sections, 1):
            if section.name != RECORD:
                self.section_ranks[number] = len(self.section_ranks)  # 1 for the first
        for index, symbol in self.symbols.items():
            if symbol.section < 0:
                self.section_ranks[symbol.section] = symbol.section
            if symbol.section in self.section_ranks:
                self.symbol_ranks[index] = len(self.symbol_ranks)

    def listed(self, numbers):
        return [self.symbol_ranks[number] for number in numbers]


def addresses(contents):
    """The numbers in .llvm_addrsig."""
    number = shift = 0
    for byte in contents:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield number
            number = shift = 0


def contents_of(each, section):
    contents = section.contents
    if section.name == UNITS:
        return None
    if section.name == b".drectve":
        return DIRECTIVE.sub(b"", contents)
    if section.name == b".llvm_addrsig":
        return each.listed(number for number in addresses(contents) if number in each.symbol_ranks)
    if section.name in LISTS:
        return each.listed(number for number, in struct.iter_unpack("<I", contents))
    if section.name == b".llvm.call-graph-profile":
        return [each.listed(edge[:2]) + [edge[2]] for edge in struct.iter_unpack("<IIQ", contents)]
    return contents


def aux_of(each, symbol):
    if symbol.kind == FILE or not any(symbol.aux):
        return symbol.aux
    if symbol.kind == WEAK:
        return [each.symbol_ranks[struct.unpack_from("<I", symbol.aux)[0]], symbol.aux[4:]]
    if not symbol.is_definition():
        fail("an auxiliary record of an unknown kind")
    size, relocations, lines, _, number, selection, high = \
        struct.unpack_from("<IHHIHBxH", symbol.aux)
    section = each.sections[symbol.section - 1]
    if size == section.size or section.name in CHANGED:
        size = "right"
    number |= high << 16 if each.big else 0
    return [size, relocations, lines, each.section_ranks[number], selection]


def check_sum_is_right(section):
    found, = struct.unpack_from("<I", section.definition.aux, 8)
    return found == ~zlib.crc32(section.contents, 0xFFFFFFFF) & 0xFFFFFFFF


def describe(each):
    """Everything that a linker or a debugger sees of an object."""
    each.ranks()
    kept = [section for section in each.sections if section.name != RECORD]
    sections = [(section.name, section.flags, section.virtual, section.address,
                 contents_of(each, section), section.line_count,
                 section.size if section.raw == 0 else None,
                 [(place, each.symbol_ranks[symbol], kind)
                  for place, symbol, kind in section.relocations]) for section in kept]
    symbols = [(symbol.name, symbol.value, each.section_ranks[symbol.section], symbol.type,
                symbol.kind, aux_of(each, symbol))
               for index, symbol in each.symbols.items() if index in each.symbol_ranks]
    return (each.machine, each.stamp, each.big, each.rest), sections, symbols


def units_of(each):
    return next(section for section in each.sections if section.name == UNITS).contents


def group_of(each, section, name_reference):
    """0: no COMDAT; otherwise by the name of its symbol."""
    if not section.flags & COMDAT:
        return 0
    number = each.sections.index(section) + 1
    name = next(symbol.name for symbol in each.symbols.values()
                if symbol.section == number and not symbol.is_definition())
    prefix = "___covrec_" if each.machine == I386 else "__covrec_"
    return {f"{prefix}{name_reference:X}".encode(): 1,
            f"{prefix}{name_reference:X}u".encode(): 2}[name]


def original_units(each):
    units = [(version, filenames, []) for version, filenames in covmap_units("<", units_of(each))]
    by_reference = {files_reference(filenames): records for _, filenames, records in units}
    for section in each.sections:
        if section.name == RECORD:
            for record in covfun_records("<", section.contents):
                by_reference[record[2]].append((*record, group_of(each, section, record[0])))
    return units


def packed_units(each):
    units = []
    for version, covered in covmap_units("<", units_of(each)):
        if version is not None:
            fail("a unit is not packed")
        units.append(unpack_unit("<", covered))
    return units


def compare(original, packed):
    before, after = Object(original), Object(packed)
    if not any(section.name == RECORD for section in before.sections):
        fail("the original has no records")
    if any(section.name == RECORD or section.name == b".drectve" and
           b"__covrec_" in section.contents for section in after.sections) or \
            b"__covrec_" in after.strings:
        fail("records are left")
    for what, one, other in zip(("header", "sections", "symbols"), describe(before),
                                describe(after)):
        if one != other:
            pairs = [pair for pair in zip(one, other) if pair[0] != pair[1]][:3]
            fail(f"{what} differ: {len(one)} and {len(other)}: {pairs}")
    if original_units(before) != packed_units(after):
        fail("units or records differ")
    kept = [section for section in before.sections if section.name != RECORD]
    for one, other in zip(kept, after.sections):
        if one.definition and other.contents and check_sum_is_right(one) and \
                not check_sum_is_right(other):
            fail(f"{one.name} has a wrong checksum")


failed = False
for original, packed in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        compare(original, packed)
    except (Damaged, ValueError, KeyError, IndexError, struct.error) as error:
        print(f"{packed}: {type(error).__name__} {error}")
        failed = True
sys.exit(failed)
