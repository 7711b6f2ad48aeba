/*
 * States of incremental merges: what is left by processes that ended at any moment, claims, and
 * accidents. That sums are right is shown by suites of the command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/state_fixture.h"

/* ---- batches that were not finished ---- */

/* A batch that was folded, but not removed, and comes back as after a power failure. */
START_TEST(test_fold_twice)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

/* ---- claims ---- */

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
    ck_assert_int_eq(find_claim(state, counted), STATE_CLAIM_IN_PROGRESS);
    consume(batch, counted);
    ck_assert(!state_batch_consume(batch, path_join(scratch, "a.profraw"), &error));
    commit(batch);
    ck_assert_int_eq(find_claim(state, counted), STATE_CLAIM_IN_PROGRESS);
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

#define NONCE "00112233445566778899aabbccddeeff"

/* Names that look like those of claims. */
START_TEST(test_names_of_no_claims)
{
    static const struct {
        const char *name;
        size_t length; /* of the claimed one */
    } names[] = {
        {".a.covsplit-claim-" NONCE "-1", 1},
        {".a.b.covsplit-claim-" NONCE "-18446744073709551615", 3},
        {"", 0},
        {".", 0},
        {"-", 0},
        {"a", 0},
        {"a.covsplit-claim-" NONCE "-1", 0},
        {".a.covsplit-claim-" NONCE, 0},
        {".a.covsplit-claim-" NONCE "-", 0},
        {".a.covsplit-claim-" NONCE "-1x", 0},
        {".a.covsplit-claim-" NONCE "-x", 0},
        {".a.covsplit-claim-" NONCE "-184467440737095516151", 0},
        {"..covsplit-claim-" NONCE "-1", 0},
        {".covsplit-claim-" NONCE "-1", 0},
        {".a.covsplit-Claim-" NONCE "-1", 0},
        {".a.covsplit-claim-" NONCE "0-1", 0},
        {".a.covsplit-claim-0011223344556677-1", 0},
        {".a.covsplit-claim-0011223344556677889 aabbccddeeff-1", 0},
        {".a.covsplit-claim-00112233445566778899AABBCCDDEEFF-1", 0},
    };
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
    enum state_claim what;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *claim = path_join(scratch, names[i].name);
        struct error error = {0};

        ck_assert_msg(state_claim_name_length(names[i].name) == names[i].length, "%s",
                      names[i].name);
        ck_assert(!state_batch_consume(batch, claim, &error));
        assert_says(error.message, "not a claim of this batch");
        ck_assert(state_claim_find(state, claim, &what, &error) == (names[i].length != 0));
        ck_assert(names[i].length == 0 || what == STATE_CLAIM_FOREIGN);
    }
}
END_TEST

/* A directory in the place of a claim is not deleted, and the batch stays. */
START_TEST(test_directory_for_claim)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    char *claim = add_consumed(state, "a.profraw");
    struct error error = {0};

    unlink(claim);
    directory_create(claim);
    ck_assert(!state_fold(state, &error));
    assert_says(error.message, "counts, but cannot be deleted; delete it");
    ck_assert_uint_eq(count_files("batches"), 1);
    directory_remove(claim);
    fold(state);
    ck_assert_uint_eq(count_files("batches"), 0);
    ck_assert_uint_eq(count_profiles(), 1);
}
END_TEST

/* What is in the place of NONCE.open says nothing of claims. */
START_TEST(test_no_open_file)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    struct state_batch *batch = start_batch(state);
    char *claim = claim_new(batch, "a.profraw"), *open_file = only_file("batches");
    enum state_claim what;
    struct error error = {0};

    state_batch_free(batch);
    ck_assert_int_eq(symlink("/dev/null", open_file), 0);
    ck_assert(!state_claim_find(state, claim, &what, &error));
    assert_says(error.message, "cannot be read");
    unlink(open_file);
    ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_UNCOUNTED);
}
END_TEST

/* A claim in a directory that is not there may be there for others: the batch stays, so that the
 * claim is known to count. */
START_TEST(test_claim_elsewhere)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

/* The longest names that a file can have. */
START_TEST(test_long_names)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
    char name[NAME_MAX + 1], claim[PATH_MAX], *too_long;
    struct error error = {0};

    memset(name, 'x', NAME_MAX);
    name[NAME_MAX] = '\0';
    consume(batch, claim_new(batch, name));
    too_long = malloc(PATH_MAX);
    memset(too_long, '/', PATH_MAX - 1);
    too_long[PATH_MAX - 1] = '\0';
    ck_assert(!state_claim_path(batch, too_long, claim, &error));
}
END_TEST

/* More batches that have to stay than are folded at a time: those that were folded before count no
 * second time, whichever are folded when. */
START_TEST(test_many_stay)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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

/* An image's file is damaged when a batch is to be folded: the batch stays, with its claims. */
START_TEST(test_fold_into_damage)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

/* The state is removed while a process uses it, and another process makes a new one: the first has
 * the lock of a file that is gone, so it must not change the new one, nor say what its claims are.
 */
START_TEST(test_replaced)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE), *other;
    FREED_BY(drop_batch) struct state_batch *batch = start_batch(state);
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
    ck_assert(!state_read(state, take_sum, &found, &error));
    ck_assert_uint_eq(found.count, 0);
    ck_assert_uint_eq(count_files("batches"), 1);
    ck_assert_uint_eq(count_profiles(), 1);
    ck_assert(file_exists(claim));
}
END_TEST

/* Somebody cleans up, and removes NONCE.open of a living batch. Others may have taken its claims,
 * so it must not count them. */
START_TEST(test_open_file_removed)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

int main(void)
{
    TCase *state = state_case();

    suite_tests(state, test_fold_twice, test_leftovers, test_claims, test_names_of_no_claims,
                test_no_open_file, test_directory_for_claim, test_claim_elsewhere, test_many_stay,
                test_long_names, test_long_path, test_fold_into_damage, test_replaced);
    suite_loops(state, 2, test_open_file_removed);
    return suite_main("state", state);
}
