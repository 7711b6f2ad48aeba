/*
 * Claims: profiles that are to be deleted once they count.
 *
 * Before a profile is read, it is renamed to a hidden name that contains the nonce of the batch
 * (state.h). From then on no program finds it by its name: a program that wants to write there
 * creates a new file. But a program may have opened it before. This is how pools (%m) work: when a
 * process ends, it opens the file, waits for a lock, reads the file, adds its own counts, and
 * writes it. What it adds after the profile was read would be deleted with the file. So a profile
 * is claimed only if nobody has it open. This is checked by a write lease (F_SETLEASE), which the
 * kernel does not grant while the file is open elsewhere, or mapped.
 *
 * Where there are no leases, as on network file systems or for files of other users, the lock that
 * the profile runtime takes on a pool is checked instead. It does not show a process that has
 * opened the file but not yet locked it; so such a claim is left alone for a moment, and checked
 * again before it is read.
 *
 * A process may also have looked up the name, but not yet opened the file, when the file is
 * renamed: then it opens the claim. So before a batch is committed, all claims are checked once
 * more: nobody may have one open, and none may have changed since it was taken.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/llvm/profile_reader.h"
#include "split/cli/memory.h"
#include "split/profiles/merge.h"

/* ---- whether anybody has it open ---- */

enum use {
    USE_NONE,        /* nobody has it open */
    USE_UNSEEN,      /* nobody holds the runtime's lock, and more cannot be told */
    USE_OPEN,        /* somebody has it open */
    USE_CANNOT_TELL, /* there is neither a lease nor a lock; see errno */
};

/* True for file systems whose leases do not say what other machines have open. NFS and SMB give
 * none that they would have to ask the server for, with the same error as if the file were open. */
static bool is_network(int fd)
{
    struct statfs system;

    if (fstatfs(fd, &system) != 0)
        return false;
    switch ((unsigned long)system.f_type) {
    case 0x6969:     /* NFS */
    case 0xff534d42: /* CIFS */
    case 0xfe534d42: /* SMB 2 */
    case 0x517b:     /* SMB */
    case 0x00c36400: /* Ceph */
    case 0x01021997: /* 9P */
        return true;
    default:
        return false;
    }
}

/* The lease, or the lock, ends when the descriptor is closed. While there is a lease, whoever opens
 * the file waits. The lock is a read lock, since the file may be open for reading only; it
 * conflicts with the runtime's, which is a write lock. */
static enum use look_at_use(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

    if (!is_network(fd)) {
        if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
            return USE_NONE;
        if (errno == EAGAIN)
            return USE_OPEN;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return USE_UNSEEN;
    return errno == EAGAIN || errno == EACCES ? USE_OPEN : USE_CANNOT_TELL;
}

static int open_claimed(const char *path)
{
    return file_open_as_it_is(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Sets *now to the status of the claim, unless somebody has it open. */
static bool nobody_has_it(const struct claim *claim, struct stat *now)
{
    int fd = open_claimed(claim->path);
    bool nobody;

    if (fd < 0)
        return false;
    nobody = look_at_use(fd) != USE_OPEN && fstat(fd, now) == 0;
    close(fd);
    return nobody;
}

bool claim_is_quiet(const struct claim *claim)
{
    struct stat now;

    return nobody_has_it(claim, &now) && file_is_untouched(&claim->status, &now);
}

/* ---- the list ---- */

static void free_claim(struct claim *claim)
{
    free(claim->path);
    free(claim->name);
}

static void remove_claim(struct claims *claims, size_t index)
{
    free_claim(&claims->items[index]);
    claims->count--;
    memmove(&claims->items[index], &claims->items[index + 1],
            (claims->count - index) * sizeof(*claims->items));
}

/* ---- taking ---- */

static enum claim_result leave(struct error *error, int number, const char *path, const char *why)
{
    if (number != 0)
        error_set_errno(error, number, "%s: %s", path, why);
    else
        error_set(error, "%s: %s", path, why);
    return error_is_of_memory(error) ? CLAIM_FAILED : CLAIM_LEFT;
}

/* An old claim: behind the claimed name, `batch` tells its batch, up to the last hyphen. A batch
 * that another process works on has hundreds: the state is asked about one of them only. */
static enum claim_result look_at_claim(struct claims *claims, const char *path, const char *batch,
                                       struct error *error)
{
    int length = (int)(strrchr(batch, '-') - batch);
    enum state_claim what;

    if (strncmp(claims->last_busy, batch, (size_t)length) == 0 && claims->last_busy[length] == '\0')
        return CLAIM_NOT;
    if (!state_claim_find(claims->state, path, &what, error))
        return CLAIM_FAILED;
    if (what == STATE_CLAIM_FOREIGN)
        return leave(error, 0, path, "being merged into another state; finish that merge");
    if (what == STATE_CLAIM_UNCOUNTED)
        return CLAIM_TAKEN;
    snprintf(claims->last_busy, sizeof(claims->last_busy), "%.*s", length, batch);
    return CLAIM_NOT;
}

/* Looks at a file without opening it. CLAIM_TAKEN: nothing speaks against it. */
static enum claim_result look_at_name(struct claims *claims, const char *path, struct error *error)
{
    const char *name = path_file_name(path);
    struct stat status;
    size_t claimed;

    if (file_temporary_final_length(name) != 0)
        return CLAIM_NOT;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? CLAIM_NOT : leave(error, errno, path, "cannot be read");
    if (S_ISLNK(status.st_mode))
        return leave(error, 0, path, "a symbolic link; name the file or directory it leads to");
    if (!S_ISREG(status.st_mode))
        return CLAIM_NOT;
    claimed = state_claim_name_length(name);
    return claimed == 0 ? CLAIM_TAKEN : look_at_claim(claims, path, name + 1 + claimed, error);
}

/* Looks at the open file. */
static enum claim_result look_at_file(int fd, const char *path, struct error *error)
{
    uint8_t start[sizeof(uint64_t)];
    struct stat status;
    ssize_t size;

    if (fstat(fd, &status) != 0)
        return leave(error, errno, path, "cannot be read");
    if (!S_ISREG(status.st_mode) || status.st_nlink == 0)
        return CLAIM_NOT;
    if (status.st_nlink > 1)
        return leave(error, 0, path,
                     "has several names (hard links), and would count once for each; remove the "
                     "others");
    if (status.st_size == 0)
        return CLAIM_EMPTY;
    size = pread(fd, start, sizeof(start), 0);
    if (size < 0)
        return leave(error, errno, path, "cannot be read");
    return profile_reader_recognize((struct bytes){start, (uint64_t)size})
               ? CLAIM_TAKEN
               : leave(error, 0, path,
                       "not a raw profile; give files that an instrumented program wrote");
}

/* Renames the file, whose lease or lock the descriptor has. The claim is in the list before that,
 * so that nothing can fail afterwards. An old claim keeps the name that was claimed. */
static enum claim_result rename_file(struct claims *claims, int fd, const char *path, enum use use,
                                     struct error *error)
{
    const char *name = path_file_name(path);
    size_t claimed = state_claim_name_length(name);
    char hidden[PATH_MAX];
    struct claim *claim;

    if ((claims->batch == NULL && !state_batch_start(claims->state, &claims->batch, error)) ||
        !state_claim_path(claims->batch, path, hidden, error))
        return CLAIM_FAILED;
    COMMAND_ROOM_FOR_ONE(claims->items, claims->capacity, claims->count);
    claim = &claims->items[claims->count];
    *claim = (struct claim){.path = command_copy(hidden),
                            .name = claimed == 0 ? command_copy(path)
                                                 : command_text("%.*s%.*s", (int)(name - path),
                                                                path, (int)claimed, name + 1)};
    claims->count++;
    if (rename(path, claim->path) != 0) {
        int number = errno;

        remove_claim(claims, claims->count - 1);
        return number == ENOENT
                   ? CLAIM_NOT
                   : leave(error, number, path, "cannot be renamed, so it cannot be consumed");
    }
    claim->is_settled = use == USE_NONE;
    /* A lease that is no longer whole has somebody who waits for its end. */
    if ((use != USE_NONE || fcntl(fd, F_GETLEASE) == F_WRLCK) && fstat(fd, &claim->status) == 0)
        return CLAIM_TAKEN;
    claims_give_back(claims, claims->count - 1);
    return CLAIM_OPEN;
}

enum claim_result claims_take(struct claims *claims, const char *path, struct error *error)
{
    enum claim_result result = look_at_name(claims, path, error);
    enum use use;
    int fd;

    if (result != CLAIM_TAKEN)
        return result;
    fd = open_claimed(path);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP ? CLAIM_NOT
               : errno == EWOULDBLOCK            ? CLAIM_OPEN /* has a lease of somebody else */
                                                 : leave(error, errno, path, "cannot be read");
    use = look_at_use(fd);
    if (use == USE_OPEN)
        result = CLAIM_OPEN;
    else if (use == USE_CANNOT_TELL)
        result = leave(error, errno, path,
                       "its file system has neither leases nor locks; merge it without --consume");
    else
        result = look_at_file(fd, path, error);
    if (result == CLAIM_TAKEN)
        result = rename_file(claims, fd, path, use, error);
    close(fd);
    return result;
}

/* The time that a process may take from opening a pool to asking for the lock. */
#define SETTLING_NANOSECONDS 100000000

size_t claims_settle(struct claims *claims, size_t first)
{
    struct timespec moment = {.tv_nsec = SETTLING_NANOSECONDS};
    size_t given_back = 0, i = first;
    bool waited = false;

    while (i < claims->count) {
        struct claim *claim = &claims->items[i];

        if (!claim->is_settled && !waited)
            waited = nanosleep(&moment, NULL) == 0 || errno == EINTR;
        if (claim->is_settled || nobody_has_it(claim, &claim->status)) {
            claim->is_settled = true;
            i++;
        } else {
            claims_give_back(claims, i);
            given_back++;
        }
    }
    return given_back;
}

/* ---- the end of a batch ---- */

/* Claims of one directory follow each other. */
bool claims_sync(const struct claims *claims, struct error *error)
{
    char directory[PATH_MAX], last[PATH_MAX] = "";

    for (size_t i = 0; i < claims->count; i++) {
        if (!path_directory(claims->items[i].path, directory))
            return error_set_errno(error, errno, "%s: cannot be synced", claims->items[i].name);
        if (strcmp(directory, last) != 0 && !directory_sync(directory))
            return error_set_errno(error, errno, "%s: cannot be synced to the disk", directory);
        strcpy(last, directory);
    }
    return true;
}

void claims_give_back(struct claims *claims, size_t index)
{
    const struct claim *claim = &claims->items[index];

    /* Where it cannot be done in one step, a file that came meanwhile must not be replaced: the
     * claim keeps its hidden name, by which the next run finds it. */
    if (renameat2(AT_FDCWD, claim->path, AT_FDCWD, claim->name, RENAME_NOREPLACE) != 0 &&
        errno == EINVAL && link(claim->path, claim->name) == 0)
        unlink(claim->path);
    remove_claim(claims, index);
}

void claims_give_all_back(struct claims *claims)
{
    while (claims->count != 0)
        claims_give_back(claims, claims->count - 1);
}

void claims_free(struct claims *claims)
{
    for (size_t i = 0; i < claims->count; i++)
        free_claim(&claims->items[i]);
    free(claims->items);
    state_batch_free(claims->batch);
    *claims = (struct claims){.state = claims->state};
}
