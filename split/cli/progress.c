/*
 * The progress bar: see progress.h.
 */
#include "split/cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "common/base/error.h"

#define BAR_WIDTH         30
#define NAME_WIDTH        40
#define FIRST_MILLISECOND 500
#define NEXT_MILLISECOND  100

static struct timespec later(unsigned milliseconds)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_nsec += (long)milliseconds * 1000000;
    now.tv_sec += now.tv_nsec / 1000000000;
    now.tv_nsec %= 1000000000;
    return now;
}

static bool is_past(const struct timespec *moment)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > moment->tv_sec ||
           (now.tv_sec == moment->tv_sec && now.tv_nsec >= moment->tv_nsec);
}

void progress_start(struct progress *progress, const char *name, uint64_t total)
{
    *progress = (struct progress){
        .name = name,
        .on_terminal = isatty(STDERR_FILENO) == 1,
        .total = total,
        .next = later(FIRST_MILLISECOND),
    };
}

static void draw(struct progress *progress)
{
    char bar[BAR_WIDTH + 1], name[NAME_WIDTH + 1];
    uint64_t percent = progress->total == 0 ? 0 : progress->done / (progress->total / 100 + 1);

    if (percent > 99)
        percent = 99;
    for (unsigned i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < percent * BAR_WIDTH / 100 ? '#' : '-';
    bar[BAR_WIDTH] = '\0';
    /* A name could contain bytes that move the cursor. */
    snprintf(name, sizeof(name), "%s", progress->name);
    text_make_printable(name);
    fprintf(stderr, "\r[%s] %2u%% %s", bar, (unsigned)percent, name);
    fflush(stderr);
    progress->drawn = true;
}

void progress_add(void *context, uint64_t size)
{
    struct progress *progress = context;

    progress->done += size * (progress->weight == 0 ? 1 : progress->weight);
    if (progress->on_terminal && is_past(&progress->next)) {
        draw(progress);
        progress->next = later(NEXT_MILLISECOND);
    }
}

void progress_finish(struct progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}
