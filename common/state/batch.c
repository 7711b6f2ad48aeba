/*
 * Batches: see state.h.
 *
 * The file of a batch has no name while it is written. The process holds a lock on an empty file,
 * NONCE.open, which shows other processes that the batch is alive.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/state/claim_names.h"
#include "common/state/part.h"
#include "common/state/state_directory.h"
#include "common/state/state_file.h"

struct state_batch {
    struct state *state;
    struct digest nonce;
    struct state_writer writer;
    char *open_path; /* NONCE.open */
    int open_fd;
    uint64_t next_claim;
    bool has_records;
    bool may_count;
};

/* ---- the beginning ---- */

static bool choose_nonce(struct state_batch *batch, struct error *error)
{
    size_t size = DIGEST_SIZE - STATE_ID_SIZE;

    memcpy(batch->nonce.bytes, batch->state->id, STATE_ID_SIZE);
    return getrandom(batch->nonce.bytes + STATE_ID_SIZE, size, 0) == (ssize_t)size ||
           error_set_errno(error, errno, "%s: no random number for it", batch->state->path);
}

/* Creates and locks NONCE.open. Before it is locked, another process may take it for that of a dead
 * process, and remove it. */
static bool take_open_file(struct state_batch *batch, bool *has_name, struct error *error)
{
    struct stat status;
    int failure;

    batch->open_fd = open(batch->open_path, O_WRONLY | O_CREAT | O_CLOEXEC, file_new_mode());
    if (batch->open_fd < 0)
        return error_set_errno(error, errno, "%s: cannot be written", batch->open_path);
    failure = state_lock_file(batch->open_fd, F_WRLCK, true);
    if (failure != 0)
        return error_set_errno(error, failure,
                               "%s: cannot be locked; use a directory on a local disk",
                               batch->open_path);
    if (fstat(batch->open_fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", batch->open_path);
    *has_name = status.st_nlink != 0;
    if (!*has_name) {
        close(batch->open_fd);
        batch->open_fd = -1;
    }
    return true;
}

static bool start(struct state_batch *batch, struct error *error)
{
    bool has_name = false;
    char *path;
    bool done;

    if (!choose_nonce(batch, error))
        return false;
    batch->open_path =
        state_file_path(batch->state, STATE_BATCHES, &batch->nonce, STATE_OPEN, error);
    if (batch->open_path == NULL)
        return false;
    while (!has_name) {
        if (!take_open_file(batch, &has_name, error))
            return false;
    }
    path = state_file_path(batch->state, STATE_BATCHES, &batch->nonce, "", error);
    done = path != NULL &&
           state_writer_start(&batch->writer, path, STATE_FILE_BATCH, &batch->nonce, error);
    free(path);
    return done;
}

bool state_batch_start(struct state *state, struct state_batch **started, struct error *error)
{
    struct state_batch *batch = calloc(1, sizeof(*batch));

    *started = NULL;
    if (batch == NULL)
        return error_out_of_memory(error, state->path, sizeof(*batch));
    batch->state = state;
    batch->open_fd = -1;
    if (!start(batch, error)) {
        state_batch_free(batch);
        return false;
    }
    *started = batch;
    return true;
}

/* ---- what is in it ---- */

bool state_batch_add(struct state_batch *batch, const struct state_part *part, struct error *error)
{
    batch->has_records = true;
    return state_writer_put_part(&batch->writer, part, error);
}

bool state_claim_path(struct state_batch *batch, const char *path, char claim[PATH_MAX],
                      struct error *error)
{
    return claim_format(path, &batch->nonce, batch->next_claim++, claim, error);
}

/* The claim is deleted by whoever folds the batch, in whatever directory that runs. */
bool state_batch_consume(struct state_batch *batch, const char *claim, struct error *error)
{
    struct digest nonce;

    if (claim_parse(path_file_name(claim), &nonce) == 0 || !digest_equal(&nonce, &batch->nonce))
        return error_set(error, "%s: not a claim of this batch", claim);
    batch->has_records = true;
    return claim_put(&batch->writer, claim, error);
}

/* ---- the end ---- */

/* Removes the name again, which may not be on the disk. Nobody has seen it, since the state is
 * locked. */
static void take_back_name(const struct state_batch *batch, struct error *error)
{
    struct error ignored;
    char *path = state_file_path(batch->state, STATE_BATCHES, &batch->nonce, "", &ignored);

    if (path == NULL || unlink(path) != 0)
        error_set(error, "%s: a batch may count, or may not: its directory cannot be synced",
                  batch->state->path);
    free(path);
}

/* Without NONCE.open, others would take the claims for those of a process that ended, and count
 * them too. */
static bool is_still_living(const struct state_batch *batch, struct error *error)
{
    struct stat mine, found = {0};

    if (fstat(batch->open_fd, &mine) != 0 ||
        (lstat(batch->open_path, &found) != 0 && errno != ENOENT && errno != ENOTDIR))
        return error_set_errno(error, errno, "%s: cannot be read", batch->open_path);
    return (found.st_nlink != 0 && file_is_same(&mine, &found)) ||
           error_set(error, "%s: was removed while it was used, so its batch does not count",
                     batch->open_path);
}

static bool give_name(struct state_batch *batch, struct error *error)
{
    enum output_result result = OUTPUT_UNCHANGED;
    bool done;

    if (!is_still_living(batch, error))
        return false;
    batch->may_count = true;
    done = output_try_commit(&batch->writer.output, true, &result, error);
    if (result == OUTPUT_NOT_SYNCED)
        take_back_name(batch, error);
    return !done || result == OUTPUT_WRITTEN
               ? done
               : error_set(error, "%s: was changed while a batch was added; see that it is whole",
                           batch->state->path);
}

bool state_batch_commit(struct state_batch *batch, struct error *error)
{
    bool done;

    if (!batch->has_records)
        return true;
    if (!state_writer_end(&batch->writer, error) || !state_lock(batch->state, error))
        return false;
    done = give_name(batch, error);
    state_unlock(batch->state);
    return done;
}

bool state_batch_may_count(const struct state_batch *batch)
{
    return batch->may_count;
}

void state_batch_free(struct state_batch *batch)
{
    if (batch == NULL)
        return;
    state_writer_free(&batch->writer);
    if (batch->open_fd >= 0) {
        unlink(batch->open_path);
        close(batch->open_fd);
    }
    free(batch->open_path);
    free(batch);
}

/* ---- whose a claim is ---- */

/* Whether a process holds the lock of NONCE.open. */
static bool is_living(const char *open_path, bool *living, struct error *error)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(open_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool done;

    *living = false;
    if (fd < 0)
        return errno == ENOENT || error_set_errno(error, errno, "%s: cannot be read", open_path);
    done = fcntl(fd, F_OFD_GETLK, &lock) == 0 ||
           error_set_errno(error, errno, "%s: its lock cannot be read", open_path);
    *living = lock.l_type != F_UNLCK;
    close(fd);
    return done;
}

/* Claims are compared by their names, which are unique in a batch: directories may have other paths
 * for other processes. */
static bool lists_claim(const struct state_file *batch, const char *name, bool *lists,
                        struct error *error)
{
    struct listed_claim claim;
    bool done = true;

    *lists = false;
    for (size_t i = 0; done && !*lists && i < batch->count; i++) {
        if (batch->records[i].tag != STATE_RECORD_CLAIM)
            continue;
        done = claim_read(batch, i, &claim, error);
        *lists = done && strcmp(path_file_name(claim.path), name) == 0;
        free(claim.path);
    }
    return done;
}

static bool look_into_batch(const struct state *state, const struct digest *nonce, const char *name,
                            enum state_claim *result, struct error *error)
{
    char *path = state_file_path(state, STATE_BATCHES, nonce, "", error);
    struct state_file batch;
    bool lists = false, done;

    if (path == NULL)
        return false;
    done = state_file_open(&batch, path, STATE_FILE_BATCH, nonce, error);
    if (done) {
        done = lists_claim(&batch, name, &lists, error);
        state_file_close(&batch);
    }
    /* It may have been removed meanwhile, and before that the claim, if it was in it. */
    done = done || error->number == ENOENT;
    free(path);
    *result = lists ? STATE_CLAIM_COUNTED : STATE_CLAIM_UNCOUNTED;
    return done;
}

/* NONCE.open is looked at first: it is removed after the batch was committed. */
bool state_claim_find(struct state *state, const char *claim, enum state_claim *result,
                      struct error *error)
{
    const char *name = path_file_name(claim);
    struct digest nonce;
    bool living, done;
    char *open_path;

    *result = STATE_CLAIM_FOREIGN;
    if (claim_parse(name, &nonce) == 0)
        return error_set(error, "%s: not a claim", claim);
    if (memcmp(nonce.bytes, state->id, STATE_ID_SIZE) != 0)
        return true;
    open_path = state_file_path(state, STATE_BATCHES, &nonce, STATE_OPEN, error);
    done = open_path != NULL && is_living(open_path, &living, error);
    free(open_path);
    if (!done)
        return false;
    *result = STATE_CLAIM_LIVING;
    /* Only that state could tell. */
    return living || (look_into_batch(state, &nonce, name, result, error) &&
                      (*result == STATE_CLAIM_COUNTED || state_is_in_place(state, error)));
}
