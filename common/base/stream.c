/*
 * Streams: see stream.h.
 */
#include "common/base/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory_limit.h"

/* So much is asked for at a time at least: what a pipe holds. */
#define PIECE_SIZE (UINT64_C(64) << 10)

bool stream_is_standard_input(const char *path)
{
    return strcmp(path, STREAM_STANDARD_INPUT) == 0;
}

bool stream_is(const char *path)
{
    struct stat status;

    return stream_is_standard_input(path) || (stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
}

const char *stream_name(const char *path)
{
    return stream_is_standard_input(path) ? "standard input" : path;
}

/* Opens a FIFO, which waits for a writer; if it is another file meanwhile, fails. */
static bool open_stream(const char *path, int *fd, struct error *error)
{
    struct stat status;

    do
        *fd = stream_is_standard_input(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                             : file_open_as_it_is(path, O_RDONLY | O_CLOEXEC);
    while (*fd < 0 && errno == EINTR);
    if (*fd < 0 || fstat(*fd, &status) != 0)
        error_set_errno(error, errno, "%s: cannot be read", stream_name(path));
    else if (S_ISDIR(status.st_mode))
        error_set(error, "%s: is a directory; give a profile", stream_name(path));
    else if (!stream_is_standard_input(path) && !S_ISFIFO(status.st_mode))
        file_report_change(path, error);
    else
        return true;
    if (*fd >= 0)
        close(*fd);
    return false;
}

/* Standard input may have been opened by another program so that reading does not wait. */
static bool wait_for_more(int fd)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, -1) >= 0 || errno == EINTR;
}

/* Reads what there is, at most the buffer's free room. Returns 0 at the end, -1 if it fails. */
static ssize_t read_piece(int fd, struct buffer *buffer)
{
    ssize_t have;

    do
        have = read(fd, buffer->data + buffer->size, buffer->capacity - buffer->size);
    while (have < 0 && (errno == EINTR || (errno == EAGAIN && wait_for_more(fd))));
    if (have > 0)
        buffer->size += (size_t)have;
    return have;
}

static bool read_to_end(int fd, struct buffer *buffer, const char *name, uint64_t limit,
                        stream_check check, void *context, struct error *error)
{
    uint64_t next_check = sizeof(uint64_t);
    ssize_t have;

    do {
        if (!buffer_reserve(buffer, PIECE_SIZE))
            return error_out_of_memory(error, name, buffer->size + PIECE_SIZE);
        have = read_piece(fd, buffer);
        if (have < 0)
            return error_set_errno(error, errno, "%s: cannot be read", name);
        if (!memory_limit_allows(limit, buffer->size, name, "the stream", error))
            return false;
        if (check != NULL && buffer->size >= next_check) {
            if (!check(context, name, buffer_view(buffer), error))
                return false;
            next_check = buffer->size + buffer->size / 4;
        }
    } while (have != 0);
    return true;
}

bool stream_read_into(struct buffer *buffer, const char *path, uint64_t limit, stream_check check,
                      void *context, struct error *error)
{
    bool done;
    int fd;

    buffer->size = 0;
    if (!stream_is(path))
        return file_read_into(buffer, path, limit, error);
    if (!open_stream(path, &fd, error))
        return false;
    done = read_to_end(fd, buffer, stream_name(path), limit, check, context, error);
    close(fd);
    return done;
}

bool stream_read_input(struct input *input, const char *path, uint64_t limit, stream_check check,
                       void *context, struct error *error)
{
    struct buffer content = {0};

    if (!stream_is(path))
        return input_read(input, path, error);
    if (stream_read_into(&content, path, limit, check, context, error) &&
        input_from_buffer(input, &content, stream_name(path), error))
        return true;
    buffer_free(&content);
    return false;
}
