/*
 * Mapped inputs and atomic outputs: see file.h.
 *
 * An output has no name while it is written (O_TMPFILE), so a process that is killed leaves nothing
 * behind. It gets a temporary name only in the instant before the rename that puts it in place;
 * link(2) alone cannot replace an existing file.
 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Small writes are gathered up to this size, and files are copied in pieces of it. */
#define PIECE_SIZE ((size_t)1 << 20)

bool file_is(const char *path, const struct stat *status)
{
    struct stat other;

    return stat(path, &other) == 0 && other.st_dev == status->st_dev &&
           other.st_ino == status->st_ino;
}

mode_t file_new_mode(void)
{
    static const char label[] = "\nUmask:\t";
    char status[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);
    const char *line;
    mode_t mask;

    if (fd >= 0)
        close(fd);
    status[size < 0 ? 0 : size] = '\0';
    line = strstr(status, label);
    if (line != NULL)
        return 0666 & ~(mode_t)strtoul(line + strlen(label), NULL, 8);
    /* Where there is no such file: not in the way of other threads only for as long as they create
     * none. */
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int file_open_as_it_is(const char *path, int flags)
{
    /* The preload module stands in front of the functions of libc, not of the kernel. */
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

/* ---- inputs ---- */

/* Opens for reading, without waiting for a pipe's other end and without side effects. */
static bool open_regular(const char *path, int *fd, struct stat *status, struct error *error)
{
    *fd = file_open_as_it_is(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    if (!S_ISREG(status->st_mode))
        return error_set(error, "%s: not a regular file; name a file", path);
    return true;
}

static bool map_input(struct input *input, struct error *error)
{
    void *map;

    if (input->status.st_size == 0)
        return true;
    map = mmap(NULL, (size_t)input->status.st_size, PROT_READ, MAP_PRIVATE, input->fd, 0);
    if (map == MAP_FAILED)
        return error_set_errno(error, errno, "%s: cannot be mapped into memory", input->path);
    input->bytes = (struct bytes){map, (uint64_t)input->status.st_size};
    return true;
}

bool input_open(struct input *input, const char *path, struct error *error)
{
    *input = (struct input){.fd = -1};
    input->path = strdup(path);
    if (input->path == NULL)
        return error_out_of_memory(error, path, strlen(path));
    if (open_regular(path, &input->fd, &input->status, error) && map_input(input, error))
        return true;
    input_close(input);
    return false;
}

bool input_open_descriptor(struct input *input, int fd, const char *name, struct error *error)
{
    *input = (struct input){.fd = -1};
    input->path = strdup(name);
    if (input->path == NULL)
        return error_out_of_memory(error, name, strlen(name));
    input->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (input->fd < 0 || fstat(input->fd, &input->status) != 0)
        error_set_errno(error, errno, "%s: cannot be read", name);
    else if (!S_ISREG(input->status.st_mode))
        error_set(error, "%s: not a regular file; name a file", name);
    else if (map_input(input, error))
        return true;
    input_close(input);
    return false;
}

/* False with errno: a read failed. What the file lost meanwhile is missing from the buffer. */
static bool read_all(int fd, struct buffer *buffer, size_t size)
{
    while (buffer->size < size) {
        ssize_t have = read(fd, buffer->data + buffer->size, size - buffer->size);

        if (have < 0 && errno == EINTR)
            continue;
        if (have < 0)
            return false;
        if (have == 0)
            break;
        buffer->size += (size_t)have;
    }
    return true;
}

bool file_read_into(struct buffer *buffer, const char *path, struct error *error)
{
    struct stat status;
    int fd;
    bool done = open_regular(path, &fd, &status, error);

    buffer->size = 0;
    if (done && !buffer_reserve(buffer, (size_t)status.st_size))
        done = error_out_of_memory(error, path, (uint64_t)status.st_size);
    else if (done && !read_all(fd, buffer, (size_t)status.st_size))
        done = error_set_errno(error, errno, "%s: cannot be read", path);
    if (fd >= 0)
        close(fd);
    return done;
}

void input_release_pages(const struct input *input, uint64_t offset, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = align_down(offset, page), end;
    struct bytes part;

    if (!bytes_slice(input->bytes, offset, size, &part))
        return;
    if (input->released != NULL)
        input->released(input->released_context, size);
    end = offset + size == input->bytes.size ? offset + size : align_down(offset + size, page);
    if (end > start)
        madvise((void *)(uintptr_t)(input->bytes.data + start), (size_t)(end - start),
                MADV_DONTNEED);
}

bool input_unchanged(const struct input *input, struct error *error)
{
    struct stat now;

    if (fstat(input->fd, &now) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", input->path);
    if (now.st_size != input->status.st_size ||
        now.st_mtim.tv_sec != input->status.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != input->status.st_mtim.tv_nsec)
        return error_set(error, "%s: changed while it was being read; run again", input->path);
    return true;
}

void input_close_descriptor(struct input *input)
{
    if (input->path == NULL || input->fd < 0)
        return;
    close(input->fd);
    input->fd = -1;
}

void input_close(struct input *input)
{
    if (input->path == NULL)
        return;
    if (input->bytes.data != NULL)
        munmap((void *)(uintptr_t)input->bytes.data, (size_t)input->bytes.size);
    input_close_descriptor(input);
    free(input->path);
    *input = (struct input){.fd = -1};
}

/* ---- paths ---- */

static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static bool is_same_inode(const char *a, const char *b)
{
    struct stat one, other;

    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

bool paths_meet(const char *a, const char *b)
{
    char *directory = directory_of(a), *other = directory_of(b);
    bool same = is_same_inode(a, b) || (strcmp(name_of(a), name_of(b)) == 0 && directory != NULL &&
                                        other != NULL && is_same_inode(directory, other));

    free(directory);
    free(other);
    return same;
}

/* ---- outputs: creation ---- */

/* Follows a symbolic link for an edit in place; *status becomes that of the file it leads to. */
static bool follow_link(struct output *output, struct stat *status, struct error *error)
{
    output->target = realpath(output->path, NULL);
    if (output->target == NULL || stat(output->target, status) != 0)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    return true;
}

/* Decides which path the rename will replace and whether the inode must be kept. */
static bool choose_target(struct output *output, const struct output_options *options,
                          struct error *error)
{
    struct stat status;
    bool exists = lstat(output->path, &status) == 0;

    if (!exists && errno != ENOENT)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    if (exists && S_ISLNK(status.st_mode) && options->in_place) {
        if (!follow_link(output, &status, error))
            return false;
    } else {
        output->target = strdup(output->path);
        if (output->target == NULL)
            return error_out_of_memory(error, output->path, strlen(output->path));
    }
    if (exists && S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a directory; name a file", output->path);
    /* Without in_place a symbolic link is itself replaced, as `strip -o` does. */
    if (exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
        return error_set(error, "%s: not a regular file; name another output", output->path);
    output->keep_inode = exists && options->in_place && status.st_nlink > 1;
    output->keep_owner = exists && options->in_place;
    output->owner = exists ? status.st_uid : 0;
    output->group = exists ? status.st_gid : 0;
    return true;
}

#define TEMPORARY_RANDOM 6 /* the X of mkostemp */

size_t file_temporary_final_length(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(name), random = length - TEMPORARY_RANDOM;

    if (length < TEMPORARY_RANDOM + 3 || name[0] != '.' || name[random - 1] != '.' ||
        strspn(name + random, letters) != TEMPORARY_RANDOM)
        return 0;
    return random - 2;
}

/* "DIRECTORY/.NAME.XXXXXX", in the directory of the target so that a rename cannot cross file
 * systems. */
static char *temporary_template(const char *target)
{
    const char *slash = strrchr(target, '/');
    int directory_length = slash == NULL ? 0 : (int)(slash - target + 1);
    const char *name = target + directory_length;
    char *result = NULL;

    /* A name near NAME_MAX must not make the temporary one too long. */
    if (asprintf(&result, "%.*s.%.200s.XXXXXX", directory_length, target, name) < 0)
        return NULL;
    return result;
}

static bool open_unnamed(struct output *output, struct error *error)
{
    char *directory = directory_of(output->target);

    if (directory == NULL)
        return error_out_of_memory(error, output->path, strlen(output->path));
    /* Without /proc an unnamed file could not be given a name later. */
    if (access("/proc/self/fd", X_OK) == 0)
        output->fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    free(directory);
    if (output->fd >= 0)
        return true;
    /* Not every file system has unnamed files, and not every kernel says so in the same way. */
    output->temporary = temporary_template(output->target);
    if (output->temporary == NULL)
        return error_out_of_memory(error, output->path, strlen(output->path));
    output->fd = mkostemp(output->temporary, O_CLOEXEC);
    if (output->fd < 0) {
        error_set_errno(error, errno, "%s: cannot be written", output->path);
        free(output->temporary);
        output->temporary = NULL;
        return false;
    }
    return true;
}

bool output_create(struct output *output, const char *path, const struct output_options *options,
                   struct error *error)
{
    *output = (struct output){.fd = -1, .mode = options->mode & (options->in_place ? 07777 : 0777)};
    output->path = strdup(path);
    if (output->path == NULL)
        return error_out_of_memory(error, path, strlen(path));
    if (!choose_target(output, options, error) || !open_unnamed(output, error)) {
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

static bool flush_pending(struct output *output, struct error *error)
{
    size_t size = output->pending.size;

    output->pending.size = 0;
    return write_all(output->fd, output->path, output->pending.data, size, error);
}

bool output_write(struct output *output, struct bytes view, struct error *error)
{
    output->size += view.size;
    if (view.size < PIECE_SIZE && output->pending.size + view.size <= PIECE_SIZE) {
        if (!buffer_append(&output->pending, view.data, (size_t)view.size))
            return error_out_of_memory(error, output->path, view.size);
        return true;
    }
    return flush_pending(output, error) &&
           write_all(output->fd, output->path, view.data, (size_t)view.size, error);
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

/* These say something of the old contents, and the kernel drops the first when a file is written.
 */
static bool vouches_for_contents(const char *attribute)
{
    return strcmp(attribute, "security.capability") == 0 ||
           strcmp(attribute, "security.ima") == 0 || strcmp(attribute, "security.evm") == 0;
}

/* As far as it is allowed: an attribute that cannot be set is no reason to fail. */
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
    return flush_pending(output, error);
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
    if (!flush_pending(output, error))
        return false;
    /* Only root can give a file away; for others it stays theirs, but then it must not run with
     * the rights of the old owner's set-user-ID bit. The mode comes last: a change of owner clears
     * those bits. */
    if (output->keep_owner && fchown(output->fd, output->owner, output->group) != 0)
        output->mode &= ~(mode_t)(S_ISUID | S_ISGID);
    if (output->keep_owner)
        copy_attributes(output->target, output->fd);
    if (fchmod(output->fd, output->mode) != 0 || fsync(output->fd) != 0)
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    return true;
}

/* ---- outputs: commit ---- */

/* True where the target already has the mode and the bytes of the output. */
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

/* The path by which link(2) can name an unnamed file. */
#define UNNAMED_PATH_MAX 64

static const char *unnamed_path(const struct output *output, char *text)
{
    snprintf(text, UNNAMED_PATH_MAX, "/proc/self/fd/%d", output->fd);
    return text;
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

/* The old file keeps its inode and gets the new bytes, so that all its names see them. The finished
 * output has a name of its own meanwhile: whatever happens, one whole copy of it is on the disk. */
static bool copy_over_target(struct output *output, struct error *error)
{
    uint8_t *piece = malloc(PIECE_SIZE);
    uint64_t offset = 0;
    bool done = false;
    int fd = open(output->target, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0) {
        free(piece);
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    }
    if (piece == NULL) {
        close(fd);
        return error_out_of_memory(error, output->path, PIECE_SIZE);
    }
    while (offset < output->size) {
        ssize_t have = pread(output->fd, piece, PIECE_SIZE, (off_t)offset);
        if (have <= 0) {
            error_set_errno(error, errno, "%s: cannot be written", output->path);
            goto out;
        }
        if (!write_all(fd, output->path, piece, (size_t)have, error))
            goto out;
        offset += (uint64_t)have;
    }
    done =
        ftruncate(fd, (off_t)output->size) == 0 && fchmod(fd, output->mode) == 0 && fsync(fd) == 0;
    if (!done)
        error_set_errno(error, errno, "%s: cannot be written", output->path);
out:
    free(piece);
    close(fd);
    return done;
}

/* The rename is only safe from a power failure once the directory is on the disk too. File systems
 * that cannot sync a directory say EINVAL; there is nothing more to do there. */
static void sync_directory(const char *target)
{
    char *directory = directory_of(target);
    int fd = directory == NULL ? -1 : open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(directory);
}

static void forget_temporary(struct output *output)
{
    free(output->temporary);
    output->temporary = NULL;
}

static bool overwrite_target(struct output *output, struct error *error)
{
    struct error cause;

    if (!copy_over_target(output, &cause)) {
        /* The target may be half written now: the whole output must not be thrown away. */
        error_set(error, "%.600s; the whole output is in %s", cause.message, output->temporary);
        forget_temporary(output);
        return false;
    }
    unlink(output->temporary);
    forget_temporary(output);
    sync_directory(output->target);
    return true;
}

/* 0, or an errno value. */
static int replace_target(struct output *output)
{
    if (rename(output->temporary, output->target) != 0)
        return errno;
    forget_temporary(output);
    sync_directory(output->target);
    return 0;
}

static bool put_in_place(struct output *output, struct error *error)
{
    int failure = output->temporary == NULL ? give_temporary_name(output) : 0;

    if (failure == 0 && output->keep_inode)
        return overwrite_target(output, error);
    if (failure == 0)
        failure = replace_target(output);
    return failure == 0 || error_set_errno(error, failure, "%s: cannot be written", output->path);
}

bool output_commit(struct output *output, enum output_result *result, struct error *error)
{
    bool done = true;

    *result = OUTPUT_UNCHANGED;
    if (!output_sync(output, error)) {
        done = false;
    } else if (!same_as_target(output)) {
        *result = OUTPUT_WRITTEN;
        done = put_in_place(output, error);
    }
    output_discard(output);
    return done;
}

/* Some file systems have no hard links; then there is a rename that replaces nothing. */
static bool has_no_links(int failure)
{
    return failure == EPERM || failure == EOPNOTSUPP || failure == ENOSYS || failure == EMLINK;
}

/* Gives the output its path where that is free. 0, or an errno value. */
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

static int take_name(struct output *output)
{
    int failure = output->temporary == NULL ? give_temporary_name(output) : 0;

    return failure != 0 ? failure : replace_target(output);
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
    if (output->temporary != NULL)
        unlink(output->temporary);
    if (output->fd >= 0)
        close(output->fd);
    free(output->temporary);
    free(output->target);
    free(output->path);
    buffer_free(&output->pending);
    *output = (struct output){.fd = -1};
}
