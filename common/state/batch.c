/*
 * Batches and claims: see state.h.
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
#include "common/state/internal.h"

struct state_batch {
    struct state *state;
    struct digest nonce;
    struct state_writer writer;
    char path[PATH_MAX];
    char open_path[PATH_MAX]; /* NONCE.open */
    int open_fd;
    uint64_t next_claim;
    bool has_records;
    bool may_count;
};

/* ---- the beginning ---- */

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

static bool start_files(struct state_batch *batch, struct error *error)
{
    size_t size = DIGEST_SIZE - STATE_ID_SIZE;
    bool has_name = false;

    memcpy(batch->nonce.bytes, batch->state->id, STATE_ID_SIZE);
    if (getrandom(batch->nonce.bytes + STATE_ID_SIZE, size, 0) != (ssize_t)size)
        return error_set_errno(error, errno, "%s: no random number for it", batch->state->path);
    state_file_path(batch->state, STATE_BATCHES, &batch->nonce, "", batch->path);
    state_file_path(batch->state, STATE_BATCHES, &batch->nonce, STATE_OPEN, batch->open_path);
    while (!has_name) {
        if (!take_open_file(batch, &has_name, error))
            return false;
    }
    return state_writer_start(&batch->writer, batch->path, STATE_FILE_BATCH, &batch->nonce, error);
}

bool state_batch_start(struct state *state, struct state_batch **started, struct error *error)
{
    struct state_batch *batch = calloc(1, sizeof(*batch));

    *started = NULL;
    if (batch == NULL)
        return error_out_of_memory(error, state->path, sizeof(*batch));
    batch->state = state;
    batch->open_fd = -1;
    if (!start_files(batch, error)) {
        state_batch_free(batch);
        return false;
    }
    *started = batch;
    return true;
}

bool state_batch_add(struct state_batch *batch, struct profile_sum *sum, struct error *error)
{
    batch->has_records = true;
    return state_writer_put_sum(&batch->writer, sum, error);
}

/* ---- the end ---- */

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
    /* Nobody has seen the name, since the state is locked; it may be on the disk, or not. */
    if (result == OUTPUT_NOT_SYNCED && unlink(batch->path) != 0)
        error_set(error,
                  "%s: it is unknown whether the batch counts: its directory cannot be synced",
                  batch->state->path);
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
    free(batch);
}

/* ---- the names of claims ---- */

#define MARK ".covsplit-claim-"

/* The hexadecimal digits of a nonce, a hyphen, and a number. */
#define NONCE_LENGTH     (2 * DIGEST_SIZE)
#define NUMBER_MAX       20
#define CLAIMED_NAME_MAX (NAME_MAX - 1 - sizeof(MARK) - NONCE_LENGTH - 1 - NUMBER_MAX)

size_t claim_parse(const char *name, struct digest *nonce)
{
    const char *dash = strrchr(name, '-'), *mark;

    if (name[0] != '.' || dash == NULL || strlen(dash + 1) > NUMBER_MAX || dash[1] == '\0' ||
        dash[1 + strspn(dash + 1, "0123456789")] != '\0' ||
        (size_t)(dash - name) < 2 + strlen(MARK) + NONCE_LENGTH)
        return 0;
    mark = dash - NONCE_LENGTH - strlen(MARK);
    if (memcmp(mark, MARK, strlen(MARK)) != 0 ||
        !state_parse_name(dash - NONCE_LENGTH, NONCE_LENGTH, nonce))
        return 0;
    return (size_t)(mark - name) - 1;
}

size_t state_claim_name_length(const char *name)
{
    struct digest nonce;

    return claim_parse(name, &nonce);
}

bool state_claim_path(struct state_batch *batch, const char *path, char claim[PATH_MAX],
                      struct error *error)
{
    const char *name = path_file_name(path);
    int directory = (int)(name - path);
    size_t claimed = state_claim_name_length(name);
    size_t length = claimed != 0 ? claimed : strlen(name);
    char text[DIGEST_HEX_MAX];

    if (length > CLAIMED_NAME_MAX)
        length = CLAIMED_NAME_MAX;
    if (snprintf(claim, PATH_MAX, "%.*s.%.*s" MARK "%s-%llu", directory, path, (int)length,
                 claimed != 0 ? name + 1 : name, digest_format(&batch->nonce, text),
                 (unsigned long long)batch->next_claim++) < PATH_MAX)
        return true;
    return error_set(error, "%s: the path is too long to consume the file; use a shorter one",
                     path);
}

/* ---- the records of claims ---- */

/* Device and inode of the directory, before the path. */
#define PLACE_SIZE (2 * sizeof(uint64_t))

static bool put_claim(struct state_writer *writer, const char *directory, const char *claim,
                      struct error *error)
{
    uint8_t record[PLACE_SIZE + PATH_MAX];
    struct stat status;
    int length = snprintf((char *)record + PLACE_SIZE, PATH_MAX, "%s/%s",
                          strcmp(directory, "/") == 0 ? "" : directory, path_file_name(claim));

    if (length >= PATH_MAX)
        return error_set(error, "%.700s: its whole path is too long to consume the file", claim);
    if (stat(directory, &status) != 0)
        return error_set_errno(error, errno, "%s: its directory cannot be found", claim);
    store_u64(record, status.st_dev, false);
    store_u64(record + sizeof(uint64_t), status.st_ino, false);
    return state_writer_put(writer, STATE_RECORD_CLAIM,
                            (struct bytes){record, PLACE_SIZE + (uint64_t)length}, error);
}

/* The claim is deleted by whoever folds the batch, in whatever directory that runs. */
bool state_batch_consume(struct state_batch *batch, const char *claim, struct error *error)
{
    char directory[PATH_MAX], *real;
    struct digest nonce;
    bool done;

    if (claim_parse(path_file_name(claim), &nonce) == 0 || !digest_equal(&nonce, &batch->nonce))
        return error_set(error, "%s: not a claim of this batch", claim);
    batch->has_records = true;
    real = path_directory(claim, directory) ? realpath(directory, NULL) : NULL;
    done = real != NULL ? put_claim(&batch->writer, real, claim, error)
                        : error_set_errno(error, errno, "%s: its directory cannot be found", claim);
    free(real);
    return done;
}

bool claim_read(const struct state_file *batch, size_t record, struct arena *arena,
                struct listed_claim *claim, struct error *error)
{
    struct buffer content = {0};
    bool done = state_file_read(batch, record, PLACE_SIZE + PATH_MAX, &content, error);

    if (done && content.size <= PLACE_SIZE)
        done = state_file_damaged(batch->path, "a record is not what it should be", error);
    if (done) {
        *claim = (struct listed_claim){
            .device = load_u64(content.data, false),
            .inode = load_u64(content.data + sizeof(uint64_t), false),
            .path = arena_copy(
                arena, (struct bytes){content.data + PLACE_SIZE, content.size - PLACE_SIZE})};
        done = claim->path != NULL || error_out_of_memory(error, batch->path, content.size);
    }
    buffer_free(&content);
    return done;
}

/* ---- whose a claim is ---- */

/* *living: a process holds the lock of NONCE.open. */
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
    struct arena arena = {0};
    bool done = true;

    *lists = false;
    for (size_t i = 0; done && !*lists && i < batch->count; i++) {
        struct listed_claim claim;

        if (batch->records[i].tag != STATE_RECORD_CLAIM)
            continue;
        done = claim_read(batch, i, &arena, &claim, error);
        *lists = done && strcmp(path_file_name(claim.path), name) == 0;
    }
    arena_free(&arena);
    return done;
}

static bool look_into_batch(const struct state *state, const struct digest *nonce, const char *name,
                            enum state_claim *result, struct error *error)
{
    struct state_file batch;
    char path[PATH_MAX];
    bool lists = false, done;

    state_file_path(state, STATE_BATCHES, nonce, "", path);
    done = state_file_open(&batch, path, STATE_FILE_BATCH, nonce, error);
    if (done) {
        done = lists_claim(&batch, name, &lists, error);
        state_file_close(&batch);
    }
    /* It may have been removed meanwhile, and before that the claim, if it was in it. */
    done = done || error->number == ENOENT;
    *result = lists ? STATE_CLAIM_COUNTED : STATE_CLAIM_UNCOUNTED;
    return done;
}

/* A batch whose name could not be synced was removed again, and after a power failure may be there
 * all the same. Before its claims are counted otherwise, it must be gone for good. */
static bool sync_gone_batch(struct state *state, const struct digest *nonce, struct error *error)
{
    if (digest_equal(&state->gone_batch, nonce))
        return true;
    if (!state_sync_folder(state, STATE_BATCHES, error))
        return false;
    state->gone_batch = *nonce;
    return true;
}

/* NONCE.open is looked at first: it is removed after the batch was committed. */
bool state_claim_find(struct state *state, const char *claim, enum state_claim *result,
                      struct error *error)
{
    const char *name = path_file_name(claim);
    struct digest nonce;
    char open_path[PATH_MAX];
    bool living;

    *result = STATE_CLAIM_FOREIGN;
    if (claim_parse(name, &nonce) == 0)
        return error_set(error, "%s: not a claim", claim);
    if (memcmp(nonce.bytes, state->id, STATE_ID_SIZE) != 0)
        return true;
    state_file_path(state, STATE_BATCHES, &nonce, STATE_OPEN, open_path);
    if (!is_living(open_path, &living, error))
        return false;
    *result = STATE_CLAIM_IN_PROGRESS;
    /* Only that state could tell. */
    return living || (look_into_batch(state, &nonce, name, result, error) &&
                      (*result == STATE_CLAIM_COUNTED ||
                       (state_is_in_place(state, error) && sync_gone_batch(state, &nonce, error))));
}
