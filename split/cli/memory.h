/*
 * Memory of the command: an allocation that fails ends the process.
 *
 * Nothing is left to do for a command without memory but to say so, so each of these prints the
 * error, removes unfinished outputs as an interruption does (child.h), and exits with
 * STATUS_FAILED. What they return is never NULL. All that a kill must not lose (a claim, a pair of
 * outputs of which one has its name) must not lose by them either, so nothing between two commits
 * that belong together uses them. Neither does the broker of `covsplit run`, which other programs
 * wait for, nor anything below split/: libraries never end a process.
 */
#ifndef COVSPLIT_SPLIT_CLI_MEMORY_H
#define COVSPLIT_SPLIT_CLI_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

/* An array of zeros. Free with free. */
void *command_array(size_t count, size_t item_size);

/* A copy of the text; a formatted text. Free with free. */
char *command_copy(const char *text);
char *command_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Room for one more item, as ARRAY_ROOM_FOR_ONE. */
#define COMMAND_ROOM_FOR_ONE(items, capacity, count)                                               \
    exit_unless_allocated(ARRAY_ROOM_FOR_ONE(items, capacity, count), (count) * sizeof(*(items)))

_Noreturn void command_exit_without_memory(uint64_t size);

/* Ends the process unless memory for `size` bytes was had. For a buffer that is written whole:
 * exit_unless_allocated(!buffer.failed, buffer.size). */
static inline void exit_unless_allocated(_Bool had, uint64_t size)
{
    if (!had)
        command_exit_without_memory(size);
}

/* Ends the process if the error is that of a library that ran out of memory. */
void command_check_memory(const struct error *error);

#endif
