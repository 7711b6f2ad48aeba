"""Checks the code signature of a thin 64-bit Mach-O image, by nothing but the documented format.

Every page digest in every code directory must be that of the page, and the digests must cover the
file up to the signature. Says on one line how many were right, or what is wrong.

Usage: check_signature.py IMAGE
"""
import hashlib
import struct
import sys

HASHES = {1: (hashlib.sha1, 20), 2: (hashlib.sha256, 32), 3: (hashlib.sha256, 20)}


def find_signature(image):
    count, = struct.unpack_from("<I", image, 16)
    offset = 32
    linkedit_end = None
    signature = None
    for _ in range(count):
        command, size = struct.unpack_from("<II", image, offset)
        if command == 0x19 and image[offset + 8:offset + 18] == b"__LINKEDIT":
            file_offset, file_size = struct.unpack_from("<QQ", image, offset + 40)
            linkedit_end = file_offset + file_size
        if command == 0x1d:
            signature = struct.unpack_from("<II", image, offset + 8)
        offset += size
    if signature is None:
        sys.exit("no signature")
    if linkedit_end != len(image) or sum(signature) != len(image) or signature[0] % 16 != 0:
        sys.exit("the signature is not the end of __LINKEDIT and of the file")
    return signature[0]


def check_directory(image, limit, directory):
    (_, length, _, _, hashes, _, special, pages, code_limit, hash_size, hash_type, _,
     page_bits) = struct.unpack_from(">IIIIIIIIIBBBB", directory)
    function, size = HASHES[hash_type]
    page_size = 1 << page_bits
    if code_limit != limit or size != hash_size or pages != -(-limit // page_size):
        sys.exit("a code directory covers another part of the file")
    if hashes + pages * size > length or hashes < 44 + special * size:
        sys.exit("a code directory is too small")
    for page in range(pages):
        content = image[page * page_size:min((page + 1) * page_size, limit)]
        if function(content).digest()[:size] != directory[hashes + page * size:][:size]:
            sys.exit(f"the digest of page {page} of {pages} is wrong")
    return pages


def main():
    with open(sys.argv[1], "rb") as file:
        image = file.read()
    limit = find_signature(image)
    blob = image[limit:]
    magic, length, count = struct.unpack_from(">III", blob)
    if magic != 0xfade0cc0 or length > len(blob):
        sys.exit("no signature blob")
    checked = 0
    for i in range(count):
        _, offset = struct.unpack_from(">II", blob, 12 + 8 * i)
        inner, size = struct.unpack_from(">II", blob, offset)
        if offset + size > length:
            sys.exit("a blob is not inside the signature")
        if inner == 0xfade0c02:
            checked += check_directory(image, limit, blob[offset:offset + size])
    if checked == 0:
        sys.exit("no code directory")
    print(checked)


main()
