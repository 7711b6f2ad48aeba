/*
 * Raw profiles made by hand, of any version, pointer size and byte order, for the unit tests.
 */
#ifndef COVSPLIT_TESTS_UNIT_PROFILE_MAKER_H
#define COVSPLIT_TESTS_UNIT_PROFILE_MAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/profile.h"
#include "tests/support/freed.h"

/* What a profile is made of. Every record has `counters_each` counters (and bitmap bytes, where the
 * version has them and `bitmap` is set), one after the other. */
struct profile_recipe {
    uint64_t raw_version; /* with variant bits */
    bool is_32_bit;
    bool big_endian;
    bool bitmap;
    /* As on Windows: 7 bytes of padding count as counters, which are in front of the data, and
     * distances have 32 bits. Only with counters of 8 bytes and from version 8 on. */
    bool windows;
    uint64_t records; /* 0: as with binary correlation */
    uint64_t counters_each;
    const char *names;      /* NULL: none */
    bool is_named;          /* the records are of f0, f1, ...; without `names`, these are there */
    const char *binary_id;  /* of 8, 16, ... characters; NULL: none */
    uint64_t load_address;  /* of the counters, where the version has addresses */
    uint64_t stub_counters; /* not 0: the one record is a stub of so many counters, of 16 bytes: */
    const uint8_t *stub;
};

/* Forms of profiles, by number: versions 7 to 11 in each of the four forms; behind them 8 to 11 as
 * Windows has them, in 64 and 32 bits. Each has 5 records with 3 counters. */
#define PROFILE_VERSIONS      5
#define PROFILE_FORMS         (PROFILE_VERSIONS * 4)
#define PROFILE_WINDOWS_FORMS 8
struct profile_recipe profile_form(int number);

/* Where the counters are from the data; on Windows, as far in the other direction. */
#define MAKER_COUNTERS_DISTANCE UINT64_C(0x1000)
#define MAKER_BITMAP_DISTANCE   UINT64_C(0x9000)

/* The profile's bytes; the counters are 0 (not executed, with byte coverage). */
struct buffer profile_make(const struct profile_recipe *recipe);

/* The data section of such a profile, as it is in the image: addresses are link-time ones. */
struct buffer profile_make_data(const struct profile_recipe *recipe, uint64_t counters_address);

/* Reads what was made. */
struct profile profile_of(const struct buffer *made);

/* Sets a counter in the bytes. */
void profile_set_counter(struct buffer *made, uint64_t index, uint64_t value);
uint64_t profile_get_counter(const struct profile *profile, uint64_t index);

#endif
