/*
 * Opens what a process left: a core, plain or compressed, in a file or from a pipe.
 *
 * A plain file is read in place. Anything else can only be read from front to back, and is copied
 * first (spool.h), as far as it is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/stream.h"
#include "common/codec/zstd.h"
#include "split/snapshot/memory.h"
#include "split/snapshot/spool.h"

#define FRONT_SIZE 16

static int open_path(const char *path, struct error *error)
{
    int fd = stream_is_standard_input(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                            : file_open_as_it_is(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        error_set_errno(error, errno, "%s: cannot be opened", stream_name(path));
    return fd;
}

/* The first bytes of a regular file; none of anything else. */
static bool read_front(int fd, const char *path, uint8_t buffer[FRONT_SIZE], struct bytes *front,
                       bool *is_regular, struct error *error)
{
    struct stat status;
    ssize_t size = 0;

    if (fstat(fd, &status) != 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    *is_regular = S_ISREG(status.st_mode);
    if (S_ISDIR(status.st_mode))
        return error_set(error, "%s: is a directory; give a core", path);
    if (*is_regular)
        size = pread(fd, buffer, FRONT_SIZE, 0);
    if (size < 0)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    *front = (struct bytes){buffer, (uint64_t)size};
    return true;
}

/* Replaces the descriptor by that of a copy. */
static bool copy(int *fd, const char *path, uint8_t buffer[FRONT_SIZE], struct bytes *front,
                 struct error *error)
{
    int copied = spool_copy(*fd, path, error);
    bool is_regular;

    if (copied < 0)
        return false;
    close(*fd);
    *fd = copied;
    return read_front(*fd, path, buffer, front, &is_regular, error);
}

struct memory *dump_open(const char *path, struct error *error)
{
    const char *name = stream_name(path);
    uint8_t buffer[FRONT_SIZE];
    struct bytes front;
    bool is_regular;
    int fd = open_path(path, error);

    if (fd < 0)
        return NULL;
    if (!read_front(fd, name, buffer, &front, &is_regular, error) ||
        !spool_check_format(front, name, error) ||
        ((!is_regular || codec_file_recognize(front)) && !copy(&fd, name, buffer, &front, error))) {
        close(fd);
        return NULL;
    }
    return core_open(fd, name, error);
}
