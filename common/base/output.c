/*
 * Outputs until they are finished: see output.h. output_commit.c gives them their path.
 *
 * An output has no name while it is written (O_TMPFILE), so a process that is killed leaves nothing
 * behind.
 */
#include "common/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/output_parts.h"

/* Blocks of zeros of this size become holes in the file. */
#define HOLE_BLOCK     ((uint64_t)1 << 16)

#define TEMPORARY_MARK ".covsplit-"

/* ---- creation ---- */

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

    if (!output->in_place)
        return true;
    if (stat(output->target, &now) == 0)
        return file_is_untouched(&output->replaced, &now) ||
               file_report_change(output->path, error);
    return errno == ENOENT || errno == ENOTDIR
               ? file_report_change(output->path, error)
               : error_set_errno(error, errno, "%s: cannot be read", output->path);
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

/* Whether a symbolic link leads to a device, a pipe, a directory, or whatever a descriptor stands
 * for, such as /dev/stdout: nobody wants that link replaced by a file. */
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
    if (exists && !S_ISREG(status.st_mode) &&
        (!S_ISLNK(status.st_mode) || leads_to_no_file(output->path)))
        return error_set(error, "%s: not a regular file; name another output", output->path);
    output->in_place = options->in_place != NULL;
    output->unkept = options->unkept;
    output->is_other_form = options->is_other_form;
    output->needs_no_sync = options->needs_no_sync;
    if (output->in_place)
        output->replaced = options->in_place->status;
    return check_name(output, error) && output_can_replace(output, error);
}

size_t file_temporary_final_length(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(name), mark = strlen(TEMPORARY_MARK);
    size_t end = length - OUTPUT_TEMPORARY_RANDOM - mark; /* of NAME */

    if (length < 2 + mark + OUTPUT_TEMPORARY_RANDOM || name[0] != '.' ||
        memcmp(name + end, TEMPORARY_MARK, mark) != 0 ||
        strspn(name + end + mark, letters) != OUTPUT_TEMPORARY_RANDOM)
        return 0;
    return end - 1;
}

char *output_temporary_template(const char *target)
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

void output_forget_temporary(struct output *output)
{
    free(output->temporary);
    output->temporary = NULL;
}

void output_remove_temporary(struct output *output)
{
    if (output->temporary != NULL)
        unlink(output->temporary);
    output_forget_temporary(output);
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
    output->temporary = output_temporary_template(output->target);
    if (output->temporary == NULL)
        return error_out_of_memory(error, output->path, strlen(output->path));
    output->fd = mkostemp(output->temporary, O_CLOEXEC);
    if (output->fd < 0) {
        error_set_errno(error, errno, "%s: cannot be written", output->path);
        output_forget_temporary(output);
        return false;
    }
    if (is_nameless)
        output_remove_temporary(output);
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

bool output_write_all(int fd, const char *path, const uint8_t *data, size_t size,
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
        if (!is_zero &&
            !output_write_all(output->fd, output->path, run.data, (size_t)run.size, error))
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
    if (view.size < OUTPUT_PIECE_SIZE && output->pending.size + view.size <= OUTPUT_PIECE_SIZE) {
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

void output_note_unkept(const struct output *output, const char *what)
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

/* These attributes are sums of the old contents, which the kernel or a signer makes again. */
static bool vouches_for_contents(const char *attribute)
{
    return strcmp(attribute, "security.ima") == 0 || strcmp(attribute, "security.evm") == 0;
}

/* `values` has room for two values. True if the new file has the attribute, or the old one lost it
 * by now. */
static bool keep_attribute(int from, int to, const char *name, char *values)
{
    char *value = values, *other = values + XATTR_SIZE_MAX;
    ssize_t size = fgetxattr(from, name, value, XATTR_SIZE_MAX);

    if (size < 0)
        return errno == ENODATA;
    /* Some, such as a label, are given to each new file, and may not be set. */
    return fsetxattr(to, name, value, (size_t)size, 0) == 0 ||
           (fgetxattr(to, name, other, XATTR_SIZE_MAX) == size &&
            memcmp(value, other, (size_t)size) == 0);
}

/* They are read from the very file that was edited, not from what the path has now: whoever may
 * rename files there could give the new one the capabilities of another program. If that file has
 * changed, the commit fails, so nothing needs to be kept. The new file has none of its own but an
 * access list, which it may have from the directory. */
static bool keep_attributes(const struct output *output, struct error *error)
{
    int from = file_open_as_it_is(output->target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    char *names = malloc(XATTR_LIST_MAX + 1 + 2 * (size_t)XATTR_SIZE_MAX);
    struct stat now;
    ssize_t size = 0;

    fremovexattr(output->fd, "system.posix_acl_access");
    if (names == NULL) {
        error_out_of_memory(error, output->path, XATTR_LIST_MAX);
    } else if (from >= 0 && fstat(from, &now) == 0 && file_is_untouched(&output->replaced, &now)) {
        size = flistxattr(from, names, XATTR_LIST_MAX);
        if (size < 0 && errno != ENOTSUP)
            output_note_unkept(output, "its extended attributes");
        names[size < 0 ? 0 : size] = '\0';
    }
    for (ssize_t i = 0; names != NULL && i < size; i += (ssize_t)strlen(names + i) + 1) {
        if (!vouches_for_contents(names + i) &&
            !keep_attribute(from, output->fd, names + i, names + XATTR_LIST_MAX + 1))
            output_note_unkept(output, names + i);
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
        output_note_unkept(output, "its owner");
    else if (now.st_gid != before->st_gid)
        output_note_unkept(output, "its group");
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
    if (output->unkept != NULL)
        *output->unkept = (struct error){0};
    /* In this order: a new owner clears capabilities and set-user-ID bits. */
    if (output->in_place)
        keep_owner(output);
    if (output->in_place && !keep_attributes(output, error))
        return false;
    if (fchmod(output->fd, output->mode) != 0 || !set_time(output) ||
        (!output->needs_no_sync && fsync(output->fd) != 0))
        return error_set_errno(error, errno, "%s: cannot be written", output->path);
    output->is_synced = true;
    return true;
}

/* ---- the end ---- */

void output_discard(struct output *output)
{
    if (output->path == NULL)
        return;
    output_remove_temporary(output);
    if (output->fd >= 0)
        close(output->fd);
    free(output->target);
    free(output->path);
    buffer_free(&output->pending);
    *output = (struct output){.fd = -1};
}
