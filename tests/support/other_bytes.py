#!/usr/bin/env python3
"""A byte more or less anywhere in a profile is an error, or changes nothing.

    other_bytes.py COVSPLIT DIRECTORY CLANG NAME STEP

Takes NAME.profraw and side/NAME.covsplit in the directory, and correlates a copy for each byte that is
put in or taken out, and for bits that are changed, at every STEP-th place. What is made with status
0 must have the functions and counts of the profile itself. A changed bit cannot be seen in a count, nor, in a
profile whose records no sidecar proves, in the hash of a function.
"""
import os
import struct
import subprocess
import sys

COVSPLIT, DIRECTORY, CLANG, NAME = sys.argv[1:5]
STEP = int(sys.argv[5])
# The sizes of header and record by version.
HEADERS = {7: 80, 8: 88, 9: 104, 10: 128, 11: 152}
RECORDS = {7: 48, 8: 48, 9: 64, 10: 64, 11: 72}


def run(*words):
    return subprocess.run(words, cwd=DIRECTORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)


def content(name):
    with open(os.path.join(DIRECTORY, name), "rb") as stream:
        return stream.read()


def correlate(data):
    with open(os.path.join(DIRECTORY, "changed.profraw"), "wb") as stream:
        stream.write(data)
    return run(COVSPLIT, "correlate", "--sidecar", "side/" + NAME + ".covsplit", "-o", "changed.full",
               "changed.profraw")


def counts():
    if run("llvm-profdata-" + CLANG, "merge", "-o", "changed.profdata",
           "changed.full").returncode != 0:
        return None
    return run("llvm-profdata-" + CLANG, "show", "--all-functions", "--counts",
               "changed.profdata").stdout


def changes(raw, counters, counters_end):
    for i in range(0, len(raw) + 1, STEP):
        for byte in (0, 1, 255, raw[min(i, len(raw) - 1)]):
            yield "%d in front of %d" % (byte, i), raw[:i] + bytes([byte]) + raw[i:]
        if i < len(raw):
            yield "without %d" % i, raw[:i] + raw[i + 1:]
        # Of header and records of full profiles there is no proof, and of counts never.
        if i < len(raw) and not counters <= i < counters_end and \
                (NAME == "whole" or i >= counters):
            for bit in range(8):
                yield "bit %d of %d" % (bit, i), raw[:i] + bytes([raw[i] ^ 1 << bit]) + raw[i + 1:]


def main():
    raw = content(NAME + ".profraw")
    version = raw[8]
    words = struct.unpack_from("<6Q", raw)
    counters = HEADERS[version] + words[2] + words[3] * RECORDS[version]
    errors = same = 0
    if correlate(raw).returncode != 0:
        raise SystemExit("the profile itself is refused")
    truth, true_counts = content("changed.full"), counts()
    for what, changed in changes(raw, counters, counters + words[5] * 8):
        done = correlate(changed)
        if done.returncode == 1:
            errors += 1
        elif done.returncode == 0 and (content("changed.full") == truth or
                                       counts() == true_counts):
            same += 1
        else:
            raise SystemExit("%s: status %d, and another result" % (what, done.returncode))
    print("%d errors, %d that change nothing" % (errors, same))
    return 0 if errors > 10 else 1


if __name__ == "__main__":
    sys.exit(main())
