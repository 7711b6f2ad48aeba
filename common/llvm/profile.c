/*
 * Reading raw profiles: see profile.h. What differs between the versions is in profile_layout.c.
 */
#include "common/llvm/profile.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/base/cursor.h"
#include "common/llvm/names.h"
#include "common/llvm/tripwire.h"

/* The magic number, most significant byte first. The sixth letter tells the pointer size ('r': 64
 * bits, 'R': 32) or the kind ('i': an indexed profile). */
#define MAGIC(letter)                                                                              \
    (UINT64_C(255) << 56 | (uint64_t)'l' << 48 | (uint64_t)'p' << 40 | (uint64_t)'r' << 32 |       \
     (uint64_t)'o' << 24 | (uint64_t)'f' << 16 | (uint64_t)(letter) << 8 | UINT64_C(129))
#define RAW_MAGIC_64  MAGIC('r')
#define RAW_MAGIC_32  MAGIC('R')
#define INDEXED_MAGIC MAGIC('i')

/* The version of an indexed profile from which on it has binary IDs: LLVM 16. */
#define INDEXED_VERSION_BINARY_IDS 9

/* TotalSize and NumValueKinds, 32 bits each, at the start of each block of value profile data. */
#define VALUE_DATA_HEADER_SIZE 8

/* ---- recognizing ---- */

/* Determines pointer size and byte order from the magic number. */
static bool read_magic(struct bytes bytes, bool *is_64_bit, bool *big_endian)
{
    if (bytes.size < sizeof(uint64_t))
        return false;
    for (int big = 0; big < 2; big++) {
        uint64_t magic = load_u64(bytes.data, big != 0);

        if (magic == RAW_MAGIC_64 || magic == RAW_MAGIC_32) {
            *is_64_bit = magic == RAW_MAGIC_64;
            *big_endian = big != 0;
            return true;
        }
    }
    return false;
}

bool profile_recognize(struct bytes bytes)
{
    bool is_64_bit, big_endian;

    return read_magic(bytes, &is_64_bit, &big_endian);
}

uint64_t profile_magic(bool is_64_bit)
{
    return is_64_bit ? RAW_MAGIC_64 : RAW_MAGIC_32;
}

bool profile_recognize_indexed(struct bytes bytes)
{
    /* The indexed format's magic has its bytes in the order of the letters on every machine. */
    return bytes.size >= sizeof(uint64_t) && load_u64(bytes.data, true) == INDEXED_MAGIC;
}

bool profile_find_next(struct bytes file, uint64_t *offset)
{
    uint64_t end = file.size;

    if (*offset < end && end - *offset > PROFILE_GAP_MAX)
        end = *offset + PROFILE_GAP_MAX;
    while (*offset < end && end - *offset >= sizeof(uint64_t) &&
           load_u64(file.data + *offset, false) == 0)
        *offset += sizeof(uint64_t);
    while (*offset < end && file.data[*offset] == 0)
        ++*offset;
    return *offset < file.size;
}

/* ---- profiles that are cut short ---- */

/* Sets the error. At least `missing` more bytes would have to be there; `whole` is the size of the
 * profile, 0 if it is not known. Returns false. */
static bool cut_short(struct profile *profile, const char *name, const char *part, uint64_t missing,
                      uint64_t whole, struct error *error)
{
    char where[64] = "", of[64] = "";

    profile->missing = missing;
    if (profile->offset != 0)
        snprintf(where, sizeof(where), "the profile at byte %" PRIu64 " is ", profile->offset);
    if (whole != 0)
        snprintf(of, sizeof(of), " of its %" PRIu64 " bytes", whole);
    return error_set(error, "%s: %scut short in its %s: %s%" PRIu64 "%s %s missing; %s", name,
                     where, part, whole != 0 ? "" : "at least ", missing,
                     whole != 0     ? of
                     : missing == 1 ? " byte"
                                    : " bytes",
                     missing == 1 ? "is" : "are", PROFILE_CUT_REMEDY);
}

/* ---- the header ---- */

/* Says what the bytes are that do not begin with the magic number of a raw profile. */
static bool report_no_magic(struct bytes bytes, const char *name, struct profile *profile,
                            struct error *error)
{
    static const uint64_t magics[] = {RAW_MAGIC_64, RAW_MAGIC_32};
    uint8_t magic[sizeof(uint64_t)];

    if (bytes.size != 0 && bytes.data[0] == 0)
        return error_set(error,
                         "%s: more than %d MiB of zeros where a profile should begin; cut them off "
                         "or run the program again",
                         name, PROFILE_GAP_MAX >> 20);
    for (size_t i = 0; i < 4 && bytes.size != 0 && bytes.size < sizeof(magic); i++) {
        store_u64(magic, magics[i / 2], i % 2 != 0);
        if (memcmp(magic, bytes.data, (size_t)bytes.size) == 0)
            return cut_short(profile, name, "header", 2 * sizeof(magic) - bytes.size, 0, error);
    }
    if (profile_recognize_indexed(bytes))
        return error_set(error,
                         "%s: an indexed profile, which needs no sidecar; merge it with "
                         "llvm-profdata",
                         name);
    if (profile->offset != 0)
        return error_set(error,
                         "%s: what begins at byte %" PRIu64 ", after a profile, is not a raw "
                         "profile; " PROFILE_CUT_REMEDY,
                         name, profile->offset);
    return error_set(error, "%s: not a raw profile; give a file that an instrumented program wrote",
                     name);
}

/* Reads the words that the version has, as they come. */
static bool read_header(struct bytes bytes, const char *name, struct profile *profile,
                        struct error *error)
{
    const struct profile_header *header = &profile->header;
    struct cursor cursor;

    if (!read_magic(bytes, &profile->is_64_bit, &profile->big_endian))
        return report_no_magic(bytes, name, profile, error);
    cursor = cursor_open(bytes, profile->big_endian, true);
    cursor_skip(&cursor, sizeof(uint64_t));
    profile->version = PROFILE_VERSION(cursor_u64(&cursor));
    if (cursor.bad)
        return cut_short(profile, name, "header", 2 * sizeof(uint64_t) - bytes.size, 0, error);
    if (profile->version < PROFILE_VERSION_MIN || profile->version > PROFILE_VERSION_MAX)
        return error_set(error,
                         "%s: " PROFILE_VERSION_UNKNOWN
                         "; use the LLVM tools that belong to the compiler",
                         name, profile->version, PROFILE_VERSION_MIN, PROFILE_VERSION_MAX);
    profile->size = profile_header_size(profile->version);
    cursor = cursor_open(bytes, profile->big_endian, true);
    for (size_t i = 0; i < PROFILE_HEADER_WORD_COUNT; i++) {
        uint64_t value;

        if (profile->version < profile_header_words[i].since)
            continue;
        value = cursor_u64(&cursor);
        memcpy((char *)&profile->header + profile_header_words[i].offset, &value, sizeof(value));
    }
    if (cursor.bad)
        return cut_short(profile, name, "header", profile->size - bytes.size, 0, error);
    /* Uniform counters would have to be summed and correlated like counters. They are refused,
     * since no image that writes such profiles can be split. */
    if (header->num_uniform_counters != 0)
        return error_set(error,
                         "%s: has %" PRIu64 " uniform counters, as only a GPU's code does, which "
                         "covsplit does not support; use LLVM's tools on the profile itself",
                         name, header->num_uniform_counters);
    profile_record_layout(header->version, profile->is_64_bit ? 8 : 4, &profile->layout);
    /* LLVM's reader goes by the version alone, and profiles that were made by hand say 0. */
    return header->value_kind_last < profile->layout.value_kinds ||
           error_set(error,
                     "%s: its last value kind is %" PRIu64 ", but covsplit knows only 0 to %zu of "
                     "version %u; use LLVM's tools on the profile itself",
                     name, header->value_kind_last, profile->layout.value_kinds - 1,
                     profile->version);
}

bool profile_measure(struct bytes file, uint64_t offset, const char *name, struct profile *profile,
                     uint64_t *size, struct error *error)
{
    struct profile_part parts[PROFILE_PART_COUNT];
    struct bytes bytes = {0};

    *profile = (struct profile){.offset = offset};
    bytes_slice(file, offset, file.size - offset, &bytes);
    if (!read_header(bytes, name, profile, error))
        return false;
    profile_list_parts(profile, parts);
    *size = profile->size;
    for (size_t i = 0; i < PROFILE_PART_COUNT; i++) {
        uint64_t part;

        if (__builtin_mul_overflow(parts[i].count, parts[i].item_size, &part) ||
            !add_fits(*size, part, size))
            return error_set(error,
                             "%s: damaged: the sizes in its header are impossible; run the "
                             "program again",
                             name);
    }
    return true;
}

/* ---- binary IDs ---- */

bool profile_take_binary_id(const struct profile *profile, struct bytes *rest,
                            struct bytes *binary_id)
{
    struct bytes after;
    uint64_t length, stored;

    if (rest->size < sizeof(uint64_t))
        return false;
    length = load_u64(rest->data, profile->big_endian);
    if (length == 0 || !bytes_slice(*rest, sizeof(uint64_t), length, binary_id))
        return false;
    stored = sizeof(uint64_t) + length;
    if (profile->version >= PROFILE_VERSION_PADDED_BINARY_IDS)
        stored = align_up(stored, sizeof(uint64_t));
    if (stored > rest->size || !bytes_slice(*rest, stored, rest->size - stored, &after))
        return false;
    *rest = after;
    return true;
}

/* The header is words of 64 bits, little-endian on every machine: magic, version, one that is not
 * used, two about the hash table, the offset of memory profiles, and that of the binary IDs. */
void profile_open_indexed(struct profile *profile, struct bytes bytes)
{
    struct cursor header = cursor_open(bytes, false, true), ids = header;
    unsigned version;

    *profile = (struct profile){.version = PROFILE_VERSION_PADDED_BINARY_IDS};
    cursor_skip(&header, sizeof(uint64_t));
    version = PROFILE_VERSION(cursor_u64(&header));
    cursor_skip(&header, 4 * sizeof(uint64_t));
    cursor_skip(&ids, cursor_u64(&header));
    if (version >= INDEXED_VERSION_BINARY_IDS && !header.bad)
        profile->binary_ids = cursor_bytes(&ids, cursor_u64(&ids));
}

bool profile_next_uuid(struct profile_uuids *uuids, struct uuid *uuid,
                       enum profile_uuid_source *source)
{
    const struct profile *profile = uuids->profile;
    struct bytes binary_id;
    bool is_prefix;

    *uuid = (struct uuid){.size = 0};
    if (uuids->last == PROFILE_UUID_NONE) {
        uuids->rest = profile->binary_ids;
        uuids->last = *source = PROFILE_UUID_TRIPWIRE;
        if (tripwire_read_uuid(profile->names, uuid, &is_prefix) && !is_prefix) {
            uuids->last = PROFILE_UUID_STUB; /* this is the whole UUID, so there are no others */
            return true;
        }
    }
    while (uuids->last != PROFILE_UUID_STUB &&
           profile_take_binary_id(profile, &uuids->rest, &binary_id)) {
        uuids->last = *source = PROFILE_UUID_BINARY_ID;
        *uuid = (struct uuid){.size = (size_t)binary_id.size};
        if (binary_id.size > UUID_SIZE_MAX)
            continue;
        memcpy(uuid->bytes, binary_id.data, uuid->size);
        return true;
    }
    *uuid = (struct uuid){.size = 0};
    *source = PROFILE_UUID_NONE;
    if (uuids->last == PROFILE_UUID_STUB || !profile->lightweight)
        return false;
    uuids->last = *source = PROFILE_UUID_STUB;
    uuid->size = UUID_STUB_SIZE;
    memcpy(uuid->bytes, profile->stub_id, uuid->size);
    return true;
}

struct uuid profile_uuid(const struct profile *profile, enum profile_uuid_source *source)
{
    struct profile_uuids uuids = {.profile = profile};
    struct uuid uuid;

    profile_next_uuid(&uuids, &uuid, source);
    return uuid;
}

bool profile_has_no_uuid(const struct profile *profile, const char *name, struct error *error)
{
    return error_set(error, "%s: does not tell which image wrote it%s", name,
                     profile->header.num_data != 0
                         ? "; give --sidecar"
                         : " (one built with -profile-correlate); give --sidecar, or run "
                           "'llvm-profdata merge --binary-file=IMAGE' on it");
}

/* ---- value data and the stub ---- */

/* The header does not give the size of the value profile data: there is a block for each record
 * with value sites, and each block begins with its size. In continuous mode the runtime writes
 * none. */
static bool place_value_data(struct bytes bytes, const char *name, struct profile *profile,
                             struct error *error)
{
    static const char value_part[] = "value profile data";
    uint64_t start = profile->size;
    struct bytes block;

    for (uint64_t i = 0; i < profile->header.num_data; i++) {
        const uint8_t *record = profile->data.data + i * profile->layout.record_size;
        uint64_t size;

        if (!profile_record_has_value_sites(&profile->layout, record, profile->big_endian))
            continue;
        profile->lacks_value_data = start == bytes.size;
        if (profile->lacks_value_data)
            break;
        if (!bytes_slice(bytes, profile->size, VALUE_DATA_HEADER_SIZE, &block))
            return cut_short(profile, name, value_part,
                             profile->size + VALUE_DATA_HEADER_SIZE - bytes.size, 0, error);
        size = load_u32(block.data, profile->big_endian);
        if (size < VALUE_DATA_HEADER_SIZE || size % sizeof(uint64_t) != 0)
            return error_set(error, "%s: damaged in its %s; run the program again", name,
                             value_part);
        if (!bytes_slice(bytes, profile->size, size, &block))
            return cut_short(profile, name, value_part, profile->size + size - bytes.size, 0,
                             error);
        profile->size += size;
    }
    profile->value_data = (struct bytes){bytes.data + start, profile->size - start};
    return true;
}

/* True if a binary ID agrees with the stub's UUID. */
static bool stub_matches_binary_id(const struct profile *profile)
{
    struct bytes rest = profile->binary_ids;
    struct bytes binary_id;

    while (profile_take_binary_id(profile, &rest, &binary_id)) {
        uint8_t start[UUID_STUB_SIZE] = {0};

        memcpy(start, binary_id.data,
               binary_id.size < sizeof(start) ? (size_t)binary_id.size : sizeof(start));
        if (memcmp(start, profile->stub_id, sizeof(start)) == 0)
            return true;
    }
    return false;
}

static uint64_t load_pointer(const struct profile *profile, const uint8_t *from)
{
    return profile->is_64_bit ? load_u64(from, profile->big_endian)
                              : load_u32(from, profile->big_endian);
}

/* Determines the skew from the place of the first record's counters, since all others follow them.
 * The distance may lack its upper half (see as_pointer), which does not matter here. */
static uint64_t find_counter_skew(const struct profile *profile)
{
    uint64_t size = profile_counter_size(profile->header.version);
    const uint8_t *record = profile->data.data;

    if (profile->header.num_data == 0 || !profile->layout.relative)
        return 0;
    return (load_pointer(profile, record + profile->layout.counter_ptr) -
            profile->header.counters_delta) %
           size;
}

struct bytes profile_whole_counters(const struct profile *profile)
{
    uint64_t size = profile_counter_size(profile->header.version);
    struct bytes whole = {profile->counters.data, 0};

    if (bytes_slice(profile->counters, profile->counter_skew,
                    profile->counters.size - profile->counter_skew, &whole))
        whole.size -= whole.size % size;
    return whole;
}

/* Sets *has if the only record belongs to a function, whose name is then among the names. If the
 * names cannot be read, sets *has to false and leaves the error to the tools that read the profile.
 * False if out of memory. */
static bool names_have_record(const struct profile *profile, const char *name, bool *has,
                              struct error *error)
{
    struct names names = {0};
    bool done = names_read(&names, profile->names, name, error);

    *has = !done || names_find(&names, load_u64(profile->data.data, profile->big_endian)) != NULL;
    names_free(&names);
    return done || !error_is_of_memory(error);
}

/* Converts a distance in the header to the size that it has in a record. (On 64-bit Windows the
 * runtime writes only the low 32 bits; the upper half is 0 in both.) */
static uint64_t as_pointer(const struct profile *profile, uint64_t distance)
{
    return profile->is_64_bit ? distance : (uint32_t)distance;
}

/* True if the only record is as the split writes it, whatever its UUID: it covers all counters and
 * all bitmap bytes, and its other fields are unused. */
static bool is_whole_stub(const struct profile *profile)
{
    const struct profile_header *header = &profile->header;
    const struct profile_record_layout *layout = &profile->layout;
    const uint8_t *record = profile->data.data;
    bool big = profile->big_endian;
    uint64_t counters =
        profile_whole_counters(profile).size / profile_counter_size(header->version);
    bool has_bitmap = layout->num_bitmap_bytes != 0 && header->num_bitmap_bytes != 0;

    return load_u32(record + layout->num_counters, big) == counters &&
           load_pointer(profile, record + layout->counter_ptr) ==
               as_pointer(profile, header->counters_delta + profile->counter_skew) &&
           (layout->num_bitmap_bytes == 0 ||
            load_u32(record + layout->num_bitmap_bytes, big) == header->num_bitmap_bytes) &&
           (!has_bitmap || load_pointer(profile, record + layout->bitmap_ptr) ==
                               as_pointer(profile, header->bitmap_delta)) &&
           profile_record_is_bare(layout, record, big);
}

/* A single record that covers all counters and bitmap bytes is the stub of a split image, or the
 * record of a program with only one function. Only a stub comes with a tripwire or without names,
 * or has the image's UUID in place of the hash of a name. If the split left the names in the image,
 * that hash may be the only difference, since not every profile has a binary ID. */
static bool detect_stub(struct profile *profile, const char *name, struct error *error)
{
    bool is_of_function = false;

    if (profile->header.num_data != 1)
        return true;
    memcpy(profile->stub_id, profile->data.data, PROFILE_STUB_ID_SIZE);
    if (!is_whole_stub(profile)) {
        profile->has_changed_stub = stub_matches_binary_id(profile);
        return true;
    }
    if (!profile_lacks_names(profile) && !stub_matches_binary_id(profile) &&
        !names_have_record(profile, name, &is_of_function, error))
        return false;
    profile->lightweight = !is_of_function;
    return true;
}

bool profile_parse(struct bytes file, uint64_t offset, const char *name, struct profile *profile,
                   struct error *error)
{
    struct profile_part parts[PROFILE_PART_COUNT];
    struct bytes bytes = {0}, rest, binary_id;
    uint64_t needed;

    bytes_slice(file, offset, file.size - offset, &bytes);
    if (!profile_measure(file, offset, name, profile, &needed, error))
        return false;
    if (needed > bytes.size)
        return cut_short(profile, name, profile_part_name(profile, bytes.size), needed - bytes.size,
                         needed, error);
    profile_list_parts(profile, parts);
    for (size_t i = 0; i < PROFILE_PART_COUNT; i++) {
        uint64_t size = parts[i].count * parts[i].item_size;

        if (parts[i].view != NULL)
            *parts[i].view = (struct bytes){bytes.data + profile->size, size};
        profile->size += size;
    }
    rest = profile->binary_ids;
    while (profile_take_binary_id(profile, &rest, &binary_id))
        continue;
    if (!bytes_all_zero(rest) || rest.size >= sizeof(uint64_t))
        return error_set(error,
                         "%s: damaged: a binary ID exceeds the space for binary IDs; run the "
                         "program again",
                         name);
    if (!place_value_data(bytes, name, profile, error))
        return false;
    profile->counter_skew = find_counter_skew(profile);
    profile->has_tripwire = tripwire_recognize(profile->names);
    return detect_stub(profile, name, error);
}

bool profile_lacks_names(const struct profile *profile)
{
    return profile->has_tripwire || (profile->names.size == 0 && profile->header.num_counters != 0);
}

bool profile_needs_debug_info(const char *name, struct error *error)
{
    return error_set(error,
                     "%s: has no records, as with an image built with "
                     "-profile-correlate=debug-info; merge it with 'llvm-profdata merge "
                     "--debug-info=IMAGE' (with =binary: --binary-file=IMAGE)",
                     name);
}

bool profile_needs_sidecar(const struct profile *profile)
{
    return profile->lightweight || profile->has_changed_stub || profile_lacks_names(profile);
}
