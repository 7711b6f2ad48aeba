/*
 * Atomic outputs: see output.h.
 *
 * An output has no name while it is written (O_TMPFILE), so a process that is killed leaves nothing
 * behind. It gets a temporary name only right before the rename to its final path; link(2) alone
 * cannot replace an existing file.
 */
#include "common/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Small writes are buffered up to this size, and files are copied in pieces of this size. */
#define PIECE_SIZE ((size_t)1 << 20)

/* Blocks of zeros of this size become holes in the file. */
#define HOLE_BLOCK       ((uint64_t)1 << 16)

#define TEMPORARY_MARK   ".covsplit-"
#define TEMPORARY_RANDOM 6 /* the X of mkostemp */

/* ---- outputs: creation ---- */

/* Follows a symbolic link for an edit in place; *status becomes the status of its target. */
static bool follow_link(struct output *output, struct stat *status, struct error *error)
{
    output->target = realpath(output->path, NULL);
    if (output->target == NULL || stat(output->target, status) != 0)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    return true;
}

bool output_can_replace(const struct output *output, struct error *error)
{
    struct stat now;

    return !output->in_place ||
           (stat(output->target, &now) == 0 && file_is_untouched(&output->replaced, &now)) ||
           file_report_change(output->path, error);
}

/* Files with a temporary name are taken for unfinished ones and may be removed, so a final path
 * must not have one. */
static bool check_name(const struct output *output, struct error *error)
{
    const char *slash = strrchr(output->target, '/');

    return file_temporary_final_length(slash == NULL ? output->target : slash + 1) == 0 ||
           error_set(error,
                     "%s: such names are reserved for unfinished files; give the output a name "
                     "without '" TEMPORARY_MARK "'",
                     output->path);
}

/* Decides which path the rename will replace. */
static bool choose_target(struct output *output, const struct output_options *options,
                          struct error *error)
{
    struct stat status;
    bool exists = lstat(output->path, &status) == 0;

    if (!exists && errno != ENOENT)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (exists && S_ISLNK(status.st_mode) && options->in_place != NULL) {
        if (!follow_link(output, &status, error))
            return false;
    } else {
        output->target = strdup(output->path);
        if (output->target == NULL)
            return error_out_of_memory(error, output->path, strlen(output->path));
    }
    if (exists && S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a directory; name a file", output->path);
    /* Without in_place the symbolic link itself is replaced, as by `strip -o`. */
    if (exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        return error_set(error, "%s: not a regular file; name another output", output->path);
    output->in_place = options->in_place != NULL;
    output->is_other_form = options->is_other_form;
    if (output->in_place)
        output->replaced = options->in_place->status;
    return check_name(output, error) && output_can_replace(output, error);
}

size_t file_temporary_final_length(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(name), mark = strlen(TEMPORARY_MARK);
    size_t end = length - TEMPORARY_RANDOM - mark; /* of NAME */

    if (length < 2 + mark + TEMPORARY_RANDOM || name[0] != '.' ||
        memcmp(name + end, TEMPORARY_MARK, mark) != 0 ||
        strspn(name + end + mark, letters) != TEMPORARY_RANDOM)
        return 0;
    return end - 1;
}

/* "DIRECTORY/.NAME.covsplit-XXXXXX", in the directory of the target so that a rename cannot cross
 * file systems. */
static char *temporary_template(const char *target)
{
    const char *slash = strrchr(target, '/');
    int directory_length = slash == NULL ? 0 : (int)(slash - target + 1);
    const char *name = target + directory_length;
    char *result = NULL;

    /* Truncated, so that the temporary name does not exceed NAME_MAX. */
    if (asprintf(&result, "%.*s.%.200s" TEMPORARY_MARK "XXXXXX", directory_length, target, name) <
        0)
        return NULL;
    return result;
}

static void forget_temporary(struct output *output)
{
    free(output->temporary);
    output->temporary = NULL;
}

static void remove_temporary(struct output *output)
{
    if (output->temporary != NULL)
        unlink(output->temporary);
    forget_temporary(output);
}

static bool open_unnamed(struct output *output, bool is_nameless, struct error *error)
{
    char directory[PATH_MAX];

    if (!path_directory(output->target, directory))
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    /* Only through /proc can an unnamed file be given a name later. */
    if (access("/proc/self/fd", X_OK) == 0)
        output->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (output->fd >= 0)
        return true;
    /* Not every file system supports unnamed files, and kernels report that in different ways. */
    output->temporary = temporary_template(output->target);
    if (output->temporary == NULL)
        return error_out_of_memory(error, output->path, strlen(output->path));
    output->fd = mkostemp(output->temporary, O_CLOEXEC);
    if (output->fd < 0) {
        error_set_errno(error, errno, "%s: cannot be written", output->path);
        forget_temporary(output);
        return false;
    }
    if (is_nameless)
        remove_temporary(output);
    return true;
}

bool output_create(struct output *output, const char *path, const struct output_options *options,
                   struct error *error)
{
    mode_t mode_bits = options->in_place != NULL ? 07777 : 0777;

    *output = (struct output){.fd = -1, .mode = options->mode & mode_bits};
    output->path = strdup(path);
    if (output->path == NULL)
        return error_out_of_memory(error, path, strlen(path));
    if (!choose_target(output, options, error) ||
        !open_unnamed(output, options->is_nameless, error)) {
        output_discard(output);
        return false;
    }
    return true;
}

/* ---- outputs: contents ---- */

static bool write_all(int fd, const char *path, const uint8_t *data, size_t size,
                      struct error *error)
{
    while (size != 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return error_set_errno(error, errno, "%s: cannot be written", path);
        data += written;
        size -= (size_t)written;
    }
    return true;
}

/* The longest start of the view, in whole blocks, that is all zeros or contains no block of zeros.
 */
static struct bytes next_run(struct bytes view, bool *is_zero)
{
    struct bytes block, run = {view.data, 0};

    while (run.size < view.size) {
        uint64_t left = view.size - run.size, size = left < HOLE_BLOCK ? left : HOLE_BLOCK;
        bool zero;

        block = (struct bytes){view.data + run.size, size};
        zero = size == HOLE_BLOCK && bytes_all_zero(block);
        if (run.size == 0)
            *is_zero = zero;
        else if (zero != *is_zero)
            break;
        run.size += size;
    }
    return run;
}

/* Zeros become holes: an image of gigabytes may consist mostly of holes, and should not need more
 * disk space after the split. */
static bool write_sparse(struct output *output, struct bytes view, struct error *error)
{
    while (view.size != 0) {
        bool is_zero = false;
        struct bytes run = next_run(view, &is_zero);
        off_t end = is_zero ? lseek(output->fd, (off_t)run.size, SEEK_CUR) : 0;

        if (is_zero && (end < 0 || ftruncate(output->fd, end) != 0))
            return error_set_errno(error, errno, "%s: cannot be written", output->path);
        if (!is_zero && !write_all(output->fd, output->path, run.data, (size_t)run.size, error))
            return false;
        view.data += run.size;
        view.size -= run.size;
    }
    return true;
}

static bool flush_pending(struct output *output, struct error *error)
{
    struct bytes pending = buffer_view(&output->pending);

    output->pending.size = 0;
    return write_sparse(output, pending, error);
}

bool output_write(struct output *output, struct bytes view, struct error *error)
{
    output->size += view.size;
    output->is_synced = false;
    if (view.size < PIECE_SIZE && output->pending.size + view.size <= PIECE_SIZE) {
        if (!buffer_append(&output->pending, view.data, (size_t)view.size))
            return error_out_of_memory(error, output->path, view.size);
        return true;
    }
    return flush_pending(output, error) && write_sparse(output, view, error);
}

bool output_sink(void *output, struct bytes part, struct error *error)
{
    return output_write(output, part, error);
}

bool output_write_zeros(struct output *output, uint64_t size, struct error *error)
{
    static const uint8_t zeros[4096];

    while (size != 0) {
        uint64_t part = size < sizeof(zeros) ? size : sizeof(zeros);
        if (!output_write(output, (struct bytes){zeros, part}, error))
            return false;
        size -= part;
    }
    return true;
}

bool output_map(struct output *output, struct input *input, struct error *error)
{
    *input = (struct input){.fd = -1};
    if (!flush_pending(output, error))
        return false;
    input->path = strdup(output->path);
    if (input->path == NULL)
        return error_out_of_memory(error, output->path, strlen(output->path));
    if (output->size != 0) {
        void *map = mmap(NULL, (size_t)output->size, PROT_READ, MAP_SHARED, output->fd, 0);
        if (map == MAP_FAILED) {
            error_set_errno(error, errno, "%s: cannot be mapped into memory", output->path);
            input_close(input);
            return false;
        }
        input->bytes = (struct bytes){map, output->size};
    }
    return true;
}

/* These attributes apply to the old contents; the kernel drops the first of them when a file is
 * written. */
static bool vouches_for_contents(const char *attribute)
{
    return strcmp(attribute, "security.capability") == 0 ||
           strcmp(attribute, "security.ima") == 0 || strcmp(attribute, "security.evm") == 0;
}

/* Copies what it can: an attribute that cannot be set is not an error. */
static void copy_attributes(const char *from, int to)
{
    char names[4096], value[4096];
    ssize_t size = listxattr(from, names, sizeof(names));

    for (ssize_t i = 0; i < size; i += (ssize_t)strlen(names + i) + 1) {
        ssize_t length;

        if (vouches_for_contents(names + i))
            continue;
        length = getxattr(from, names + i, value, sizeof(value));
        if (length >= 0)
            fsetxattr(to, names + i, value, (size_t)length, 0);
    }
}

bool output_lend(struct output *output, struct error *error)
{
    output->is_synced = false;
    return flush_pending(output, error);
}

void output_start_sync(const struct output *output)
{
    sync_file_range(output->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

bool output_take_back(struct output *output, struct error *error)
{
    struct stat status;

    if (fstat(output->fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", output->path);
    output->size = (uint64_t)status.st_size;
    return true;
}

static bool set_time(const struct output *output)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, output->replaced.st_mtim};

    return !output->is_other_form || futimens(output->fd, times) == 0;
}

bool output_sync(struct output *output, struct error *error)
{
    if (output->is_synced)
        return true;
    if (!flush_pending(output, error))
        return false;
    /* Only root can change the owner. If the owner cannot be kept, the file must not keep the old
     * owner's set-user-ID bit. The mode is set last because changing the owner clears those bits.
     */
    if (output->in_place &&
        fchown(output->fd, output->replaced.st_uid, output->replaced.st_gid) != 0)
        output->mode &= ~(mode_t)(S_ISUID | S_ISGID);
    if (output->in_place)
        copy_attributes(output->target, output->fd);
    if (fchmod(output->fd, output->mode) != 0 || !set_time(output) || fsync(output->fd) != 0)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    output->is_synced = true;
    return true;
}

/* ---- outputs: commit ---- */

/* Whether the target already has the mode and the bytes of the output. */
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
    mine = malloc(PIECE_SIZE);
    theirs = malloc(PIECE_SIZE);
    if (mine == NULL || theirs == NULL)
        goto done;
    while (offset < output->size) {
        ssize_t have = pread(output->fd, mine, PIECE_SIZE, (off_t)offset);
        if (have <= 0 || pread(fd, theirs, (size_t)have, (off_t)offset) != have ||
            memcmp(mine, theirs, (size_t)have) != 0)
            goto done;
        offset += (uint64_t)have;
    }
    same = true;
done:
    free(mine);
    free(theirs);
    close(fd);
    return same;
}

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
        char *name = temporary_template(output->target);
        size_t length;

        if (name == NULL)
            return ENOMEM;
        length = strlen(name);
        snprintf(name + length - TEMPORARY_RANDOM, TEMPORARY_RANDOM + 1, "%02x%04x", attempt,
                 (unsigned)getpid() & 0xffff);
        if (linkat(AT_FDCWD, source, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            output->temporary = name;
            return 0;
        }
        failure = errno;
        free(name);
    }
    return failure;
}

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

/* Overwrites the file with the output. The mode is set last because writing clears set-user-ID
 * bits.
 */
static bool copy_to(int fd, const struct output *output, uint8_t *piece, struct error *error)
{
    uint64_t offset = 0;

    while (offset < output->size) {
        ssize_t have = pread(output->fd, piece, PIECE_SIZE, (off_t)offset);

        if (have <= 0)
            return error_set_errno(error, have < 0 ? errno : EIO, "%s: cannot be written",
                                   output->path);
        if (!write_all(fd, output->path, piece, (size_t)have, error))
            return false;
        offset += (uint64_t)have;
    }
    return (ftruncate(fd, (off_t)output->size) == 0 && set_mode(fd, output->mode) &&
            fsync(fd) == 0) ||
           error_set_errno(error, errno, "%s: cannot be written", output->path);
}

/* The rename only survives a power failure once the directory has been synced too. File systems
 * that cannot sync a directory return EINVAL; nothing more can be done there. */
static void sync_directory(const char *target)
{
    char directory[PATH_MAX];
    int fd = path_directory(target, directory) ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                               : -1;

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/* Opens the file to overwrite. Everything that may be refused is tried first: opening, setting the
 * mode, and keeping the temporary name. */
static int open_target(struct output *output, struct error *error)
{
    int fd = open(output->target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd >= 0 && set_mode(fd, output->mode) && hold_temporary(output))
        return fd;
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
    uint8_t *piece = malloc(PIECE_SIZE);
    struct error cause;
    bool done;

    if (piece == NULL) {
        done = error_out_of_memory(error, output->path, PIECE_SIZE);
    } else if (!(done = copy_to(fd, output, piece, &cause))) {
        *result = OUTPUT_HALF_WRITTEN;
        error_set(error, "%.600s; the whole output is in %s", cause.message, output->temporary);
        forget_temporary(output);
    }
    remove_temporary(output);
    free(piece);
    return done;
}

/* 0, or an errno value. */
static int replace_target(struct output *output)
{
    if (rename(output->temporary, output->target) != 0)
        return errno;
    forget_temporary(output);
    return 0;
}

/* Whether both are of the same file with the same contents. A rename changes st_ctime. */
static bool is_same_form(const struct stat *before, const struct stat *now)
{
    return file_is_same(before, now) && file_has_same_contents(before, now);
}

/* Swaps the two names. *came_out is what the path had, which has the temporary name now. Returns 0
 * or an errno value. */
static int swap_names(const struct output *output, struct stat *came_out)
{
    return renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_EXCHANGE) == 0 &&
                   lstat(output->temporary, came_out) == 0
               ? 0
               : errno;
}

/* Puts back what another process had put at the path at the last moment. If the path changes again
 * while this is done, the newest file stays; if it was removed, it stays removed. Returns ESTALE
 * when this is done, or the errno value of a failure. */
static int give_back(struct output *output, struct stat put_in, struct stat came_out)
{
    struct stat expected;
    int failure;

    do {
        expected = put_in;
        put_in = came_out;
        failure = swap_names(output, &came_out);
    } while (failure == 0 && !is_same_form(&expected, &came_out));
    if (failure == ENOENT)
        renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_NOREPLACE);
    else if (failure != 0)
        forget_temporary(output); /* it may be the only copy of the other file */
    return failure == 0 || failure == ENOENT ? ESTALE : failure;
}

/* Replaces the target only if it is still the file that was read. A rename would replace whatever
 * is there; swapping the two names shows what was there, and fails if the target was removed. Not
 * all file systems can do that. Returns 0 or an errno value: ESTALE if the path was changed. */
static int replace_if_unchanged(struct output *output)
{
    struct stat put_in, came_out;
    int failure = fstat(output->fd, &put_in) == 0 ? swap_names(output, &came_out) : errno;

    if (failure == EINVAL || failure == ENOSYS)
        return replace_target(output);
    if (failure != 0)
        return failure == ENOENT ? ESTALE : failure;
    if (!is_same_form(&output->replaced, &came_out))
        return give_back(output, put_in, came_out);
    sync_directory(output->target); /* before the old form goes */
    remove_temporary(output);
    return 0;
}

/* Checks the file to be replaced right before the rename. Another process could still replace it
 * between the two system calls; no rename(2) can be made conditional on what it replaces. */
static bool put_in_place(struct output *output, enum output_result *result, struct error *error)
{
    struct naming naming = naming_start(output);
    int failure = output->temporary == NULL ? give_temporary_name(output) : 0;
    bool done = true;
    int fd = -1;

    if (failure == 0 && !output_can_replace(output, error))
        failure = ESTALE;
    else if (failure == 0 && overwrites(output))
        done = (fd = open_target(output, error)) >= 0;
    else if (failure == 0)
        failure = output->is_other_form ? replace_if_unchanged(output) : replace_target(output);
    if (failure == ESTALE)
        *result = OUTPUT_OVERTAKEN;
    if (failure != 0)
        done = failure == ESTALE
                   ? file_report_change(output->path, error)
                   : error_set_errno(error, failure, "%s: cannot be written", output->path);
    if (!done)
        remove_temporary(output);
    naming_end(output, &naming);
    if (fd >= 0) {
        done = overwrite_target(output, fd, result, error);
        close(fd);
    }
    if (done)
        sync_directory(output->target);
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
    forget_temporary(output);
    sync_directory(output->target);
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
        remove_temporary(output);
    naming_end(output, &naming);
    if (failure == 0)
        sync_directory(output->target);
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
        if (failure != 0)
            done = error_set_errno(error, failure, "%s: cannot be written", output->path);
    }
    output_discard(output);
    return done;
}

void output_discard(struct output *output)
{
    if (output->path == NULL)
        return;
    remove_temporary(output);
    if (output->fd >= 0)
        close(output->fd);
    free(output->target);
    free(output->path);
    buffer_free(&output->pending);
    *output = (struct output){.fd = -1};
}
