/*
 * Files that nobody has named as images: found in a directory, or written by a link that may have
 * made anything.
 */
#ifndef COVSPLIT_SPLIT_SPLIT_FOUND_IMAGE_H
#define COVSPLIT_SPLIT_SPLIT_FOUND_IMAGE_H

#include <stdbool.h>

#include "common/base/bytes.h"

/* True for a file that a linker makes to be run or loaded, or that cannot be read: not for object
 * files, archives, sidecars and objects of covsplit. */
bool found_image_is_linked(const char *path);

/* True where not even the names of coverage sections are anywhere in the file, so that there is
 * nothing to take out, whatever covsplit cannot make of the rest. Reads all of it. */
bool found_image_has_no_coverage(struct bytes bytes);

#endif
