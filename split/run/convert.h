/*
 * Converts a file that a program has opened to what the program expects to find in it:
 *
 *   a stripped image       the ELF object of its sidecar, or the original image if the sidecar does
 *                          not have all of the coverage mapping
 *   a packed image         an ELF object with its coverage mapping, as ordinary sections
 *   a universal image      the original one, as far as there are sidecars for its slices
 *   a sidecar              its ELF object
 *   a store's directory    the union of its sidecars
 *   lightweight profiles   full raw profiles
 *   anything else          the file itself
 *
 * The result is a file in memory that nobody can change. The file is not trusted, and is read only
 * through the descriptor that the program opened, so a process that may not read a file gains
 * nothing here.
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
    SUBJECT_IMAGE, /* a split or packed image, or one with such a slice */
    SUBJECT_SIDECAR,
    SUBJECT_STORE, /* its directory */
    SUBJECT_PROFILE,
};

struct split_slices;

/* A file to be converted. Free with subject_free. */
struct subject {
    enum subject_kind kind;
    const char *name;      /* as the program named it; owned by the caller */
    const char *real_name; /* with all links resolved; owned by the caller */
    int fd;                /* owned by the caller */
    struct stat status;
    struct split_slices *slices; /* of an image; else NULL */
    struct buffer content; /* of a sidecar or a profile; of an image, only when it is joined */
    /* For profiles: some belong to an image built with -profile-correlate, and have no data records
     * by design. A program that is also given the image does not want them converted. */
    bool is_for_correlator;
    /* Files with the same identity are converted to the same; valid after subject_identify. */
    struct digest identity;
};

/* Installs a signal handler: if a mapped file becomes shorter while subject_read examines it, the
 * file is just not converted; at any other time the process ends, as without the handler. Call it
 * before starting threads. */
void convert_prepare(void);

/* Finds out what the file is. `fd`, `name` and `real_name` must outlive the subject. False with an
 * error if the file should be converted, but cannot be read. */
bool subject_read(struct subject *subject, int fd, const char *name, const char *real_name,
                  struct error *error);
void subject_free(struct subject *subject);

/* Computes the identity of a subject, whose kind must not be SUBJECT_OTHER, from the file and all
 * files that may be its sidecars. False with an error if out of memory. */
bool subject_identify(struct subject *subject, const struct run_sidecars *sidecars,
                      struct error *error);

/* The result of a conversion. */
struct converted {
    int fd; /* sealed; the caller must close it */
    uint64_t size;
    const char *what; /* "the full raw profile", ...: for messages */
};

/* Converts a subject, whose kind must not be SUBJECT_OTHER. Stops early, with an error, once *stop
 * is true. */
bool convert(struct subject *subject, struct run_sidecars *sidecars, const atomic_bool *stop,
             struct converted *converted, struct error *error);

#endif
