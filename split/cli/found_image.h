/*
 * Files that the user did not name as images: they were found in a directory, or written by a link
 * command, which may have made any kind of file.
 */
#ifndef COVSPLIT_SPLIT_CLI_FOUND_IMAGE_H
#define COVSPLIT_SPLIT_CLI_FOUND_IMAGE_H

#include <stdbool.h>

#include "common/base/bytes.h"

/* True for a file that linkers make to be run or loaded, and for one that cannot be read. False for
 * object files, archives, and covsplit's sidecars and objects. */
bool found_image_is_linked(const char *path);

/* True if the names of coverage sections occur nowhere in the file, so that there is nothing to
 * take out even if covsplit does not understand the file. Reads the whole file. */
bool found_image_has_no_coverage(struct bytes bytes);

#endif
