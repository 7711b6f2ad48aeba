#!/usr/bin/env python3
"""What packed objects save, and what packing costs: real programs, with ordinary objects and packed ones.

Usage: compile.py [--cache DIRECTORY] [--write] COVSPLIT [sqlite | leveldb | re2 | rocksdb]...

The programs (all four, if none is named) are compiled by clang 19 with -O1 into DIRECTORY, by default
build/large, unless they are there: RocksDB by large.sh, in 15 minutes of processor time. Their objects
are copied twice, and one of the copies is packed. Both are then linked, as a shared library, and split.

Costs are the best of three runs: seconds of processor time, and the memory of the largest process, which
is the compiler that calls the linker if that takes less. Ordinary and packed take turns. That the
sidecars have the same mapping is checked.
Compiling is measured with some of the sources, each three times with and without `covsplit compile`.

With --write, the tables of docs/benchmarks.md are written.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import shown
from large import best_of, number, table

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLANG, LLVM = "clang++-19", "/usr/lib/llvm-19/bin"
COVERAGE = "-O1 -fprofile-instr-generate -fcoverage-mapping"
LINKERS = {"lld": [], "bfd": [], "mold": ["-Wl,--no-fork"]}  # costs are those of a process and its children
FORMS = ("ordinary", "packed")
RUNS = 3
SOURCES_MAX = 3   # that are compiled for the measurement


# ---- the programs ----

def write_ninja(place, options, sources):
    """Rules that compile the sources into objects named after them."""
    lines = ["rule compile", f"  command = {options} -w -fPIC {COVERAGE} -c $in -o $out"]
    lines += [f"build {source.parent.name}-{source.stem}.o: compile {source}" for source in sources]
    place.mkdir(parents=True, exist_ok=True)
    (place / "build.ninja").write_text("\n".join(lines) + "\n")


def prepare_sqlite(cache, place):
    source = cache / "better-sqlite3/deps/sqlite3/sqlite3.c"
    write_ninja(place, "clang-19", [source])


def prepare_leveldb(cache, place):
    base = cache / "leveldown/deps/leveldb/leveldb-1.20"
    others = ("_test", "_bench", "leveldbutil", "testharness", "testutil")
    sources = [source for part in ("db", "port", "table", "util")
               for source in sorted((base / part).glob("*.cc"))
               if not any(other in source.stem for other in others)]
    write_ninja(place, f"{CLANG} -std=c++11 -pthread -DOS_LINUX -DLEVELDB_PLATFORM_POSIX "
                       f"-I{base} -I{base}/include", sources)


def prepare_re2(cache, place):
    subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT / "tests/fixtures/re2", "-B", place,
                    f"-DVENDOR={cache}/re2/vendor", f"-DCMAKE_CXX_COMPILER={CLANG}",
                    "-DCMAKE_BUILD_TYPE="], check=True, stdout=subprocess.DEVNULL)


PROGRAMS = {
    "sqlite": ("SQLite", "better-sqlite3", prepare_sqlite),
    "leveldb": ("LevelDB", "leveldown", prepare_leveldb),
    "re2": ("RE2 and Abseil", "re2", prepare_re2),
    "rocksdb": ("RocksDB", "rocksdb", None),
}


def build(cache, name):
    """Compiles the program; gives the directory, and of each object the command and the path in it."""
    _, package, prepare = PROGRAMS[name]
    place = cache / (f"compile-{name}" if prepare else f"{name}-plain")
    if prepare:
        subprocess.run([ROOT / "tests/fetch.sh", cache, package], check=True)
        prepare(cache, place)
        subprocess.run(["ninja", "-C", place], check=True, stdout=subprocess.DEVNULL)
    elif not (place / f"lib{name}.so").exists():
        subprocess.run([ROOT / "tests/bench/large.sh", "--cache", cache, "--build-only", name],
                       check=True)
    steps = json.loads(subprocess.check_output(["ninja", "-C", place, "-t", "compdb"]))
    return place, {step["output"]: step["command"] for step in steps
                   if step["output"].endswith(".o") and "program.dir" not in step["output"]}


# ---- what is measured ----

def percent(after, before):
    return f"{100 * after / before:.0f}%"


class Program:
    def __init__(self, cache, covsplit, name):
        self.label, self.covsplit = PROGRAMS[name][0], covsplit
        self.place, self.commands = build(cache, name)
        self.work = cache / f"compile-work-{name}"
        shutil.rmtree(self.work, ignore_errors=True)
        for form in FORMS:
            (self.work / form).mkdir(parents=True)
            for index, output in enumerate(self.commands):
                shutil.copy(self.place / output, self.work / form / f"{index}.o")
            self.run("sh", "-c", f"ls -v {form}/*.o >{form}.rsp && ar qcs {form}.a @{form}.rsp")
        self.run(covsplit, "pack", "packed.a")
        self.run("sh", "-c", '"$0" pack $(cat packed.rsp)', covsplit)

    def run(self, *command):
        subprocess.run([str(word) for word in command], check=True, cwd=self.work,
                       stdout=subprocess.DEVNULL)

    def size(self, name):
        path = self.work / name
        files = path.iterdir() if path.is_dir() else [path]
        return sum(file.stat().st_size for file in files)

    def compare(self, action):
        """The costs of both forms, which take turns."""
        best = {form: None for form in FORMS}
        for _ in range(RUNS):
            for form in FORMS:
                best[form] = best_of(best[form], self.work, action(form))
        return best

    def link_command(self, form, linker, output):
        return [CLANG, "-shared", *COVERAGE.split(), f"-fuse-ld={linker}", *LINKERS[linker],
                "-pthread", "-Wl,--build-id=sha1", f"@{form}.rsp", "-o", output]

    def split_command(self, form):
        for name in (f"{form}.stripped", f"{form}.covsplit"):
            (self.work / name).unlink(missing_ok=True)
        return [self.covsplit, "split", "-o", f"{form}.stripped", "--sidecar", f"{form}.covsplit",
                f"{form}.so"]

    def mapping(self, form):
        """The sections with mapping that the sidecar gives to readers."""
        self.run(self.covsplit, "export", "--sidecar", f"{form}.covsplit", "-o", "object")
        contents = []
        for section in ("__llvm_covmap", "__llvm_covfun"):
            self.run(f"{LLVM}/llvm-objcopy", f"--dump-section={section}=section", "object",
                     "/dev/null")
            contents.append((self.work / "section").read_bytes())
        return contents

    def cost_rows(self):
        rows = []
        for linker in LINKERS:
            action = lambda form: self.link_command(form, linker, f"{form}.{linker}")
            rows.append((f"{self.label}: link by {linker}", self.compare(action)))
        for form in FORMS:
            shutil.copy(self.work / f"{form}.lld", self.work / f"{form}.so")
        rows.append((f"{self.label}: `covsplit split`", self.compare(self.split_command)))
        if self.mapping("ordinary") != self.mapping("packed"):
            raise SystemExit(f"{self.label}: the sidecars have different mapping")
        return [self.cost_row(label, best["ordinary"], best["packed"]) for label, best in rows] + [
            self.pack_row()]

    def pack_row(self):
        """The cost of packing all objects, without that of the compiler."""
        best = None
        for _ in range(RUNS):
            shutil.copytree(self.work / "ordinary", self.work / "timed", dirs_exist_ok=True)
            objects = sorted((self.work / "timed").iterdir())
            best = best_of(best, self.work, [self.covsplit, "pack", "-j1", *objects])
        return [f"{self.label}: `covsplit pack` of all objects", "", f"{best[1]:.2f}", "",
                f"{best[2]:.0f}"]

    def cost_row(self, label, ordinary, packed):
        cells = [label]
        for before, after, form in list(zip(ordinary, packed, ("", "{:.2f}", "{:.0f}")))[1:]:
            cells += [form.format(before), form.format(after)]
        return cells

    def size_row(self):
        cells = [self.label]
        for before, after in ((f"{FORMS[0]}", f"{FORMS[1]}"), ("ordinary.a", "packed.a"),
                              ("ordinary.lld", "packed.lld"),
                              ("ordinary.covsplit", "packed.covsplit")):
            sizes = self.size(before), self.size(after)
            cells += [number(sizes[0]), f"{number(sizes[1])} ({percent(sizes[1], sizes[0])})"]
        return cells

    def compile_row(self):
        outputs = list(self.commands)[::max(1, len(self.commands) // SOURCES_MAX)][:SOURCES_MAX]
        totals = [0, 0]
        for output in outputs:
            words = shlex.split(self.commands[output])
            words[words.index("-o") + 1] = str(self.work / "timed.o")
            best = [None, None]
            for _ in range(RUNS):
                for i, launcher in enumerate(([], [self.covsplit, "compile", "--"])):
                    best[i] = best_of(best[i], self.place, [*launcher, *words])
            totals = [total + cost[1] for total, cost in zip(totals, best)]
        return [self.label, str(len(outputs)), f"{totals[0]:.2f}", f"{totals[1]:.2f}",
                f"{100 * (totals[1] / totals[0] - 1):.1f}%"]


def main():
    arguments = sys.argv[1:]
    cache, writes = ROOT / "build/large", False
    while arguments and arguments[0].startswith("--"):
        option = arguments.pop(0)
        if option == "--write":
            writes = True
        elif option == "--cache" and arguments:
            cache = pathlib.Path(arguments.pop(0)).resolve()
        else:
            arguments = []
    names = arguments[1:] or list(PROGRAMS)
    if not arguments or not set(names) <= set(PROGRAMS):
        raise SystemExit(__doc__.split("\n\n")[1])
    covsplit = pathlib.Path(arguments[0]).resolve()
    os.environ["LC_ALL"] = "C"
    programs = [Program(cache, covsplit, name) for name in names]
    costs = [row for program in programs for row in program.cost_rows()]
    sizes = [program.size_row() for program in programs]
    compiled = [program.compile_row() for program in programs]
    tables = (
        table(["bytes", "objects", "packed", "archive", "packed", "image", "of packed", "sidecar",
               "of packed"], sizes),
        table(["", "processor seconds", "packed", "memory, MB", "packed"], costs),
        table(["processor seconds", "sources", "the compiler", "`covsplit compile`", "more"],
              compiled))
    print("\n".join(tables), end="")
    if writes:
        page = ROOT / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), "compile", script="compile.py")
        # Not those of compiling: the differences are within those from run to run.
        page.write_text(before + "\n".join(tables[:2]) + after)


if __name__ == "__main__":
    main()
