/*
 * Files in memory: see memory_file.h.
 */
#include "split/run/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/memory_limit.h"
#include "split/cli/message.h"

bool memory_file_create(struct memory_file *file, const char *real_name, const atomic_bool *stop)
{
    const char *slash = strrchr(real_name, '/');
    char name[128];

    snprintf(name, sizeof(name), "covsplit:%.100s", slash == NULL ? "" : slash + 1);
    *file = (struct memory_file){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING),
                                 .stop = stop};
    return file->fd >= 0;
}

void memory_file_allow(struct memory_file *file, uint64_t more)
{
    uint64_t most = more > MEMORY_LIMIT_MOST ? more : MEMORY_LIMIT_MOST, sum;

    if (!add_fits(file->allowed, more, &sum) || sum > most)
        sum = most;
    /* What is there already was allowed. */
    if (sum > file->allowed)
        file->allowed = sum;
}

bool memory_file_write(void *context, const void *data, size_t size)
{
    struct memory_file *file = context;
    const uint8_t *rest = data;

    if (size > file->allowed - file->size) {
        file->is_over_limit = true;
        return false;
    }
    while (size != 0 && !atomic_load_explicit(file->stop, memory_order_relaxed)) {
        ssize_t written = write(file->fd, rest, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            file->number = errno;
            return false;
        }
        rest += written;
        size -= (size_t)written;
        file->size += (uint64_t)written;
    }
    return size == 0;
}

bool memory_file_pad(struct memory_file *file, uint64_t size)
{
    static const uint8_t zeros[4096];

    while (file->size < size) {
        uint64_t left = size - file->size;

        if (!memory_file_write(file, zeros, left < sizeof(zeros) ? (size_t)left : sizeof(zeros)))
            return false;
    }
    return true;
}

bool memory_file_failed(const struct memory_file *file, const char *name,
                        covsplit_error *reader_error, struct error *error)
{
    if (reader_error != NULL)
        error_from_reader(error, reader_error);
    else
        error_set(error, "%s: its conversion was stopped; run again", name);
    if (file->is_over_limit)
        error_set(error,
                  "%s: its conversion takes more memory than the limit of %" PRIu64
                  " bytes; raise it (--memory-limit) if the file is to be trusted",
                  name, file->allowed);
    if (file->number != 0)
        error_set_errno(error, file->number, "%s: cannot be converted in memory", name);
    return false;
}

bool memory_file_seal(const struct memory_file *file, const struct stat *original)
{
    const struct timespec times[] = {original->st_atim, original->st_mtim};

    return fchmod(file->fd, (original->st_mode & 0555) | S_IRUSR) == 0 &&
           futimens(file->fd, times) == 0 &&
           fcntl(file->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ==
               0;
}
