/*
 * Files, paths, and mapped inputs: see file.h.
 */
#include "common/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool file_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_has_same_contents(const struct stat *before, const struct stat *now)
{
    return before->st_size == now->st_size && is_same_time(&before->st_mtim, &now->st_mtim);
}

bool file_is_untouched(const struct stat *before, const struct stat *now)
{
    return file_is_same(before, now) && file_has_same_contents(before, now) &&
           is_same_time(&before->st_ctim, &now->st_ctim);
}

bool file_check_untouched(const char *path, const struct stat *before, const char *name,
                          struct error *error)
{
    struct stat now;

    if (stat(path, &now) == 0)
        return file_is_untouched(before, &now) || file_report_change(name, error);
    return errno == ENOENT || errno == ENOTDIR
               ? file_report_change(name, error)
               : error_set_errno(error, errno, "%s: cannot be read", name);
}

bool file_is(const char *path, const struct stat *status)
{
    struct stat other;

    return stat(path, &other) == 0 && file_is_same(&other, status);
}

struct file_before file_look_before(const char *path)
{
    struct file_before before;

    before.exists = stat(path, &before.status) == 0;
    return before;
}

bool file_was_written(const struct file_before *before, const char *path, struct stat *now,
                      bool *written, struct error *error)
{
    *written = false;
    if (stat(path, now) != 0)
        return errno == ENOENT || errno == ENOTDIR ||
               error_set_errno(error, errno, "%s: cannot be read", path);
    *written =
        S_ISREG(now->st_mode) && (!before->exists || !file_is_untouched(&before->status, now));
    return true;
}

bool path_is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool file_is_missing(const char *path, int flags)
{
    struct stat status;

    return fstatat(AT_FDCWD, path, &status, flags) != 0 && (errno == ENOENT || errno == ENOTDIR);
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
    /* Without /proc. Setting the umask can affect files that other threads create meanwhile. */
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int file_open_as_it_is(const char *path, int flags)
{
    /* The preload module intercepts libc functions, but not system calls. */
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, 0);
}

/* ---- inputs ---- */

/* `fd` is what opening the file yielded. */
static bool check_regular(int fd, const char *path, struct stat *status, struct error *error)
{
    if (fd < 0 || fstat(fd, status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    return S_ISREG(status->st_mode) ||
           error_set(error, "%s: not a regular file; name a file", path);
}

/* Opens for reading, without waiting for a pipe's other end and without side effects. */
static bool open_regular(const char *path, int *fd, struct stat *status, struct error *error)
{
    *fd = file_open_as_it_is(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return check_regular(*fd, path, status, error);
}

/* Reads the bytes in [from, to), or up to the end of the file. */
static bool read_range(const struct input *input, uint8_t *map, off_t from, off_t to)
{
    while (from < to) {
        ssize_t have = pread(input->fd, map + from, (size_t)(to - from), from);

        if (have < 0 && errno == EINTR)
            continue;
        if (have <= 0)
            return have == 0;
        from += have;
    }
    return true;
}

/* Reads everything but holes, which are zeros already. A file system that does not report holes is
 * treated as having none. */
static bool read_data(const struct input *input, uint8_t *map)
{
    off_t position = 0, end = input->status.st_size;

    while (position < end) {
        off_t data = lseek(input->fd, position, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            return true;
        if (data < 0)
            data = position;
        hole = lseek(input->fd, data, SEEK_HOLE);
        if (hole <= data || hole > end)
            hole = end;
        if (data >= end)
            return true;
        if (!read_range(input, map, data, hole))
            return false;
        position = hole;
    }
    return true;
}

static bool copy_input(struct input *input, struct error *error)
{
    size_t size = (size_t)input->status.st_size;
    off_t position;
    bool done;
    void *map;

    if (size == 0)
        return true;
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
               0);
    if (map == MAP_FAILED)
        return error_out_of_memory(error, input->path, size);
    input->bytes = (struct bytes){map, size};
    position = lseek(input->fd, 0, SEEK_CUR);
    done = read_data(input, map);
    if (!done)
        error_set_errno(error, errno, "%s: cannot be read", input->path);
    lseek(input->fd, position, SEEK_SET);
    return done && input_unchanged(input, error);
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

/* In place of a descriptor; a descriptor that is not open is an error, and none of the name's file.
 */
#define BY_NAME INT_MIN

/* Opens the file of the descriptor, or by its name, and brings the contents into memory by
 * map_input or copy_input. */
static bool open_input(struct input *input, const char *name, int fd,
                       bool (*load)(struct input *input, struct error *error), struct error *error)
{
    bool done;

    *input = (struct input){.fd = -1};
    input->path = strdup(name);
    if (input->path == NULL)
        return error_out_of_memory(error, name, strlen(name));
    if (fd == BY_NAME) {
        done = open_regular(name, &input->fd, &input->status, error);
    } else {
        input->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        done = check_regular(input->fd, name, &input->status, error);
    }
    if (done && load(input, error))
        return true;
    input_close(input);
    return false;
}

bool input_open(struct input *input, const char *path, struct error *error)
{
    return open_input(input, path, BY_NAME, map_input, error);
}

bool input_open_descriptor(struct input *input, int fd, const char *name, struct error *error)
{
    return open_input(input, name, fd, map_input, error);
}

bool input_read(struct input *input, const char *path, struct error *error)
{
    return open_input(input, path, BY_NAME, copy_input, error);
}

bool input_read_descriptor(struct input *input, int fd, const char *name, struct error *error)
{
    return open_input(input, name, fd, copy_input, error);
}

bool input_from_buffer(struct input *input, struct buffer *buffer, const char *name,
                       struct error *error)
{
    *input = (struct input){.fd = -1};
    input->path = strdup(name);
    if (input->path == NULL)
        return error_out_of_memory(error, name, strlen(name));
    input->held = *buffer;
    input->bytes = buffer_view(buffer);
    *buffer = (struct buffer){0};
    return true;
}

/* Reads `most` bytes of the file, or all of it, if that is not more than the limit. If the file
 * shrinks meanwhile, the buffer gets fewer bytes. */
static bool read_file(struct buffer *buffer, const char *path, uint64_t most, uint64_t limit,
                      struct error *error)
{
    struct stat status;
    ssize_t have = 1;
    int fd;
    bool done = open_regular(path, &fd, &status, error);
    size_t size = done && most == SIZE_MAX ? (size_t)status.st_size : (size_t)most;

    buffer->size = 0;
    done = done && memory_limit_allows(limit, size, path, "the file", error);
    if (done && !buffer_reserve(buffer, size))
        done = error_out_of_memory(error, path, size);
    while (done && buffer->size < size && have != 0) {
        have = read(fd, buffer->data + buffer->size, size - buffer->size);
        if (have > 0)
            buffer->size += (size_t)have;
        else if (have < 0 && errno != EINTR)
            done = error_set_errno(error, errno, "%s: cannot be read", path);
    }
    if (fd >= 0)
        close(fd);
    return done;
}

bool file_read_into(struct buffer *buffer, const char *path, uint64_t limit, struct error *error)
{
    return read_file(buffer, path, SIZE_MAX, limit, error);
}

bool file_read_front(struct buffer *buffer, const char *path, size_t most, struct error *error)
{
    return read_file(buffer, path, most, UINT64_MAX, error);
}

bool file_read_at(int fd, const char *path, uint64_t offset, void *to, size_t size,
                  struct error *error)
{
    uint8_t *next = to;

    while (size != 0) {
        ssize_t count = pread(fd, next, size, (off_t)offset);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return error_set_errno(error, errno, "%s: cannot be read", path);
        if (count == 0)
            return file_report_change(path, error);
        next += count;
        offset += (uint64_t)count;
        size -= (size_t)count;
    }
    return true;
}

/* Small enough that pages do not pile up, large enough that the calls take no time. */
#define DIGEST_PIECE ((uint64_t)1 << 20)

void input_drop_pages(const struct input *input, struct bytes part)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start, end;
    uint64_t offset = (uintptr_t)part.data - (uintptr_t)input->bytes.data;

    /* What is in the heap cannot be read again. */
    if (input->held.data != NULL || !range_within(offset, part.size, 0, input->bytes.size))
        return;
    start = align_down(offset, page);
    end = offset + part.size;
    if (end != input->bytes.size)
        end = align_down(end, page);
    if (end > start)
        madvise((void *)(uintptr_t)(input->bytes.data + start), (size_t)(end - start),
                MADV_DONTNEED);
}

void input_release_pages(const struct input *input, uint64_t offset, uint64_t size)
{
    struct bytes part;

    if (!bytes_slice(input->bytes, offset, size, &part))
        return;
    if (input->released != NULL)
        input->released(input->released_context, size);
    input_drop_pages(input, part);
}

struct digest input_digest_of(const struct input *input, struct bytes part)
{
    struct digest_stream stream;
    struct bytes piece;

    digest_stream_start(&stream);
    for (uint64_t at = 0; at < part.size; at += piece.size) {
        uint64_t left = part.size - at;

        piece = (struct bytes){part.data + at, left < DIGEST_PIECE ? left : DIGEST_PIECE};
        digest_stream_add(&stream, piece);
        if (input != NULL)
            input_drop_pages(input, piece);
    }
    return digest_stream_finish(&stream);
}

bool input_unchanged(const struct input *input, struct error *error)
{
    struct stat now;

    if (input->held.data != NULL)
        return true;
    if (fstat(input->fd, &now) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", input->path);
    return file_has_same_contents(&input->status, &now) || file_report_change(input->path, error);
}

bool input_hold(const struct input *input, struct error *error)
{
    if (flock(input->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_set(error,
                         "%s: another process is replacing it, or has locked it; run again when "
                         "that has ended",
                         input->path);
    return file_check_untouched(input->path, &input->status, input->path, error);
}

bool file_report_change(const char *path, struct error *error)
{
    return error_set(error, "%s: changed while it was being read; run again", path);
}

bool report_if_truncated(const char *path, struct error *error)
{
    return error->number == EFAULT ? file_report_change(path, error) : false;
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
    if (input->held.data != NULL)
        buffer_free(&input->held);
    else if (input->bytes.data != NULL)
        munmap((void *)(uintptr_t)input->bytes.data, (size_t)input->bytes.size);
    input_close_descriptor(input);
    free(input->path);
    *input = (struct input){.fd = -1};
}

/* ---- paths ---- */

bool path_directory(const char *path, char directory[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : (size_t)(slash == NULL ? 0 : slash - path);

    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(directory, path, length);
    directory[length] = '\0';
    if (slash == NULL)
        memcpy(directory, ".", sizeof("."));
    return true;
}

const char *path_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

bool directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number;

    if (fd < 0)
        return false;
    number = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    /* Where the file system cannot sync a directory, nothing more can be done. */
    if (number == EINVAL || number == ENOSYS || number == EOPNOTSUPP)
        number = 0;
    errno = number;
    return number == 0;
}

bool path_sync_name(const char *path)
{
    char directory[PATH_MAX];

    return path_directory(path, directory) && (directory_sync(directory) || errno == EACCES);
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat status;

    return stat(b, &status) == 0 && file_is(a, &status);
}

bool paths_refer_to_same_file(const char *a, const char *b)
{
    char directory[PATH_MAX], other[PATH_MAX];

    return is_same_file(a, b) ||
           (strcmp(path_file_name(a), path_file_name(b)) == 0 && path_directory(a, directory) &&
            path_directory(b, other) && is_same_file(directory, other));
}

/* ---- directories ---- */

static bool add(struct directory_names *names, const char *name)
{
    char *copy = strdup(name);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(names->items, names->capacity, names->count)) {
        free(copy);
        return false;
    }
    names->items[names->count++] = copy;
    return true;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool directory_names_read(const char *path, bool (*filter)(const char *name),
                          struct directory_names *names, struct error *error)
{
    DIR *stream = opendir(path);
    const struct dirent *entry;
    bool done = true;

    *names = (struct directory_names){0};
    if (stream == NULL)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    /* readdir returns NULL both at the end and on an error; only errno tells which. */
    while (done && (errno = 0, entry = readdir(stream)) != NULL) {
        const char *name = entry->d_name;
        bool is_wanted =
            filter != NULL ? filter(name) : strcmp(name, ".") != 0 && strcmp(name, "..") != 0;

        if (is_wanted && !add(names, name))
            done = error_out_of_memory(error, path, sizeof(entry->d_name));
    }
    if (done && errno != 0)
        done = error_set_errno(error, errno, "%s: cannot be read", path);
    closedir(stream);
    if (names->count != 0)
        qsort(names->items, names->count, sizeof(*names->items), compare);
    return done;
}

void directory_names_free(struct directory_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct directory_names){0};
}

bool directory_make(const char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && path_is_directory(path)))
        return true;
    return error_set_errno(error, errno == EEXIST ? ENOTDIR : errno, "%s: cannot be created", path);
}
