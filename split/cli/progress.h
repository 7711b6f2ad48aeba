/*
 * A progress bar for work that takes long: on a terminal, and nowhere else.
 *
 * Work is counted in bytes. Nothing is drawn for the first half second, and what was drawn is wiped
 * out at the end, so that only messages stay on the screen.
 */
#ifndef COVSPLIT_SPLIT_CLI_PROGRESS_H
#define COVSPLIT_SPLIT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    const char *name; /* of what is worked on */
    bool on_terminal;
    bool drawn;
    uint64_t total;
    uint64_t done;
    uint64_t weight;      /* how much a byte counts in the current phase; 0 counts as 1 */
    struct timespec next; /* when to draw again */
};

/* Starts a bar on stderr. The name must live as long. */
void progress_start(struct progress *progress, const char *name, uint64_t total);

/* So many more bytes are done. The first argument is a struct progress, so that this can be the
 * `released` of an input. */
void progress_add(void *progress, uint64_t size);

/* Wipes the bar out. To be called before anything else is printed; safe to call again. */
void progress_finish(struct progress *progress);

#endif
