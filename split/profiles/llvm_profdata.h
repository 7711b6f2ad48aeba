/*
 * Running llvm-profdata, which knows how to write indexed profiles.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_LLVM_PROFDATA_H
#define COVSPLIT_SPLIT_PROFILES_LLVM_PROFDATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define LLVM_PROFDATA_ENVIRONMENT "LLVM_PROFDATA"

/* The program to run, as a new string: `given` (--llvm-profdata), or else the one that the
 * environment names, both unchecked; or else the first one in PATH that reads raw profiles of that
 * version. llvm-profdata is tried first, then those with a version in their name, lowest version
 * first, since newer tools read the output of older ones but not the other way round. NULL with an
 * error that says what was looked for. */
char *llvm_profdata_find(const char *given, unsigned raw_version, struct error *error);

/* A raw profile in an open, unnamed file. */
struct llvm_profdata_input {
    int fd;
    const char *name; /* in messages */
    uint64_t weight;  /* its counters are multiplied by this */
};

/* What is merged, and into what. */
struct llvm_profdata_job {
    const struct llvm_profdata_input *inputs;
    size_t input_count;
    bool sparse;
    bool goes_on;     /* leave out profiles that it finds bad, with a warning */
    int output_fd;    /* of an open, empty file */
    const char *name; /* of the output, in messages */
};

/* Runs the program. What it says of a file names that file; its warnings are printed as covsplit's
 * own. */
bool llvm_profdata_merge(const char *program, const struct llvm_profdata_job *job,
                         struct error *error);

#endif
