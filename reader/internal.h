/*
 * What the files of the library share: the definitions of the public types, and the conversion of
 * internal errors (struct error) into covsplit_errors that the caller owns. Only the library's own
 * files include this header.
 */
#ifndef COVSPLIT_READER_INTERNAL_H
#define COVSPLIT_READER_INTERNAL_H

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/llvm/profile_reader.h"
#include "common/sidecar/correlate.h"
#include "common/sidecar/sidecar.h"
#include "common/store/store.h"

/* The project is built with hidden symbols; those of the public header are exported. */
#pragma GCC visibility push(default)
#include "reader/covsplit.h"
#pragma GCC visibility pop

/* A section's content, kept from the first covsplit_sidecar_content on. */
struct loaded_section {
    bool loaded;
    struct buffer content;
};

struct covsplit_sidecar {
    struct sidecar *sidecar;
    struct loaded_section sections[SECTION_KIND_MAX + 1]; /* by kind */
    struct correlation correlation;                       /* loaded on first use */
};

struct covsplit_profile {
    struct input input; /* owned; all zeros if the profile is in the caller's memory */
    struct profile_reader reader;
    char *name;
    struct profile profile; /* the current one */
};

struct covsplit_store {
    struct store_list list;
};

/* Finds and opens the sidecar of the image that wrote the profile. NULL with an error if there is
 * none. */
struct sidecar *open_for_profile(const covsplit_store *store, const struct profile *profile,
                                 const char *name, struct error *error);

/* Makes the caller's object of an opened sidecar and takes ownership of it. If it is NULL, reports
 * *why. */
covsplit_sidecar *cover_sidecar(struct sidecar *sidecar, const char *name, struct error *why,
                                covsplit_error **error);

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
