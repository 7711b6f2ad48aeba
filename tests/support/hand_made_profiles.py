#!/usr/bin/env python3
"""Makes raw profiles by hand, after the layout in LLVM's InstrProfData.inc, as LLVM's own tests of
llvm-profdata do with printf: good ones, and for each rule of the format one that breaks it.

Usage: hand_made_profiles.py VERSION DIRECTORY      VERSION is 8 or 10

NAME.profraw: covsplit should take it if llvm-profdata does. Two kinds differ on purpose: covsplit
also takes what is called wider-NAME, and refuses stricter-NAME, which is damaged.
"""
import hashlib
import os
import struct
import sys

VERSION = int(sys.argv[1])
HAS_BITMAP = VERSION >= 9
HAS_VTABLES = VERSION >= 10
KINDS = 3 if HAS_VTABLES else 2
WORDS = (["Magic", "Version", "BinaryIdsSize", "NumData", "PaddingBytesBeforeCounters",
          "NumCounters", "PaddingBytesAfterCounters"] +
         ["NumBitmapBytes", "PaddingBytesAfterBitmapBytes"] * HAS_BITMAP +
         ["NamesSize", "CountersDelta"] + ["BitmapDelta"] * HAS_BITMAP + ["NamesDelta"] +
         ["NumVTables", "VNamesSize"] * HAS_VTABLES + ["ValueKindLast"])
COUNTERS = 0x1000  # where they are in memory; the data is at 0
FOO_BAR = (("foo", 10, [1]), ("bar", 20, [2, 3]))


def record(order, pointer, name, function_hash, place, count, sites):
    """Without the padding at its end, which is zeros."""
    name_ref = struct.unpack("<Q", hashlib.md5(name.encode()).digest()[:8])[0]
    fields = struct.pack(order + "QQ" + pointer, name_ref, function_hash, place)
    fields += struct.pack(order + pointer * (2 + HAS_BITMAP), *[0] * (2 + HAS_BITMAP))
    fields += struct.pack("%sI%dH" % (order, KINDS), count, *sites)
    if HAS_BITMAP:
        fields += bytes(-len(fields) % 4 + 4)
    return fields + bytes(-len(fields) % 8)


def profile(functions=FOO_BAR, order="<", pointer="Q", ids=b"", records=(), **words):
    """`records`: for functions, in their order, fields that are not what they should be."""
    data, counters = b"", b""
    for index, (name, function_hash, counts) in enumerate(functions):
        size = len(record(order, pointer, name, 0, 0, 0, [0] * KINDS))
        fields = {"place": COUNTERS + len(counters) - index * size, "count": len(counts),
                  "sites": [0] * KINDS, "name": name}
        fields.update(records[index] if index < len(records) else {})
        data += record(order, pointer, fields["name"], function_hash, fields["place"],
                       fields["count"], fields["sites"])
        counters += struct.pack("%s%dQ" % (order, len(counts)), *counts)
    text = "\1".join(function[0] for function in functions).encode()
    names = bytes([len(text), 0]) + text
    header = dict.fromkeys(WORDS, 0)
    header.update(Magic=0xff6c70726f667281 if pointer == "Q" else 0xff6c70726f665281,
                  Version=VERSION, BinaryIdsSize=len(ids), NumData=len(functions),
                  NumCounters=len(counters) // 8, NamesSize=len(names), CountersDelta=COUNTERS,
                  NamesDelta=0x3000, ValueKindLast=KINDS - 1)
    header.update(words)
    return (struct.pack("%s%dQ" % (order, len(WORDS)), *(header[word] for word in WORDS)) + ids +
            data + counters + names + bytes(-len(names) % 8))


def machines():
    """Both byte orders and pointer sizes; one profile, two, and one that says 0 as its last value kind."""
    for order in "<>":
        for pointer in "QI":
            name = "%s-%s" % ("little" if order == "<" else "big", "64" if pointer == "Q" else "32")
            one = profile(order=order, pointer=pointer)
            yield name, one
            yield name + "-two", one + profile([("baz", 5, [9])], order, pointer)
            yield name + "-kind-0", profile(order=order, pointer=pointer, ValueKindLast=0)


def pieces():
    whole, header = profile(), 8 * len(WORDS)
    for size in (7, 8, 12, 40, header - 1, header, header + 8, len(whole) - 40, len(whole) - 9,
                 len(whole) - 1):
        yield "cut-%d" % size, whole[:size]
    yield "magic-alone", whole[:8] + bytes(200)
    yield "zeros-behind", whole + bytes(4096)
    yield "unaligned-zeros-behind", whole + bytes(3)
    yield "text-behind", whole + b"text"
    yield "magic-behind", whole + whole[:8]
    yield "wider-zeros-in-front", bytes(64) + whole
    yield "wider-two-orders", whole + profile(order=">")
    yield "wider-two-sizes", whole + profile(pointer="I")


def headers():
    for version in (0, 6, 12):
        yield "version-%d" % version, profile(Version=version)
    for word in ("BinaryIdsSize", "NumData", "PaddingBytesBeforeCounters", "NumCounters",
                 "PaddingBytesAfterCounters", "NamesSize"):
        for value in (0, 1, 8, 1 << 61):
            yield "%s-%d" % (word, value), profile(**{word: value})
    for delta in (0, COUNTERS - 8, COUNTERS + 8, 1 << 63):
        yield "delta-%d" % delta, profile(CountersDelta=delta)
    for kind in range(KINDS):
        yield "kind-%d" % kind, profile(ValueKindLast=kind)
    for kind in (KINDS, 5, (1 << 64) - 1):
        yield "stricter-kind-%d" % kind, profile(ValueKindLast=kind)
    yield "binary-id", profile(ids=struct.pack("<Q", 20) + b"i" * 20 + bytes(4))
    yield "short-binary-id", profile(ids=struct.pack("<Q", 20)[:4])


def functions():
    yield "same-hash", profile([("foo", 3, [1, 2, 3]), ("bar", 3, [7, 0, 11])])
    yield "same-function", profile([("foo", 3, [1, 2, 3]), ("foo", 3, [1, 2, 3])])
    yield "two-hashes", profile([("foo", 3, [1, 2, 3]), ("foo", 4, [1])])
    yield "no-functions", profile([])
    yield "stricter-unknown-name", profile(records=[{"name": "other"}])
    for count in (0, 3, 4, (1 << 32) - 1):
        yield "count-%d" % count, profile(records=[{"count": count}])
    for place in (0, COUNTERS + 8, COUNTERS + 24, (1 << 64) - 8):
        yield "place-%d" % place, profile(records=[{"place": place}])
    for kind in range(KINDS):
        sites = [int(other == kind) for other in range(KINDS)]
        yield "no-values-%d" % kind, profile(records=[{"sites": sites}])
        yield "no-values-kind-0-%d" % kind, profile(records=[{"sites": sites}], ValueKindLast=0)
    for count in (1 << 56, (1 << 56) + 1, 1 << 63):
        yield "counter-%d" % count, profile([("foo", 10, [count])])


def main():
    for part in (machines, pieces, headers, functions):
        for name, content in part():
            with open(os.path.join(sys.argv[2], name + ".profraw"), "wb") as file:
                file.write(content)


main()
