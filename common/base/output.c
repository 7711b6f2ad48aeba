/*
 * Outputs: see output.h.
 *
 * An output has no name while it is written (O_TMPFILE), so a process that is killed leaves nothing
 * behind.
 */
#include "common/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/cursor.h"

/* Files are copied in pieces of this size. */
#define PIECE_SIZE ((size_t)1 << 20)

/* Files are compared in pieces of this size, which stay in the processor's cache. */
#define COMPARED_SIZE ((size_t)1 << 16)

/* Blocks of zeros of this size become holes in the file; small writes are buffered up to it. */
#define HOLE_BLOCK ((uint64_t)1 << 16)

/* Temporary names end with this, and with as many characters that tell them apart. */
#define TEMPORARY_MARK   ".covsplit-"
#define TEMPORARY_RANDOM 6

/* ---- temporary names ---- */

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

static bool cannot_write(const struct output *output, int number, struct error *error)
{
    return error_set_errno(error, number, "%s: cannot be written", output->path);
}

/* ---- creation ---- */

bool output_can_replace(const struct output *output, struct error *error)
{
    return !output->in_place ||
           file_check_untouched(output->target, &output->replaced, output->path, error);
}

/* True of a symbolic link to a device, a pipe, a directory, or whatever a descriptor stands for,
 * such as /dev/stdout: nobody wants that link replaced by a file. */
static bool leads_to_no_file(const char *path)
{
    static const char descriptors[] = "/proc/";
    char target[PATH_MAX];
    struct stat status;

    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return true;
    return readlink(path, target, sizeof(target)) > (ssize_t)strlen(descriptors) &&
           memcmp(target, descriptors, strlen(descriptors)) == 0;
}

/* Decides which path the rename will replace. */
static bool choose_target(struct output *output, struct error *error)
{
    struct stat status;
    bool exists = lstat(output->path, &status) == 0;
    bool is_link = exists && S_ISLNK(status.st_mode), is_followed = is_link && output->in_place;

    if (!exists && errno != ENOENT)
        return cannot_write(output, errno, error);
    output->target = is_followed ? realpath(output->path, NULL) : strdup(output->path);
    if (output->target == NULL || (is_followed && stat(output->target, &status) != 0))
        return cannot_write(output, errno, error);
    if (exists && S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a directory; name a file", output->path);
    /* Without in_place the symbolic link itself is replaced, as by `strip -o`. */
    if (exists &&
        (is_link && !is_followed ? leads_to_no_file(output->path) : !S_ISREG(status.st_mode)))
        return error_set(error, "%s: not a regular file; name another output", output->path);
    /* Files with a temporary name are taken for unfinished ones and may be removed. */
    if (file_temporary_final_length(path_file_name(output->target)) != 0)
        return error_set(error,
                         "%s: such names are reserved for unfinished files; give the output a name "
                         "without '" TEMPORARY_MARK "'",
                         output->path);
    return output_can_replace(output, error);
}

/* Gives the output a name that does not exist. Returns 0 or an errno value. */
static int add_name(const struct output *output, const char *name)
{
    char unnamed[64];

    if (output->temporary != NULL)
        return linkat(AT_FDCWD, output->temporary, AT_FDCWD, name, 0) == 0 ? 0 : errno;
    snprintf(unnamed, sizeof(unnamed), "/proc/self/fd/%d", output->fd);
    return linkat(AT_FDCWD, unnamed, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Gives the output a temporary name, unless it has one: in the directory of the target, so that a
 * rename cannot cross file systems. If there is no file yet, it is created. Returns 0 or an errno
 * value. */
static int give_temporary_name(struct output *output)
{
    const char *name = path_file_name(output->target);
    int failure = output->temporary == NULL ? EEXIST : 0;

    for (unsigned attempt = 0; attempt < 100 && failure == EEXIST; attempt++) {
        char *temporary;

        /* Truncated, so that it does not exceed NAME_MAX. */
        if (asprintf(&temporary, "%.*s.%.200s" TEMPORARY_MARK "%02x%04x",
                     (int)(name - output->target), output->target, name, attempt,
                     (unsigned)getpid() & 0xffff) < 0)
            return ENOMEM;
        if (output->fd >= 0) {
            failure = add_name(output, temporary);
        } else {
            output->fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            failure = output->fd >= 0 ? 0 : errno;
        }
        if (failure == 0)
            output->temporary = temporary;
        else
            free(temporary);
    }
    return failure;
}

static bool open_file(struct output *output, struct error *error)
{
    char directory[PATH_MAX];
    int failure;

    if (!path_directory(output->target, directory))
        return cannot_write(output, errno, error);
    /* Only through /proc can an unnamed file be given a name later. */
    if (access("/proc/self/fd", X_OK) == 0)
        output->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    /* Not every file system supports unnamed files, and kernels report that in different ways. */
    failure = output->fd >= 0 ? 0 : give_temporary_name(output);
    return failure == 0 || cannot_write(output, failure, error);
}

bool output_create(struct output *output, const char *path, const struct output_options *options,
                   struct error *error)
{
    bool in_place = options->in_place != NULL;

    *output = (struct output){.path = strdup(path),
                              .fd = -1,
                              .mode = options->mode & (in_place ? PERMISSION_BITS : 0777),
                              .in_place = in_place,
                              .unkept = options->unkept,
                              .is_other_form = options->is_other_form,
                              .needs_no_sync = options->needs_no_sync};
    if (in_place)
        output->replaced = options->in_place->status;
    if (output->path == NULL)
        return error_out_of_memory(error, path, strlen(path));
    if (!choose_target(output, error) || !open_file(output, error)) {
        output_discard(output);
        return false;
    }
    if (options->is_nameless)
        remove_temporary(output);
    return true;
}

bool output_create_in_memory(struct output *output, const char *name, struct error *error)
{
    *output = (struct output){.path = strdup(name), .fd = -1};
    if (output->path == NULL)
        return error_out_of_memory(error, name, strlen(name));
    output->fd = memfd_create("covsplit", MFD_CLOEXEC);
    if (output->fd >= 0)
        return true;
    error_set_errno(error, errno, "%s: no file can be made in memory", name);
    output_discard(output);
    return false;
}

/* ---- contents ---- */

/* `fd` is the output's, or that of the file that it overwrites. */
static bool write_all(const struct output *output, int fd, struct bytes view, struct error *error)
{
    while (view.size != 0) {
        ssize_t written = write(fd, view.data, (size_t)view.size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return cannot_write(output, errno, error);
        take_bytes(&view, (uint64_t)written);
    }
    return true;
}

/* Blocks of zeros become holes: an image of gigabytes may consist mostly of holes, and should not
 * need more disk space after the split. */
static bool write_sparse(struct output *output, struct bytes view, struct error *error)
{
    while (view.size != 0) {
        struct bytes block = {view.data, view.size < HOLE_BLOCK ? view.size : HOLE_BLOCK};

        if (block.size == HOLE_BLOCK && bytes_all_zero(block)) {
            off_t end = lseek(output->fd, (off_t)block.size, SEEK_CUR);

            if (end < 0 || ftruncate(output->fd, end) != 0)
                return cannot_write(output, errno, error);
        } else if (!write_all(output, output->fd, block, error)) {
            return false;
        }
        take_bytes(&view, block.size);
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
    if (view.size < HOLE_BLOCK && output->pending.size + view.size <= HOLE_BLOCK) {
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

/* ---- what is kept of the file that is edited in place ---- */

/* Adds to output->unkept what could not be kept of a file that is edited in place. */
static void note_unkept(const struct output *output, const char *what)
{
    char before[ERROR_MESSAGE_MAX];

    if (output->unkept == NULL)
        return;
    snprintf(before, sizeof(before), "%s", output->unkept->message);
    if (before[0] == '\0')
        error_set(output->unkept, "%.400s: these could not be kept, set them again: %.100s",
                  output->path, what);
    else
        error_set(output->unkept, "%.900s, %.100s", before, what);
}

/* Sums or signatures of the old contents, or of attributes. With a policy that wants them, the
 * kernel makes sums again; signatures, only a signer can. */
static const char *const signatures[] = {"security.ima", "security.evm"};
#define SIGNATURE_COUNT (sizeof(signatures) / sizeof(signatures[0]))

static bool is_signature(const char *name)
{
    bool found = false;

    for (size_t i = 0; i < SIGNATURE_COUNT; i++)
        found |= strcmp(name, signatures[i]) == 0;
    return found;
}

/* The attributes are read from the very file that was edited, not from what the path has now:
 * whoever may rename files there could give the new one the capabilities of another program. If
 * that file has changed, the commit fails, so nothing needs to be kept. The new file has none of
 * its own but an access list, which it may have from the directory. */
static bool keep_attributes(const struct output *output, struct error *error)
{
    int from = file_open_as_it_is(output->target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *names = malloc(XATTR_LIST_MAX + 1 + 2 * (size_t)XATTR_SIZE_MAX);
    struct stat now;
    ssize_t end = 0, size;

    fremovexattr(output->fd, "system.posix_acl_access");
    if (names == NULL) {
        error_out_of_memory(error, output->path, XATTR_LIST_MAX);
    } else if (from >= 0 && fstat(from, &now) == 0 && file_is_untouched(&output->replaced, &now)) {
        end = flistxattr(from, names, XATTR_LIST_MAX);
        if (end < 0 && errno != ENOTSUP)
            note_unkept(output, "its extended attributes");
        names[end < 0 ? 0 : end] = '\0';
    }
    for (const char *name = names; name != NULL && name < names + end; name += strlen(name) + 1) {
        char *value = names + XATTR_LIST_MAX + 1, *other = value + XATTR_SIZE_MAX;

        if (is_signature(name)) {
            note_unkept(output, name);
            continue;
        }
        size = fgetxattr(from, name, value, XATTR_SIZE_MAX);
        /* Some, such as a label, are given to each new file, and may not be set. */
        if (size < 0 ? errno != ENODATA
                     : fsetxattr(output->fd, name, value, (size_t)size, 0) != 0 &&
                           (fgetxattr(output->fd, name, other, XATTR_SIZE_MAX) != size ||
                            memcmp(value, other, (size_t)size) != 0))
            note_unkept(output, name);
    }
    if (from >= 0)
        close(from);
    free(names);
    return names != NULL;
}

/* Only root can change the owner. If the owner cannot be kept, the file must not keep the old
 * owner's set-user-ID bit. */
static void keep_owner(struct output *output)
{
    const struct stat *before = &output->replaced;
    struct stat now;

    if (fchown(output->fd, before->st_uid, before->st_gid) == 0)
        return;
    output->mode &= ~(mode_t)(S_ISUID | S_ISGID);
    if (fstat(output->fd, &now) != 0 || now.st_uid != before->st_uid)
        note_unkept(output, "its owner");
    else if (now.st_gid != before->st_gid)
        note_unkept(output, "its group");
}

bool output_lend(struct output *output, struct error *error)
{
    bool done = flush_pending(output, error);

    output->is_synced = false;
    buffer_free(&output->pending); /* there may be thousands of such outputs at a time */
    return done;
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

bool output_sync(struct output *output, struct error *error)
{
    const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, output->replaced.st_mtim};

    if (output->is_synced)
        return true;
    if (!flush_pending(output, error))
        return false;
    if (output->unkept != NULL)
        *output->unkept = (struct error){0};
    /* In this order: a new owner clears capabilities and set-user-ID bits. */
    if (output->in_place)
        keep_owner(output);
    if (output->in_place && !keep_attributes(output, error))
        return false;
    if (fchmod(output->fd, output->mode) != 0 ||
        (output->is_other_form && futimens(output->fd, times) != 0) ||
        (!output->needs_no_sync && fsync(output->fd) != 0))
        return cannot_write(output, errno, error);
    output->is_synced = true;
    return true;
}

/* ---- overwriting ---- */

/* A new name only survives a power failure once the directory has been synced too. False with
 * errno. */
static bool sync_name(const struct output *output)
{
    return output->needs_no_sync || path_sync_name(output->target);
}

/* A rename would leave the old contents under the file's other names, so it has to be overwritten.
 */
static bool overwrites(const struct output *output)
{
    return output->in_place && !output->is_other_form && output->replaced.st_nlink > 1;
}

/* Does not set a mode that is right already, since only the owner may do so. */
static bool set_mode(int fd, mode_t mode)
{
    struct stat status;

    return fstat(fd, &status) == 0 &&
           ((status.st_mode & PERMISSION_BITS) == mode || fchmod(fd, mode) == 0);
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
        ssize_t have = pread(output->fd, piece, PIECE_SIZE, (off_t)offset);

        if (have <= 0)
            return cannot_write(output, have < 0 ? errno : EIO, error);
        if (!write_all(output, fd, (struct bytes){piece, (uint64_t)have}, error))
            return false;
        offset += (uint64_t)have;
    }
    if (ftruncate(fd, (off_t)output->size) != 0 || !set_mode(fd, output->mode))
        return cannot_write(output, errno, error);
    if (size > 0 && fsetxattr(fd, CAPABILITIES, capabilities, (size_t)size, 0) != 0)
        note_unkept(output, CAPABILITIES);
    for (size_t i = 0; i < SIGNATURE_COUNT; i++) {
        if (fgetxattr(fd, signatures[i], NULL, 0) <= 0)
            continue;
        fremovexattr(fd, signatures[i]); /* it would be taken for one of the new contents */
        note_unkept(output, signatures[i]);
    }
    return fsync(fd) == 0 || cannot_write(output, errno, error);
}

/* Signal handlers remove only files that are open for writing (cli/child.c). So without a lock,
 * which keeps off those of other threads, a descriptor for reading replaces the output's. False
 * with errno. */
static bool stop_writing(const struct output *output)
{
    int reading = open(output->temporary, O_RDONLY | O_CLOEXEC);
    bool done = reading >= 0 && dup3(reading, output->fd, O_CLOEXEC) >= 0;

    if (reading >= 0)
        close(reading);
    return done;
}

/* The old file keeps its inode and gets the new bytes, so that all its names see them. Meanwhile
 * the finished output has a temporary name, so that a whole copy is on the disk whatever happens.
 * Everything that may be refused is tried before the old contents go. */
static bool overwrite(struct output *output, bool is_locked, enum output_result *result,
                      struct error *error)
{
    int fd = open(output->target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    uint8_t *piece = malloc(PIECE_SIZE);
    struct stat status;
    struct error cause;
    bool done = false;

    if (fd >= 0 && fstat(fd, &status) == 0 && !file_is_same(&output->replaced, &status)) {
        file_report_change(output->path, error);
    } else if (fd < 0 || !set_mode(fd, output->mode) || !sync_name(output) ||
               (!is_locked && !stop_writing(output))) {
        cannot_write(output, errno, error);
    } else if (piece == NULL) {
        error_out_of_memory(error, output->path, PIECE_SIZE);
    } else if (!(done = copy_to(fd, output, piece, &cause))) {
        *result = OUTPUT_HALF_WRITTEN;
        error_set(error, "%.600s; the whole output is in %s", cause.message, output->temporary);
        forget_temporary(output);
        close(output->fd); /* for signal handlers, see stop_writing */
        output->fd = -1;
    }
    free(piece);
    if (fd >= 0)
        close(fd);
    return done;
}

/* ---- naming ---- */

/* False if the file system has no locks. */
static bool lock_output(const struct output *output, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(output->fd, F_OFD_SETLKW, &lock) == 0;
}

/* All but those that this thread raises itself. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t signals;

    sigfillset(&signals);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&signals, faults[i]);
    pthread_sigmask(SIG_BLOCK, &signals, before);
}

/* Puts the output at its path, whatever is there; in place, only if that is the file that was read.
 * This is checked right before the rename: another process could still replace the file between the
 * two system calls, as no rename(2) can be made conditional on what it replaces. False with an
 * error, unless the directory is gone; then the output has no name that it has got here.
 *
 * link(2) cannot replace a file, so an unnamed output gets a temporary name first. No signal
 * handler may remove that: see file_temporary_final_length. This thread blocks signals, and the
 * lock keeps off handlers in other threads, if the file system supports locks. A file that had a
 * temporary name from the start needs no lock, unless that name is to stay. This avoids locks on
 * network file systems, where they may take long: these are mostly the ones without unnamed files.
 */
static bool replace(struct output *output, enum output_result *result, struct error *error)
{
    bool is_unnamed = output->temporary == NULL, is_locked, done = false;
    sigset_t before;
    int failure;

    block_signals(&before);
    is_locked = (is_unnamed || overwrites(output)) && lock_output(output, F_WRLCK);
    failure = give_temporary_name(output);
    if (failure == 0 && !output_can_replace(output, error)) {
        if (error->number == 0)
            *result = OUTPUT_OVERTAKEN;
    } else if (failure == 0 && overwrites(output)) {
        done = overwrite(output, is_locked, result, error);
        remove_temporary(output);
    } else {
        if (failure == 0 && rename(output->temporary, output->target) != 0)
            failure = errno;
        done = failure == 0;
        if (done)
            forget_temporary(output);
        else if (failure == ENOENT)
            *result = OUTPUT_NO_DIRECTORY;
        else
            cannot_write(output, failure, error);
    }
    if (!done && is_unnamed)
        remove_temporary(output);
    if (is_locked)
        lock_output(output, F_UNLCK);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return done;
}

/* Gives the output its path if that does not exist. False with an error, unless it does, or the
 * directory is gone. */
static bool add(struct output *output, enum output_result *result, struct error *error)
{
    bool is_unnamed = output->temporary == NULL;
    int failure = add_name(output, output->target);

    if (failure == 0 && !is_unnamed)
        unlink(output->temporary);
    /* Some file systems have no hard links. */
    if (!is_unnamed &&
        (failure == EPERM || failure == EOPNOTSUPP || failure == ENOSYS || failure == EMLINK))
        failure =
            renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_NOREPLACE) == 0
                ? 0
                : errno;
    if (failure == 0)
        forget_temporary(output);
    else if (failure == EEXIST)
        *result = OUTPUT_NAME_TAKEN;
    else if (failure == ENOENT)
        *result = OUTPUT_NO_DIRECTORY;
    else
        cannot_write(output, failure, error);
    return failure == 0;
}

/* ---- commits ---- */

/* True if the target already has the mode and the bytes of the output, and has them on the disk. */
static bool same_as_target(const struct output *output)
{
    struct stat status;
    uint8_t *pieces = NULL;
    uint64_t offset = 0;
    int fd = file_open_as_it_is(output->target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool same = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                (uint64_t)status.st_size == output->size &&
                (status.st_mode & PERMISSION_BITS) == output->mode &&
                (pieces = malloc(2 * COMPARED_SIZE)) != NULL;

    while (same && offset < output->size) {
        ssize_t have = pread(output->fd, pieces, COMPARED_SIZE, (off_t)offset);

        same = have > 0 && pread(fd, pieces + COMPARED_SIZE, (size_t)have, (off_t)offset) == have &&
               memcmp(pieces, pieces + COMPARED_SIZE, (size_t)have) == 0;
        offset += same ? (uint64_t)have : 0;
    }
    /* Another process may have written it without syncing. */
    same = same && (output->needs_no_sync || (fsync(fd) == 0 && sync_name(output)));
    free(pieces);
    if (fd >= 0)
        close(fd);
    return same;
}

bool output_try_commit(struct output *output, bool replaces, enum output_result *result,
                       struct error *error)
{
    bool done = output_sync(output, error);

    *result = OUTPUT_UNCHANGED;
    if (done && !(replaces && same_as_target(output))) {
        *result = OUTPUT_WRITTEN;
        done = (replaces ? replace : add)(output, result, error);
        if (*result == OUTPUT_NAME_TAKEN || *result == OUTPUT_NO_DIRECTORY)
            return true;
        if (done && !sync_name(output)) {
            *result = OUTPUT_NOT_SYNCED;
            done = error_set_errno(
                error, errno, "%s: was written, but its directory cannot be synced to the disk",
                output->path);
        }
    } else if (done && output->unkept != NULL) {
        *output->unkept = (struct error){0}; /* the file was not touched */
    }
    output_discard(output);
    return done;
}

bool output_commit(struct output *output, enum output_result *result, struct error *error)
{
    bool done = output_try_commit(output, true, result, error);

    if (done && *result == OUTPUT_NO_DIRECTORY)
        done = cannot_write(output, ENOENT, error);
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
