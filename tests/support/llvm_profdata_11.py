#!/usr/bin/env python3
"""An llvm-profdata for raw profiles of version 11: gives those of its inputs that are such profiles
to llvm-profdata-22, which reads version 10, as profiles of that version.

The fields that version 11 added are left out of header and records. Records are 8 bytes shorter
then, so that the distances from a record to its counters and its bitmap grow by 8 with each.
"""
import os
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from raw_profile_11 import HEADER, MAGICS, RECORD, profiles_of

PROGRAM = "llvm-profdata-22"
NEW = ("NumUniformCounters", "PaddingBytesAfterUniformCounters", "UniformCountersDelta")


def older_record(profile, record, index):
    pointer = profile.pointer
    values = dict(record)
    layout = profile.order + "".join(form.replace("P", pointer) for name, form in RECORD
                                     if name not in ("UniformCounterPtr", "OffloadDeviceWaveSize"))
    layout = layout[:-1] + "2xI"
    shorter = profile.record_size() - (struct.calcsize(layout) + 7) // 8 * 8
    for name in ("CounterPtr", "BitmapPtr"):
        # Without bitmap there is no distance.
        if name == "CounterPtr" or values["NumBitmapBytes"] != 0:
            values[name] = (values[name] + shorter * index) % 256 ** struct.calcsize("<" + pointer)
    content = struct.pack(layout, values["NameRef"], values["FuncHash"], values["CounterPtr"],
                          values["BitmapPtr"], values["FunctionPointer"], values["Values"],
                          values["NumCounters"], *values["NumValueSites"],
                          values["NumBitmapBytes"])
    return content + bytes(-len(content) % 8)


def older(profile):
    words = [profile.header[field] - (field == "Version") for field in HEADER if field not in NEW]
    header = profile.header
    parts = [struct.pack(profile.order + "16Q", *words), profile.ids]
    parts += [older_record(profile, record, i) for i, record in enumerate(profile.records)]
    parts += [bytes(header["PaddingBytesBeforeCounters"]), profile.counters,
              bytes(header["PaddingBytesAfterCounters"]), profile.bitmap,
              bytes(header["PaddingBytesAfterBitmapBytes"]), profile.names]
    content = b"".join(parts)
    return content + bytes(-len(content) % 8)


def is_raw(path):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        start = file.read(8)
    return len(start) == 8 and any(struct.unpack(order + "Q", start)[0] in MAGICS
                                   for order in "<>")


def main():
    words = [PROGRAM]
    with tempfile.TemporaryDirectory() as directory:
        for word in sys.argv[1:]:
            # -weighted-input=WEIGHT,PATH, or a path
            start = word.find(",") + 1 if word.startswith("-weighted-input=") else 0
            path = word[start:]
            if is_raw(path):
                rewritten = b"".join(map(older, profiles_of(path)))
                path = os.path.join(directory, str(len(words)))
                with open(path, "wb") as file:
                    file.write(rewritten)
            words.append(word[:start] + path)
        # covsplit names its inputs and its output by their descriptors.
        return subprocess.run(words, close_fds=False, check=False).returncode


sys.exit(main())
