/*
 * Who else calls the functions of the profile runtime that lead to names and records.
 *
 * They are hidden, but a program is linked with them, and some walk their own records: LLVM's tests
 * do, and profile values by hand. Such a program must keep what it looks at, and nothing but its
 * calls tells, as the functions are in every image. The runtime calls them too; so a caller is
 * judged by the name of the function that it is in.
 */
#ifndef COVSPLIT_FORMATS_RUNTIME_CALLERS_H
#define COVSPLIT_FORMATS_RUNTIME_CALLERS_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/runtime/rules.h"

/* The runtime itself has some twenty calls. */
#define RUNTIME_CALLERS_MAX 256

/* Where names go and records stay, the NameRef of the first one changes (tripwire.h): if somebody
 * refers to that, names stay, for this reason (printf's format, with the place). */
#define RUNTIME_NAME_REFERENCE_SIZE 8
#define RUNTIME_FIRST_RECORD_IS_WATCHED                                                            \
    "the program looks at its own records: 0x%" PRIx64 " refers to the first one"

struct runtime_caller {
    uint64_t from;
    uint64_t function; /* the last one to start at or before that, of those that were told */
    bool has_function;
    bool is_own; /* it is a function of the runtime */
};

struct runtime_callers {
    struct runtime_caller list[RUNTIME_CALLERS_MAX];
    size_t count;
};

/* The functions that are watched. */
struct reference_target runtime_watched_functions(const struct runtime_image *image);

/* Tells that a function starts at the address. `name` may go on behind the name, which ends at a
 * NUL or a space. */
void runtime_callers_tell(struct runtime_callers *callers, uint64_t address, struct bytes name);

/* Whether code that is no part of the runtime refers to a function that is watched: *from is where.
 * `tell` calls runtime_callers_tell for all functions of the image, in any order. */
bool runtime_find_foreign_caller(const struct runtime_image *image,
                                 void (*tell)(const void *format, struct runtime_callers *callers),
                                 uint64_t *from);

/* Names and records stay, since there is a foreign reference at `from`. */
void runtime_keep_watched(const struct runtime_image *image, uint64_t from);

#endif
