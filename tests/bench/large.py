#!/usr/bin/env python3
"""What covsplit and others make of a large library, and what that costs.

Usage: large.py [--write ROOT] CACHE PROGRAM      run by large.sh, which has built what is in CACHE

Sizes are of what each way ships, of the profile of one run, and of what has to be kept for reports.
Costs are the best of three runs: seconds on the clock, seconds of processor time, and the memory of
the largest process. That what is compared is equal is checked first: the reports of one profile, from
the unsplit image, from the split one under `covsplit run` and from its object, must not differ.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import shown

PROFILES = 100
LLVM = "/usr/lib/llvm-19/bin"
# What LLVM's documentation of binary correlation takes out, and what of an image built without it.
CORRELATED = ["__llvm_covmap", "__llvm_covfun", "__llvm_covdata", "__llvm_covnames"]
MAPPING = ["__llvm_covmap", "__llvm_covfun"]
ALL = MAPPING + ["__llvm_prf_names", "__llvm_prf_data"]


def number(value):
    return f"{value:,}"


def size_cell(path):
    return number(path.stat().st_size)


def table(head, rows):
    """A table of Markdown: the first column of text, the others of numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def best_of(best, directory, command):
    """Runs the command; the best of its costs and of those before, if not None: seconds, processor
    seconds, memory in MB."""
    start = time.monotonic()
    child = subprocess.Popen([str(word) for word in command], cwd=directory,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    seen = (time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000)
    return tuple(map(min, best, seen)) if best else seen


class Bench:
    def __init__(self, cache, program):
        self.cache, self.program = cache, program
        self.file_name = f"lib{program}.so"
        self.work = cache / f"{program}-work"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.covsplit = cache / "covsplit/split/covsplit"
        self.original = self.image("plain")

    def image(self, kind):
        return self.cache / f"{self.program}-{kind}" / self.file_name

    def place(self, name):
        (self.work / name).mkdir(exist_ok=True)
        return self.work / name

    def run(self, *command):
        subprocess.run([str(word) for word in command], check=True, cwd=self.work,
                       stdout=subprocess.DEVNULL)

    def output(self, *command):
        return subprocess.run([str(word) for word in command], check=True, cwd=self.work,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

    def drive(self, image, directory, variation):
        """Runs the driver with this library; gives the profile that it wrote, if it did."""
        profile = self.place(directory) / f"{variation}.profraw"
        profile.unlink(missing_ok=True)
        shutil.rmtree(self.work / "database", ignore_errors=True)
        database = self.place("database") / "data"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(image.parent),
                       "LLVM_PROFILE_FILE": str(profile)}
        done = subprocess.run([self.cache / f"{self.program}-driver", database, str(variation)],
                              env=environment, stdout=subprocess.DEVNULL, check=False)
        return profile if done.returncode == 0 and profile.exists() else None

    def cost(self, *command, before=None):
        """The cells of a row: the best of three."""
        best = None
        for _ in range(3):
            if before:
                before()
            best = best_of(best, self.work, command)
        return [f"{best[0]:.2f}", f"{best[1]:.2f}", f"{best[2]:.0f}"]

    # ---- what is compared ----

    def without(self, kind, name, sections):
        image = self.place(name) / self.file_name
        self.run(f"{LLVM}/llvm-objcopy", *[f"--remove-section={each}" for each in sections],
                 self.image(kind), image)
        return image

    def split(self, name, *options):
        place = self.place(name)
        self.run(self.covsplit, "split", *options, "-o", place / self.file_name, "--sidecar",
                 place / "sidecar", self.original)
        return place / self.file_name, place / "sidecar"

    def symbols_gone(self, image):
        """The size without symbols, which all ways but one leave to strip."""
        stripped = self.work / "stripped"
        self.run("strip", "--strip-all", "-o", stripped, image)
        return stripped.stat().st_size

    def compressed(self, path):
        packed = self.work / "packed"
        self.run("zstd", "-q", "-f", "-19", "--long=27", path, "-o", packed)
        return packed.stat().st_size

    def size_row(self, label, image, kept):
        profile = self.drive(image, "one", 1)
        return [label, size_cell(image), number(self.symbols_gone(image)),
                size_cell(profile) if profile else "none", kept]

    def sizes(self):
        original = number(self.original.stat().st_size)
        self.stripped, self.sidecar = self.split("split")
        rows = [self.size_row("as it is built", self.original, original),
                self.size_row("`covsplit split`", self.stripped, size_cell(self.sidecar))]
        fast_image, fast_sidecar = self.split("fast", "--fast")
        rows.append(self.size_row("`covsplit split --fast`", fast_image, size_cell(fast_sidecar)))
        binary = self.image("binary")
        if binary.exists():
            self.correlated = self.without("binary", "correlated", CORRELATED)
            rows.append(self.size_row(
                "`-profile-correlate=binary`, then `llvm-objcopy -R`", self.correlated,
                f"{size_cell(binary)} (by `zstd -19`: "
                f"{number(self.compressed(binary))})"))
        debug = self.image("debug-info")
        if debug.exists():
            shipped = self.place("debug-stripped") / self.file_name
            self.run(f"{LLVM}/llvm-objcopy", "--strip-debug", debug, shipped)
            rows.append(self.size_row("`-profile-correlate=debug-info`, then `strip -g`", shipped,
                                      size_cell(debug)))
        mapping = self.without("plain", "no-mapping", MAPPING)
        rows.append(self.size_row("`objcopy -R` of the mapping", mapping, original))
        broken = self.without("plain", "broken", ALL)
        label = "`objcopy -R` of mapping, names and data"
        row = self.size_row(label, broken, "—")
        if row[3] != "none" and not self.is_readable(self.work / "one/1.profraw"):
            row[3] = "not readable"
        return rows + [row]

    def is_readable(self, profile):
        done = subprocess.run([f"{LLVM}/llvm-profdata", "merge", "-o", "/dev/null", profile],
                              stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def make_profiles(self):
        kinds = [("full", self.original), ("light", self.stripped)]
        if self.image("binary").exists():
            kinds.append(("correlated-light", self.correlated))
        for directory, image in kinds:
            for variation in range(PROFILES):
                if not self.drive(image, directory, variation):
                    raise SystemExit(f"no profile from {image}")

    def check_reports(self):
        self.run(self.covsplit, "merge", "--sidecar", self.sidecar, "--llvm-profdata",
                 f"{LLVM}/llvm-profdata", "-o", "light.profdata", "light")
        self.run(self.covsplit, "export", "--sidecar", self.sidecar, "-o", "object")
        report = [f"{LLVM}/llvm-cov", "report", "-instr-profile=light.profdata"]
        wanted = self.output(*report, self.original)
        if not re.search(r"TOTAL +\d{4}", wanted):
            raise SystemExit("the report is empty")
        if self.output(*report, "object") != wanted:
            raise SystemExit("the report from the object differs")
        run = [self.covsplit, "run", "--sidecar", self.sidecar, "--"]
        if self.output(*run, *report, self.stripped) != wanted:
            raise SystemExit("the report under covsplit run differs")

    def costs(self):
        split = [self.covsplit, "split", "-o", "timed", "--sidecar", "timed.covsplit"]
        again = lambda: [path.unlink() for path in self.work.glob("timed*")]
        rows = [["the link, by lld", *self.cost(
            "sh", "-c", f"cd {self.original.parent} && sh ./link.sh {self.work}/timed")]]
        for label, options in (("", []), (" --fast", ["--fast"])):
            rows.append([f"`covsplit split{label}`",
                         *self.cost(*split, *options, self.original, before=again)])
        fast = self.work / "fast/sidecar"
        rows.append(["`covsplit repack`, after `--fast`", *self.cost(
            self.covsplit, "repack", "timed.covsplit",
            before=lambda: shutil.copy(fast, self.work / "timed.covsplit"))])
        rows.append(["`covsplit join`", *self.cost(
            self.covsplit, "join", "--sidecar", self.sidecar, "-o", "timed", self.stripped,
            before=again)])

        profdata = f"{LLVM}/llvm-profdata"
        rows.append([f"merge of {PROFILES} profiles: `covsplit merge`", *self.cost(
            self.covsplit, "merge", "--sidecar", self.sidecar, "--llvm-profdata", profdata, "-o",
            "timed.profdata", "light")])
        full = sorted((self.work / "full").iterdir())
        rows.append(["`llvm-profdata merge`, full profiles", *self.cost(
            profdata, "merge", "-o", "timed.profdata", *full)])
        if self.image("binary").exists():
            rows.append(["`llvm-profdata merge --binary-file`", *self.cost(
                profdata, "merge", f"--binary-file={self.image('binary')}", "-o", "timed.profdata",
                *sorted((self.work / "correlated-light").iterdir()))])

        report = [f"{LLVM}/llvm-cov", "report", "-instr-profile=light.profdata"]
        rows.append(["report: `llvm-cov`, unsplit image", *self.cost(*report, self.original)])
        rows.append(["`llvm-cov`, object from `covsplit export`", *self.cost(*report, "object")])
        rows.append(["`covsplit run -- llvm-cov`, split image", *self.cost(
            self.covsplit, "run", "--sidecar", self.sidecar, "--", *report, self.stripped)])
        return rows


def main():
    arguments = sys.argv[1:]
    root = None
    if arguments[:1] == ["--write"]:
        root = pathlib.Path(arguments[1])
        del arguments[:2]
    bench = Bench(pathlib.Path(arguments[0]).resolve(), arguments[1])
    sizes = table(["bytes", "image", "without symbols", "profile of a run", "kept for reports"],
                  bench.sizes())
    bench.make_profiles()
    bench.check_reports()
    costs = table(["", "seconds", "processor seconds", "memory, MB"], bench.costs())
    text = sizes + "\n" + costs
    print(text, end="")
    if root:
        page = root / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), arguments[1])
        page.write_text(before + text + after)
        shown.main([root])


if __name__ == "__main__":
    main()
