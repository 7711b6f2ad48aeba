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

/* The program to run, as a new string: `given` (--llvm-profdata) or else the environment's, as they
 * are; or else the first one in PATH that reads raw profiles of that version: llvm-profdata, then
 * those with a number in their name, the lowest first, as older tools read what those write, but
 * not the other way round. NULL with an error that says what was looked for. */
char *llvm_profdata_find(const char *given, unsigned raw_version, struct error *error);

/* A raw profile in an open file, without a name. */
struct llvm_profdata_input {
    int fd;
    uint64_t weight; /* how many times it counts */
};

/* Merges into the open, empty file `output_fd`; `name` stands for it in messages. Warnings of the
 * program are printed as ours. */
bool llvm_profdata_merge(const char *program, const struct llvm_profdata_input *inputs,
                         size_t input_count, bool sparse, int output_fd, const char *name,
                         struct error *error);

#endif
