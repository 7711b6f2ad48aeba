#!/usr/bin/env python3
"""What `llvm-cov export` says of our own sources, for people. See coverage.sh, which runs it.

Usage: coverage.py table EXPORT.json ROOT       tables in Markdown: the folders, and files below the aim
       coverage.py missing EXPORT.json ROOT     every line and branch that is not reached, with its text
       coverage.py write EXPORT.json ROOT       puts the tables into ROOT/docs/coverage.md
"""

import collections
import json
import pathlib
import sys

AIM_LINES, AIM_BRANCHES = 95.0, 90.0
AIMED = ("common/", "formats/", "reader/")
SHOWN = AIMED + ("split/",)
KINDS = ("lines", "branches", "mcdc", "regions")
BEGIN, END = "<!-- by tests/coverage.sh -->\n", "<!-- end -->"


class File:
    """One source file: its name below the root, and what the export has of it."""

    def __init__(self, name, exported):
        self.name = name
        self.exported = exported
        self.counts = {kind: (exported["summary"][kind]["covered"], exported["summary"][kind]["count"])
                       for kind in KINDS}

    def line_counts(self):
        """How often each line with code was run: as llvm-cov counts it, which takes the largest count
        of the regions that begin in a line, or of the one that the line continues."""
        by_line = collections.defaultdict(list)
        for segment in self.exported["segments"]:
            by_line[segment[0]].append(segment)
        if not by_line:
            return {}
        counts, around = {}, None
        for line in range(min(by_line), max(by_line) + 1):
            here = by_line.get(line, [])
            starts = [segment for segment in here if segment[3] and segment[4] and not segment[5]]
            skipped = here and not here[0][3] and here[0][4]
            if starts or (around and around[3] and not skipped):
                counts[line] = max([around[2] if around and around[3] else 0] +
                                   [segment[2] for segment in starts])
            around = here[-1] if here else around
        return counts

    def missing_branches(self, lines):
        """(line, column, which outcomes never were). In an inline function of a header any copy counts.
        A condition that the compiler decided has no counts though its line was run."""
        sums = collections.Counter()
        for branch in self.exported["branches"]:
            sums[tuple(branch[:4]), True] += branch[4]
            sums[tuple(branch[:4]), False] += branch[5]
        for place in sorted({place for place, _ in sums}):
            taken = sums[place, True], sums[place, False]
            if not any(taken) and lines.get(place[0], 0) == 0:
                yield place[0], place[1], "not reached"
            elif any(taken) and not all(taken):
                yield place[0], place[1], "never false" if taken[0] else "never true"


def read_files(export, root):
    files = []
    for exported in json.loads(pathlib.Path(export).read_text())["data"][0]["files"]:
        path = pathlib.Path(exported["filename"])
        if path.is_relative_to(root):
            files.append(File(str(path.relative_to(root)), exported))
    files = [file for file in files if file.name.startswith(SHOWN)]
    return sorted(files, key=lambda file: file.name)


def percent(covered, count):
    return 100.0 * covered / count if count else 100.0


def summed(files):
    return {kind: tuple(sum(column) for column in zip(*(file.counts[kind] for file in files)))
            for kind in KINDS}


def cells(counts):
    for kind in KINDS:
        covered, count = counts[kind]
        yield f"{percent(covered, count):.1f}% of {count:,}" if count else "—"


def folders_of(name):
    """Where it is counted: in common/ and in common/codec/, however deep it is there."""
    above = name.split("/")[:-1]
    return ["/".join(above[:depth]) + "/" for depth in range(1, min(len(above), 2) + 1)]


def by_folder(files):
    folders = collections.defaultdict(list)
    for file in files:
        for folder in folders_of(file.name):
            folders[folder].append(file)
    return dict(sorted(folders.items()))


def below_aim(file):
    return (percent(*file.counts["lines"]) < AIM_LINES or
            percent(*file.counts["branches"]) < AIM_BRANCHES)


def table(files):
    head = "| {} | lines | branches | MC/DC | regions |\n| --- | ---: | ---: | ---: | ---: |"
    aimed = [file for file in files if folders_of(file.name)[0] in AIMED]
    yield head.format("folder")
    for folder, mine in by_folder(files).items():
        yield " | ".join([f"| `{folder}`", *cells(summed(mine))]) + " |"
    yield " | ".join(["| the aim: " + ", ".join(f"`{top}`" for top in AIMED), *cells(summed(aimed))]) + " |"
    yield ""
    low = sorted((file for file in aimed if below_aim(file)),
                 key=lambda file: percent(*file.counts["lines"]))
    yield f"Of {len(aimed)} files {len(low)} are below the aim:"
    yield ""
    yield head.format("file")
    for file in low:
        yield " | ".join([f"| `{file.name}`", *cells(file.counts)]) + " |"


def runs(numbers):
    """Numbers in a row, as (first, last)."""
    first = last = None
    for number in numbers:
        if last is not None and number != last + 1:
            yield first, last
            first = None
        first = number if first is None else first
        last = number
    if first is not None:
        yield first, last


def missing(files, root):
    for folder, mine in by_folder(files).items():
        counts = summed(mine)
        yield "{:24}".format(folder) + "".join(
            f"  {kind} {percent(*counts[kind]):6.2f}% (-{counts[kind][1] - counts[kind][0]})"
            for kind in KINDS)
    for file in files:
        lines = file.line_counts()
        text = (root / file.name).read_text().splitlines()
        not_run = [line for line in sorted(lines) if lines[line] == 0]
        branches = list(file.missing_branches(lines))
        if not not_run and not branches:
            continue
        covered, count = file.counts["lines"]
        branches_covered, branches_count = file.counts["branches"]
        yield (f"\n== {file.name}: lines {percent(covered, count):.1f}% (-{count - covered}), "
               f"branches {percent(branches_covered, branches_count):.1f}% "
               f"(-{branches_count - branches_covered})")
        for first, last in runs(not_run):
            yield f"{file.name}:{first}-{last}: not run"
            for line in range(first, last + 1):
                yield f"    {line:5}  {text[line - 1]}"
        for line, column, what in branches:
            if what != "not reached":
                yield f"{file.name}:{line}:{column}: {what}:  {text[line - 1].strip()}"


def write(files, root):
    page = root / "docs/coverage.md"
    before, found, rest = page.read_text().partition(BEGIN)
    if not found or END not in rest:
        raise SystemExit(f"coverage.py: {page} has no place for the tables")
    page.write_text(before + found + "\n".join(table(files)) + "\n" + END + rest.partition(END)[2])


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("table", "missing", "write"):
        raise SystemExit(__doc__)
    root = pathlib.Path(arguments[2]).resolve()
    files = read_files(arguments[1], root)
    if arguments[0] == "write":
        write(files, root)
    else:
        print("\n".join(table(files) if arguments[0] == "table" else missing(files, root)))


if __name__ == "__main__":
    main(sys.argv[1:])
