/*
 * The tests' own reader of raw profiles (.profraw), and many profiles that are made from a few.
 *
 * It shares nothing with the code under test. It follows LLVM's InstrProfData.inc, for raw versions
 * 7 to 11 and targets with 64 or 32 bits in either byte order.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_RAW_PROFILE_H
#define COVSPLIT_TESTS_SUPPORT_RAW_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/file_system.h"
#include "tests/support/random.h"

/* A part of the file's contents. */
struct part {
    const uint8_t *data;
    uint64_t size;
};

struct raw_profile {
    struct contents file;
    bool is_32_bit;
    bool is_big_endian;
    unsigned version;  /* without the variant bits */
    uint64_t variants; /* those bits */
    uint64_t header_size;
    uint64_t record_size;
    uint64_t record_count;
    uint64_t counter_size; /* 8; 1 with single-byte coverage */
    uint64_t padding;      /* after data, counters and bitmap, in sum */
    struct part binary_ids;
    struct part data;
    struct part counters;
    struct part bitmap;
    struct part names;
    struct part values; /* what follows the names, vtables included */
};

/* False with a reason if it is not a complete raw profile. Free with raw_profile_free in either
 * case. */
bool raw_profile_read(const char *path, struct raw_profile *profile, struct verdict *verdict);
void raw_profile_free(struct raw_profile *profile);

/* The sum of all counters; with single-byte coverage, how many regions were executed. */
uint64_t raw_profile_total(const struct raw_profile *profile);

/* Reads a number of `size` bytes in the profile's byte order. */
uint64_t raw_profile_number(const struct raw_profile *profile, const uint8_t *bytes, size_t size);

/* NumCounters of a record of the data section, which must exist. */
uint32_t raw_profile_record_counters(const struct raw_profile *profile, uint64_t record);

/* The raw profiles of a directory, sorted by the size of their counters. */
struct profile_set {
    struct raw_profile *profiles;
    size_t count;
};

bool profile_set_read(const char *directory, struct profile_set *set, struct verdict *verdict);
void profile_set_free(struct profile_set *set);

bool parts_equal(struct part a, struct part b);

/* ---- many profiles of many images, without many runs ----
 *
 * Each image runs once, and its profile is written again and again with other counters, so the
 * right sums are known. */

/* The profile of an image, from which others are made. */
struct farm_image {
    struct contents profile;
    size_t counters_offset;
    size_t counter_count;
    size_t first; /* the index of its first counter in all of the farm's */
};

struct farm {
    struct farm_image *images;
    size_t image_count;
    size_t counter_count; /* of all images */
};

/* Builds images with this many functions by clang-19, in the directory, and runs them. The profiles
 * are full ones. */
struct farm farm_create(const char *directory, size_t images, unsigned functions);

/* The sums of all counters of all images, zeros at first, in memory that forked processes share. */
uint64_t *farm_sums_create(const struct farm *farm);
void farm_sums_free(const struct farm *farm, uint64_t *sums);

/* Writes a profile of a random image with random counters to `path`, at once, and adds them to the
 * sums. Processes may do so at the same time. */
void farm_write(const struct farm *farm, struct random_state *random, const char *path,
                uint64_t *sums);

/* Reads what `covsplit merge STATE` makes of a state, and fails the Check test with the label
 * unless these are the sums. Images whose sums are all 0 may be missing. */
void farm_assert_sums(const struct farm *farm, const char *directory, const char *state,
                      const uint64_t *sums, const char *label);

#endif
