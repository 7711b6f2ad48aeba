#!/usr/bin/env python3
"""What stores of many builds take, whole and as deltas, and what making deltas and reading them costs.

Usage: builds.py [--write ROOT] FETCHED WORK COVSPLIT PROGRAM:COUNT...      run by builds.sh

The builds are made by programs.py, in WORK. All are split into a store, which is then copied, and deltas are made of that.
Sizes are the bytes of all files, a hard link counted once. Costs are processor seconds, the best of some
runs of both in turns, and the memory of the largest process. That what is compared is equal is checked:
the reports, and the images that `covsplit join` gives.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import programs
import shown
from large import best_of, number, table

RUNS = 5
LABELS = {"sqlite": "SQLite", "leveldb": "LevelDB, `db_bench`", "re2": "RE2 and Abseil, shared library",
          "git": "git and 17 of its commands"}
KINDS = ("whole", "deltas")
DELTA_OPTIONS = {"whole": [], "deltas": ["--delta"]}
TOOLS = pathlib.Path("/usr/lib/llvm-" + programs.CLANG.rpartition("-")[2] + "/bin")


def run_image(image, profile, place):
    """Has an image write a profile; what it does otherwise does not matter."""
    environment = {**os.environ, "LLVM_PROFILE_FILE": str(profile)}
    command = [image, "--version"]
    if image.name == "libre2.so":
        environment["LD_PRELOAD"] = str(image)
        command = ["/bin/true"]
    elif image.name == "program":
        command = [image, "--num=100", f"--db={place}/database"]
    subprocess.run(command, env=environment, cwd=place, check=False, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    if not profile.exists():
        raise SystemExit(f"{image} wrote no profile")


def files_of(store):
    """The size of each file, by its inode: a hard link counts once."""
    states = [path.stat() for path in store.rglob("*") if path.is_file()]
    return {state.st_ino: state.st_size for state in states}


def ratio(after, before):
    return f"{after / before:.2f}"


class Bench:
    def __init__(self, fetched, work, covsplit, name, count):
        self.label, self.name, self.count, self.covsplit = LABELS[name], name, count, covsplit
        self.builds = programs.make(fetched, work, name, count)
        self.work = work / name / "stores"
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.stores = {kind: self.work / kind for kind in KINDS}
        self.last = sorted(self.builds[-1].iterdir())
        self.split_all()

    def run(self, *words):
        done = subprocess.run([str(word) for word in words], check=False, cwd=self.work,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"failed: {' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    def cost(self, *command, best=None, before=None):
        if before:
            before()
        return best_of(best, self.work, command)

    def costs(self, commands, before=None):
        """Of whole and deltas, which take turns: processor seconds, their ratio, and memory in MB."""
        best = {kind: None for kind in KINDS}
        for _ in range(RUNS):
            for kind in KINDS:
                best[kind] = self.cost(*commands[kind], best=best[kind],
                                       before=(lambda kind=kind: before(kind)) if before else None)
        (_, whole, whole_memory), (_, deltas, delta_memory) = (best[kind] for kind in KINDS)
        return [f"{whole:.2f}", f"{deltas:.2f}", ratio(deltas, whole), f"{whole_memory:.0f}",
                f"{delta_memory:.0f}"]

    def split(self, store, image, *options):
        return [self.covsplit, "split", "--store", store, *options, "-o", "stripped", image]

    def split_commands(self, stores, image):
        return {kind: self.split(stores[kind], image, *DELTA_OPTIONS[kind]) for kind in KINDS}

    def split_all(self):
        for images in self.builds:
            for image in sorted(images.iterdir()):
                self.run(*self.split(self.stores["whole"], image))

    # ---- what a store takes ----

    def pack(self):
        """The row of sizes, and of the first and the second call of `store delta`."""
        deltas = self.stores["deltas"]
        command = [self.covsplit, "store", "delta", deltas]
        copy = lambda: (shutil.rmtree(deltas, ignore_errors=True),
                        shutil.copytree(self.stores["whole"], deltas))
        first = self.cost(*command, before=copy)
        second = None
        for _ in range(RUNS):
            second = self.cost(*command, best=second)
        sizes = {kind: sum(files_of(self.stores[kind]).values()) for kind in KINDS}
        sidecars = len(list(self.stores["whole"].rglob("*.covsplit")))
        bases = len(list(deltas.rglob("*.base")))
        return [self.label, number(self.count), number(sidecars), number(bases), number(sizes["whole"]),
                number(sizes["deltas"]), f"1/{sizes['whole'] / sizes['deltas']:.1f}",
                f"{first[1]:.2f}", f"{second[1]:.2f}", f"{first[2]:.0f}"]

    # ---- what it costs beside a store of whole sidecars ----

    def forget(self, store, image):
        """Removes the sidecar of an image."""
        uuid = re.search(r"Build ID: (\w+)", self.run("readelf", "-n", image)).group(1)
        (store / ".build-id" / uuid[:2] / f"{uuid[2:]}.covsplit").unlink(missing_ok=True)

    def split_costs(self):
        """Of the last build, in stores that have the one before."""
        image = self.last[0]
        stores = {kind: self.work / f"next-{kind}" for kind in KINDS}
        for kind in KINDS:
            for before in sorted(self.builds[-2].iterdir()):
                self.run(*self.split(stores[kind], before, *DELTA_OPTIONS[kind]))
        commands = self.split_commands(stores, image)
        again = lambda kind: self.forget(stores[kind], image)
        rows = [[f"{self.label}: split", *self.costs(commands, again)]]
        if len(self.last) > 1:
            rows.append(self.other_split_costs())
        return rows

    def other_split_costs(self):
        """Of a program of which the store has no build, but one of another program of the library."""
        first, other = self.last[0], self.last[-1]
        stores = {kind: self.work / f"other-{kind}" for kind in KINDS}
        for kind, command in self.split_commands(stores, first).items():
            self.run(*command)
        commands = self.split_commands(stores, other)
        again = lambda kind: self.forget(stores[kind], other)
        return [f"{self.label}: split of another command", *self.costs(commands, again)]

    def read_costs(self):
        profiles, split = self.work / "profiles", self.work / "split"
        profiles.mkdir()
        split.mkdir()
        for image in self.last:
            self.run(self.covsplit, "split", "--store", self.stores["whole"], "-o", split / image.name,
                     image)
            run_image(split / image.name, profiles / f"{image.name}.profraw", self.work)
        report = {kind: [self.covsplit, "report", "--store", self.stores[kind], "--llvm-cov",
                         TOOLS / "llvm-cov", "--llvm-profdata", TOOLS / "llvm-profdata", profiles]
                  for kind in KINDS}
        join = {kind: [self.covsplit, "join", "--store", self.stores[kind], "-o", f"joined-{kind}",
                       split / self.last[0].name] for kind in KINDS}
        reports = [self.run(*report[kind]) for kind in KINDS]
        if reports[0] != reports[1] or "TOTAL" not in reports[0]:
            raise SystemExit("the reports differ, or are none")
        rows = [[f"{self.label}: report", *self.costs(report)], [f"{self.label}: join", *self.costs(join)]]
        for kind in KINDS:
            if (self.work / f"joined-{kind}").read_bytes() != self.last[0].read_bytes():
                raise SystemExit("covsplit join does not give the image back")
        return rows


def main():
    words = sys.argv[1:]
    root = None
    if words[:1] == ["--write"]:
        root = pathlib.Path(words[1])
        del words[:2]
    fetched, work, covsplit = (pathlib.Path(word).resolve() for word in words[:3])
    sizes, costs, measured = [], [], set()
    for word in words[3:]:
        name, count = word.split(":")
        bench = Bench(fetched, work, covsplit, name, int(count))
        sizes.append(bench.pack())
        if name not in measured:  # costs do not depend on the number of builds
            costs += bench.split_costs() + bench.read_costs()
        measured.add(name)
        shutil.rmtree(bench.work)
    text = table(["bytes", "builds", "sidecars", "bases", "whole", "deltas", "part", "`store delta`, s",
                  "again, s", "memory, MB"], sizes)
    text += "\n" + table(["processor seconds", "whole", "deltas", "ratio", "memory, MB", "deltas"], costs)
    print(text, end="")
    if root:
        page = root / "docs/benchmarks.md"
        before, _, after = shown.block(page.read_text(), "builds", "builds.sh")
        page.write_text(before + text + after)


if __name__ == "__main__":
    main()
