/*
 * The coverage mapping (LLVM's CoverageMappingFormat, versions 4 to 7): the records of its two
 * sections, and the mapping of one function.
 *
 * __llvm_covmap has a unit for each translation unit: a header and its filenames. __llvm_covfun has
 * a record for each function of each translation unit. The record names its unit by a FilenamesRef,
 * the hash of the unit's encoded filenames, and its mapping refers to these by number. Units and
 * records start at multiples of 8. All functions are as strict as LLVM's reader, or stricter.
 */
#ifndef COVSPLIT_COMMON_LLVM_COVERAGE_H
#define COVSPLIT_COMMON_LLVM_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define COVERAGE_ALIGNMENT 8

/* Compilers pad a unit, which has numbers of 4 bytes, to a multiple of that. The rest of the
 * padding is the linker's, and missing behind the last unit. Records have no padding of their own.
 */
#define COVMAP_UNIT_PADDING 4

/* The header of a unit. Up to version 3, the number and the size of records that followed were in
 * it. */
enum {
    COVMAP_RECORD_COUNT = 0,
    COVMAP_FILENAMES_SIZE = 4,
    COVMAP_COVERAGE_SIZE = 8,
    COVMAP_VERSION = 12,
    COVMAP_HEADER_SIZE = 16,
};

/* The header of a record. */
enum {
    COVFUN_NAME_REF = 0,
    COVFUN_DATA_SIZE = 8,
    COVFUN_FUNC_HASH = 12,
    COVFUN_FILENAMES_REF = 20,
    COVFUN_HEADER_SIZE = 28,
};

/* The versions as they are stored, which is one less than what they are called. Since version 6 the
 * first filename is the compilation directory, in which relative filenames are. */
#define COVMAP_VERSION_4 3
#define COVMAP_VERSION_6 5
#define COVMAP_VERSION_7 6

/* ---- units ---- */

struct covmap_unit {
    uint32_t version;       /* as it is stored */
    struct bytes header;    /* COVMAP_HEADER_SIZE bytes */
    struct bytes filenames; /* as they are encoded, after the header */
    uint64_t reference;     /* their FilenamesRef */
};

/* Takes a unit and the padding after it off the front of *section, whose rest starts at a multiple
 * of COVERAGE_ALIGNMENT. False, without a change, if there is no sound unit. */
bool covmap_take(struct bytes *section, bool big_endian, struct covmap_unit *unit);

/* The same without the reference, which takes most of the time. */
bool covmap_take_unhashed(struct bytes *section, bool big_endian, struct covmap_unit *unit);

/* Appends a unit, with filenames of less than 2^32 bytes, and without padding. False if out of
 * memory. */
bool covmap_append(struct buffer *section, uint32_t version, struct bytes filenames,
                   bool big_endian);

/* The filenames of a unit. Initialize to {0}; free with covmap_names_free. */
struct covmap_names {
    struct buffer text;
    struct bytes *names; /* in the text, or in the unit */
    size_t count, capacity;
};

/* Reads the encoded filenames, in place of what was read before. Over the limit: the text, or the
 * list, would take more than `limit` bytes. */
enum result covmap_names_read(struct covmap_names *names, struct bytes filenames, uint64_t limit);
void covmap_names_free(struct covmap_names *names);

/* The name of a source file, the same one for all ways to write it: a relative filename is in the
 * compilation directory of its unit (empty: that is not known), "." and ".." are resolved without a
 * look at the file system, as by LLVM 15 and later, and in a path of Windows '\\' is '/'.
 * `is_windows` is set for images in COFF; a path that begins with a drive is always one of Windows.
 * *path is in `scratch`, or the name itself. False if out of memory. */
bool covmap_path(struct bytes directory, struct bytes name, bool is_windows, struct buffer *scratch,
                 struct bytes *path);

/* Gives source files other names. `rename` sets *name, which may be the path itself and is used
 * before the next call. False if out of memory. */
struct covmap_renamer {
    bool (*rename)(void *context, struct bytes path, struct bytes *name);
    void *context;
};

/* Encodes the filenames of a unit with the names that the paths get; appends nothing if llvm-cov
 * has these for it anyway. False if out of memory. */
bool covmap_names_rename(const struct covmap_names *names, uint32_t version, bool is_windows,
                         const struct covmap_renamer *renamer, struct buffer *encoded);

/* ---- records of functions ---- */

struct covfun_record {
    uint64_t name_reference;      /* NameRef */
    uint64_t function_hash;       /* FuncHash */
    uint64_t filenames_reference; /* FilenamesRef */
    struct bytes mapping;
    struct bytes whole; /* header and mapping, without padding */
};

/* The size of the mapping, from the header of a record. */
static inline uint32_t covfun_mapping_size(const uint8_t *header, bool big_endian)
{
    return load_u32(header + COVFUN_DATA_SIZE, big_endian);
}

/* Takes a record and the padding after it off the front of *section, as covmap_take does. */
bool covfun_take(struct bytes *section, bool big_endian, struct covfun_record *record);

/* Writes the header of a record, with a mapping of less than 2^32 bytes. `whole` is not used. */
void covfun_store_header(uint8_t to[COVFUN_HEADER_SIZE], const struct covfun_record *record,
                         bool big_endian);

/* Appends such a record, without padding. False if out of memory. */
bool covfun_append(struct buffer *section, const struct covfun_record *record, bool big_endian);

/* Writes the name of the symbol of a function's records, and of their group: __covrec_, the NameRef
 * in hexadecimal, and "u", which those of functions that are not used lack. Returns its length,
 * which covfun_symbol_length tells, too. */
#define COVFUN_SYMBOL_SIZE sizeof("__covrec_0123456789ABCDEFu")
size_t covfun_format_symbol(char name[COVFUN_SYMBOL_SIZE], uint64_t name_reference);
size_t covfun_symbol_length(uint64_t name_reference);

/* The start of a mapping: the numbers of its files. `rest` begins with the expressions. */
struct covfun_files {
    uint64_t count;
    struct bytes numbers; /* for bytes_take_uleb128, `count` times */
    struct bytes rest;
};

bool covfun_read_files(const struct covfun_record *record, struct covfun_files *files);

/* Sets *is_dummy if the record only stands for a function that its translation unit does not use:
 * its hash is 0, and it is one region without a counter. Another record of the function replaces
 * it. False if LLVM's reader would not get as far as to tell. */
bool covfun_tell_dummy(const struct covfun_record *record, bool *is_dummy);

/* ---- the mapping of one function ("Function Record") ---- */

/* A counter as it is stored: the low bits are a tag, the others the number of a counter or of an
 * expression. */
#define COUNTER_TAG_BITS   2
#define COUNTER_TAG(ref)   ((ref)&3)
#define COUNTER_INDEX(ref) ((ref) >> COUNTER_TAG_BITS)

enum counter_tag {
    COUNTER_ZERO = 0,
    COUNTER_REFERENCE = 1,
    COUNTER_SUBTRACT = 2,
    COUNTER_ADD = 3,
};

static inline bool counter_is_expression(uint32_t counter)
{
    return COUNTER_TAG(counter) >= COUNTER_SUBTRACT;
}

/* The kind of a region. Stored in sidecars. */
enum region_kind {
    REGION_CODE = 0, /* with a counter other than zero */
    REGION_EXPANSION = 1,
    REGION_SKIPPED = 2,
    REGION_ZERO = 3, /* code that is never executed */
    REGION_BRANCH = 4,
    REGION_DECISION = 5,
    REGION_MCDC_BRANCH = 6,
};

#define REGION_KINDS        7
#define REGION_OPERANDS_MAX 5
#define REGION_COUNTERS_MAX 2

/* The minimum size of an encoded region, in bytes. */
#define REGION_SIZE_MIN 5

struct region {
    uint8_t kind; /* enum region_kind */
    bool is_gap;
    uint32_t line; /* difference to the line of the previous region in the same file */
    uint32_t column;
    uint32_t num_lines; /* how many lines after its start it ends */
    uint32_t column_end;
    /* Code: its counter. Expansion: a file. Branches: the counters of both sides, for MC/DC
     * followed by three numbers. Decision: two numbers. */
    uint32_t operands[REGION_OPERANDS_MAX];
};

/* The number of operands of a region. */
static inline unsigned region_operands(unsigned kind)
{
    static const uint8_t operands[REGION_KINDS] = {[REGION_CODE] = 1,
                                                   [REGION_EXPANSION] = 1,
                                                   [REGION_BRANCH] = 2,
                                                   [REGION_DECISION] = 2,
                                                   [REGION_MCDC_BRANCH] = 5};
    return operands[kind];
}

/* The number of counters among these, which come first. */
static inline unsigned region_counters(unsigned kind)
{
    static const uint8_t counters[REGION_KINDS] = {
        [REGION_CODE] = 1, [REGION_BRANCH] = 2, [REGION_MCDC_BRANCH] = 2};
    return counters[kind];
}

struct expression {
    uint32_t left, right; /* counters */
};

/* The most files, and the most regions, of a mapping that is parsed. A region takes ten times as
 * much memory as it may take in a sidecar, so the memory that few bytes can require must be
 * limited. */
#define MAPPING_COUNT_MAX ((uint32_t)1 << 18)

/* The arrays grow and are reused for the next mapping; free with mapping_free. */
struct mapping {
    uint32_t *files;         /* by virtual file: the number of its name */
    uint32_t *region_counts; /* by virtual file: the number of its regions */
    size_t file_count, file_capacity;
    struct expression *expressions;
    size_t expression_count, expression_capacity;
    struct region *regions; /* of all files, one after the other */
    size_t region_count, region_capacity;
};

void mapping_clear(struct mapping *mapping);
void mapping_free(struct mapping *mapping);

/* Adds a file without regions. False if out of memory. */
bool mapping_add_file(struct mapping *mapping, uint32_t name);

/* Makes room for `count` more regions. False if out of memory. */
bool mapping_reserve_regions(struct mapping *mapping, size_t count);

/* Parses a mapping. Unfit unless the functions below would write exactly the same bytes. */
enum result mapping_read(struct mapping *mapping, struct bytes bytes);

/* Sets *is_unused if the record is of a function that its translation unit does not use: its hash
 * is 0, and no region has a counter. Clang gives such a function one region, a dummy; rustc those
 * that it would have. Unfit if the mapping is damaged. `mapping` is used for parsing. */
enum result covfun_tell_unused(struct mapping *mapping, const struct covfun_record *record,
                               bool *is_unused);

/* Append the parts of a mapping before and after its table of expressions. False if out of memory.
 */
bool mapping_write_files(const struct mapping *mapping, struct buffer *bytes);
bool mapping_write_regions(const struct mapping *mapping, struct buffer *bytes);

#endif
