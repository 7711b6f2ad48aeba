"""Makes symbol tables again from which the symbols of coverage records went, by docs/format.md."""
import bisect
import struct

from sidecar_numbers import Numbers, unzigzag

HEADER = 28


def records_of(covfun, order):
    """Of each record its offset, its size, and its NameRef."""
    records, place = [], 0
    while place + HEADER <= len(covfun):
        reference, mapping = struct.unpack_from(order + "QI", covfun, place)
        records.append((place, HEADER + mapping, reference))
        place += HEADER + mapping + -(HEADER + mapping) % 8
    return records


def symbol_tables(recipe, order, wide, stripped, covfun):
    numbers, records = Numbers(recipe), records_of(covfun, order)
    size, symbols_at, symbols_size, names_at, names_size = [numbers.take() for _ in range(5)]
    address, section, info, other, count = [numbers.take() for _ in range(5)]
    left, used = stripped[names_at:names_at + names_size], 0
    names, symbols, gone, index, record = bytearray(), {}, [(0, 0)], 0, 0
    for _ in range(count):
        index, code, gap = index + numbers.take(), numbers.take(), numbers.take()
        record += unzigzag(code >> 1)
        names += left[used:used + gap]
        used += gap
        offset, length, reference = records[record]
        name = b"__covrec_%X%s\0" % (reference, b"" if code & 1 else b"u")
        entry = len(names), address + offset, length
        symbols[index] = (struct.pack(order + "IBBHQQ", entry[0], info, other, section, *entry[1:])
                          if wide else struct.pack(order + "IIIBBH", *entry, info, other, section))
        gone.append((used, gone[-1][1] + len(name)))
        names += name
        index, record = index + 1, record + 1
    names += left[used:]

    table, place, entry_size = bytearray(), symbols_at, 24 if wide else 16
    for i in range(symbols_size // entry_size + count):
        if i in symbols:
            table += symbols[i]
            continue
        name, = struct.unpack_from(order + "I", stripped, place)
        before = gone[bisect.bisect_right(gone, (name, 1 << 64)) - 1][1]
        table += struct.pack(order + "I", name + before) + stripped[place + 4:place + entry_size]
        place += entry_size

    both, place = names + table if names_at < symbols_at else table + names, 0
    while not numbers.at_end():
        place += numbers.take()
        change = numbers.rest(numbers.take())
        both[place:place + len(change)] = change
        place += len(change)
    if len(both) != size:
        raise ValueError("the symbol tables have another size")
    return both
