/*
 * Correlating: adds to a profile what a split took out of the image that wrote it.
 *
 * A profile of a split image has all its counters, but no names, and a stub instead of its data.
 * There are three cases, and the sidecar tells which one applies:
 *
 *   - the stub record stands for the data: data and names come from the sidecar;
 *   - the data was kept in the image (value profiling, or --sections): only the names are added,
 * and the NameRef of the first record, which was changed in the image, is restored
 *     (tripwire_signature in tripwire.h);
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

/* What a sidecar holds for profiles, decompressed once for all of them. */
struct correlation {
    const struct sidecar *sidecar;
    bool is_loaded;
    struct profile_record_layout layout;
    bool has_data;  /* false if the data stayed in the image */
    bool is_binary; /* data and names are for -profile-correlate=binary */
    bool has_names;
    struct buffer data;  /* whole records */
    struct buffer names; /* a names section with each name once */
    /* CountersDelta and BitmapDelta in the header of a profile with this data. */
    uint64_t counters_delta;
    uint64_t bitmap_delta;
    uint64_t counters_size; /* in the image, in bytes */
    uint64_t counter_skew;  /* how many of these precede the first counter: see profile.h */
    uint64_t bitmap_size;
};

/* Decompresses data and names, and nothing else. The sidecar must outlive the correlation. Free
 * with correlation_free, even after a failure. */
bool correlation_load(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error);
void correlation_free(struct correlation *correlation);

/* The same, unless it has been done already. The correlation must be {0} at first, and is {0} after
 * a failure. */
bool correlation_need(struct correlation *correlation, const struct sidecar *sidecar,
                      struct error *error);

/* The byte order of the records. */
bool correlation_is_big_endian(const struct correlation *correlation);

/* The counters and bitmap bytes of a data record, counted in counters and in bytes. */
struct correlation_range {
    uint64_t first_counter;
    uint64_t counter_count;
    uint64_t first_bitmap_byte;
    uint64_t bitmap_byte_count;
};

/* The range of a record; false if it is not inside the image's counters and bitmap. The index must
 * be less than data.size / layout.record_size. */
bool correlation_range(const struct correlation *correlation, uint64_t index,
                       struct correlation_range *range);

/* Checks that the sidecar belongs to the image that wrote the profile, and that the stub record in
 * the profile is unchanged. `name` is the profile's. */
bool correlation_check(const struct sidecar *sidecar, const struct profile *profile,
                       const char *name, struct error *error);

/* Sets *full to the profile with data and names added; a profile that lacks nothing is unchanged.
 * *full points into the profile's bytes, the correlation, and *relocated, a buffer that the caller
 * frees. */
bool correlation_apply(const struct correlation *correlation, const struct profile *profile,
                       const char *name, struct buffer *relocated, struct profile *full,
                       struct error *error);

/* Passes the full raw profile to the sink. The correlation is loaded if it is needed; it and the
 * sidecar may be NULL for a profile that needs none. */
bool correlation_write(struct correlation *correlation, const struct sidecar *sidecar,
                       const struct profile *profile, const char *name, bytes_sink sink,
                       void *context, struct error *error);

/* A sidecar and its data for profiles, which are read when first needed. */
struct profile_sidecar {
    struct sidecar *sidecar;
    struct correlation correlation;
};

/* correlation_write with these; NULL for a profile that needs no sidecar. */
bool profile_sidecar_correlate(struct profile_sidecar *sidecar, const struct profile *profile,
                               const char *name, bytes_sink sink, void *context,
                               struct error *error);

/* Frees the data, which are several times as large as the sidecar; they are decompressed again when
 * they are needed. Call it between images, to have the data of only one in memory. NULL is allowed.
 */
void profile_sidecar_unload(struct profile_sidecar *sidecar);

/* Closes and frees what it has. */
void profile_sidecar_close(struct profile_sidecar *sidecar);

#endif
