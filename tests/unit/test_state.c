/*
 * States of incremental merges: sums in all forms over many batches, what is left by processes that
 * ended at any moment, claims, and files of states that are damaged or made to do harm.
 */
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/state/reached.h"
#include "common/state/state.h"
#include "tests/support/file_system.h"
#include "tests/support/random.h"
#include "tests/support/rounds.h"
#include "tests/support/suite.h"
#include "tests/unit/profile_maker.h"

#define BYTES     PROFILE_VARIANT_BYTE_COVERAGE
#define VERSIONS  5
#define FORMS     (VERSIONS * 4 * 2)
#define COUNTERS  200
#define MUTATIONS 5000

/* What tests leave allocated is no defect, as in tests/support/covsplit_tool.c: paths, mostly. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static char *scratch;
static char *path;

static void prepare(void)
{
    scratch = scratch_create("state");
    path = path_join(scratch, "STATE");
}

/* Versions 7 to 11, in both sizes and byte orders, with counters and byte coverage. */
static struct profile_recipe form(int index)
{
    return (struct profile_recipe){.raw_version = (7 + (unsigned)index % VERSIONS) |
                                                  (index / VERSIONS & 4 ? BYTES : 0),
                                   .is_32_bit = (index / VERSIONS & 1) != 0,
                                   .big_endian = (index / VERSIONS & 2) != 0,
                                   .bitmap = true,
                                   .records = 4,
                                   .counters_each = COUNTERS / 4,
                                   .names = "some names",
                                   .binary_id = "build-id",
                                   .load_address = 0x4000};
}

static void assert_says(const char *message, const char *part)
{
    ck_assert_msg(strstr(message, part) != NULL, "'%s' does not say '%s'", message, part);
}

/* ---- the state, which must not fail ---- */

static struct state *open_state(enum state_access access)
{
    struct error error = {0};
    struct state *state;

    ck_assert_msg(state_open(&state, path, access, 0, &error), "%s", error.message);
    return state;
}

static struct state_batch *start_batch(struct state *state)
{
    struct error error = {0};
    struct state_batch *batch;

    ck_assert_msg(state_batch_start(state, &batch, &error), "%s", error.message);
    return batch;
}

/* An encoded matrix of one test, which reaches nothing; of no test if that is "". */
static struct buffer encode_test(const char *test)
{
    const uint8_t none[1] = {0};
    struct reached *reached = reached_new(4);
    struct buffer encoded = {0};
    struct error error = {0};

    if (test[0] != '\0')
        ck_assert(reached_add(reached, test, none) &&
                  reached_encode(reached, test, &encoded, &error));
    reached_free(reached);
    return encoded;
}

/* With the name of a test, "" if there is none. */
static void add_sum(struct state_batch *batch, struct profile_sum *sum, uint64_t count,
                    const char *test)
{
    struct bytes bytes = profile_sum_combined(sum);
    struct buffer tests = encode_test(test);
    struct state_part part = {.profile_count = count, .sum = sum, .tests = buffer_view(&tests)};
    struct error error = {0};
    struct profile profile;

    ck_assert(profile_parse(bytes, 0, "sum", &profile, &error) &&
              profile_identity(&profile, "sum", &part.identity, &error));
    ck_assert_msg(state_batch_add(batch, &part, &error), "%s", error.message);
    buffer_free(&tests);
}

static void commit(struct state_batch *batch)
{
    struct error error = {0};

    ck_assert_msg(state_batch_commit(batch, &error), "%s", error.message);
}

static void fold(struct state *state)
{
    struct error error = {0};

    ck_assert_msg(state_fold(state, &error), "%s", error.message);
}

static enum state_claim find_claim(struct state *state, const char *claim)
{
    struct error error = {0};
    enum state_claim result;

    ck_assert_msg(state_claim_find(state, claim, &result, &error), "%s", error.message);
    return result;
}

static struct profile_sum *sum_of(const struct buffer *made)
{
    struct profile profile = profile_of(made);
    struct error error = {0};
    struct profile_sum *sum = profile_sum_new(&profile, "made", &error);

    ck_assert_msg(sum != NULL, "%s", error.message);
    return sum;
}

static void add_profile(struct profile_sum **sum, const struct buffer *made)
{
    struct profile profile = profile_of(made);
    struct error error = {0};

    if (*sum == NULL)
        *sum = sum_of(made);
    else
        ck_assert(profile_sum_add(*sum, &profile, 0, 1, &error));
}

/* The number of files in a folder of the state. */
static size_t count_files(const char *folder)
{
    return directory_list(path_join(path, folder)).count;
}

static char *only_file(const char *folder)
{
    struct text_list names = directory_list(path_join(path, folder));

    ck_assert_uint_eq(names.count, 1);
    return text_format("%s/%s/%s", path, folder, names.items[0]);
}

/* ---- what is in it ---- */

#define IMAGES_MAX 8

struct found {
    bool keeps_tests;
    size_t count;
    struct profile_sum *sums[IMAGES_MAX];
    uint64_t profile_counts[IMAGES_MAX];
    char *tests[IMAGES_MAX]; /* their names, one after the other */
};

static char *test_names(struct bytes encoded)
{
    struct reached_table table;
    struct error error = {0};
    char *names = text_format("%s", "");

    ck_assert_msg(reached_open(&table, encoded, "tests", UINT64_MAX, &error), "%s", error.message);
    for (size_t i = 0; i < table.test_count; i++)
        names = text_format("%s%s", names, table.tests[i]);
    reached_close(&table);
    return names;
}

static bool take_part(void *context, struct state_part *part, const char *name, struct error *error)
{
    struct found *found = context;

    (void)error;
    ck_assert(strncmp(name, path, strlen(path)) == 0);
    ck_assert_uint_lt(found->count, IMAGES_MAX);
    found->profile_counts[found->count] = part->profile_count;
    found->tests[found->count] = NULL;
    if (found->keeps_tests)
        found->tests[found->count] = test_names(part->tests);
    found->sums[found->count++] = part->sum;
    part->sum = NULL;
    return true;
}

static struct found read_state(enum state_access access)
{
    struct state *state = open_state(access);
    struct found found = {.keeps_tests = true};
    struct error error = {0};

    ck_assert_msg(state_read(state, take_part, &found, &error), "%s", error.message);
    state_close(state);
    return found;
}

static void free_found(struct found *found)
{
    for (size_t i = 0; i < found->count; i++)
        profile_sum_free(found->sums[i]);
}

static void assert_equal_sums(struct profile_sum *a, struct profile_sum *b)
{
    ck_assert_uint_eq(profile_sum_plane_count(a), profile_sum_plane_count(b));
    ck_assert(bytes_equal(profile_sum_combined(a), profile_sum_combined(b)));
    for (unsigned i = 0; i < profile_sum_plane_count(a); i++)
        ck_assert(bytes_equal(profile_sum_plane(a, i), profile_sum_plane(b, i)));
}

/* ---- sums ---- */

/* 41 profiles in batches of 1, 2, 3, ... of which some are folded one at a time and others
 * together: the sum, with all its planes, is that of adding them directly. */
START_TEST(test_sums)
{
    struct profile_recipe recipe = form(_i);
    struct random_state random = random_start((uint64_t)_i);
    struct profile_sum *direct = NULL, *sum = NULL;
    struct state *state = open_state(STATE_CREATE);
    unsigned batches = 0, in_batch = 0;
    struct state_batch *batch;
    struct found found;

    for (unsigned run = 0; run < 41; run++) {
        struct buffer made = profile_make(&recipe);

        for (uint64_t i = 0; i < COUNTERS; i++)
            profile_set_counter(&made, i,
                                run == 7 && i == 3 ? UINT64_MAX : random_below(&random, 3));
        add_profile(&direct, &made);
        add_profile(&sum, &made);
        buffer_free(&made);
        if (++in_batch <= batches && run != 40)
            continue;
        batch = start_batch(state);
        add_sum(batch, sum, in_batch, "");
        commit(batch);
        state_batch_free(batch);
        profile_sum_free(sum);
        sum = NULL;
        in_batch = 0;
        if (++batches % 3 == 0)
            fold(state);
    }
    found = read_state(STATE_READ);
    ck_assert_uint_eq(found.count, 1);
    ck_assert_uint_eq(found.profile_counts[0], 41);
    assert_equal_sums(found.sums[0], direct);
    free_found(&found);
    fold(state);
    found = read_state(STATE_WRITE);
    assert_equal_sums(found.sums[0], direct);
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert_uint_eq(count_files("images"), 1);
    free_found(&found);
    profile_sum_free(direct);
    state_close(state);
}
END_TEST

/* Several images, one of them twice, and bytes beside the sums. */
START_TEST(test_images)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    struct profile_sum *sums[4];
    struct found found;

    for (int i = 0; i < 4; i++) {
        struct profile_recipe recipe = form(i);
        struct buffer made = profile_make(&recipe);

        sums[i] = sum_of(&made);
        add_sum(batch, sums[i], 1, i == 0 ? "a" : "");
        buffer_free(&made);
    }
    add_sum(batch, sums[0], 1, "b");
    commit(batch);
    state_batch_free(batch);
    fold(state);
    batch = start_batch(state);
    add_sum(batch, sums[0], 1, "c");
    commit(batch);
    state_batch_free(batch);
    for (int i = 0; i < 2; i++) {
        unsigned of_three = 0;

        found = read_state(STATE_READ);
        ck_assert_uint_eq(found.count, 4);
        for (size_t j = 0; j < 4; j++) {
            bool is_first = strcmp(found.tests[j], "abc") == 0;

            ck_assert(is_first || found.tests[j][0] == '\0');
            ck_assert_uint_eq(found.profile_counts[j], is_first ? 3 : 1);
            of_three += is_first;
        }
        ck_assert_uint_eq(of_three, 1);
        free_found(&found);
        fold(state);
    }
    for (int i = 0; i < 4; i++)
        profile_sum_free(sums[i]);
    state_close(state);
}
END_TEST

/* ---- batches that were not finished ---- */

static struct buffer made_of(int index)
{
    struct profile_recipe recipe = form(index);
    struct buffer made = profile_make(&recipe);

    profile_set_counter(&made, 0, 5);
    return made;
}

/* Adds one profile of form 3, without folding. */
static void add_one(struct state *state, bool is_committed)
{
    struct state_batch *batch = start_batch(state);
    struct buffer made = made_of(3);
    struct profile_sum *sum = sum_of(&made);

    add_sum(batch, sum, 1, "");
    if (is_committed)
        commit(batch);
    state_batch_free(batch);
    profile_sum_free(sum);
    buffer_free(&made);
}

static uint64_t count_profiles(void)
{
    struct found found = read_state(STATE_READ);
    uint64_t count = found.count == 0 ? 0 : found.profile_counts[0];

    ck_assert_uint_le(found.count, 1);
    free_found(&found);
    return count;
}

/* A batch that was folded, but not removed, and comes back as after a power failure. */
START_TEST(test_fold_twice)
{
    struct state *state = open_state(STATE_CREATE);
    char *kept = path_join(scratch, "kept"), *batch;

    add_one(state, true);
    batch = only_file("batches");
    file_copy(batch, kept);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    file_copy(kept, batch);
    ck_assert_uint_eq(count_profiles(), 1);
    fold(state);
    ck_assert_uint_eq(count_profiles(), 1);
    ck_assert_uint_eq(count_files("batches"), 0);
    add_one(state, true);
    add_one(state, false);
    ck_assert_uint_eq(count_profiles(), 2);
    ck_assert_uint_eq(count_files("batches"), 1);
    state_close(state);
}
END_TEST

/* What a process leaves that is killed while it prepares a batch. */
START_TEST(test_leftovers)
{
    static const char *const leftovers[] = {
        "batches/00112233445566778899aabbccddeeff.open",
        "batches/.00112233445566778899aabbccddeeff.covsplit-abcdef",
        "images/.00112233445566778899aabbccddeeff.covsplit-abcdef",
    };
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *living = start_batch(state);
    char *open_file = only_file("batches");

    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++)
        file_write_text(path_join(path, leftovers[i]), "");
    file_write_text(path_join(path, "images/notes"), "of the user");
    fold(state);
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++)
        ck_assert_msg(!file_exists(path_join(path, leftovers[i])), "%s", leftovers[i]);
    ck_assert(file_exists(open_file));
    ck_assert(file_exists(path_join(path, "images/notes")));
    state_batch_free(living);
    ck_assert(!file_exists(open_file));
    state_close(state);
}
END_TEST

/* ---- claims ---- */

static char *claim_new(struct state_batch *batch, const char *name)
{
    char *profile = path_join(scratch, name), claim[PATH_MAX];
    struct error error = {0};

    file_write_text(profile, name);
    ck_assert_msg(state_claim_path(batch, profile, claim, &error), "%s", error.message);
    ck_assert_int_eq(rename(profile, claim), 0);
    return strdup(claim);
}

static void consume(struct state_batch *batch, const char *claim)
{
    struct error error = {0};

    ck_assert_msg(state_batch_consume(batch, claim, &error), "%s", error.message);
}

/* Adds one profile of form 3 that is consumed, without folding. Returns its claim. */
static char *add_consumed(struct state *state, const char *name)
{
    struct state_batch *batch = start_batch(state);
    struct buffer made = made_of(3);
    struct profile_sum *sum = sum_of(&made);
    char *claim = claim_new(batch, name);

    add_sum(batch, sum, 1, "");
    consume(batch, claim);
    commit(batch);
    state_batch_free(batch);
    profile_sum_free(sum);
    buffer_free(&made);
    return claim;
}

START_TEST(test_claims)
{
    struct state *state = open_state(STATE_CREATE), *other;
    struct state_batch *batch = start_batch(state), *second;
    char *counted = claim_new(batch, "a.profraw"), *left_out = claim_new(batch, "a.profraw");
    char again[PATH_MAX];
    const char *name = strrchr(counted, '/') + 1;
    struct error error = {0};

    ck_assert_str_ne(counted, left_out);
    ck_assert_uint_eq(state_claim_name_length(name), strlen("a.profraw"));
    ck_assert(strncmp(name, ".a.profraw.", 11) == 0);
    ck_assert_uint_eq(state_claim_name_length("a.profraw"), 0);
    ck_assert_uint_eq(state_claim_name_length(".a.profraw.covsplit-claim-0011-1"), 0);
    ck_assert_int_eq(find_claim(state, counted), STATE_CLAIM_LIVING);
    consume(batch, counted);
    ck_assert(!state_batch_consume(batch, path_join(scratch, "a.profraw"), &error));
    commit(batch);
    ck_assert_int_eq(find_claim(state, counted), STATE_CLAIM_LIVING);
    state_batch_free(batch);
    ck_assert_int_eq(find_claim(state, counted), STATE_CLAIM_COUNTED);
    ck_assert_int_eq(find_claim(state, left_out), STATE_CLAIM_UNCOUNTED);
    fold(state);
    ck_assert(!file_exists(counted));
    ck_assert(file_exists(left_out));
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert_int_eq(find_claim(state, left_out), STATE_CLAIM_UNCOUNTED);
    /* Claimed anew it has the name that it had at first; and is not to be counted twice. */
    second = start_batch(state);
    ck_assert(state_claim_path(second, left_out, again, &error));
    ck_assert_uint_eq(state_claim_name_length(strrchr(again, '/') + 1), strlen("a.profraw"));
    ck_assert(!state_batch_consume(second, left_out, &error));
    state_batch_free(second);
    state_close(state);
    path = path_join(scratch, "OTHER");
    other = open_state(STATE_CREATE);
    ck_assert_int_eq(find_claim(other, left_out), STATE_CLAIM_FOREIGN);
    state_close(other);
}
END_TEST

/* A claim in a directory that is not there may be there for others: the batch stays, so that the
 * claim is known to count. */
START_TEST(test_claim_elsewhere)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char *here = path_join(scratch, "here"), *there = path_join(scratch, "there");
    char *claim;

    directory_create(here);
    claim = claim_new(batch, "here/a.profraw");
    consume(batch, claim);
    commit(batch);
    state_batch_free(batch);
    ck_assert_int_eq(rename(here, there), 0);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_COUNTED);
    /* Another directory of the same path does not have it either, and proves nothing. */
    directory_create(here);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_COUNTED);
    directory_remove(here);
    ck_assert_int_eq(rename(there, here), 0);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert(!file_exists(claim));
    state_close(state);
}
END_TEST

/* The longest names that a file can have. */
START_TEST(test_long_names)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char name[NAME_MAX + 1], claim[PATH_MAX], *too_long;
    struct error error = {0};

    memset(name, 'x', NAME_MAX);
    name[NAME_MAX] = '\0';
    consume(batch, claim_new(batch, name));
    too_long = malloc(PATH_MAX);
    memset(too_long, '/', PATH_MAX - 1);
    too_long[PATH_MAX - 1] = '\0';
    ck_assert(!state_claim_path(batch, too_long, claim, &error));
    state_batch_free(batch);
    state_close(state);
}
END_TEST

/* More batches that have to stay than are folded at a time: those that were folded before count no
 * second time, whichever are folded when. */
START_TEST(test_many_stay)
{
    struct state *state = open_state(STATE_CREATE);
    char *here = path_join(scratch, "here"), *there = path_join(scratch, "there");

    directory_create(here);
    for (unsigned i = 0; i < 66; i++)
        add_consumed(state, "here/a.profraw");
    ck_assert_int_eq(rename(here, there), 0);
    for (unsigned i = 0; i < 3; i++) {
        fold(state);
        ck_assert_uint_eq(count_files("batches"), 66);
        ck_assert_uint_eq(count_profiles(), 66);
    }
    ck_assert_int_eq(rename(there, here), 0);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert_uint_eq(directory_list(here).count, 0);
    ck_assert_uint_eq(count_profiles(), 66);
    state_close(state);
}
END_TEST

/* In a directory whose absolute path is so long that a claim in it has none. */
START_TEST(test_long_path)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char name[201] = "", here[PATH_MAX] = "", claim[PATH_MAX];
    struct error error = {0};

    memset(name, 'd', sizeof name - 1);
    ck_assert_int_eq(chdir(scratch), 0);
    while (strlen(here) < PATH_MAX - 220) {
        ck_assert(mkdir(name, 0777) == 0 && chdir(name) == 0);
        ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    }
    name[NAME_MAX / 2] = '\0';
    ck_assert(state_claim_path(batch, name, claim, &error));
    ck_assert(!state_batch_consume(batch, claim, &error));
    assert_says(error.message, "path is too long");
    state_batch_free(batch);
    fold(state);
    state_close(state);
    name[NAME_MAX / 2] = 'd';
    while (strcmp(getcwd(here, sizeof here), scratch) != 0)
        ck_assert(chdir("..") == 0 && rmdir(name) == 0);
}
END_TEST

/* ---- accidents ---- */

/* Adds one profile of each of two images, of which the second is large. */
static void add_two(struct state *state)
{
    struct profile_recipe large = {
        .raw_version = 9, .records = 4, .counters_each = 2000, .names = "large"};
    struct buffer made[] = {made_of(3), profile_make(&large)};
    struct state_batch *batch = start_batch(state);

    for (size_t i = 0; i < 2; i++) {
        struct profile_sum *sum = sum_of(&made[i]);

        add_sum(batch, sum, 1, "");
        profile_sum_free(sum);
        buffer_free(&made[i]);
    }
    commit(batch);
    state_batch_free(batch);
}

static void assert_two(uint64_t times)
{
    struct found found = read_state(STATE_READ);

    ck_assert_uint_eq(found.count, 2);
    ck_assert_uint_eq(found.profile_counts[0], times);
    ck_assert_uint_eq(found.profile_counts[1], times);
    free_found(&found);
}

/* The disk is full in the middle of a fold: the small image has been written, the large has not. */
START_TEST(test_full_disk)
{
    struct rlimit limit = {.rlim_cur = 8000, .rlim_max = RLIM_INFINITY};
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch;
    struct error error = {0};

    add_two(state);
    fold(state);
    add_two(state);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!state_fold(state, &error));
    assert_says(error.message, "cannot be written");
    assert_two(2);
    ck_assert(!state_fold(state, &error));
    assert_two(2);
    /* And while a batch is prepared. */
    batch = start_batch(state);
    limit.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert(!state_batch_consume(batch, claim_new(batch, "a.profraw"), &error) ||
              !state_batch_commit(batch, &error));
    state_batch_free(batch);
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_two(2);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    assert_two(2);
    state_close(state);
}
END_TEST

/* An image's file is damaged when a batch is to be folded: the batch stays, with its claims. */
START_TEST(test_fold_into_damage)
{
    struct state *state = open_state(STATE_CREATE);
    struct error error = {0};
    struct contents good;
    char *claim, *image;

    add_one(state, true);
    fold(state);
    image = only_file("images");
    good = file_read(image);
    claim = add_consumed(state, "a.profraw");
    good.data[good.size / 2] ^= 1;
    file_write(image, good.data, good.size);
    ck_assert(!state_fold(state, &error));
    assert_says(error.message, image);
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert(file_exists(claim));
    good.data[good.size / 2] ^= 1;
    file_write(image, good.data, good.size);
    ck_assert_uint_eq(count_profiles(), 2);
    /* Who removes the file gives up what is in it, and no more. */
    unlink(image);
    ck_assert_uint_eq(count_profiles(), 1);
    fold(state);
    ck_assert_uint_eq(count_profiles(), 1);
    ck_assert(!file_exists(claim));
    state_close(state);
}
END_TEST

/* The state is removed while a process uses it, and another process makes a new one: the first has
 * the lock of a file that is gone, so it must not change the new one, nor say what its claims are.
 */
START_TEST(test_replaced)
{
    struct state *state = open_state(STATE_CREATE), *other;
    struct state_batch *batch = start_batch(state);
    struct found found = {0};
    struct error error = {0};
    enum state_claim what;
    char *claim = claim_new(batch, "a.profraw");

    consume(batch, claim);
    ck_assert_int_eq(rename(path, path_join(scratch, "OLD")), 0);
    ck_assert(!state_claim_find(state, claim, &what, &error));
    assert_says(error.message, "removed or replaced");
    other = open_state(STATE_CREATE);
    add_one(other, true);
    ck_assert(!state_claim_find(state, claim, &what, &error));
    ck_assert(!state_batch_commit(batch, &error));
    ck_assert(!state_batch_may_count(batch));
    assert_says(error.message, "removed or replaced");
    ck_assert(!state_fold(state, &error));
    ck_assert(!state_read(state, take_part, &found, &error));
    ck_assert_uint_eq(found.count, 0);
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert_uint_eq(count_profiles(), 1);
    ck_assert(file_exists(claim));
    state_batch_free(batch);
    state_close(state);
    state_close(other);
}
END_TEST

/* Somebody cleans up, and removes NONCE.open of a living batch. Others may have taken its claims,
 * so it must not count them. */
START_TEST(test_open_file_removed)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char *claim = claim_new(batch, "a.profraw"), *open_file = only_file("batches");
    struct error error = {0};

    consume(batch, claim);
    unlink(open_file);
    ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_UNCOUNTED);
    if (_i != 0)
        file_write_text(open_file, "");
    ck_assert(!state_batch_commit(batch, &error));
    ck_assert(!state_batch_may_count(batch));
    assert_says(error.message, "does not count");
    state_batch_free(batch);
    ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_UNCOUNTED);
    ck_assert_uint_eq(count_files("batches"), 0);
    state_close(state);
}
END_TEST

/* ---- power failures ---- */

/* What was synced, named and removed, in that order: "sync batches", below the scratch directory.
 */
static struct text_list *events;

/* What cannot be synced; NULL: nothing. */
static const char *failing;

static void note_event(const char *what, const char *name)
{
    size_t length = scratch == NULL ? 0 : strlen(scratch);

    if (events != NULL && strncmp(name, scratch, length) == 0)
        text_list_add_format(events, "%s %s", what, name[length] == '/' ? name + length + 1 : ".");
}

int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __real_unlink(const char *name);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_unlink(const char *name);
int __wrap_unlinkat(int fd, const char *name, int flags);

static const char *path_of(int fd)
{
    static char name[PATH_MAX];
    char link[64];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = '\0';
    return name;
}

int __wrap_fsync(int fd)
{
    const char *name = path_of(fd);

    note_event("sync", name);
    if (failing == NULL || fnmatch(failing, name + strlen(scratch) + 1, 0) != 0)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

int __wrap_rename(const char *from, const char *to)
{
    note_event("name", to);
    return __real_rename(from, to);
}

int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    note_event("name", to);
    return __real_linkat(from_fd, from, to_fd, to, flags);
}

int __wrap_unlink(const char *name)
{
    note_event("remove", name);
    return __real_unlink(name);
}

int __wrap_unlinkat(int fd, const char *name, int flags)
{
    note_event("remove", text_format("%s/%s", path_of(fd), name));
    return __real_unlinkat(fd, name, flags);
}

/* The index of the first event like this, from an index on. */
static size_t find_event(const char *like, size_t from)
{
    size_t i = from;

    while (i < events->count && fnmatch(like, events->items[i], 0) != 0)
        i++;
    ck_assert_msg(i < events->count, "no '%s' after '%s'", like,
                  from == 0 ? "" : events->items[from - 1]);
    return i;
}

/* Asserts that the first event like one comes before the first like another, and returns the
 * latter's index. */
static size_t assert_before(const char *one, const char *other, size_t from)
{
    size_t index = find_event(other, from);

    ck_assert_msg(find_event(one, from) < index, "'%s' is not before '%s'", one, other);
    return index;
}

#define NONCE "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]*"

/* At a power failure names come back, or are lost, that were not synced. So each step has to be on
 * the disk before the next, which relies on it. */
START_TEST(test_synced)
{
    struct state *state = open_state(STATE_CREATE);
    struct text_list list = {0};
    size_t at;

    directory_create(path_join(scratch, "here"));
    events = &list;
    /* The contents of a batch, then its name, then what it is folded into. */
    add_consumed(state, "here/a.profraw");
    at = assert_before("sync STATE/batches/*", "name STATE/batches/" NONCE, 0);
    find_event("sync STATE/batches", at);
    /* What was removed before, which the image now forgets, and what is added to it. */
    at = events->count;
    fold(state);
    assert_before("sync STATE/batches", "sync STATE/images/*", at);
    assert_before("sync STATE/images/*", "name STATE/images/" NONCE, at);
    /* What was folded, then the profile goes, then the batch, which says that it counts. */
    at = assert_before("name STATE/images/" NONCE, "sync STATE/images", at);
    at = assert_before("sync STATE/images", "remove here/.a.profraw.*", at);
    assert_before("sync here", "remove STATE/batches/" NONCE, at);
    events = NULL;
    state_close(state);
}
END_TEST

/* What cannot be synced does not count, or stays to be done again. */
START_TEST(test_not_synced)
{
    static const char *const steps[] = {"STATE/batches/*", "STATE/batches", "STATE/images/*",
                                        "STATE/images", "here"};
    struct state *state = open_state(STATE_CREATE);
    struct error error = {0};
    struct state_batch *batch;
    char *claim;

    directory_create(path_join(scratch, "here"));
    if (_i < 2) {
        batch = start_batch(state);
        claim = claim_new(batch, "here/a.profraw");
        consume(batch, claim);
        failing = steps[_i];
        ck_assert(!state_batch_commit(batch, &error));
        ck_assert(state_batch_may_count(batch) == (_i == 1));
        failing = NULL;
        state_batch_free(batch);
        ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_UNCOUNTED);
        unlink(claim);
    }
    claim = add_consumed(state, "here/a.profraw");
    failing = steps[_i];
    ck_assert(_i == 0 || !state_fold(state, &error));
    failing = NULL;
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert(file_exists(claim) == (_i < 4));
    ck_assert_uint_eq(count_profiles(), 1);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert(!file_exists(claim));
    ck_assert_uint_eq(count_profiles(), 1);
    state_close(state);
}
END_TEST

/* ---- what is no state ---- */

static const char *refused(enum state_access access)
{
    static struct error error;
    struct state *state;

    error = (struct error){0};
    ck_assert(!state_open(&state, path, access, 0, &error));
    ck_assert_ptr_null(state);
    return error.message;
}

START_TEST(test_no_state)
{
    char *title;

    assert_says(refused(STATE_READ), "not a directory");
    assert_says(refused(STATE_WRITE), "not a directory");
    directory_create(path);
    assert_says(refused(STATE_READ), "not a state");
    file_write_text(path_join(path, "notes"), "");
    assert_says(refused(STATE_CREATE), "other files ('notes')");
    unlink(path_join(path, "notes"));
    /* What a process leaves that is killed while it creates the state. */
    directory_create(path_join(path, "images"));
    state_close(open_state(STATE_CREATE));
    title = path_join(path, "covsplit-state");
    file_write_text(title, "covsplit state 2 0123456789abcdef\n");
    assert_says(refused(STATE_CREATE), "a state of version 2");
    file_write_text(title, "covsplit state 1 0123456789abcde\n");
    assert_says(refused(STATE_WRITE), "damaged");
    file_write_text(title, "");
    assert_says(refused(STATE_READ), "damaged");
    directory_remove(path);
    file_write_text(path, "a file");
    assert_says(refused(STATE_CREATE), "not a directory");
}
END_TEST

/* ---- damage ---- */

/* The digest of all before the last record, whose place is found from the end. */
static void repair_digest(struct contents *file)
{
    struct digest digest;

    if (file->size < 32)
        return;
    digest = digest_of((struct bytes){file->data, file->size - 32});
    memcpy(file->data + file->size - DIGEST_SIZE, digest.bytes, DIGEST_SIZE);
}

static void mutate(struct contents *file, struct random_state *random)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 5, 6, 7, 8, 0x7fffffff, UINT64_MAX};
    size_t place = (size_t)random_below(random, random_below(random, 2) == 0 ? 120 : file->size);
    uint64_t number = numbers[random_below(random, sizeof numbers / sizeof *numbers)];
    unsigned width = 1u << random_below(random, 4);

    switch (random_below(random, 4)) {
    case 0:
        file->data[place] ^= (uint8_t)(1 << random_below(random, 8));
        break;
    case 1:
        file->size = place;
        break;
    default:
        if (place + width <= file->size)
            memcpy(file->data + place, &number, width);
    }
}

/* Whatever becomes of a file of an image or a batch: an error, of which the file is named, or a
 * sum; where the digest is not made to fit, always the former. The rest of the state still works
 * when the file is gone. */
static void check_mutation(struct state *state, const char *file, const struct contents *good,
                           uint64_t seed, unsigned *accepted)
{
    struct random_state random = random_start(seed);
    struct contents bad = {malloc(good->size), good->size};
    bool repairs = random_below(&random, 4) != 0, is_same;
    struct found found = {0};
    struct error error = {0};

    memcpy(bad.data, good->data, good->size);
    mutate(&bad, &random);
    if (repairs)
        repair_digest(&bad);
    is_same = contents_equal(&bad, good);
    file_write(file, bad.data, bad.size);
    if (state_read(state, take_part, &found, &error)) {
        ck_assert_msg(repairs || is_same, "seed %lu: damage was not found", (unsigned long)seed);
        ck_assert(state_fold(state, &error) || error.message[0] != '\0');
        ++*accepted;
    } else {
        ck_assert_msg(strncmp(error.message, file, strlen(file)) == 0, "%s", error.message);
        ck_assert_msg(!is_same, "seed %lu: %s", (unsigned long)seed, error.message);
        state_fold(state, &error);
    }
    free_found(&found);
    contents_free(&bad);
}

/* An image without and with byte coverage, and a batch with claims. */
START_TEST(test_mutations)
{
    struct state *state = open_state(STATE_CREATE);
    struct buffer made = made_of(_i == 1 ? 24 : 3);
    struct profile_sum *sum = sum_of(&made);
    unsigned accepted = 0, count = rounds(MUTATIONS / 3);
    struct state_batch *batch = start_batch(state);
    struct contents good;
    char *file;

    for (int i = 0; i < 3; i++)
        add_profile(&sum, &made);
    add_sum(batch, sum, 4, "test");
    consume(batch, claim_new(batch, "a.profraw"));
    commit(batch);
    state_batch_free(batch);
    if (_i < 2)
        fold(state);
    file = only_file(_i < 2 ? "images" : "batches");
    good = file_read(file);
    for (uint64_t seed = 0; seed < count; seed++) {
        check_mutation(state, file, &good, seed, &accepted);
        if (_i == 2) {
            struct text_list images = directory_list(path_join(path, "images"));

            for (size_t i = 0; i < images.count; i++)
                unlink(text_format("%s/images/%s", path, images.items[i]));
        }
    }
    ck_assert_uint_gt(accepted, 0);
    ck_assert_uint_lt(accepted, count / 2);
    file_write(file, good.data, good.size);
    ck_assert_uint_eq(count_profiles(), 4);
    profile_sum_free(sum);
    buffer_free(&made);
    state_close(state);
}
END_TEST

/* A batch that names files which are no claims of it: these stay. */
START_TEST(test_harm)
{
    struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char *claim = claim_new(batch, "a.profraw"), *file, *victim;
    struct error error = {0};
    struct contents contents;
    uint8_t *place;

    consume(batch, claim);
    commit(batch);
    state_batch_free(batch);
    file = only_file("batches");
    contents = file_read(file);
    place = memmem(contents.data, contents.size, claim, strlen(claim));
    ck_assert_ptr_nonnull(place);
    /* The last digit of the nonce. */
    victim = strdup(claim);
    *strrchr(victim, '-') = '\0';
    place[strlen(victim) - 1] ^= 1;
    victim = strndup((char *)place, strlen(claim));
    repair_digest(&contents);
    file_write(file, contents.data, contents.size);
    file_write_text(victim, "not to be deleted");
    ck_assert(!state_fold(state, &error));
    assert_says(error.message, "no claim of it");
    ck_assert(file_exists(victim));
    ck_assert(file_exists(claim));
    state_close(state);
}
END_TEST

/* The file of another name, and one of a later version. */
START_TEST(test_other_files)
{
    struct state *state = open_state(STATE_CREATE);
    struct error error = {0};
    struct found found = {0};
    struct contents contents;
    char *image, *other;

    add_one(state, true);
    fold(state);
    image = only_file("images");
    other = strdup(image);
    other[strlen(other) - 1] ^= 1;
    ck_assert_int_eq(rename(image, other), 0);
    ck_assert(!state_read(state, take_part, &found, &error));
    assert_says(error.message, "the file of another name");
    ck_assert_int_eq(rename(other, image), 0);
    contents = file_read(image);
    contents.data[8] = 2;
    repair_digest(&contents);
    file_write(image, contents.data, contents.size);
    ck_assert(!state_read(state, take_part, &found, &error));
    assert_says(error.message, "has version 2");
    state_close(state);
}
END_TEST

int main(void)
{
    TCase *state = suite_case("state", 300, NULL);

    /* Most of the time is what is synced to a disk. */
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0);
    tcase_add_checked_fixture(state, prepare, NULL);
    suite_loops(state, FORMS, test_sums);
    suite_tests(state, test_images, test_fold_twice, test_leftovers, test_claims,
                test_claim_elsewhere, test_many_stay, test_long_names, test_long_path,
                test_full_disk, test_fold_into_damage, test_replaced, test_synced, test_no_state,
                test_harm, test_other_files);
    suite_loops(state, 2, test_open_file_removed);
    suite_loops(state, 5, test_not_synced);
    suite_loops(state, 3, test_mutations);
    return suite_main("state", state);
}
