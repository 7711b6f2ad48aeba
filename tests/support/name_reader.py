"""Texts of names and lists of them, as docs/format.md has them."""
import re

from sidecar_numbers import Numbers

END, NEXT_NUMBER, NEW_PLAIN, NEW_COUNTED = range(252, 256)
EXPECTED, NEW, RESUMED, NUMBERED = range(4)
SKIPPED_MAX = 16


def require(condition):
    if not condition:
        raise SystemExit("names are damaged")


def token_text(codes, dictionary):
    """Strings, from the codes of their tokens and these tokens."""
    codes, tokens = Numbers(codes), iter(dictionary)
    size, plain, counted, pairs, triples = [codes.take() for _ in range(5)]
    singles = plain + counted

    def new(is_counted):
        token = next(tokens)
        known.append(b"%d" % len(token) + token if is_counted else token)
        is_number = not is_counted and re.fullmatch(rb"0|[1-9][0-9]{0,8}", token)
        values.append(int(token) if is_number else None)

    known, values = [], []
    for single in range(singles):
        new(single >= plain)
    strings, string, number = [], b"", None
    while not codes.at_end():
        code = codes.byte()
        if code == END:
            strings.append(string)
            string, number = b"", None
            continue
        if code == NEXT_NUMBER:
            number += 1
            require(number <= 999999999)
            string += b"%d" % number
            continue
        if code in (NEW_PLAIN, NEW_COUNTED):
            new(code == NEW_COUNTED)
            token = len(known) - 1
        elif code < singles:
            token = code
        elif code < singles + pairs:
            token = singles + ((code - singles) << 8) + codes.byte()
        else:
            require(code < singles + pairs + triples)
            high = singles + (pairs << 8) + ((code - singles - pairs) << 16)
            token = high + int.from_bytes(codes.rest(2), "big")
        string += known[token]
        number = number if values[token] is None else values[token]
    require(string == b"" and next(tokens, None) is None)
    require(sum(len(string) + 1 for string in strings) == size)
    return strings


def name_text(codes, word_codes, words):
    """Distinct names."""
    return token_text(codes, token_text(word_codes, words.split(b"\x01")[:-1]))


class NameLists:
    """See "Lists of names" in the page."""

    def __init__(self, names, codes, numbers, width):
        self.names, self.width = names, width
        self.codes, self.numbers = Numbers(codes), Numbers(numbers)
        self.new = 0

    def expected(self, behind, came):
        for _ in range(SKIPPED_MAX):
            behind += behind in came
        return behind

    def take_list(self, count):
        came, behind, resume, names = set(), 0, None, []
        for _ in range(count):
            expected, code = self.expected(behind, came), self.codes.byte()
            if code == EXPECTED:
                number = expected
            elif code == NEW:
                number = self.new
            elif code == RESUMED:
                number = resume
                require(resume is not None and resume not in came)
            else:
                require(code == NUMBERED)
                number = self.numbers.low_first(self.width)
                require(number < self.new)
            if number != expected and expected < self.new and expected not in came:
                resume = expected
            self.new += number == self.new
            came.add(number)
            behind = number + 1
            names.append(self.names[number])
        return names

    def at_end(self):
        return self.codes.at_end() and self.numbers.at_end()
