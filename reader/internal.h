/*
 * Common to the two files of the library: the definitions of public types, and the conversion of
 * internal errors (struct error) into covsplit_errors that the caller owns.
 */
#ifndef COVSPLIT_READER_INTERNAL_H
#define COVSPLIT_READER_INTERNAL_H

#include "common/base/error.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/sidecar.h"

/* The project is built with hidden symbols; those of the public header are exported. */
#pragma GCC visibility push(default)
#include "reader/covsplit.h"
#pragma GCC visibility pop

struct covsplit_sidecar {
    struct profile_sidecar opened;    /* what it holds for profiles is loaded on first use */
    covsplit_base_finder base_finder; /* may be NULL */
    void *base_context;
};

/* Makes the caller's object of an opened sidecar and takes ownership of it. If it is NULL, reports
 * *why. */
covsplit_sidecar *cover_sidecar(struct sidecar *sidecar, const char *name, struct error *why,
                                covsplit_error **error);

/* An object of zeros; NULL with an error if out of memory. `name` is for the message. */
void *new_object(size_t size, const char *name, covsplit_error **error);

/* Gives the caller a copy of the error, unless `out` is NULL. */
void report_error(covsplit_error **out, const struct error *error);

/* Reports the error if `result` is false, and returns `result`. */
bool check_result(bool result, covsplit_error **out, const struct error *error);

/* The context of pass_to_caller, a bytes_sink that calls the caller's sink. */
struct caller_sink {
    covsplit_sink sink;
    void *context;
    const char *name; /* what is being read, for the message if the caller's sink stops */
};

bool pass_to_caller(void *context, struct bytes part, struct error *error);

#endif
