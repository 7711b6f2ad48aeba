/*
 * Unions: one file that llvm-cov reads in place of any number of images.
 *
 * The images of one project have much in common: each has the mapping of the libraries that they
 * share. llvm-cov reads all of it, and keeps the first of equal records. A union has each of them
 * once.
 *
 * It is an archive of exports (exported.h), one for each sidecar, in the order in which they were
 * added. Such a member has the image's class, byte order, machine and build ID, and of the coverage
 *
 *   __llvm_covfun   those records that llvm-cov would load from it, see union.c
 *   __llvm_covmap   the filenames that these refer to
 *   __llvm_prf_names or __llvm_covnames   the names of these functions, in one uncompressed chunk
 *
 * but at least one record, because llvm-cov has to see the build ID. If some part of the coverage
 * is not as expected, the member has all of it unchanged.
 *
 * The archive is in the form of 4.4BSD, which llvm-cov, ar and llvm-ar read: "!<arch>\n", and for
 * each member a header of 60 bytes of text, the member's name, and its contents. All three are
 * padded so that the contents begin and end at multiples of 8, where LLVM's reader of coverage
 * mapping looks for them. The name is the image's, and the first digits of its UUID; dates and
 * owners are 0.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_UNION_H
#define COVSPLIT_COMMON_SIDECAR_UNION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/llvm/coverage.h"
#include "common/sidecar/sidecar.h"

/* ---- writing ---- */

/* A function of a sidecar that llvm-cov would load from its image. */
struct union_function {
    struct bytes name;
    uint64_t name_ref, hash;
    uint64_t files;       /* a digest of the names of its files */
    struct digest digest; /* of the whole record, with these names */
    bool is_dummy;        /* see covfun_tell_dummy */
    bool is_unused;       /* by its translation unit: nothing is counted in it */
};

/* The filenames of units, as they were read: the images of one build have most of them in common.
 */
struct union_filenames {
    struct digest digest;     /* of how they are encoded */
    struct buffer mapped;     /* with other paths, if some have any */
    uint64_t reference;       /* the FilenamesRef of these */
    size_t first_file, count; /* in `files` */
};

struct union_units {
    struct union_filenames *items;
    size_t count, capacity;
    struct intern_table by_digest;
    struct digest *files; /* of the filenames of all */
    size_t file_count, file_capacity;
    uint64_t mapped_size; /* of the filenames with other names */
};

/* Set the first three members, and what else is wanted; free with union_free. The output
 * goes to the sink as members are added, and must not be used until union_finish has returned true.
 */
struct union_writer {
    const char *name; /* of the output, for messages */
    bytes_sink sink;
    void *context;
    struct covmap_renamer renamer; /* of source files; or all zeros */
    /* Gets each function of each sidecar, also those that the union has already; or NULL. */
    void (*visit)(void *context, const struct union_function *function);
    void *visit_context;
    struct digest_set seen; /* of all records written */
    struct union_units units;
    struct sidecar_memo memo; /* of sidecars that have none */
    size_t member_count;
    uint64_t records_read, records_kept; /* so far: in all sidecars, and in the union */
};

void union_free(struct union_writer *writer);

/* Adds the sidecar's image. Fails for a placeholder, and for a sidecar without coverage mapping.
 * After a failure, the union can only be freed: without the image, reports would be wrong.
 *
 * The writer keeps 16 bytes of memory for each record in the union, and some MiB of filenames at
 * most. While it adds a sidecar, it also needs memory for its names and filenames, and for the
 * contents of the member. */
bool union_add(struct union_writer *writer, const struct sidecar *sidecar, struct error *error);

/* Ends the union, which must have a member. */
bool union_finish(struct union_writer *writer, struct error *error);

/* ---- reading ---- */

/* True if the bytes look like a union of any version. Fast. */
bool union_recognize(struct bytes bytes);

/* True if a file that begins with these bytes can be one. */
bool union_may_begin(struct bytes so_far);

/* A member, as union_next finds it. */
struct union_member_view {
    struct bytes name; /* without the padding */
    struct bytes object;
};

/* Sets *members to the part of the file that has the members. `file` is for messages. */
bool union_open(struct bytes bytes, const char *file, struct bytes *members, struct error *error);

/* Takes the next one off the front of *members. Sets *found to false if there is none. */
bool union_next(struct bytes *members, const char *file, struct union_member_view *member,
                bool *found, struct error *error);

#endif
