/*
 * Records which functions each test reaches, while profiles of any images are added up. The result
 * is the field `tests` of a sum (profile_sum.h).
 *
 *     test_recorder_start(&recorder);
 *     for each profile, also in several threads at a time:
 *         test_recorder_know(&recorder, &identity, sidecar, &profile, name, &error);
 *         test_recorder_add(&recorder, &identity, &profile, "the test", name, &error);
 *     for each image, when all have been added:
 *         test_recorder_encode(&recorder, &identity, name, &tests, &error);
 *     test_recorder_clear(&recorder);      and so on with the next batch
 *     test_recorder_free(&recorder);
 */
#ifndef COVSPLIT_COMMON_STATE_TEST_RECORDER_H
#define COVSPLIT_COMMON_STATE_TEST_RECORDER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"

/* ---- the functions of an image ---- */

/* The functions of an image, as its profiles have them: one for each data record, with its NameRef
 * and the place of its counters. They are read from one profile, and are then used to find out
 * which functions another profile of the same image has reached: those with a counter that is not
 * 0, or with byte coverage, where 0 means "executed", those with a counter that is 0. This is what
 * llvm-profdata calls covered. */
struct image_function {
    uint64_t name_ref;
    uint64_t offset; /* of its counters in those of the profile, in bytes */
    uint64_t size;   /* of its counters, in bytes */
};

/* Initialize to {0}; free with image_functions_free. */
struct image_functions {
    struct image_function *list;
    size_t count;
    bool has_byte_coverage;
    struct names names; /* if they were wanted */
};

/* Reads the functions of the image that wrote the profile. `sidecar` may be NULL if the profile
 * lacks nothing; it is not needed afterwards. `name` is the profile's. Free them even after a
 * failure. */
bool image_functions_read(struct image_functions *functions, const struct profile *profile,
                          struct profile_sidecar *sidecar, bool with_names, const char *name,
                          struct error *error);
void image_functions_free(struct image_functions *functions);

/* Adds the functions that a profile of this image has reached to the bit set (reached.h). The
 * profile must have the same identity (profile_sum.h) as the one that the functions were read from.
 */
void image_functions_reached(const struct image_functions *functions, const struct profile *profile,
                             uint8_t *set);

/* ---- the recorder ---- */

struct test_recorder {
    pthread_mutex_t lock;
    struct recorded_image *images;
    size_t count, capacity;
    uint64_t test_memory; /* what the tests take, and test_recorder_clear frees */
};

void test_recorder_start(struct test_recorder *recorder);
void test_recorder_free(struct test_recorder *recorder);

/* Reads the functions of the image, unless it is known. `sidecar` may be NULL if the profile lacks
 * nothing. `name` is the profile's. */
bool test_recorder_know(struct test_recorder *recorder, const struct digest *identity,
                        struct profile_sidecar *sidecar, const struct profile *profile,
                        const char *name, struct error *error);

/* Adds what a profile of a known image has reached. The test's name must have been checked
 * (reached_check_name). False only if out of memory; nothing has changed then. */
bool test_recorder_add(struct test_recorder *recorder, const struct digest *identity,
                       const struct profile *profile, const char *test, const char *name,
                       struct error *error);

/* Adds the encoded matrix of an image to *to, which has another one of it, or is empty. After a
 * failure it is as it was. */
bool test_recorder_encode(struct test_recorder *recorder, const struct digest *identity,
                          const char *name, struct buffer *to, struct error *error);

/* Forgets the tests, but not the functions of the images. */
void test_recorder_clear(struct test_recorder *recorder);

#endif
