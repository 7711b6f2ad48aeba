#!/usr/bin/env python3
"""Gives the data records in LLVM IR, as clang 19 to 22 writes it (raw version 10), the layout of
raw version 11.

Usage: raw_version_ir.py FROM.ll TO.ll [OFFLOAD_DEVICE_WAVE_SIZE]

UniformCounterPtr goes behind CounterPtr and OffloadDeviceWaveSize behind NumValueSites, both 0 as
in every program for a CPU. Distances stay right: they are between symbols.
"""
import re
import sys

RECORD = re.compile(r"^(@\"?__profd_.*? global )\{([^}]*)\} \{(.*)\}(, section .*)$")
COUNTER_PTR, NUM_VALUE_SITES, FIELDS = 2, 7, 9


def fields_of(text):
    """Splits at the commas that are in no brackets."""
    fields, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            fields.append("")
        else:
            fields[-1] += character
    return [field.strip() for field in fields]


def rewrite(line, wave_size):
    match = RECORD.match(line)
    if not match:
        return line, 0
    before, types, values, behind = match.groups()
    types, values = fields_of(types), fields_of(values)
    if len(types) != FIELDS or len(values) != FIELDS:
        sys.exit("a record of another layout: " + line)
    pointer = types[COUNTER_PTR]
    types.insert(NUM_VALUE_SITES + 1, "i16")
    values.insert(NUM_VALUE_SITES + 1, "i16 %d" % wave_size)
    types.insert(COUNTER_PTR + 1, pointer)
    values.insert(COUNTER_PTR + 1, pointer + " 0")
    return "%s{ %s } { %s }%s" % (before, ", ".join(types), ", ".join(values), behind), 1


def main():
    wave_size = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    records = 0
    with open(sys.argv[1]) as source, open(sys.argv[2], "w") as target:
        for line in source:
            line, is_record = rewrite(line.rstrip("\n"), wave_size)
            records += is_record
            # Objects of IR PGO say their version, with variant bits.
            if line.startswith("@__llvm_profile_raw_version ="):
                line = re.sub(r"i64 (-?\d+)", lambda found: "i64 %d" % (int(found[1]) + 1), line)
            target.write(line + "\n")
    if records == 0:
        sys.exit("no records")


main()
