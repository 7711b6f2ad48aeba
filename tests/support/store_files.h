/*
 * Images and files for the tests of stores.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_STORE_FILES_H
#define COVSPLIT_TESTS_SUPPORT_STORE_FILES_H

#include "tests/support/sample.h"
#include "tests/support/text.h"

/* An image with a build ID and contents of its own, made of a real one: the build ID's 20 bytes and
 * some of the section .comment are written over. */
struct variant {
    char *path;
    char *uuid; /* hexadecimal digits */
};

/* Writes directory/name. Another `uuid` gives another build ID, another `content` other bytes under
 * the same one. */
struct variant variant_create(const char *image, const char *directory, const char *name,
                              unsigned uuid, unsigned content);

/* STORE/.build-id/ab/cdef....covsplit */
char *store_entry(const char *store, const char *uuid);

/* All files in the directory and below, as sorted paths inside it, directories too with a '/' at
 * the end. */
struct text_list tree_list(const char *directory);

/* Sets the modification time to so many hours ago. */
void file_set_age(const char *path, unsigned hours);

#endif
