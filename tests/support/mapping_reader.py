"""Puts coverage mappings together from their parts, by docs/sidecar-format.md ("The mapping of
functions"). Used by sidecar_reader.py.
"""
import sys

from sidecar_numbers import uleb128

# Expressions in expressions, as deep as writers let them be.
sys.setrecursionlimit(5000)

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
        return b"".join(map(uleb128, [header, *operands, self.line, self.column, self.lines, end]))


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
        encoded = [uleb128(len(files))] + [uleb128(name) for name in files]
        encoded.append(uleb128(len(self.counters.list)))
        for expression in self.counters.list:
            encoded += [uleb128(final(expression.left)), uleb128(final(expression.right))]
        for file in regions:
            encoded += [uleb128(len(file))] + [region.encoded() for region in file]
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
