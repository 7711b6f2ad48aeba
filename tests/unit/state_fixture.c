/*
 * The fixture of the suites of states: see state_fixture.h.
 */
#include "tests/unit/state_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/file_system.h"
#include "tests/support/suite.h"

#define BYTES PROFILE_VARIANT_BYTE_COVERAGE

/* What tests leave allocated is no defect, as in tests/support/covsplit_tool.c: paths, mostly. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

char *scratch;
char *path;

static void prepare(void)
{
    scratch = scratch_create("state");
    path = path_join(scratch, "STATE");
}

/* The forms of profiles, with counters and then with byte coverage. */
static struct profile_recipe form(int index)
{
    struct profile_recipe recipe = profile_form(index % PROFILE_FORMS);

    recipe.raw_version |= index < PROFILE_FORMS ? 0 : BYTES;
    recipe.records = 4;
    recipe.counters_each = STATE_COUNTERS / 4;
    return recipe;
}

void assert_says(const char *message, const char *part)
{
    ck_assert_msg(strstr(message, part) != NULL, "'%s' does not say '%s'", message, part);
}

/* ---- the state, which must not fail ---- */

struct state *open_state(enum state_access access)
{
    struct error error = {0};
    struct state *state;

    ck_assert_msg(state_open(&state, path, access, 0, &error), "%s", error.message);
    return state;
}

struct state_batch *start_batch(struct state *state)
{
    struct error error = {0};
    struct state_batch *batch;

    ck_assert_msg(state_batch_start(state, &batch, &error), "%s", error.message);
    return batch;
}

void add_sum(struct state_batch *batch, struct profile_sum *sum, uint64_t count)
{
    struct error error = {0};

    sum->profile_count = count;
    ck_assert_msg(state_batch_add(batch, sum, &error), "%s", error.message);
}

void commit(struct state_batch *batch)
{
    struct error error = {0};

    ck_assert_msg(state_batch_commit(batch, &error), "%s", error.message);
}

void fold(struct state *state)
{
    struct error error = {0};

    ck_assert_msg(state_fold(state, &error), "%s", error.message);
}

enum state_claim find_claim(struct state *state, const char *claim)
{
    struct error error = {0};
    enum state_claim result;

    ck_assert_msg(state_claim_find(state, claim, &result, &error), "%s", error.message);
    return result;
}

struct profile_sum *sum_of(const struct buffer *made)
{
    struct profile profile = profile_of(made);
    struct error error = {0};
    struct digest identity;
    struct profile_sum *sum;

    identity = profile_identity(&profile);
    sum = profile_sum_new(&identity, &error);
    ck_assert(sum != NULL && profile_sum_add(sum, &profile, 0, 1, &error));
    return sum;
}

void add_profile(struct profile_sum **sum, const struct buffer *made)
{
    struct profile profile = profile_of(made);
    struct error error = {0};

    if (*sum == NULL)
        *sum = sum_of(made);
    else
        ck_assert(profile_sum_add(*sum, &profile, 0, 1, &error));
}

size_t count_files(const char *folder)
{
    return directory_list(path_join(path, folder)).count;
}

char *only_file(const char *folder)
{
    struct text_list names = directory_list(path_join(path, folder));

    ck_assert_uint_eq(names.count, 1);
    return text_format("%s/%s/%s", path, folder, names.items[0]);
}

/* ---- what is in it ---- */

bool take_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct found *found = context;
    struct profile_sum *taken = profile_sum_new(&sum->identity, error);

    ck_assert(strncmp(name, path, strlen(path)) == 0);
    ck_assert_uint_lt(found->count, FOUND_MAX);
    found->profile_counts[found->count] = sum->profile_count;
    found->sums[found->count++] = taken;
    return taken != NULL && profile_sum_add_sum(taken, sum, error);
}

struct found read_state(enum state_access access)
{
    FREED_BY(drop_state) struct state *state = open_state(access);
    struct found found = {0};
    struct error error = {0};

    ck_assert_msg(state_read(state, take_sum, &found, &error), "%s", error.message);
    return found;
}

void free_found(struct found *found)
{
    for (size_t i = 0; i < found->count; i++)
        profile_sum_free(found->sums[i]);
}

/* ---- what is added to it ---- */

struct buffer made_of(int index)
{
    struct profile_recipe recipe = form(index);
    struct buffer made = profile_make(&recipe);

    profile_set_counter(&made, 0, 5);
    return made;
}

void add_one(struct state *state, bool is_committed)
{
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
    FREED_BY(buffer_free) struct buffer made = made_of(3);
    FREED_BY(drop_sum) struct profile_sum *sum = sum_of(&made);

    add_sum(batch, sum, 1);
    if (is_committed)
        commit(batch);
}

uint64_t count_profiles(void)
{
    FREED_BY(free_found) struct found found = read_state(STATE_READ);
    uint64_t count = found.count == 0 ? 0 : found.profile_counts[0];

    ck_assert_uint_le(found.count, 1);
    return count;
}

char *claim_new(struct state_batch *batch, const char *name)
{
    char *profile = path_join(scratch, name), claim[PATH_MAX];
    struct error error = {0};

    file_write_text(profile, name);
    ck_assert_msg(state_claim_path(batch, profile, claim, &error), "%s", error.message);
    ck_assert_int_eq(rename(profile, claim), 0);
    return strdup(claim);
}

void consume(struct state_batch *batch, const char *claim)
{
    struct error error = {0};

    ck_assert_msg(state_batch_consume(batch, claim, &error), "%s", error.message);
}

char *add_consumed(struct state *state, const char *name)
{
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
    FREED_BY(buffer_free) struct buffer made = made_of(3);
    FREED_BY(drop_sum) struct profile_sum *sum = sum_of(&made);
    char *claim = claim_new(batch, name);

    add_sum(batch, sum, 1);
    consume(batch, claim);
    commit(batch);
    return claim;
}

TCase *state_case(void)
{
    TCase *state = suite_case("state", 300, NULL);

    /* Most of the time is what is synced to a disk. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    tcase_add_checked_fixture(state, prepare, NULL);
    return state;
}
