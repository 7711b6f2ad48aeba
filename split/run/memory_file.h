/*
 * The file in memory that a conversion makes: written once from front to back, and then sealed, so
 * that nobody can change what other programs are given too.
 */
#ifndef COVSPLIT_SPLIT_RUN_MEMORY_FILE_H
#define COVSPLIT_SPLIT_RUN_MEMORY_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

struct memory_file {
    int fd;
    const char *name;        /* of what is converted: for messages */
    uint64_t size;           /* in bytes, so far */
    uint64_t allowed;        /* writing beyond fails */
    const atomic_bool *stop; /* writing fails once it is true */
};

/* Creates an empty one. `real_name` is the path of what is converted, for those who list the maps
 * of a process. To be closed by its fd. */
bool memory_file_create(struct memory_file *file, const char *name, const char *real_name,
                        const atomic_bool *stop, struct error *error);

/* Allows so many bytes more (at first there may be none), but not more than MEMORY_LIMIT_MOST or
 * that many in all. */
void memory_file_allow(struct memory_file *file, uint64_t more);

/* A bytes_sink, for which the file is the context. */
bool memory_file_write(void *file, struct bytes part, struct error *error);

/* Appends zeros up to that size. */
bool memory_file_pad(struct memory_file *file, uint64_t size, struct error *error);

/* Gives it the mode, without what allows writing, and the times of the original, and seals
 * it. */
bool memory_file_seal(const struct memory_file *file, const struct stat *original,
                      struct error *error);

#endif
