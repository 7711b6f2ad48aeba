/*
 * Which sidecars of a store are meant: those that fit one of the PATTERNs on a command line.
 *
 * Eight or more hexadecimal digits, '-' between them allowed, are the beginning of a UUID. Any
 * other pattern is a name of an image, or stands for some as file names do in a shell (glob(7)).
 * A sidecar records the name of its image without the directory, so that is what must fit.
 */
#ifndef COVSPLIT_SPLIT_SIDECARS_SELECTION_H
#define COVSPLIT_SPLIT_SIDECARS_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "common/base/uuid.h"

/* Starts as {0}, which is all sidecars. Views the patterns. */
struct selection {
    const char *const *patterns;
    size_t count;
    bool *is_used; /* of each pattern: something has fitted it */
    bool needs_names;
};

/* The patterns may be none: then all is meant. False where one is a path, which nothing would fit.
 * Closed with selection_close, also then. */
bool selection_open(struct selection *selection, const char *const *patterns, size_t count,
                    struct error *error);
void selection_close(struct selection *selection);

/* Whether the sidecar of that UUID is meant, with the name of its image: NULL where that is not
 * known; then patterns that are names do not fit. Marks all patterns that fit as used. */
bool selection_has(struct selection *selection, const struct uuid *uuid, const char *image_name);

/* Says of each pattern that no sidecar of the store has fitted it, as errors or else as warnings.
 * How many there are. Not to be called after a sidecar could not be read, which might have fitted.
 */
size_t selection_report_unused(const struct selection *selection, const char *store,
                               bool are_errors);

#endif
