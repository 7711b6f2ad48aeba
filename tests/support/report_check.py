#!/usr/bin/env python3
"""Compares what `covsplit report` makes of line coverage with a second implementation.

Usage: report_check.py cobertura LCOV XML
       report_check.py summary LCOV OUTPUT
       report_check.py baseline LCOV_BEFORE LCOV_AFTER OUTPUT
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


def check_cobertura(lcov_path, path):
    lcov = read_lcov(lcov_path)
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
    return "%.2f%%" % (100 * covered / count) if count else "-"


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
            share(numbers["FNH"], numbers["FNF"]) if numbers["FNF"] else "-",
            share(numbers["BRH"], numbers["BRF"]) if numbers["BRF"] else "-"], line
        assert name.endswith(path)
    assert 0 < total["LH"] < total["LF"]


def check_baseline(first, second, output):
    sums1, functions1 = read_sums(first)
    sums2, functions2 = read_sums(second)
    expected = {}
    for name in sorted(set(sums1) | set(sums2)):
        if name not in sums1 or name not in sums2:
            numbers = sums1.get(name) or sums2[name]
            expected[name] = "%s, lines %s (%d of %d)" % (
                "new" if name in sums2 else "gone", share(numbers["LH"], numbers["LF"]),
                numbers["LH"], numbers["LF"])
            continue
        old, new = sums1[name], sums2[name]
        text = plain = "lines %s (%d of %d) -> %s (%d of %d)" % (
            share(old["LH"], old["LF"]), old["LH"], old["LF"],
            share(new["LH"], new["LF"]), new["LH"], new["LF"])
        for title, is_up in (("now covered", True), ("not covered any more", False)):
            found = [f for f, count in functions2[name].items()
                     if f in functions1[name] and bool(count) == is_up
                     and bool(functions1[name][f]) != is_up]
            if found:
                text += "; functions %s: %s" % (title, ", ".join(found))
        for title, is_covered in (("covered", True), ("not covered", False)):
            found = [f for f, count in functions2[name].items()
                     if f not in functions1[name] and bool(count) == is_covered]
            if found:
                text += "; new functions, %s: %s" % (title, ", ".join(found))
        if text != plain or (old["LF"], old["LH"]) != (new["LF"], new["LH"]):
            expected[name] = text
    text = open(output).read().splitlines()
    assert text[-1].startswith("total: lines "), text
    found = dict(line.split(": ", 1) for line in text[:-1])
    short = {os.path.relpath(name): value for name, value in expected.items()}
    assert found == short, (found, short)
    assert found


CHECKS = {"summary": check_summary, "baseline": check_baseline, "cobertura": check_cobertura}
CHECKS[sys.argv[1]](*sys.argv[2:])
