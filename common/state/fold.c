/*
 * Folding and reading: see state.h.
 *
 * Both bring together what a state has of each image: its file, and the sums of batches that are
 * not in the file yet. One image is in memory at a time.
 *
 * A batch is removed only when the files of the images have its sums, and are on the disk. Until
 * then these files list the batch, so that folding it again adds nothing. A file stops listing a
 * batch when the batch no longer exists and the directory of batches has been synced since, because
 * the batch must not come back after a power failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/memory_limit.h"
#include "common/state/internal.h"

/* So many batches at a time, to bound memory. */
#define ROUND_MAX 64

/* A sum of an image in a batch; or the image's file. */
struct part_place {
    struct digest identity;
    const struct state_file *batch; /* NULL: the file of the image */
    size_t record;
};

/* Some committed batches, opened, and the places of all of their sums, or those of the state. */
struct gathering {
    const struct state *state;
    struct state_file *batches;
    size_t batch_count;
    struct part_place *places; /* by identity; of an image, its file first */
    size_t place_count, place_capacity;
};

/* An image while it is gathered. */
struct gathered {
    struct profile_sum *sum;
    char path[PATH_MAX];  /* of its file */
    struct buffer nonces; /* of the batches that its file lists */
    size_t added;         /* sums of batches that were not in its file */
};

typedef bool (*gathered_visitor)(void *context, struct gathered *image, struct error *error);

/* ---- places ---- */

static bool add_place(struct gathering *gathering, struct part_place place, struct error *error)
{
    if (!ARRAY_ROOM_FOR_ONE(gathering->places, gathering->place_capacity, gathering->place_count))
        return error_out_of_memory(error, gathering->state->path,
                                   gathering->place_count * sizeof(place));
    gathering->places[gathering->place_count++] = place;
    return true;
}

/* Opens these batches and lists their sums. Only with the lock. Free with gathering_free, even
 * after a failure. */
static bool gathering_start(struct gathering *gathering, const struct state *state,
                            const struct directory_names *names, size_t first, size_t count,
                            struct error *error)
{
    *gathering = (struct gathering){.state = state};
    gathering->batches = calloc(count + 1, sizeof(*gathering->batches));
    if (gathering->batches == NULL)
        return error_out_of_memory(error, state->path, count * sizeof(*gathering->batches));
    for (size_t i = 0; i < count; i++) {
        struct state_file *batch = &gathering->batches[i];
        const char *name = names->items[first + i];
        char path[PATH_MAX];
        struct digest nonce;

        state_parse_name(name, strlen(name), &nonce);
        state_file_path(state, STATE_BATCHES, &nonce, "", path);
        if (!state_file_open(batch, path, STATE_FILE_BATCH, &nonce, error))
            return false;
        gathering->batch_count++;
        for (size_t k = 0; k < batch->count; k++) {
            struct part_place place = {.batch = batch, .record = k};
            uint64_t ignored;

            if (batch->records[k].tag == STATE_RECORD_PART &&
                (!state_file_read_head(batch, k, &place.identity, &ignored, error) ||
                 !add_place(gathering, place, error)))
                return false;
        }
    }
    return true;
}

static void gathering_free(struct gathering *gathering)
{
    for (size_t i = 0; i < gathering->batch_count; i++)
        state_file_close(&gathering->batches[i]);
    free(gathering->batches);
    free(gathering->places);
    *gathering = (struct gathering){0};
}

/* Lists the files of all images too. */
static bool add_images(struct gathering *gathering, struct error *error)
{
    struct directory_names names = {0};
    bool done = state_list(gathering->state, STATE_IMAGES, &names, error);

    for (size_t i = 0; done && i < names.count; i++) {
        struct part_place place = {0};

        state_parse_name(names.items[i], strlen(names.items[i]), &place.identity);
        done = add_place(gathering, place, error);
    }
    directory_names_free(&names);
    return done;
}

/* ---- images ---- */

/* True if the file of the image lists the batch. */
static bool lists_batch(const struct gathered *image, const struct digest *nonce)
{
    for (size_t i = 0; i < image->nonces.size; i += DIGEST_SIZE) {
        if (memcmp(image->nonces.data + i, nonce->bytes, DIGEST_SIZE) == 0)
            return true;
    }
    return false;
}

/* Adds the file of the image, if there is one: a list of batches, and one sum. */
static bool add_file(struct gathered *image, uint64_t limit, struct error *error)
{
    struct state_file file;
    bool done;

    if (!state_file_open(&file, image->path, STATE_FILE_IMAGE, &image->sum->identity, error))
        return error->number == ENOENT;
    done = state_file_read(&file, 0, limit, &image->nonces, error) &&
           state_file_add_sum(&file, 1, limit, image->sum, error);
    state_file_close(&file);
    return done;
}

static bool visit_image(const struct gathering *gathering, size_t first, size_t count,
                        gathered_visitor visit, void *context, struct error *error)
{
    const struct part_place *places = gathering->places + first;
    uint64_t limit = memory_limit_given(gathering->state->memory_limit);
    struct gathered image = {.sum = profile_sum_new(&places->identity, error)};
    bool done = image.sum != NULL;

    state_file_path(gathering->state, STATE_IMAGES, &places->identity, "", image.path);
    done = done && add_file(&image, limit, error);
    for (size_t i = 0; done && i < count; i++) {
        if (places[i].batch == NULL || lists_batch(&image, &places[i].batch->name))
            continue;
        image.added++;
        done = state_file_add_sum(places[i].batch, places[i].record, limit, image.sum, error);
    }
    if (done && profile_sum_has_counters(image.sum))
        done = visit(context, &image, error);
    profile_sum_free(image.sum);
    buffer_free(&image.nonces);
    return done;
}

static int compare_places(const void *a, const void *b)
{
    const struct part_place *left = a, *right = b;
    int order = memcmp(left->identity.bytes, right->identity.bytes, DIGEST_SIZE);

    if (order != 0)
        return order;
    if (left->batch != right->batch)
        return left->batch < right->batch ? -1 : 1;
    return left->record < right->record ? -1 : left->record > right->record;
}

/* Visits the images of which there is something, in ascending order of identities. */
static bool visit_images(struct gathering *gathering, gathered_visitor visit, void *context,
                         struct error *error)
{
    const struct part_place *places = gathering->places;
    size_t count = gathering->place_count, next;

    if (count > 1)
        qsort(gathering->places, count, sizeof(*places), compare_places);
    for (size_t first = 0; first < count; first = next) {
        next = first + 1;
        while (next < count && digest_equal(&places[first].identity, &places[next].identity))
            next++;
        if (!visit_image(gathering, first, next - first, visit, context, error))
            return false;
    }
    return true;
}

/* ---- claims ---- */

/* Deletes a claim, unless it is not found: then it may be elsewhere. Its directory was renamed, or
 * is not mounted, or has another path for the process that made the claim, as in a container; and
 * another directory may have its path by now. Then the batch is kept, so that the claim is known to
 * count. */
static bool delete_claim(const struct listed_claim *claim, bool *is_gone, struct error *error)
{
    static const char why[] = "%s: counts, but cannot be deleted; delete it";
    char directory[PATH_MAX];
    struct stat status;
    bool done;
    int fd;

    *is_gone = false;
    fd = path_directory(claim->path, directory) ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC)
                                                : -1;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ||
               error_set_errno(error, errno, why, claim->path);
    *is_gone = unlinkat(fd, path_file_name(claim->path), 0) == 0;
    done = *is_gone || errno == ENOENT || error_set_errno(error, errno, why, claim->path);
    if (done && !*is_gone)
        *is_gone = fstat(fd, &status) == 0 && status.st_dev == claim->device &&
                   status.st_ino == claim->inode;
    close(fd);
    return done;
}

static int compare_paths(const void *a, const void *b)
{
    const struct listed_claim *left = a, *right = b;

    return strcmp(left->path, right->path);
}

/* Syncs the directory of a claim, unless the next one is in the same. */
static bool sync_after(const char *path, const char *next, struct error *error)
{
    size_t length = (size_t)(path_file_name(path) - path);
    char directory[PATH_MAX];

    if (next != NULL && (size_t)(path_file_name(next) - next) == length &&
        memcmp(path, next, length) == 0)
        return true;
    return !path_directory(path, directory) || !path_is_directory(directory) ||
           state_sync_directory(directory, error);
}

/* Deletes the claims of a batch, and then the batch, unless a claim may be elsewhere. Only claims
 * of the batch are ever deleted, whatever its file says. */
static bool finish_batch(const struct state_file *batch, struct error *error)
{
    struct listed_claim *claims = calloc(batch->count + 1, sizeof(*claims));
    struct arena arena = {0};
    size_t count = 0;
    bool done = claims != NULL || error_out_of_memory(error, batch->path, batch->count);
    bool are_gone = true;

    for (size_t i = 0; done && i < batch->count; i++) {
        if (batch->records[i].tag == STATE_RECORD_CLAIM)
            done = claim_read(batch, i, &arena, &claims[count++], error);
    }
    if (done && count > 1)
        qsort(claims, count, sizeof(*claims), compare_paths);
    for (size_t i = 0; done && i < count; i++) {
        const char *path = claims[i].path;
        struct digest nonce;
        bool is_gone;

        if (path[0] != '/' || claim_parse(path_file_name(path), &nonce) == 0 ||
            !digest_equal(&nonce, &batch->name)) {
            done = state_file_damaged(batch->path, "it names a file that is no claim of it", error);
            break;
        }
        done = delete_claim(&claims[i], &is_gone, error) &&
               sync_after(path, i + 1 < count ? claims[i + 1].path : NULL, error);
        are_gone = are_gone && is_gone;
    }
    arena_free(&arena);
    free(claims);
    return done && (!are_gone || unlink(batch->path) == 0 ||
                    error_set_errno(error, errno, "%s: cannot be removed", batch->path));
}

/* ---- folding ---- */

struct folding {
    const struct directory_names *existing; /* all committed batches */
    size_t first, count;                    /* those of this round */
};

/* A gathered_visitor. The file will list the batches of this round, even if they have nothing of
 * the image, and those that it lists and that still exist. */
static bool write_image(void *context, struct gathered *image, struct error *error)
{
    const struct folding *folding = context;
    struct state_writer writer = {0};
    struct buffer nonces = {0};
    enum output_result result;
    bool done;

    if (image->added == 0)
        return true;
    for (size_t i = 0; i < folding->existing->count; i++) {
        const char *name = folding->existing->items[i];
        struct digest nonce;

        state_parse_name(name, strlen(name), &nonce);
        if (i - folding->first < folding->count || lists_batch(image, &nonce))
            buffer_append(&nonces, nonce.bytes, DIGEST_SIZE);
    }
    done =
        (!nonces.failed || error_out_of_memory(error, image->path, nonces.size)) &&
        state_writer_start(&writer, image->path, STATE_FILE_IMAGE, &image->sum->identity, error) &&
        state_writer_put(&writer, STATE_RECORD_FOLDED, buffer_view(&nonces), error) &&
        state_writer_put_sum(&writer, image->sum, error) && state_writer_end(&writer, error) &&
        output_commit(&writer.output, &result, error);
    state_writer_free(&writer);
    buffer_free(&nonces);
    return done;
}

/* If a batch cannot be finished, the others are finished all the same. */
static bool fold_round(const struct state *state, struct folding *folding, struct error *error)
{
    struct gathering round;
    bool done =
        gathering_start(&round, state, folding->existing, folding->first, folding->count, error) &&
        visit_images(&round, write_image, folding, error) &&
        state_sync_folder(state, STATE_IMAGES, error);

    for (size_t i = 0, count = done ? round.batch_count : 0; i < count; i++) {
        struct error failure = {0};

        if (!finish_batch(&round.batches[i], &failure)) {
            if (done)
                *error = failure;
            done = false;
        }
    }
    gathering_free(&round);
    return done;
}

bool state_fold(struct state *state, struct error *error)
{
    struct directory_names batches = {0};
    struct folding folding = {.existing = &batches};
    bool done;

    if (!state_lock(state, error))
        return false;
    done = state_remove_leftovers(state, error) &&
           state_list(state, STATE_BATCHES, &batches, error) &&
           (batches.count == 0 || state_sync_folder(state, STATE_BATCHES, error));
    for (; done && folding.first < batches.count; folding.first += ROUND_MAX) {
        size_t left = batches.count - folding.first;

        folding.count = left < ROUND_MAX ? left : ROUND_MAX;
        done = fold_round(state, &folding, error);
    }
    directory_names_free(&batches);
    state_unlock(state);
    return done;
}

/* ---- reading ---- */

struct reading {
    state_visitor visit;
    void *context;
};

/* A gathered_visitor. */
static bool read_image(void *context, struct gathered *image, struct error *error)
{
    const struct reading *reading = context;

    return reading->visit(reading->context, image->sum, image->path, error);
}

bool state_read(struct state *state, state_visitor visit, void *context, struct error *error)
{
    struct reading reading = {visit, context};
    struct directory_names batches = {0};
    struct gathering gathering = {0};
    bool done;

    if (!state_lock(state, error))
        return false;
    done = state_list(state, STATE_BATCHES, &batches, error) &&
           gathering_start(&gathering, state, &batches, 0, batches.count, error) &&
           add_images(&gathering, error) && visit_images(&gathering, read_image, &reading, error);
    gathering_free(&gathering);
    directory_names_free(&batches);
    state_unlock(state);
    return done;
}
