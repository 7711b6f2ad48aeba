/*
 * Deltas: sidecars that hold only what another one, their base, does not.
 *
 * The builds of a program have nearly all of their coverage data in common, and so have programs
 * with a library in common. In a delta, each section is a zstd frame whose matches may be in
 * the same section of the base (ZSTD_CCtx_refPrefix). What is compressed so is either the content
 * of the section or the streams of its compact form: of programs that differ in what they link,
 * whole records are the same; of builds of one program, numbers in streams are, even if addresses
 * have moved. A base is always whole, so that reading a delta takes two files.
 *
 * Everything else in a delta is as in any other sidecar, and it is read in the same ways, by
 * sidecar_read_section and so on. The layout is in docs/format.md ("Deltas").
 */
#ifndef COVSPLIT_COMMON_SIDECAR_DELTA_H
#define COVSPLIT_COMMON_SIDECAR_DELTA_H

#include <pthread.h>

#include "common/sidecar/sidecar.h"

/* In a store, the sidecar DIR/.build-id/ab/cdef.covsplit has the base DIR/.build-id/bases/HEX.base,
 * where HEX is the digest of the base's bytes. So nothing that is done to other sidecars of the
 * store affects it. */
#define DELTA_BASES_NAME  "bases"
#define DELTA_BASE_SUFFIX ".base"
/* Added to that for a moment by `store gc`, before it removes a base that nobody seems to need. */
#define DELTA_ASIDE_SUFFIX ".aside"

/* The path of the base of the sidecar at this path, as a new string; NULL if out of memory. */
char *delta_base_path(const char *path, const struct digest *base);

/* ---- bases that are read ---- */

/* Gives the bytes of a base, which must stay as they are until the sidecars are closed. False if
 * it has none with this digest. */
typedef bool (*base_finder)(void *context, const struct digest *digest, struct bytes *bytes);

/* The base that was read last, with some of its contents, since it is mostly that of the next
 * delta too. For any number of sidecars and threads. Initialize to SIDECAR_BASES_EMPTY; free
 * with sidecar_bases_free after the sidecars that use it were closed. */
struct sidecar_bases {
    pthread_mutex_t lock;
    struct sidecar *base; /* NULL: none was read */
    struct digest digest; /* of its file */
    struct sidecar_memo memo;
    base_finder find; /* NULL: bases are in the store of the delta */
    void *context;
};

#define SIDECAR_BASES_EMPTY                                                                        \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }

void sidecar_bases_free(struct sidecar_bases *bases);

/* Has a sidecar share the bases; no matter if it is not a delta. Otherwise each delta
 * reads its base for itself. */
void sidecar_share_bases(struct sidecar *sidecar, struct sidecar_bases *bases);

/* The base in that path, which is read unless it is the last one. Only with the lock. `name` is the
 * delta's. NULL with an error if it cannot be used. */
struct sidecar *sidecar_use_base(struct sidecar_bases *bases, const char *name, const char *path,
                                 const struct digest *digest, struct error *error);

/* Makes sure that the part of a section, which is its content or its encoded form, is in the cache.
 * Does nothing for a whole sidecar. */
bool delta_restore(const struct sidecar *sidecar, const struct section *section,
                   struct error *error);

/* Appends the bytes of a section (0: the inverse script) that a part of a delta is compressed from,
 * or those of the base, which it is compressed after: none if there is no such section. */
bool delta_flatten(const struct sidecar *whole, enum section_kind kind, bool is_of_streams,
                   struct buffer *flat, struct error *error);

/* ---- writing ---- */

struct delta_options {
    int level;     /* codec_compress_after's */
    uint64_t most; /* the most bytes that the sections may take in the file */
    /* While an image is split: it need not be the smallest, nor is it decoded once more, which was
     * done with the whole sidecar. */
    bool is_fast;
};

/* Writes a whole sidecar as the delta to the base in `path`, whose digest this is, to a
 * started output, and reads it back: it must hold the same. Sets *fits to false, and writes
 * nothing, if it would be larger than options->most, or if the base cannot be used. `size` is that
 * of the sidecar's file. */
bool delta_write(const struct sidecar *whole, uint64_t size, struct sidecar_bases *bases,
                 const char *path, const struct digest *digest, const struct delta_options *options,
                 struct output *output, bool *fits, struct error *error);

#endif
