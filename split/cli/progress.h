/*
 * A progress bar for long work, shown only on a terminal.
 *
 * Work is counted in bytes. Nothing is drawn for the first half second, and the bar is erased at
 * the end, so that only messages stay on the screen.
 */
#ifndef COVSPLIT_SPLIT_CLI_PROGRESS_H
#define COVSPLIT_SPLIT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    const char *name; /* the name of what is being processed */
    bool on_terminal;
    bool drawn;
    uint64_t total;
    uint64_t done;
    uint64_t weight;      /* the cost of a byte in the current phase; 0 means 1 */
    struct timespec next; /* when to draw again */
};

/* Starts a bar on stderr. The name must outlive it. */
void progress_start(struct progress *progress, const char *name, uint64_t total);

/* Reports that `size` more bytes are done. The first argument is a struct progress, so that this
 * can be the `released` of an input. */
void progress_add(void *progress, uint64_t size);

/* Erases the bar. Call it before printing anything else; it may be called again. */
void progress_finish(struct progress *progress);

#endif
