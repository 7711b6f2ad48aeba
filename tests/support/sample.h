/*
 * A small real image, for the suites that need just any image.
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

#endif
