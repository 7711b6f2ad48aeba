#!/usr/bin/env python3
"""Makes many builds of a program, of which each differs from the one before in a few lines of one file.

Usage: programs.py FETCHED WORK PROGRAM COUNT        PROGRAM is one of sqlite, leveldb, re2, git and
                                                     postgres

FETCHED is where tests/fetch.sh has put the sources. The images of build N are WORK/PROGRAM/images/N/*;
those that are there are not made again. git is the program itself and 17 of its commands, as programs of
their own, which share a static library with it.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
CLANG = os.environ.get("BENCH_CLANG", "clang-22")
COVERAGE = "-w -O1 -fprofile-instr-generate -fcoverage-mapping"
LINK = "-fprofile-instr-generate -fuse-ld=lld -Wl,--build-id=sha1"
JOBS = os.environ.get("BENCH_JOBS", str(os.cpu_count()))
TRIES = 20  # changes of which none is in an image: the file is not compiled, or the lines are left out

LEVELDB_MAKEFILE = """
CXXFLAGS = {coverage} -std=c++11 -fPIC -pthread -DOS_LINUX -DLEVELDB_PLATFORM_POSIX -I. -Iinclude
sources := $(filter-out %_test.cc %_bench.cc %/leveldbutil.cc %/testharness.cc, \\
    $(wildcard db/*.cc port/*.cc table/*.cc util/*.cc)) db/db_bench.cc
program: $(sources:.cc=.o)
\t{cxx} {link} -pthread -o $@ $^
%.o: %.cc
\t{cxx} $(CXXFLAGS) -c -o $@ $<
"""

GIT_COMMANDS = """apply archive blame branch checkout clone commit config describe fetch fsck grep
    index-pack log pack-objects rebase tag""".split()
NOT_IN_GIT = "CURL EXPAT OPENSSL GETTEXT PERL PYTHON TCLTK".split()
# What git.c has beside its main function is in the source of each command as well.
GIT_MAIN = """\
int cmd_{name}(int argc, const char **argv, const char *prefix);

int cmd_main(int argc, const char **argv)
{{
\treturn cmd_{name}(argc, argv, 0);
}}

void setup_auto_pager(const char *command, int preset)
{{
}}
"""
GIT_MAKEFILE = """
include Makefile
builtins.a: $(BUILTIN_OBJS)
\trm -f $@ && $(AR) crs $@ $^
main-%: main-%.c builtins.a $(GITLIBS)
\t$(CC) $(CFLAGS) -I. $(LDFLAGS) -o $@ main-$*.c builtin/$*.o common-main.o \\
\t    -Wl,--start-group builtins.a $(filter %.a,$(GITLIBS)) -Wl,--end-group $(EXTLIBS)
"""


class Program:
    """A copy of the sources, and what a kind of program says of itself: where they are, which of them
    change, how they are prepared and built."""

    def __init__(self, fetched, tree):
        self.tree = tree
        if not tree.exists():
            partial = tree.with_name("partial-tree")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(fetched / self.SOURCES, partial)
            partial.rename(tree)
        self.prepare()
        self.changing = [path for pattern in self.CHANGING for path in sorted(tree.glob(pattern))
                         if not re.search("test|main|mock|bench|fuzz", path.name)]

    def prepare(self):
        pass

    def run(self, *words):
        subprocess.run([str(word) for word in words], check=True, cwd=self.tree,
                       stdout=subprocess.DEVNULL)


class Sqlite(Program):
    SOURCES, CHANGING = "better-sqlite3/deps/sqlite3", ["sqlite3.c"]

    def build(self):
        self.run(CLANG, *COVERAGE.split(), *LINK.split(), "-DSQLITE_THREADSAFE=0",
                 "-DSQLITE_OMIT_LOAD_EXTENSION", "-I.", "sqlite3.c", FIXTURES / "sqlite_driver.c", "-lm",
                 "-o", "sqlite")
        return [self.tree / "sqlite"]


class Leveldb(Program):
    SOURCES = "leveldown/deps/leveldb/leveldb-1.20"
    CHANGING = ["db/*.cc", "table/*.cc", "util/*.cc"]

    def prepare(self):
        cxx = CLANG.replace("clang", "clang++")
        (self.tree / "covsplit.mk").write_text(
            LEVELDB_MAKEFILE.format(cxx=cxx, coverage=COVERAGE, link=LINK))

    def build(self):
        self.run("make", "-s", "-j", JOBS, "-f", "covsplit.mk")
        return [self.tree / "program"]


class Re2(Program):
    SOURCES, CHANGING = "re2/vendor", ["re2/re2/*.cc", "abseil-cpp/absl/strings/*.cc"]

    def prepare(self):
        self.run("cmake", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=", "-S", FIXTURES / "re2", "-B", "build",
                 f"-DVENDOR={self.tree}", f"-DCMAKE_CXX_COMPILER={CLANG.replace('clang', 'clang++')}")

    def build(self):
        self.run("cmake", "--build", "build", "--target", "re2", "-j", JOBS)
        return [self.tree / "build/libre2.so"]


class Git(Program):
    SOURCES, CHANGING = "git", ["*.c"]

    def prepare(self):
        for command in GIT_COMMANDS:
            source = self.tree / f"main-{command}.c"
            if not source.exists():
                source.write_text(GIT_MAIN.format(name=command.replace("-", "_")))
        (self.tree / "config.mak").write_text(
            f"CC = {CLANG}\nCFLAGS = {COVERAGE}\nLDFLAGS = {LINK}\n"
            + "".join(f"NO_{what} = 1\n" for what in NOT_IN_GIT))
        (self.tree / "covsplit.mk").write_text(GIT_MAKEFILE)

    def build(self):
        names = ["git"] + [f"main-{command}" for command in GIT_COMMANDS]
        self.run("make", "-s", "-j", JOBS, "-f", "covsplit.mk", *names)
        return [self.tree / name for name in names]


class Postgres(Program):
    SOURCES, CHANGING = "postgresql-15", ["src/backend/*/*.c"]

    def prepare(self):
        if not (self.tree / "config.status").exists():
            self.run("./configure", "-q", f"CC={CLANG}", f"CFLAGS={COVERAGE}", f"LDFLAGS={LINK}",
                     "--without-readline", "--without-zlib", "--without-icu")

    def build(self):
        for target in ("submake-generated-headers", "postgres"):
            self.run("make", "-s", "-j", JOBS, "-C", "src/backend", target)
        return [self.tree / "src/backend/postgres"]


PROGRAMS = {"sqlite": Sqlite, "leveldb": Leveldb, "re2": Re2, "git": Git, "postgres": Postgres}


def starts_of_functions(lines):
    """The numbers of the lines that open the body of a function."""
    for number, line in enumerate(lines):
        alone = line == "{" and lines[number - 1].endswith(")")
        if alone or (re.match(r"\w.*\) (const )?\{$", line)
                     and not line.startswith(("namespace", "extern", "struct", "class"))):
            yield number


def change(program, number, attempt):
    """Adds a statement to a function of a file; every third time a function too, at the file's end."""
    turn = number + 1000 * attempt
    path = program.changing[turn * 7 % len(program.changing)]
    lines = path.read_text(errors="surrogateescape").split("\n")
    condition = f"    if (changes == {turn})"
    starts = list(starts_of_functions(lines))
    if not starts or condition in lines:  # changed already, and stopped before it was built
        return
    at = starts[(turn * 31 + 5) % len(starts)]
    lines[at + 1:at + 1] = ["  {", "    static volatile int changes;", condition, "      changes = 0;", "  }"]
    if number % 3 == 0:
        lines += [f"int function_of_change_{turn}(int value)", "{",
                  f"  for (int i = 0; i < {number}; i++)", "    value = value > i ? value / 2 : value + i;",
                  "  return value;", "}", ""]
    path.write_text("\n".join(lines), errors="surrogateescape")


def build(program, images):
    """Builds it, and puts the images there, all at once."""
    partial = images.parent.with_name("partial-images")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for image in program.build():
        shutil.copy(image, partial)
    images.parent.mkdir(exist_ok=True)
    partial.rename(images)


def same(images, others):
    return all(path.read_bytes() == (others / path.name).read_bytes() for path in images.iterdir())


def make(fetched, work, name, count):
    """Makes the builds 1 to COUNT that are not there; gives the directories of their images."""
    directory = pathlib.Path(work).resolve() / name
    directory.mkdir(parents=True, exist_ok=True)
    all_images = [directory / "images" / str(number) for number in range(1, count + 1)]
    missing = [number for number in range(1, count + 1) if not all_images[number - 1].exists()]
    if not missing:
        return all_images
    program = PROGRAMS[name](pathlib.Path(fetched).resolve(), directory / "tree")
    for number in missing:
        images = all_images[number - 1]
        if number == 1:
            build(program, images)
            continue
        for attempt in range(TRIES):
            change(program, number, attempt)
            build(program, images)
            if not same(images, all_images[number - 2]):
                break
            shutil.rmtree(images)
        else:
            raise SystemExit(f"build {number} of {name} does not differ from the one before")
    return all_images


if __name__ == "__main__":
    if len(sys.argv) != 5 or sys.argv[3] not in PROGRAMS:
        sys.exit(__doc__)
    make(*sys.argv[1:4], int(sys.argv[4]))
