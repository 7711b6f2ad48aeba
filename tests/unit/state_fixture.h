/*
 * What the suites of states have in common: a state in a scratch directory, what is added to it,
 * and what is found in it.
 */
#ifndef COVSPLIT_TESTS_UNIT_STATE_FIXTURE_H
#define COVSPLIT_TESTS_UNIT_STATE_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/state/state.h"
#include "tests/support/freed.h"
#include "tests/unit/profile_maker.h"

#define STATE_COUNTERS 200

extern char *scratch;
extern char *path; /* of the state; there is none yet */

/* For tests that each have a scratch directory. */
TCase *state_case(void);

/* Fails the test unless the message has this part. */
void assert_says(const char *message, const char *part);

/* What must not fail. */
struct state *open_state(enum state_access access);
struct state_batch *start_batch(struct state *state);

void add_sum(struct state_batch *batch, struct profile_sum *sum, uint64_t count);
void commit(struct state_batch *batch);
void fold(struct state *state);

enum state_claim find_claim(struct state *state, const char *claim);

/* The sum of one profile. */
struct profile_sum *sum_of(const struct buffer *made);

/* Adds a profile to a sum, which is made if it is NULL. */
void add_profile(struct profile_sum **sum, const struct buffer *made);

/* The number of files in a folder of the state. */
size_t count_files(const char *folder);

/* The path of the only one. */
char *only_file(const char *folder);

#define FOUND_MAX 8

struct found {
    size_t count;
    struct profile_sum *sums[FOUND_MAX];
    uint64_t profile_counts[FOUND_MAX];
};

/* A state_visitor whose context is a struct found. */
bool take_sum(void *context, struct profile_sum *sum, const char *name, struct error *error);

/* Opens the state and reads it. */
struct found read_state(enum state_access access);
void free_found(struct found *found);

/* A profile of the form. */
struct buffer made_of(int index);

/* Adds one profile of form 3, without folding. */
void add_one(struct state *state, bool is_committed);

/* The number of profiles in the state, which has one image at most. */
uint64_t count_profiles(void);

/* Writes a file below the scratch directory and claims it. */
char *claim_new(struct state_batch *batch, const char *name);
void consume(struct state_batch *batch, const char *claim);

/* Adds one profile of form 3 that is consumed, without folding. Returns its claim. */
char *add_consumed(struct state *state, const char *name);

/* For FREED_BY. */
DEFINE_DROP(drop_sum, struct profile_sum, profile_sum_free)
DEFINE_DROP(drop_state, struct state, state_close)
DEFINE_DROP(drop_batch, struct state_batch, state_batch_free)

#endif
