/*
 * Outputs that `covsplit link` leaves alone: those which configure scripts and the like link only
 * to see whether it works, and whatever else the user excludes.
 *
 * Patterns are those of fnmatch, with a * that also matches slashes. A pattern is compared with the
 * output's absolute path, and with every part of that path which follows a slash: "conftest"
 * matches that file in any directory, and "trials/?*" everything in or below directories of that
 * name.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_LINK_EXCLUDE_H
#define COVSPLIT_SPLIT_SPLIT_LINK_EXCLUDE_H

#include "split/cli/options.h"
#include "split/split/link_command.h"

/* Finds the pattern that excludes the command's output; *pattern is NULL if none does. */
bool link_exclude_find(const struct parsed_options *options, const struct link_command *command,
                       const char **pattern, struct error *error);

/* The same for a file that the command names. */
bool link_exclude_find_file(const struct parsed_options *options, const char *path,
                            const char **pattern, struct error *error);

#endif
