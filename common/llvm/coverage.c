/*
 * The coverage mapping: see coverage.h.
 */
#include "common/llvm/coverage.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/digest.h"
#include "common/base/inflate.h"

/* Moves to the end of what has been taken, `size` bytes, and of the padding after it. */
static void skip_padded(struct bytes *section, uint64_t size)
{
    uint64_t padded = align_up(size, COVERAGE_ALIGNMENT);

    take_bytes(section, padded < section->size ? padded : section->size);
}

/* ---- units ---- */

bool covmap_take_unhashed(struct bytes *section, bool big_endian, struct covmap_unit *unit)
{
    if (!bytes_slice(*section, 0, COVMAP_HEADER_SIZE, &unit->header) ||
        !bytes_slice(*section, COVMAP_HEADER_SIZE,
                     load_u32(unit->header.data + COVMAP_FILENAMES_SIZE, big_endian),
                     &unit->filenames))
        return false;
    unit->version = load_u32(unit->header.data + COVMAP_VERSION, big_endian);
    if (unit->version < COVMAP_VERSION_4 ||
        load_u32(unit->header.data + COVMAP_RECORD_COUNT, big_endian) != 0 ||
        load_u32(unit->header.data + COVMAP_COVERAGE_SIZE, big_endian) != 0)
        return false;
    skip_padded(section, COVMAP_HEADER_SIZE + unit->filenames.size);
    return true;
}

bool covmap_take(struct bytes *section, bool big_endian, struct covmap_unit *unit)
{
    if (!covmap_take_unhashed(section, big_endian, unit))
        return false;
    unit->reference = md5_name_reference(unit->filenames);
    return true;
}

bool covmap_append(struct buffer *section, uint32_t version, struct bytes filenames,
                   bool big_endian)
{
    uint8_t header[COVMAP_HEADER_SIZE] = {0};

    store_u32(header + COVMAP_FILENAMES_SIZE, (uint32_t)filenames.size, big_endian);
    store_u32(header + COVMAP_VERSION, version, big_endian);
    buffer_append(section, header, sizeof(header));
    return buffer_append(section, filenames.data, (size_t)filenames.size);
}

/* Splits a text of names, each after its size. */
static enum result split_names(struct covmap_names *names, struct bytes text, uint64_t count,
                               uint64_t limit)
{
    if (count > text.size)
        return RESULT_UNFIT;
    if (count > limit / sizeof(*names->names))
        return RESULT_OVER_LIMIT;
    if (!array_make_room(&names->names, &names->capacity, 0, (size_t)count, sizeof(*names->names)))
        return RESULT_NO_MEMORY;
    while (names->count < count) {
        struct bytes *name = &names->names[names->count];

        if (!bytes_take_uleb128(&text, &name->size) || !bytes_slice(text, 0, name->size, name))
            return RESULT_UNFIT;
        take_bytes(&text, name->size);
        names->count++;
    }
    return text.size == 0 ? RESULT_OK : RESULT_UNFIT;
}

enum result covmap_names_read(struct covmap_names *names, struct bytes filenames, uint64_t limit)
{
    uint64_t count, size, stored;
    enum result result;

    names->count = 0;
    names->text.size = 0;
    if (!bytes_take_uleb128(&filenames, &count) || !bytes_take_uleb128(&filenames, &size) ||
        !bytes_take_uleb128(&filenames, &stored) || filenames.size != (stored != 0 ? stored : size))
        return RESULT_UNFIT;
    if (stored == 0)
        return split_names(names, filenames, count, limit);
    if (size > limit)
        return RESULT_OVER_LIMIT;
    result = inflate_exactly(filenames, size, &names->text);
    if (result != RESULT_OK)
        return result;
    return split_names(names, buffer_view(&names->text), count, limit);
}

void covmap_names_free(struct covmap_names *names)
{
    buffer_free(&names->text);
    free(names->names);
    *names = (struct covmap_names){0};
}

/* ---- paths ---- */

/* "C:", as at the beginning of a Windows path. */
static bool has_drive(struct bytes name)
{
    uint8_t letter = name.size > 1 && name.data[1] == ':' ? name.data[0] | 0x20 : 0;

    return letter >= 'a' && letter <= 'z';
}

static bool is_separator(uint8_t byte, bool is_windows)
{
    return byte == '/' || (is_windows && byte == '\\');
}

static bool is_absolute(struct bytes name, bool is_windows)
{
    return name.size != 0 && (is_separator(name.data[0], is_windows) || has_drive(name));
}

/* Removes the last part of the path for a "..", which disappears at the root. False if there is no
 * part that it can remove, so that it stays. */
static bool remove_last(struct buffer *path, size_t root)
{
    size_t size = path->size;

    if (root != 0 && size == root)
        return true;
    while (size > root && path->data[size - 1] != '/')
        size--;
    if (path->size == 0 || (path->size - size == 2 && memcmp(path->data + size, "..", 2) == 0))
        return false;
    path->size = size > root ? size - 1 : root;
    return true;
}

/* Appends the parts of a path without "." and "..", behind the first `root` bytes. */
static void append_parts(struct buffer *path, size_t root, struct bytes name, bool is_windows)
{
    while (name.size != 0) {
        const char *part = (const char *)name.data;
        size_t size = 0;
        bool goes_up;

        while (size < name.size && !is_separator(name.data[size], is_windows))
            size++;
        goes_up = size == 2 && memcmp(part, "..", 2) == 0;
        if (size != 0 && !(size == 1 && part[0] == '.') && !(goes_up && remove_last(path, root))) {
            if (path->size > root)
                buffer_append(path, "/", 1);
            buffer_append(path, part, size);
        }
        take_bytes(&name, size < name.size ? size + 1 : size);
    }
}

bool covmap_path(struct bytes directory, struct bytes name, bool is_windows, struct buffer *scratch,
                 struct bytes *path)
{
    struct bytes first;
    size_t root = 0;

    is_windows |= has_drive(name) || has_drive(directory);
    first = is_absolute(name, is_windows) ? name : directory;
    scratch->size = 0;
    if (has_drive(first)) {
        buffer_append(scratch, first.data, 2);
        take_bytes(&first, 2);
    }
    if (first.size != 0 && is_separator(first.data[0], is_windows))
        buffer_append(scratch, "/", 1);
    root = scratch->size;
    append_parts(scratch, root, first, is_windows);
    if (!is_absolute(name, is_windows))
        append_parts(scratch, root, name, is_windows);
    *path = scratch->size == 0 ? name : buffer_view(scratch);
    return !scratch->failed;
}

/* True if llvm-cov has this path for the name without being told. */
static bool is_natural(struct bytes directory, struct bytes name, struct bytes path)
{
    struct bytes end;

    if (directory.size == 0 || (name.size != 0 && name.data[0] == '/'))
        return bytes_equal(name, path);
    return path.size == directory.size + 1 + name.size &&
           memcmp(path.data, directory.data, (size_t)directory.size) == 0 &&
           path.data[directory.size] == '/' &&
           bytes_slice(path, directory.size + 1, name.size, &end) && bytes_equal(end, name);
}

bool covmap_names_rename(const struct covmap_names *names, uint32_t version, bool is_windows,
                         const struct covmap_renamer *renamer, struct buffer *encoded)
{
    bool has_directory = version >= COVMAP_VERSION_6 && names->count != 0, is_any = false;
    struct bytes directory = has_directory ? names->names[0] : (struct bytes){0};
    struct buffer joined = {0}, text = {0};
    bool done = true;

    /* Paths that are whole need no directory. */
    if (has_directory)
        buffer_append_uleb128(&text, 0);
    for (size_t i = has_directory; done && i < names->count; i++) {
        struct bytes path;

        done = covmap_path(directory, names->names[i], is_windows, &joined, &path) &&
               renamer->rename(renamer->context, path, &path);
        is_any |= done && !is_natural(directory, names->names[i], path);
        buffer_append_uleb128(&text, done ? path.size : 0);
        buffer_append(&text, path.data, done ? (size_t)path.size : 0);
    }
    if (done && is_any) {
        buffer_append_uleb128(encoded, names->count);
        buffer_append_uleb128(encoded, text.size);
        buffer_append_uleb128(encoded, 0); /* not compressed */
        buffer_append(encoded, text.data, text.size);
    }
    done = done && !text.failed && !encoded->failed;
    buffer_free(&joined);
    buffer_free(&text);
    return done;
}

/* ---- records of functions ---- */

bool covfun_take(struct bytes *section, bool big_endian, struct covfun_record *record)
{
    const uint8_t *header = section->data;

    if (section->size < COVFUN_HEADER_SIZE ||
        !bytes_slice(*section, COVFUN_HEADER_SIZE, covfun_mapping_size(header, big_endian),
                     &record->mapping))
        return false;
    record->name_reference = load_u64(header + COVFUN_NAME_REF, big_endian);
    record->function_hash = load_u64(header + COVFUN_FUNC_HASH, big_endian);
    record->filenames_reference = load_u64(header + COVFUN_FILENAMES_REF, big_endian);
    record->whole = (struct bytes){header, COVFUN_HEADER_SIZE + record->mapping.size};
    skip_padded(section, record->whole.size);
    return true;
}

void covfun_store_header(uint8_t to[COVFUN_HEADER_SIZE], const struct covfun_record *record,
                         bool big_endian)
{
    store_u64(to + COVFUN_NAME_REF, record->name_reference, big_endian);
    store_u32(to + COVFUN_DATA_SIZE, (uint32_t)record->mapping.size, big_endian);
    store_u64(to + COVFUN_FUNC_HASH, record->function_hash, big_endian);
    store_u64(to + COVFUN_FILENAMES_REF, record->filenames_reference, big_endian);
}

bool covfun_append(struct buffer *section, const struct covfun_record *record, bool big_endian)
{
    uint8_t header[COVFUN_HEADER_SIZE];

    covfun_store_header(header, record, big_endian);
    buffer_append(section, header, sizeof(header));
    return buffer_append(section, record->mapping.data, (size_t)record->mapping.size);
}

/* The eight hexadecimal digits of a number, the first one in the lowest byte. */
static uint64_t hexadecimal(uint32_t number)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t digits = number;

    digits = (digits << 32 | digits >> 16) & UINT64_C(0x0000ffff0000ffff);
    digits = (digits << 16 | digits >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    digits = (digits << 8 | digits >> 4) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    /* Those from 10 on are letters. */
    return digits + ones * '0' + ((digits + ones * 6) >> 4 & ones) * ('A' - '0' - 10);
}

size_t covfun_symbol_length(uint64_t name_reference)
{
    return COVFUN_SYMBOL_SIZE - 1 - (size_t)__builtin_clzll(name_reference | 1) / 4;
}

size_t covfun_format_symbol(char name[COVFUN_SYMBOL_SIZE], uint64_t name_reference)
{
    static const char start[] = "__covrec_";
    size_t length = covfun_symbol_length(name_reference), front = sizeof(start) - 1;
    uint8_t digits[2 * 16] = {0}; /* so that the same number of bytes is copied always */

    store_u64(digits, hexadecimal((uint32_t)(name_reference >> 32)), false);
    store_u64(digits + 8, hexadecimal((uint32_t)name_reference), false);
    memcpy(name, start, front);
    memcpy(name + front, digits + (COVFUN_SYMBOL_SIZE - 1 - length), 16);
    name[length - 1] = 'u';
    name[length] = '\0';
    return length;
}

bool covfun_read_files(const struct covfun_record *record, struct covfun_files *files)
{
    const uint8_t *data = record->mapping.data;
    uint64_t number;

    /* Nearly all mappings have one file, with a small number. */
    if (record->mapping.size >= 2 && data[0] == 1 && data[1] < 0x80) {
        files->count = 1;
        files->numbers = (struct bytes){data + 1, 1};
        files->rest = (struct bytes){data + 2, record->mapping.size - 2};
        return true;
    }
    files->rest = record->mapping;
    if (!bytes_take_uleb128(&files->rest, &files->count) || files->count > files->rest.size)
        return false;
    files->numbers = files->rest;
    for (uint64_t i = 0; i < files->count; i++) {
        if (!bytes_take_uleb128(&files->rest, &number))
            return false;
    }
    files->numbers.size -= files->rest.size;
    return true;
}

bool covfun_tell_dummy(const struct covfun_record *record, bool *is_dummy)
{
    struct bytes rest = record->mapping;
    uint64_t files, file, expressions, regions, counter;

    *is_dummy = false;
    if (record->function_hash != 0)
        return true;
    if (!bytes_take_uleb128(&rest, &files))
        return false;
    if (files != 1)
        return true;
    if (!bytes_take_uleb128(&rest, &file) || !bytes_take_uleb128(&rest, &expressions))
        return false;
    if (expressions != 0)
        return true;
    if (!bytes_take_uleb128(&rest, &regions))
        return false;
    if (regions != 1)
        return true;
    if (!bytes_take_uleb128(&rest, &counter))
        return false;
    *is_dummy = COUNTER_TAG(counter) == COUNTER_ZERO;
    return true;
}

/* ---- the mapping of one function ---- */

/* In the header of a region without a counter, the tag is zero, and this bit tells whether the bits
 * above it are an expanded file or a kind. */
#define EXPANSION_BIT   4
#define KIND_SHIFT      3
#define SKIPPED_HEADER  2
#define BRANCH_HEADER   4
#define DECISION_HEADER 5
#define MCDC_HEADER     6

#define GAP_BIT         UINT32_C(0x80000000)

/* ---- arrays ---- */

void mapping_clear(struct mapping *mapping)
{
    mapping->file_count = mapping->expression_count = mapping->region_count = 0;
}

void mapping_free(struct mapping *mapping)
{
    free(mapping->files);
    free(mapping->region_counts);
    free(mapping->expressions);
    free(mapping->regions);
    *mapping = (struct mapping){0};
}

bool mapping_add_file(struct mapping *mapping, uint32_t name)
{
    size_t capacity = mapping->file_capacity;

    if (!array_make_room(&mapping->region_counts, &capacity, mapping->file_count, 1,
                         sizeof(*mapping->region_counts)) ||
        !array_make_room(&mapping->files, &mapping->file_capacity, mapping->file_count, 1,
                         sizeof(*mapping->files)))
        return false;
    mapping->region_counts[mapping->file_count] = 0;
    mapping->files[mapping->file_count++] = name;
    return true;
}

bool mapping_reserve_regions(struct mapping *mapping, size_t count)
{
    return array_make_room(&mapping->regions, &mapping->region_capacity, mapping->region_count,
                           count, sizeof(*mapping->regions));
}

/* ---- reading ---- */

/* The unread rest of a mapping. */
struct reader {
    const uint8_t *at, *end;
};

static bool take_long(struct reader *reader, uint32_t *number)
{
    struct bytes left = {reader->at, (uint64_t)(reader->end - reader->at)};
    uint64_t value;

    if (!bytes_take_uleb128(&left, &value) || value > UINT32_MAX ||
        left.data != reader->at + uleb128_size(value))
        return false;
    reader->at = left.data;
    *number = (uint32_t)value;
    return true;
}

/* Reads a number, which must be in its shortest form and fit 32 bits. */
static inline bool take_number(struct reader *reader, uint32_t *number)
{
    const uint8_t *at = reader->at;

    if (at != reader->end && at[0] < 0x80) {
        *number = at[0];
        reader->at++;
        return true;
    }
    if (reader->end - at >= 2 && at[1] != 0 && at[1] < 0x80) {
        *number = (at[0] & 0x7fu) | (uint32_t)at[1] << 7;
        reader->at += 2;
        return true;
    }
    return take_long(reader, number);
}

/* Reads the count of the following elements, which have at least `size` bytes each. */
static bool take_count(struct reader *reader, unsigned size, uint32_t *count)
{
    return take_number(reader, count) && *count <= (uint64_t)(reader->end - reader->at) / size;
}

static bool take_kind(uint32_t header, struct region *region)
{
    if (COUNTER_TAG(header) != COUNTER_ZERO) {
        region->kind = REGION_CODE;
        region->operands[0] = header;
        return true;
    }
    if ((header & EXPANSION_BIT) != 0) {
        region->kind = REGION_EXPANSION;
        region->operands[0] = header >> KIND_SHIFT;
        return true;
    }
    switch (header >> KIND_SHIFT) {
    case 0:
        region->kind = REGION_ZERO;
        return true;
    case SKIPPED_HEADER:
        region->kind = REGION_SKIPPED;
        return true;
    case BRANCH_HEADER:
        region->kind = REGION_BRANCH;
        return true;
    case DECISION_HEADER:
        region->kind = REGION_DECISION;
        return true;
    case MCDC_HEADER:
        region->kind = REGION_MCDC_BRANCH;
        return true;
    default:
        return false;
    }
}

static inline bool take_region(struct reader *reader, struct region *region)
{
    uint32_t header;

    *region = (struct region){0};
    if (!take_number(reader, &header) || !take_kind(header, region))
        return false;
    if (region->kind >= REGION_BRANCH) {
        for (unsigned i = 0; i < region_operands(region->kind); i++) {
            if (!take_number(reader, &region->operands[i]))
                return false;
        }
    }
    if (!take_number(reader, &region->line) || !take_number(reader, &region->column) ||
        !take_number(reader, &region->num_lines) || !take_number(reader, &region->column_end))
        return false;
    region->is_gap = (region->column_end & GAP_BIT) != 0;
    region->column_end &= ~GAP_BIT;
    return true;
}

static enum result take_files(struct mapping *mapping, struct reader *reader)
{
    uint32_t count, name;

    if (!take_count(reader, 1, &count) || count > MAPPING_COUNT_MAX)
        return RESULT_UNFIT;
    for (uint32_t i = 0; i < count; i++) {
        if (!take_number(reader, &name))
            return RESULT_UNFIT;
        if (!mapping_add_file(mapping, name))
            return RESULT_NO_MEMORY;
    }
    return RESULT_OK;
}

static enum result take_expressions(struct mapping *mapping, struct reader *reader)
{
    uint32_t count;

    if (!take_count(reader, 2, &count))
        return RESULT_UNFIT;
    if (!array_make_room(&mapping->expressions, &mapping->expression_capacity, 0, count,
                         sizeof(*mapping->expressions)))
        return RESULT_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        if (!take_number(reader, &mapping->expressions[i].left) ||
            !take_number(reader, &mapping->expressions[i].right))
            return RESULT_UNFIT;
    }
    mapping->expression_count = count;
    return RESULT_OK;
}

static enum result take_regions(struct mapping *mapping, struct reader *reader)
{
    for (size_t file = 0; file < mapping->file_count; file++) {
        uint32_t *count = &mapping->region_counts[file];

        if (!take_count(reader, REGION_SIZE_MIN, count) ||
            mapping->region_count + *count > MAPPING_COUNT_MAX)
            return RESULT_UNFIT;
        if (!mapping_reserve_regions(mapping, *count))
            return RESULT_NO_MEMORY;
        for (uint32_t i = 0; i < *count; i++) {
            if (!take_region(reader, &mapping->regions[mapping->region_count++]))
                return RESULT_UNFIT;
        }
    }
    return RESULT_OK;
}

enum result mapping_read(struct mapping *mapping, struct bytes bytes)
{
    const uint8_t *end = bytes.size == 0 ? bytes.data : bytes.data + bytes.size;
    struct reader reader = {bytes.data, end};
    enum result result;

    mapping_clear(mapping);
    result = take_files(mapping, &reader);
    if (result == RESULT_OK)
        result = take_expressions(mapping, &reader);
    if (result == RESULT_OK)
        result = take_regions(mapping, &reader);
    if (result == RESULT_OK && reader.at != reader.end)
        result = RESULT_UNFIT;
    return result;
}

enum result covfun_tell_unused(struct mapping *mapping, const struct covfun_record *record,
                               bool *is_unused)
{
    enum result result;

    *is_unused = false;
    if (record->function_hash != 0)
        return RESULT_OK;
    result = mapping_read(mapping, record->mapping);
    if (result != RESULT_OK)
        return result;
    for (size_t i = 0; i < mapping->region_count; i++) {
        const struct region *region = &mapping->regions[i];

        for (unsigned k = 0; k < region_counters(region->kind); k++) {
            if (COUNTER_TAG(region->operands[k]) != COUNTER_ZERO)
                return RESULT_OK;
        }
    }
    *is_unused = true;
    return RESULT_OK;
}

/* ---- writing ---- */

#define REGION_SIZE_MAX ((1 + REGION_OPERANDS_MAX + 4) * NUMBER_32_SIZE_MAX)

/* The first number of a region: bits that tell the kind, and for some kinds the first operand. */
static inline uint32_t header_of(const struct region *region)
{
    static const struct {
        uint32_t mask;
        uint8_t shift, bits;
    } headers[REGION_KINDS] = {
        [REGION_CODE] = {UINT32_MAX, 0, 0},
        [REGION_EXPANSION] = {UINT32_MAX, KIND_SHIFT, EXPANSION_BIT},
        [REGION_SKIPPED] = {0, 0, SKIPPED_HEADER << KIND_SHIFT},
        [REGION_BRANCH] = {0, 0, BRANCH_HEADER << KIND_SHIFT},
        [REGION_DECISION] = {0, 0, DECISION_HEADER << KIND_SHIFT},
        [REGION_MCDC_BRANCH] = {0, 0, MCDC_HEADER << KIND_SHIFT},
    };
    unsigned kind = region->kind;

    return (region->operands[0] & headers[kind].mask) << headers[kind].shift | headers[kind].bits;
}

/* Writes a region's source range. Its four numbers usually take one byte each, but the last has
 * GAP_BIT set if the region is a gap, and is longer then. Which regions are gaps is unpredictable,
 * so there is no branch for that: the bytes for the bit are always written, and kept or
 * overwritten. */
static inline uint8_t *put_place(uint8_t *to, const struct region *region)
{
    /* In LEB128: three bytes without bits of the number, then bit 31 in the fifth byte. */
    const uint32_t gap_bytes = UINT32_C(0x08808080);
    uint32_t is_gap = region->is_gap;

    if ((region->line | region->column | region->num_lines | region->column_end) < 0x80) {
        store_u32(to,
                  region->line | region->column << 8 | region->num_lines << 16 |
                      (region->column_end | is_gap << 7) << 24,
                  false);
        store_u32(to + 4, gap_bytes, false);
        return to + 4 + 4 * is_gap;
    }
    to = uleb128_put_32(to, region->line);
    to = uleb128_put_32(to, region->column);
    to = uleb128_put_32(to, region->num_lines);
    return uleb128_put_32(to, region->column_end | is_gap << 31);
}

static inline uint8_t *put_region(uint8_t *to, const struct region *region)
{
    to = uleb128_put_32(to, header_of(region));
    if (region->kind >= REGION_BRANCH) {
        for (unsigned i = 0; i < region_operands(region->kind); i++)
            to = uleb128_put_32(to, region->operands[i]);
    }
    return put_place(to, region);
}

bool mapping_write_files(const struct mapping *mapping, struct buffer *bytes)
{
    uint8_t *to;

    if (!buffer_reserve(bytes, (1 + mapping->file_count) * NUMBER_32_SIZE_MAX))
        return false;
    to = uleb128_put_32(bytes->data + bytes->size, (uint32_t)mapping->file_count);
    for (size_t i = 0; i < mapping->file_count; i++)
        to = uleb128_put_32(to, mapping->files[i]);
    bytes->size = (size_t)(to - bytes->data);
    return true;
}

/* The number of regions written at once, after making room for the longest ones possible. */
#define REGIONS_AT_ONCE 256

static bool write_regions(const struct region *regions, size_t count, struct buffer *bytes)
{
    uint8_t *to;

    if (!buffer_reserve(bytes, count * REGION_SIZE_MAX))
        return false;
    to = bytes->data + bytes->size;
    for (size_t i = 0; i < count; i++)
        to = put_region(to, &regions[i]);
    bytes->size = (size_t)(to - bytes->data);
    return true;
}

bool mapping_write_regions(const struct mapping *mapping, struct buffer *bytes)
{
    const struct region *region = mapping->regions;

    for (size_t file = 0; file < mapping->file_count; file++) {
        size_t left = mapping->region_counts[file];

        if (!buffer_append_uleb128(bytes, left))
            return false;
        while (left != 0) {
            size_t count = left < REGIONS_AT_ONCE ? left : REGIONS_AT_ONCE;

            if (!write_regions(region, count, bytes))
                return false;
            region += count;
            left -= count;
        }
    }
    return true;
}
