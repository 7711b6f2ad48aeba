/*
 * One small real image, for the suites that need any image and not a certain one.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_SAMPLE_H
#define COVSPLIT_TESTS_SUPPORT_SAMPLE_H

#include "tests/support/program.h"

struct sample {
    char *scratch; /* a directory for the tests to use */
    char *image;   /* a PIE by clang-19 and GNU ld, in a directory of its own inside */
    char *stripped;
    char *sidecar; /* of `stripped` */
};

/* Builds the image, with so many functions in each generated source. */
struct sample sample_create(const char *label, unsigned functions);
/* The same for another machine, by lld with its smallest pages. */
struct sample sample_create_for(const struct target *target, const char *label, unsigned functions);
/* Splits it: `stripped` and `sidecar` are there after this. */
void sample_split(struct sample *sample);

/* A new directory inside, for one test. */
char *sample_directory(const struct sample *sample);

/* A copy of the image as `name` in a directory. */
char *sample_copy(const struct sample *sample, const char *directory, const char *name);

#endif
