"""Texts of names and lists of them, as docs/format.md has them."""
from sidecar_numbers import Numbers

END, NEW_PLAIN, NEW_COUNTED = range(253, 256)
EXPECTED, NEW, NUMBERED = range(3)
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

    known = []
    for single in range(singles):
        new(single >= plain)
    strings, string = [], b""
    while not codes.at_end():
        code = codes.byte()
        if code == END:
            strings.append(string)
            string = b""
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
    require(string == b"" and next(tokens, None) is None)
    require(sum(len(string) + 1 for string in strings) == size)
    return strings


def name_text(codes, word_codes, words):
    """Distinct names."""
    if not word_codes and not words:
        return codes.split(b"\x01")[:-1]
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
        came, behind, names = set(), 0, []
        for _ in range(count):
            code = self.codes.byte()
            if code == EXPECTED:
                number = self.expected(behind, came)
            elif code == NEW:
                number = self.new
            else:
                require(code == NUMBERED)
                number = self.numbers.low_first(self.width)
                require(number < self.new)
            self.new += number == self.new
            came.add(number)
            behind = number + 1
            names.append(self.names[number])
        return names

    def at_end(self):
        return self.codes.at_end() and self.numbers.at_end()
