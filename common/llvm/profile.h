/*
 * LLVM raw profiles (.profraw): what the profile runtime writes when an instrumented program ends.
 *
 * A raw profile consists of a header of 64-bit words, the binary IDs, copies of sections of the
 * image (data records, counters, bitmap, names), and value profile data. The layout depends on the
 * version (7 to 11: LLVM 13 to 23), the pointer size and the byte order of the machine that wrote
 * it; all of these are in the first 16 bytes. Several profiles may follow each other in one file,
 * with zero bytes between them.
 *
 * profile_parse checks every size before it is used, so the parts of a parsed profile can be read
 * without further checks. Nothing is allocated. To go through the profiles of a file, see
 * profile_reader.h.
 */
#ifndef COVSPLIT_COMMON_LLVM_PROFILE_H
#define COVSPLIT_COMMON_LLVM_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/uuid.h"

#define PROFILE_VERSION_MIN 7
#define PROFILE_VERSION_MAX 11

/* The message for an unsupported version. Its arguments are that version and the two numbers above.
 */
#define PROFILE_VERSION_UNKNOWN "raw profile version %u; this covsplit knows %d to %d"

/* The reason in messages for a profile of 0 bytes. The runtime creates the file before it writes
 * it; up to LLVM 15 it writes nothing for an image without records. */
#define PROFILE_EMPTY_BECAUSE                                                                      \
    "empty: the program was killed, or called _exit, before it wrote its profile (with LLVM 13 "   \
    "to 15 also: no function in it is instrumented)"

/* The size of NameRef and FuncHash, with which records begin. By these the stub record of a split
 * image tells the image. */
#define PROFILE_STUB_ID_SIZE 16

/* The version from which on binary IDs are padded to 8 bytes, each. */
#define PROFILE_VERSION_PADDED_BINARY_IDS 8

/* The version word of a profile, and of __llvm_profile_raw_version: the low half is the version,
 * and each bit of the high half stands for a variant. */
#define PROFILE_VERSION(word)         ((unsigned)((word)&0xffffffffu))
#define PROFILE_VARIANT_BIT_FIRST     32
#define PROFILE_VARIANT_BIT_LAST      63

#define PROFILE_VARIANT_IR            (UINT64_C(1) << 56)
#define PROFILE_VARIANT_DEBUG_INFO    (UINT64_C(1) << 59)
#define PROFILE_VARIANT_BYTE_COVERAGE (UINT64_C(1) << 60)
#define PROFILE_VARIANT_TEMPORAL      (UINT64_C(1) << 63)

/* The name of a variant bit: "IR", "byte-coverage", ...; NULL for a bit without a meaning. */
const char *profile_variant_name(unsigned bit);

/* The size of a counter in bytes: 8, or 1 with byte coverage. */
uint64_t profile_counter_size(uint64_t raw_version);

/* The offsets in bytes of the fields of a data record. The fields by version:
 *     7, 8   NameRef FuncHash CounterPtr FunctionPointer Values NumCounters:32 NumValueSites[2]:16
 *     9      NameRef FuncHash CounterPtr BitmapPtr FunctionPointer Values NumCounters:32
 *            NumValueSites[2]:16 NumBitmapBytes:32
 *     10     as 9 with NumValueSites[3]:16
 *     11     as 10 with UniformCounterPtr after CounterPtr, and OffloadDeviceWaveSize:16 after
 *            NumValueSites
 * NameRef and FuncHash are 64 bits wide; pointers have the image's size. CounterPtr and BitmapPtr
 * are addresses in version 7, and distances from the record from 8 on. Fields are aligned as in C,
 * and records to 8 bytes: their sizes are 48 bytes, 64 (from version 9 on) and 72 (version 11) with
 * 8-byte pointers, and 40, 48 and 56 with 4-byte pointers. On i386, where C aligns 64-bit numbers
 * to 4 bytes, the last record of a section may lack the padding at its end.
 *
 * UniformCounterPtr and OffloadDeviceWaveSize are for code that runs on a GPU in waves of threads.
 * Executions in which all threads of a wave take part are also counted in the uniform counters,
 * which have a section of their own, __llvm_prf_ucnts. In a program for a CPU both fields are 0. */
#define PROFILE_RECORD_SIZE_MAX 72

struct profile_record_layout {
    size_t record_size;
    size_t fields_size; /* without the padding after the last field */
    size_t counter_ptr;
    size_t uniform_counter_ptr; /* this and the following are 0 if the version lacks the field */
    size_t bitmap_ptr;
    size_t num_counters;
    size_t num_value_sites;
    size_t value_kinds;
    size_t offload_device_wave_size;
    size_t num_bitmap_bytes;
    size_t pointer_size;
    bool relative; /* CounterPtr and BitmapPtr are distances from the record */
};

/* False for an unsupported version, and for pointer sizes other than 4 and 8. The raw version may
 * contain variant bits. */
bool profile_record_layout(uint64_t raw_version, size_t pointer_size,
                           struct profile_record_layout *layout);

/* True if a record of layout->record_size bytes has value sites. */
bool profile_record_has_value_sites(const struct profile_record_layout *layout,
                                    const uint8_t *record, bool big_endian);

/* The digest of NameRef, FuncHash and NumCounters of each record, one after the other, where
 * `change` was added to the first NameRef (facts_make_record_change). */
struct digest profile_records_digest(const struct profile_record_layout *layout,
                                     struct bytes records, uint64_t change, bool big_endian);

/* True if the record is for GPU code: it has uniform counters, or a wave size. */
bool profile_record_is_of_device(const struct profile_record_layout *layout, const uint8_t *record,
                                 bool big_endian);

/* True if all fields are 0 but those that a stub has: its ID, the counters, and the bitmap if it
 * has bytes of one. */
bool profile_record_is_bare(const struct profile_record_layout *layout, const uint8_t *record,
                            bool big_endian);

/* The words of the header, in file order, with their current names in LLVM's InstrProfData.inc.
 * Words that a version does not have are 0. */
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
    uint64_t num_uniform_counters;                 /* from version 11; 0 except for GPU code */
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

/* One profile. It points into the bytes that it was parsed from. */
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
    /* There are records with value sites, and no value data at all: the profile was written
     * continuously or by __llvm_profile_write_buffer, or the file was cut short there. */
    bool lacks_value_data;
    uint64_t offset; /* in the file */
    uint64_t size;   /* of the whole profile, including value data */
    /* Not 0 if profile_parse failed only because the file ends too early: that many bytes are
     * missing, and perhaps more. */
    uint64_t missing;
    /* The number of bytes in `counters` before the first counter. On Windows it is 7: the runtime
     * takes the end of a one-byte marker for the start of the counters, which are aligned to 8
     * bytes; as many bytes at the end belong to the next marker. Everywhere else it is 0. */
    uint64_t counter_skew;

    /* True for a profile of a split image: its one record is the stub, which covers all counters.
     * stub_id is its NameRef and FuncHash (formats/runtime/runtime.h). */
    bool lightweight;
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
    /* The only record has the image's UUID like the stub, but differs from what the split wrote. */
    bool has_changed_stub;
    /* `names` does not hold names but a tripwire (tripwire.h). */
    bool has_tripwire;
};

/* True if the bytes start like a raw profile of any version. */
bool profile_recognize(struct bytes bytes);

/* The magic number of a raw profile: its first word, in the byte order of the machine that writes
 * it. */
uint64_t profile_magic(bool is_64_bit);

/* True if the bytes start like an indexed profile (.profdata). */
bool profile_recognize_indexed(struct bytes bytes);

/* Describes an indexed profile as far as profile_next_uuid needs it: its UUIDs are those of all
 * images that it is of, if it was written by LLVM 16 or later. */
void profile_open_indexed(struct profile *profile, struct bytes bytes);

/* The number of zero bytes allowed between profiles and after the last one. The runtime fills up a
 * page at most, and LLVM's reader skips any number, one by one. A program without a file system may
 * output its profile in a buffer of any size, but hardly one as large as this. A longer run of
 * zeros is a hole in the file, and searching it could take arbitrarily long. */
#define PROFILE_GAP_MAX (64 << 20)

/* Moves *offset over the zero bytes between profiles. False if no profile follows. If there are too
 * many zeros, profile_parse reports that. To go through a file, see profile_reader.h. */
bool profile_find_next(struct bytes file, uint64_t *offset);

/* Reads the profile at `offset` of the file. `name` is the file's name in messages. */
bool profile_parse(struct bytes file, uint64_t offset, const char *name, struct profile *profile,
                   struct error *error);

/* The start of profile_parse, for a reader that does not have the whole profile yet: reads the
 * header at `offset`, and computes from it the size of the profile without value profile data. */
bool profile_measure(struct bytes file, uint64_t offset, const char *name, struct profile *profile,
                     uint64_t *size, struct error *error);

/* The part of a measured profile that contains the byte at `position` in it: "header", "counters",
 * ... */
const char *profile_part_name(const struct profile *profile, uint64_t position);

/* The remedy for a profile that is cut short: the end of the message. */
#define PROFILE_CUT_REMEDY "copy it again, or run the program again"

/* Takes a binary ID off the front of *rest, which must be profile->binary_ids at first. False if
 * none is left. */
bool profile_take_binary_id(const struct profile *profile, struct bytes *rest,
                            struct bytes *binary_id);

/* The complete counters, without the bytes at both ends that are due to the skew. */
struct bytes profile_whole_counters(const struct profile *profile);

/* The place in a profile in which the UUID of its image was found. */
enum profile_uuid_source {
    PROFILE_UUID_NONE,
    PROFILE_UUID_TRIPWIRE,  /* the whole UUID, as the split wrote it */
    PROFILE_UUID_BINARY_ID, /* the first binary ID */
    PROFILE_UUID_STUB,      /* 8 bytes from the stub record: truncated, or padded with zeros */
};

/* Iterates over the possible UUIDs of the image that wrote the profile, the most certain first.
 * Initialize to {.profile = ...}. */
struct profile_uuids {
    const struct profile *profile;
    enum profile_uuid_source last;
    struct bytes rest; /* of the binary IDs */
};

/* False at the end. */
bool profile_next_uuid(struct profile_uuids *uuids, struct uuid *uuid,
                       enum profile_uuid_source *source);

/* The first of these UUIDs; its size is 0 if the profile contains none. */
struct uuid profile_uuid(const struct profile *profile, enum profile_uuid_source *source);

/* Sets the error for a profile that contains no UUID. Returns false. */
bool profile_has_no_uuid(const struct profile *profile, const char *name, struct error *error);

/* True if the profile has counters but no names. */
bool profile_lacks_names(const struct profile *profile);

/* Sets the error for a profile without records if the image's sidecar has none either: with
 * -profile-correlate=debug-info they are in the debug information. (The raw version tells that for
 * IR PGO, but not for clang's own counters.) Returns false. */
bool profile_needs_debug_info(const char *name, struct error *error);

/* True if the profile is of no use without the sidecar of its image: it lacks data or names. */
bool profile_needs_sidecar(const struct profile *profile);

/* ---- writing ---- */

/* Sets the padding in the header to the minimum: counters and bitmap are padded to 8 bytes each, as
 * without continuous mode. */
void profile_set_padding(struct profile *profile);

/* LLVM's reader skips zeros between the profiles of a file and requires the next profile to be
 * aligned, but profiles of version 7 may end anywhere. profile_padding is the number of zeros
 * needed after a profile of `size` bytes. */
#define PROFILE_ALIGNMENT 8

static inline uint64_t profile_padding(uint64_t size)
{
    return align_up(size, PROFILE_ALIGNMENT) - size;
}

/* The number of bytes that profile_write writes. */
uint64_t profile_written_size(const struct profile *profile);

/* Writes a profile: the header and the parts that it describes, which must have exactly the sizes
 * in the header. A parsed profile is written exactly as it was read. */
bool profile_write(const struct profile *profile, bytes_sink sink, void *context,
                   struct error *error);

/* ---- making profiles from what is in a program's memory, as the runtime does ---- */

/* A section in the program: where it is in memory (0 if there is none), and its bytes. */
struct profile_section {
    uint64_t address;
    struct bytes bytes;
};

struct profile_source {
    uint64_t raw_version; /* with the variant bits */
    size_t pointer_size;
    bool big_endian;
    struct bytes binary_ids; /* by profile_append_binary_id */
    struct profile_section data;
    struct profile_section counters;
    struct profile_section bitmap; /* left out by versions that have none */
    struct profile_section names;
    struct bytes value_data;
};

/* Appends a binary ID as profiles have it; false if out of memory. */
bool profile_append_binary_id(struct buffer *binary_ids, uint64_t raw_version, bool big_endian,
                              const struct uuid *uuid);

/* The number of items in a section of `size` bytes as the runtime counts them: the last one may be
 * incomplete. */
uint64_t profile_count_items(uint64_t size, uint64_t item_size);

/* Describes the profile that the runtime writes for the source: for profile_write. It points into
 * the source's bytes; data must be whole records, and counters whole counters. False for an
 * unsupported version or pointer size. */
bool profile_compose(struct profile *profile, const struct profile_source *source);

/* ---- the layout of the file, for the modules that read and write it ---- */

/* A word of the header, 64 bits wide. */
struct profile_header_word {
    size_t offset;  /* in struct profile_header */
    unsigned since; /* the first version that has it */
};

#define PROFILE_HEADER_WORD_COUNT 19

/* In the order of the file. */
extern const struct profile_header_word profile_header_words[PROFILE_HEADER_WORD_COUNT];

uint64_t profile_header_size(unsigned version);

/* A part of a profile, as its header describes it. */
struct profile_part {
    uint64_t count;
    uint64_t item_size;
    struct bytes *view; /* in the profile; NULL for padding */
    const char *name;   /* for messages; padding has that of the part before it */
};

#define PROFILE_PART_COUNT 14

/* Lists the parts that follow the header, up to the value profile data. */
void profile_list_parts(struct profile *profile, struct profile_part parts[PROFILE_PART_COUNT]);

#endif
