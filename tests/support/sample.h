/*
 * A small real image, for the suites that need just any image, and files made from it.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SAMPLE_H
#define COVSPLIT_TESTS_SUPPORT_SAMPLE_H

#include "tests/support/program.h"

struct sample {
    char *scratch; /* a directory for the tests to use */
    char *image;   /* a PIE made by clang-19 and GNU ld, in a directory of its own */
    char *stripped;
    char *sidecar; /* the sidecar of `stripped` */
};

/* Builds the image, with `functions` functions in each generated source. */
struct sample sample_create(const char *label, unsigned functions);
/* The same for another machine, made by lld with that machine's smallest page size. */
struct sample sample_create_for(const struct target *target, const char *label, unsigned functions);
/* Splits the image, which makes `stripped` and `sidecar`. */
void sample_split(struct sample *sample);

/* A new directory in `scratch`, for one test. */
char *sample_directory(const struct sample *sample);

/* Copies the image to `name` in a directory. */
char *sample_copy(const struct sample *sample, const char *directory, const char *name);

/* ---- images and files for stores ---- */

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

/* ---- files for `covsplit run` ----
 *
 * An image and a profile in all their forms, and a program that reads files in every way. The
 * expected contents come from other commands: the full profile from `covsplit correlate`, the
 * object from `covsplit export`. */

#define RUN_FILES_FUNCTIONS 30

struct run_files {
    struct sample sample; /* split */
    char *store;          /* with its sidecar */
    char *light;          /* a lightweight profile of it */
    char *full;           /* the same, correlated */
    char *object;         /* exported */
    char *opener;         /* tests/fixtures/opener.c */
};

/* Aborts the Check test if anything fails. */
struct run_files run_files_create(const char *label);

/* Runs and frees the command, and expects the exit code and exactly this text on standard error;
 * NULL: nothing. */
void run_expect(struct command *command, int exit_code, const char *errors);

#endif
