/*
 * Lists of UUIDs that `store gc` keeps.
 *
 * A text file with one UUID a line: hexadecimal digits of either case, '-' between bytes allowed,
 * whole or only the first KEEP_PREFIX_MIN bytes or more of it. Blanks around it, empty lines, and
 * what follows a '#' are ignored.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_KEEP_LIST_H
#define COVSPLIT_SPLIT_SIDECARS_KEEP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/uuid.h"

/* Fewer bytes are a whole UUID: with so few, a prefix would keep what nobody meant. */
#define KEEP_PREFIX_MIN 4

struct keep_entry {
    struct uuid uuid;
    bool is_used; /* keep_list_has has met a UUID of it */
};

/* Freed with keep_list_free. */
struct keep_list {
    struct keep_entry *entries; /* in the order of their bytes, each once */
    size_t count;
    size_t capacity;
};

/* Reads the file at `path`; "-" is standard input. A line that is not a UUID is an error, and so is
 * a list without any: what made it has failed. Then there is nothing to free. */
bool keep_list_read(struct keep_list *list, const char *path, struct error *error);

/* The same from a stream, which stays open; `name` is for messages. */
bool keep_list_read_stream(struct keep_list *list, FILE *stream, const char *name,
                           struct error *error);

/* Whether the list has the UUID, or the beginning of it. Marks all entries that fit as used. */
bool keep_list_has(struct keep_list *list, const struct uuid *uuid);

void keep_list_free(struct keep_list *list);

#endif
