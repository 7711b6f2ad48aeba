"""The zlib streams of packed units, as docs/format.md ("Packed units") describes them: the search is
covsplit's own, and blocks and their codes are those of zlib's trees.c.
"""
import struct
import zlib

BLOCK_SYMBOLS, END = 16383, 256
LENGTH_EXTRA = [0] * 8 + [i // 4 for i in range(4, 24)] + [0]
LENGTH_BASE = [3 + sum(1 << extra for extra in LENGTH_EXTRA[:i]) for i in range(28)] + [258]
DISTANCE_EXTRA = [0, 0] + [i // 2 for i in range(28)]
DISTANCE_BASE = [1 + sum(1 << extra for extra in DISTANCE_EXTRA[:i]) for i in range(30)]
PRECODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]
PRECODE_EXTRA = {16: 2, 17: 3, 18: 7}


def symbols_of(text):
    """For each symbol: where it ends, the literal or the length, and the distance, 0 for a literal."""
    latest, symbols, place = {}, [], 0

    def enter(at):
        key = int.from_bytes(text[at:at + 4], "little") * 2654435761 % 2 ** 32 >> 18
        former, latest[key] = latest.get(key), at
        return former

    while place < len(text):
        former, length = enter(place) if place + 4 <= len(text) else None, 0
        if former is not None and place - former <= 32768:
            while length < 258 and place + length < len(text) and \
                    text[former + length] == text[place + length]:
                length += 1
        if length < 4:
            symbols.append((place + 1, text[place], 0))
            place += 1
            continue
        symbols.append((place + length, length, place - former))
        for at in range(place + 1, place + length):
            if at + 4 <= len(text):
                enter(at)
        place += length
    return symbols


def slot_of(bases, value):
    return max(i for i, base in enumerate(bases) if base <= value)


def code_lengths(counts, most):
    """zlib's build_tree and gen_bitlen."""
    counts, depth = list(counts), {}
    heap = [None] + [i for i, count in enumerate(counts) if count]
    highest = heap[-1] if len(heap) > 1 else -1
    while len(heap) < 3:
        highest, added = (highest + 1, highest + 1) if highest < 2 else (highest, 0)
        counts[added] = 1
        heap.append(added)
    frequency = dict(enumerate(counts))

    def is_less(a, b):
        return (frequency[a], depth.get(a, 0)) <= (frequency[b], depth.get(b, 0)) \
            if frequency[a] == frequency[b] else frequency[a] < frequency[b]

    def sift(place):
        value, below = heap[place], 2 * place
        while below < len(heap):
            if below + 1 < len(heap) and is_less(heap[below + 1], heap[below]):
                below += 1
            if is_less(value, heap[below]):
                break
            heap[place], place, below = heap[below], below, 2 * below
        heap[place] = value

    for place in range((len(heap) - 1) // 2, 0, -1):
        sift(place)
    order, parent, node = [], {}, len(counts)
    while len(heap) > 2:
        first, last = heap[1], heap.pop()
        heap[1] = last
        sift(1)
        second = heap[1]
        order += [first, second]
        frequency[node] = frequency[first] + frequency[second]
        depth[node] = max(depth.get(first, 0), depth.get(second, 0)) + 1
        parent[first] = parent[second] = node
        heap[1] = node
        node += 1
        sift(1)
    order.append(heap[1])
    lengths, of_length, overflow = {order[-1]: 0}, [0] * (most + 1), 0
    for item in reversed(order[:-1]):
        lengths[item] = lengths[parent[item]] + 1
        if lengths[item] > most:
            lengths[item] = most
            overflow += 1
        if item < len(counts):
            of_length[lengths[item]] += 1
    if overflow == 0:
        return [lengths.get(symbol, 0) if counts[symbol] else 0 for symbol in range(highest + 1)]
    while overflow > 0:
        bits = most - 1
        while of_length[bits] == 0:
            bits -= 1
        of_length[bits] -= 1
        of_length[bits + 1] += 2
        of_length[most] -= 1
        overflow -= 2
    leaves, result = [item for item in order if item < len(counts)], [0] * (highest + 1)
    for bits in range(most, 0, -1):
        for _ in range(of_length[bits]):
            result[leaves.pop(0)] = bits
    return result


def codes_of(lengths):
    code, codes = 0, {}
    for bits in range(1, 16):
        for symbol, length in enumerate(lengths):
            if length == bits:
                codes[symbol] = (int(format(code, "0%db" % bits)[::-1], 2), bits)
                code += 1
        code <<= 1
    return codes


def runs_of(lengths):
    """The symbols of the precode, each with its extra bits, as zlib's scan_tree has them."""
    runs, place = [], 0
    while place < len(lengths):
        length, end = lengths[place], place
        while end < len(lengths) and lengths[end] == length:
            end += 1
        count = end - place
        place = end
        if length != 0:
            runs.append((length, 0))
            count -= 1
        while count != 0:
            low, high, symbol = (3, 6, 16) if length else (3, 10, 17) if count <= 10 else \
                (11, 138, 18)
            taken = min(count, high)
            if taken < low:
                runs += [(length, 0)] * taken
            else:
                runs.append((symbol, taken - low))
            count -= taken
    return runs


class Bits:
    def __init__(self):
        self.value, self.count, self.bytes = 0, 0, bytearray()

    def put(self, value, count):
        self.value |= value << self.count
        self.count += count
        while self.count >= 8:
            self.bytes.append(self.value & 255)
            self.value >>= 8
            self.count -= 8

    def fill(self):
        self.put(0, -self.count % 8)


FIXED_LENGTHS = [8] * 144 + [9] * 112 + [7] * 24 + [8] * 8


def put_block(bits, text, symbols, last):
    items, literals, distances = [], [0] * 286, [0] * 30
    for _, value, distance in symbols:
        length_slot = 257 + slot_of(LENGTH_BASE, value) if distance else value
        distance_slot = slot_of(DISTANCE_BASE, distance) if distance else 0
        items.append((length_slot, value, distance_slot, distance))
        literals[length_slot] += 1
        distances[distance_slot] += distance != 0
    literals[END] = 1
    items.append((END, 0, 0, 0))
    lengths = [code_lengths(literals, 15), code_lengths(distances, 15)]
    runs = runs_of(lengths[0]) + runs_of(lengths[1])
    precode = code_lengths([sum(symbol == i for symbol, _ in runs) for i in range(19)], 7)
    precode += [0] * (19 - len(precode))
    used = max(i for i in range(19) if i < 3 or precode[PRECODE_ORDER[i]]) + 1
    extra = sum(LENGTH_EXTRA[item[0] - 257] + DISTANCE_EXTRA[item[2]] for item in items if item[3])
    header = 14 + 3 * used + sum(precode[symbol] + PRECODE_EXTRA.get(symbol, 0)
                                 for symbol, _ in runs)

    def size(literal_lengths, distance_lengths):
        return extra + sum(literal_lengths[item[0]] +
                           (distance_lengths[item[2]] if item[3] else 0) for item in items)

    dynamic = (header + size(*lengths) + 10) // 8
    fixed = (size(FIXED_LENGTHS, [5] * 30) + 10) // 8
    if len(text) + 4 <= min(dynamic, fixed):
        bits.put(last, 3)
        bits.fill()
        bits.bytes += struct.pack("<HH", len(text), len(text) ^ 0xffff) + text
        return
    if fixed <= dynamic:
        bits.put(2 + last, 3)
        lengths = [FIXED_LENGTHS, [5] * 30]
    else:
        bits.put(4 + last, 3)
        bits.put(len(lengths[0]) - 257, 5)
        bits.put(len(lengths[1]) - 1, 5)
        bits.put(used - 4, 4)
        for symbol in PRECODE_ORDER[:used]:
            bits.put(precode[symbol], 3)
        codes = codes_of(precode)
        for symbol, number in runs:
            bits.put(*codes[symbol])
            bits.put(number, PRECODE_EXTRA.get(symbol, 0))
    literal_codes, distance_codes = codes_of(lengths[0]), codes_of(lengths[1])
    for length_slot, length, distance_slot, distance in items:
        bits.put(*literal_codes[length_slot])
        if distance:
            bits.put(length - LENGTH_BASE[length_slot - 257], LENGTH_EXTRA[length_slot - 257])
            bits.put(*distance_codes[distance_slot])
            bits.put(distance - DISTANCE_BASE[distance_slot], DISTANCE_EXTRA[distance_slot])


def quick_stream(text):
    symbols, bits, start = symbols_of(text), Bits(), 0
    first = 0
    while True:
        block = symbols[first:first + BLOCK_SYMBOLS]
        first += len(block)
        end = block[-1][0] if block else start
        last = first == len(symbols)
        put_block(bits, text[start:end], block, last)
        start = end
        if last:
            break
    bits.fill()
    return b"\x78\x5e" + bytes(bits.bytes) + struct.pack(">I", zlib.adler32(text))
