/*
 * Images and files for the tests of stores.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_STORE_FILES_H
#define COVSPLIT_TESTS_SUPPORT_STORE_FILES_H

#include "tests/support/sample.h"
#include "tests/support/text.h"

/* An image with its own build ID and contents, made from a real one: the build ID's 20 bytes and
 * part of the section .comment are overwritten. */
struct variant {
    char *path;
    char *uuid; /* hexadecimal digits */
};

/* Writes directory/name. A different `uuid` gives a different build ID, and a different `content`
 * different bytes under the same build ID. */
struct variant variant_create(const char *image, const char *directory, const char *name,
                              unsigned uuid, unsigned content);

/* STORE/.build-id/ab/cdef....covsplit */
char *store_entry(const char *store, const char *uuid);

/* All files and directories in and below the directory, as sorted relative paths, directories with
 * a '/' at the end. */
struct text_list tree_list(const char *directory);

/* Makes the state `left` in the directory: what `from` is, with a batch of these profiles that a
 * process has committed which was killed then. The sidecars are in `store`. */
void state_leave_batch(const char *directory, const char *from, const char *profiles);

/* Sets the modification time to `hours` hours ago. */
void file_set_age(const char *path, unsigned hours);

#endif
