/*
 * The sidecars that a command works on: those of a store that match one of the PATTERNs on a
 * command line, or those that its operands name.
 *
 * Eight or more hexadecimal digits, with '-' allowed between them, are the beginning of a UUID. Any
 * other pattern matches names of images, with wildcards as in a shell (glob(7)). A sidecar records
 * only the file name of its image, without directories.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SELECTION_H
#define COVSPLIT_SPLIT_SIDECARS_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "split/cli/path_list.h"

/* Initialize to {0}, which selects all sidecars. Points to the patterns. */
struct selection {
    const char *const *patterns;
    size_t count;
    bool *is_used; /* for each pattern: something has matched it */
    bool needs_names;
};

/* Without patterns, all sidecars are selected. False if a pattern is a path, which cannot match.
 * Close with selection_close, even after a failure. */
bool selection_open(struct selection *selection, const char *const *patterns, size_t count,
                    struct error *error);
void selection_close(struct selection *selection);

/* True if the sidecar with that UUID and image name is selected. If the name is unknown (NULL),
 * patterns for names do not match. Marks all matching patterns as used. */
bool selection_has(struct selection *selection, const struct uuid *uuid, const char *image_name);

/* Reports the patterns that matched no sidecar of the store, as errors or as warnings. Returns
 * their number. Not to be called if some sidecar could not be read: it might have matched. */
size_t selection_report_unused(const struct selection *selection, const char *store,
                               bool are_errors);

/* Adds the sidecars that the operands stand for: those of a store; in any other directory, all
 * files named *.covsplit in it and below, ignoring links; for a list (path_list.h), what it names;
 * anything else is a file. An operand that does not exist or cannot be read is reported as an error
 * and counted in *faults, and the rest is added. */
void sidecar_files_add(struct path_list *files, const char *const *operands, size_t count,
                       uint64_t *faults);

/*
 * A keep-list, of what `store gc` keeps, is a text file with one UUID on each line: hexadecimal
 * digits of either case, with '-' allowed between bytes, the whole UUID or at least its first
 * KEEP_PREFIX_MIN bytes. Blanks around it, empty lines, and everything after a '#' are ignored.
 */

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
