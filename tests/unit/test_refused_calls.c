/*
 * Files that are read and written, stores and states, with one call of the C library failing, for
 * each call. Then there is an error with a message, and what was there is as it was, or all is as
 * if nothing had failed. Nothing is half there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/base/output.h"
#include "common/base/stream.h"
#include "common/remote/store_list.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"
#include "tests/unit/refused_calls.h"
#include "tests/unit/state_fixture.h"

#define SIZE      100000
#define FILE_NAME "file"
#define LINK_NAME "link"

/* What a file has before, and what it is to have: more than is kept in memory, and zeros. */
static uint8_t old_bytes[SIZE / 2], new_bytes[SIZE];
static const struct bytes old_content = {old_bytes, sizeof(old_bytes)},
                          new_content = {new_bytes, sizeof(new_bytes)};

/* In the scratch directory; made before calls are refused. */
static char *file_path, *link_path;

static bool has_content(struct bytes wanted)
{
    FREED_BY(contents_free) struct contents found = file_read(file_path);

    return bytes_equal((struct bytes){found.data, found.size}, wanted);
}

static void make_bytes(void)
{
    file_path = path_join(scratch, FILE_NAME);
    link_path = path_join(scratch, LINK_NAME);
    memset(old_bytes, 'o', sizeof(old_bytes));
    memset(new_bytes, 'n', SIZE / 4);
    memset(new_bytes + SIZE / 2, 'w', SIZE / 2);
}

/* ---- outputs ---- */

static enum output_result result;
static struct error last_error;

static void make_nothing(void)
{
    directory_remove(scratch);
    directory_create(scratch);
}

static void make_file(void)
{
    make_nothing();
    file_write(file_path, old_bytes, sizeof(old_bytes));
}

static void make_same(void)
{
    make_nothing();
    file_write(file_path, new_bytes, sizeof(new_bytes));
    ck_assert_int_eq(chmod(file_path, 0640), 0);
}

static void make_linked(void)
{
    make_file();
    ck_assert_int_eq(link(file_path, link_path), 0);
}

static void make_symbolic(void)
{
    make_nothing();
    file_write(link_path, old_bytes, sizeof(old_bytes));
    ck_assert_int_eq(symlink(LINK_NAME, file_path), 0);
}

/* Writes it in pieces: small, zeros, large. */
static bool write_all(struct output *output, struct error *error)
{
    return output_write(output, (struct bytes){new_bytes, 10}, error) &&
           output_write(output, (struct bytes){new_bytes + 10, SIZE / 4 - 10}, error) &&
           output_write(output, (struct bytes){new_bytes + SIZE / 4, SIZE / 4}, error) &&
           output_write(output, (struct bytes){new_bytes + SIZE / 2, SIZE / 2}, error);
}

static bool write_file(const struct output_options *options, struct error *error)
{
    FREED_BY(output_discard) struct output output;

    return output_create(&output, file_path, options, error) && write_all(&output, error) &&
           output_commit(&output, &result, error);
}

static bool write_new(struct error *error)
{
    const struct output_options options = {.mode = 0640};

    return write_file(&options, error);
}

static bool edit(bool is_other_form, struct error *error)
{
    struct output_options options = {.mode = 0640, .is_other_form = is_other_form};
    struct input input;
    bool done;

    if (!input_open(&input, file_path, error))
        return false;
    options.in_place = &input;
    done = write_file(&options, error);
    input_close(&input);
    return done;
}

static bool edit_in_place(struct error *error)
{
    return edit(false, error);
}

static bool change_form(struct error *error)
{
    return edit(true, error);
}

/* Old or new, and the directory has nothing else, but where the call that failed was to remove it;
 * of a file with several names all are the same file. */
static void check_file(bool done)
{
    bool is_new = file_exists(file_path) && has_content(new_content);
    size_t names = directory_list(scratch).count;

    ck_assert_msg(is_new || !done, "%s fails", calls_refused);
    if (!done && result == OUTPUT_HALF_WRITTEN)
        return;
    ck_assert(is_new || !file_exists(file_path) || has_content(old_content));
    ck_assert_msg(names <= 2 || (calls_refused != NULL && strcmp(calls_refused, "unlink") == 0),
                  "%zu names", names);
}

/* Of the last file that was cut to its size: the descriptors by which a signal handler would take
 * the whole copy for an unfinished output, and its names. */
static size_t taken_count, name_count;

static void look_at_copies(const char *name)
{
    char link[64], target[PATH_MAX];

    if (strcmp(name, "ftruncate64") != 0)
        return;
    calls_watch = NULL;
    name_count = directory_list(scratch).count;
    taken_count = 0;
    for (int fd = 3; fd < 64; fd++) {
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        size = readlink(link, target, sizeof(target) - 1);
        target[size < 0 ? 0 : size] = '\0';
        if (file_temporary_final_length(path_file_name(target)) != 0)
            taken_count += (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
    }
    calls_watch = look_at_copies;
}

/* While a file with several names is overwritten, a signal handler of another thread leaves the
 * whole copy, also where it does not find it locked. */
START_TEST(test_copy_without_locks)
{
    struct error error = {0};

    make_bytes();
    make_linked();
    calls_are_poor = true;
    calls_watch = look_at_copies;
    ck_assert_msg(edit_in_place(&error), "%s", error.message);
    calls_watch = NULL;
    calls_are_poor = false; /* tests may run in one process */
    ck_assert_uint_eq(name_count, 3);
    ck_assert_uint_eq(taken_count, 0);
    check_file(true);
}
END_TEST

static bool add_to_store(bool replaces, struct error *error)
{
    const struct output_options options = {.mode = 0640};
    struct uuid uuid = {.size = 4, .bytes = "uuid"};
    FREED_BY(drop_memory) char *target = store_path(scratch, &uuid);
    FREED_BY(output_discard) struct output output = {0};
    bool done = target == NULL ? error_out_of_memory(error, scratch, 1)
                               : store_output_create(&output, target, &options, error);

    done =
        done && write_all(&output, error) && store_output_commit(&output, replaces, &result, error);
    return done && (result != OUTPUT_NAME_TAKEN || error_set(error, "the name is taken"));
}

static bool add_new(struct error *error)
{
    return add_to_store(false, error);
}

static bool add_replacing(struct error *error)
{
    return add_to_store(true, error);
}

static bool note_sidecar(void *context, const char *file, const struct uuid *uuid,
                         struct error *error)
{
    (void)error;
    *(bool *)context = uuid->size == 4 && file[0] == '/';
    return true;
}

/* The sidecar is whole, or not there. */
static void check_store(bool done)
{
    struct error error = {0};
    bool found = false;

    ck_assert(store_walk(scratch, note_sidecar, &found, &error) || !done);
    ck_assert(found || !done);
}

static void make_store(void)
{
    struct error error = {0};

    make_nothing();
    ck_assert(add_new(&error));
}

static bool search_store(struct error *error)
{
    struct uuid wanted = {.size = 2, .bytes = "uu"};
    FREED_BY(store_list_close) struct store_list list = {0};
    struct store_match match = {0};
    bool found = false, done = store_list_open(&list, scratch, STORE_LIST_ALL, 1 << 20, error) &&
                               store_list_find(&list, &wanted, STORE_PREFIX, &match, error) &&
                               store_list_walk(&list, note_sidecar, &found, error);

    /* What is missing just then counts as removed by another process. */
    ck_assert(!done || calls_errno == ENOENT ||
              (found && match.path != NULL && match.uuid.size == 4));
    free(match.path);
    return done;
}

static void check_nothing(bool done)
{
    (void)done;
}

/* ---- inputs ---- */

/* A file with a hole, which is read in three ways. */
static void make_sparse(void)
{
    int fd;

    make_nothing();
    fd = open(file_path, O_WRONLY | O_CREAT, 0644);
    ck_assert_int_eq(pwrite(fd, new_bytes, SIZE / 4, 0), SIZE / 4);
    ck_assert_int_eq(pwrite(fd, new_bytes + SIZE / 2, SIZE / 2, SIZE / 2), SIZE / 2);
    close(fd);
}

static bool read_with(bool open(struct input *, const char *, struct error *), struct error *error)
{
    FREED_BY(input_close) struct input input;
    bool done = open(&input, file_path, error) && input_unchanged(&input, error);

    ck_assert(!done || bytes_equal(input.bytes, new_content));
    return done;
}

static bool read_ways(struct error *error)
{
    FREED_BY(buffer_free) struct buffer buffer = {0};
    uint8_t part[100];
    int fd = -1;
    bool done = read_with(input_open, error) && read_with(input_read, error) &&
                file_read_into(&buffer, file_path, MEMORY_LIMIT_MOST, error);

    ck_assert(!done || bytes_equal(buffer_view(&buffer), new_content));
    done = done && stream_read_into(&buffer, file_path, MEMORY_LIMIT_MOST, NULL, NULL, error);
    ck_assert(!done || bytes_equal(buffer_view(&buffer), new_content));
    done = done && file_read_front(&buffer, file_path, sizeof(part), error);
    ck_assert(!done || (buffer.size == sizeof(part) && buffer.data[0] == 'n'));
    if (done) {
        fd = file_open_as_it_is(file_path, O_RDONLY | O_CLOEXEC);
        done = fd >= 0 ? file_read_at(fd, file_path, SIZE - 100, part, sizeof(part), error)
                       : error_set_errno(error, errno, "cannot be opened");
        ck_assert(!done || part[99] == 'w');
    }
    if (fd >= 0)
        close(fd);
    return done;
}

static bool read_descriptor(struct error *error)
{
    int fd = open(file_path, O_RDONLY | O_CLOEXEC);
    struct input input;
    bool done = fd >= 0 ? input_read_descriptor(&input, fd, "descriptor", error)
                        : error_set_errno(error, errno, "cannot be opened");

    if (done) {
        ck_assert(bytes_equal(input.bytes, new_content));
        input_close(&input);
    }
    if (fd >= 0)
        close(fd);
    return done;
}

/* Standard input is a pipe with the first bytes. */
static void make_pipe(void)
{
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], new_bytes, SIZE / 4), SIZE / 4);
    close(ends[1]);
    ck_assert_int_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
}

static bool read_stream(struct error *error)
{
    struct input input;
    bool done = stream_read_input(&input, "-", MEMORY_LIMIT_MOST, NULL, NULL, error);

    if (done) {
        ck_assert(bytes_equal(input.bytes, (struct bytes){new_bytes, SIZE / 4}));
        ck_assert(input_unchanged(&input, error));
        input_release_pages(&input, 0, SIZE / 4);
        ck_assert_uint_eq(input.bytes.data[0], 'n');
        input_close(&input);
    }
    return done;
}

/* An output without a name is written, mapped, written by another and taken back. */
static bool lend(bool is_in_memory, struct error *error)
{
    const struct output_options options = {.mode = 0640, .is_nameless = true};
    FREED_BY(output_discard) struct output output;
    struct input input = {.fd = -1};
    bool done = (is_in_memory ? output_create_in_memory(&output, "memory", error)
                              : output_create(&output, file_path, &options, error)) &&
                write_all(&output, error) && output_map(&output, &input, error);

    ck_assert(!done || bytes_equal(input.bytes, new_content));
    input_close(&input);
    done = done && output_lend(&output, error) && output_take_back(&output, error);
    ck_assert(!done || output.size == SIZE);
    return done;
}

static bool lend_memory(struct error *error)
{
    return lend(true, error);
}

static bool lend_file(struct error *error)
{
    return lend(false, error);
}

/* ---- sets ---- */

static bool fill_set(struct error *error)
{
    FREED_BY(digest_set_free) struct digest_set set = {0};
    bool done = true;

    for (uint64_t i = 0; done && i < 1000; i++) {
        struct digest digest = {0};

        memcpy(digest.bytes, &i, sizeof(i));
        done = digest_set_add(&set, &digest) || error_out_of_memory(error, "a set", sizeof(digest));
    }
    return done;
}

/* ---- states ---- */

static struct buffer added_profile;
static struct profile_sum *added_sum;
static char *profile_path;
static bool may_count;

/* A state with one profile, and another one to consume. */
static void make_state(void)
{
    struct state *state;

    make_nothing();
    state = open_state(STATE_CREATE);
    add_one(state, true);
    fold(state);
    state_close(state);
    directory_create(path_join(scratch, "here"));
    profile_path = path_join(scratch, "here/a.profraw");
    file_write_text(profile_path, "profile");
    added_profile = made_of(3);
    added_sum = sum_of(&added_profile);
    may_count = false;
}

static bool add_batch(struct state *state, struct error *error)
{
    FREED_BY(drop_batch) struct state_batch *batch = NULL;
    char claim[PATH_MAX];
    bool done = state_batch_start(state, &batch, error) &&
                state_claim_path(batch, profile_path, claim, error) &&
                (rename(profile_path, claim) == 0 || error_set_errno(error, errno, "no claim")) &&
                state_batch_add(batch, added_sum, error) &&
                state_batch_consume(batch, claim, error) && state_batch_commit(batch, error);

    may_count = batch != NULL && state_batch_may_count(batch);
    return done;
}

static bool add_to_state(struct error *error)
{
    FREED_BY(drop_state) struct state *state = NULL;

    return state_open(&state, path, STATE_CREATE, 0, error) && state_fold(state, error) &&
           add_batch(state, error) && state_fold(state, error);
}

static bool count_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    (void)name;
    (void)error;
    *(uint64_t *)context += sum->profile_count;
    return true;
}

static bool read_batches(struct error *error)
{
    FREED_BY(drop_state) struct state *state = NULL;
    uint64_t count = 0;
    bool done = state_open(&state, path, STATE_READ, 0, error) &&
                state_read(state, count_sum, &count, error);

    ck_assert_msg(!done || count == 2, "%s fails, and there are %u", calls_refused,
                  (unsigned)count);
    return done;
}

/* One that is not folded. */
static void make_batch(void)
{
    FREED_BY(drop_state) struct state *state;

    make_state();
    state = open_state(STATE_WRITE);
    add_one(state, true);
}

/* The profile counts, and is gone; or its file is still there, as it was or claimed. The next
 * process does what was left. */
static void check_state(bool done)
{
    uint64_t count = count_profiles();
    struct state *state = open_state(STATE_WRITE);

    ck_assert_msg(done ? count == 2 : count == 1 || may_count, "%s fails, and there are %u (%s)",
                  calls_refused, (unsigned)count, last_error.message);
    ck_assert(count <= 2);
    fold(state);
    state_close(state);
    ck_assert_uint_eq(count_profiles(), count);
    ck_assert_uint_eq(directory_list(path_join(scratch, "here")).count, count == 1);
    ck_assert_uint_eq(count_files("batches"), 0);
    profile_sum_free(added_sum);
    buffer_free(&added_profile);
}

/* ---- every call fails once ---- */

static const struct action {
    const char *name;
    void (*prepare)(void);
    bool (*act)(struct error *error);
    void (*check)(bool done);
    size_t least; /* calls */
    bool trusts;  /* that what is said to be missing is so: nothing else would tell */
} actions[] = {
    {"write a new file", make_nothing, write_new, check_file, 15, false},
    {"replace a file", make_file, write_new, check_file, 15, false},
    {"write what is there", make_same, write_new, check_file, 10, false},
    {"edit a file", make_file, edit_in_place, check_file, 20, false},
    {"edit a file with two names", make_linked, edit_in_place, check_file, 20, false},
    {"edit behind a link", make_symbolic, edit_in_place, check_file, 20, false},
    {"change the form of a file", make_file, change_form, check_file, 20, false},
    {"read a file", make_sparse, read_ways, check_nothing, 20, false},
    {"read a descriptor", make_sparse, read_descriptor, check_nothing, 8, false},
    {"read standard input", make_pipe, read_stream, check_nothing, 6, false},
    {"lend a file in memory", make_nothing, lend_memory, check_nothing, 8, false},
    {"lend a file", make_nothing, lend_file, check_nothing, 8, false},
    {"fill a set", make_nothing, fill_set, check_nothing, 3, false},
    {"add to a new store", make_nothing, add_new, check_store, 20, false},
    {"replace in a store", make_store, add_replacing, check_store, 15, false},
    {"add to a state", make_state, add_to_state, check_state, 100, true},
    {"read a state", make_batch, read_batches, check_nothing, 50, true},
    {"search a store", make_store, search_store, check_nothing, 10, false},
};

#define ACTIONS ((int)(sizeof(actions) / sizeof(actions[0])))

/* EINTR is one that some calls are repeated after; the others are told apart by some code. */
static const int numbers[] = {EIO, EINTR, ENOENT, EEXIST, EPERM, EINVAL};

#define NUMBERS ((int)(sizeof(numbers) / sizeof(numbers[0])))

START_TEST(test_refused)
{
    const struct action *action = &actions[_i / NUMBERS];
    size_t calls = 0;

    make_bytes();
    calls_errno = numbers[_i % NUMBERS];
    if (action->trusts && calls_errno == ENOENT)
        return;
    do {
        bool done;

        action->prepare();
        last_error = (struct error){0};
        result = OUTPUT_WRITTEN;
        calls_refused = NULL;
        calls_granted = calls++;
        done = action->act(&last_error);
        calls_granted = CALLS_ALL;
        ck_assert_msg(done || calls_refused != NULL, "%s: %s", action->name, last_error.message);
        ck_assert_msg(done || last_error.message[0] != '\0', "%s: %s fails, and no word of it",
                      action->name, calls_refused);
        action->check(done);
    } while (calls_refused != NULL);
    ck_assert_uint_gt(calls, action->least);
}
END_TEST

/* ---- what is no file to read or to write ---- */

START_TEST(test_wrong_paths)
{
    const struct output_options options = {.mode = 0640};
    char long_path[PATH_MAX + 20], directory[PATH_MAX];
    FREED_BY(buffer_free) struct buffer buffer = {0};
    struct error error = {0};
    struct output output;
    struct input input;
    int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    make_bytes();
    make_file();
    ck_assert(!input_open(&input, scratch, &error));
    assert_says(error.message, "not a regular file");
    ck_assert(!input_open_descriptor(&input, fd, "directory", &error));
    assert_says(error.message, "directory: not a regular file");
    ck_assert(!file_read_into(&buffer, scratch, MEMORY_LIMIT_MOST, &error));
    ck_assert(!file_read_front(&buffer, scratch, 1, &error));
    ck_assert(!file_read_into(&buffer, file_path, sizeof(old_bytes) - 1, &error));
    assert_says(error.message, "memory");
    ck_assert(!stream_read_into(&buffer, scratch, MEMORY_LIMIT_MOST, NULL, NULL, &error));
    close(fd);

    fd = open(file_path, O_RDONLY | O_CLOEXEC);
    ck_assert(!file_read_at(fd, file_path, sizeof(old_bytes) - 1, directory, 2, &error));
    assert_says(error.message, "changed while it was being read");
    close(fd);

    ck_assert(!output_create(&output, scratch, &options, &error));
    ck_assert(
        !output_create(&output, path_join(scratch, ".name.covsplit-abcdef"), &options, &error));
    assert_says(error.message, "reserved");
    ck_assert(!output_create(&output, "/dev/null", &options, &error));
    ck_assert(!output_create(&output, path_join(scratch, "no/such"), &options, &error));
    assert_says(error.message, "cannot be written");

    memset(long_path, 'x', sizeof(long_path) - 1);
    memcpy(long_path + sizeof(long_path) - 3, "/x", sizeof("/x"));
    ck_assert(!path_directory(long_path, directory));
    ck_assert_int_eq(errno, ENAMETOOLONG);
    ck_assert(!output_create(&output, long_path, &options, &error));
    ck_assert(path_directory("/x", directory));
    ck_assert_str_eq(directory, "/");
    ck_assert(paths_refer_to_same_file(file_path, file_path));
    ck_assert(paths_refer_to_same_file("/new-name", "//new-name"));
    ck_assert(!paths_refer_to_same_file("/new-name", "/other-name"));
    ck_assert(!paths_refer_to_same_file("/new-name", "/tmp/new-name"));
    ck_assert(!paths_refer_to_same_file(long_path, long_path));
}
END_TEST

/* A file that changes after it was opened. */
START_TEST(test_changed)
{
    struct error error = {0};
    FREED_BY(input_close) struct input input;

    make_bytes();
    make_file();
    ck_assert(input_open(&input, file_path, &error));
    ck_assert(input_unchanged(&input, &error));
    input_release_pages(&input, 1, input.bytes.size);
    file_write(file_path, new_bytes, sizeof(new_bytes));
    ck_assert(!input_unchanged(&input, &error));
    assert_says(error.message, "changed while it was being read");
    error = (struct error){.number = EFAULT};
    ck_assert(!report_if_truncated(file_path, &error));
    assert_says(error.message, "changed while it was being read");
    error = (struct error){.number = EIO};
    ck_assert(!report_if_truncated(file_path, &error));
    ck_assert_str_eq(error.message, "");
    input_close(&input);
}
END_TEST

int main(void)
{
    TCase *all = state_case();

    suite_tests(all, test_wrong_paths, test_changed, test_copy_without_locks);
    suite_loops(all, ACTIONS * NUMBERS, test_refused);
    return suite_main("refused_calls", all);
}
