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

#endif
