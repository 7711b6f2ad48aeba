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

#include "common/base/memory_limit.h"

static bool failed(const struct memory_file *file, struct error *error)
{
    return error_set_errno(error, errno, "%s: cannot be converted in memory", file->name);
}

bool memory_file_create(struct memory_file *file, const char *name, const char *real_name,
                        const atomic_bool *stop, struct error *error)
{
    const char *slash = strrchr(real_name, '/');
    char label[128];

    snprintf(label, sizeof(label), "covsplit:%.100s", slash == NULL ? "" : slash + 1);
    *file = (struct memory_file){
        .fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING), .name = name, .stop = stop};
    return file->fd >= 0 || failed(file, error);
}

void memory_file_allow(struct memory_file *file, uint64_t more)
{
    uint64_t most = more > MEMORY_LIMIT_MOST ? more : MEMORY_LIMIT_MOST, sum;

    if (!add_fits(file->allowed, more, &sum) || sum > most)
        sum = most;
    /* The present size was allowed before. */
    if (sum > file->allowed)
        file->allowed = sum;
}

bool memory_file_write(void *context, struct bytes part, struct error *error)
{
    struct memory_file *file = context;

    if (part.size > file->allowed - file->size)
        return error_set(error,
                         "%s: its conversion takes more memory than the limit of %" PRIu64
                         " bytes; raise it (--memory-limit) if the file is to be trusted",
                         file->name, file->allowed);
    while (part.size != 0 && !atomic_load_explicit(file->stop, memory_order_relaxed)) {
        ssize_t written = write(file->fd, part.data, (size_t)part.size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return failed(file, error);
        part.data += written;
        part.size -= (uint64_t)written;
        file->size += (uint64_t)written;
    }
    return part.size == 0 ||
           error_set(error, "%s: its conversion was stopped; run again", file->name);
}

bool memory_file_pad(struct memory_file *file, uint64_t size, struct error *error)
{
    static const uint8_t zeros[4096];

    while (file->size < size) {
        uint64_t left = size - file->size;

        if (!memory_file_write(
                file, (struct bytes){zeros, left < sizeof(zeros) ? left : sizeof(zeros)}, error))
            return false;
    }
    return true;
}

bool memory_file_seal(const struct memory_file *file, const struct stat *original,
                      struct error *error)
{
    const struct timespec times[] = {original->st_atim, original->st_mtim};

    return (fchmod(file->fd, (original->st_mode & 0555) | S_IRUSR) == 0 &&
            futimens(file->fd, times) == 0 &&
            fcntl(file->fd, F_ADD_SEALS,
                  F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) ||
           failed(file, error);
}
