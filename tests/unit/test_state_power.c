/*
 * Power failures: in which order a state, and each output, syncs, names and removes files, and what
 * becomes of a state if something cannot be synced.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/state_fixture.h"

/* What was synced, named and removed, in that order: "sync batches", below the scratch directory.
 */
static struct text_list *events;

/* What cannot be synced, for this reason; NULL: nothing. */
static const char *failing;
static int failing_errno = EIO;

static void note_event(const char *what, const char *name)
{
    size_t length = scratch == NULL ? 0 : strlen(scratch);

    if (events != NULL && strncmp(name, scratch, length) == 0)
        text_list_add_format(events, "%s %s", what, name[length] == '/' ? name + length + 1 : ".");
}

int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __real_unlink(const char *name);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
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
    errno = failing_errno;
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

int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    note_event("name", to);
    return __real_renameat2(from_fd, from, to_fd, to, flags);
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
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
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
}
END_TEST

/* What cannot be synced does not count, or stays to be done again. */
START_TEST(test_not_synced)
{
    static const char *const steps[] = {"STATE/batches/*", "STATE/batches", "STATE/images/*",
                                        "STATE/images", "here"};
    FREED_BY(drop_state) struct state *state = open_state(STATE_CREATE);
    struct text_list list = {0};
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
        /* The batch was removed, and must not come back once its claims are taken again. */
        events = &list;
        ck_assert_int_eq(find_claim(state, claim), STATE_CLAIM_UNCOUNTED);
        find_event("sync STATE/batches", 0);
        events = NULL;
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
}
END_TEST

/* ---- outputs ---- */

/* Ways in which an output gets its path. */
enum way { COMMITTED, OVER_ANOTHER, OVER_LINK, ADDED, OVER_ADDED, OTHER_FORM, OVERWRITTEN, WAYS };

static struct error error;      /* of the last output */
static bool replaced_meanwhile; /* by another process, before the output is committed */

static bool write_output(enum way way, const char *name, enum output_result *result)
{
    FREED_BY(input_close) struct input before = {.fd = -1};
    struct output_options options = {.mode = 0600, .is_other_form = way == OTHER_FORM};
    struct output output;

    if (way == OVER_LINK) {
        file_write_text(path_join(scratch, "its target"), "as before");
        ck_assert_int_eq(symlink("../its target", name), 0);
    } else if (way != COMMITTED && way != ADDED) {
        file_write_text(name, "as before");
    }
    if (way == OVERWRITTEN)
        ck_assert_int_eq(link(name, path_join(scratch, "other name")), 0);
    if (way == OTHER_FORM || way == OVERWRITTEN) {
        ck_assert(input_open(&before, name, &error));
        options.in_place = &before;
    }
    ck_assert(output_create(&output, name, &options, &error));
    ck_assert(output_write(&output, (struct bytes){(const uint8_t *)"new", 3}, &error));
    if (replaced_meanwhile) {
        file_write_text(path_join(scratch, "another"), "another process's");
        ck_assert_int_eq(__real_rename(path_join(scratch, "another"), name), 0);
    }
    return way == ADDED || way == OVER_ADDED
               ? output_try_commit(&output, way == OVER_ADDED, result, &error)
               : output_commit(&output, result, &error);
}

/* It is on the disk before it has a name, and has that on the disk before the caller goes on. What
 * it replaces goes after that, or is overwritten while the whole output has another name. */
START_TEST(test_output)
{
    struct text_list list = {0};
    enum output_result result;
    char *name;
    size_t at, synced;

    directory_create(path_join(scratch, "here"));
    name = path_join(scratch, "here/file");
    events = &list;
    ck_assert(write_output((enum way)_i, name, &result));
    ck_assert_int_eq(result, OUTPUT_WRITTEN);
    at = assert_before("sync here/*", _i == OVERWRITTEN ? "name here/.file*" : "name here/file", 0);
    synced = find_event("sync here", at);
    if (_i == OVERWRITTEN)
        ck_assert_uint_lt(synced, find_event("remove here/.file*", at));
    if (_i == OVERWRITTEN)
        assert_before("sync here", "sync here/file", at);
    events = NULL;
}
END_TEST

static void assert_content(const char *name, const char *expected)
{
    FREED_BY(contents_free) struct contents content = file_read(name);

    ck_assert_str_eq(text_format("%.*s", (int)content.size, content.data), expected);
}

/* If the name cannot be synced, a power failure may bring back what was there. What is to be
 * overwritten stays. */
START_TEST(test_output_not_synced)
{
    enum way way = (enum way)_i;
    enum output_result result;
    char *name;

    directory_create(path_join(scratch, "here"));
    name = path_join(scratch, "here/file");
    failing = "here";
    ck_assert(!write_output(way, name, &result));
    failing = NULL;
    ck_assert_int_eq(result, way == OVERWRITTEN ? OUTPUT_WRITTEN : OUTPUT_NOT_SYNCED);
    ck_assert_uint_eq(directory_list(path_join(scratch, "here")).count, 1);
    assert_content(name, way == OVERWRITTEN ? "as before" : "new");
}
END_TEST

/* File systems say in several ways that they cannot sync a directory. */
START_TEST(test_output_never_synced)
{
    static const int numbers[] = {EINVAL, ENOSYS, EOPNOTSUPP};
    enum output_result result;

    directory_create(path_join(scratch, "here"));
    failing = "here";
    failing_errno = numbers[_i];
    ck_assert(write_output(OVER_ANOTHER, path_join(scratch, "here/file"), &result));
    failing = NULL;
    failing_errno = EIO;
    ck_assert_int_eq(result, OUTPUT_WRITTEN);
}
END_TEST

/* Another process replaces the file of an edit in place after it was read: its file stays. */
START_TEST(test_output_overtaken)
{
    enum output_result result;
    char *name;

    directory_create(path_join(scratch, "here"));
    name = path_join(scratch, "here/file");
    replaced_meanwhile = true;
    ck_assert(!write_output(_i == 0 ? OTHER_FORM : OVERWRITTEN, name, &result));
    replaced_meanwhile = false;
    ck_assert_int_eq(result, OUTPUT_OVERTAKEN);
    ck_assert_uint_eq(directory_list(path_join(scratch, "here")).count, 1);
    assert_content(name, "another process's");
}
END_TEST

int main(void)
{
    TCase *state = state_case();

    suite_tests(state, test_synced);
    suite_loops(state, 5, test_not_synced);
    suite_loops(state, WAYS, test_output);
    suite_loops(state, WAYS, test_output_not_synced);
    suite_loops(state, 3, test_output_never_synced);
    suite_loops(state, 2, test_output_overtaken);
    return suite_main("state_power", state);
}
