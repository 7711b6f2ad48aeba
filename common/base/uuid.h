/*
 * The UUID that ties an image, its sidecar and its profiles together.
 *
 * What it is depends on the image's format (ELF: the GNU build ID; Mach-O: LC_UUID; COFF: the GUID
 * of the CodeView RSDS record; else a digest of the image), so its size varies. LLVM calls the same
 * bytes the binary ID.
 */
#ifndef COVSPLIT_COMMON_BASE_UUID_H
#define COVSPLIT_COMMON_BASE_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Build IDs of 8 (lld's fast), 16 (MD5, UUID) and 20 bytes (SHA-1) are common; --build-id=0xHEX
 * takes any size. */
#define UUID_SIZE_MAX 64
#define UUID_HEX_MAX  (2 * UUID_SIZE_MAX + 1)

struct uuid {
    uint8_t bytes[UUID_SIZE_MAX];
    size_t size; /* 0: none */
};

/* Lower-case hexadecimal digits, NUL-terminated, into text[UUID_HEX_MAX]; returns text. */
const char *uuid_format(const struct uuid *uuid, char *text);

/* Reads hexadecimal digits of either case, with '-' between bytes allowed (the usual way to write
 * GUIDs). False for anything else, for no digits, and for more than UUID_SIZE_MAX bytes. */
bool uuid_parse(const char *text, struct uuid *uuid);

bool uuid_equal(const struct uuid *a, const struct uuid *b);

/* The order of their bytes, as by memcmp; of two that begin alike the shorter one is first. */
int uuid_compare(const struct uuid *a, const struct uuid *b);

/* The part of a UUID that a stub record holds: its first bytes, padded with zeros. */
#define UUID_STUB_SIZE 8
void uuid_stub(const struct uuid *uuid, uint8_t stub[UUID_STUB_SIZE]);
bool uuid_has_stub(const struct uuid *uuid, const uint8_t stub[UUID_STUB_SIZE]);

#endif
