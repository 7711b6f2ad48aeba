/*
 * Records which functions each test reaches, while profiles of any images are added up. The result
 * is the field `tests` of a state_part (state.h).
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
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"

struct test_recorder {
    pthread_mutex_t lock;
    struct recorded_image **images;
    size_t count, capacity;
    uint64_t test_memory; /* of the matrices */
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

/* Adds the encoded matrix of an image that need not be known. `name` is that of its file. Nothing
 * has changed after a failure. */
bool test_recorder_add_part(struct test_recorder *recorder, const struct digest *identity,
                            struct bytes tests, const char *name, struct error *error);

/* How much memory the tests take, which is freed by test_recorder_clear. */
uint64_t test_recorder_memory(struct test_recorder *recorder);

/* Sets *to, which is empty, to the encoded matrix of an image; leaves it empty if there is none. */
bool test_recorder_encode(struct test_recorder *recorder, const struct digest *identity,
                          const char *name, struct buffer *to, struct error *error);

/* Forgets the tests, but not the functions of the images. */
void test_recorder_clear(struct test_recorder *recorder);

#endif
