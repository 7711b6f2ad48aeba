"""Undoes the compact forms of sections, by nothing but docs/compact-forms.md (and, for names,
docs/sidecar-format.md). Used by sidecar_reader.py.
"""
import hashlib
import sys
import zlib

NAMES_1, DATA_1, COVMAP_1, COVFUN_1 = 0x6c760101, 0x6c760201, 0x6c760301, 0x6c760401
LEVELS = {2: 6, 3: 9}
ORDERS = {"<": "little", ">": "big"}
BYTE_COVERAGE = 1 << 60

# Expressions in expressions, as deep as writers let them be.
sys.setrecursionlimit(5000)


class Numbers:
    """Unsigned LEB128 numbers, one behind the other."""

    def __init__(self, contents):
        self.contents, self.place = contents, 0

    def take(self):
        value, shift = 0, 0
        while True:
            byte = self.contents[self.place]
            self.place += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        return signed(self.take())

    def byte(self):
        self.place += 1
        return self.contents[self.place - 1]

    def low_first(self, size):
        return int.from_bytes(self.rest(size), "little")

    def rest(self, size):
        part = self.contents[self.place:self.place + size]
        if len(part) != size:
            sys.exit("cut short")
        self.place += size
        return part

    def at_end(self):
        return self.place == len(self.contents)


def signed(number):
    return -(number + 1) // 2 if number & 1 else number // 2


def number(value):
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7f | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def padding(section, size):
    """Zeros up to a multiple of 8, or to the end."""
    return bytes(min(-len(section) % 8, size - len(section)))


def require_all_read(parts):
    for index, part in enumerate(parts):
        if not part.at_end():
            sys.exit("part %d has more than was wanted" % index)


# ---- names, and the file names of the mapping ----

class Members:
    def __init__(self, part, width):
        self.part, self.width, self.new = part, width, 0

    def chunk(self, count):
        """The next so many names' numbers."""
        numbers, before = [], 0
        for _ in range(count):
            code = self.part.low_first(self.width)
            if code == 0:
                before = self.new
                self.new += 1
            else:
                if code >= 1 << (8 * self.width - 1):
                    code -= 1 << (8 * self.width)
                before += code - 1 if code > 0 else code
            numbers.append(before)
        return numbers


def distinct(part):
    return part.contents.split(b"\x01")[:-1]


def compressed(text, form):
    return zlib.compress(text, LEVELS[form])


def names_1(parts, size):
    names, members = distinct(parts[0]), Members(parts[1], parts[2].take())
    section = b""
    for _ in range(parts[2].take()):
        form, count = parts[2].take(), parts[2].take()
        if form == 0:
            section += bytes(count)
        elif form == 4:
            section += parts[3].rest(count)
        else:
            text = b"\x01".join(names[i] for i in members.chunk(count))
            stream = compressed(text, form) if form != 1 else b""
            section += number(len(text)) + number(len(stream)) + (stream or text)
    require_all_read(parts[1:])
    return section


def covmap_1(parts, size, order):
    names, members = distinct(parts[0]), Members(parts[1], parts[2].take())
    section = b""
    for _ in range(parts[2].take()):
        functions, coverage_size, version, form, count = [parts[2].take() for _ in range(5)]
        text = b"".join(number(len(names[i])) + names[i] for i in members.chunk(count))
        stream = compressed(text, form) if form != 1 else b""
        listed = number(count) + number(len(text)) + number(len(stream)) + (stream or text)
        for field in functions, len(listed), coverage_size, version:
            section += field.to_bytes(4, order)
        section += listed
        section += padding(section, size)
    section += parts[3].rest(size - len(section))
    require_all_read(parts[1:])
    return section


# ---- profile data ----

class NameRefs:
    def __init__(self, names, numbers, others):
        self.names, self.numbers, self.others, self.expected = names, numbers, others, 0

    def take(self):
        code = self.numbers.take()
        if code == 0:
            return self.others.low_first(8)
        index = self.expected + signed(code - 1)
        self.expected = index + 1
        return int.from_bytes(hashlib.md5(self.names[index]).digest()[:8], "little")


def func_hash(sizes, hashes):
    return hashes.low_first(sizes.byte())


class Layout:
    """Offsets and sizes of the fields of a record."""

    def __init__(self, raw_version, pointer_size):
        version = raw_version & 0xffffffff
        self.counter_size = 1 if raw_version & BYTE_COVERAGE else 8
        self.relative, bitmap = version >= 8, version >= 9
        self.fields, self.size = {}, 16
        for name in ["CounterPtr"] + ["BitmapPtr"] * bitmap + ["FunctionPointer", "Values"]:
            self.add(name, pointer_size)
        self.add("NumCounters", 4)
        for kind in range(3 if version >= 10 else 2):
            self.add("NumValueSites %d" % kind, 2)
        if bitmap:
            self.size += -self.size % 4
            self.add("NumBitmapBytes", 4)
        self.size += -self.size % 8

    def add(self, name, size):
        self.fields[name] = (self.size, size)
        self.size += size


DATA_PARTS = {"CounterPtr": 4, "FunctionPointer": 5, "Values": 6, "NumCounters": 7, "BitmapPtr": 9,
              "NumBitmapBytes": 10}
PLACES = {"CounterPtr": "NumCounters", "BitmapPtr": "NumBitmapBytes"}


def take_data_field(name, expected, offset, parts, layout):
    code = parts[DATA_PARTS.get(name, 8)].take()
    if name not in expected or code == 0:
        return code
    value = signed(code - 1) + expected[name]
    if name in PLACES and layout.relative:
        value -= offset
    return value % (1 << (8 * layout.fields[name][1]))


def expect_data(expected, values, offset, layout):
    for name in expected:
        if values.get(name, 0) == 0:
            continue
        expected[name] = values[name]
        if name in PLACES:
            unit = layout.counter_size if name == "CounterPtr" else 1
            expected[name] += values[PLACES[name]] * unit + (offset if layout.relative else 0)


def data_1(parts, size, order, names, raw_version, pointer_size):
    layout = Layout(raw_version, pointer_size)
    references = NameRefs(names, parts[0], parts[1])
    expected = {"CounterPtr": 0, "BitmapPtr": 0, "FunctionPointer": 0, "Values": 0}
    section = bytearray()
    for offset in range(0, size - size % layout.size, layout.size):
        record = bytearray(layout.size)
        record[0:8] = references.take().to_bytes(8, order)
        record[8:16] = func_hash(parts[2], parts[3]).to_bytes(8, order)
        values = {name: take_data_field(name, expected, offset, parts, layout)
                  for name in layout.fields}
        for name, (place, width) in layout.fields.items():
            record[place:place + width] = values[name].to_bytes(width, order)
        expect_data(expected, values, offset, layout)
        section += record
    section += parts[11].rest(size - len(section))
    require_all_read(parts)
    return bytes(section)


# ---- the mapping of functions ----

ZERO, COUNTER = 0, 1
CODE, EXPANSION, SKIPPED, NONE, BRANCH, DECISION, MCDC = range(7)
HEADERS = {SKIPPED: 16, NONE: 0, BRANCH: 32, DECISION: 40, MCDC: 48}
OPERANDS = {CODE: "c", EXPANSION: "n", SKIPPED: "", NONE: "", BRANCH: "cc", DECISION: "nn",
            MCDC: "ccnnn"}


class Expression:
    def __init__(self, tag, left, right):
        self.tag, self.left, self.right, self.number = tag, left, right, None


class Counters:
    """A counter is (tag, number), or an Expression."""

    def __init__(self, parts):
        self.parts, self.highest = parts, 0
        self.expressions, self.recent, self.list = [], [(COUNTER, 0)], []

    def take(self, part):
        code = self.parts[part].byte()
        if code == 0:
            return (ZERO, 0)
        if 3 <= code <= 66:
            counter = self.recent.pop(code - 3)
        elif code == 1:
            counter = self.counter(self.highest + 1)
        elif code == 2:
            tag = self.parts[20].byte()
            right = self.take(19)
            counter = Expression(tag, self.take(18), right)
            self.expressions.append(counter)
        elif code == 254:
            counter = self.expressions[self.parts[21].take()]
        elif code == 255:
            counter = self.counter(self.highest + self.parts[21].signed())
        else:
            sys.exit("no such counter")
        self.recent.insert(0, counter)
        del self.recent[64:]
        return counter

    def counter(self, index):
        self.highest = max(self.highest, index)
        return (COUNTER, index)

    def enter(self, counter):
        if isinstance(counter, Expression) and counter.number != 0:
            counter.number = len(self.list)
            self.list.append(counter)
            self.enter(counter.left)
            self.enter(counter.right)


def final(counter):
    if isinstance(counter, Expression):
        return counter.number << 2 | counter.tag
    return counter[1] << 2 | counter[0]


class Region:
    def __init__(self, kind, gap):
        self.kind, self.gap, self.operands = kind, gap, []
        self.line = self.column = self.lines = self.column_end = 0

    def place_class(self):
        if self.kind == CODE:
            return 1 if self.gap else 0
        return {EXPANSION: 2, SKIPPED: 3, NONE: 4}.get(self.kind, 5)

    def of_shape(self):
        copy = Region(self.kind, self.gap)
        copy.line, copy.column, copy.lines = self.line, self.column, self.lines
        copy.column_end = self.column_end
        return copy

    def counters(self):
        return [operand for operand, kind in zip(self.operands, OPERANDS[self.kind])
                if kind == "c"]

    def encoded(self):
        operands = [final(operand) if kind == "c" else operand
                    for operand, kind in zip(self.operands, OPERANDS[self.kind])]
        if self.kind == CODE:
            header, operands = operands[0], []
        elif self.kind == EXPANSION:
            header, operands = operands[0] * 8 + 4, []
        else:
            header = HEADERS[self.kind]
        end = self.column_end | (1 << 31 if self.gap else 0)
        return b"".join(map(number, [header, *operands, self.line, self.column, self.lines, end]))


class Mappings:
    def __init__(self, parts):
        self.parts, self.shapes, self.first_line = parts, [], 0

    def take(self):
        """The bytes of the next mapping that is told."""
        self.counters = Counters(self.parts)
        files = [self.parts[23].take() for _ in range(self.parts[22].take())]
        regions = [self.take_file(index == 0) for index in range(len(files))]
        for region in [region for file in regions for region in file]:
            for counter in region.counters():
                self.counters.enter(counter)
        encoded = [number(len(files))] + [number(name) for name in files]
        encoded.append(number(len(self.counters.list)))
        for expression in self.counters.list:
            encoded += [number(final(expression.left)), number(final(expression.right))]
        for file in regions:
            encoded += [number(len(file))] + [region.encoded() for region in file]
        return b"".join(encoded)

    def take_file(self, is_first):
        ago = 0 if is_first else self.parts[24].take()
        if ago != 0:
            regions = [region.of_shape() for region in self.shapes[-ago]]
            for index, region in enumerate(regions):
                self.take_operands(region, regions[index - 1] if index else None, False)
            return regions
        regions, ends, line = [], [], 0
        for _ in range(self.parts[25].take()):
            kind = self.parts[26].byte()
            region = Region(kind & 7, kind >= 8)
            line = self.take_place(region, regions, is_first, ends, line)
            self.take_operands(region, regions[-1] if regions else None, True)
            regions.append(region)
        if not is_first:
            self.shapes.append(regions)
        return regions

    def take_place(self, region, before, is_first, ends, line):
        """`before`: all regions of the file before it; `line`: that of the last of them, counted
        from the first. Gives the region's."""
        place_class = region.place_class()
        if place_class == 5:
            back = self.parts[27].byte()
            if back != 0:
                other = before[-back]
                region.column, region.lines = other.column, other.lines
                region.column_end = other.column_end
                return line
        self.take_start(region, before, is_first, place_class)
        line += region.line if before else 0
        if place_class in (0, 4):
            behind = 0
            if before:
                behind = self.parts[30 if before[-1].gap else 29].byte()
            if behind != 0:
                end = [end for end in ends if end > (line, region.column)][behind - 1]
                region.lines, region.column_end = end[0] - line, end[1]
            else:
                self.take_end(region, place_class)
            end = (line + region.lines, region.column_end)
            if end in ends:
                ends.remove(end)
            ends.insert(0, end)
            del ends[16:]
        else:
            self.take_end(region, place_class)
        return line

    def take_start(self, region, before, is_first, place_class):
        parts = self.parts
        if not before:
            if is_first:
                region.line = self.first_line = parts[33].signed() + self.first_line
            else:
                region.line = parts[34].take()
            region.column = parts[41 + place_class].take()
        elif before[-1].gap and place_class != 5 and parts[28].byte() != 0:
            region.line, region.column = before[-1].lines, before[-1].column_end
        else:
            region.line = parts[35 + place_class].take()
            if region.line != 0:
                region.column = parts[41 + place_class].take()
            else:
                region.column = parts[47 + place_class].signed() + before[-1].column

    def take_end(self, region, place_class):
        region.lines = self.parts[53 + place_class].take()
        if region.lines != 0:
            region.column_end = self.parts[59 + place_class].take()
        else:
            region.column_end = self.parts[65 + place_class].signed() + region.column

    def take_operands(self, region, before, is_new):
        for index, kind in enumerate(OPERANDS[region.kind]):
            if kind == "c":
                part = self.counter_part(region, before, is_new, index)
                region.operands.append(self.counters.take(part))
            else:
                part = 31 if region.kind == EXPANSION else 32
                region.operands.append(self.parts[part].take())

    @staticmethod
    def counter_part(region, before, is_new, index):
        if region.kind != CODE:
            return 16 + index
        if region.gap:
            return 15
        if not is_new:
            return 14
        if before is None:
            return 12
        if before.gap:
            return 13
        return 10 if region.line == 0 else 11


def hashes_of_data(data, order, raw_version, pointer_size):
    size, hashes = Layout(raw_version, pointer_size).size, {}
    for offset in range(0, len(data) - size + 1, size):
        reference = int.from_bytes(data[offset:offset + 8], order)
        hashes.setdefault(reference, int.from_bytes(data[offset + 8:offset + 16], order))
    return hashes


def take_filenames(parts, references):
    code = parts[5].take()
    if code == 1:
        references["all"].append(parts[6].low_first(8))
        references["before"] = references["all"][-1]
    elif code != 0:
        references["before"] = references["all"][code - 2]
    return references["before"]


def covfun_1(parts, size, order, names, hashes):
    """`hashes`: FuncHashes by NameRef, of `__llvm_prf_data`."""
    references, filenames = NameRefs(names, parts[0], parts[1]), {"all": []}
    mappings, known, section = Mappings(parts), [], bytearray()
    while not parts[0].at_end():
        reference, hash_form = references.take(), parts[2].byte()
        value = hashes[reference] if hash_form == 0 else 0
        if hash_form == 2:
            value = func_hash(parts[3], parts[4])
        filenames_ref, code = take_filenames(parts, filenames), parts[7].take()
        if code < 2:
            known.append(mappings.take() if code == 0 else parts[8].rest(parts[7].take()))
        mapping = known[-1] if code < 2 else known[-(code - 1)]
        section += reference.to_bytes(8, order) + len(mapping).to_bytes(4, order)
        section += value.to_bytes(8, order) + filenames_ref.to_bytes(8, order) + mapping
        section += padding(section, size)
    section += parts[9].rest(size - len(section))
    require_all_read(parts)
    return bytes(section)
