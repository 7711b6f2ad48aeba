#!/usr/bin/env python3
"""Checks the layers of the sources: which files include which, and whose code calls whose.

Usage: rooms.py BUILD

Checks three rules for the sources of the product, and prints a line for each violation:

order    A file includes only headers of its own room and of the rooms that ROOMS allows, and calls
         only functions of these. The calls are read from the object files in BUILD with nm, since
         one header often declares what several sources define.
circles  Headers do not include each other, and rooms do not need each other: ROOMS has no circle.
names    A comment names no source that is not there.

The sources of one room may call each other as they like: they are the parts of one subject.
The last line is "N files, M rooms: order, circles and names hold", with status 0, or else status 1.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# The rooms, lowest first, with the rooms that each may include. A room is a folder, or a file that is
# above or below its neighbours; NAME/* is the room and all rooms inside it.
ROOMS = {
    "common/base": "",
    "common/llvm": "common/base",
    "common/elf_file": "common/base",
    "common/edit": "common/base common/llvm common/elf_file",
    "common/codec": "common/base common/llvm",
    "common/sidecar": "common/base common/llvm common/elf_file common/edit common/codec",
    "common/store": "common/base",
    "common/remote": "common/base common/sidecar common/store",
    "common/state": "common/base common/llvm common/codec common/sidecar",
    "formats/machine": "common/base",
    "formats/image": "common/*",
    "formats/runtime": "common/* formats/machine formats/image",
    "formats/object": "common/* formats/machine formats/image",
    "formats": "common/* formats/machine formats/image formats/runtime",
    "formats/elf": "common/* formats/machine formats/image formats/runtime formats",
    "formats/coff": "common/* formats/machine formats/image formats/runtime formats",
    "formats/macho": "common/* formats/machine formats/image formats/runtime formats",
    "formats/planner": "common/* formats formats/machine formats/image formats/runtime formats/object"
                       " formats/elf formats/coff formats/macho",
    "formats/container": "common/* formats/*",
    "reader": "common/*",
    "device": "",
    "split/cli": "common/* formats/*",
    "split/split": "common/* formats/* split/cli",
    "split/compile": "common/* formats/* split/cli",
    "split/profiles": "common/* formats/* split/cli",
    "split/report": "common/* formats/* split/cli split/profiles",
    "split/sidecars": "common/* formats/* split/cli",
    "split/run": "common/* formats/* split/cli",
    "split/snapshot": "common/* formats/* split/cli",
    "split": "common/* formats/* split/*",
    "share": "common/* split/*",
}


# Of LLVM, Apple, xxHash and autoconf.
OTHERS = {"InstrProf.h", "ELF.h", "cs_blobs.h", "xxhash.h", "conftest.c"}


def is_in(room, name):
    """Whether a room, or a file without its extension, is `name` or below it."""
    return room == name or room.startswith(name + "/")


def room_of(path):
    """The innermost room that a file is in."""
    stem = path.rsplit(".", 1)[0]
    return max((room for room in ROOMS if is_in(stem, room)), key=len, default=None)


def may_include(room, other):
    return room == other or any(
        is_in(other, name[:-2]) if name.endswith("/*") else other == name
        for name in ROOMS[room].split())


def sources():
    files = []
    for top in ("common", "formats", "reader", "device", "split", "share"):
        files += [path.relative_to(ROOT).as_posix() for path in (ROOT / top).rglob("*.[ch]")
                  if "examples" not in path.parts]
    return sorted(files)


def included(path):
    text = (ROOT / path).read_text()
    return re.findall(r'^#include "((?:common|formats|reader|device|split|share)/[^"]+)"', text, re.M)


def absent(path, files):
    """The sources that comments of a file name, by the end of their paths, and that are not there."""
    for comment in re.findall(r"/\*.*?\*/", (ROOT / path).read_text(), re.DOTALL):
        for name in re.findall(r"(?<![\w./-])(?:[\w-]+/)*[\w-]+\.[ch](?![\w/])", comment):
            if not name.startswith("mach-o/") and name not in OTHERS and not any(
                    ("/" + file).endswith("/" + name) for file in files):
                yield name


def calls(build, files):
    """Of each source, the sources that define what it uses."""
    objects = {}
    for source in files:
        room, _, path = source.partition("/")
        found = list((build / room).glob(f"CMakeFiles/*/{path}.o"))
        if source.endswith(".c"):
            if not found:
                raise SystemExit(f"rooms: {source} has no object file in {build}")
            objects[str(found[0])] = source
    lines = subprocess.run(["nm", "-g", "-P", "-A", *objects], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    defined, used = {}, {source: set() for source in objects.values()}
    for line in lines:
        path, symbol, kind = line.split()[:3]
        source = objects[path.rstrip(":")]
        if kind in "Uw":
            used[source].add(symbol)
        elif source != "split/run/preload.c":  # whose functions stand for those of other programs
            defined[symbol] = source
    return {source: {defined[symbol] for symbol in symbols if symbol in defined} - {source}
            for source, symbols in used.items()}


def circles(graph):
    """The sets of nodes that reach each other (Tarjan), those of one node left out."""
    numbers, low, stack, found = {}, {}, [], []

    def visit(node):
        numbers[node] = low[node] = len(numbers)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in numbers:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == numbers[node]:
            circle = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(10000)
    for node in sorted(graph):
        if node not in numbers:
            visit(node)
    return found


def main():
    build = pathlib.Path(sys.argv[1])
    files = sources()
    problems = []

    for path in files:
        if room_of(path) is None:
            problems.append(f"order: {path} is in no room")
            continue
        for header in included(path):
            if not may_include(room_of(path), room_of(header)):
                problems.append(f"order: {path} includes {header}")

        problems += [f"names: {path}: {name}" for name in absent(path, files)]

    for path, others in sorted(calls(build, files).items()):
        for other in sorted(others):
            if not may_include(room_of(path), room_of(other)):
                problems.append(f"order: {path} calls {other}")

    headers = {path: set(included(path)) for path in files if path.endswith(".h")}
    rooms = {room: {other for other in ROOMS if other != room and may_include(room, other)
                    and not is_in(other, room)} for room in ROOMS}
    for what, graph in (("includes", headers), ("rooms", rooms)):
        problems += [f"circle of {what}: " + " ".join(circle) for circle in circles(graph)]

    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(1)
    print(f"{len(files)} files, {len(ROOMS)} rooms: order, circles and names hold")


main()
