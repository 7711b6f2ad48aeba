#!/usr/bin/env python3
"""Every pair of a profile and a set of sidecars gives the truth or an error.

    pairs.py COVSPLIT DIRECTORY CLANG PART PARTS

Ten small programs are built twice (A and B) under one UUID, where B has either the same functions,
some lines lower, or one function more. Both are split in every way. The profiles of the unsplit and
of the split images are given to each command together with the sidecars of A, of B, of both, and of
the other ways to split the same build; what a command makes with status 0 must be what llvm-cov and
llvm-profdata say of the unsplit image of the build that wrote the profile.

A full profile of a build with the same functions can be the same file, byte for byte, as that of the
other build: nothing can tell whose it is then, and what is true of either is the truth. These are
counted apart. If sidecars of both builds are there, even these must be an error.

The programs, ways and sets are combined here and nowhere listed; PART, from 0 on, is one of PARTS of
the combinations. Prints the numbers of truths and errors, and fails if there is anything else.
"""
import itertools
import os
import re
import shutil
import subprocess
import sys

COVSPLIT, SCRATCH, CLANG = sys.argv[1:4]
PART, PARTS = int(sys.argv[4]), int(sys.argv[5])

# To build costs most: a small part has few of the builds, and of each some of the pairs.
BUILD_PARTS = min(PARTS, 7)
PAIR_PARTS = max(1, PARTS // BUILD_PARTS)

ID = "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"
# At fixed addresses, which are in profiles: those of two builds can be the same then.
INSTRUMENTED = ["-fprofile-instr-generate", "-fcoverage-mapping", "-no-pie"]
VALUES = ["-mllvm", "-enable-value-profiling=true"]

# name: (language, source of the functions, main's expression, options)
PROGRAMS = {
    "loop": ("c", "static int sum(int n)\n{\n  int s = 0;\n  for (int i = 0; i < n; i++)\n"
             "    s += i;\n  return s;\n}", "sum(9)", []),
    "one": ("c", "", "1", []),
    "branch": ("c", "int sign(int n)\n{\n  if (n > 0)\n    return 1;\n  return n < 0 ? -1 : 0;\n}",
               "sign(c)", ["-O1"]),
    "switch": ("c", "int kind(int n)\n{\n  switch (n) {\n  case 1: return 4;\n  case 2: return 5;\n"
               "  default: return 6;\n  }\n}", "kind(c)", []),
    "macro": ("c", "#define TWICE(x) ((x) ? (x) * 2 : 0)\nint twice(int n)\n{\n  return TWICE(n);\n}",
              "twice(c)", []),
    "pointer": ("c", "static int a(int n) { return n + 1; }\nstatic int b(int n)\n{\n  return n - 1;\n}\n"
                "int (*volatile f[])(int) = {a, b};", "f[c & 1](3)", VALUES),
    "template": ("cc", "template <class T> T more(T a, T b)\n{\n  return a > b ? a : b;\n}",
                 "more(c, 2) + (int)more(1.5, 2.5)", []),
    "method": ("cc", "struct P {\n  int n;\n  P(int m) : n(m) {}\n  int get() const { return n > 1 ? n : 1; }\n"
               "  virtual int own() { return n; }\n};", "P(c).get() + P(2).own()", ["-O1"]),
    "throw": ("cc", "static int risky(int n)\n{\n  try {\n    if (n) throw n;\n  } catch (int m) {\n"
              "    return m;\n  }\n  return 0;\n}", "risky(c)", []),
    "lambda": ("cc", "static auto add = [](int a) {\n  return a ? a + 1 : 0;\n};", "add(c)", []),
}

# name: how an image is split; packed: its objects are packed first
WAYS = {
    "all": [],
    "fast": ["--fast"],
    "portable": ["--portable"],
    "mapping": ["--sections", "covmap,covfun"],
    "names": ["--sections", "names"],
    "names-mapping": ["--sections", "names,covmap,covfun"],
    "names-data": ["--sections", "names,data"],
    "packed": [],
    "packed-mapping": ["--sections", "covmap,covfun"],
}
WAY_NAMES = list(WAYS)
IDENTITIES = {"hand": [ID], "option": ["-Wl,--build-id=none"], "own": ["-Wl,--build-id=sha1"]}
OPTION_UUID = ["--uuid", "00112233445566778899aabbccddeeff"]


def tool(name):
    return "%s-%s" % (name, CLANG)


def run(words, directory, environment=None):
    return subprocess.run(words, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=dict(os.environ, **(environment or {})), timeout=120)


def require(words, directory, environment=None):
    done = run(words, directory, environment)
    if done.returncode != 0:
        raise SystemExit("%s in %s: %s" % (words, directory, done.stderr.decode()))
    return done.stdout


def source(program, build, same):
    language, functions, value, _ = PROGRAMS[program]
    more = ""
    if build == "B" and not same:
        more = "int extra(int n)\n{\n  return n > 3 ? n : 3;\n}\n"
    lines = "\n\n" if build == "B" else ""
    outer = " + extra(c)" if more else ""
    return "%s%s\n%sint main(int c, char **v)\n{\n  return (%s%s) * 0 + (v == 0);\n}\n" % (
        lines, functions, more, value, outer), language


def table(text):
    """The files' rows of llvm-cov's table, without their directories."""
    return sorted(re.sub(r"\S*/", "", line) for line in text.decode().splitlines()
                  if re.match(r"\S*app\.cc?\s", line) or line.startswith("TOTAL"))


def lines_of(text):
    """lcov's lines, functions and branches, without the names of files."""
    return [line for line in text.decode().splitlines() if not line.startswith("SF:")]


def counts(profdata, directory):
    return require([tool("llvm-profdata"), "show", "--all-functions", "--counts", profdata],
                   directory)


class Build:
    """One build in a directory of its own: what it is, and what is true of it."""

    def __init__(self, directory, program, name, same, identity):
        self.directory = os.path.join(directory, name)
        self.name = name
        self.sidecars = {}
        self.profiles = {}
        os.makedirs(os.path.join(self.directory, "work"))
        text, language = source(program, name, same)
        # Both have the same paths, which are in the mapping.
        work = os.path.join(directory, "work")
        os.makedirs(work, exist_ok=True)
        file = "app." + language
        with open(os.path.join(work, file), "w") as stream:
            stream.write(text)
        compiler = tool("clang++" if language == "cc" else "clang")
        options = INSTRUMENTED + PROGRAMS[program][3]
        linking = IDENTITIES[identity]
        require([compiler] + options + ["-Wno-unused-command-line-argument", "-c", file, "-o", "app.o"], work)
        require([compiler] + options + linking + ["app.o", "-o", "app"], work)
        shutil.copy(os.path.join(work, "app"), self.directory)
        require([COVSPLIT, "pack", "app.o"], work)
        require([compiler] + options + linking + ["app.o", "-o", "packed"], work)
        shutil.copy(os.path.join(work, "packed"), self.directory)
        self.write("full", "./app")
        require([tool("llvm-profdata"), "merge", "-o", "true.profdata", "full.profraw"],
                self.directory)
        self.counts = counts("true.profdata", self.directory)
        self.lcov = lines_of(require([tool("llvm-cov"), "export", "-format=lcov", "app",
                                      "-instr-profile=true.profdata"], self.directory))
        for way, words in WAYS.items():
            self.split(way, words, identity)

    def write(self, profile, program):
        path = os.path.join(self.directory, profile + ".profraw")
        require([program], self.directory, {"LLVM_PROFILE_FILE": path})
        self.profiles[profile] = path

    def split(self, way, words, identity):
        image = "packed" if way.startswith("packed") else "app"
        uuid = OPTION_UUID if identity == "option" else []
        done = run([COVSPLIT, "split"] + words + uuid + ["-o", way + ".out", "--sidecar",
                   way + ".covsplit", image], self.directory)
        if done.returncode != 0:
            raise SystemExit("split %s: %s" % (way, done.stderr.decode()))
        self.sidecars[way] = os.path.join(self.directory, way + ".covsplit")
        self.write(way, "./" + way + ".out")


def commands(directory, profile):
    """The commands that put profile and sidecars together, and how their result is looked at."""
    def counted(made):
        done = run([tool("llvm-profdata"), "merge", "-o", "made.profdata", made], directory)
        return counts("made.profdata", directory) if done.returncode == 0 else done.stderr

    state = ["merge", "--into", "state"]
    from_state = ["merge", "-o", "result.profdata", "state"]
    yield "correlate", [["correlate", "-o", "result.profraw", profile]], \
        lambda said: counted("result.profraw"), "counts"
    yield "merge", [["merge", "-o", "result.profdata", profile]], \
        lambda said: counts("result.profdata", directory), "counts"
    yield "into", [state + [profile], from_state], \
        lambda said: counts("result.profdata", directory), "counts"
    yield "run", [["run", "--", tool("llvm-profdata"), "merge", "-o", "result.profdata", profile]], \
        lambda said: counts("result.profdata", directory), "counts"
    yield "report", [["report", "--include", "/", "--format", "lcov", profile]], lines_of, "lcov"


def sets(builds, own):
    """Named lists of sidecars: those of one way, for A, B and both, and each with the other ways."""
    for way in WAY_NAMES:
        yield "A-" + way, [builds[0].sidecars[way]]
        yield "B-" + way, [builds[1].sidecars[way]]
        yield "both-" + way, [build.sidecars[way] for build in builds]
        if way != own:
            yield "other-ways-" + way, [builds[0].sidecars[own if own in WAYS else "all"],
                                        builds[0].sidecars[way], builds[1].sidecars[way]]


def places(directory, sidecars):
    """As files, in a directory, and one in a store with the others beside it."""
    named = []
    for sidecar in sidecars:
        named += ["--sidecar", sidecar]
    yield "files", named
    if len(sidecars) == 1:
        return
    for order in (sidecars, sidecars[::-1]):
        store = os.path.join(directory, "store")
        shutil.rmtree(store, ignore_errors=True)
        os.mkdir(store)
        # One without a UUID in its image cannot be in a store, and lies beside it then.
        added = run([COVSPLIT, "store", "add", store, order[0]], directory)
        for index, sidecar in enumerate(order[added.returncode == 0:]):
            shutil.copy(sidecar, os.path.join(store, "%d.covsplit" % index))
        yield "store", ["--sidecar", store]


class Counter:
    def __init__(self):
        self.truths = self.errors = self.either = 0
        self.wrong = []

    def judge(self, label, outcomes, look, kind, builds, writer, profile):
        if any(done.returncode not in (0, 1) for done in outcomes):
            self.wrong.append(label + ": status %d" % outcomes[-1].returncode)
            return
        if any(done.returncode == 1 for done in outcomes):
            self.errors += 1
            return
        found = look(outcomes[-1].stdout)
        if found == getattr(writer, kind):
            self.truths += 1
            return
        other = builds[1] if writer is builds[0] else builds[0]
        same = open(writer.profiles[profile], "rb").read() == \
            open(other.profiles[profile], "rb").read()
        if same and found == getattr(other, kind) and "both" not in label:
            self.either += 1
        else:
            self.wrong.append(label + ": %r" % (found if kind == "lcov" else found[-300:]))


def main():
    counter = Counter()
    number = 0
    for program, same, identity in itertools.product(PROGRAMS, (True, False), IDENTITIES):
        number += 1
        if number % BUILD_PARTS != PART % BUILD_PARTS:
            continue
        directory = os.path.join(SCRATCH, "%s-%s-%s" % (program, same, identity))
        builds = None
        for index, (way, who) in enumerate(itertools.product(["full"] + WAY_NAMES, (0, 1))):
            for position, (name, sidecars_of) in enumerate(
                    (set_name, set_name) for set_name in range(4 * len(WAY_NAMES) - (way in WAYS))):
                pair = index * 4 * len(WAY_NAMES) + position
                if (number * 7919 + pair) % PAIR_PARTS != PART // BUILD_PARTS:
                    continue
                if builds is None:
                    builds = [Build(directory, program, letter, same, identity)
                              for letter in ("A", "B")]
                chosen, sidecars = list(sets(builds, way))[position]
                take(counter, directory, builds, builds[who], way, chosen, sidecars,
                     "%s %s %s" % (program, "same" if same else "different", identity))
        shutil.rmtree(directory, ignore_errors=True)
    print("%d pairs: %d truths, %d errors, %d of profiles that both builds write, %d silent wrongs" %
          (counter.truths + counter.errors + counter.either + len(counter.wrong), counter.truths,
           counter.errors, counter.either, len(counter.wrong)))
    for wrong in counter.wrong[:40]:
        print("WRONG", wrong)
    return 1 if counter.wrong or counter.truths == 0 or counter.errors == 0 else 0


def take(counter, directory, builds, writer, way, chosen, sidecars, about):
    work = os.path.join(directory, "work")
    for place, options in places(directory, sidecars):
        for command, steps, look, kind in commands(work, writer.profiles[way]):
            for made in ("result.profraw", "result.profdata", "made.profdata"):
                if os.path.exists(os.path.join(work, made)):
                    os.unlink(os.path.join(work, made))
            shutil.rmtree(os.path.join(work, "state"), ignore_errors=True)
            outcomes = []
            for step in steps:
                words = [COVSPLIT, step[0]] + options + step[1:]
                outcomes.append(run(words, work, {
                    "COVSPLIT_STORE": "", "LLVM_PROFDATA": tool("llvm-profdata"),
                    "LLVM_COV": tool("llvm-cov")}))
                if outcomes[-1].returncode != 0:
                    break
            counter.judge("%s: %s %s by %s of %s in %s" %
                          (about, command, way, chosen, writer.name, place), outcomes, look, kind,
                          builds, writer, way)


if __name__ == "__main__":
    sys.exit(main())
