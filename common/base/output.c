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

/* Small writes are buffered up to this size, and files are copied in pieces of this size. */
#define PIECE_SIZE ((size_t)1 << 20)

/* Blocks of zeros of this size become holes in the file. */
#define HOLE_BLOCK ((uint64_t)1 << 16)

/* Temporary names end with this, and with random characters as mkostemp makes them. */
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

/* "DIRECTORY/.NAME.covsplit-XXXXXX" as a new string, in the directory of the target so that a
 * rename cannot cross file systems. NULL if out of memory. */
static char *temporary_template(const char *target)
{
    const char *name = path_file_name(target);
    char *result = NULL;

    /* Truncated, so that the temporary name does not exceed NAME_MAX. */
    return asprintf(&result, "%.*s.%.200s" TEMPORARY_MARK "XXXXXX", (int)(name - target), target,
                    name) < 0
               ? NULL
               : result;
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

/* ---- creation ---- */

bool output_can_replace(const struct output *output, struct error *error)
{
    struct stat now;

    if (!output->in_place)
        return true;
    if (stat(output->target, &now) == 0)
        return file_is_untouched(&output->replaced, &now) ||
               file_report_change(output->path, error);
    return errno == ENOENT || errno == ENOTDIR
               ? file_report_change(output->path, error)
               : error_set_errno(error, errno, "%s: cannot be read", output->path);
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
static bool choose_target(struct output *output, const struct output_options *options,
                          struct error *error)
{
    struct stat status;
    bool exists = lstat(output->path, &status) == 0;
    bool is_link = exists && S_ISLNK(status.st_mode);

    if (!exists && errno != ENOENT)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (is_link && options->in_place != NULL) {
        output->target = realpath(output->path, NULL);
        if (output->target == NULL || stat(output->target, &status) != 0)
            return error_set_errno(error, errno, "%s: cannot be written", output->path);
        is_link = false;
    } else {
        output->target = strdup(output->path);
        if (output->target == NULL)
            return error_out_of_memory(error, output->path, strlen(output->path));
    }
    if (exists && S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a directory; name a file", output->path);
    /* Without in_place the symbolic link itself is replaced, as by `strip -o`. */
    if (exists && (is_link ? leads_to_no_file(output->path) : !S_ISREG(status.st_mode)))
        return error_set(error, "%s: not a regular file; name another output", output->path);
    /* Files with a temporary name are taken for unfinished ones and may be removed. */
    if (file_temporary_final_length(path_file_name(output->target)) != 0)
        return error_set(error,
                         "%s: such names are reserved for unfinished files; give the output a name "
                         "without '" TEMPORARY_MARK "'",
                         output->path);
    output->in_place = options->in_place != NULL;
    output->unkept = options->unkept;
    output->is_other_form = options->is_other_form;
    output->needs_no_sync = options->needs_no_sync;
    if (output->in_place)
        output->replaced = options->in_place->status;
    return output_can_replace(output, error);
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

bool output_create_in_memory(struct output *output, const char *name, struct error *error)
{
    *output = (struct output){.fd = -1};
    output->path = strdup(name);
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

/* `path` is for the error. */
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

/* Zeros become holes: an image of gigabytes may consist mostly of holes, and should not need more
 * disk space after the split. */
static bool write_sparse(struct output *output, struct bytes view, struct error *error)
{
    while (view.size != 0) {
        /* The longest start, in whole blocks, that is all zeros or contains no block of zeros. */
        bool is_zero = false;
        uint64_t run = 0;

        while (run < view.size) {
            uint64_t size = view.size - run < HOLE_BLOCK ? view.size - run : HOLE_BLOCK;
            bool zero = size == HOLE_BLOCK && bytes_all_zero((struct bytes){view.data + run, size});

            if (run != 0 && zero != is_zero)
                break;
            is_zero = zero;
            run += size;
        }
        if (is_zero) {
            off_t end = lseek(output->fd, (off_t)run, SEEK_CUR);

            if (end < 0 || ftruncate(output->fd, end) != 0)
                return error_set_errno(error, errno, "%s: cannot be written", output->path);
        } else if (!write_all(output->fd, output->path, view.data, (size_t)run, error)) {
            return false;
        }
        view.data += run;
        view.size -= run;
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

        /* Sums of the old contents, which the kernel or a signer makes again. */
        if (strcmp(name, "security.ima") == 0 || strcmp(name, "security.evm") == 0)
            continue;
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
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    output->is_synced = true;
    return true;
}

/* ---- naming ---- */

/* A new name only survives a power failure once the directory has been synced too. Returns 0 or an
 * errno value. */
static int sync_name(const struct output *output)
{
    return output->needs_no_sync || path_sync_name(output->target) ? 0 : errno;
}

/* A rename would leave the old contents under the file's other names, so it has to be overwritten.
 */
static bool overwrites(const struct output *output)
{
    return output->in_place && !output->is_other_form && output->replaced.st_nlink > 1;
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

/* The path through which linkat(2) can give an unnamed file a name. */
#define UNNAMED_PATH_MAX 64

static const char *unnamed_path(const struct output *output, char text[UNNAMED_PATH_MAX])
{
    snprintf(text, UNNAMED_PATH_MAX, "/proc/self/fd/%d", output->fd);
    return text;
}

/* link(2) cannot replace an existing file, so an unnamed output gets a temporary name right before
 * the rename to its final path. Returns 0 or an errno value. */
static int give_temporary_name(struct output *output)
{
    char source[UNNAMED_PATH_MAX];
    int failure = output->temporary == NULL ? EEXIST : 0;

    for (unsigned attempt = 0; attempt < 100 && failure == EEXIST; attempt++) {
        char *name = temporary_template(output->target);
        size_t length;

        if (name == NULL)
            return ENOMEM;
        length = strlen(name);
        snprintf(name + length - TEMPORARY_RANDOM, TEMPORARY_RANDOM + 1, "%02x%04x", attempt,
                 (unsigned)getpid() & 0xffff);
        if (linkat(AT_FDCWD, unnamed_path(output, source), AT_FDCWD, name, AT_SYMLINK_FOLLOW) ==
            0) {
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

/* Opens the file to overwrite, if it is still the one that was read. Everything that may be refused
 * is tried first. A descriptor for reading replaces the output's, so that a signal handler, which
 * removes only files that are open for writing (signals.c), leaves the temporary name. */
static int open_target(struct output *output, struct error *error)
{
    int fd = open(output->target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    int reading = open(output->temporary, O_RDONLY | O_CLOEXEC);
    struct stat status;
    bool done = false;

    if (fd >= 0 && fstat(fd, &status) == 0 && !file_is_same(&output->replaced, &status))
        file_report_change(output->path, error);
    else if (fd < 0 || reading < 0 || !set_mode(fd, output->mode) ||
             dup3(reading, output->fd, O_CLOEXEC) < 0)
        error_set_errno(error, errno, "%s: cannot be written", output->path);
    else
        done = true;
    if (reading >= 0)
        close(reading);
    if (done || fd < 0)
        return fd;
    close(fd);
    return -1;
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
            return error_set_errno(error, have < 0 ? errno : EIO, "%s: cannot be written",
                                   output->path);
        if (!write_all(fd, output->path, piece, (size_t)have, error))
            return false;
        offset += (uint64_t)have;
    }
    if (ftruncate(fd, (off_t)output->size) != 0 || !set_mode(fd, output->mode))
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (size > 0 && fsetxattr(fd, CAPABILITIES, capabilities, (size_t)size, 0) != 0)
        note_unkept(output, CAPABILITIES);
    return fsync(fd) == 0 || error_set_errno(error, errno, "%s: cannot be written", output->path);
}

#define NOT_SYNCED "its directory cannot be synced to the disk"

static bool report_not_synced(const struct output *output, int failure, struct error *error)
{
    return error_set_errno(error, failure, "%s: " NOT_SYNCED, output->path);
}

/* The old file keeps its inode and gets the new bytes, so that all its names see them. Meanwhile
 * the finished output has a temporary name, so that a whole copy is on the disk whatever happens.
 */
static bool overwrite_target(struct output *output, int fd, enum output_result *result,
                             struct error *error)
{
    uint8_t *piece = malloc(PIECE_SIZE);
    int failure = sync_name(output); /* that name, before the old contents go */
    struct error cause;
    bool done;

    if (failure != 0) {
        done = report_not_synced(output, failure, error);
    } else if (piece == NULL) {
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

/* ---- replacing ---- */

static bool swap_names(const struct output *output)
{
    return renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_EXCHANGE) == 0;
}

/* True of file systems, and of sandboxes that know rename alone. If it is for another reason, the
 * rename fails for that, too. */
static bool cannot_swap(int failure)
{
    return failure == EINVAL || failure == ENOSYS || failure == EOPNOTSUPP || failure == EPERM;
}

/* Neither is true of a path that cannot be looked at. */
static bool is_at(const struct output *output, const char *path)
{
    struct stat mine, now;

    return fstat(output->fd, &mine) == 0 && lstat(path, &now) == 0 && file_is_same(&mine, &now);
}

static bool has_another(const struct output *output, const char *path)
{
    struct stat mine, now;

    return fstat(output->fd, &mine) == 0 && lstat(path, &now) == 0 && !file_is_same(&mine, &now);
}

/* Gives the path back what it had, after the output was put there: what came out has the temporary
 * name if `was_there`. Otherwise nothing was there, and the output is removed if it is there still.
 * A file that another process has put there since stays. The message says where what came out is if
 * that fails. */
static void undo(struct output *output, bool was_there, int failure, const char *why,
                 enum output_result *result, struct error *error)
{
    bool done = was_there ? swap_names(output) &&
                                (!has_another(output, output->temporary) || swap_names(output))
                          : is_at(output, output->target) && unlink(output->target) == 0;

    /* The undoing has to be durable, too. */
    if (!done || sync_name(output) != 0)
        *result = OUTPUT_NOT_SYNCED;
    if (done) {
        error_set_errno(error, failure, "%s: %s", output->path, why);
    } else if (!was_there || file_is_missing(output->temporary, AT_SYMLINK_NOFOLLOW)) {
        error_set_errno(error, failure, "%s: was written, but %s", output->path, why);
    } else {
        error_set_errno(error, failure, "%.400s: was written, but %s; what was there is in %.400s",
                        output->path, why, output->temporary);
        forget_temporary(output);
    }
}

/* A rename replaces whatever is there, for good. Swapping the two names shows what was there, and
 * keeps it until the new name is on the disk; not all file systems can do that. Of an edit in
 * place, only the file that was read is replaced (a rename changes its st_ctime). */
static bool replace(struct output *output, enum output_result *result, struct error *error)
{
    bool was_there = swap_names(output), is_new = false;
    int failure = was_there ? 0 : errno;
    struct stat came_out;

    if (failure == ENOENT && output->in_place) {
        *result = OUTPUT_OVERTAKEN;
        return file_report_change(output->path, error);
    }
    if (failure == ENOENT || cannot_swap(failure)) {
        is_new = file_is_missing(output->target, AT_SYMLINK_NOFOLLOW);
        failure = rename(output->temporary, output->target) == 0 ? 0 : errno;
        if (failure == 0)
            forget_temporary(output);
    }
    if (failure != 0)
        return error_set_errno(error, failure, "%s: cannot be written", output->path);
    if (was_there && lstat(output->temporary, &came_out) != 0) {
        undo(output, true, errno, "what it replaces cannot be read", result, error);
        return false;
    }
    if (was_there && (output->in_place ? !file_is_same(&output->replaced, &came_out) ||
                                             !file_has_same_contents(&output->replaced, &came_out)
                                       : S_ISDIR(came_out.st_mode))) {
        undo(output, true, ESTALE, "another process had changed it", result, error);
        if (*result == OUTPUT_NOT_SYNCED)
            return false;
        *result = OUTPUT_OVERTAKEN;
        return file_report_change(output->path, error);
    }
    failure = sync_name(output);
    if (failure == 0)
        return true;
    if (was_there || is_new)
        undo(output, was_there, failure, NOT_SYNCED, result, error);
    else {
        *result = OUTPUT_NOT_SYNCED;
        error_set_errno(error, failure, "%s: was written, but " NOT_SYNCED, output->path);
    }
    return false;
}

/* Checks the file to be replaced right before the rename. Another process could still replace it
 * between the two system calls; no rename(2) can be made conditional on what it replaces. */
static bool put_in_place(struct output *output, enum output_result *result, struct error *error)
{
    struct naming naming = naming_start(output);
    int failure = give_temporary_name(output), fd = -1;
    bool done = false;

    if (failure != 0) {
        error_set_errno(error, failure, "%s: cannot be written", output->path);
    } else if (!output_can_replace(output, error)) {
        if (error->number == 0)
            *result = OUTPUT_OVERTAKEN;
    } else if (overwrites(output)) {
        done = (fd = open_target(output, error)) >= 0;
    } else {
        done = replace(output, result, error);
    }
    if (fd < 0)
        remove_temporary(output);
    naming_end(output, &naming);
    if (fd >= 0) {
        done = overwrite_target(output, fd, result, error);
        close(fd);
    }
    return done;
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
                (status.st_mode & 07777) == output->mode &&
                (pieces = malloc(2 * PIECE_SIZE)) != NULL;

    while (same && offset < output->size) {
        ssize_t have = pread(output->fd, pieces, PIECE_SIZE, (off_t)offset);

        same = have > 0 && pread(fd, pieces + PIECE_SIZE, (size_t)have, (off_t)offset) == have &&
               memcmp(pieces, pieces + PIECE_SIZE, (size_t)have) == 0;
        offset += same ? (uint64_t)have : 0;
    }
    /* Another process may have written it without syncing. */
    same = same && (output->needs_no_sync || (fsync(fd) == 0 && sync_name(output) == 0));
    free(pieces);
    if (fd >= 0)
        close(fd);
    return same;
}

bool output_commit(struct output *output, enum output_result *result, struct error *error)
{
    bool done = output_sync(output, error);

    *result = OUTPUT_UNCHANGED;
    if (done && !same_as_target(output)) {
        *result = OUTPUT_WRITTEN;
        done = put_in_place(output, result, error);
    } else if (done && output->unkept != NULL) {
        *output->unkept = (struct error){0}; /* the file was not touched */
    }
    output_discard(output);
    return done;
}

/* Replaces what is at the path by a rename. On failure, a temporary name that was given here is
 * removed. Returns 0 or an errno value. */
static int take_name(struct output *output)
{
    struct naming naming = naming_start(output);
    bool is_unnamed = output->temporary == NULL;
    int failure = give_temporary_name(output);

    if (failure == 0 && rename(output->temporary, output->target) != 0)
        failure = errno;
    if (failure == 0)
        forget_temporary(output);
    else if (is_unnamed)
        remove_temporary(output);
    naming_end(output, &naming);
    return failure;
}

/* Gives the output its path if that does not exist. Returns 0 or an errno value. */
static int take_free_name(struct output *output)
{
    char source[UNNAMED_PATH_MAX];
    bool is_unnamed = output->temporary == NULL;

    if (linkat(AT_FDCWD, is_unnamed ? unnamed_path(output, source) : output->temporary, AT_FDCWD,
               output->target, is_unnamed ? AT_SYMLINK_FOLLOW : 0) == 0) {
        if (!is_unnamed)
            unlink(output->temporary);
    } else if (is_unnamed ||
               (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) ||
               /* Some file systems have no hard links. */
               renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->target, RENAME_NOREPLACE) !=
                   0) {
        return errno;
    }
    forget_temporary(output);
    return 0;
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
