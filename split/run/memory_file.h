/*
 * The file in memory that a conversion makes: written once from beginning to end and then sealed,
 * so that no program can change what others read.
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
    const char *name;        /* the file that is converted: for messages */
    uint64_t size;           /* in bytes, so far */
    uint64_t allowed;        /* writing more than this fails */
    const atomic_bool *stop; /* writing fails once this is true */
};

/* Creates an empty file. `real_name` is the path of the file that is converted, which shows up in
 * the memory maps of processes. The caller closes the descriptor. */
bool memory_file_create(struct memory_file *file, const char *name, const char *real_name,
                        const atomic_bool *stop, struct error *error);

/* Raises the allowed size, which is 0 at first, by `more` bytes, but at most to MEMORY_LIMIT_MOST
 * or to `more`, whichever is larger. */
void memory_file_allow(struct memory_file *file, uint64_t more);

/* A bytes_sink, whose context is the file. */
bool memory_file_write(void *file, struct bytes part, struct error *error);

/* Appends zeros up to that size. */
bool memory_file_pad(struct memory_file *file, uint64_t size, struct error *error);

/* Gives the file the mode of the original, without write permission, and its times, and seals
 * it. */
bool memory_file_seal(const struct memory_file *file, const struct stat *original,
                      struct error *error);

#endif
