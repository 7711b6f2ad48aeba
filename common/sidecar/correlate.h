/*
 * Correlating: putting back into a profile what a split took out of the image that wrote it.
 *
 * A profile of a split image has all its counters, but lacks names, and has a stub for its data.
 * Three kinds occur, and the sidecar tells which one it is:
 *
 *   - the stub record stands for the data: data and names come from the sidecar;
 *   - the data was kept (value profiling, or --sections): only names come back, and the NameRef of
 *     the first record, which was changed in the image (tripwire_signature in tripwire.h);
 *   - the image was built with -profile-correlate=binary: its profiles have no data and no names by
 *     design; both come from __llvm_covdata and __llvm_covnames, whose records hold addresses
 *     instead of distances and are brought into the form that a profile has.
 *
 * The counters are never touched or copied, so this costs the same whatever was counted.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_CORRELATE_H
#define COVSPLIT_COMMON_SIDECAR_CORRELATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/llvm/profile.h"
#include "common/sidecar/sidecar.h"

/* What a sidecar has for profiles, decompressed once for all of them. */
struct correlation {
    const struct sidecar *sidecar;
    bool is_loaded;
    struct profile_record_layout layout;
    bool has_data;  /* false: the data stayed in the image */
    bool is_binary; /* data and names are those of -profile-correlate=binary */
    bool has_names;
    struct buffer data;  /* whole records */
    struct buffer names; /* a section with each name once */
    /* What the CounterPtr (BitmapPtr) of the first record is from the start of the counters
     * (bitmap), as the header of a profile with this data says it. */
    uint64_t counters_delta;
    uint64_t bitmap_delta;
    uint64_t counters_size; /* bytes in the image */
    uint64_t counter_skew;  /* of them in front of the first counter: see profile.h */
    uint64_t bitmap_size;
};

/* Decompresses data and names, and nothing else. The sidecar must outlive the correlation, which is
 * freed with correlation_free, also after a failure. */
bool correlation_load(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error);
void correlation_free(struct correlation *correlation);

/* The same where it was not done yet: the correlation starts as {0}, and is that after a failure.
 */
bool correlation_need(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error);

/* The byte order of the records. */
bool correlation_is_big_endian(const struct correlation *correlation);

/* The counters and bitmap bytes of a data record. Counted in counters and in bytes. */
struct correlation_range {
    uint64_t first_counter;
    uint64_t counter_count;
    uint64_t first_bitmap_byte;
    uint64_t bitmap_byte_count;
};

/* The record's range; false if it is not inside the image's counters and bitmap. The index must
 * be below data.size / layout.record_size. */
bool correlation_range(const struct correlation *correlation, uint64_t index,
                       struct correlation_range *range);

/* Whether the sidecar is the one of the image that wrote the profile, and the stub record in that
 * is as the split has left it. `name` is the profile's. */
bool correlation_check(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error);

/* *full = the profile with what it lacks; a profile that lacks nothing comes out as it is. It views
 * the profile's bytes, the correlation, and *relocated, a buffer of the caller's that he frees. */
bool correlation_apply(const struct correlation *correlation, const struct profile *profile,
                       const char *name, struct buffer *relocated, struct profile *full,
                       struct error *error);

/* Gives the sink the full raw profile, with what the correlation of the sidecar (NULL allowed where
 * the profile needs none) has, which is loaded where it is needed. */
bool correlation_write(struct correlation *correlation, const struct sidecar *sidecar,
                       const struct profile *profile, const char *name, bytes_sink sink,
                       void *context, struct error *error);

#endif
