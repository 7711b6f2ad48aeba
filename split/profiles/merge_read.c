/*
 * Reading profiles: see merge.h.
 *
 * A file counts as a whole: all of its profiles are checked before the first one is added, so a
 * file that is cut short adds nothing to the sums.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/base/stream.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/memory.h"
#include "split/cli/table.h"
#include "split/profiles/merge.h"

struct reader {
    struct merge *merge;
    unsigned share; /* the number of the thread */
    struct buffer file;
    struct profile_reader profiles; /* of the file */
    const char *name;               /* of the file, in messages */
    size_t input;
    int64_t time; /* when the file was modified: see struct profile_place */
};

/* One profile in a file that is in memory. */
struct found_profile {
    uint64_t offset;
    struct profile profile;
    struct profile_group *group;
};

const char *merge_input_name(const struct merge *merge, size_t input)
{
    return merge->names.count != 0 ? merge->names.paths[input]
                                   : stream_name(merge->inputs.paths[input]);
}

int64_t merge_file_time(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0
               ? (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec
               : 0;
}

static uint64_t weight_of(const struct merge *merge, size_t input)
{
    return merge->weights == NULL ? 1 : merge->weights[input];
}

/* ---- a file ---- */

/* Examines the next profile of the file and finds its group. *found is false at the end. */
static bool next_entry(struct reader *reader, struct found_profile *entry, bool *found,
                       struct error *error)
{
    struct merge *merge = reader->merge;
    const struct profile *profile = &entry->profile;

    if (!profile_reader_next(&reader->profiles, &entry->profile, found, error))
        return false;
    if (!*found)
        return true;
    /* A state has sums only. The profile can be merged beside the state, and stays where it is. */
    if (merge->request->is_into_state && !profile_can_be_summed(profile))
        return error_set(error,
                         "%s: a %s profile, which cannot be summed; keep it, and name it beside "
                         "the state when that is merged",
                         reader->name,
                         (profile->header.version & PROFILE_VARIANT_TEMPORAL) != 0 ? "temporal"
                                                                                   : "value");
    entry->offset = reader->profiles.offset;
    entry->group = profile_groups_find(&merge->groups, profile, weight_of(merge, reader->input),
                                       reader->name, error);
    /* Behind the checks of the sidecar: where bytes are missing, those that follow look like
     * counts.
     */
    return entry->group != NULL && profile_check_counters(profile, reader->name, error);
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
    const struct profile_place place = {reader->name, reader->input, entry->offset, reader->time};

    if (!entry->group->can_be_summed)
        merge->again[reader->input].is_needed = true;
    return profile_groups_add(&merge->groups, entry->group, &entry->profile, &place, reader->share,
                              merge->threads, error);
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

/* False if reading must stop. */
static bool note_failure(struct reader *reader, const struct error *why)
{
    struct merge *merge = reader->merge;

    if (error_is_of_memory(why)) /* not the fault of the input */
        return fail(merge, why);
    pthread_mutex_lock(&merge->lock);
    COMMAND_ROOM_FOR_ONE(merge->failures, merge->failure_capacity, merge->failure_count);
    merge->failures[merge->failure_count++] =
        (struct merge_failure){.input = reader->input, .error = *why};
    merge->stops |= !merge->request->goes_on && why->number != ENODATA;
    pthread_mutex_unlock(&merge->lock);
    return merge->request->goes_on || why->number == ENODATA;
}

static bool read_file(struct reader *reader, struct error *error)
{
    const char *path = reader->merge->inputs.paths[reader->input];
    uint64_t limit = reader->merge->request->memory_limit;
    struct profile_stream stream = {.limit = limit};

    reader->time = merge_file_time(path);
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

/* The only directories among the inputs are states. */
static bool is_state(const char *path)
{
    return !stream_is_standard_input(path) && path_is_directory(path);
}

/* False if reading must stop. */
static bool read_one(struct reader *reader)
{
    struct merge *merge = reader->merge;
    const char *path = merge->inputs.paths[reader->input];
    struct found_profile first = {0};
    struct error error = {0};
    size_t count = 0;

    if (is_state(path)) /* read_states follows */
        return true;
    if (!read_file(reader, &error))
        return note_failure(reader, &error);
    if (reader->file.size == 0) {
        pthread_mutex_lock(&merge->lock);
        if (merge->empty_count == 0 || reader->input < merge->first_empty)
            merge->first_empty = reader->input;
        merge->empty_count++;
        pthread_mutex_unlock(&merge->lock);
        return true;
    }
    if (!check_file(reader, &count, &first, &error)) {
        profile_reader_explain(&reader->profiles, &error);
        return note_failure(reader, &error);
    }
    /* From here on, the only possible error is lack of memory. */
    if (!add_file(reader, count, &first, &error))
        return fail(merge, &error);
    /* A stream that will be needed again cannot be read again. */
    if (merge->again[reader->input].is_needed && stream_is(path)) {
        merge->again[reader->input].kept = reader->file;
        reader->file = (struct buffer){0};
    }
    return true;
}

/* Takes the next input, when the thread has finished the previous one. Inputs are handed out in
 * order: when a thread stops at a bad one, all inputs before it have been, or are being, read, so
 * the first bad input does not depend on the number of threads. */
static bool take_input(struct reader *reader)
{
    struct merge *merge = reader->merge;
    bool taken;

    pthread_mutex_lock(&merge->lock);
    progress_add(&merge->progress, reader->file.size);
    merge->bytes_read += reader->file.size;
    taken = merge->next_input < merge->inputs.count && !merge->failed && !merge->stops;
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
    struct merge *merge = reader->merge;
    const struct profile_place place = {name, reader->input, states->offset++, reader->time};
    struct profile_group *group;

    reader->name = name;
    group = profile_groups_find(&merge->groups, profile_sum_combined(sum),
                                weight_of(merge, reader->input), name, error);
    if (group == NULL) {
        states->stopped = !note_failure(reader, error);
        return !states->stopped;
    }
    return profile_group_add_sum(group, sum, &place, error);
}

/* After the threads, since sums are added by one thread. A state that cannot be read to its end has
 * been added in part, so nothing can go on. */
static void read_states(struct merge *merge)
{
    for (size_t i = 0; i < merge->inputs.count; i++) {
        struct reader reader = {.merge = merge, .input = i};
        struct state_reader states = {.reader = &reader};
        const char *path = merge->inputs.paths[i];
        struct state *state = NULL;
        struct error error = {0};

        if (merge->failed || merge->stops || !is_state(path))
            continue;
        reader.time = merge_file_time(path);
        if (!(state_open(&state, path, STATE_READ, merge->request->memory_limit, &error) &&
              state_read(state, add_state_sum, &states, &error)) &&
            !states.stopped)
            fail(merge, &error);
        state_close(state);
    }
}

/* ---- sidecars ---- */

void lacking_images_note(struct lacking_images *images, const struct uuid *uuid, uint64_t profiles,
                         const char *name)
{
    struct lacking_image *image;
    size_t i = 0;

    while (i < images->count && !uuid_equal(&images->items[i].uuid, uuid))
        i++;
    if (i == images->count) {
        COMMAND_ROOM_FOR_ONE(images->items, images->capacity, i);
        images->items[images->count++] = (struct lacking_image){.uuid = *uuid};
    }
    image = &images->items[i];
    image->profile_count += profiles;
    if (image->first == NULL || strcmp(name, image->first) < 0) {
        free(image->first);
        image->first = command_copy(name);
    }
}

#define LACKING_NAMED 3 /* of the others, so many */
#define LOOKED_AT_MAX 500

/* The error names the first image, and where its sidecar was looked for. What to do follows the
 * last semicolon, and stays last. */
void lacking_images_tell(const struct lacking_images *images, struct error *error)
{
    const struct error first = *error;
    const char *advice = strrchr(first.message, ';');
    size_t start = advice == NULL ? strlen(first.message) : (size_t)(advice - first.message);
    char hex[UUID_HEX_MAX], text[COUNT_TEXT_MAX];
    struct error others = {.message = ""}, before;
    size_t other_count = 0;

    for (size_t i = 0; i < images->count; i++) {
        if (strstr(first.message, uuid_format(&images->items[i].uuid, hex)) != NULL)
            continue;
        before = others;
        if (other_count++ < LACKING_NAMED)
            error_set(&others, "%.600s%s %s (%.100s)", before.message, other_count == 1 ? "" : ",",
                      hex, images->items[i].first);
    }
    if (other_count == 0)
        return;
    before = others;
    if (other_count > LACKING_NAMED)
        error_set(&others, "%.600s and %s more", before.message,
                  number_text(other_count - LACKING_NAMED, text));
    error_set(error, "%.*s, nor for %s:%s%s", (int)(start < LOOKED_AT_MAX ? start : LOOKED_AT_MAX),
              first.message, count_text(other_count, "other image", text), others.message,
              first.message + start);
    error->number = first.number;
}

void lacking_images_free(struct lacking_images *images)
{
    for (size_t i = 0; i < images->count; i++)
        free(images->items[i].first);
    free(images->items);
    *images = (struct lacking_images){0};
}

static struct profile_sidecar *find_sidecar(void *context, const struct profile *profile,
                                            const char *name, struct error *error)
{
    struct merge *merge = context;
    struct profile_sidecar *sidecar =
        profile_sidecars_find(merge->request->sidecars, profile, name, error);
    enum profile_uuid_source source;
    struct uuid uuid = profile_uuid(profile, &source);

    if (sidecar == NULL && !error_is_of_memory(error))
        lacking_images_note(&merge->lacking, &uuid, 1, name);
    return sidecar;
}

static void release_sidecar(void *context, struct profile_sidecar *sidecar)
{
    struct merge *merge = context;

    profile_sidecars_release(merge->request->sidecars, sidecar);
}

/* ---- the whole ---- */

static int compare_failures(const void *a, const void *b)
{
    const struct merge_failure *left = a, *right = b;

    return left->input < right->input ? -1 : left->input > right->input;
}

static int compare_lacking(const void *a, const void *b)
{
    const struct lacking_image *left = a, *right = b;

    return uuid_compare(&left->uuid, &right->uuid);
}

void merge_start(struct merge *merge, const struct merge_request *request)
{
    *merge = (struct merge){.request = request, .source = {find_sidecar, release_sidecar, merge}};
    pthread_mutex_init(&merge->lock, NULL);
    profile_groups_start(&merge->groups, &merge->source);
}

/* Forgets what became of the inputs. */
static void forget_inputs(struct merge *merge)
{
    for (size_t i = 0; i < merge->again_count; i++)
        buffer_free(&merge->again[i].kept);
    free(merge->again);
    merge->again = NULL;
    lacking_images_free(&merge->lacking);
    merge->failure_count = merge->again_count = merge->empty_count = merge->next_input = 0;
    merge->bytes_read = 0;
    merge->stops = false;
}

void merge_free(struct merge *merge)
{
    forget_inputs(merge);
    profile_groups_free(&merge->groups);
    free(merge->failures);
    path_list_free(&merge->inputs);
    free(merge->weights);
    zlib_memo_free(&merge->memo.streams);
    pthread_mutex_destroy(&merge->lock);
}

bool merge_read(struct merge *merge, struct error *error)
{
    size_t count = merge->inputs.count;

    forget_inputs(merge);
    /* Rather than one when the first profile of its image is met. */
    sidecars_fetch(&merge->request->sidecars->places, (const char *const *)merge->inputs.paths,
                   count, merge->request->is_in_memory);
    merge->again = command_array(count, sizeof(*merge->again));
    merge->again_count = count;
    merge->threads = merge->request->threads;
    if (merge->threads > count)
        merge->threads = count == 0 ? 1 : (unsigned)count;
    parallel_run(merge->threads, merge->threads, read_inputs, merge);
    read_states(merge);
    if (merge->failure_count > 1)
        qsort(merge->failures, merge->failure_count, sizeof(*merge->failures), compare_failures);
    if (merge->lacking.count > 1)
        qsort(merge->lacking.items, merge->lacking.count, sizeof(*merge->lacking.items),
              compare_lacking);
    if (merge->failed)
        *error = merge->error;
    return !merge->failed;
}

/* ---- once more ---- */

/* Passes a profile to the user if it is one of these groups. */
static bool use_profile(const struct merge *merge, const struct profile_group *const *groups,
                        size_t count, struct merge_found *found, merge_user user, void *context,
                        struct error *error)
{
    struct digest identity = profile_identity(found->profile);

    for (size_t i = 0; i < count; i++) {
        found->group = groups[i];
        if (profile_group_has(found->group, &identity, found->profile,
                              weight_of(merge, found->input)))
            return user(context, found, error);
    }
    return true;
}

bool merge_read_again(const struct merge *merge, const struct profile_group *const *groups,
                      size_t count, merge_user user, void *context, struct error *error)
{
    uint64_t limit = merge->request->memory_limit;
    struct profile_reader profiles = {.limit = limit};
    struct buffer file = {0};
    bool done = true;

    for (size_t i = 0; done && i < merge->inputs.count; i++) {
        struct profile profile;
        struct merge_found entry = {
            .input = i, .name = merge_input_name(merge, i), .profile = &profile};
        const struct buffer *kept = &merge->again[i].kept;
        bool found = merge->again[i].is_needed;

        if (!found)
            continue;
        done = kept->size != 0 ||
               file_read_into(&file, merge->inputs.paths[i], memory_limit_given(limit), error);
        profiles.name = entry.name;
        profile_reader_rewind(&profiles);
        profiles.file = buffer_view(kept->size != 0 ? kept : &file);
        while (done && found) {
            done = profile_reader_next(&profiles, &profile, &found, error) &&
                   (!found || use_profile(merge, groups, count, &entry, user, context, error));
        }
    }
    profile_reader_free(&profiles);
    buffer_free(&file);
    return done;
}
