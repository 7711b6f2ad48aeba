"""Linked mapping in terms of the ordinary one, as docs/format.md has it."""
import hashlib
import struct
import zlib

from name_reader import NameLists
from quick_stream import quick_stream
from sidecar_numbers import Numbers, uleb128, unzigzag

PACKED_VERSION = 0x7ffffffe
UNUSED, USED = 1, 2
# The number of operands of a region, by its header without a counter; the first two are counters.
OPERANDS = {0: 0, 16: 0, 32: 2, 40: 2, 48: 5}


def split(mapping):
    """The list of files, and the rest."""
    numbers = Numbers(mapping)
    try:
        for _ in range(numbers.take()):
            numbers.take()
    except IndexError:
        return b"", mapping
    return mapping[:numbers.place], mapping[numbers.place:]


def counters_of(mapping):
    numbers = Numbers(mapping)
    files = [numbers.take() for _ in range(numbers.take())]
    for _ in range(2 * numbers.take()):
        numbers.take()
    for _ in files:
        for _ in range(numbers.take()):
            header = numbers.take()
            if header & 3 or not header & 4:
                yield header & 3
                operands = [numbers.take() for _ in range(0 if header & 3 else OPERANDS[header])]
                yield from (operand & 3 for operand in operands[:2] if header in (32, 48))
            for _ in range(4):
                numbers.take()
    if not numbers.at_end():
        raise IndexError


def group_of(func_hash, mapping):
    try:
        return USED if func_hash or any(counters_of(mapping)) else UNUSED
    except (IndexError, KeyError):
        return USED


class Unit:
    def __init__(self, header, filenames):
        self.version, self.filenames = header[3], filenames
        self.reference = int.from_bytes(hashlib.md5(filenames).digest()[:8], "little")
        self.names = []
        numbers = Numbers(filenames)
        count, _, stored = numbers.take(), numbers.take(), numbers.take()
        text = filenames[numbers.place:]
        texts = Numbers(zlib.decompress(text) if stored else text)
        for _ in range(count):
            self.names.append(texts.rest(texts.take()))


class Ordinary:
    """Units, and records: NameRef, FuncHash, group, unit, files, rest."""

    def __init__(self, sidecar):
        self.order, self.units, self.records, self.first = sidecar.order, [], [], {}
        covmap = Numbers(sidecar.section("__llvm_covmap"))
        while not covmap.at_end():
            header = struct.unpack(self.order + "IIII", covmap.rest(16))
            unit = Unit(header, bytes(covmap.rest(header[1])))
            self.first.setdefault(unit.reference, unit)
            self.units.append(unit)
            covmap.place = min(-(-covmap.place // 8) * 8, len(covmap.contents))
        if "__llvm_covfun" not in sidecar.removed:
            return
        covfun = Numbers(sidecar.section("__llvm_covfun"))
        while not covfun.at_end():
            name, size, func_hash, reference = struct.unpack(self.order + "QIQQ", covfun.rest(28))
            mapping = bytes(covfun.rest(size))
            self.records.append((name, func_hash, group_of(func_hash, mapping),
                                 self.first.get(reference)) + split(mapping))
            covfun.place = min(-(-covfun.place // 8) * 8, len(covfun.contents))


class Records:
    def __init__(self, sidecar, streams):
        self.ordinary = Ordinary(sidecar)
        self.new, self.others, self.files = [Numbers(part) for part in streams[3:6]]
        count = self.new.take()
        self.lists = NameLists(list(range(count)), streams[1], streams[2], self.new.take())
        self.listed, self.expected = [], 0
        self.take_predicted()

    def take_predicted(self):
        self.predicted = None if self.files.at_end() else self.files.take()

    def take_new(self, unit):
        code = self.new.take()
        if code == 0:
            group = self.others.byte()
            name, func_hash = self.others.low_first(8), self.others.low_first(8)
            mapping = self.others.rest(self.others.take())
            return (name, func_hash, group, unit) + split(mapping)
        number = self.expected + unzigzag(code - 1)
        self.expected = number + 1
        return self.ordinary.records[number]

    def take_files(self, record, unit):
        if self.predicted == 0:
            files = self.files.rest(self.files.take())
            self.take_predicted()
            return files
        if self.predicted is not None:
            self.predicted -= 1
        own, files = record[3], record[4]
        if own.filenames == unit.filenames or not files:
            return files
        numbers = Numbers(files)
        count = numbers.take()
        return uleb128(count) + b"".join(
            uleb128(unit.names.index(own.names[numbers.take()])) for _ in range(count))

    def take_list(self, count, unit):
        """NameRef, FuncHash, group, files, rest of each, which occur in the unit."""
        taken = []
        for number in self.lists.take_list(count):
            if number == len(self.listed):
                self.listed.append(self.take_new(unit))
            record = self.listed[number]
            taken.append(record[:3] + (self.take_files(record, unit), record[5]))
        return taken

    def at_end(self):
        return (self.lists.at_end() and self.new.at_end() and self.others.at_end() and
                self.files.at_end())


def packed_unit(order, unit, records):
    files = b"".join(record[3] for record in records)
    text = (bytes(record[2] for record in records) +
            b"".join(uleb128(len(record[3]) + len(record[4])) for record in records) +
            b"".join(struct.pack(order + "Q", record[1]) for record in records) + files +
            b"".join(record[4] for record in records))
    packed = b"\0\1" + b"".join(uleb128(number) for number in (
        unit.version, len(records), len(unit.filenames), len(text), len(files)))
    packed += unit.filenames + b"".join(struct.pack(order + "Q", record[0]) for record in records)
    packed += quick_stream(text)
    return struct.pack(order + "IIII", 0, len(packed), 0, PACKED_VERSION) + packed


def padding(section, size):
    return bytes(min(-len(section) % 8, size - len(section)))


def decode_linked_covmap(sidecar, streams, size):
    records, codes, section = Records(sidecar, streams), Numbers(streams[0]), bytearray()
    for unit in records.ordinary.units:
        if codes.at_end():
            break
        if codes.take() == 0:
            section += struct.pack(sidecar.order + "IIII", 0, len(unit.filenames), 0, unit.version)
            section += unit.filenames
        else:
            count = codes.take()
            section += packed_unit(sidecar.order, unit, records.take_list(count, unit))
        section += padding(section, size)
    if not codes.at_end() or not records.at_end():
        raise SystemExit("a stream has more")
    return section + streams[6]
