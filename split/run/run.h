/*
 * covsplit run, in parts:
 *
 *     run.c        the command, which starts the program
 *     preload.c    the module in the program and its children; preload_protocol.h is what it says
 *     broker.c     answers it
 *     programs.c   what the programs are
 *     convert.c    converts files
 *     kept.c       keeps what was converted, and the sidecars for that
 */
#ifndef COVSPLIT_SPLIT_RUN_RUN_H
#define COVSPLIT_SPLIT_RUN_RUN_H

#include <limits.h>
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

/* ---- programs ---- */

/* The value of the first option of the program with one of these names, as far as its command line
 * can be read: what follows a '=' or is the next argument. "" if there is none. False if the
 * program has no such option. */
bool program_find_option(pid_t process, const char *const *names, size_t count,
                         char value[PATH_MAX]);

/* True if the program was told to correlate profiles itself: by one of llvm-profdata's options that
 * say where the image is. */
bool program_correlates(pid_t process);

/* The kind of the program: "/usr/bin/llvm-objcopy-19" is an objcopy,
 * "/usr/bin/x86_64-linux-gnu-ld.bfd" an ld. This is the part of the name after the last '-' that no
 * version follows, up to a '.'. For a program that does different things under different names, it
 * is that of the name that it was called by. Valid as long as `program`. */
const char *program_role(pid_t process, char program[PATH_MAX]);

/* True if the program's name says that it links, rewrites, copies or packs files. Such a program
 * must be given the image itself, as it makes images from images; so must covsplit, whose second
 * reader is a library that opens it. */
bool program_must_see_the_file_itself(const char *role);

/* ---- what is kept ---- */

/* The identity of a file, apart from its name: device, inode, size and times. The UUID is not
 * enough: a build may reuse it for another program. */
struct digest kept_identity(const struct stat *status);

/* The sidecars that all threads use: found by UUID, read once for as long as their files do not
 * change, and kept for later conversions. */
struct kept_sidecars {
    struct sidecar_places places;
    pthread_mutex_t lock;     /* protects the members below */
    struct kept_sidecar *all; /* most recently used first */
    pthread_cond_t returned;  /* some sidecar that was lent */
};

/* Sets up the search from the options, without opening anything, before threads are started. Close
 * it when no thread uses it any more. */
void kept_sidecars_open(struct kept_sidecars *sidecars, const struct parsed_options *options);
void kept_sidecars_close(struct kept_sidecars *sidecars);

/* Finds the wanted sidecar and checks that it is the right one. Only the caller may use it until
 * kept_sidecars_release. NULL with an error if there is none. */
struct profile_sidecar *kept_sidecars_find(struct kept_sidecars *sidecars,
                                           const struct sidecar_wanted *wanted,
                                           struct error *error);
void kept_sidecars_release(struct kept_sidecars *sidecars, struct profile_sidecar *sidecar);

/* Converted files, which are in memory. */
struct kept_files {
    size_t room;              /* the most descriptors of them; set after opening */
    pthread_mutex_t lock;     /* protects the members below */
    struct kept_file *first;  /* the most recently used one */
    pthread_cond_t has_ended; /* some conversion */
};

struct conversion;

void kept_files_open(struct kept_files *files);
void kept_files_close(struct kept_files *files);

/* Looks a conversion up, after waiting for another thread that is at it. *fd is the converted file,
 * or -1 with errno. Returns true if there is none: the caller must convert the file and call
 * kept_files_add. */
bool kept_files_find(struct kept_files *files, const struct digest *identity, int *fd);

/* Ends an own conversion, with its result if there is one. Returns a descriptor of the file like
 * that of kept_files_find, or -1 with errno. */
int kept_files_add(struct kept_files *files, const struct digest *identity,
                   const struct conversion *result);

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
    struct kept_sidecars *sidecars;
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
