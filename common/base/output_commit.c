/*
 * Giving outputs their path: see output.h.
 *
 * link(2) cannot replace an existing file, so an unnamed output gets a temporary name right before
 * the rename to its final path.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/base/output_parts.h"

/* In place of an errno value: the path was changed by another process. */
#define CHANGED (-1)

/* A new name only survives a power failure once the directory has been synced too. Returns 0 or an
 * errno value. */
static int sync_name(const struct output *output)
{
    return output->needs_no_sync || path_sync_name(output->target) ? 0 : errno;
}

#define NOT_SYNCED "its directory cannot be synced to the disk"

static bool report_not_synced(const struct output *output, int failure, struct error *error)
{
    return error_set_errno(error, failure, "%s: " NOT_SYNCED, output->path);
}

/* Whether the target already has the mode and the bytes of the output, and has them on the disk. */
static bool same_as_target(const struct output *output)
{
    struct stat status;
    uint8_t *mine = NULL, *theirs = NULL;
    uint64_t offset = 0;
    bool same = false;
    int fd = file_open_as_it_is(output->target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return false;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        (uint64_t)status.st_size != output->size || (status.st_mode & 07777) != output->mode)
        goto done;
    mine = malloc(OUTPUT_PIECE_SIZE);
    theirs = malloc(OUTPUT_PIECE_SIZE);
    if (mine == NULL || theirs == NULL)
        goto done;
    while (offset < output->size) {
        ssize_t have = pread(output->fd, mine, OUTPUT_PIECE_SIZE, (off_t)offset);
        if (have <= 0 || pread(fd, theirs, (size_t)have, (off_t)offset) != have ||
            memcmp(mine, theirs, (size_t)have) != 0)
            goto done;
        offset += (uint64_t)have;
    }
    /* Another process may have written it without syncing. */
    same = output->needs_no_sync || (fsync(fd) == 0 && sync_name(output) == 0);
done:
    free(mine);
    free(theirs);
    close(fd);
    return same;
}

/* ---- temporary names ---- */

/* The path through which linkat(2) can give an unnamed file a name. */
#define UNNAMED_PATH_MAX 64

static const char *unnamed_path(const struct output *output, char *text)
{
    snprintf(text, UNNAMED_PATH_MAX, "/proc/self/fd/%d", output->fd);
    return text;
}

/* The period in which no signal handler may remove the file: see file_temporary_final_length. This
 * thread blocks signals; the lock keeps off handlers in other threads, if the file system supports
 * locks. A file that had a temporary name from the start needs no lock, unless that name is to
 * stay. This avoids locks on network file systems, where they may take long: these are mostly the
 * ones without unnamed files. */
struct naming {
    bool is_locked;
    sigset_t signals_before;
};

/* A rename would leave the old contents under the file's other names, so it has to be overwritten.
 */
static bool overwrites(const struct output *output)
{
    return output->in_place && !output->is_other_form && output->replaced.st_nlink > 1;
}

static void lock_output(const struct output *output, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    fcntl(output->fd, F_OFD_SETLKW, &lock);
}

static struct naming naming_start(const struct output *output)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    struct naming naming = {.is_locked = output->temporary == NULL || overwrites(output)};
    sigset_t signals;

    sigfillset(&signals);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&signals, faults[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &naming.signals_before);
    if (naming.is_locked)
        lock_output(output, F_WRLCK);
    return naming;
}

static void naming_end(const struct output *output, const struct naming *naming)
{
    if (naming->is_locked)
        lock_output(output, F_UNLCK);
    pthread_sigmask(SIG_SETMASK, &naming->signals_before, NULL);
}

/* 0, or an errno value. */
static int give_temporary_name(struct output *output)
{
    char source[UNNAMED_PATH_MAX];
    int failure = EEXIST;

    unnamed_path(output, source);
    for (unsigned attempt = 0; attempt < 100 && failure == EEXIST; attempt++) {
        char *name = output_temporary_template(output->target);
        size_t length;

        if (name == NULL)
            return ENOMEM;
        length = strlen(name);
        snprintf(name + length - OUTPUT_TEMPORARY_RANDOM, OUTPUT_TEMPORARY_RANDOM + 1, "%02x%04x",
                 attempt, (unsigned)getpid() & 0xffff);
        if (linkat(AT_FDCWD, source, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            output->temporary = name;
            return 0;
        }
        failure = errno;
        free(name);
    }
    return failure;
}

/* ---- overwriting ---- */

/* Does not set a mode that is right already, since only the owner may do so. */
static bool set_mode(int fd, mode_t mode)
{
    struct stat status;

    return fstat(fd, &status) == 0 && ((status.st_mode & 07777) == mode || fchmod(fd, mode) == 0);
}

/* Keeps the temporary file from being removed when the process is ended: signals.c removes only
 * files that are open for writing, so the descriptor is replaced by one for reading. */
static bool hold_temporary(struct output *output)
{
    int fd = open(output->temporary, O_RDONLY | O_CLOEXEC);
    bool done = fd >= 0 && dup3(fd, output->fd, O_CLOEXEC) >= 0;

    if (fd >= 0)
        close(fd);
    return done;
}

#define CAPABILITIES "security.capability"

/* Overwrites the file with the output. The mode is set last because writing clears set-user-ID
 * bits. It clears the capabilities, too; all else the file keeps. */
static bool copy_to(int fd, const struct output *output, uint8_t *piece, struct error *error)
{
    char capabilities[64];
    ssize_t size = fgetxattr(fd, CAPABILITIES, capabilities, sizeof(capabilities));
    uint64_t offset = 0;

    if (output->unkept != NULL)
        *output->unkept = (struct error){0};

    while (offset < output->size) {
        ssize_t have = pread(output->fd, piece, OUTPUT_PIECE_SIZE, (off_t)offset);

        if (have <= 0)
            return error_set_errno(error, have < 0 ? errno : EIO, "%s: cannot be written",
                                   output->path);
        if (!output_write_all(fd, output->path, piece, (size_t)have, error))
            return false;
        offset += (uint64_t)have;
    }
    if (ftruncate(fd, (off_t)output->size) != 0 || !set_mode(fd, output->mode))
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (size > 0 && fsetxattr(fd, CAPABILITIES, capabilities, (size_t)size, 0) != 0)
        output_note_unkept(output, CAPABILITIES);
    return fsync(fd) == 0 || error_set_errno(error, errno, "%s: cannot be written", output->path);
}

/* Opens the file to overwrite, if it is still the one that was read. Everything that may be refused
 * is tried first: opening, setting the mode, and keeping the temporary name. */
static int open_target(struct output *output, struct error *error)
{
    int fd = open(output->target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && !file_is_same(&output->replaced, &status))
        file_report_change(output->path, error);
    else if (fd >= 0 && set_mode(fd, output->mode) && hold_temporary(output))
        return fd;
    else
        error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The old file keeps its inode and gets the new bytes, so that all its names see them. Meanwhile
 * the finished output has a temporary name, so that a whole copy is on the disk whatever happens.
 */
static bool overwrite_target(struct output *output, int fd, enum output_result *result,
                             struct error *error)
{
    uint8_t *piece = malloc(OUTPUT_PIECE_SIZE);
    int failure = sync_name(output); /* that name, before the old contents go */
    struct error cause;
    bool done;

    if (failure != 0) {
        done = report_not_synced(output, failure, error);
    } else if (piece == NULL) {
        done = error_out_of_memory(error, output->path, OUTPUT_PIECE_SIZE);
    } else if (!(done = copy_to(fd, output, piece, &cause))) {
        *result = OUTPUT_HALF_WRITTEN;
        error_set(error, "%.600s; the whole output is in %s", cause.message, output->temporary);
        output_forget_temporary(output);
    }
    output_remove_temporary(output);
    free(piece);
    return done;
}

/* ---- replacing ---- */

/* How the target got the output, for undoing that. */
struct replacement {
    bool is_swap;         /* what was there has the temporary name now */
    bool is_new;          /* nothing was there */
    struct stat put_in;   /* the output, */
    struct stat came_out; /* and, after a swap, what was there */
};

/* 0, or an errno value. */
static int replace_target(struct output *output)
{
    if (rename(output->temporary, output->target) != 0)
        return errno;
    output_forget_temporary(output);
    return 0;
}

/* Whether both are of the same file with the same contents. A rename changes st_ctime. */
static bool is_same_form(const struct stat *before, const struct stat *now)
{
    return file_is_same(before, now) && file_has_same_contents(before, now);
}

static bool exchange(const struct output *output)
{
    return renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_EXCHANGE) == 0;
}

/* Swaps the two names. *came_out is what the path had, which has the temporary name now. Returns 0
 * or an errno value; then nothing was swapped. */
static int swap_names(const struct output *output, struct stat *came_out)
{
    int failure;

    if (!exchange(output))
        return errno;
    if (lstat(output->temporary, came_out) == 0)
        return 0;
    failure = errno;
    exchange(output);
    return failure;
}

/* Puts back what came out, for example what another process had put at the path at the last moment.
 * If the path changes again while this is done, the newest file stays; if it is removed, what came
 * out gets it back. Returns CHANGED when this is done, or the errno value of a failure: then the
 * temporary name may have what came out, which must not be removed. */
static int give_back(struct output *output, struct stat put_in, struct stat came_out)
{
    struct stat expected;
    int failure;

    do {
        expected = put_in;
        put_in = came_out;
        failure = swap_names(output, &came_out);
    } while (failure == 0 && !is_same_form(&expected, &came_out));
    if (failure == ENOENT &&
        (renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_NOREPLACE) == 0 ||
         errno == EEXIST))
        failure = 0;
    return failure == 0 ? CHANGED : failure;
}

/* Reports that the path has the output although the commit failed, and where to find what came out.
 */
static bool report_replaced(struct output *output, int failure, const char *why,
                            struct error *error)
{
    if (output->temporary == NULL || file_is_missing(output->temporary, AT_SYMLINK_NOFOLLOW))
        return error_set_errno(error, failure, "%s: was written, but %s", output->path, why);
    error_set_errno(error, failure, "%.400s: was written, but %s; what was there is in %.400s",
                    output->path, why, output->temporary);
    output_forget_temporary(output);
    return false;
}

/* Of file systems, and of sandboxes that know rename alone. If it is for another reason, the rename
 * fails for that, too. */
static bool cannot_swap(int failure)
{
    return failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP || failure == EPERM;
}

/* A rename replaces whatever is there, for good. Swapping the two names shows what was there, keeps
 * it until the new name is on the disk, and fails if nothing is there. Not all file systems can do
 * that. Of an edit in place, only the file that was read is replaced. Returns 0 or an errno value:
 * CHANGED if another process has changed what is at the path. */
static int replace(struct output *output, struct replacement *replacement)
{
    struct stat *came_out = &replacement->came_out;
    int failure;

    *replacement = (struct replacement){0};
    if (fstat(output->fd, &replacement->put_in) != 0)
        return errno;
    failure = swap_names(output, came_out);
    replacement->is_swap = failure == 0;
    if (failure == ENOENT && output->in_place)
        return CHANGED;
    if (failure == ENOENT || cannot_swap(failure)) {
        replacement->is_new = file_is_missing(output->target, AT_SYMLINK_NOFOLLOW);
        return replace_target(output);
    }
    if (failure != 0)
        return failure;
    return (output->in_place ? is_same_form(&output->replaced, came_out)
                             : S_ISREG(came_out->st_mode) || S_ISLNK(came_out->st_mode))
               ? 0
               : give_back(output, replacement->put_in, *came_out);
}

/* Whether the path is as it was before. */
static bool undo(struct output *output, const struct replacement *replacement)
{
    struct stat found;

    if (replacement->is_swap)
        return give_back(output, replacement->put_in, replacement->came_out) == CHANGED;
    return replacement->is_new && lstat(output->target, &found) == 0 &&
           file_is_same(&replacement->put_in, &found) && unlink(output->target) == 0;
}

/* Makes the new name durable before what it replaces goes. What was undone has to be durable, too.
 */
static bool settle(struct output *output, const struct replacement *replacement,
                   enum output_result *result, struct error *error)
{
    int failure = sync_name(output);
    bool is_undone = failure != 0 && undo(output, replacement);

    if (failure != 0 && (!is_undone || sync_name(output) != 0))
        *result = OUTPUT_NOT_SYNCED;
    if (failure != 0 && !is_undone)
        return report_replaced(output, failure, NOT_SYNCED, error);
    output_remove_temporary(output);
    return failure == 0 || report_not_synced(output, failure, error);
}

static bool report_not_replaced(struct output *output, int failure,
                                const struct replacement *replacement, enum output_result *result,
                                struct error *error)
{
    if (failure == CHANGED) {
        *result = OUTPUT_OVERTAKEN;
        return file_report_change(output->path, error);
    }
    if (!replacement->is_swap)
        return error_set_errno(error, failure, "%s: cannot be written", output->path);
    *result = OUTPUT_NOT_SYNCED;
    return report_replaced(output, failure, "another process had changed it", error);
}

/* ---- commits ---- */

/* Checks the file to be replaced right before the rename. Another process could still replace it
 * between the two system calls; no rename(2) can be made conditional on what it replaces. */
static bool put_in_place(struct output *output, enum output_result *result, struct error *error)
{
    struct naming naming = naming_start(output);
    int failure = output->temporary == NULL ? give_temporary_name(output) : 0;
    struct replacement replacement = {0};
    bool done = true;
    int fd = -1;

    if (failure == 0 && !output_can_replace(output, error))
        failure = error->number == 0 ? CHANGED : error->number;
    else if (failure == 0 && overwrites(output))
        done = (fd = open_target(output, error)) >= 0;
    else if (failure == 0 && (failure = replace(output, &replacement)) == 0)
        done = settle(output, &replacement, result, error);
    if (failure != 0)
        done = report_not_replaced(output, failure, &replacement, result, error);
    if (!done)
        output_remove_temporary(output);
    naming_end(output, &naming);
    if (fd >= 0) {
        done = overwrite_target(output, fd, result, error);
        close(fd);
    }
    return done;
}

bool output_commit(struct output *output, enum output_result *result, struct error *error)
{
    bool done = true;

    *result = OUTPUT_UNCHANGED;
    if (!output_sync(output, error)) {
        done = false;
    } else if (!same_as_target(output)) {
        *result = OUTPUT_WRITTEN;
        done = put_in_place(output, result, error);
    } else if (output->unkept != NULL) {
        *output->unkept = (struct error){0}; /* the file was not touched */
    }
    output_discard(output);
    return done;
}

/* Some file systems have no hard links; there, a rename that does not replace is used. */
static bool has_no_links(int failure)
{
    return failure == EPERM || failure == EOPNOTSUPP || failure == ENOSYS || failure == EMLINK;
}

/* Gives the output its path if that does not exist. Returns 0 or an errno value. */
static int take_free_name(struct output *output)
{
    char source[UNNAMED_PATH_MAX];

    if (output->temporary == NULL) {
        if (linkat(AT_FDCWD, unnamed_path(output, source), AT_FDCWD, output->target,
                   AT_SYMLINK_FOLLOW) != 0)
            return errno;
    } else if (link(output->temporary, output->target) == 0) {
        unlink(output->temporary);
    } else if (!has_no_links(errno) || renameat2(AT_FDCWD, output->temporary, AT_FDCWD,
                                                 output->target, RENAME_NOREPLACE) != 0) {
        return errno;
    }
    output_forget_temporary(output);
    return 0;
}

/* Returns 0 or an errno value. On failure, a temporary name that was given here is removed. */
static int take_name(struct output *output)
{
    struct naming naming = naming_start(output);
    bool is_unnamed = output->temporary == NULL;
    int failure = is_unnamed ? give_temporary_name(output) : 0;

    if (failure == 0)
        failure = replace_target(output);
    if (failure != 0 && is_unnamed)
        output_remove_temporary(output);
    naming_end(output, &naming);
    return failure;
}

bool output_try_commit(struct output *output, bool replace, enum output_result *result,
                       struct error *error)
{
    bool done = output_sync(output, error);

    *result = OUTPUT_UNCHANGED;
    if (done && !(replace && same_as_target(output))) {
        int failure = replace ? take_name(output) : take_free_name(output);

        if (failure == EEXIST || failure == ENOENT) {
            *result = failure == EEXIST ? OUTPUT_NAME_TAKEN : OUTPUT_NO_DIRECTORY;
            return true;
        }
        *result = OUTPUT_WRITTEN;
        if (failure != 0) {
            done = error_set_errno(error, failure, "%s: cannot be written", output->path);
        } else if ((failure = sync_name(output)) != 0) {
            *result = OUTPUT_NOT_SYNCED;
            done = report_not_synced(output, failure, error);
        }
    }
    output_discard(output);
    return done;
}
