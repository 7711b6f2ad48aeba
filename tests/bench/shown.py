#!/usr/bin/env python3
"""Carries the numbers of docs/benchmarks.md, which large.sh writes, to where they are shown again: the
tables of the README and the picture docs/before-after.svg.

Usage: shown.py [--check] ROOT

With --check nothing is written, and it fails if something would change.
"""

import pathlib
import re
import sys

PROGRAM = "rocksdb"
BEGIN = "<!-- by tests/bench/{} {} -->\n"
END = "<!-- end -->"

# The rows of costs that the README has.
SHOWN = ("the link, by lld", "`covsplit split`", "`covsplit split --fast`",
         "merge of 100 profiles: `covsplit merge`", "`llvm-profdata merge`, full profiles",
         "`llvm-profdata merge --binary-file`", "report: `llvm-cov`, unsplit image",
         "`covsplit run -- llvm-cov`, split image")

# Before is grey, after is green. The picture has a ground of its own: a page can be dark where the
# reader's system is light, and then the media query does not see it.
STYLE = """.ground { fill: #ffffff }
text { font: 15px sans-serif; fill: #24292f }
.number { font-weight: bold }
.before { fill: #8c959f }
.after { fill: #2da44e }
@media (prefers-color-scheme: dark) { .ground { fill: #0d1117 } text { fill: #e6edf3 } .after { fill: #3fb950 } }"""
WIDTH, LABELS, NUMBERS, BAR, GAP = 760, 190, 100, 20, 18


def block(text, name, script="large.sh"):
    """What is between the markers, and what is before and after it."""
    before, found, rest = text.partition(BEGIN.format(script, name))
    if not found or END not in rest:
        raise SystemExit(f"shown.py: there is no block '{name}'")
    inside, _, after = rest.partition(END)
    return before + found, inside, END + after


def rows_of(table):
    """The rows, head and ruler first, as lists of cells."""
    return [re.split(r" *\| *", line.strip())[1:-1] for line in table.strip().splitlines()]


def lines_of(table, wanted):
    lines = table.strip().splitlines()
    return lines[:2] + [line for line, row in zip(lines, rows_of(table)) if row[0] in wanted]


def readable(size):
    for unit, factor in (("MB", 1_000_000), ("kB", 1_000)):
        if size >= factor:
            return f"{size / factor:#.3g}".rstrip(".") + f" {unit}"
    return f"{size} bytes"


def picture(sizes):
    """The rows without covsplit and with it, as pairs of bars on one scale."""
    rows = {row[0]: row for row in rows_of(sizes)}
    before, after = ([int(rows[label][at].replace(",", "")) for at in (1, 3, 4)]
                     for label in ("as it is built", "`covsplit split`"))
    labels = ["image that is shipped", "profile of a run", "kept for reports"]
    scale = (WIDTH - LABELS - NUMBERS) / max(before + after)
    height = len(labels) * (2 * BAR + GAP) + 2 * GAP
    told = "; ".join(f"{label}: {readable(old)} before, {readable(new)} after"
                     for label, old, new in zip(labels, before, after))
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
             'aria-labelledby="title description">',
             '<title id="title">RocksDB with coverage, before and after covsplit split</title>',
             f'<desc id="description">{told}.</desc>', f"<style>\n{STYLE}\n</style>",
             f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>']
    top = GAP
    for label, *sizes_of_bars in zip(labels, before, after):
        lines.append(f'<text x="{LABELS - 12}" y="{top + BAR + 5}" text-anchor="end">{label}</text>')
        for kind, size in zip(("before", "after"), sizes_of_bars):
            width = max(2, round(size * scale))
            lines.append(f'<rect class="{kind}" x="{LABELS}" y="{top}" width="{width}" '
                         f'height="{BAR - 2}"/>')
            lines.append(f'<text class="number" x="{LABELS + width + 8}" y="{top + BAR - 6}">'
                         f'{readable(size)}</text>')
            top += BAR
        top += GAP
    x = LABELS
    for kind, meaning in (("before", "built with coverage by clang 19"),
                          ("after", "after covsplit split")):
        lines.append(f'<rect class="{kind}" x="{x}" y="{top - 4}" width="12" height="12"/>')
        lines.append(f'<text x="{x + 18}" y="{top + 7}">{meaning}</text>')
        x += 260
    return "\n".join(lines) + "\n</svg>\n"


def main(arguments):
    check = arguments[0] == "--check"
    root = pathlib.Path(arguments[-1])
    _, tables, _ = block((root / "docs/benchmarks.md").read_text(), PROGRAM)
    sizes, costs = tables.strip().split("\n\n")
    readme = (root / "README.md").read_text()
    for name, lines in (("sizes", sizes.splitlines()), ("costs", lines_of(costs, SHOWN))):
        before, _, after = block(readme, name)
        readme = before + "\n".join(lines) + "\n" + after
    wrong = []
    for path, text in ((root / "README.md", readme),
                       (root / "docs/before-after.svg", picture(sizes))):
        if not path.exists() or path.read_text() != text:
            if check:
                wrong.append(str(path))
            else:
                path.write_text(text)
    if wrong:
        raise SystemExit(f"not the numbers of docs/benchmarks.md: {' '.join(wrong)}; "
                         "run tests/bench/shown.py")


if __name__ == "__main__":
    main(sys.argv[1:])
