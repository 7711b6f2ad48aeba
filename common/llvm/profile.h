/*
 * LLVM raw profiles (.profraw): what the profile runtime writes when an instrumented program ends.
 *
 * A raw profile is a header of 64-bit words, the binary IDs, and then copies of the sections of the
 * image: data records, counters, bitmap, names, and the value profile data behind them. The layout
 * depends on the version (7 to 11: LLVM 13 to 23), on the pointer size and on the byte order of the
 * machine that wrote it; all of that is in the first 16 bytes. Several profiles may follow each
 * other in one file, with zero bytes between.
 *
 * profile_parse checks every size before it is used, so the parts of a parsed profile can be read
 * without further checks. Nothing is allocated.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_H
#define COVSPLIT_COMMON_LLVM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/uuid.h"

#define PROFILE_VERSION_MIN 7
#define PROFILE_VERSION_MAX 11

/* The reason why nothing is done with another one: its number, and the two above. */
#define PROFILE_VERSION_UNKNOWN "raw profile version %u; this covsplit knows %d to %d"

/* What is wrong with a profile of 0 bytes. The runtime creates the file before it writes; that of
 * LLVM 13 to 15 writes nothing for an image without records. */
#define PROFILE_EMPTY_BECAUSE                                                                      \
    "empty: the program was killed, or called _exit, before it wrote its profile (with LLVM 13 "   \
    "to 15 also: no function in it is instrumented)"

/* Bytes of a UUID that the stub record of a split image holds: NameRef and FuncHash. */
#define PROFILE_STUB_UUID_SIZE UUID_STUB_SIZE

/* The version word, here as in __llvm_profile_raw_version: the version itself is in the low half,
 * each bit of the high half is a variant. */
#define PROFILE_VERSION(word)         ((unsigned)((word)&0xffffffffu))
#define PROFILE_VARIANT_BIT_FIRST     32
#define PROFILE_VARIANT_BIT_LAST      63

#define PROFILE_VARIANT_DEBUG_INFO    (UINT64_C(1) << 59)
#define PROFILE_VARIANT_BYTE_COVERAGE (UINT64_C(1) << 60)
#define PROFILE_VARIANT_TEMPORAL      (UINT64_C(1) << 63)

/* What a variant bit stands for: "IR", "byte-coverage", ...; NULL for a bit without a meaning. */
const char *profile_variant_name(unsigned bit);

/* Bytes of a counter: 8, or 1 with byte coverage. */
uint64_t profile_counter_size(uint64_t raw_version);

/* Where the fields of a data record are, in bytes. By version:
 *     7, 8   NameRef FuncHash CounterPtr FunctionPointer Values NumCounters:32 NumValueSites[2]:16
 *     9      NameRef FuncHash CounterPtr BitmapPtr FunctionPointer Values NumCounters:32
 *            NumValueSites[2]:16 NumBitmapBytes:32
 *     10     as 9 with NumValueSites[3]:16
 *     11     as 10 with UniformCounterPtr behind CounterPtr, and OffloadDeviceWaveSize:16 behind
 *            NumValueSites
 * NameRef and FuncHash are 64 bits wide; pointers have the image's size. CounterPtr and BitmapPtr
 * are addresses in version 7, and distances from the record from 8 on. Fields are aligned as in C,
 * and records to 8 bytes: they have 48, 64 (from 9 on) and 72 bytes where pointers have 8, and 40,
 * 48 and 56 where they have 4. The last one of a section may come without the padding at its end
 * (of i386, where C aligns 64-bit numbers to 4 bytes).
 *
 * UniformCounterPtr and OffloadDeviceWaveSize are for code that runs on a GPU, in waves of threads:
 * where all threads of one take part, that is counted a second time, in the uniform counters. These
 * have a section of their own, __llvm_prf_ucnts. In a program for a CPU both fields are 0. */
#define PROFILE_RECORD_SIZE_MAX 72

struct profile_record_layout {
    size_t record_size;
    size_t fields_size; /* without the padding behind the last field */
    size_t counter_ptr;
    size_t uniform_counter_ptr; /* 0: the version has none, as below */
    size_t bitmap_ptr;
    size_t num_counters;
    size_t num_value_sites;
    size_t value_kinds;
    size_t offload_device_wave_size;
    size_t num_bitmap_bytes;
    size_t pointer_size;
    bool relative; /* CounterPtr and BitmapPtr are distances from the record */
};

/* False for a version that is not known, and for another pointer size than 4 and 8. The raw version
 * may have variant bits. */
bool profile_record_layout(uint64_t raw_version, size_t pointer_size,
                           struct profile_record_layout *layout);

/* True if a record of layout->record_size bytes has value sites. */
bool profile_record_has_value_sites(const struct profile_record_layout *layout,
                                    const uint8_t *record, bool big_endian);

/* True if it is one of a GPU's code: with uniform counters, or waves of threads. */
bool profile_record_is_of_device(const struct profile_record_layout *layout, const uint8_t *record,
                                 bool big_endian);

/* The words of the header, in the order of the file and under the names that LLVM's
 * InstrProfData.inc has now; those that a version does not have are 0. */
struct profile_header {
    uint64_t magic;
    uint64_t version; /* with the variant bits */
    uint64_t binary_ids_size;
    uint64_t num_data;
    uint64_t padding_bytes_before_counters;
    uint64_t num_counters;
    uint64_t padding_bytes_after_counters;
    uint64_t num_bitmap_bytes;                     /* from version 9 */
    uint64_t padding_bytes_after_bitmap_bytes;     /* from version 9 */
    uint64_t num_uniform_counters;                 /* from version 11: of a GPU's code, else 0 */
    uint64_t padding_bytes_after_uniform_counters; /* from version 11 */
    uint64_t uniform_counters_delta;               /* from version 11 */
    uint64_t names_size;
    uint64_t counters_delta;
    uint64_t bitmap_delta; /* from version 9 */
    uint64_t names_delta;
    uint64_t num_vtables; /* from version 10 */
    uint64_t vnames_size; /* from version 10 */
    uint64_t value_kind_last;
};

/* One profile. Views the bytes that it was parsed from. */
struct profile {
    struct profile_header header;
    unsigned version; /* 7 to 11 */
    bool is_64_bit;
    bool big_endian;
    struct profile_record_layout layout; /* of its data records */
    struct bytes binary_ids;
    struct bytes data;
    struct bytes counters;
    struct bytes bitmap;
    struct bytes names;
    struct bytes vtables;
    struct bytes vtable_names;
    struct bytes value_data;
    uint64_t size; /* of the whole profile, value data included */
    /* Bytes of `counters` in front of the first counter. On Windows the runtime takes the end of a
     * marker of one byte for the start of the counters, which are aligned to 8, so that there are
     * 7, and as many at the end that are the next marker's; everywhere else it is 0. */
    uint64_t counter_skew;

    /* True for a profile of a split image: its one record is the stub, which covers all counters.
     * stub_uuid is then the start of the image's UUID, zero-padded. */
    bool lightweight;
    uint8_t stub_uuid[PROFILE_STUB_UUID_SIZE];
    /* The one record has the image's UUID like the stub, but is not as the split has left it. */
    bool has_changed_stub;
    /* What is in `names` is no section of names but a tripwire (tripwire.h). */
    bool has_tripwire;
};

/* True if the bytes begin like a raw profile of any version. */
bool profile_recognize(struct bytes bytes);

/* True if the bytes begin like an indexed profile (.profdata). */
bool profile_recognize_indexed(struct bytes bytes);

/* Zero bytes that may be between profiles, or behind the last one. The runtime writes no more than
 * fill a page, and LLVM's reader passes over any number, one by one. A program without a file
 * system may give out its profile in a buffer of any size, though none as large as this; what is
 * larger is a hole in the file, which to look through takes as long as its size claims. */
#define PROFILE_GAP_MAX (64 << 20)

/* Moves *offset over the zero bytes between profiles. False if no profile follows. To go through
 * a file: start at 0, and while this is true, parse and add the profile's size. Behind too many
 * zeros parsing says so. */
bool profile_find_next(struct bytes file, uint64_t *offset);

/* The first one of the file; false with an error if there is none. */
bool profile_find_first(struct bytes file, const char *name, uint64_t *offset, struct error *error);

/* Reads the profile at `offset` of the file. `name` is the file's name in messages. */
bool profile_parse(struct bytes file, uint64_t offset, const char *name, struct profile *profile,
                   struct error *error);

/* Takes a binary ID off the front of *rest, which is profile->binary_ids at first. False if none
 * is left. */
bool profile_take_binary_id(const struct profile *profile, struct bytes *rest,
                            struct bytes *binary_id);

/* The whole counters: those behind the skew. */
struct bytes profile_whole_counters(const struct profile *profile);

/* Where a profile says which image wrote it. */
enum profile_uuid_source {
    PROFILE_UUID_NONE,
    PROFILE_UUID_TRIPWIRE,  /* the whole UUID, as the split knew it */
    PROFILE_UUID_BINARY_ID, /* the first binary ID */
    PROFILE_UUID_STUB,      /* 16 bytes of the stub record: cut short or padded with zeros */
};

/* Goes through the UUIDs that the image may have which wrote the profile, the surest first. Starts
 * as {.profile = ...}. */
struct profile_uuids {
    const struct profile *profile;
    enum profile_uuid_source last;
    struct bytes rest; /* of the binary IDs */
};

/* False at the end. */
bool profile_next_uuid(struct profile_uuids *uuids, struct uuid *uuid,
                       enum profile_uuid_source *source);

/* The first of them. Size 0: the profile does not tell. */
struct uuid profile_uuid(const struct profile *profile, enum profile_uuid_source *source);

/* The error for a profile that has none. Returns false. */
bool profile_has_no_uuid(const struct profile *profile, const char *name, struct error *error);

/* True if the profile has counters but no names. */
bool profile_lacks_names(const struct profile *profile);

/* The error for a profile without records, the sidecar of whose image has none either: with
 * -profile-correlate=debug-info they are in debug information. The raw version says so with IR PGO,
 * but not with clang's own counters. Returns false. */
bool profile_needs_debug_info(const char *name, struct error *error);

/* True if the profile tells nothing without the sidecar of its image: it lacks data or names. */
bool profile_needs_sidecar(const struct profile *profile);

/* ---- writing ---- */

/* Sets the padding that the header declares to the least: counters and bitmap are padded to 8
 * bytes each, as outside of continuous mode. */
void profile_set_padding(struct profile *profile);

/* LLVM's reader passes over zeros between the profiles of a file and wants the next one aligned.
 * Those of version 7 may end anywhere. How many zeros belong behind profiles of that many bytes: */
#define PROFILE_ALIGNMENT 8

static inline uint64_t profile_padding(uint64_t size)
{
    return align_up(size, PROFILE_ALIGNMENT) - size;
}

/* How many bytes profile_write writes. */
uint64_t profile_written_size(const struct profile *profile);

/* Writes a profile: the header and the parts that it describes, which must have just those sizes.
 * A parsed profile comes out as it was read. */
bool profile_write(const struct profile *profile, bytes_sink sink, void *context,
                   struct error *error);

#endif
