/*
 * Outputs that `covsplit link` leaves alone: what configure scripts and the like link only to see
 * whether that works, and whatever else the user excludes.
 *
 * A pattern is one of fnmatch, whose * takes a slash too. It is compared with the output's absolute
 * path, and with each end of that which begins behind a slash: "conftest" is that file in any
 * directory, "trials/?*" all that is in directories of that name, or below.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_LINK_EXCLUDE_H
#define COVSPLIT_SPLIT_SPLIT_LINK_EXCLUDE_H

#include "split/cli/options.h"
#include "split/split/link_command.h"

/* Stores the pattern that excludes the command's output, NULL where none does. */
bool link_exclude_find(const struct parsed_options *options, const struct link_command *command,
                       const char **pattern, struct error *error);

/* The same for any file that the command names. */
bool link_exclude_find_file(const struct parsed_options *options, const char *path,
                            const char **pattern, struct error *error);

#endif
