/*
 * Reading profiles: see merge_read.h.
 *
 * A file counts as a whole: all of its profiles are checked before the first one is added, so a
 * file that is cut short adds nothing to the sums.
 */
#include "split/profiles/merge_read.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"

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
    struct merge_group *group;
};

/* ---- groups ---- */

/* For a group that has no profile yet: sorts after all others. */
#define NO_INPUT SIZE_MAX

static bool is_earlier(const struct merge_group *group, size_t input, uint64_t offset)
{
    return input != group->first_input ? input < group->first_input : offset < group->first_offset;
}

static bool is_of_group(const struct merge_group *group, const struct digest *identity,
                        const struct profile *profile)
{
    return digest_equal(&group->identity, identity) &&
           group->can_be_summed == profile_can_be_summed(profile);
}

static int compare_contents(const void *a, const void *b)
{
    const struct merge_group *left = a, *right = b;
    int order = memcmp(left->identity.bytes, right->identity.bytes, DIGEST_SIZE);

    return order != 0 ? order : (int)left->can_be_summed - (int)right->can_be_summed;
}

static struct merge_group *find_group(const struct merge *merge, const struct digest *identity,
                                      const struct profile *profile)
{
    const struct merge_group wanted = {.identity = *identity,
                                       .can_be_summed = profile_can_be_summed(profile)};
    struct merge_group *const *found = tfind(&wanted, &merge->group_tree, compare_contents);

    return found == NULL ? NULL : *found;
}

static void keep_node(void *node)
{
    (void)node; /* the tree does not own the groups */
}

static void free_group(const struct merge *merge, struct merge_group *group)
{
    if (group == NULL)
        return;
    profile_sum_free(group->sum);
    profile_sidecars_release(merge->sidecars, group->sidecar);
    free(group);
}

static bool keep_group(struct merge *merge, struct merge_group *group)
{
    if (!ARRAY_ROOM_FOR_ONE(merge->groups, merge->group_capacity, merge->group_count))
        return false;
    if (tsearch(group, &merge->group_tree, compare_contents) == NULL)
        return false;
    merge->groups[merge->group_count++] = group;
    return true;
}

static struct merge_group *add_group(struct reader *reader, const struct found_profile *entry,
                                     const struct digest *identity, struct error *error)
{
    struct merge_group *group = calloc(1, sizeof(*group));
    bool done;

    if (group == NULL) {
        error_out_of_memory(error, reader->name, sizeof(*group));
        return NULL;
    }
    *group = (struct merge_group){
        .identity = *identity,
        .version = entry->profile.version,
        .can_be_summed = profile_can_be_summed(&entry->profile),
        .is_temporal = (entry->profile.header.version & PROFILE_VARIANT_TEMPORAL) != 0,
        .first_input = NO_INPUT};
    if (profile_needs_sidecar(&entry->profile))
        group->sidecar =
            profile_sidecars_find(reader->merge->sidecars, &entry->profile, reader->name, error);
    done = group->sidecar != NULL || !profile_needs_sidecar(&entry->profile);
    if (done && !keep_group(reader->merge, group))
        done = error_out_of_memory(error, reader->name, sizeof(*group));
    if (done)
        return group;
    free_group(reader->merge, group);
    return NULL;
}

/* NULL with an error if the profile cannot be correlated. */
static bool find_or_add_group(struct reader *reader, struct found_profile *entry,
                              struct error *error)
{
    struct merge *merge = reader->merge;
    struct merge_group *group;
    struct digest identity;

    if (!profile_identity(&entry->profile, reader->name, &identity, error))
        return false;
    pthread_mutex_lock(&merge->lock);
    group = find_group(merge, &identity, &entry->profile);
    if (group == NULL)
        group = add_group(reader, entry, &identity, error);
    pthread_mutex_unlock(&merge->lock);
    entry->group = group;
    return group != NULL;
}

/* ---- a file ---- */

/* llvm-profdata takes no profile without the value data that its records announce. */
static bool check_value_data(const struct profile *profile, const char *name, struct error *error)
{
    return !profile->lacks_value_data ||
           error_set(error,
                     "%s: its value profile data is missing: the program was killed while "
                     "it wrote, or counted continuously; run it again",
                     name);
}

/* Examines the next profile of the file and finds its group. *found is false at the end. */
static bool next_entry(struct reader *reader, struct found_profile *entry, bool *found,
                       struct error *error)
{
    if (!profile_reader_next(&reader->profiles, &entry->profile, found, error))
        return false;
    entry->offset = reader->profiles.offset;
    return !*found || (check_value_data(&entry->profile, reader->name, error) &&
                       find_or_add_group(reader, entry, error));
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

/* The sum is created from the profile that happens to be first, but takes its header and data from
 * the profile that comes first in the order of the inputs: their addresses differ from run to
 * run. */
static bool add_to_group(struct reader *reader, const struct found_profile *entry, bool *is_new,
                         struct error *error)
{
    struct merge_group *group = entry->group;
    bool is_first = is_earlier(group, reader->input, entry->offset);

    *is_new = false;
    group->profile_count++;
    if (is_first) {
        group->first_input = reader->input;
        group->first_offset = entry->offset;
    }
    if (!group->can_be_summed) {
        reader->merge->must_be_read_again[reader->input] = true;
        return true;
    }
    if (group->sum == NULL) {
        *is_new = true;
        group->sum = profile_sum_new(&entry->profile, reader->name, error);
        return group->sum != NULL;
    }
    if (is_first)
        profile_sum_adopt(group->sum, &entry->profile);
    return true;
}

static bool add_entry(struct reader *reader, const struct found_profile *entry, struct error *error)
{
    struct merge *merge = reader->merge;
    bool is_new, added;

    pthread_mutex_lock(&merge->lock);
    added = add_to_group(reader, entry, &is_new, error);
    pthread_mutex_unlock(&merge->lock);
    if (!added || is_new || !entry->group->can_be_summed)
        return added;
    return profile_sum_add(entry->group->sum, &entry->profile, reader->share, merge->threads,
                           error);
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

static bool no_memory(struct merge *merge, const struct error *error)
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
        return no_memory(merge, why);
    pthread_mutex_lock(&merge->lock);
    noted = ARRAY_ROOM_FOR_ONE(merge->failures, merge->failure_capacity, merge->failure_count);
    if (noted)
        merge->failures[merge->failure_count++] =
            (struct merge_failure){.input = reader->input, .error = *why};
    pthread_mutex_unlock(&merge->lock);
    if (noted)
        return merge->goes_on;
    error_out_of_memory(&error, reader->name, sizeof(*why));
    return no_memory(merge, &error);
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

/* False if reading must stop. */
static bool read_one(struct reader *reader)
{
    struct found_profile first = {0};
    struct error error = {0};
    size_t count = 0;

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
           no_memory(reader->merge, &error);
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

/* ---- order ---- */

static int compare_groups(const void *a, const void *b)
{
    const struct merge_group *left = *(struct merge_group *const *)a;
    const struct merge_group *right = *(struct merge_group *const *)b;

    return is_earlier(right, left->first_input, left->first_offset) ? -1 : 1;
}

static int compare_failures(const void *a, const void *b)
{
    const struct merge_failure *left = a, *right = b;

    return left->input < right->input ? -1 : left->input > right->input;
}

/* A group has no profiles if its only file was rejected because of another profile. */
static void drop_unused_groups(struct merge *merge)
{
    size_t kept = 0;

    for (size_t i = 0; i < merge->group_count; i++) {
        struct merge_group *group = merge->groups[i];

        if (group->first_input == NO_INPUT)
            free_group(merge, group);
        else
            merge->groups[kept++] = group;
    }
    merge->group_count = kept;
}

static void put_in_order(struct merge *merge)
{
    drop_unused_groups(merge);
    if (merge->group_count > 1)
        qsort(merge->groups, merge->group_count, sizeof(*merge->groups), compare_groups);
    if (merge->failure_count > 1)
        qsort(merge->failures, merge->failure_count, sizeof(*merge->failures), compare_failures);
}

/* ---- the whole ---- */

const char *merge_input_name(const struct merge *merge, size_t input)
{
    return stream_name(merge->inputs->paths[input]);
}

bool merge_read(struct merge *merge, struct error *error)
{
    if (merge->threads > merge->inputs->count)
        merge->threads = merge->inputs->count == 0 ? 1 : (unsigned)merge->inputs->count;
    merge->must_be_read_again =
        calloc(merge->inputs->count + 1, sizeof(*merge->must_be_read_again));
    pthread_mutex_init(&merge->lock, NULL);
    if (merge->must_be_read_again == NULL) {
        merge->failed = true;
        error_out_of_memory(&merge->error, "the list of profiles", merge->inputs->count);
    } else {
        parallel_run(merge->threads, merge->threads, read_inputs, merge);
        tdestroy(merge->group_tree, keep_node);
        merge->group_tree = NULL;
        put_in_order(merge);
    }
    if (merge->failed)
        *error = merge->error;
    return !merge->failed;
}

void merge_free(struct merge *merge)
{
    for (size_t i = 0; i < merge->group_count; i++)
        free_group(merge, merge->groups[i]);
    for (size_t i = 0; i < merge->kept_stream_count; i++)
        buffer_free(&merge->kept_streams[i].content);
    free(merge->kept_streams);
    free(merge->groups);
    free(merge->failures);
    free(merge->must_be_read_again);
    pthread_mutex_destroy(&merge->lock);
}

/* ---- groups of one image ---- */

struct memory_sink {
    struct buffer buffer;
    const char *name; /* of the input */
};

static bool append_part(void *context, struct bytes part, struct error *error)
{
    struct memory_sink *sink = context;

    return buffer_append(&sink->buffer, part.data, (size_t)part.size) ||
           error_out_of_memory(error, sink->name, sink->buffer.size);
}

/* The identity that the group's profiles will have after correlation. */
static bool correlated_identity(const struct merge *merge, struct merge_group *group,
                                struct digest *identity, struct error *error)
{
    const char *name = merge_input_name(merge, group->first_input);
    struct memory_sink full = {.name = name};
    struct profile sum, parsed;
    bool done = profile_parse(profile_sum_combined(group->sum), 0, name, &sum, error) &&
                correlation_write(&group->sidecar->correlation, group->sidecar->sidecar, &sum, name,
                                  append_part, &full, error) &&
                profile_parse(buffer_view(&full.buffer), 0, name, &parsed, error) &&
                profile_identity(&parsed, name, identity, error);

    buffer_free(&full.buffer);
    return done;
}

static struct merge_group *find_full_group(const struct merge *merge, const struct digest *identity)
{
    for (size_t i = 0; i < merge->group_count; i++) {
        struct merge_group *group = merge->groups[i];

        if (group->sum != NULL && group->sidecar == NULL &&
            digest_equal(&group->identity, identity))
            return group;
    }
    return NULL;
}

static bool combine_group(struct merge *merge, size_t index, bool *combined, struct error *error)
{
    struct merge_group *group = merge->groups[index], *full;
    struct digest identity;

    *combined = false;
    if (!correlated_identity(merge, group, &identity, error))
        return false;
    full = find_full_group(merge, &identity);
    if (full == NULL)
        return true;
    if (!profile_sum_add_sum(full->sum, group->sum, error))
        return false;
    if (is_earlier(full, group->first_input, group->first_offset)) {
        full->first_input = group->first_input;
        full->first_offset = group->first_offset;
    }
    full->profile_count += group->profile_count;
    free_group(merge, group);
    memmove(&merge->groups[index], &merge->groups[index + 1],
            (merge->group_count - index - 1) * sizeof(*merge->groups));
    merge->group_count--;
    *combined = true;
    return true;
}

/* Correlating in memory pays off only if there is a full profile that may match. */
static bool has_full_group(const struct merge *merge)
{
    for (size_t i = 0; i < merge->group_count; i++) {
        if (merge->groups[i]->sum != NULL && merge->groups[i]->sidecar == NULL)
            return true;
    }
    return false;
}

bool merge_combine_groups(struct merge *merge, struct error *error)
{
    if (!has_full_group(merge))
        return true;
    for (size_t i = 0; i < merge->group_count;) {
        const struct merge_group *group = merge->groups[i];
        bool combined = false;

        if (group->sum != NULL && group->sidecar != NULL &&
            !combine_group(merge, i, &combined, error))
            return false;
        i += !combined;
    }
    put_in_order(merge);
    return true;
}

/* ---- once more ---- */

static bool use_file(const struct merge_group *group, struct profile_reader *profiles,
                     merge_user user, void *context, struct error *error)
{
    struct digest identity;
    struct profile profile;
    bool found;

    while (profile_reader_next(profiles, &profile, &found, error)) {
        if (!found)
            return true;
        if (!profile_identity(&profile, profiles->name, &identity, error) ||
            (is_of_group(group, &identity, &profile) &&
             !user(context, &profile, profiles->name, error)))
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

bool merge_read_again(const struct merge *merge, const struct merge_group *group, merge_user user,
                      void *context, struct error *error)
{
    struct profile_reader profiles = {.limit = merge->memory_limit};
    struct buffer file = {0};
    bool done = true;

    for (size_t i = 0; done && i < merge->inputs->count; i++) {
        if (!merge->must_be_read_again[i])
            continue;
        profiles.name = merge_input_name(merge, i);
        profile_reader_rewind(&profiles);
        done = read_input_again(merge, i, &file, &profiles.file, error) &&
               use_file(group, &profiles, user, context, error);
    }
    profile_reader_free(&profiles);
    buffer_free(&file);
    return done;
}
