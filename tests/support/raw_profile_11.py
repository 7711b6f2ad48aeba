#!/usr/bin/env python3
"""Reads raw profiles of version 11 by the layout that LLVM's InstrProfData.inc describes, and
nothing else: a second reader, which shares no code with the one under test.

Usage: raw_profile_11.py same PROFILE FULL      FULL has all that PROFILE has, field by field
       raw_profile_11.py sum SUM PROFILE...     SUM has the sum of the counters of the others
       raw_profile_11.py stub PROFILE           what is there is lightweight: one record, the stub

The names may be stored otherwise, but are the same ones in the same order. Where they were in memory
differs from run to run, and so does how far from the data no bitmap is.
"""
import struct
import sys
import zlib

HEADER = ("Magic", "Version", "BinaryIdsSize", "NumData", "PaddingBytesBeforeCounters",
          "NumCounters", "PaddingBytesAfterCounters", "NumBitmapBytes",
          "PaddingBytesAfterBitmapBytes", "NumUniformCounters",
          "PaddingBytesAfterUniformCounters", "UniformCountersDelta", "NamesSize",
          "CountersDelta", "BitmapDelta", "NamesDelta", "NumVTables", "VNamesSize",
          "ValueKindLast")
RECORD = (("NameRef", "Q"), ("FuncHash", "Q"), ("CounterPtr", "P"), ("UniformCounterPtr", "P"),
          ("BitmapPtr", "P"), ("FunctionPointer", "P"), ("Values", "P"), ("NumCounters", "I"),
          ("NumValueSites", "3H"), ("OffloadDeviceWaveSize", "H"), ("NumBitmapBytes", "I"))
MAGICS = {0xff6c70726f667281: "Q", 0xff6c70726f665281: "I"}
BYTE_COVERAGE = 1 << 60


def require(truth, what):
    if not truth:
        sys.exit("raw_profile_11.py: " + what)


class Profile:
    """One profile of a file, and where it ends."""

    def __init__(self, file, start=0):
        self.order = next((order for order in "<>"
                           if struct.unpack_from(order + "Q", file, start)[0] in MAGICS), None)
        require(self.order, "no raw profile")
        magic = struct.unpack_from(self.order + "Q", file, start)[0]
        self.pointer = MAGICS[magic]
        words = struct.unpack_from(self.order + "19Q", file, start)
        self.header = dict(zip(HEADER, words))
        require(self.header["Version"] & 0xffffffff == 11, "not of version 11")
        self.file, self.end = file, start + 19 * 8
        self.take_parts()

    def take(self, size):
        part = self.file[self.end:self.end + size]
        require(len(part) == size, "cut short")
        self.end += size
        return part

    def pad(self, size):
        require(not any(self.take(size)), "padding is not zero")

    def layout(self):
        """Of a record: as C has it, in which here nothing needs padding but the end. What is there
        is of no meaning: behind the last record it may be of another section."""
        return self.order + "".join(form.replace("P", self.pointer) for _, form in RECORD)

    def record_size(self):
        return (struct.calcsize(self.layout()) + 7) // 8 * 8

    def take_parts(self):
        header = self.header
        one_byte = header["Version"] & BYTE_COVERAGE
        self.ids = self.take(header["BinaryIdsSize"])
        self.records = [self.record(self.take(self.record_size()))
                        for _ in range(header["NumData"])]
        self.pad(header["PaddingBytesBeforeCounters"])
        self.counters = self.take(header["NumCounters"] * (1 if one_byte else 8))
        self.pad(header["PaddingBytesAfterCounters"])
        self.bitmap = self.take(header["NumBitmapBytes"])
        self.pad(header["PaddingBytesAfterBitmapBytes"])
        require(header["NumUniformCounters"] == 0, "uniform counters")
        require(header["UniformCountersDelta"] == 0, "a place for no uniform counters")
        self.pad(header["PaddingBytesAfterUniformCounters"])
        self.names = self.take(header["NamesSize"])
        self.pad(-header["NamesSize"] % 8)
        require(header["NumVTables"] == header["VNamesSize"] == 0, "vtables")
        require(header["ValueKindLast"] == 2, "other value kinds")

    def record(self, content):
        values = list(struct.unpack_from(self.layout(), content))
        return {name: [values.pop(0) for _ in range(3)] if form == "3H" else values.pop(0)
                for name, form in RECORD}

    def name_list(self):
        names, place = [], 0

        def number():
            nonlocal place
            value, shift = 0, 0
            while True:
                byte = self.names[place]
                place += 1
                value, shift = value | (byte & 127) << shift, shift + 7
                if byte < 128:
                    return value
        while place < len(self.names):
            size, packed = number(), number()
            text = self.names[place:place + (packed or size)]
            place += packed or size
            text = zlib.decompress(text) if packed else text
            require(len(text) == size, "names of another size")
            names += [name for name in text.split(b"\1") if name not in names]
            while place < len(self.names) and self.names[place] == 0:
                place += 1
        return names

    def whole_counters(self):
        """Without what is in front of the first one and behind the last: on Windows that is not the
        program's, nor the same in each run."""
        size = 1 if self.header["Version"] & BYTE_COVERAGE else 8
        start = (self.records[0]["CounterPtr"] - self.header["CountersDelta"]) % size
        counters = self.counters[start:]
        return counters[:len(counters) // size * size]

    def counts(self):
        return struct.unpack(self.order + "%dQ" % (len(self.counters) // 8), self.counters)


def profiles_of(path):
    with open(path, "rb") as opened:
        file = opened.read()
    profiles, start = [], 0
    while start < len(file):
        profiles.append(Profile(file, start))
        start = profiles[-1].end
        while start < len(file) and file[start] == 0:
            start += 1
    return profiles


def one_of(path):
    profiles = profiles_of(path)
    require(len(profiles) == 1, "%s: %d profiles" % (path, len(profiles)))
    return profiles[0]


def check_same(a, b):
    anything = {"NamesSize", "NamesDelta"}
    if a.header["NumBitmapBytes"] == 0:
        anything.add("BitmapDelta")
    for field in HEADER:
        require(field in anything or a.header[field] == b.header[field], field + " differs")
    for i, (left, right) in enumerate(zip(a.records, b.records)):
        for field, _ in RECORD:
            require(left[field] == right[field], "record %d: %s differs" % (i, field))
        require(left["UniformCounterPtr"] == left["OffloadDeviceWaveSize"] == 0, "of a GPU's code")
    require(a.records and a.name_list() == b.name_list(), "other names")
    require(a.ids == b.ids and a.bitmap == b.bitmap, "binary IDs or bitmap differ")
    require(a.whole_counters() == b.whole_counters(), "counters differ")


def check_sum(total, parts):
    sums = [sum(column) for column in zip(*(part.counts() for part in parts))]
    require(list(total.counts()) == sums and any(sums), "not the sum")
    require(total.records == parts[0].records or len(parts[0].records) == 1, "other records")


def check_stub(profile):
    require(len(profile.records) == 1, "not one record")
    stub = profile.records[0]
    require(stub["NumCounters"] == profile.header["NumCounters"], "not all counters")
    require(stub["CounterPtr"] == profile.header["CountersDelta"], "not at the first counter")
    require(stub["NumBitmapBytes"] == profile.header["NumBitmapBytes"], "not all of the bitmap")
    require(stub["UniformCounterPtr"] == stub["OffloadDeviceWaveSize"] == 0, "of a GPU's code")
    require(struct.pack(profile.order + "Q", stub["NameRef"]) == profile.ids[8:16],
            "not the UUID")


def main():
    check, paths = sys.argv[1], sys.argv[2:]
    if check == "same":
        check_same(*map(one_of, paths))
    elif check == "sum":
        check_sum(one_of(paths[0]), [one_of(path) for path in paths[1:]])
    else:
        check_stub(one_of(paths[0]))


if __name__ == "__main__":
    main()
