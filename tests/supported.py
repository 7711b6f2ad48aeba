#!/usr/bin/env python3
"""Compares the table of docs/supported.md with what the tests of a build run, or writes it.

Usage: supported.py BUILD [--write]

Each suite below lists its rows (--list) for each way in which ctest runs it; a row is a format, a machine,
how the resulting images are run, a linker, an LLVM version and a kind of image. The page has a line for
each format, machine and way of running.
"""

import json
import os
import re
import subprocess
import sys

SUITES = ("suite_matrix", "suite_machines", "suite_coff", "suite_macho")
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/supported.md")
BEGIN, END = "<!-- by tests/supported.py -->\n", "<!-- end -->\n"
LINKERS = {"bfd": "GNU ld"}
KINDS = ("executable", "pie", "no-pie", "shared", "bundle", "static", "static-pie")
KIND_NAMES = {"pie": "PIE", "no-pie": "non-PIE", "shared": "shared library", "static-pie": "static-PIE"}


def raw_version(llvm):
    """The raw profile version that an LLVM version writes."""
    return 8 if int(llvm) < 18 else 9 if int(llvm) == 18 else 10


def rows(build):
    listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, stdout=subprocess.PIPE)
    for test in json.loads(listing.stdout)["tests"]:
        command = test.get("command", [""])
        if os.path.basename(command[0]) not in SUITES or command[-1] == "real":
            continue
        lines = subprocess.run(command + ["--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
        yield from (tuple(line.split("\t")) for line in lines.splitlines())


def table(build):
    merged = {}
    for form, machine, how, linker, llvm, kind in rows(build):
        linkers, kinds = merged.setdefault((form, machine, how), ({}, set()))
        linkers.setdefault(LINKERS.get(linker, linker), set()).add(int(llvm))
        kinds.add(kind)
    text = "| format | machine | images | linkers, and the LLVM versions with each | raw profiles | tested |\n"
    text += "| --- | --- | --- | --- | --- | --- |\n"
    for (form, machine, how), (linkers, kinds) in sorted(merged.items()):
        versions = sorted({raw_version(llvm) for found in linkers.values() for llvm in found})
        text += "| %s | %s | %s | %s | %s | %s |\n" % (
            form,
            machine,
            ", ".join(KIND_NAMES.get(kind, kind) for kind in KINDS if kind in kinds),
            "; ".join(
                "%s: %s" % (linker, ", ".join(str(llvm) for llvm in sorted(found)))
                for linker, found in sorted(linkers.items())
            ),
            ", ".join(str(version) for version in versions),
            how,
        )
    return text


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    found = re.search(re.escape(BEGIN) + "(.*)" + re.escape(END), page, re.DOTALL)
    if found is None:
        sys.exit("docs/supported.md: no place for the table")
    made = table(sys.argv[1])
    if sys.argv[2:]:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page[: found.start(1)] + made + page[found.end(1) :])
    elif found.group(1) != made:
        sys.exit("docs/supported.md is not what the tests list; see tests/supported.py --write:\n" + made)


main()
