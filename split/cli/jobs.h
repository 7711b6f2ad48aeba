/*
 * Work on many files, each by itself, on several threads.
 *
 * What is said of a file comes after what is said of those before it, so that what a command prints
 * does not depend on the number of threads. If one fails, the others are done all the same.
 */
#ifndef COVSPLIT_SPLIT_CLI_JOBS_H
#define COVSPLIT_SPLIT_CLI_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* The first member of what a command has for each file. */
struct job {
    char *path;
    uint64_t size;       /* how much work it is, for the progress bar */
    struct error *error; /* NULL: it did not fail */
};

/* Initialize the first members; free with jobs_free. */
struct jobs {
    const char *name; /* of all files, for the progress bar */
    size_t item_size;
    /* Does a job; called by several threads at the same time. */
    bool (*work)(void *context, void *item, struct error *error);
    /* Says what there is to say beside the error, before that is printed. */
    void (*tell)(void *context, void *item);
    void *context;

    void *items; /* zeros after their struct job, until the command fills them in */
    size_t count, capacity;
    size_t failed; /* how many did */
};

/* Adds a job for a copy of the path. What it returns is valid until the next one is added. */
void *jobs_add(struct jobs *jobs, const char *path, uint64_t size);
void *jobs_at(const struct jobs *jobs, size_t index);

void jobs_run(struct jobs *jobs, unsigned threads);
void jobs_free(struct jobs *jobs);

#endif
