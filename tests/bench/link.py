#!/usr/bin/env python3
"""What a split costs beside the link before it.

Usage: link.py [--before COVSPLIT] [--write ROOT] CACHE COVSPLIT PROGRAM...      run by link.sh

A program is built, and lld is asked to keep all that it links: so the link can be done again by a single command,
without compiler driver or build tool. The link and the splits take turns; times are medians. Memory is
that of one more run.
"""
import os
import pathlib
import statistics
import subprocess
import sys

import programs
import shown
from large import LLVM, best_of, number, table

TURNS = 7
LABELS = {"postgres": "PostgreSQL's server", "rocksdb": "RocksDB", "git": "git", "sqlite": "SQLite",
          "re2": "RE2 and Abseil"}
HEAD = ["", "processor seconds", "/ link", "two threads", "seconds", "two threads", "/ link",
        "memory, MB", "/ image", "sidecar"]


def relink(cache, name):
    """Links the program once more; it has been built."""
    if name == "rocksdb":
        return lambda: subprocess.run(["sh", "./link.sh", "linked.so"], check=True,
                                      cwd=cache / "rocksdb-plain")
    program = programs.PROGRAMS[name](cache, cache / "programs" / name / "tree")
    image = program.build()[0]

    def again():
        image.unlink()
        program.build()
    return again


def link_of(cache, name):
    """The directory with all that is linked, and the image that the link makes there."""
    place = cache / "links" / name
    if not place.exists():
        (cache / "links").mkdir(exist_ok=True)
        (cache / "programs" / name).mkdir(parents=True, exist_ok=True)
        again = relink(cache, name)
        kept = cache / "links/partial.tar"
        os.environ["LLD_REPRODUCE"] = str(kept)
        again()
        del os.environ["LLD_REPRODUCE"]
        subprocess.run(["tar", "-xf", kept.name], check=True, cwd=kept.parent)
        kept.with_suffix("").rename(place)
        kept.unlink()
    words = (place / "response.txt").read_text().split()
    return place, place / words[words.index("-o") + 1]


def memory_of(command, place):
    """In MB. The script itself takes more than some splits, so a smaller program starts them."""
    told = place / "memory"
    subprocess.run(["/usr/bin/time", "-o", told, "-f", "%M", *command], check=True, cwd=place,
                   stdout=subprocess.DEVNULL)
    return int(told.read_text()) * 1024 / 1e6


def measure(place, image, covsplits):
    """The rows: of the link, and of the splits by each covsplit."""
    link = [f"{LLVM}/ld.lld", "@response.txt"]
    output, sidecar = place / "split", place / "sidecar"
    splits = {(label, *options): [covsplit, "split", *options, "-o", output, "--sidecar", sidecar, image]
              for options in ([], ["--fast"]) for label, covsplit in covsplits.items()}
    commands = {"link": link}
    for key, command in splits.items():
        for threads in "12":
            commands[key + (threads,)] = [*command, "-j", threads]

    def again():
        for path in (output, sidecar):
            path.unlink(missing_ok=True)
    seen = {key: [] for key in commands}
    for _ in range(TURNS):
        for key, command in commands.items():
            again()
            seen[key].append(best_of(None, place, command)[:2])
    wall, cpu = ({key: statistics.median(each[at] for each in runs) for key, runs in seen.items()}
                 for at in (0, 1))
    size = image.stat().st_size
    rows = [[f"link by lld, {number(size)} bytes", f"{cpu['link']:.3f}", "", "", "", f"{wall['link']:.3f}",
             "", f"{memory_of(link, place):.0f}", "", ""]]
    for key, command in splits.items():
        one, two = key + ("1",), key + ("2",)
        again()
        memory = memory_of([*command, "-j", "1"], place)
        rows.append([f"`{' '.join(('split', *key[1:]))}`{key[0]}",
                     f"{cpu[one]:.3f}", f"{cpu[one] / cpu['link']:.2f}", f"{cpu[two]:.3f}",
                     f"{wall[one]:.3f}", f"{wall[two]:.3f}", f"{wall[two] / wall['link']:.2f}",
                     f"{memory:.0f}", f"{memory * 1e6 / size:.2f}", number(sidecar.stat().st_size)])
    return rows


def main():
    words = sys.argv[1:]
    options = {}
    while words[0].startswith("--"):
        options[words[0]] = pathlib.Path(words[1]).resolve()
        del words[:2]
    cache, covsplit = (pathlib.Path(word).resolve() for word in words[:2])
    covsplits = {"": covsplit}
    if "--before" in options:
        covsplits[", before"] = options["--before"]
    rows = []
    for name in words[2:]:
        for row in measure(*link_of(cache, name), covsplits):
            rows.append([f"{LABELS[name]}: {row[0]}", *row[1:]])
    text = table(HEAD, rows)
    print(text, end="")
    if "--write" in options:
        page = options["--write"] / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), "link", "link.sh")
        page.write_text(before + text + after)


if __name__ == "__main__":
    main()
