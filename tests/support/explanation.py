"""Prints the JSON of `covsplit merge --explain --json` (on standard input) as lines, which tests
compare: a line for each conflict, and one for each image or input of which something is told.

It reads the JSON with Python's own parser, and fails if a member is missing or not of its type.
"""
import json
import os
import sys


def image_text(image):
    assert isinstance(image["profiles"], int) and image["profiles"] > 0
    assert isinstance(image["first_profile"], str)
    return image["name"] or os.path.basename(image["first_profile"])


def variant_text(variant):
    file = variant["file"]
    images = "+".join(image_text(image) for image in variant["images"])
    return "%s/%d in %s: %s" % (variant["hash"].lstrip("0x") or "0", variant["counters"],
                                os.path.basename(file) if file else "?", images)


def main():
    text = sys.stdin.read()
    told = json.loads(text)
    assert text.endswith("}\n")
    hashes = "hashes" in sys.argv[1:]
    for conflict in told["conflicts"]:
        assert isinstance(conflict["certain"], bool)
        variants = [variant_text(variant) for variant in conflict["variants"]]
        if not hashes:
            variants = [variant.split("/", 1)[1] for variant in variants]
        print("%s%s %s: %s" % ("" if conflict["certain"] else "possible ", conflict["kind"],
                               conflict["function"], "; ".join(variants)))
    for left in told["left_out"]:
        print("left out %s" % os.path.basename(left["profile"]))
        assert left["reason"].startswith(left["profile"])
    if told["empty"]:
        print("empty %d" % told["empty"])
    for image in told["without_sidecar"]:
        assert len(image["uuid"]) >= 16
        print("without sidecar: %s, %d" % (os.path.basename(image["first_profile"]),
                                           image["profiles"]))


main()
