#!/usr/bin/env python3
"""Makes git repositories with a change in each, and compares what diff-cover finds in covsplit's Cobertura.

Usage: changes.py COVSPLIT [REPOSITORY...]

Each function below with @repository makes one: a branch `main`, and a branch with a change to it, of which a
program is built and run twice, split and not split. diff-cover over the report of the first must tell the
changed lines that have code, and those that were not executed, as they follow from the hunks of git and from
what llvm-cov says of the unsplit program; wherever diff-cover gets that right over llvm-cov's own lcov, both
are the same. It runs in several directories, with changed settings of git.

What diff-cover 7.4 cannot do, over any report, is asserted too: docs/recipes.md tells how to do without.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

import diff_cover.diff_cover_tool

LIMIT = 80  # percent, for the exit status of diff-cover
CLANGS = (14, 16, 19, 22)
REPOSITORIES = []
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "COVSPLIT_", "LLVM_"))},
    "PATH": "/usr/bin:/bin:" + os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "me@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Failure(Exception):
    pass


def repository(function):
    REPOSITORIES.append(function)
    return function


def run(words, directory, may_fail=False, **environment):
    done = subprocess.run(words, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="surrogateescape",
                          env={**ENVIRONMENT, "PWD": str(directory), **environment})
    if done.returncode != 0 and not may_fail:
        raise Failure(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


# ---- sources ----


def unit(name, limit=5, executed=True):
    """A function that main() calls, of which one line is not executed."""
    low, high = ("a", f"a - {limit}") if executed else (f"a - {limit}", "a")
    return (f"int {name}(int a)\n{{\n    if (a {'>' if executed else '<'} {limit})\n        return {high};\n"
            f"    return {low} + {limit};\n}}\n")


def more(name):
    """One that nothing calls."""
    return f"int {name}_more(int a)\n{{\n    return a;\n}}\n"


def main_of(*names):
    declared = "".join(f"int {name}(int a);\n" for name in names)
    return f"{declared}\nint main(void)\n{{\n    return {' + '.join(f'{name}(3)' for name in names)} > 99;\n}}\n"


# ---- a repository ----


def read_lcov(path):
    """{file: {line: count}}"""
    files = {}
    for line in open(path, encoding="utf-8", errors="surrogateescape"):
        key, _, value = line.rstrip("\n").partition(":")
        if key == "SF":
            name, counts = value, {}
        elif key == "DA":
            counts[int(value.split(",")[0])] = int(value.split(",")[1])
        elif key == "end_of_record":
            files[name] = counts
        elif not key.isupper():  # the rest of a name with a line end in it
            name += "\n" + key
    return files


class Repository:
    def __init__(self, covsplit, scratch, name, clang, top="project"):
        self.covsplit, self.name, self.clang = covsplit, name, clang
        self.out = scratch / name / "out"
        self.top = scratch / name / top
        self.tools = f"/usr/lib/llvm-{clang}/bin"
        self.reports = self.runs = self.lines = self.unable = 0
        self.known = {}  # what git and diff-cover said, until something changes
        self.base = None  # where relative paths of the mapping start
        self.prefix = None  # where absolute ones do, if not at /
        self.out.mkdir(parents=True)
        self.top.mkdir()

    def git(self, *words, directory=None):
        self.known.clear()
        return run(["git", *words], directory or self.top).stdout

    def write(self, files):
        for name, text in files.items():
            path = self.top / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def commit(self, files, message):
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def start(self, files):
        """What is on main; the branch with the change starts there."""
        self.git("init", "-q", "-b", "main")
        self.commit(files, "start")
        self.git("checkout", "-q", "-b", "change")

    def change(self, files):
        self.commit(files, "change")

    def build(self, *sources, directory="", flags=(), pwd=None, compiler="clang"):
        """Builds in a directory below the top, and runs what comes out, split and not split. Objects are
        made one by one, as build systems do."""
        place = self.top / directory
        place.mkdir(parents=True, exist_ok=True)
        self.base = self.base or place
        image, split, store = (self.out / name for name in ("app", "app.split", "sidecars"))
        objects = []
        for source in sources:
            objects.append(str(self.out / f"{len(objects)}.o"))
            run([f"{self.tools}/{compiler}", "-fprofile-instr-generate", "-fcoverage-mapping", *flags, "-c",
                 "-o", objects[-1], source], place, PWD=str(pwd or place))
        run([f"{self.tools}/{compiler}", "-fprofile-instr-generate", "-Wl,--build-id", "-o", image, *objects], place)
        run([self.covsplit, "split", "--store", store, "-o", split, image], place)
        run([image], place, LLVM_PROFILE_FILE=str(self.out / "full.profraw"))
        run([split], place, LLVM_PROFILE_FILE=str(self.out / "light.profraw"))
        run([f"{self.tools}/llvm-profdata", "merge", "-o", self.out / "app.profdata", self.out / "full.profraw"],
            place)
        self.lcov = self.out / "llvm.info"
        self.lcov.write_text(run([f"{self.tools}/llvm-cov", "export", "-format=lcov", image,
                                  f"-instr-profile={self.out}/app.profdata"], place).stdout,
                             errors="surrogateescape")

    # ---- what is true ----

    def changed(self, top):
        """{file: lines} since the branch left main, committed or not."""

        def git(*words):
            return run(["git", *words], top).stdout

        start = git("merge-base", "main", "HEAD").strip()
        words = git("diff", "--name-status", "-z", start).split("\0")[:-1]
        changed = {}
        while words:
            names = words[1:3] if words[0][0] in "RC" else words[1:2]
            del words[:1 + len(names)]
            text = git("diff", "-U0", "--no-color", "--no-ext-diff", "--inter-hunk-context=0", start, "--",
                       *(f":(top,literal){name}" for name in names))
            changed[names[-1]] = lines = set()
            for first, count in re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", text, re.M):
                lines.update(range(int(first), int(first) + int(count or 1)))
        return changed

    def truth(self, top):
        """{file: (changed lines with code, those not executed)}"""
        real = os.path.realpath(top)
        counts = {}
        for name, lines in read_lcov(self.lcov).items():
            if self.prefix:
                name = name.replace(self.prefix, str(self.top), 1)
            path = os.path.relpath(os.path.realpath(self.base / name), real)
            for line, count in lines.items():
                of_file = counts.setdefault(path, {})
                of_file[line] = of_file.get(line, 0) + count
        found = {}
        for name, lines in self.changed(top).items():
            measured = lines & set(counts.get(name, ()))
            if measured:
                found[name] = (len(measured), sorted(line for line in measured if counts[name][line] == 0))
        return found

    # ---- what diff-cover says ----

    def diff_cover(self, report, directory):
        """{file: lines not executed}, the number of lines with code, and its exit status; None if it fails."""
        result = self.out / "told.json"
        result.unlink(missing_ok=True)
        # It takes longer to start than to run.
        child = os.fork()
        if child == 0:
            status = 2
            try:
                os.chdir(directory)
                log = os.open(self.out / "diff-cover.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
                os.dup2(log, 1)
                os.dup2(log, 2)
                status = diff_cover.diff_cover_tool.main(
                    ["diff-cover", str(report), "--compare-branch=main", f"--fail-under={LIMIT}", "--json-report",
                     str(result)])
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 2:
            return None
        told = json.loads(result.read_text())
        return ({name: of_file["violation_lines"] for name, of_file in told["src_stats"].items()},
                told["total_num_lines"], status)

    def report(self, directory, options, kind="cobertura", pwd=None, says=""):
        self.reports += 1
        path = self.out / f"{self.reports}.{'info' if kind == 'lcov' else 'xml'}"
        done = run([self.covsplit, "report", "--store", self.out / "sidecars", "--format", kind, "-o", path, *options,
                    self.out / "light.profraw"], directory, PATH=f"{self.tools}:{ENVIRONMENT['PATH']}",
                   PWD=str(pwd or directory))
        if "warning" in done.stderr or says not in done.stderr:
            raise Failure(done.stderr)
        return path

    def check(self, directory="", options=(), pwd=None, over_lcov=True, unseen=(), top=None, own_lcov=True,
              reported_in=None):
        """Reports and runs diff-cover in a directory below the top. `over_lcov`: whether diff-cover over
        llvm-cov's lcov gets it right. `unseen`: files whose names diff-cover cannot read from git's diff."""
        top = top or self.top
        place = top / directory
        if (top, "git") not in self.known:
            self.known[top, "git"] = self.truth(top)
        truth = {name: lines for name, lines in self.known[top, "git"].items() if name not in unseen}
        lines = sum(count for count, _ in truth.values())
        missed = sum(len(lines) for _, lines in truth.values())
        percent = int((lines - missed) / lines * 100) if lines else 100
        expected = {name: lines for name, (_, lines) in truth.items()}, lines, int(percent < LIMIT)
        if (place, "lcov") not in self.known:
            self.known[place, "lcov"] = self.diff_cover(self.lcov, place)
        over_llvm = self.known[place, "lcov"]
        report = self.report(reported_in or place, options, pwd=pwd)
        found = self.diff_cover(report, place)
        if found != expected:
            raise Failure(f"in '{directory}': {found}, not {expected}; over lcov {over_llvm}; see {report}")
        if (over_llvm == expected) != over_lcov:
            raise Failure(f"in '{directory}': over lcov {over_llvm}; expected {expected}")
        if own_lcov and (pwd or reported_in or not directory):
            told = read_lcov(self.report(reported_in or place, options, "lcov", pwd))
            llvm = {os.path.normpath(name): counts for name, counts in read_lcov(self.lcov).items()}
            if told != llvm:
                raise Failure(f"in '{directory}': lcov has {told}, llvm-cov's {llvm}")
        self.runs += 1
        self.lines += lines
        self.unable += not over_lcov
        return found


# ---- the repositories ----

MAIN = {"src/lib.c": unit("lib"), "src/main.c": main_of("lib")}
CHANGE = {"src/lib.c": unit("lib", 6) + more("lib")}


@repository
def plain(r):
    r.start(MAIN)
    r.change(CHANGE)
    r.build(r.top / "src/lib.c", r.top / "src/main.c", directory="build")
    for place in ("", "src", "build"):
        r.check(place)
    # git finds a work tree around a link to a directory by where that leads to.
    (r.top.parent / "link").symlink_to(r.top)
    (r.top.parent / "source").symlink_to(r.top / "src")
    for link in (r.top.parent / "link", r.top.parent / "link/build", r.top.parent / "source"):
        r.check(reported_in=link)
        r.check(reported_in=link, pwd=r.top.parent / "wrong")
    r.check(reported_in=r.top.parent, options=["--root", r.top], own_lcov=False)
    r.check(options=["--include", "src"])
    relative = r.report(r.top, ["--root", "."], "lcov")
    assert set(read_lcov(relative)) == set(MAIN)
    assert r.diff_cover(relative, r.top) == r.check()


@repository
def built_through_a_link(r):
    r.start(MAIN)
    r.change(CHANGE)
    link = r.top.parent / "link"
    link.symlink_to(r.top)
    r.build(link / "src/lib.c", "src/main.c", pwd=link)
    r.check(over_lcov=False)
    r.check(pwd=link, reported_in=link, over_lcov=False)
    r.check("src", over_lcov=False)


@repository
def links_in_the_tree(r):
    """git knows what they lead to."""
    r.start({"shared/lib.c": unit("lib"), "shared/one.c": unit("one"), "src/main.c": main_of("lib", "one")})
    (r.top / "src/shared").symlink_to("../shared")
    (r.top / "src/one.c").symlink_to("../shared/one.c")
    r.change({"shared/lib.c": unit("lib", 6), "shared/one.c": unit("one", 7)})
    r.build("src/shared/lib.c", "src/one.c", "src/main.c")
    r.check(over_lcov=False)
    r.check("src", over_lcov=False)


@repository
def spaces(r):
    r.start({"my dir/two  words.c": unit("words"), "my dir/in/m.c": main_of("words")})
    r.change({"my dir/two  words.c": unit("words", 6), "my dir/a b.c": unit("new")})
    r.build("my dir/two  words.c", "my dir/a b.c", "my dir/in/m.c")
    for place in ("", "my dir", "my dir/in"):
        r.check(place)


@repository
def letters(r):
    """git quotes what is not ASCII, and diff-cover takes the quoted name for the file's, unless told not to."""
    r.start({"größe/über.c": unit("size"), "größe/m.c": main_of("size"), "日本.c": unit("east")})
    r.change({"größe/über.c": unit("size", 6), "日本.c": unit("east", 6)})
    r.build("größe/über.c", "größe/m.c", "日本.c")
    r.check(unseen=("größe/über.c", "日本.c"))
    r.git("config", "core.quotePath", "off")
    for place in ("", "größe"):
        r.check(place)


@repository
def quotes(r):
    """Names with '"', '\\' or control characters are always quoted."""
    strange = ('say "hi".c', "tab\t.c", "bell\a.c")
    kept = {"it's & <b>.c": unit("kept"), "main.c": main_of("kept", "f0", "f1", "f2")}
    r.start({**kept, **{name: unit(f"f{i}") for i, name in enumerate(strange)}})
    r.git("config", "core.quotePath", "off")
    r.change({"it's & <b>.c": unit("kept", 6), **{name: unit(f"f{i}", 6) for i, name in enumerate(strange)}})
    r.build("it's & <b>.c", "main.c", *strange)
    r.check(unseen=strange)


@repository
def a_line_end(r):
    """llvm-cov's lcov is no lcov then."""
    r.start({"src/new\nline.c": unit("line"), "src/new": "", "src/main.c": main_of("line")})
    r.change({"src/new\nline.c": unit("line", 6), "src/main.c": main_of("line") + more("main"), "src/new": "\n" * 9})
    r.build("src/new\nline.c", "src/main.c")
    r.check(unseen=("src/new\nline.c",), over_lcov=False, own_lcov=False)


@repository
def one_name_in_two_directories(r):
    """core/src/lib.c is covered, and is not what changed."""
    r.start({"core/src/lib.c": unit("core"), "src/lib.c": unit("lib"), "core/src/main.c": main_of("core")})
    r.change({"src/lib.c": unit("lib", 6), "lib.c": unit("top")})
    r.build("core/src/lib.c", "core/src/main.c")
    for place in ("", "core", "core/src", "src"):
        assert r.check(place)[:2] == ({}, 0)


@repository
def the_other_way_round(r):
    """src/lib.c is covered, and core/src/lib.c changed. In core/, diff-cover takes src/lib.c for a name from
    there, unless the report has absolute names, as lcov does."""
    r.start({"core/src/lib.c": unit("core"), "src/lib.c": unit("lib"), "src/main.c": main_of("lib")})
    r.change({"core/src/lib.c": unit("core", 6)})
    r.build("src/lib.c", "src/main.c")
    assert r.check()[:2] == ({}, 0)
    assert r.check("src")[:2] == ({}, 0)
    assert r.diff_cover(r.report(r.top / "core", []), r.top / "core")[1] != 0
    assert r.diff_cover(r.report(r.top / "core", [], "lcov"), r.top / "core")[:2] == ({}, 0)


@repository
def crates(r):
    """One layout several times, all of it built from the top, as cargo does."""
    names = ("lib", "core_lib", "cli_lib")
    files = ("src/lib.c", "core/src/lib.c", "cli/src/lib.c")
    r.start({"cli/src/main.c": main_of(*names), **{f: unit(n) for f, n in zip(files, names)}})
    r.change({"src/lib.c": unit("lib", 6), "core/src/lib.c": unit("core_lib", 6, executed=False) + more("core"),
              "cli/src/lib.c": "\n\n" + unit("cli_lib", 7), "core/src/new.c": unit("new")})
    r.build(*files, "cli/src/main.c", "core/src/new.c")
    for place in ("", "core", "cli/src", "src"):
        r.check(place)


@repository
def header(r):
    header = "template <class T> T bigger(T a, T b)\n{\n    if (a > b)\n        return a;\n    return b;\n}\n"
    more_of_it = ("template <class T> T smaller(T a, T b)\n{\n    if (a < b)\n        return a;\n    return b;\n}\n"
                  "inline int unused(int a)\n{\n    return a;\n}\n")
    use = '#include "../include/shape.h"\nint %s(int a)\n{\n    return %s;\n}\n'
    r.start({"include/shape.h": header, "src/one.cc": use % ("one", "bigger(a, 1)"),
             "src/two.cc": use % ("two", "(int)bigger(a + 0.5, 9.0)"), "src/main.cc": main_of("one", "two")})
    r.change({"include/shape.h": header.replace("a > b", "b < a") + more_of_it,
              "src/one.cc": use % ("one", "smaller(bigger(a, 1), 9)")})
    r.build("src/one.cc", "src/two.cc", "src/main.cc", compiler="clang++")
    for place in ("", "include", "src"):
        r.check(place)


@repository
def renamed(r):
    long = "".join(unit(f"f{i}") for i in range(9))
    r.start({"src/old.c": long, "src/gone.c": more("gone"), "src/main.c": main_of("f3", "f4")})
    r.git("mv", "src/old.c", "src/new.c")
    r.change({"src/new.c": long.replace("f4(int a)\n{\n", "f4(int a)\n{\n    a++;\n").replace("a - 5", "a-5", 1),
              "src/old.c.txt": long, "src/gone.c": None})
    r.build("src/new.c", "src/main.c")
    for place in ("", "src"):
        r.check(place)
    r.git("config", "diff.renames", "false")
    r.check()


@repository
def never_compiled(r):
    r.start({**MAIN, "tools/extra.c": unit("extra"), "README": "text\n"})
    r.change({**CHANGE, "tools/extra.c": unit("extra", 6), "README": "text\nmore\n", "src/other.c": unit("other")})
    r.build("src/lib.c", "src/main.c")
    for place in ("", "tools"):
        assert set(r.check(place)[0]) == {"src/lib.c"}


@repository
def from_a_directory_for_builds(r):
    """As make and ninja do: ../src."""
    r.start(MAIN)
    r.change(CHANGE)
    r.build("../src/lib.c", "../src/../src/main.c", directory="build")
    for place in ("", "build", "src"):
        r.check(place)


@repository
def out_of_tree(r):
    r.start(MAIN)
    r.change(CHANGE)
    r.build("../../project/src/lib.c", r.top / "src/main.c", directory="../elsewhere/build")
    r.check()
    r.check("src")
    # No work tree is around that directory.
    r.report(r.top.parent / "elsewhere/build", [], says="no source file is below")
    r.check(reported_in=r.top.parent / "elsewhere/build", options=["--root", "../../project"], own_lcov=False)
    # A link to it in the tree makes no difference.
    (r.top / "build").symlink_to(r.top.parent / "elsewhere/build")
    r.check(reported_in=r.top / "build", options=[f"--root={r.top}"], own_lcov=False)


@repository
def prefix_map(r):
    r.start({**MAIN, "core/src/lib.c": unit("core")})
    r.change({**CHANGE, "core/src/lib.c": unit("core", 6)})
    r.build(r.top / "src/lib.c", "src/main.c", flags=[f"-ffile-prefix-map={r.top}=."])
    r.check()
    r.check(reported_in=r.top / "core")
    r.check("src", over_lcov=False)


@repository
def prefix_map_from_a_directory_for_builds(r):
    r.start(MAIN)
    r.change(CHANGE)
    r.base = r.top
    r.build("../src/lib.c", "../src/main.c", directory="build", flags=[f"-ffile-prefix-map={r.top}=."])
    r.check(over_lcov=False)
    r.check(over_lcov=False, reported_in=r.top / "build")


@repository
def prefix_map_to_a_directory(r):
    """To "." it cannot be, where absolute names are compiled in another directory than the top: clang takes
    what it has made relative for relative to that."""
    r.start(MAIN)
    r.change({**CHANGE, "src/main.c": main_of("lib") + more("main")})
    r.prefix = "/app"
    r.build("../src/lib.c", r.top / "src/main.c", directory="build", flags=[f"-ffile-prefix-map={r.top}=/app"])
    r.check(options=["--path-map", "/app=."], over_lcov=False, own_lcov=False)
    r.check("src", options=["--path-map", f"/app={r.top}"], over_lcov=False, own_lcov=False)


@repository
def path_map_in_a_subdirectory(r):
    """Where "." is not the root."""
    r.start({"src/lib.c": unit("lib"), "core/src/lib.c": unit("core"), "src/main.c": main_of("lib", "core")})
    r.change({"core/src/lib.c": unit("core", 6, executed=False) + more("core"), "src/main.c": "\n" + main_of("lib", "core")})
    r.prefix = "/app"
    r.build("src/lib.c", "core/src/lib.c", "src/main.c", flags=[f"-ffile-prefix-map={r.top}=/app"])
    r.check("core", options=["--path-map", "/app/core=.", "--path-map", "/app=.."], over_lcov=False)
    r.check(options=["--path-map", "/app=."], over_lcov=False, own_lcov=False)


@repository
def compilation_directory(r):
    r.start(MAIN)
    r.change({**CHANGE, "src/main.c": main_of("lib") + more("main")})
    r.build("src/lib.c", r.top / "src/main.c", flags=["-fcoverage-compilation-dir=."])
    r.check()
    r.check("src", over_lcov=False)


@repository
def compilation_directory_for_builds(r):
    """Paths that lead up are from the current directory; elsewhere, nothing tells where they are but the user."""
    r.start(MAIN)
    r.change({**CHANGE, "src/main.c": main_of("lib") + more("main")})
    r.build("../../src/lib.c", r.top / "src/main.c", directory="out/build", flags=["-fcoverage-compilation-dir=."])
    r.check("out/build", over_lcov=True)
    r.check(reported_in=r.top / "out/build", over_lcov=False)
    r.check(options=["--path-map", "../..=."], over_lcov=False, own_lcov=False)


@repository
def settings(r):
    r.start({**MAIN, ".gitattributes": "*.c diff=cpp\n*.h -text\n"})
    r.change({"src/lib.c": "\n" + unit("lib", 6).replace("if", "/* @@ -1 +1 @@ */ if") + "\n\n" + more("lib")})
    r.build("src/lib.c", "src/main.c")
    for name, value in (("diff.noprefix", "true"), ("diff.mnemonicPrefix", "true"), ("diff.external", "false"),
                        ("color.ui", "always"), ("color.diff", "always"), ("diff.colorMoved", "zebra"),
                        ("diff.interHunkContext", "3"), ("diff.context", "9"), ("diff.algorithm", "histogram"),
                        ("diff.wordRegex", "."), ("core.pager", "false"), ("diff.suppressBlankEmpty", "true"),
                        ("core.abbrev", "40"), ("diff.indentHeuristic", "false"), ("diff.orderFile", "/dev/null")):
        r.git("config", name, value)
    for place in ("", "src"):
        r.check(place)
    for name in ("diff.noprefix", "diff.mnemonicPrefix"):
        r.git("config", name, "false")
    r.check()


@repository
def line_ends(r):
    r.start({**MAIN, ".gitattributes": "*.c text eol=crlf\nsrc/main.c -text\n"})
    r.git("config", "core.autocrlf", "true")
    r.change({"src/lib.c": CHANGE["src/lib.c"].replace("\n", "\r\n").encode()})
    r.build("src/lib.c", "src/main.c")
    r.check()
    r.check("src")


@repository
def submodule(r):
    library = r.top / "deps/sum"
    r.write({"deps/sum/src/lib.c": unit("sum")})
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "start"),
                  ("checkout", "-q", "-b", "change")):
        r.git(*words, directory=library)
    r.git("init", "-q", "-b", "main")
    r.git("submodule", "--quiet", "add", "./deps/sum", "deps/sum")
    r.commit({"src/lib.c": unit("lib"), "src/main.c": main_of("lib", "sum")}, "start")
    r.git("checkout", "-q", "-b", "change")
    r.write({"deps/sum/src/lib.c": unit("sum", 6, executed=False) + more("sum")})
    r.git("commit", "-q", "-a", "-m", "change", directory=library)
    r.change({"src/lib.c": unit("lib", 7)})
    r.build("deps/sum/src/lib.c", "src/lib.c", "src/main.c")
    assert set(r.check()[0]) == {"src/lib.c"}
    r.check("src")
    for place in ("", "src"):  # of its own files
        assert set(r.check(place, top=library, own_lcov=False)[0]) == {"src/lib.c"}


@repository
def another_work_tree(r):
    r.start(MAIN)
    r.git("checkout", "-q", "main")
    tree = r.top / "trees/change"
    r.git("worktree", "add", "-q", tree, "change")
    outer, r.top = r.top, tree
    r.change(CHANGE)
    r.build("src/lib.c", tree / "src/main.c", directory="")
    for place in ("", "src"):
        r.check(place)
    # Of the outer one, nothing has changed.
    assert r.check(top=outer)[:2] == ({}, 0)


@repository
def not_committed(r):
    r.start({**MAIN, "src/b.c": unit("b"), "src/c.c": unit("c")})
    r.change(CHANGE)
    r.write({"src/b.c": "\n" + unit("b", 6)})
    r.git("add", "-A")
    r.write({"src/c.c": unit("c", 6) + more("c")})
    r.build("src/lib.c", "src/main.c", "src/b.c", "src/c.c")
    for place in ("", "src"):
        r.check(place)


@repository
def main_went_on(r):
    r.start(MAIN)
    r.change(CHANGE)
    r.git("checkout", "-q", "main")
    r.commit({"src/main.c": "\n\n" + main_of("lib"), "src/lib.c": more("main") + unit("lib")}, "went on")
    r.git("checkout", "-q", "change")
    r.build("src/lib.c", "src/main.c")
    r.check()


@repository
def shapes(r):
    """Hunks of all kinds, and files that have no lines."""
    r.start({"a.c": "".join(unit(f"a{i}") for i in range(5)), "b.c": unit("b") + more("b"), "c.c": unit("c"),
             "picture": bytes(range(256)), "empty": "", "main.c": main_of("a0", "a4", "b", "c")})
    (r.top / "c.c").chmod(0o755)
    r.change({"a.c": "".join(unit(f"a{i}") + ("\n" if i == 2 else "") for i in (0, 1, 3, 4)).replace("a > 5", "5 < a", 1),
              "b.c": unit("b"), "picture": bytes(range(255)), "empty": None, "new": "",
              "main.c": main_of("a0", "a4", "b", "c").rstrip("\n")})
    r.build("a.c", "b.c", "c.c", "main.c")
    r.check()


@repository
def a_strange_root(r):
    r.top = r.top.rename(r.top.parent / "R&D <ü> b")
    r.start(MAIN)
    r.change(CHANGE)
    r.build("src/lib.c", r.top / "src/main.c")
    for place in ("", "src"):
        r.check(place)


# ---- all of them ----


def walk(covsplit, scratch, number):
    """Runs of diff-cover over Cobertura, changed lines, runs for which lcov would not do, and what is wrong."""
    function, clang = REPOSITORIES[number], CLANGS[number % len(CLANGS)]
    made = Repository(covsplit, scratch, function.__name__, clang)
    failure = None
    try:
        function(made)
    except (Failure, AssertionError) as wrong:
        failure = f"{function.__name__} (clang {clang}): {str(wrong) or traceback.format_exc()}"
    return made.runs, made.lines, made.unable, failure


def main():
    covsplit, *chosen = sys.argv[1:]
    covsplit = os.path.abspath(covsplit)
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="covsplit-diff-cover-"))
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    numbers = [i for i, function in enumerate(REPOSITORIES) if not chosen or function.__name__ in chosen]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        told = [each.result() for each in [pool.submit(walk, covsplit, scratch, i) for i in numbers]]
    runs, lines, unable = (sum(column) for column in list(zip(*told))[:3])
    print(f"{len(numbers)} repositories, {runs} runs of diff-cover over Cobertura, {lines} changed lines with code; "
          f"{runs - unable} runs are as over llvm-cov's lcov, and for {unable} that would not do")
    failures = [failure for *_, failure in told if failure]
    if failures:
        sys.exit("\n\n".join(failures) + f"\n(the files are in {scratch})")
    if os.environ.get("COVSPLIT_TEST_KEEP") != "1":
        shutil.rmtree(scratch)


main()
