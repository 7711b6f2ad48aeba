/*
 * Correlating: adds to a profile what a split took out of the image that wrote it.
 *
 * A profile of a split image has all its counters, but no names, and a stub instead of its data.
 * There are three cases, and the sidecar tells which one applies:
 *
 *   - the stub record stands for the data: data and names come from the sidecar;
 *   - the data was kept in the image (value profiling, or --sections): only the names are added,
 * and the NameRef of the first record, which was changed in the image, is restored
 *     (facts_make_record_change);
 *   - the image was built with -profile-correlate=binary: its profiles have no data and no names by
 *     design. Both come from __llvm_covdata and __llvm_covnames; the records hold addresses instead
 *     of distances and are converted.
 *
 * The counters are never modified or copied, so their number does not affect the cost.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_CORRELATE_H
#define COVSPLIT_COMMON_SIDECAR_CORRELATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"

/* A sidecar, and what it holds for profiles, decompressed once for all of them. Only `sidecar` is
 * set at first. */
struct profile_sidecar {
    struct sidecar *sidecar;
    bool is_loaded; /* everything below is known */
    bool big_endian;
    struct profile_record_layout layout;
    bool has_data;             /* false if the data stayed in the image */
    bool is_binary_correlated; /* data and names are for -profile-correlate=binary */
    bool has_names;
    struct buffer data;       /* whole records */
    struct buffer names;      /* a names section with each name once */
    struct buffer binary_ids; /* with the sidecar's UUID; empty until a profile needs it */
    /* CountersDelta and BitmapDelta in the header of a profile with this data. */
    uint64_t counters_delta;
    uint64_t bitmap_delta;
    uint64_t counters_size; /* in the image, in bytes */
    uint64_t counter_skew;  /* how many of these precede the first counter: see profile.h */
    uint64_t bitmap_size;
};

/* Decompresses data and names, and nothing else, unless that has been done already. */
bool profile_sidecar_load(struct profile_sidecar *opened, struct error *error);

/* Frees the data, which are several times as large as the sidecar; they are decompressed again when
 * they are needed. Call it between images, to have the data of only one in memory. NULL is allowed.
 */
void profile_sidecar_unload(struct profile_sidecar *opened);

/* Frees the data and closes the sidecar. */
void profile_sidecar_close(struct profile_sidecar *opened);

/* The counters and bitmap bytes of a data record, counted in counters and in bytes. */
struct profile_range {
    uint64_t first_counter;
    uint64_t counter_count;
    uint64_t first_bitmap_byte;
    uint64_t bitmap_byte_count;
};

/* The range of a record of the loaded data; false if it is not inside the image's counters and
 * bitmap. The index must be less than data.size / layout.record_size. */
bool profile_sidecar_range(const struct profile_sidecar *opened, uint64_t index,
                           struct profile_range *range);

/* Checks that the sidecar belongs to the image that wrote the profile, which may be full, and that
 * the stub record in the profile is unchanged. `name` is the profile's. What proves it:
 *
 *   - of a lightweight profile, its stub record: it has a digest of names, records and mapping. A
 *     sidecar that was made without a stub is not of its image;
 *   - of one whose names were taken out and whose records were not, these and what was added to the
 *     first: a digest of the same (facts_make_record_change);
 *   - of a full profile, its records: NameRefs and FuncHashes. They do not tell builds apart that
 *     have the same functions in other places, and neither does anything else in it but the UUID;
 *   - with -profile-correlate=binary, the UUID and the number of counters alone. */
bool correlation_check(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error);

/* The same for a full profile of which nothing is left but its header (in a profile that has no
 * parts), its UUID, if it has one, and the digest of its records. */
bool correlation_check_full(const struct sidecar *sidecar, const struct profile *head,
                            const struct uuid *uuid, const struct digest *records, const char *name,
                            struct error *error);

/* Sets *full to the profile with data and names added, which are loaded if that has not been done;
 * a profile that lacks nothing is unchanged. *full points into the profile's bytes, the loaded
 * data, and *relocated, a buffer that the caller frees. */
bool profile_sidecar_apply(struct profile_sidecar *opened, const struct profile *profile,
                           const char *name, struct buffer *relocated, struct profile *full,
                           struct error *error);

/* Passes the full raw profile to the sink. NULL for a profile that needs no sidecar. */
bool profile_sidecar_correlate(struct profile_sidecar *opened, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error);

/* ---- dumps ---- */

/* Plain copies of an image's counters, and of its bitmap, from the memory of a program or a device,
 * as a debugger makes them. With the image's sidecar, a dump becomes the profile that the split
 * image would have written, if it was loaded where it was linked. (The address of the names in the
 * header may be another one; nothing reads it.)
 *
 * Initialize to {0}; free with dump_free, even after a failure. */
struct dump {
    struct bytes counters; /* set by the caller, like the bitmap: as large as their sections */
    struct bytes bitmap;
    struct profile profile; /* made by dump_make; points to the other members */
    struct buffer whole_counters;
    struct buffer binary_ids;
    uint8_t stub[PROFILE_RECORD_SIZE_MAX];
};

/* Makes the lightweight profile of the dump, for profile_sidecar_correlate. `name` is the dump's.
 * Fails if the counters have values that no program counts to, or if the sidecar lacks what
 * profiles need besides counters: then the image keeps it, and a copy of its counters is not
 * enough. */
bool dump_make(struct dump *dump, struct profile_sidecar *opened, const char *name,
               struct error *error);
void dump_free(struct dump *dump);

#endif
