/*
 * What the suites of the library have in common: a store with the sidecar of one made-up image, and
 * a profile that its split image wrote.
 */
#ifndef COVSPLIT_TESTS_UNIT_READER_FIXTURE_H
#define COVSPLIT_TESTS_UNIT_READER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/bytes.h"
#include "reader/covsplit.h"
#include "tests/support/freed.h"
#include "tests/unit/profile_maker.h"

#define ID        "build-id"
#define ID_HEX    "6275696c642d6964"
#define RECORDS   4
#define EACH      2 /* counters, and bitmap bytes, of a record */
#define MAIN_HASH UINT64_C(0xdb956436e78dd5fa)

/* The content of the sidecar's names section. */
#define NAMES_SIZE 15
extern const char fixture_names[NAMES_SIZE + 1];

/* A profile of the unsplit image, but for its names. */
extern const struct profile_recipe full_recipe;

/* A directory with a store, the sidecar in it, and a lightweight profile. */
struct fixture {
    char directory[32];
    char sidecar[128];
    char profile[128];
    struct buffer sidecar_bytes;
    struct buffer profile_bytes;
};

/* Counter 5 of the profile is 77, all others are 0. */
void set_up(struct fixture *fixture);
void tear_down(struct fixture *fixture);

/* Fails the test unless the message of the error has this part. Frees the error. */
void assert_message(covsplit_error *error, const char *part);

/* Sinks: the first appends to its context, a struct buffer; the second takes nothing. */
bool collect(void *context, const void *data, size_t size);
bool stop(void *context, const void *data, size_t size);

/* For FREED_BY. */
DEFINE_DROP(drop_opened_sidecar, covsplit_sidecar, covsplit_sidecar_close)
DEFINE_DROP(drop_profile, covsplit_profile, covsplit_profile_close)
DEFINE_DROP(drop_merger, covsplit_merger, covsplit_merger_free)
DEFINE_DROP(drop_store, covsplit_store, covsplit_store_close)

#endif
