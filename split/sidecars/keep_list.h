/*
 * Lists of UUIDs that `store gc` keeps.
 *
 * A keep-list is a text file with one UUID on each line: hexadecimal digits of either case, with
 * '-' allowed between bytes, the whole UUID or at least its first KEEP_PREFIX_MIN bytes. Blanks
 * around it, empty lines, and everything after a '#' are ignored.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_KEEP_LIST_H
#define COVSPLIT_SPLIT_SIDECARS_KEEP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/uuid.h"

/* Fewer bytes are taken for a whole UUID: so short a prefix would match unintended UUIDs. */
#define KEEP_PREFIX_MIN 4

struct keep_entry {
    struct uuid uuid;
    bool is_used; /* keep_list_has has found it for some UUID */
};

/* Free with keep_list_free. */
struct keep_list {
    struct keep_entry *entries; /* sorted by bytes, without duplicates */
    size_t count;
    size_t capacity;
};

/* Reads the file at `path`; "-" is standard input. A line that is not a UUID is an error, and so is
 * a list without any UUID: the program that made it must have failed. After an error there is
 * nothing to free. */
bool keep_list_read(struct keep_list *list, const char *path, struct error *error);

/* Reads from a stream, which stays open; `name` is for messages. */
bool keep_list_read_stream(struct keep_list *list, FILE *stream, const char *name,
                           struct error *error);

/* True if the list has the UUID or a prefix of it. Marks all matching entries as used. */
bool keep_list_has(struct keep_list *list, const struct uuid *uuid);

void keep_list_free(struct keep_list *list);

#endif
