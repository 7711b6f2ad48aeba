/*
 * From a file that a program has opened to what the program expects to find in it:
 *
 *   a stripped image       the ELF object of its sidecar, or where that does not have all of the
 *                          coverage mapping, the original image
 *   a universal image      the original one, as far as there are sidecars of its slices
 *   a sidecar              its ELF object
 *   lightweight profiles   full raw profiles
 *   anything else          the file itself
 *
 * The result is a file in memory that nobody can change. Nothing is trusted of the file, and
 * nothing but its descriptor is used to read it: who may not read it gains nothing here.
 */
#ifndef COVSPLIT_SPLIT_RUN_CONVERT_H
#define COVSPLIT_SPLIT_RUN_CONVERT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "formats/image.h"
#include "split/run/sidecars.h"

enum subject_kind {
    SUBJECT_OTHER, /* nothing to convert */
    SUBJECT_IMAGE, /* one that was split, or has a slice that was */
    SUBJECT_SIDECAR,
    SUBJECT_PROFILE,
};

struct split_slices;

/* A file, as far as it matters here. Freed with subject_free. */
struct subject {
    enum subject_kind kind;
    const char *name;      /* as the program called it; the caller's */
    const char *real_name; /* behind all links; the caller's */
    int fd;                /* the caller's */
    struct stat status;
    struct split_slices *slices; /* of an image; NULL for anything else */
    struct buffer content;       /* of a sidecar or a profile; of an image, once it is joined */
    /* Of profiles: some are of an image built with -profile-correlate, whose profiles have no data
     * records by design. A program that is given the image too does not want them full. */
    bool is_for_correlator;
    /* Where it is the same, so is what the file is converted to; known once subject_identify was
     * called. */
    struct digest identity;
};

/* From here on a mapped file that becomes shorter while subject_read looks at it is no more than a
 * file that cannot be converted; anywhere else it ends the process, as before. To be called before
 * there are threads. */
void convert_prepare(void);

/* Finds out what the file is. `fd`, `name` and `real_name` must outlive the subject. False with an
 * error where the file is one to convert, but cannot be read. */
bool subject_read(struct subject *subject, int fd, const char *name, const char *real_name,
                  struct error *error);
void subject_free(struct subject *subject);

/* Finds out the identity of a subject of another kind than SUBJECT_OTHER: of the file, and of all
 * files that may be its sidecars. False with an error where there is no memory. */
bool subject_identify(struct subject *subject, const struct run_sidecars *sidecars,
                      struct error *error);

/* What was made of a subject. */
struct converted {
    int fd; /* sealed; the caller's to close */
    uint64_t size;
    const char *what; /* "the full raw profile", ...: for messages */
};

/* Converts a subject of another kind than SUBJECT_OTHER. Stops early, with an error, once *stop is
 * true. */
bool convert(struct subject *subject, struct run_sidecars *sidecars, const atomic_bool *stop,
             struct converted *converted, struct error *error);

#endif
