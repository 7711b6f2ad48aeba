/*
 * Reading profiles: see merge_read.h.
 *
 * A file counts as a whole: all of its profiles are checked before the first one is added, so a
 * file that is cut short adds nothing to the sums.
 */
#include "split/profiles/merge_read.h"

#include <stdlib.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "common/state/reached.h"
#include "common/state/state.h"

struct reader {
    struct merge *merge;
    unsigned share; /* the number of the thread */
    struct buffer file;
    struct profile_reader profiles; /* of the file */
    const char *name;               /* of the file, in messages */
    size_t input;
};

/* One profile in a file that is in memory. */
struct found_profile {
    uint64_t offset;
    struct profile profile;
    struct profile_group *group;
};

/* ---- a file ---- */

/* A state has sums only. The profile can be merged beside the state, and stays where it is. */
static bool check_for_sum(const struct profile *profile, const char *name, struct error *error)
{
    bool is_temporal = (profile->header.version & PROFILE_VARIANT_TEMPORAL) != 0;

    return profile_can_be_summed(profile) ||
           error_set(error,
                     "%s: a %s profile, which cannot be summed; keep it, and name it beside the "
                     "state when that is merged",
                     name, is_temporal ? "temporal" : "value");
}

/* The test that the input belongs to; NULL if none was given. */
static const char *test_of(const struct reader *reader)
{
    const struct path_list *tests = reader->merge->tests;

    return tests == NULL ? NULL : tests->paths[reader->input];
}

static uint64_t weight_of(const struct merge *merge, size_t input)
{
    return merge->weights == NULL ? 1 : merge->weights[input];
}

/* Examines the next profile of the file and finds its group. *found is false at the end. */
static bool next_entry(struct reader *reader, struct found_profile *entry, bool *found,
                       struct error *error)
{
    if (!profile_reader_next(&reader->profiles, &entry->profile, found, error))
        return false;
    if (!*found)
        return true;
    if (reader->merge->only_sums && !check_for_sum(&entry->profile, reader->name, error))
        return false;
    entry->offset = reader->profiles.offset;
    entry->group =
        profile_groups_find(&reader->merge->groups, &entry->profile,
                            weight_of(reader->merge, reader->input), reader->name, error);
    /* Behind the checks of the sidecar: where bytes are missing, those that follow look like
     * counts.
     */
    return entry->group != NULL && profile_check_counters(&entry->profile, reader->name, error) &&
           (test_of(reader) == NULL ||
            test_recorder_know(reader->merge->recorder, &entry->group->sum->identity,
                               entry->group->sidecar, &entry->profile, reader->name, error));
}

static bool check_file(struct reader *reader, size_t *count, struct found_profile *first,
                       struct error *error)
{
    struct found_profile entry = {0};
    bool found = true;

    for (*count = 0; next_entry(reader, &entry, &found, error) && found; ++*count) {
        if (*count == 0)
            *first = entry;
    }
    if (found)
        return false;
    return *count != 0 ||
           error_set(error, "%s: not a raw profile; give a file that an instrumented program wrote",
                     reader->name);
}

static bool add_entry(struct reader *reader, const struct found_profile *entry, struct error *error)
{
    struct merge *merge = reader->merge;
    const struct profile_place place = {reader->name, reader->input, entry->offset};

    if (!entry->group->can_be_summed)
        merge->must_be_read_again[reader->input] = true;
    return profile_groups_add(&merge->groups, entry->group, &entry->profile, &place, reader->share,
                              merge->threads, error) &&
           (test_of(reader) == NULL ||
            test_recorder_add(merge->recorder, &entry->group->sum->identity, &entry->profile,
                              test_of(reader), reader->name, error));
}

static bool add_file(struct reader *reader, size_t count, const struct found_profile *first,
                     struct error *error)
{
    struct found_profile entry = {0};
    bool found = true;

    if (count == 1)
        return add_entry(reader, first, error);
    profile_reader_rewind(&reader->profiles);
    while (next_entry(reader, &entry, &found, error) && found) {
        if (!add_entry(reader, &entry, error))
            return false;
    }
    return !found;
}

/* ---- the threads ---- */

/* Ends the merge, without output. */
static bool fail(struct merge *merge, const struct error *error)
{
    pthread_mutex_lock(&merge->lock);
    if (!merge->failed) {
        merge->failed = true;
        merge->error = *error;
    }
    pthread_mutex_unlock(&merge->lock);
    return false;
}

static bool note_failure(struct reader *reader, const struct error *why)
{
    struct merge *merge = reader->merge;
    struct error error;
    bool noted;

    if (error_is_of_memory(why)) /* not the fault of the input */
        return fail(merge, why);
    pthread_mutex_lock(&merge->lock);
    noted = ARRAY_ROOM_FOR_ONE(merge->failures, merge->failure_capacity, merge->failure_count);
    if (noted)
        merge->failures[merge->failure_count++] =
            (struct merge_failure){.input = reader->input, .error = *why};
    pthread_mutex_unlock(&merge->lock);
    if (noted)
        return merge->goes_on;
    error_out_of_memory(&error, reader->name, sizeof(*why));
    return fail(merge, &error);
}

static void note_empty(struct reader *reader)
{
    struct merge *merge = reader->merge;

    pthread_mutex_lock(&merge->lock);
    if (merge->empty_count == 0 || reader->input < merge->first_empty)
        merge->first_empty = reader->input;
    merge->empty_count++;
    pthread_mutex_unlock(&merge->lock);
}

static bool read_file(struct reader *reader, struct error *error)
{
    const char *path = reader->merge->inputs->paths[reader->input];
    uint64_t limit = reader->merge->memory_limit;
    struct profile_stream stream = {.limit = limit};

    if (!stream_read_into(&reader->file, path, memory_limit_given(limit), profile_stream_check,
                          &stream, error))
        return false;
    /* A program that was killed leaves an empty file. But a pipe is empty if what should bring the
     * profile has failed. */
    if (reader->file.size == 0 && stream_is(path))
        return error_set(error,
                         "%s: empty: all bytes of the profile are missing; see why its writer "
                         "failed, or leave it out",
                         reader->name);
    profile_reader_rewind(&reader->profiles);
    reader->profiles.file = buffer_view(&reader->file);
    reader->profiles.name = reader->name;
    reader->profiles.limit = limit;
    return true;
}

/* Keeps the file if it is a stream that will be needed again. False if out of memory. */
static bool keep_stream(struct reader *reader, struct error *error)
{
    struct merge *merge = reader->merge;
    bool kept;

    if (!merge->must_be_read_again[reader->input] ||
        !stream_is(merge->inputs->paths[reader->input]))
        return true;
    pthread_mutex_lock(&merge->lock);
    kept = ARRAY_ROOM_FOR_ONE(merge->kept_streams, merge->kept_stream_capacity,
                              merge->kept_stream_count);
    if (kept)
        merge->kept_streams[merge->kept_stream_count++] =
            (struct merge_kept_stream){reader->input, reader->file};
    pthread_mutex_unlock(&merge->lock);
    if (!kept)
        return error_out_of_memory(error, reader->name, sizeof(*merge->kept_streams));
    reader->file = (struct buffer){0};
    return true;
}

/* The only directories among the inputs are states. */
static bool is_state(const char *path)
{
    return !stream_is_standard_input(path) && path_is_directory(path);
}

/* False if reading must stop. */
static bool read_one(struct reader *reader)
{
    struct found_profile first = {0};
    struct error error = {0};
    size_t count = 0;

    if (is_state(reader->merge->inputs->paths[reader->input])) /* read_states follows */
        return true;
    if (!read_file(reader, &error))
        return note_failure(reader, &error);
    if (reader->file.size == 0) {
        note_empty(reader);
        return true;
    }
    if (!check_file(reader, &count, &first, &error))
        return note_failure(reader, &error);
    /* From here on, the only possible error is lack of memory. */
    return (add_file(reader, count, &first, &error) && keep_stream(reader, &error)) ||
           fail(reader->merge, &error);
}

/* Takes the next input, when the thread has finished the previous one. Inputs are handed out in
 * order: when a thread stops at a bad one, all inputs before it have been, or are being, read, so
 * the first bad input does not depend on the number of threads. */
static bool take_input(struct reader *reader)
{
    struct merge *merge = reader->merge;
    bool taken;

    pthread_mutex_lock(&merge->lock);
    progress_add(merge->progress, reader->file.size);
    merge->bytes_read += reader->file.size;
    taken = merge->next_input < merge->inputs->count && !merge->failed &&
            (merge->goes_on || merge->failure_count == 0);
    if (taken)
        reader->input = merge->next_input++;
    pthread_mutex_unlock(&merge->lock);
    if (taken)
        reader->name = merge_input_name(merge, reader->input);
    return taken;
}

/* A parallel_piece: the share of a thread. */
static void read_inputs(void *context, size_t share)
{
    struct reader reader = {.merge = context, .share = (unsigned)share};

    while (take_input(&reader) && read_one(&reader))
        continue;
    profile_reader_free(&reader.profiles);
    buffer_free(&reader.file);
}

/* ---- states ---- */

struct state_reader {
    struct reader *reader;
    uint64_t offset;
    bool stopped; /* at an image that is a bad input */
};

/* A state_visitor. An image whose sidecar is missing is a bad input. */
static bool add_state_sum(void *context, struct profile_sum *sum, const char *name,
                          struct error *error)
{
    struct state_reader *states = context;
    struct reader *reader = states->reader;
    const struct profile_place place = {name, reader->input, states->offset++};
    struct profile_group *group;
    struct profile profile;

    reader->name = name;
    if (!profile_parse(profile_sum_combined(sum), 0, name, &profile, error))
        return false;
    group = profile_groups_find(&reader->merge->groups, &profile,
                                weight_of(reader->merge, reader->input), name, error);
    if (group == NULL) {
        states->stopped = !note_failure(reader, error);
        return !states->stopped;
    }
    return (reader->merge->recorder == NULL ||
            reached_unite(&group->sum->tests, buffer_view(&sum->tests), name, error)) &&
           profile_group_add_sum(group, sum, &place, error);
}

/* A state that cannot be read to its end has been added in part, so nothing can go on. */
static void read_state(struct merge *merge, size_t input)
{
    struct reader reader = {.merge = merge, .input = input};
    struct state_reader states = {.reader = &reader};
    struct state *state = NULL;
    struct error error = {0};
    bool done =
        state_open(&state, merge->inputs->paths[input], STATE_READ, merge->memory_limit, &error) &&
        state_read(state, add_state_sum, &states, &error);

    if (!done && !states.stopped)
        fail(merge, &error);
    state_close(state);
}

/* After the threads, since sums are added by one thread. */
static void read_states(struct merge *merge)
{
    for (size_t i = 0; i < merge->inputs->count; i++) {
        if (!merge->failed && (merge->goes_on || merge->failure_count == 0) &&
            is_state(merge->inputs->paths[i]))
            read_state(merge, i);
    }
}

/* ---- order ---- */

static int compare_failures(const void *a, const void *b)
{
    const struct merge_failure *left = a, *right = b;

    return left->input < right->input ? -1 : left->input > right->input;
}

static void put_in_order(struct merge *merge)
{
    profile_groups_finish(&merge->groups);
    if (merge->failure_count > 1)
        qsort(merge->failures, merge->failure_count, sizeof(*merge->failures), compare_failures);
}

/* ---- sidecars ---- */

/* The image with this UUID among those of which no sidecar was found; NULL if out of memory. */
static struct merge_lacking *lacking_image(struct merge *merge, const struct uuid *uuid)
{
    struct merge_lacking *image;

    for (size_t i = 0; i < merge->lacking_count; i++) {
        if (uuid_equal(&merge->lacking[i].uuid, uuid))
            return &merge->lacking[i];
    }
    if (!ARRAY_ROOM_FOR_ONE(merge->lacking, merge->lacking_capacity, merge->lacking_count))
        return NULL;
    image = &merge->lacking[merge->lacking_count++];
    *image = (struct merge_lacking){.uuid = *uuid};
    return image;
}

/* Whatever the number of threads, its first input is the one whose name comes first. */
static bool note_lacking(struct merge *merge, const struct profile *profile, const char *name)
{
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);
    struct merge_lacking *image = lacking_image(merge, &uuid);

    if (image == NULL)
        return false;
    if (image->profile_count++ != 0 && image->first != NULL && strcmp(image->first, name) <= 0)
        return true;
    free(image->first);
    image->first = strdup(name);
    return image->first != NULL;
}

static struct profile_sidecar *find_sidecar(void *context, const struct profile *profile,
                                            const char *name, struct error *error)
{
    struct merge *merge = context;
    struct profile_sidecar *sidecar = profile_sidecars_find(merge->sidecars, profile, name, error);

    if (sidecar == NULL && !error_is_of_memory(error) && !note_lacking(merge, profile, name))
        error_out_of_memory(error, name, sizeof(*merge->lacking));
    return sidecar;
}

static void release_sidecar(void *context, struct profile_sidecar *sidecar)
{
    struct merge *merge = context;

    profile_sidecars_release(merge->sidecars, sidecar);
}

static int compare_lacking(const void *a, const void *b)
{
    const struct merge_lacking *left = a, *right = b;

    return uuid_compare(&left->uuid, &right->uuid);
}

/* ---- the whole ---- */

const char *merge_input_name(const struct merge *merge, size_t input)
{
    return merge->names != NULL ? merge->names->paths[input]
                                : stream_name(merge->inputs->paths[input]);
}

bool merge_read(struct merge *merge, struct error *error)
{
    if (merge->threads > merge->inputs->count)
        merge->threads = merge->inputs->count == 0 ? 1 : (unsigned)merge->inputs->count;
    merge->must_be_read_again =
        calloc(merge->inputs->count + 1, sizeof(*merge->must_be_read_again));
    pthread_mutex_init(&merge->lock, NULL);
    merge->source = (struct profile_sidecar_source){find_sidecar, release_sidecar, merge};
    profile_groups_start(&merge->groups, &merge->source);
    if (merge->must_be_read_again == NULL) {
        merge->failed = true;
        error_out_of_memory(&merge->error, "the list of profiles", merge->inputs->count);
    } else {
        parallel_run(merge->threads, merge->threads, read_inputs, merge);
        read_states(merge);
        put_in_order(merge);
        if (merge->lacking_count > 1)
            qsort(merge->lacking, merge->lacking_count, sizeof(*merge->lacking), compare_lacking);
    }
    if (merge->failed)
        *error = merge->error;
    return !merge->failed;
}

void merge_free(struct merge *merge)
{
    profile_groups_free(&merge->groups);
    for (size_t i = 0; i < merge->kept_stream_count; i++)
        buffer_free(&merge->kept_streams[i].content);
    free(merge->kept_streams);
    free(merge->failures);
    for (size_t i = 0; i < merge->lacking_count; i++)
        free(merge->lacking[i].first);
    free(merge->lacking);
    free(merge->must_be_read_again);
    pthread_mutex_destroy(&merge->lock);
}

/* ---- once more ---- */

struct use {
    const struct merge *merge;
    const struct profile_group *const *groups;
    size_t count;
    merge_user user;
    void *context;
};

static bool use_profile(const struct use *use, struct merge_found *found, struct error *error)
{
    struct digest identity;

    if (!profile_identity(found->profile, found->name, &identity, error))
        return false;
    for (size_t i = 0; i < use->count; i++) {
        found->group = use->groups[i];
        if (profile_group_has(found->group, &identity, found->profile,
                              weight_of(use->merge, found->input)))
            return use->user(use->context, found, error);
    }
    return true;
}

static bool use_file(const struct use *use, struct profile_reader *profiles, size_t input,
                     struct error *error)
{
    struct profile profile;
    struct merge_found entry = {.input = input, .name = profiles->name, .profile = &profile};
    bool found;

    while (profile_reader_next(profiles, &profile, &found, error)) {
        if (!found)
            return true;
        if (!use_profile(use, &entry, error))
            return false;
    }
    return false;
}

/* The contents of the input, which is *file or what was kept of a stream. */
static bool read_input_again(const struct merge *merge, size_t input, struct buffer *file,
                             struct bytes *content, struct error *error)
{
    uint64_t limit = memory_limit_given(merge->memory_limit);

    for (size_t i = 0; i < merge->kept_stream_count; i++) {
        if (merge->kept_streams[i].input == input) {
            *content = buffer_view(&merge->kept_streams[i].content);
            return true;
        }
    }
    if (!file_read_into(file, merge->inputs->paths[input], limit, error))
        return false;
    *content = buffer_view(file);
    return true;
}

bool merge_read_again(const struct merge *merge, const struct profile_group *const *groups,
                      size_t count, merge_user user, void *context, struct error *error)
{
    const struct use use = {merge, groups, count, user, context};
    struct profile_reader profiles = {.limit = merge->memory_limit};
    struct buffer file = {0};
    bool done = true;

    for (size_t i = 0; done && i < merge->inputs->count; i++) {
        if (!merge->must_be_read_again[i])
            continue;
        profiles.name = merge_input_name(merge, i);
        profile_reader_rewind(&profiles);
        done = read_input_again(merge, i, &file, &profiles.file, error) &&
               use_file(&use, &profiles, i, error);
    }
    profile_reader_free(&profiles);
    buffer_free(&file);
    return done;
}
