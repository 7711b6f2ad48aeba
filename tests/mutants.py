#!/usr/bin/env python3
"""What the tests notice: changes the product in small ways, one at a time, and counts the changes that make a test fail.

Usage: mutants.py [--count N] [--seed N] [--tests REGEX] [--targets NAMES] [--percent N] [--list] BUILD [PLACE...]

A mutant is the product with one flipped condition, one number that is off by one, or one call left out; it is
chosen at random from the C files in the PLACES, directories or files (the whole product without any). Each is built in
BUILD, a build directory of a working tree whose files are changed and put back (with --targets only these, as
"covsplit;suite_store"), and the tests whose names match REGEX (all of `quick` and `daily` without it) run until one
fails. Prints a line for each mutant and at the end how many of those that compile were killed. With the same seed and
sources the mutants are the same, so that two states of the tests can be compared; some mutants change nothing that
matters and live in both.
"""
import argparse
import os
import random
import re
import subprocess
import sys

PRODUCT = ("common", "formats", "reader", "split", "device")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLIPS = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&"}
FLIP = re.compile(r"(?<=[\w)\]] )(==|!=|<=?|>=?|&&|\|\|)(?= [\w(!*&'-])")
NUMBER = re.compile(r"(?<=[+-] )(\d+)\b(?![.\w])")
RESULT = re.compile(r"(?<=return )(true|false)(?=;)")
CALL = re.compile(r"^    +(?!return\b|if\b|goto\b)[a-z]\w+\([^;]*\);$")


def code_only(line):
    """The line with texts and comments blanked, so that places stay where they are."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda text: " " * len(text.group()), line)
    return re.sub(r"/\*.*?(\*/|$)", lambda text: " " * len(text.group()), line)


def mutants_of(path):
    """(path, line number, new line, what is changed) of each mutant of a file."""
    in_comment = in_body = False
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines):
        in_body = line == "{" or (in_body and line != "}")
        was_comment, in_comment = in_comment, (in_comment or "/*" in line) and "*/" not in line
        if was_comment or not in_body or line.lstrip().startswith(("/*", "#")):
            continue
        code = code_only(line)
        for match in FLIP.finditer(code):
            yield path, number, splice(line, match, FLIPS[match.group()]), "condition"
        for match in NUMBER.finditer(code):
            yield path, number, splice(line, match, str(int(match.group()) + 1)), "number"
        for match in RESULT.finditer(code):
            yield path, number, splice(line, match, "false" if match.group() == "true" else "true"), "result"
        if CALL.match(code) and lines[number - 1].rstrip().endswith((";", "{", "}", "*/", ":")):
            yield path, number, "    (void)0;", "call"


def splice(line, match, text):
    return line[:match.start()] + text + line[match.end():]


def run(arguments, **options):
    return subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)


def verdict_on(mutant, building, tests, percent):
    """The first test that fails, None if none does, or "" if the mutant does not compile."""
    path, number, text, _ = mutant
    full = os.path.join(ROOT, path)
    with open(full, encoding="utf-8") as file:
        original = file.read()
    lines = original.split("\n")
    lines[number] = text
    try:
        with open(full, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        if run(building).returncode != 0:
            return ""
        environment = dict(os.environ, COVSPLIT_TEST_PERCENT=str(percent), CK_DEFAULT_TIMEOUT="120")
        done = run(["ctest", "--test-dir", building[2], "--stop-on-failure", "--timeout", "600", "-j",
                    str(os.cpu_count())] + tests, env=environment)
        failed = re.search(r"^\s*\d+ - (\S+) \(", done.stdout, re.M)
        if done.returncode == 0:
            return None
        return failed.group(1) if failed else "ctest"
    finally:
        with open(full, "w", encoding="utf-8") as file:
            file.write(original)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests")
    parser.add_argument("--targets")
    parser.add_argument("--percent", type=int, default=12)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("build")
    parser.add_argument("places", nargs="*", default=PRODUCT)
    options = parser.parse_args()
    if run(["git", "diff", "--quiet", "HEAD", "--", *PRODUCT]).returncode != 0:
        sys.exit("mutants.py: the product has changes that are not committed")
    files = run(["git", "ls-files", "--", *options.places]).stdout.split("\n")
    mutants = [mutant for path in files if path.endswith(".c") for mutant in mutants_of(path)]
    random.Random(options.seed).shuffle(mutants)
    tests = ["-R", options.tests] if options.tests else ["-L", "^(quick|daily)$"]
    building = ["cmake", "--build", options.build, "--parallel"]
    if options.targets:
        building += ["--target"] + options.targets.split(";")
    made = killed = 0
    for mutant in mutants:
        if made == options.count:
            break
        path, number, text, kind = mutant
        said = f"{path}:{number + 1}: {kind}: {text.strip()}"
        verdict = None if options.list else verdict_on(mutant, building, tests, options.percent)
        if verdict == "":
            continue
        made += 1
        killed += verdict is not None
        print(said if options.list else f"{said}\n    {verdict or 'LIVES'}", flush=True)
    if not options.list:
        run(building)
        print(f"{made} mutants, {killed} killed ({100 * killed / max(made, 1):.0f}%)")


if __name__ == "__main__":
    main()
