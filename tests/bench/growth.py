#!/usr/bin/env python3
"""How the cost of a command grows with its input: with one, two and four times of something.

Usage: growth.py [--write ROOT] COVSPLIT

Instructions are those of covsplit alone, counted by valgrind; processor seconds are the median of three runs, and
have those of LLVM's tools, too, if the command runs them. *Growth* is what the second doubling adds, by twice of what
the first one adds: 1.00 where a cost is linear, however much of it is there without any input, and 2.00 where it is
quadratic. The inputs are images of generated functions, by clang 19 with -O1 and lld. It takes some minutes, and
needs the package valgrind.
"""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import shown
from large import LLVM, best_of, number, table

TIMES = (1, 2, 4)
FUNCTIONS, BRANCHES, IMAGES, PROFILES = 2000, 4, 6, 100
COMPILE = [f"{LLVM}/clang", "-O1", "-w", "-fprofile-instr-generate", "-fcoverage-mapping", "-fuse-ld=lld",
           "-Wl,--build-id=sha1"]


def functions(prefix, count, branches):
    """Functions that differ in their numbers of branches and in where these are."""
    lines = ["extern volatile int total;"]
    for at in range(count):
        lines.append(f"int {prefix}_{at}(int value)\n{{")
        for branch in range(branches + at % branches):
            lines.append(" " * (at * 7 % 5) + f"if (value > {at + branch}" + " && value % 3" * (branch % 2)
                         + f") total += {branch};")
        lines.append("return value;\n}")
    return "\n".join(lines) + "\n"


class Growth:
    def __init__(self, covsplit, place):
        self.covsplit, self.place = covsplit, place
        (place / "main.c").write_text("volatile int total; int main(void) { return total; }")

    def run(self, *words, **options):
        return subprocess.run([str(word) for word in words], check=True, cwd=self.place,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)

    def image(self, name, *parts):
        """An image of the parts of a source: their prefixes, and numbers of functions and of branches."""
        for prefix, count, branches in parts:
            source = self.place / f"{prefix}.c"
            if not source.exists():
                source.write_text(functions(prefix, count, branches))
                self.run(*COMPILE, "-c", source)
        self.run(*COMPILE, "main.c", *(f"{prefix}.o" for prefix, _, _ in parts), "-o", name)
        return self.place / name

    def row(self, label, sizes, words, before=lambda size: None):
        """Of the command with these words, which are made for each size; `before` is called before each run."""
        seconds, counts = [], []
        for size in sizes:
            command = [self.covsplit, *words(size)]
            runs = []
            for _ in range(3):
                before(size)
                runs.append(best_of(None, self.place, command)[1])
            before(size)
            seconds.append(statistics.median(runs))
            told = self.run("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
                            *command).stderr
            counts.append(int(re.search(r"I +refs: +([\d,]+)", told).group(1).replace(",", "")))
        growth = (counts[2] - counts[1]) / (2 * (counts[1] - counts[0]))
        return [label, ", ".join(map(number, sizes)), *(f"{each:.2f}" for each in seconds),
                *(f"{each / 1e6:,.0f}" for each in counts), f"{growth:.2f}"]

    # ---- what grows ----

    def splits(self):
        rows = []
        for label, sizes, parts in (
                ("functions", [FUNCTIONS * times for times in TIMES], lambda size: (size, BRANCHES)),
                ("branches of each of 500 functions", [BRANCHES * times for times in TIMES],
                 lambda size: (500, size))):
            images = {size: self.image(f"image-{size}", (f"f{size}", *parts(size))) for size in sizes}
            for options in ([], ["--fast"]):
                rows.append(self.row(
                    f"`{' '.join(['split', *options])}`: {label}", sizes,
                    lambda size, options=options: ["split", "-j", "1", *options, "-o", "split", "--sidecar",
                                                   "sidecar", images[size]]))
        return rows

    def make_stores(self, counts):
        """Stores of images that have half of their functions in common, and their profiles. All images have one
        name, as tests in many directories do: so they are compared with each other, too."""
        images = []
        for at in range(counts[-1]):
            (self.place / str(at)).mkdir()
            images.append(self.image(f"{at}/test", ("common", 200, BRANCHES), (f"own{at}", 200, BRANCHES)))
        for count in counts:
            for at in range(count):
                self.run(self.covsplit, "split", "-o", f"{at}/stripped", "--store", f"store-{count}", images[at])
            for at in range(count):
                profile = self.place / f"raw-{count}/{at}.profraw"
                self.run(self.place / f"{at}/stripped", env={**os.environ, "LLVM_PROFILE_FILE": str(profile)})

    def many(self):
        counts = [IMAGES * times for times in TIMES]
        tools = ["--llvm-profdata", f"{LLVM}/llvm-profdata"]
        self.make_stores(counts)

        def copy(count):
            shutil.rmtree(self.place / "deltas", ignore_errors=True)
            shutil.copytree(self.place / f"store-{count}", self.place / "deltas")

        def merge(count):
            raw = self.place / f"profiles-{count}"
            raw.mkdir()
            for at in range(count):
                shutil.copy(self.place / f"raw-{IMAGES}/0.profraw", raw / f"{at}.profraw")
            return ["merge", "-j", "1", *tools, "--store", f"store-{IMAGES}", "-o", "merged.profdata", raw]
        return [
            self.row("`report`: images of one name", counts, lambda count: [
                "report", "-j", "1", *tools, "--llvm-cov", f"{LLVM}/llvm-cov", "--store", f"store-{count}",
                f"raw-{count}"]),
            self.row("`store check`: sidecars", counts,
                     lambda count: ["store", "check", "-j", "1", f"store-{count}"]),
            self.row("`store delta`: sidecars", counts,
                     lambda count: ["store", "delta", "deltas"], before=copy),
            self.row("`merge`: profiles of an image", [PROFILES * times for times in TIMES], merge)]


def main():
    words = sys.argv[1:]
    root = pathlib.Path(words[1]) if words[0] == "--write" else None
    with tempfile.TemporaryDirectory(prefix="covsplit-growth-") as place:
        growth = Growth(pathlib.Path(words[-1]).resolve(), pathlib.Path(place))
        rows = growth.splits() + growth.many()
    text = table(["", "sizes", "processor seconds", "", "", "million instructions", "", "", "growth"], rows)
    print(text, end="")
    if root:
        page = root / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), "growth", "growth.py")
        page.write_text(before + text + after)


if __name__ == "__main__":
    main()
