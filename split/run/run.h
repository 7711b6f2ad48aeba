/*
 * covsplit run, in parts:
 *
 *     run.c        the command, which starts the program
 *     preload.c    the module in the program and its children; preload_protocol.h is what it says
 *     broker.c     answers it
 *     convert.c    converts files
 *     sidecars.c   finds and keeps the sidecars for that
 */
#ifndef COVSPLIT_SPLIT_RUN_RUN_H
#define COVSPLIT_SPLIT_RUN_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/uuid.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"

/* ---- the broker ---- */

struct broker;

/* Opens the socket. Clients can connect from then on, but wait until the broker is started. The
 * options must outlive it. NULL with an error. */
struct broker *broker_open(const struct parsed_options *options, struct error *error);

/* The value of PRELOAD_ENVIRONMENT for the clients. Valid as long as the broker. */
const char *broker_address(const struct broker *broker);

/* Starts to answer, in threads that inherit the signal mask. Raises this process's limit of
 * descriptors and makes it ignore SIGPIPE, so the command should be started before. */
bool broker_start(struct broker *broker, struct error *error);

/* Ends the threads, even in the middle of a conversion, and frees everything. NULL is allowed. */
void broker_close(struct broker *broker);

/* ---- sidecars (sidecars.c) ---- */

/* The sidecars that all threads use: found by UUID, read once for as long as their files do not
 * change, and kept for later conversions. */
struct run_sidecars {
    struct sidecar_places places;
    pthread_mutex_t lock;    /* protects the members below */
    struct run_sidecar *all; /* most recently used first */
    pthread_cond_t returned; /* some sidecar that was lent */
};

/* Sets up the search from the options, without opening anything, before threads are started. Close
 * it when no thread uses it any more. */
void run_sidecars_open(struct run_sidecars *sidecars, const struct parsed_options *options);
void run_sidecars_close(struct run_sidecars *sidecars);

/* The identity of a file, apart from its name: device, inode, size and times. The UUID is not
 * enough: a build may reuse it for another program. */
struct digest run_sidecars_file_identity(const struct stat *status);

/* Finds the wanted sidecar and checks that it is the right one. Only the caller may use it until
 * run_sidecars_release. NULL with an error if there is none. */
struct profile_sidecar *run_sidecars_find(struct run_sidecars *sidecars,
                                          const struct sidecar_wanted *wanted, struct error *error);
void run_sidecars_release(struct run_sidecars *sidecars, struct profile_sidecar *sidecar);

/* ---- conversions ---- */

enum subject_kind {
    SUBJECT_OTHER, /* nothing to convert */
    SUBJECT_IMAGE, /* a split or packed image, or one with such a slice */
    SUBJECT_SIDECAR,
    SUBJECT_STORE, /* its directory */
    SUBJECT_PROFILE,
};

struct split_slices;

struct conversion {
    /* Set by the caller, and outliving the conversion. */
    int fd;
    const char *name;      /* as the program named it */
    const char *real_name; /* with all links resolved; "" if there is none */
    const struct parsed_options *options;
    struct run_sidecars *sidecars;
    const atomic_bool *stop; /* once it is true, the conversion fails */

    /* Set by conversion_examine. */
    enum subject_kind kind;
    struct stat status;
    struct split_slices *slices; /* of an image; else NULL */
    struct uuid build_id;        /* of an ELF image; size 0: none */
    bool is_raw_profile;         /* of any kind, whether it is converted or not */
    struct buffer content; /* of a sidecar or a profile; of an image, only when it is joined */
    /* For profiles: some belong to an image built with -profile-correlate, and have no data records
     * by design. A program that is also given the image does not want them converted. */
    bool has_no_data_by_design;

    /* Set by conversion_run: the file in memory. */
    int memory;            /* sealed; the caller closes it */
    uint64_t size;         /* in bytes */
    uint64_t allowed;      /* a larger size fails */
    const char *what;      /* "the full raw profile", ...: for messages */
    bool is_partial;       /* some sidecar was not found */
    struct error left_out; /* the warning of what a union lacks; "" if it lacks nothing */
};

/* Installs a signal handler: if a mapped file becomes shorter while it is examined, the file is
 * just not converted; at any other time the process ends, as without the handler. Call it before
 * starting threads. */
void conversion_prepare(void);

/* Finds out what the file is. False with an error if it should be converted, but cannot be read. */
bool conversion_examine(struct conversion *conversion, struct error *error);

/* False, with a text for people, if the file is an indexed profile that tells the UUIDs of its
 * images, and that of this image is none of them. `name` is the profile's in the text. */
bool conversion_check_profile(const struct conversion *conversion, const char *path,
                              const char *name, struct error *text);

/* Computes the identity of a file whose kind is not SUBJECT_OTHER: files with the same identity are
 * converted to the same. Which sidecar is found has no part in it, since only one that fits is
 * used, but in the directory of a store all of them have. False with an error if out of memory. */
bool conversion_identify(const struct conversion *conversion, struct digest *identity,
                         struct error *error);

/* Converts a file whose kind is not SUBJECT_OTHER. */
bool conversion_run(struct conversion *conversion, struct error *error);

/* Frees what was read. */
void conversion_end(struct conversion *conversion);

#endif
