/*
 * Consuming profiles: see consume.h.
 */
#include "split/profiles/consume.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/stream.h"
#include "split/profiles/merge_into.h"
#include "split/profiles/merge_read.h"

/* How many files are claimed, and then read, at a time. */
#define READ_MOST 256

/* A batch is committed when it has this many files, or its sums have this many bytes. */
#define BATCH_MOST_FILES 8192
#define BATCH_MOST_BYTES (UINT64_C(256) << 20)

/* The sum of an image, over what was read since the last time that sums were written. */
struct held_sum {
    struct profile_sum *sum;
    char *name; /* of its first profile, for messages */
};

/* ---- sums ---- */

static struct held_sum *find_sum(const struct consumer *consumer, const struct digest *identity)
{
    for (size_t i = 0; i < consumer->sum_count; i++) {
        if (digest_equal(&consumer->sums[i].sum->identity, identity))
            return &consumer->sums[i];
    }
    return NULL;
}

/* Takes the group's sum, or adds it to the one of its image. */
static bool hold_sum(struct consumer *consumer, struct profile_group *group, struct error *error)
{
    struct held_sum *held = find_sum(consumer, &group->sum->identity);

    consumer->batch_profiles += group->sum->profile_count;
    if (held != NULL)
        return profile_sum_add_sum(held->sum, group->sum, error);
    if (!ARRAY_ROOM_FOR_ONE(consumer->sums, consumer->sum_capacity, consumer->sum_count))
        return error_out_of_memory(error, state_path(consumer->state), consumer->sum_count);
    consumer->held += profile_sum_combined(group->sum).size;
    consumer->sums[consumer->sum_count++] = (struct held_sum){group->sum, group->name};
    group->sum = NULL;
    group->name = NULL;
    return true;
}

static void drop_sums(struct consumer *consumer)
{
    for (size_t i = 0; i < consumer->sum_count; i++) {
        profile_sum_free(consumer->sums[i].sum);
        free(consumer->sums[i].name);
    }
    test_recorder_clear(&consumer->recorder);
    consumer->sum_count = 0;
    consumer->held = 0;
}

/* Adds the sums to the batch, which writes them to the disk. */
static bool write_sums(struct consumer *consumer, struct error *error)
{
    for (size_t i = 0; i < consumer->sum_count; i++) {
        const struct held_sum *held = &consumer->sums[i];

        if (!merge_into_add_sum(consumer->claims.batch, held->sum, &consumer->recorder, held->name,
                                error))
            return false;
    }
    drop_sums(consumer);
    return true;
}

/* ---- reading ---- */

static void note_open(struct consumer *consumer, const char *path)
{
    consumer->open_count++;
    if (consumer->first_open == NULL)
        consumer->first_open = strdup(path);
}

/* What is needed to read some claims. */
struct reading {
    struct path_list paths, names, tests;
};

static bool list_unread(const struct consumer *consumer, struct reading *reading,
                        struct error *error)
{
    for (size_t i = consumer->unread; i < consumer->claims.count; i++) {
        const struct claim *claim = &consumer->claims.items[i];

        if (!path_list_add(&reading->paths, claim->path, error) ||
            !path_list_add(&reading->names, claim->name, error) ||
            (claim->test != NULL && !path_list_add(&reading->tests, claim->test, error)))
            return false;
    }
    return true;
}

/* Failures are in the order of the claims. Those that are removed come last, so that the numbers of
 * the others stay the same. */
static void give_bad_back(struct consumer *consumer, const struct merge *merge)
{
    for (size_t i = merge->failure_count; i-- > 0;) {
        const struct merge_failure *failure = &merge->failures[i];

        claims_give_back(&consumer->claims, consumer->unread + failure->input);
        left_files_add(&consumer->left, merge_input_name(merge, failure->input), &failure->error);
    }
}

static bool take_over(struct consumer *consumer, const struct merge *merge, struct error *error)
{
    give_bad_back(consumer, merge);
    for (size_t i = 0; i < merge->groups.count; i++) {
        if (!hold_sum(consumer, merge->groups.list[i], error))
            return false;
    }
    consumer->batch_bytes += merge->bytes_read;
    consumer->unread = consumer->claims.count;
    return consumer->held + test_recorder_memory(&consumer->recorder) < BATCH_MOST_BYTES ||
           write_sums(consumer, error);
}

static bool read_listed(struct consumer *consumer, const struct reading *reading,
                        struct error *error)
{
    struct progress progress = {0};
    struct merge merge = {
        .inputs = &reading->paths,
        .names = &reading->names,
        .recorder = &consumer->recorder,
        .tests = reading->tests.count == 0 ? NULL : &reading->tests,
        .sidecars = consumer->sidecars,
        .threads = consumer->threads,
        .goes_on = true,
        .only_sums = true,
        .progress = &progress,
        .memory_limit = consumer->memory_limit,
    };
    bool done = merge_read(&merge, error) && take_over(consumer, &merge, error);

    merge_free(&merge);
    return done;
}

static bool read_claims(struct consumer *consumer, struct error *error)
{
    struct reading reading = {0};
    bool done;

    consumer->open_count += claims_settle(&consumer->claims, consumer->unread);
    if (consumer->unread == consumer->claims.count)
        return true;
    done = list_unread(consumer, &reading, error) && read_listed(consumer, &reading, error);
    path_list_free(&reading.paths);
    path_list_free(&reading.names);
    path_list_free(&reading.tests);
    return done;
}

/* ---- batches ---- */

static void end_batch(struct consumer *consumer)
{
    drop_sums(consumer);
    claims_free(&consumer->claims);
    consumer->unread = 0;
    consumer->batch_profiles = consumer->batch_bytes = 0;
}

static void give_batch_back(struct consumer *consumer)
{
    claims_give_all_back(&consumer->claims);
    end_batch(consumer);
}

static bool list_consumed(const struct consumer *consumer, struct error *error)
{
    for (size_t i = 0; i < consumer->claims.count; i++) {
        if (!state_batch_consume(consumer->claims.batch, consumer->claims.items[i].path, error))
            return false;
    }
    return true;
}

/* After a commit that failed, it may be that only the state can tell whether the claims count. */
static void end_failed_batch(struct consumer *consumer)
{
    const struct claim *first = &consumer->claims.items[0];
    bool may_count = state_batch_may_count(consumer->claims.batch);
    enum state_claim what;
    struct error ignored;

    state_batch_free(consumer->claims.batch);
    consumer->claims.batch = NULL;
    if (!may_count || (state_claim_find(consumer->state, first->path, &what, &ignored) &&
                       what == STATE_CLAIM_UNCOUNTED))
        claims_give_all_back(&consumer->claims);
    end_batch(consumer);
}

/* What is committed counts, even if it cannot be folded now. */
static bool commit(struct consumer *consumer, struct error *error)
{
    if (!state_batch_commit(consumer->claims.batch, error)) {
        end_failed_batch(consumer);
        return false;
    }
    consumer->files += consumer->claims.count;
    consumer->profiles += consumer->batch_profiles;
    consumer->bytes += consumer->batch_bytes;
    end_batch(consumer);
    return state_fold(consumer->state, error);
}

bool consume_commit(struct consumer *consumer, struct error *error)
{
    if (!read_claims(consumer, error))
        return false;
    if (consumer->claims.count == 0) {
        end_batch(consumer);
        return true;
    }
    if (!write_sums(consumer, error) || !list_consumed(consumer, error))
        return false;
    if (!claims_sync(&consumer->claims, error)) {
        /* Who removes a directory has taken claims away, which is for them like any change. */
        if (error->number != ENOENT)
            return false;
    } else if (claims_find_changed(&consumer->claims) == NULL) {
        return commit(consumer, error);
    }
    consumer->must_repeat = true;
    give_batch_back(consumer);
    return true;
}

/* ---- files ---- */

static bool make_room(struct consumer *consumer, struct error *error)
{
    if (consumer->claims.count - consumer->unread >= READ_MOST && !read_claims(consumer, error))
        return false;
    return consumer->claims.count < BATCH_MOST_FILES || consume_commit(consumer, error);
}

/* *test: that the profile belongs to, as a new string; NULL: none. False if it cannot be named. */
static bool name_test(const struct consumer *consumer, const char *path, char **test,
                      struct error *error)
{
    struct path_list tests = {0};

    *test = NULL;
    if (!test_naming_is_on(consumer->naming))
        return true;
    if (!test_naming_add(consumer->naming, consumer->root, path, &tests, error))
        return false;
    *test = tests.paths[0];
    free(tests.paths);
    return true;
}

static enum claim_result claim(struct consumer *consumer, const char *path, struct error *error)
{
    enum claim_result result;
    char *test;

    if (!name_test(consumer, path, &test, error))
        return error_is_of_memory(error) ? CLAIM_FAILED : CLAIM_LEFT;
    result = claims_take(&consumer->claims, path, error);
    if (result == CLAIM_TAKEN)
        consumer->claims.items[consumer->claims.count - 1].test = test;
    else
        free(test);
    return result;
}

static bool take(struct consumer *consumer, const char *path, struct error *error)
{
    struct error why = {0};

    if (left_files_have(&consumer->left, path))
        return true;
    switch (claim(consumer, path, &why)) {
    case CLAIM_TAKEN:
    case CLAIM_NOT:
        break;
    case CLAIM_EMPTY:
        consumer->empty_count++;
        break;
    case CLAIM_OPEN:
        note_open(consumer, path);
        break;
    case CLAIM_LEFT:
        left_files_add(&consumer->left, path, &why);
        break;
    case CLAIM_FAILED:
        *error = why;
        return false;
    }
    return true;
}

void consumer_start(struct consumer *consumer, struct state *state)
{
    *consumer = (struct consumer){.state = state, .claims = {.state = state}};
    test_recorder_start(&consumer->recorder);
}

bool consume_file(struct consumer *consumer, const char *path, struct error *error)
{
    char directory[PATH_MAX];
    int lock = path_directory(path, directory) ? directory_lock(directory) : -1;
    bool done = take(consumer, path, error);

    directory_unlock(lock);
    return done && make_room(consumer, error);
}

/* Takes the files while the directory is locked, and forgets their paths. */
static bool take_files(struct consumer *consumer, const char *directory, struct path_list *files,
                       struct error *error)
{
    int lock = files->count == 0 ? -1 : directory_lock(directory);
    bool done = true;

    for (size_t i = 0; done && i < files->count && !stop_wanted(consumer->stop); i++)
        done = take(consumer, files->paths[i], error);
    directory_unlock(lock);
    path_list_free(files);
    return done && make_room(consumer, error);
}

/* ---- directories ---- */

static bool is_directory(const char *path, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool add_entry(const char *directory, const struct dirent *entry, struct path_list *files,
                      struct path_list *directories, struct error *error)
{
    bool has_slash = directory[strlen(directory) - 1] == '/', done = true;
    char *path;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return true;
    if (asprintf(&path, "%s%s%s", directory, has_slash ? "" : "/", entry->d_name) < 0)
        return error_out_of_memory(error, directory, sizeof(entry->d_name));
    if (!is_directory(path, entry))
        done = path_list_add(files, path, error);
    else if (!state_is(path))
        done = path_list_add(directories, path, error);
    free(path);
    return done;
}

static bool consume_stream(struct consumer *consumer, const char *path, DIR *stream,
                           struct path_list *directories, struct error *error)
{
    struct path_list files = {0};
    const struct dirent *entry = NULL;
    bool done = true;

    do {
        errno = 0;
        entry = readdir(stream);
        if (entry == NULL && errno != 0)
            done = error_set_errno(error, errno, "%s: cannot be read", path);
        if (entry != NULL)
            done = add_entry(path, entry, &files, directories, error);
        if (done && (entry == NULL || files.count == READ_MOST))
            done = take_files(consumer, path, &files, error);
    } while (done && entry != NULL && !stop_wanted(consumer->stop));
    path_list_free(&files);
    return done;
}

bool consume_directory(struct consumer *consumer, const char *path, struct path_list *directories,
                       struct error *error)
{
    DIR *stream = opendir(path);
    struct error why = {0};
    bool done;

    if (stream == NULL) {
        if (errno == ENOENT || errno == ENOTDIR)
            return true;
        error_set_errno(&why, errno, "%s: cannot be read", path);
        if (!left_files_have(&consumer->left, path))
            left_files_add(&consumer->left, path, &why);
        return true;
    }
    done = consume_stream(consumer, path, stream, directories, error);
    closedir(stream);
    return done;
}

bool consume_tree(struct consumer *consumer, const char *path, struct error *error)
{
    struct path_list directories = {0};
    bool done = path_list_add(&directories, path, error);

    while (done && directories.count != 0 && !stop_wanted(consumer->stop)) {
        char *next = directories.paths[--directories.count];

        done = consume_directory(consumer, next, &directories, error);
        free(next);
    }
    path_list_free(&directories);
    return done;
}

void consumer_free(struct consumer *consumer)
{
    give_batch_back(consumer);
    left_files_free(&consumer->left);
    free(consumer->sums);
    free(consumer->first_open);
    test_recorder_free(&consumer->recorder);
}
