/*
 * The bases of a store's deltas (common/sidecar/delta.h): which one a sidecar becomes a delta
 * to, and new ones.
 *
 * A base is a file of its own, under the digest of its bytes, so that nothing that is done to a
 * sidecar, even a copy over it, affects the others. The sidecar that it was made of becomes a
 * delta to it like any other. A base that no delta needs any longer is removed by `store
 * gc`. Against that, a writer gives the base a new access time before it starts, and once more
 * before a delta gets its name, if it is still there. A base that belongs to somebody else is
 * not used, since its times cannot be set.
 *
 * Candidates are bases of the same format and machine: first those of images with the same name,
 * then those that have most functions in common, as told by a sample of their hashes. A sample is
 * kept in a file beside the base; if that is missing it is taken again, and if it is wrong, at
 * worst a delta becomes larger: it is always read back before it replaces anything.
 */
#ifndef COVSPLIT_SPLIT_CLI_BASES_H
#define COVSPLIT_SPLIT_CLI_BASES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/sidecar/delta.h"

/* Added to the name of a base, for the file of its sample. */
#define BASES_SAMPLE_SUFFIX ".sample"

/* The number of hashes in a sample: the smallest of all. */
#define SAMPLE_SIZE 32

struct known_base {
    struct digest digest;
    uint32_t target; /* machine and format of the image, class and byte order */
    uint32_t sample[SAMPLE_SIZE];
    size_t sample_size;
    char *image_name;
    struct stat status;
};

/* Initialize to {0}; close with bases_close, even after a failure. */
struct bases {
    char *directory;
    struct known_base *items;
    size_t count, capacity;
    struct sidecar_bases read;
    char *used; /* the path of the base of the last delta */
};

/* DIR/.build-id/bases as a new string. */
char *bases_directory(const char *store);
/* Reads the names of the bases in it; free with directory_names_free. Fails if the directory cannot
 * be read; if there is none, there are no bases. */
bool bases_list(const char *directory, struct directory_names *names, struct error *error);
/* The digest in the name of a base; false if it is another file's. */
bool bases_parse_name(const char *name, struct digest *digest);

/* Reads which bases the store has. */
bool bases_open(struct bases *bases, const char *store, struct error *error);
void bases_close(struct bases *bases);

/* Writes a delta for the sidecar, whose file has `size` bytes, to a started output. *fits:
 * false if no base makes it small enough; nothing was written then. */
bool bases_make_delta(struct bases *bases, const struct sidecar *whole, uint64_t size, int level,
                      bool is_fast, struct output *output, bool *fits, struct error *error);

/* To be called right before that output, which was synced, is committed: false if the base was
 * removed meanwhile. */
bool bases_hold(const struct bases *bases, struct error *error);

/* False for a sidecar of so few bytes that even a delta to itself would save next to nothing.
 */
bool bases_are_worth(uint64_t size);

/* Makes the sidecar, which has these bytes, a base for the delta that the output is to hold.
 */
bool bases_add(struct bases *bases, const struct sidecar *whole, struct bytes bytes,
               const struct output *needs, struct error *error);

#endif
