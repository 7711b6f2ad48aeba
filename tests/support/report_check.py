#!/usr/bin/env python3
"""Compares what `covsplit report` makes of line coverage with a second implementation.

Usage: report_check.py cobertura LCOV XML
       report_check.py change LCOV DIFF OUTPUT
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


def main():
    lcov = read_lcov(sys.argv[2])
    if sys.argv[1] == "cobertura":
        check_cobertura(lcov, sys.argv[3])
    else:
        check_change(lcov, sys.argv[3], sys.argv[4])


main()
