#!/usr/bin/env python3
"""Compares what `covsplit report` makes of line coverage with a second implementation.

Usage: report_check.py cobertura LCOV XML
       report_check.py change LCOV DIFF OUTPUT
       report_check.py summary LCOV OUTPUT
       report_check.py baseline LCOV_BEFORE LCOV_AFTER OUTPUT [DIFF]
"""

import collections
import os
import re
import sys
import xml.etree.ElementTree as tree


def read_lcov(path):
    """{file: ({line: count}, {line: [taken, ...]})}"""
    files = {}
    for line in open(path):
        key, _, value = line.rstrip("\n").partition(":")
        if key == "SF":
            counts, branches = files[value] = {}, collections.defaultdict(list)
        elif key == "DA":
            counts[int(value.split(",")[0])] = int(value.split(",")[1])
        elif key == "BRDA":
            number, _, _, taken = value.split(",")
            branches[int(number)].append(taken not in ("-", "0"))
    assert files
    return files


# The DTD coverage-04: for each element its children, in their order, and its attributes.
ELEMENTS = {
    "coverage": (["sources", "packages"], "line-rate branch-rate lines-covered lines-valid "
                 "branches-covered branches-valid complexity version timestamp"),
    "sources": (["source"], ""),
    "source": ([], ""),
    "packages": (["package"], ""),
    "package": (["classes"], "name line-rate branch-rate complexity"),
    "classes": (["class"], ""),
    "class": (["methods", "lines"], "name filename line-rate branch-rate complexity"),
    "methods": ([], ""),
    "lines": (["line"], ""),
    "line": ([], "number hits branch"),
}


def check_element(element):
    children, attributes = ELEMENTS[element.tag]
    found = [child.tag for child in element]
    assert sorted(set(found), key=children.index) == list(dict.fromkeys(found)), found
    assert set(attributes.split()) <= set(element.attrib), element.attrib
    assert set(element.attrib) <= set(attributes.split()) | {"condition-coverage"}
    for child in element:
        check_element(child)


def rate(covered, count):
    return "%.4f" % (covered / count if count else 1)


def check_cobertura(lcov, path):
    assert open(path).readline().startswith('<?xml version="1.0"')
    assert "coverage-04.dtd" in open(path).read()
    root = tree.parse(path).getroot()
    check_element(root)
    base = root.find("sources/source").text
    classes = root.findall("packages/package/classes/class")
    assert len(classes) == len(lcov)
    totals = [0, 0, 0, 0]
    for element, (name, (counts, branches)) in zip(classes, lcov.items()):
        assert os.path.join(base, element.get("filename")) == name, (base, element.attrib, name)
        found = {}
        for line in element.findall("lines/line"):
            number = int(line.get("number"))
            found[number] = int(line.get("hits"))
            taken = branches.get(number)
            assert (line.get("branch") == "true") == (taken is not None)
            if taken is not None:
                assert line.get("condition-coverage") == "%d%% (%d/%d)" % (
                    100 * sum(taken) // len(taken), sum(taken), len(taken))
        assert found == counts
        flat = [taken for line in branches if line in counts for taken in branches[line]]
        own = [sum(count != 0 for count in counts.values()), len(counts), sum(flat), len(flat)]
        assert element.get("line-rate") == rate(*own[:2])
        assert element.get("branch-rate") == rate(*own[2:])
        totals = [a + b for a, b in zip(totals, own)]
    assert root.get("line-rate") == rate(*totals[:2])
    assert [int(root.get(name)) for name in ("lines-covered", "lines-valid", "branches-covered",
                                             "branches-valid")] == totals
    assert totals[0] and totals[0] < totals[1] and totals[3]


def added_lines(path):
    """{file: [line, ...]}, in the order of the diff"""
    files = {}
    number = left = 0
    for line in open(path).read().split("\n"):
        hunk = re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if left == 0 and line.startswith("+++ "):
            name = re.sub("^b/", "", line[4:].split("\t")[0])
            files[name] = []
        elif left == 0 and hunk:
            number = int(hunk.group(2))
            left = int(hunk.group(1) or 1) + int(hunk.group(3) or 1)
        elif left and not line.startswith("\\"):
            left -= 1 if line[:1] in "+-" and line else 2
            if line.startswith("+"):
                files[name].append(number)
            if not line.startswith("-"):
                number += 1
    return files


def check_change(lcov, diff, output):
    added = with_code = covered = 0
    expected = []
    for name, lines in added_lines(diff).items():
        added += len(lines)
        matching = [path for path in lcov if path.endswith("/" + name.split("/")[-1])]
        assert len(matching) <= 1
        counts = lcov[matching[0]][0] if matching else {}
        code = [line for line in lines if line in counts]
        hit = [line for line in code if counts[line]]
        with_code += len(code)
        covered += len(hit)
        if code:
            missed = [line for line in code if line not in hit]
            expected.append((name, len(hit), len(code), missed))
    text = open(output).read().splitlines()
    assert len(text) == len(expected) + 1, (text, expected)
    for line, (name, hit, code, missed) in zip(text, expected):
        assert line.startswith("%s: %d of %d new lines covered" % (name, hit, code)), line
        found = []
        for part in re.findall(r"\d+(?:-\d+)?", line.partition("; not covered: ")[2]):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
        assert found == missed, (found, missed)
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d(?= \w| line)", text[-1])]
    assert numbers == [added, with_code, covered], (text[-1], added, with_code, covered)
    assert with_code and covered < with_code, "nothing is compared"


def read_sums(path):
    """{file: {"LF": number, ...}}, and {file: {function: count}}"""
    sums, functions = {}, {}
    for line in open(path):
        key, _, value = line.rstrip("\n").partition(":")
        if key == "SF":
            name = value
            sums[name], functions[name] = {}, {}
        elif key in ("LF", "LH", "FNF", "FNH", "BRF", "BRH"):
            sums[name][key] = int(value)
        elif key == "FNDA":
            functions[name][value.partition(",")[2]] = int(value.partition(",")[0])
    return sums, functions


def share(covered, count):
    return "%.2f%%" % (100 * covered / count if count else 100)


def check_summary(lcov, output):
    sums, _ = read_sums(lcov)
    total = collections.Counter()
    for numbers in sums.values():
        total.update(numbers)
    lines = open(output).read().splitlines()
    assert lines[0].split() == ["lines", "functions", "branches", "file"], lines[0]
    assert len(lines) == len(sums) + 2
    for line, (name, numbers) in zip(lines[1:], [*sums.items(), ("total", total)]):
        lines_share, ratio, functions, branches, path = line.split(maxsplit=4)
        assert [lines_share, ratio.replace(" ", ""), functions, branches] == [
            share(numbers["LH"], numbers["LF"]), "%d/%d" % (numbers["LH"], numbers["LF"]),
            share(numbers["FNH"], numbers["FNF"]), share(numbers["BRH"], numbers["BRF"])], line
        assert name.endswith(path)
    assert 0 < total["LH"] < total["LF"]


def old_numbers(diff):
    """{file: function from new lines to old ones, or None}, by the sums of all hunks"""
    files = {}
    for line in open(diff).read().split("\n"):
        hunk = re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", line)
        if line.startswith("+++ "):
            edits = files[line[4:].split("\t")[0].split("/")[-1]] = []
        elif hunk:
            old, new = int(hunk.group(1)), int(hunk.group(2))
        elif line.startswith("+") and files:
            edits.append(("+", new))
            new += 1
        elif line.startswith("-") and files:
            edits.append(("-", new))
        elif files:
            new += 1
    return files


def check_baseline(first, second, output, diff=None):
    sums1, functions1 = read_sums(first)
    sums2, functions2 = read_sums(second)
    lines1, lines2 = read_lcov(first), read_lcov(second)
    edits = old_numbers(diff) if diff else {}
    with_lines = diff is not None
    expected = {}
    for name in sorted(set(sums1) | set(sums2)):
        if name not in sums1 or name not in sums2:
            numbers = sums1.get(name) or sums2[name]
            expected[name] = "%s, lines %s (%d of %d)" % (
                "new" if name in sums2 else "gone", share(numbers["LH"], numbers["LF"]),
                numbers["LH"], numbers["LF"])
            continue
        old, new = sums1[name], sums2[name]
        text = "lines %s (%d of %d) -> %s (%d of %d)" % (
            share(old["LH"], old["LF"]), old["LH"], old["LF"],
            share(new["LH"], new["LF"]), new["LH"], new["LF"])
        plain = text
        for title, is_up in (("now covered", True), ("not covered any more", False)):
            found = [f for f, count in functions2[name].items()
                     if f in functions1[name] and bool(count) == is_up
                     and bool(functions1[name][f]) != is_up]
            if found:
                text += "; functions %s: %s" % (title, ", ".join(found))
        for title, is_up in (("now covered", True), ("not covered any more", False)):
            found = []
            for number, count in sorted(lines2[name][0].items()):
                own = edits.get(name.split("/")[-1], [])
                if ("+", number) in own:
                    continue
                before = number - sum(kind == "+" and at < number for kind, at in own) + sum(
                    kind == "-" and at <= number for kind, at in own)
                was = lines1[name][0].get(before)
                if was is not None and bool(was) != bool(count) and bool(count) == is_up:
                    found.append(number)
            if with_lines and found:
                ranges = []
                for number in found:
                    if ranges and ranges[-1][1] == number - 1:
                        ranges[-1][1] = number
                    else:
                        ranges.append([number, number])
                text += "; lines %s: %s" % (title, ", ".join(
                    "%d" % a if a == b else "%d-%d" % (a, b) for a, b in ranges))
        if text != plain or (old["LF"], old["LH"]) != (new["LF"], new["LH"]):
            expected[name] = text
    text = [line for line in open(output).read().splitlines()
            if "new lines covered" not in line and " added, " not in line]
    assert text[-1].startswith("all: lines "), text
    found = dict(line.split(": ", 1) for line in text[:-1])
    short = {os.path.relpath(name): value for name, value in expected.items()}
    assert found == short, (found, short)
    assert found


def main():
    if sys.argv[1] == "summary":
        return check_summary(*sys.argv[2:])
    if sys.argv[1] == "baseline":
        return check_baseline(*sys.argv[2:])
    lcov = read_lcov(sys.argv[2])
    if sys.argv[1] == "cobertura":
        check_cobertura(lcov, sys.argv[3])
    else:
        check_change(lcov, sys.argv[3], sys.argv[4])


main()
