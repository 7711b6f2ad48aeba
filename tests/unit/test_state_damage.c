/*
 * Directories that are no states, and files of states that are damaged or made to do harm.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/state_fixture.h"

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
    /* Of before the first release, and a later one. */
    file_write_text(title, "covsplit state 1 0123456789abcdef\n");
    assert_says(refused(STATE_READ), "a state of version 1");
    file_write_text(title, "covsplit state 3 0123456789abcdef\n");
    assert_says(refused(STATE_CREATE), "a state of version 3");
    file_write_text(title, "covsplit state 2 0123456789abcde\n");
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

/* A batch that names files which are no claims of it: these stay. */
START_TEST(test_harm)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

/* The file of another name, and ones of other versions. */
START_TEST(test_other_files)
{
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
    ck_assert(!state_read(state, take_sum, &found, &error));
    assert_says(error.message, "the file of another name");
    ck_assert_int_eq(rename(other, image), 0);
    contents = file_read(image);
    for (uint8_t version = 1; version <= 3; version += 2) {
        contents.data[8] = version;
        repair_digest(&contents);
        file_write(image, contents.data, contents.size);
        ck_assert(!state_read(state, take_sum, &found, &error));
        assert_says(error.message, version == 1 ? "has version 1" : "has version 3");
    }
}
END_TEST

int main(void)
{
    TCase *state = state_case();

    suite_tests(state, test_no_state, test_harm, test_other_files);
    return suite_main("state_damage", state);
}
