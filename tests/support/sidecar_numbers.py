"""Numbers as sidecars have them: see docs/format.md."""
import sys


class Numbers:
    """A stream: unsigned LEB128 numbers and others, one behind the other."""

    def __init__(self, contents):
        self.contents, self.place = contents, 0

    def take(self):
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        return unzigzag(self.take())

    def byte(self):
        self.place += 1
        return self.contents[self.place - 1]

    def rest(self, size):
        part = self.contents[self.place:self.place + size]
        if len(part) != size:
            sys.exit("cut short")
        self.place += size
        return part

    def low_first(self, size):
        return int.from_bytes(self.rest(size), "little")

    def at_end(self):
        return self.place == len(self.contents)


def uleb128(value):
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(encoded + bytes([value]))


def unzigzag(number):
    return number // 2 if number % 2 == 0 else -(number + 1) // 2
