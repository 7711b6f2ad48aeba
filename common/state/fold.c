/*
 * Folding and reading: see state.h.
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
#include "common/base/output.h"
#include "common/state/claim_names.h"
#include "common/state/gather.h"

/* So many batches at a time, to bound memory. */
#define ROUND_MAX 64

struct folding {
    const struct state *state;
    const struct directory_names *existing; /* all committed batches */
    size_t first;                           /* of this round */
    struct gathering gathering;             /* those of this round */
};

/* ---- images ---- */

/* The batches that the file will list: those of this round, even if they have nothing of the image,
 * and those that it lists, and that still exist. */
static bool list_batches(const struct folding *folding, const struct gathered *image,
                         struct buffer *nonces, struct error *error)
{
    for (size_t i = 0; i < folding->existing->count; i++) {
        const char *name = folding->existing->items[i];
        bool is_of_round = i - folding->first < folding->gathering.batch_count;
        struct digest nonce;

        state_parse_name(name, strlen(name), &nonce);
        if ((is_of_round || gathered_lists(image, &nonce)) &&
            !buffer_append(nonces, nonce.bytes, DIGEST_SIZE))
            return error_out_of_memory(error, image->path, nonces->size);
    }
    return true;
}

/* A gathered_visitor. */
static bool write_image(void *context, struct gathered *image, struct error *error)
{
    const struct folding *folding = context;
    struct state_part *part = whole_part_view(&image->whole);
    struct state_writer writer = {0};
    struct buffer nonces = {0};
    enum output_result result;
    bool done;

    if (image->added == 0)
        return true;
    done = list_batches(folding, image, &nonces, error) &&
           state_writer_start(&writer, image->path, STATE_FILE_IMAGE, &part->identity, error) &&
           state_writer_put(&writer, STATE_RECORD_FOLDED, buffer_view(&nonces), error) &&
           state_writer_put_part(&writer, part, error) && state_writer_end(&writer, error) &&
           output_commit(&writer.output, &result, error);
    state_writer_free(&writer);
    buffer_free(&nonces);
    return done;
}

/* ---- claims ---- */

struct claim_list {
    struct listed_claim *items;
    size_t count, capacity;
};

static void free_claims(struct claim_list *claims)
{
    for (size_t i = 0; i < claims->count; i++)
        free(claims->items[i].path);
    free(claims->items);
}

static bool read_claims(const struct state_file *batch, struct claim_list *claims,
                        struct error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->records[i].tag != STATE_RECORD_CLAIM)
            continue;
        if (!ARRAY_ROOM_FOR_ONE(claims->items, claims->capacity, claims->count))
            return error_out_of_memory(error, batch->path, claims->count);
        if (!claim_read(batch, i, &claims->items[claims->count], error))
            return false;
        claims->count++;
    }
    return true;
}

/* Only claims of the batch are ever deleted, whatever its file says. */
static bool is_claim_of(const struct state_file *batch, const char *path)
{
    struct digest nonce;

    return path[0] == '/' && claim_parse(path_file_name(path), &nonce) != 0 &&
           digest_equal(&nonce, &batch->name);
}

/* A descriptor of the directory of a claim; -1 if there is none at that path. */
static bool open_its_directory(const struct listed_claim *claim, int *fd, struct error *error)
{
    char directory[PATH_MAX];

    *fd = path_directory(claim->path, directory) ? open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC)
                                                 : -1;
    return *fd >= 0 || errno == ENOENT || errno == ENOTDIR ||
           error_set_errno(error, errno, "%s: counts, but cannot be deleted; delete it",
                           claim->path);
}

static bool is_its_directory(const struct listed_claim *claim, int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_dev == claim->device &&
           status.st_ino == claim->inode;
}

/* A claim that is not found may be elsewhere: its directory was renamed, or is not mounted, or has
 * another path for the process that made the claim, as in a container; and another directory may
 * have its path by now. Then the batch is kept, so that the claim is known to count. */
static bool delete_claim(const struct listed_claim *claim, bool *is_gone, struct error *error)
{
    bool done;
    int fd;

    *is_gone = false;
    if (!open_its_directory(claim, &fd, error))
        return false;
    if (fd < 0)
        return true;
    *is_gone = unlinkat(fd, path_file_name(claim->path), 0) == 0;
    done =
        *is_gone || errno == ENOENT ||
        error_set_errno(error, errno, "%s: counts, but cannot be deleted; delete it", claim->path);
    *is_gone = *is_gone || (done && is_its_directory(claim, fd));
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

/* *are_gone: all claims have been deleted. */
static bool delete_claims(const struct state_file *batch, bool *are_gone, struct error *error)
{
    struct claim_list claims = {0};
    bool done = read_claims(batch, &claims, error);

    *are_gone = done;
    if (claims.count > 1)
        qsort(claims.items, claims.count, sizeof(*claims.items), compare_paths);
    for (size_t i = 0; done && i < claims.count; i++) {
        const char *next = i + 1 < claims.count ? claims.items[i + 1].path : NULL;
        bool is_gone = false;

        if (!is_claim_of(batch, claims.items[i].path))
            done = state_file_damaged(batch->path, "it names a file that is no claim of it", error);
        done = done && delete_claim(&claims.items[i], &is_gone, error) &&
               sync_after(claims.items[i].path, next, error);
        *are_gone = *are_gone && is_gone;
    }
    free_claims(&claims);
    return done;
}

/* ---- rounds ---- */

static bool finish_batch(const struct state_file *batch, struct error *error)
{
    bool are_gone;

    if (!delete_claims(batch, &are_gone, error))
        return false;
    return !are_gone || unlink(batch->path) == 0 ||
           error_set_errno(error, errno, "%s: cannot be removed", batch->path);
}

/* If a batch cannot be finished, the others are finished all the same. */
static bool finish_batches(const struct gathering *round, struct error *error)
{
    bool done = true;

    for (size_t i = 0; i < round->batch_count; i++) {
        struct error failure = {0};

        if (!finish_batch(&round->batches[i], &failure)) {
            if (done)
                *error = failure;
            done = false;
        }
    }
    return done;
}

static bool fold_round(struct folding *folding, size_t first, size_t count, struct error *error)
{
    struct gathering *round = &folding->gathering;
    bool done;

    folding->first = first;
    done = gathering_start(round, folding->state, folding->existing, first, count, error) &&
           gathering_visit(round, write_image, folding, error) &&
           state_sync_folder(folding->state, STATE_IMAGES, error) && finish_batches(round, error);

    gathering_free(round);
    return done;
}

static bool fold_all(const struct state *state, struct error *error)
{
    struct directory_names batches = {0};
    struct folding folding = {.state = state, .existing = &batches};
    bool done = state_remove_leftovers(state, error) &&
                state_list(state, STATE_BATCHES, &batches, error) &&
                (batches.count == 0 || state_sync_folder(state, STATE_BATCHES, error));

    for (size_t first = 0; done && first < batches.count; first += ROUND_MAX) {
        size_t left = batches.count - first;

        done = fold_round(&folding, first, left < ROUND_MAX ? left : ROUND_MAX, error);
    }
    directory_names_free(&batches);
    return done;
}

bool state_fold(struct state *state, struct error *error)
{
    bool done;

    if (!state_lock(state, error))
        return false;
    done = fold_all(state, error);
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

    return reading->visit(reading->context, whole_part_view(&image->whole), image->path, error);
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
           gathering_add_images(&gathering, error) &&
           gathering_visit(&gathering, read_image, &reading, error);
    gathering_free(&gathering);
    directory_names_free(&batches);
    state_unlock(state);
    return done;
}
