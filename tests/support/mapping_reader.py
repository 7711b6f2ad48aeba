"""Puts coverage mappings together from their streams, by docs/format.md ("The mapping of
functions"). Used by sidecar_reader.py.
"""
import sys

from sidecar_numbers import uleb128

# Expressions in expressions, as deep as writers let them be.
sys.setrecursionlimit(5000)

ZERO, COUNTER, SUBTRACT, ADD = range(4)
CODE, EXPANSION, SKIPPED, NONE, BRANCH, DECISION, MCDC = range(7)
HEADERS = {SKIPPED: 16, NONE: 0, BRANCH: 32, DECISION: 40, MCDC: 48}
OPERANDS = {CODE: "c", EXPANSION: "n", SKIPPED: "", NONE: "", BRANCH: "cc", DECISION: "nn",
            MCDC: "ccnnn"}

# Lines that are counted start again from 0 there.
LINES = 1 << 32


class Expression:
    def __init__(self, tag, left, right):
        self.tag, self.left, self.right, self.number = tag, left, right, None


class Value:
    def __init__(self, counter):
        self.counter = counter


class Counters:
    """A counter is (tag, number), or an Expression."""

    def __init__(self, streams):
        self.streams, self.highest = streams, 0
        self.zero = Value((ZERO, 0))
        self.entry = Value((COUNTER, 0))
        self.values, self.used, self.list = [self.zero, self.entry], [self.entry], []

    def use(self, value):
        if value is not self.zero:
            if value in self.used:
                self.used.remove(value)
            self.used.insert(0, value)
            del self.used[8:]
        return value

    def add(self, counter):
        value = Value(counter)
        self.values.append(value)
        return self.use(value)

    def add_number(self, number):
        self.highest = max(self.highest, number)
        return self.add((COUNTER, number))

    def add_expression(self, tag, left, right):
        return self.add(Expression(tag, left.counter, right.counter))

    def token(self):
        """A value by its token."""
        byte = self.streams[9].byte()
        if byte == 0:
            return self.zero
        if byte == 1:
            return self.add_number(self.highest + 1)
        if byte in (SUBTRACT, ADD):
            right = self.token()
            return self.add_expression(byte, self.token(), right)
        if byte == 4:
            return self.add_number(self.highest + 1 + self.streams[10].signed())
        if byte < 13:
            return self.use(self.used[byte - 5])
        return self.use(self.values[-1 - (byte - 13 if byte < 255 else self.streams[10].take())])

    def simple(self, symbol):
        """A value that needs no others."""
        if symbol == 0:
            return self.zero
        if symbol == 2:
            return self.add_number(self.highest + 1)
        if 6 <= symbol <= 8:
            return self.use(self.used[symbol - 6])
        if symbol == 9:
            return self.token()
        sys.exit("no such symbol")

    def code(self, symbol, enclosing, completed):
        if symbol == 4:
            return self.add_expression(SUBTRACT, enclosing, completed)
        if symbol == 5:
            return self.add_expression(ADD, enclosing, self.add_number(self.highest + 1))
        if symbol in (1, 3):
            return self.use(enclosing if symbol == 1 else completed)
        return self.simple(symbol)

    def branch(self, symbols, condition):
        if symbols[0] == 4:
            second = self.simple(symbols[1])
            first = self.add_expression(SUBTRACT, condition, second)
        else:
            first = self.simple(symbols[0])
            if symbols[1] == 4:
                second = self.add_expression(SUBTRACT, condition, first)
            else:
                second = self.simple(symbols[1])
        return [first.counter, second.counter]

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
        self.line = self.column = self.num_lines = self.column_end = 0

    def place(self):
        return (self.line, self.column, self.num_lines, self.column_end)

    def set_place(self, place):
        self.line, self.column, self.num_lines, self.column_end = place

    def range_class(self):
        if self.gap and self.kind in (CODE, NONE):
            return 1
        return {CODE: 0, EXPANSION: 2, SKIPPED: 3, NONE: 4}.get(self.kind, 5)

    def of_template(self):
        copy = Region(self.kind, self.gap)
        copy.set_place(self.place())
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
        return b"".join(map(uleb128, [header, *operands, self.line, self.column, self.num_lines, end]))


class Pattern:
    def __init__(self, number):
        number -= 1
        self.ends_file = number < 0
        self.symbols = [number >> 5 & 31, number & 31]
        self.end, self.start = number >> 10 & 31, number >> 15 & 15
        self.completed, self.kind, self.gap = number >> 19 & 31, number >> 24 & 7, number >> 27 & 1


class Patterns:
    def __init__(self, streams):
        self.streams, self.table, number = streams, [], 0
        while not streams[16].at_end():
            number = streams[16].take() + (0 if len(self.table) == 240 else number)
            self.table.append(number)

    def take(self):
        byte = self.streams[17].byte()
        if byte == 255:
            return Pattern(self.streams[19].take())
        if byte >= 240:
            byte = 240 + 256 * (byte - 240) + self.streams[18].byte()
        return Pattern(self.table[byte])


class FrequentColumns:
    def __init__(self):
        self.frequent, self.counts, self.uses = [0, 1], [0] * 32, 0

    def use(self, difference):
        if -8 <= difference < 24:
            self.counts[difference + 8] += 1
        self.uses += 1
        if self.uses >= 8 and self.uses & (self.uses - 1) == 0:
            order = sorted(range(32), key=lambda place: (-self.counts[place], place))
            self.frequent = [order[0] - 8, order[1] - 8]


class File:
    """What is known while a file's regions are taken."""

    def __init__(self, is_first, template, value):
        self.is_first, self.template, self.value = is_first, template, value
        self.regions = []
        self.active, self.line = [], 0

    def base_column(self):
        return self.active[0][0][1] if self.active else 0

    def enclosing(self):
        return self.active[0][1] if self.active else self.value


class Mappings:
    def __init__(self, streams):
        self.streams, self.templates, self.first_line = streams, [], 0
        self.patterns, self.lists = Patterns(streams), {}
        self.starts = [FrequentColumns() for _ in range(6)]
        self.ends = [FrequentColumns() for _ in range(6)]

    def take(self):
        """The bytes of the next mapping."""
        self.counters = Counters(self.streams)
        self.next_file, self.origins, self.expansions = 1, {}, 0
        count = self.streams[11].take()
        names, regions = [], []
        while len(names) < (count - 1 if count else 1 + self.expansions):
            names.append(self.streams[12].take())
            regions.append(self.take_file(len(regions)))
        for region in [region for file in regions for region in file]:
            for counter in region.counters():
                self.counters.enter(counter)
        encoded = [uleb128(len(names))] + [uleb128(name) for name in names]
        encoded.append(uleb128(len(self.counters.list)))
        for expression in self.counters.list:
            encoded += [uleb128(final(expression.left)), uleb128(final(expression.right))]
        for file in regions:
            encoded += [uleb128(len(file))] + [region.encoded() for region in file]
        return b"".join(encoded)

    def take_file(self, number):
        value, list_name = self.counters.entry, ("length", 63)
        if number < 16384 and number in self.origins:
            value, list_name = self.origins[number]
        if number == 0:
            return self.take_by_patterns(File(True, None, value))
        template, is_new = self.take_template(list_name)
        if is_new:
            file = File(False, template, value)
            self.templates[template] = self.take_by_patterns(file)
            return file.regions
        return self.take_known(template, value)

    def take_template(self, list_name):
        size = 32 if list_name[0] == "length" else 4
        expected = self.lists.setdefault(list_name, [])
        code = self.streams[13].take()
        if code == 0:
            template = len(self.templates)
            self.templates.append([])
        elif code == 1:
            template = len(self.templates) - self.streams[14].take()
        else:
            template = expected[code - 2]
        if template in expected:
            expected.remove(template)
        expected.insert(0, template)
        del expected[size:]
        return template, code == 0

    def take_known(self, template, enclosing):
        regions = []
        for region in [region.of_template() for region in self.templates[template]]:
            count = {CODE: 1, EXPANSION: 1, BRANCH: 2, MCDC: 2}.get(region.kind, 0)
            symbols = [self.streams[15].byte() for _ in range(count)]
            value = self.take_operands(region, symbols, enclosing, self.counters.zero,
                                       self.inner(template, len(regions)))
            if not regions:
                enclosing = value
            regions.append(region)
        return regions

    def take_by_patterns(self, file):
        while True:
            pattern = self.patterns.take()
            if pattern.ends_file:
                return file.regions
            region = Region(pattern.kind, pattern.gap)
            completed = self.take_place(region, file, pattern)
            enclosing = file.enclosing()
            list_name = self.inner(file.template, len(file.regions))
            if file.is_first:
                list_name = ("length", self.length(region))
            value = self.take_operands(region, pattern.symbols, enclosing, completed, list_name)
            file.regions.append(region)
            if region.kind == NONE:
                value = self.counters.zero
            elif region.kind != CODE:
                value = enclosing
            self.add_active_end(file, ((file.line + region.num_lines) % LINES, region.column_end), value)

    @staticmethod
    def inner(template, place):
        return ("place", None if template is None else (31 * template + place) % 4096)

    @staticmethod
    def length(region):
        length = region.column_end - region.column
        return length if region.num_lines == 0 and 0 <= length < 63 else 63

    @staticmethod
    def add_active_end(file, place, value):
        file.active = [end for end in file.active if end[0] != place] + [(place, value)]
        file.active.sort(key=lambda end: end[0])
        del file.active[32:]

    def take_place(self, region, file, pattern):
        """Gives the completed value."""
        completed = self.counters.zero
        if not file.regions:
            self.take_first(region, file, pattern)
            return completed
        anchor = (file.line, file.regions[-1].column)
        if pattern.completed != 0:
            anchor, completed = file.active[pattern.completed - 1]
            file.active = file.active[pattern.completed:]
        self.take_start(region, file, anchor, pattern.start)
        self.take_end(region, file, pattern.end)
        return completed

    def take_first(self, region, file, pattern):
        streams = self.streams
        if file.is_first:
            region.line = self.first_line + streams[22].signed()
            region.column = streams[24].take()
            self.first_line = region.line
        else:
            region.line, region.column = streams[23].take(), streams[25].take()
        self.take_end(region, file, pattern.end)

    def take_start(self, region, file, anchor, form):
        range_class, (line, column) = region.range_class(), anchor
        if form < 5:
            column += form
        elif form == 5:
            column += self.streams[38 + range_class].signed()
        else:
            line += 1 if form < 9 else self.streams[26 + range_class].take()
            column = self.take_column(file, self.starts[range_class], 32 + range_class, form % 3)
        line %= LINES
        region.line, region.column = (line - file.line) % LINES, column
        file.line = line

    def take_end(self, region, file, form):
        range_class = region.range_class()
        if form < 16:
            line, region.column_end = file.active[form - 1][0]
            region.num_lines = (line - file.line) % LINES
        elif form < 19:
            length = form - 16 if form < 18 else self.streams[56 + range_class].signed()
            region.column_end = region.column + length
        else:
            region.num_lines = 1 if form < 22 else self.streams[44 + range_class].take()
            region.column_end = self.take_column(file, self.ends[range_class], 50 + range_class,
                                                 (form - 19) % 3)

    def take_column(self, file, frequent, part, which):
        if which == 2:
            column = self.streams[part].take()
        else:
            column = file.base_column() + frequent.frequent[which]
        frequent.use(column - file.base_column())
        return column

    def take_operands(self, region, symbols, enclosing, completed, list_name):
        """Gives the value of code, or zero."""
        numbers, value = OPERANDS[region.kind].count("n"), self.counters.zero
        if region.kind == CODE:
            value = self.counters.code(symbols[0], enclosing, completed)
            region.operands = [value.counter]
        elif region.kind == EXPANSION:
            file = self.next_file + (self.streams[20].signed() if symbols[0] else 0)
            self.next_file = max(self.next_file, file + 1)
            self.expansions += 1
            self.origins[file] = (enclosing, list_name)
            region.operands, numbers = [file], 0
        elif region.kind in (BRANCH, MCDC):
            region.operands = self.counters.branch(symbols, enclosing)
        region.operands += [self.streams[21].take() for _ in range(numbers)]
        return value
