"""Profiles whose sums are known.

Usage: farm.py add SUMS NAME...    writes profiles of random programs of farm/ with random counters, and adds these to the sums
       farm.py check SUMS PROFILE  compares them with what a file with profiles has
"""
import os
import struct
import sys


def counters_of(profile):
    """Where they are in a profile of raw version 10."""
    _, _, identities, records, padding, count = struct.unpack_from("<6Q", profile)
    return 16 * 8 + identities + records * 64 + padding, count


def random_numbers(state):
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        yield state >> 33


verb, notes, *names = sys.argv[1:]
farm = [open(os.path.join("farm", name), "rb").read() for name in sorted(os.listdir("farm"))]
places = [counters_of(profile) for profile in farm]
sums = [[0] * count for _, count in places]
if os.path.exists(notes):
    sums = [list(map(int, line.split())) for line in open(notes)]
if verb == "add":
    numbers = random_numbers(sum(map(sum, sums)))
    for name in names:
        program = next(numbers) % len(farm)
        start, count = places[program]
        # Small numbers, so that no sum is too large, and some zeros.
        counters = [number % 1000 if number % 3 else 0 for number, _ in zip(numbers, range(count))]
        sums[program] = [one + other for one, other in zip(sums[program], counters)]
        profile = bytearray(farm[program])
        struct.pack_into(f"<{count}Q", profile, start, *counters)
        open(name, "wb").write(profile)
    open(notes, "w").writelines(" ".join(map(str, line)) + "\n" for line in sums)
else:
    found = open(names[0], "rb").read()
    for profile, (start, count), expected in zip(farm, places, sums):
        # What comes before its counters is the same in all of a program.
        at = found.find(profile[:start])
        have = list(struct.unpack_from(f"<{count}Q", found, at + start)) if at >= 0 else [0] * count
        assert have == expected, f"{have} are not {expected}"
