"""Restores the sections of deltas, by nothing but docs/format.md ("Deltas")."""
import os
import subprocess
import tempfile

from sidecar_numbers import Numbers, uleb128

DELTA = 0x6c760701


def base_path(path, digest, directory):
    """Of the sidecar at the path: in the store where it is, or in the directory if one is given."""
    if directory is None:
        directory = os.path.join(os.path.dirname(os.path.realpath(path)), "..", "bases")
    return os.path.join(directory, digest.hex() + ".base")


def decompress_after(prefix, frame):
    """By the command zstd, which takes the prefix from a file."""
    words = ["zstd", "-dcq", "--memory=2048MB"]
    with tempfile.NamedTemporaryFile() as file:
        if prefix:
            file.write(prefix)
            file.flush()
            words.append("--patch-from=" + file.name)
        return subprocess.run(words, input=frame, capture_output=True, check=True).stdout


def uncompressed_unit(streams):
    unit = bytearray(uleb128(len(streams)))
    for stream in streams:
        unit += uleb128(len(stream)) + (uleb128(0) if stream else b"")
    return unit + b"".join(streams)


def uncompressed_blocks(blocks, streams_of):
    """Of each block its size, compact form, and digest."""
    units = [uncompressed_unit(streams_of(packed)) for _, packed, _ in blocks]
    directory = uleb128(len(blocks))
    for (size, _, digest), unit in zip(blocks, units):
        directory += uleb128(size) + uleb128(len(unit)) + digest
    return directory + b"".join(units)


class Part:
    """How a section of a delta is stored."""

    def __init__(self, stored):
        numbers = Numbers(stored)
        self.form, self.is_of_streams, self.size = numbers.take(), numbers.take(), numbers.take()
        self.frame = numbers.rest(len(stored) - numbers.place)
        # The magic number of zstd; then the checksum's bit in the descriptor.
        self.is_sound = (self.is_of_streams <= 1 and not (self.is_of_streams and self.form == 2)
                         and self.frame[:4] == b"\x28\xb5\x2f\xfd" and self.frame[4] & 4 != 0)

    def restore(self, prefix):
        """None if it is not the frame that it should be."""
        restored = decompress_after(prefix, self.frame)
        return restored if len(restored) == self.size else None
