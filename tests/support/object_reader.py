#!/usr/bin/env python3
"""A second reader of ELF relocatables, written from the gABI and LLVM's extensions alone.

Usage: object_reader.py compare ORIGINAL PACKED [ORIGINAL PACKED...]
       object_reader.py link ORDINARY PACKED [ORDINARY PACKED...]
       object_reader.py link-gold ORDINARY PACKED [ORDINARY PACKED...]

compare   The packed object must be the original without coverage mapping: all other sections, symbols,
          groups and relocations in the same order, with everything that a number refers to compared
          itself. Its packed units (docs/format.md) must have the original's units and records.
link      Of two linked images, the packed one must be the ordinary one but for the coverage mapping, and
          what is made of its packed units must be the ordinary one's mapping, byte for byte.
link-gold The same, but the dynamic symbols and what refers to them may be in another order: gold's is
          that of a hash table, whose size depends on the number of symbols.

Prints each difference; status 1 if there is one.
"""

import hashlib
import struct
import sys
import zlib

SHT = dict(NULL=0, PROGBITS=1, SYMTAB=2, STRTAB=3, RELA=4, NOBITS=8, REL=9, GROUP=17, SYMTAB_SHNDX=18,
           CREL=0x40000014, ADDRSIG=0x6fff4c03)
SHF_ALLOC, SHF_INFO_LINK = 2, 0x40
EM_MIPS = 8
XINDEX, LORESERVE = 0xffff, 0xff00
STT_SECTION = 3


class Damaged(Exception):
    """What a reader would refuse."""


def uleb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def sleb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return (value - (1 << shift) if byte & 0x40 else value), at


class Section:
    def __init__(self, number, fields):
        self.number = number
        (self.name_offset, self.type, self.flags, self.address, self.offset, self.size, self.link,
         self.info, self.alignment, self.entry_size) = fields
        self.name = ""
        self.data = b""


class Symbol:
    pass


class Elf:
    def __init__(self, data):
        if data[:4] != b"\x7fELF":
            raise Damaged("not ELF")
        self.data = data
        self.wide = data[4] == 2
        self.order = "<" if data[5] == 1 else ">"
        header = struct.unpack_from(self.order + ("HHIQQQIHHHHHH" if self.wide else "HHIIIIIHHHHHH"),
                                    data, 16)
        (self.type, self.machine, _, self.entry, _, start, self.flags, _, _, _, _, count,
         names) = header
        self.identification = data[:16]
        self.read_sections(start, count, names)
        self.symbols = []
        self.read_symbols()

    def read_sections(self, start, count, names):
        form = struct.Struct(self.order + ("IIQQQQIIQQ" if self.wide else "10I"))
        first = Section(0, form.unpack_from(self.data, start))
        if count == 0:
            count = first.size
        if names == XINDEX:
            names = first.link
        self.names = names
        self.sections = [Section(i, form.unpack_from(self.data, start + i * form.size))
                         for i in range(count)]
        for section in self.sections:
            if section.type not in (SHT["NULL"], SHT["NOBITS"]):
                if section.offset + section.size > len(self.data):
                    raise Damaged("section outside")
                section.data = self.data[section.offset:section.offset + section.size]
        for section in self.sections[1:]:
            section.name = self.string(names, section.name_offset)

    def string(self, table, offset):
        data = self.sections[table].data
        if offset >= len(data):
            raise Damaged("name outside")
        return data[offset:data.index(0, offset)].decode("latin-1")

    def read_symbols(self):
        self.symbol_table = next((s for s in self.sections if s.type == SHT["SYMTAB"]), None)
        if self.symbol_table is None:
            return
        extended = next((s for s in self.sections if s.type == SHT["SYMTAB_SHNDX"]
                         and s.link == self.symbol_table.number), None)
        form = struct.Struct(self.order + ("IBBHQQ" if self.wide else "IIIBBH"))
        for i, fields in enumerate(form.iter_unpack(self.symbol_table.data)):
            symbol = Symbol()
            if self.wide:
                name, symbol.info, symbol.other, section, symbol.value, symbol.size = fields
            else:
                name, symbol.value, symbol.size, symbol.info, symbol.other, section = fields
            symbol.name = self.string(self.symbol_table.link, name)
            symbol.section = None
            symbol.special = section
            if section == XINDEX and extended is not None:
                section, = struct.unpack_from(self.order + "I", extended.data, 4 * i)
                symbol.section = self.sections[section]
            elif section < LORESERVE:
                symbol.section = self.sections[section]
            if symbol.section is not None:
                symbol.special = None
            self.symbols.append(symbol)

    def group_members(self, section):
        words = [w for w, in struct.iter_unpack(self.order + "I", section.data)]
        return words[0], [self.sections[w] for w in words[1:]]

    def relocations(self, section):
        """(offset, number of the symbol, everything else)"""
        if section.type == SHT["CREL"]:
            yield from self.compact_relocations(section.data)
            return
        word = "Q" if self.wide else "I"
        has_addend = section.type == SHT["RELA"]
        form = struct.Struct(self.order + word + word + (word if has_addend else ""))
        for offset, info, *addend in form.iter_unpack(section.data):
            if not self.wide:
                symbol, kind = info >> 8, info & 0xff
            elif self.machine == EM_MIPS and self.order == "<":
                symbol, kind = info & 0xffffffff, info >> 32
            else:
                symbol, kind = info >> 32, info & 0xffffffff
            yield offset, symbol, (kind, *addend)

    def compact_relocations(self, data):
        head, at = uleb(data, 0)
        bits = 3 if head & 4 else 2
        offset = symbol = kind = addend = 0
        for _ in range(head >> 3):
            first = data[at]
            at += 1
            offset += first >> bits
            if first & 0x80:
                more, at = uleb(data, at)
                offset += (more << (7 - bits)) - (0x80 >> bits)
            if first & 1:
                step, at = sleb(data, at)
                symbol += step
            if first & 2:
                step, at = sleb(data, at)
                kind += step
            if first & 4 and head & 4:
                step, at = sleb(data, at)
                addend += step
            yield offset << (head & 3), symbol, (kind, addend, head & 7)
        if at != len(data):
            raise Damaged("bytes behind the relocations")


# ---- coverage mapping ----

def covmap_units(order, data):
    """(version, filenames) of each ordinary unit, and of a packed one (None, what it covers)"""
    at = 0
    while at < len(data):
        _, size, _, version = struct.unpack_from(order + "IIII", data, at)
        covered = data[at + 16:at + 16 + size]
        if len(covered) != size:
            raise Damaged("unit outside")
        yield (None if version == 0x7ffffffe else version), covered
        at += (16 + size + 7) & ~7


def covfun_records(order, data):
    """(NameRef, FuncHash, FilenamesRef, mapping)"""
    at = 0
    while at < len(data):
        name, size, function_hash, files = struct.unpack_from(order + "QIQQ", data, at)
        yield name, function_hash, files, data[at + 28:at + 28 + size]
        at += (28 + size + 7) & ~7


def files_reference(filenames):
    return int.from_bytes(hashlib.md5(filenames).digest()[:8], "little")


def unpack_unit(order, covered):
    """(version, filenames, [(NameRef, FuncHash, FilenamesRef, mapping, group)])"""
    if covered[0] != 0 or covered[1] != 1:
        raise Damaged("not a packed unit")
    numbers, at = [], 2
    for _ in range(5):
        number, at = uleb(covered, at)
        numbers.append(number)
    version, count, filenames_size, text_size, heads_size = numbers
    filenames = covered[at:at + filenames_size]
    at += filenames_size
    names = struct.unpack_from(f"{order}{count}Q", covered, at)
    text = zlib.decompress(covered[at + 8 * count:])
    if len(text) != text_size:
        raise Damaged("size of a packed unit")
    groups, at, sizes = text[:count], count, []
    for _ in range(count):
        size, at = uleb(text, at)
        sizes.append(size)
    hashes = struct.unpack_from(f"{order}{count}Q", text, at)
    heads = at + 8 * count
    rests = heads + heads_size
    reference, records = files_reference(filenames), []
    for i in range(count):
        files, end = uleb(text, heads)
        for _ in range(files):
            _, end = uleb(text, end)
        rest = sizes[i] - (end - heads)
        mapping = text[heads:end] + text[rests:rests + rest]
        records.append((names[i], hashes[i], reference, mapping, groups[i]))
        heads, rests = end, rests + rest
    if heads != len(text) - sum(sizes) + heads_size or rests != len(text):
        raise Damaged("bytes left over in a packed unit")
    return version, filenames, records


def add_padded(section, data):
    section += bytes(-len(section) % 8) + data


def write_ordinary(order, units):
    """The two ordinary sections of packed units, all of them in one link."""
    covmap, covfun, seen = bytearray(), bytearray(), set()
    for version, filenames, records in units:
        add_padded(covmap, struct.pack(order + "IIII", 0, len(filenames), 0, version) + filenames)
        covmap += bytes(-len(covmap) % 4)
        for name, function_hash, reference, mapping, group in records:
            if group == 0 or (name, group) not in seen:
                add_padded(covfun, struct.pack(order + "QIQQ", name, len(mapping), function_hash,
                                               reference) + mapping)
            seen.add((name, group))
    return bytes(covmap), bytes(covfun)


# ---- comparing objects ----

COVMAP, COVFUN = "__llvm_covmap", "__llvm_covfun"


class View:
    """What is left of an object without coverage mapping; numbers are positions in these lists."""

    def __init__(self, elf):
        self.elf = elf
        groups = {s.number: elf.group_members(s) for s in elf.sections if s.type == SHT["GROUP"]}
        first = next((s for s in elf.sections if s.name == COVMAP), None)
        gone = {s.number for s in elf.sections
                if s.name == COVFUN or (s.name == COVMAP and s is not first)}
        self.group_of = {}
        for number, (_, members) in groups.items():
            if any(m.number in gone for m in members):
                gone.add(number)
                self.group_of[members[0].number] = number
        self.sections = [s for s in elf.sections
                         if s.number not in gone and s.type != SHT["SYMTAB_SHNDX"]]
        self.place = {s.number: i for i, s in enumerate(self.sections)}
        signatures = {elf.sections[g].info for g in self.group_of.values()}
        self.symbols, self.symbol_place = [], {}
        for i, symbol in enumerate(elf.symbols):
            section = symbol.section
            is_mark = symbol.name.startswith("$") and symbol.info == 0
            if i != 0 and (i in signatures or (section is not None and section.number in gone) or
                           (section is first and first is not None and is_mark and symbol.value)):
                continue
            self.symbol_place[i] = len(self.symbols)
            self.symbols.append(symbol)

    def symbol(self, number):
        return self.symbol_place.get(number, "a symbol that went")

    def section(self, number):
        return self.place.get(number, "a section that went")

    def describe_symbol(self, symbol):
        return (symbol.name, symbol.info, symbol.other, symbol.value, symbol.size, symbol.special,
                symbol.section and self.section(symbol.section.number))

    def describe_info(self, section):
        if section.type == SHT["GROUP"]:
            return self.symbol(section.info)
        if section.type == SHT["SYMTAB"]:
            return sum(1 for i in range(section.info) if i in self.symbol_place)
        if section.type in (SHT["REL"], SHT["RELA"], SHT["CREL"]) or section.flags & SHF_INFO_LINK:
            return self.section(section.info)
        return section.info

    def describe_contents(self, section):
        elf = self.elf
        if section.type == SHT["SYMTAB"]:
            return [self.describe_symbol(s) for s in self.symbols]
        if section.type in (SHT["REL"], SHT["RELA"], SHT["CREL"]):
            return [(offset, self.symbol(symbol), rest)
                    for offset, symbol, rest in elf.relocations(section)]
        if section.type == SHT["GROUP"]:
            flags, members = elf.group_members(section)
            return flags, [self.section(m.number) for m in members]
        if section.type == SHT["ADDRSIG"] and elf.symbol_table is not None \
                and section.link == elf.symbol_table.number:
            numbers, at = [], 0
            while at < len(section.data):
                number, at = uleb(section.data, at)
                if number in self.symbol_place:
                    numbers.append(self.symbol_place[number])
            return numbers
        if section.name == COVMAP or self.is_rewritten_table(section):
            return None
        return section.data if section.type != SHT["NOBITS"] else section.size

    def is_rewritten_table(self, section):
        """Strings are compared where they are used. A table that others use too stays."""
        table = self.elf.symbol_table
        if section.number != self.elf.names and (table is None or section.number != table.link):
            return False
        return not any(s.link == section.number for s in self.sections[1:] if s is not table)

    def rewritten_tables(self):
        return [s for s in self.sections if self.is_rewritten_table(s)]

    def describe(self, section):
        info = self.describe_info(section)
        return (section.name, section.type, section.flags, section.address, section.alignment,
                section.entry_size, self.section(section.link), info)

    def file_order(self):
        return [self.section(s.number) for s in sorted(
            (s for s in self.sections if s.type not in (SHT["NULL"], SHT["NOBITS"]) and s.size
             and s.name != COVMAP and not self.is_rewritten_table(s)),
            key=lambda s: s.offset)]


def group_kind(view, section, name_reference):
    if section.number not in view.group_of:
        return 0
    signature = view.elf.symbols[view.elf.sections[view.group_of[section.number]].info].name
    return {f"__covrec_{name_reference:X}": 1, f"__covrec_{name_reference:X}u": 2}[signature]


def original_units(view):
    elf, units = view.elf, []
    for section in (s for s in elf.sections if s.name == COVMAP):
        units += [(version, filenames, []) for version, filenames in covmap_units(elf.order,
                                                                                section.data)]
    by_reference = {files_reference(u[1]): u[2] for u in units}
    for section in (s for s in elf.sections if s.name == COVFUN):
        for record in covfun_records(elf.order, section.data):
            by_reference[record[2]].append((*record, group_kind(view, section, record[0])))
    return units


def compare_mapping(before, after, problems):
    packed = [s for s in after.elf.sections if s.name == COVMAP]
    if len(packed) != 1 or any(s.name == COVFUN for s in after.elf.sections):
        problems.append("the packed object has not just one section of mapping")
        return
    units = []
    for version, covered in covmap_units(after.elf.order, packed[0].data):
        if version is not None:
            problems.append("a unit is not packed")
            return
        units.append(unpack_unit(after.elf.order, covered))
    if units != original_units(before):
        problems.append("units or records differ")


def unused_names(view):
    """Strings that nothing uses."""
    names = {s.name for s in view.elf.sections} | {s.name for s in view.elf.symbols}
    strings = b"".join(s.data for s in view.rewritten_tables()).decode("latin-1").split("\0")
    return set(strings[:-1]) - names


def compare(original, packed):
    problems = []
    before, after = View(Elf(original)), View(Elf(packed))
    if (before.elf.identification, before.elf.machine, before.elf.flags, before.elf.type,
            before.elf.entry) != (after.elf.identification, after.elf.machine, after.elf.flags,
                                  after.elf.type, after.elf.entry):
        problems.append("ELF headers differ")
    if len(before.sections) != len(after.sections):
        problems.append(f"{len(before.sections)} sections became {len(after.sections)}")
        return problems
    for old, new in zip(before.sections[1:], after.sections[1:]):
        if before.describe(old) != after.describe(new):
            problems.append(f"section {old.number} {before.describe(old)} became "
                            f"{after.describe(new)}")
        if before.describe_contents(old) != after.describe_contents(new):
            problems.append(f"contents of section {old.number} {old.name} differ")
        if new.alignment and new.offset % new.alignment and old.offset % new.alignment == 0 \
                and new.size:
            problems.append(f"section {new.number} {new.name} is not aligned")
    if before.file_order() != after.file_order():
        problems.append("the sections are in another order in the file")
    compare_mapping(before, after, problems)
    if unused_names(after):
        problems.append(f"strings are left over: {unused_names(after)}")
    return problems


# ---- comparing images ----

# What the linker makes of the sizes of other sections and of the names of symbols.
LINKED_APART = {".symtab", ".strtab", ".shstrtab", ".symtab_shndx", COVMAP, COVFUN,
                ".note.gnu.build-id", ".debug_gdb_index"}


DYNAMIC = {".dynsym", ".dynstr", ".hash", ".gnu.hash", ".gnu.version", ".gnu.version_r", ".rela.dyn",
           ".rela.plt", ".dynamic"}


def linked_contents(elf, apart):
    return [(s.name, s.type, s.flags, s.address, s.data if s.type != SHT["NOBITS"] else s.size)
            for s in elf.sections if s.name not in apart]


def compare_gold_links(ordinary, packed):
    return compare_links(ordinary, packed, LINKED_APART | DYNAMIC)


def compare_links(ordinary, packed, apart=frozenset(LINKED_APART)):
    one, other = Elf(ordinary), Elf(packed)
    problems = []
    before, after = linked_contents(one, apart), linked_contents(other, apart)
    if before != after:
        problems.append("sections other than those of the coverage mapping differ: " + " ".join(
            a[0] for a, b in zip(before, after) if a != b))
    units = []
    for section in (s for s in other.sections if s.name == COVMAP):
        units += [unpack_unit(other.order, covered)
                  for _, covered in covmap_units(other.order, section.data)]
    made = write_ordinary(other.order, units)
    for name, contents in zip((COVMAP, COVFUN), made):
        expected = b"".join(s.data for s in one.sections if s.name == name)
        if contents != expected:
            problems.append(f"{name} of the ordinary image is not what comes of the packed one")
    if any(s.name == COVFUN and s.size for s in other.sections):
        problems.append("the packed image has records outside its units")
    return problems


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main():
    command, paths = sys.argv[1], sys.argv[2:]
    failed = False
    function = {"compare": compare, "link": compare_links, "link-gold": compare_gold_links}[command]
    for one, other in zip(paths[::2], paths[1::2]):
        try:
            problems = function(read(one), read(other))
        except (Damaged, struct.error, IndexError, ValueError, KeyError, zlib.error) as error:
            problems = [f"cannot be read: {error!r}"]
        for problem in problems:
            print(f"{one}: {problem}"[:500])
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
