/*
 * What the linker says of who refers to names and data.
 *
 * GNU ld, gold, lld and mold name with --trace-symbol=SYMBOL each object that refers to a symbol.
 * If only the runtime's object refers to the bounds of names and data, no number in the image can
 * be a distance of them; if another one does, they stay. This costs the link nothing that can be
 * measured, whereas --emit-relocs would change the image.
 *
 * The lines that this adds to the command's output are taken out of it, so the output passes
 * through here. On a terminal it must not, because compilers ask what it is, and then the linker is
 * not asked; nor where the command is not known to take the option.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_LINK_TRACE_H
#define COVSPLIT_SPLIT_SPLIT_LINK_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "formats/image.h"
#include "split/split/link_command.h"

#define TRACE_SYMBOLS 4
#define TRACE_LINE    8192
#define TRACE_STREAMS 2

/* Standard output or error of the command. */
struct trace_stream {
    int to;       /* where it goes; -1: nowhere */
    int from;     /* the end of a pipe; -1: closed */
    bool is_long; /* the front of this line has been passed on */
    size_t size;
    char line[TRACE_LINE];
};

struct link_trace {
    char **command; /* the words with those that ask; NULL: the linker is not asked */
    char *words[TRACE_SYMBOLS];
    struct trace_stream streams[TRACE_STREAMS];
    bool is_one; /* both streams are the first */
    bool is_read;
    pthread_t reader;
    bool is_seen[TRACE_SYMBOLS];  /* the runtime's own reference: so it works */
    char *objects[TRACE_SYMBOLS]; /* another one that refers to it */
};

/* Adds to the command what asks the linker, if it can be asked. Free with link_trace_free. */
void link_trace_open(struct link_trace *trace, const struct link_command *command,
                     const char *const *words, size_t count);

/* To be called right before trace->command is started, right after, and when it has ended. If the
 * first is false, the command must be started as it was given. */
bool link_trace_start(struct link_trace *trace);
void link_trace_started(struct link_trace *trace);
void link_trace_end(struct link_trace *trace);

/* What is known: of names or data. */
struct section_users link_trace_users(const struct link_trace *trace, enum section_kind kind);

void link_trace_free(struct link_trace *trace);

#endif
