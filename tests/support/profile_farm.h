/*
 * Many profiles of many images, without many runs: each image runs once, and its profile is written
 * again and again with other counters, so the right sums are known.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_PROFILE_FARM_H
#define COVSPLIT_TESTS_SUPPORT_PROFILE_FARM_H

#include <stddef.h>
#include <stdint.h>

#include "tests/support/file_system.h"
#include "tests/support/random.h"

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
