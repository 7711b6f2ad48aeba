#!/usr/bin/env python3
"""Makes the core that a process would leave in which an image is loaded and has run: for seeds, so it
has nothing but the image's own memory.

Usage: core_of_image.py IMAGE OUT
"""

import struct
import sys

BASE = 0x7F0000000000
PT_LOAD, PT_NOTE, ET_CORE, NT_FILE = 1, 4, 4, 0x46494C45


def main(path, out):
    with open(path, "rb") as file:
        image = file.read()
    offset, size, count = struct.unpack_from("<Q", image, 32)[0], *struct.unpack_from("<HH", image, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", image, offset + i * size) for i in range(count)]
    loads = [header for header in headers if header[0] == PT_LOAD]
    end = max(load[3] + load[6] for load in loads)
    name = path.encode() + b"\0"
    mapped = struct.pack("<QQ", 1, 1) + struct.pack("<QQQ", BASE, BASE + end, 0) + name
    note = struct.pack("<III", 5, len(mapped), NT_FILE) + b"CORE\0\0\0\0" + mapped
    note += b"\0" * (-len(note) % 8)
    table = 64 + 56 * (len(loads) + 1)
    content = note
    entries = struct.pack("<IIQQQQQQ", PT_NOTE, 0, table, 0, 0, len(note), 0, 4)
    for _, flags, where, address, _, stored, in_memory, _ in loads:
        memory = image[where:where + stored]
        memory += b"\0" * min(in_memory - stored, 256)
        entries += struct.pack("<IIQQQQQQ", PT_LOAD, flags, table + len(content), BASE + address, 0,
                               len(memory), in_memory, 4096)
        content += memory
    header = image[:16] + struct.pack("<HHIQQQIHHHHHH", ET_CORE, struct.unpack_from("<H", image, 18)[0],
                                      1, 0, 64, 0, 0, 64, 56, len(loads) + 1, 0, 0, 0)
    with open(out, "wb") as file:
        file.write(header + entries + content)


main(*sys.argv[1:])
