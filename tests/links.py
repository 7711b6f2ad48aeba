#!/usr/bin/env python3
"""Checks that links in the README and in docs/ are not broken: each must lead to a file and, if it contains
a '#', to a heading of that page.

Usage: links.py ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(page):
    """The page without what is between fences: comments of shells are no headings."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.S | re.M)


def anchor(heading):
    """As GitHub makes it: lower case, without punctuation, blanks as dashes."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", text_of(page), re.M)}


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    count = 0
    wrong = []
    for page in pages:
        for link in LINK.findall(text_of(page)):
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            path, _, part = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (part and part not in anchors(target)):
                wrong.append(f"{page.relative_to(root)}: {link} leads nowhere")
    print("\n".join(wrong) or f"{count} links, all of them lead somewhere")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
