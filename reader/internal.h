/*
 * What the files of the library share: the insides of the public types, and the way from errors as
 * values to errors that a caller owns. Nothing else includes this.
 */
#ifndef COVSPLIT_READER_INTERNAL_H
#define COVSPLIT_READER_INTERNAL_H

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/sidecar.h"

/* The project hides all symbols; those of the public header are what the library is there for. */
#pragma GCC visibility push(default)
#include "reader/covsplit.h"
#pragma GCC visibility pop

/* A section's content, once it was asked for. */
struct loaded_section {
    bool loaded;
    struct buffer content;
};

struct covsplit_sidecar {
    struct sidecar *sidecar;
    struct loaded_section sections[SECTION_KIND_MAX + 1]; /* by kind */
    struct correlation correlation;                       /* loaded at the first use */
};

struct covsplit_profile {
    struct input input; /* read; zeroed where the profile is in the caller's memory */
    struct bytes bytes; /* the whole file */
    char *name;
    uint64_t offset; /* of the current profile */
    struct profile profile;
};

/* Gives the caller a copy, where he wants one. */
void report_error(covsplit_error **out, const struct error *error);

/* For returning from functions that return bool. */
bool check_result(bool result, covsplit_error **out, const struct error *error);

/* The caller's sink behind a sink of ours. */
struct caller_sink {
    covsplit_sink sink;
    void *context;
    const char *name; /* of what is read, for the message when the caller stops */
};

bool pass_to_caller(void *context, struct bytes part, struct error *error);

#endif
