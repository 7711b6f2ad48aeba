#!/usr/bin/env python3
"""Makes minidumps of an ELF core of a 64-bit little-endian machine, as crash reporters would have
made them of the same process. Written from Microsoft's description of the format, and shares nothing
with the code under test.

Usage: minidump_of_core.py KIND CORE OUT

  full        all memory of the core, as a Memory64List
  registered  the counters and bitmaps of all images, and the stack, as a MemoryList
  stacks      the stack alone
  big         as `registered`, but in big-endian byte order, as if the writer's machine had that
"""

import struct
import sys

PT_LOAD, PT_NOTE = 1, 4
NT_FILE = 0x46494C45
MODULE_LIST, MEMORY_LIST, SYSTEM_INFO, MEMORY64_LIST = 4, 5, 7, 9
REGISTERED = (b"__llvm_prf_cnts", b"__llvm_prf_bits")


def program_headers(data):
    offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, where, address, _, stored, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, offset + i * size)
        yield kind, where, address, stored, in_memory


def notes(data):
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_size + 3) // 4 * 4
        yield kind, data[start:start + size]
        at = start + (size + 3) // 4 * 4


def mapped_files(core):
    """Name and address of each file that is mapped from its beginning."""
    for kind, where, _, stored, _ in program_headers(core):
        if kind != PT_NOTE:
            continue
        for note, data in notes(core[where:where + stored]):
            if note != NT_FILE:
                continue
            count = struct.unpack_from("<Q", data)[0]
            names = data[16 + 24 * count:].split(b"\0")
            for i in range(count):
                start, end, offset = struct.unpack_from("<QQQ", data, 16 + 24 * i)
                if offset == 0:
                    yield names[i].decode(), start, end - start


def build_id(image):
    for kind, where, _, stored, _ in program_headers(image):
        if kind == PT_NOTE:
            for note, data in notes(image[where:where + stored]):
                if note == 3:
                    return data
    return b""


def sections(image):
    """Name, address and size of each section."""
    offset = struct.unpack_from("<Q", image, 40)[0]
    size, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQ", image, offset + i * size) for i in range(count)]
    for name, _, _, address, _, length in headers:
        start = headers[names][4] + name
        yield image[start:image.index(b"\0", start)], address, length


class Image:
    """An ELF file that is in the core's list of files."""

    def __init__(self, name, base, size):
        with open(name, "rb") as file:
            data = file.read()
        loads = [header for header in program_headers(data) if header[0] == PT_LOAD]
        self.name, self.base = name, base
        self.size = max(load[2] + load[4] for load in loads) - loads[0][2]
        self.build_id = build_id(data)
        self.registered = [(base + address - loads[0][2], length)
                           for section, address, length in sections(data)
                           if section in REGISTERED and length]


def images(core):
    for name, base, size in mapped_files(core):
        try:
            with open(name, "rb") as file:
                is_image = file.read(4) == b"\x7fELF"
        except OSError:
            is_image = False
        if is_image:
            yield Image(name, base, size)


class Dump:
    """The header, a directory of two streams, and what they refer to, one after the other."""

    def __init__(self, order):
        self.order = order
        self.data = bytearray(32 + 3 * 12)

    def pack(self, form, *values):
        return struct.pack(self.order + form, *values)

    def add(self, data):
        self.data += b"\0" * (-len(self.data) % 8)
        self.data += data
        return len(self.data) - len(data)

    def add_modules(self, modules):
        entries = b""
        for module in modules:
            name = module.name.encode("utf-16" + ("-le" if self.order == "<" else "-be"))
            name_at = self.add(self.pack("I", len(name)) + name + b"\0\0")
            record = self.pack("I", 0x4270454C) + module.build_id
            record_at = self.add(record)
            entry = self.pack("QIIII", module.base, module.size, 0, 0, name_at)
            entry += bytes(52)
            entry += self.pack("IIIIQQ", len(record), record_at, 0, 0, 0, 0)
            assert len(entry) == 108
            entries += entry
        return self.pack("I", len(entries) // 108) + entries

    def add_memory(self, ranges):
        entries = b""
        for address, data in ranges:
            entries += self.pack("QII", address, len(data), self.add(data))
        return self.pack("I", len(ranges)) + entries

    def memory64(self, ranges, base):
        table = b"".join(self.pack("QQ", address, len(data)) for address, data in ranges)
        return self.pack("QQ", len(ranges), base + 16 + len(table)) + table

    def finish(self, streams):
        directory = b""
        for kind, data, at in streams:
            directory += self.pack("III", kind, len(data), at)
        self.data[:32] = self.pack("IIIIIIQ", 0x504D444D, 0xA793, len(streams), 32, 0, 0, 2)
        self.data[32:32 + len(directory)] = directory
        return self.data


def memory_of(core):
    for kind, where, address, stored, _ in program_headers(core):
        if kind == PT_LOAD and stored:
            yield address, core[where:where + stored]


def pick(memory, address, size):
    for start, data in memory:
        if start <= address and address + size <= start + len(data):
            return address, data[address - start:address - start + size]
    raise SystemExit(f"no memory at {address:#x}")


def main():
    kind, source, target = sys.argv[1:]
    with open(source, "rb") as file:
        core = file.read()
    memory, modules = list(memory_of(core)), list(images(core))
    dump = Dump(">" if kind == "big" else "<")
    streams = [(SYSTEM_INFO, b"", 0)]
    data = dump.add_modules(modules)
    streams.append((MODULE_LIST, data, dump.add(data)))
    if kind == "full":
        base = len(dump.data) + -len(dump.data) % 8
        data = dump.memory64(memory, base)
        streams.append((MEMORY64_LIST, data, dump.add(data)))
        for _, part in memory:
            dump.data += part
    else:
        stack = max(memory[:-1])
        ranges = [(stack[0], stack[1][-8192:])]
        if kind != "stacks":
            ranges += [pick(memory, *where) for module in modules for where in module.registered]
        data = dump.add_memory(ranges)
        streams.append((MEMORY_LIST, data, dump.add(data)))
    with open(target, "wb") as file:
        file.write(dump.finish(streams))


main()
