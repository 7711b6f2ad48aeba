/*
 * Paths of source files, as covmap_path makes them: '/' between their parts, and no "." or "..".
 * Such a path is absolute, relative to a place that is not known, or begins with a drive.
 */
#ifndef COVSPLIT_SPLIT_CLI_SOURCE_PATHS_H
#define COVSPLIT_SPLIT_CLI_SOURCE_PATHS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "split/cli/options.h"

/* A directory does not end with '/', so that the root is ""; relative paths are below ".". */

/* The directory that a text means, as a copy in the arena, whose `failed` says if there was no
 * memory. */
struct bytes source_directory(struct bytes text, struct arena *arena);

/* True if the path is the directory or below it; *rest is then the part below it, or "". */
bool source_is_below(struct bytes path, struct bytes directory, struct bytes *rest);

/* ---- --path-map ---- */

/* Source files below `from` are below `to` here. */
struct path_map {
    struct bytes from, to;
    bool is_used; /* a path was below `from` */
};

struct path_maps {
    struct path_map *items;
    size_t count;
    struct arena memory; /* of the texts */
    struct buffer path;  /* the one that was changed last */
};

/* Reads the option. Free with path_maps_free, even after a failure. Returns an enum exit_status,
 * after printing what is wrong. */
int path_maps_read(struct path_maps *maps, const struct parsed_options *options);
void path_maps_free(struct path_maps *maps);

/* Sets *name to what the first map that fits makes of the path, valid until the next call; or to
 * the path itself. It takes a struct path_maps, so that it can be the `rename` of a covmap_renamer.
 * False if out of memory. */
bool path_maps_apply(void *maps, struct bytes path, struct bytes *name);

/* Warns of maps that no path fitted. */
void path_maps_warn(const struct path_maps *maps);

#endif
