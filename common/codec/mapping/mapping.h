/*
 * The form of the mapping of functions: its streams and how their numbers are written and read, the
 * counters, the patterns of regions, and files and regions.
 *
 * The form of a mapping is told once for both directions: a *coder* either writes the numbers that
 * it is given, or it ignores them and returns those that it reads. Only the choices of the writer
 * among several forms are functions of their own.
 */
#ifndef COVSPLIT_COMMON_CODEC_MAPPING_MAPPING_H
#define COVSPLIT_COMMON_CODEC_MAPPING_MAPPING_H

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/error.h"
#include "common/codec/transform.h"
#include "common/llvm/coverage.h"

/* Classes of source ranges; each class has its own streams. Stored in sidecars. */
enum range_class {
    CLASS_CODE = 0,
    CLASS_GAP = 1,
    CLASS_EXPANSION = 2,
    CLASS_SKIPPED = 3,
    CLASS_ZERO = 4,
    CLASS_BRANCH = 5,
    RANGE_CLASSES = 6,
};

/* The streams by their numbers in sidecars; what they hold is in docs/format.md ("The
 * mapping of functions"). */
enum mapping_stream {
    STREAM_NAME_REF_CODES = 0,
    STREAM_NAME_REF_OPERANDS = 1,
    STREAM_FUNC_HASH_CODES = 2,
    STREAM_FUNC_HASHES = 3,
    STREAM_FILENAMES_REF_CODES = 4,
    STREAM_FILENAMES_REFS = 5,
    STREAM_MAPPING_CODES = 6,
    STREAM_RAW_MAPPINGS = 7,
    STREAM_REST = 8,
    STREAM_TOKENS = 9,
    STREAM_COUNTER_OPERANDS = 10,
    STREAM_FILE_COUNTS = 11,
    STREAM_FILES = 12,
    STREAM_TEMPLATE_CODES = 13,
    STREAM_TEMPLATE_DISTANCES = 14,
    STREAM_TEMPLATE_SYMBOLS = 15,
    STREAM_PATTERN_TABLE = 16,
    STREAM_PATTERN_CODES = 17,
    STREAM_PATTERN_LOW_BYTES = 18,
    STREAM_RARE_PATTERNS = 19,
    STREAM_EXPANSION_DISTANCES = 20,
    STREAM_REGION_OPERANDS = 21,
    STREAM_FIRST_LINES = 22,
    STREAM_EXPANDED_FIRST_LINES = 23,
    STREAM_FIRST_COLUMNS = 24,
    STREAM_EXPANDED_FIRST_COLUMNS = 25,
    /* From here on, one stream for each class. */
    STREAM_START_LINES = 26,
    STREAM_START_COLUMNS = 32,
    STREAM_START_DISTANCES = 38,
    STREAM_NUM_LINES = 44,
    STREAM_END_COLUMNS = 50,
    STREAM_LENGTHS = 56,
    MAPPING_STREAMS = 62,
};

_Static_assert(MAPPING_STREAMS <= STREAMS_MAX, "there are more streams than can be encoded");

struct mapping_coder {
    bool is_writing;
    struct streams *streams; /* writing */
    struct cursor cursors[MAPPING_STREAMS];
    /* The first failure. Reading: a number is missing or invalid; what is read is 0 then, so that
     * it is checked once for each region rather than for each number. */
    enum result result;
};

/* Only the first failure counts, since later ones may be caused by it. */
static inline void coder_fail(struct mapping_coder *coder, enum result result)
{
    if (coder->result == RESULT_OK)
        coder->result = result;
}

/* Reads a number of any size. */
uint64_t coder_take_long(struct mapping_coder *coder, unsigned stream);

static inline uint8_t code_byte(struct mapping_coder *coder, unsigned stream, unsigned byte)
{
    struct cursor *cursor = &coder->cursors[stream];
    uint8_t value = (uint8_t)byte;

    if (coder->is_writing) {
        buffer_append_few(&coder->streams->stream[stream], &value, 1);
    } else if (cursor->at != cursor->end) {
        value = *cursor->at++;
    } else {
        coder_fail(coder, RESULT_UNFIT);
        value = 0;
    }
    return value;
}

static inline uint64_t code_number(struct mapping_coder *coder, unsigned stream, uint64_t number)
{
    struct cursor *cursor = &coder->cursors[stream];

    if (coder->is_writing && number < 0x80)
        code_byte(coder, stream, (unsigned)number);
    else if (coder->is_writing)
        buffer_append_uleb128(&coder->streams->stream[stream], number);
    else if (cursor->at != cursor->end && *cursor->at < 0x80)
        number = *cursor->at++;
    else
        number = coder_take_long(coder, stream);
    return number;
}

/* All numbers in a mapping have 32 bits. */
static inline uint32_t coder_check_32(struct mapping_coder *coder, uint64_t number)
{
    if (number <= UINT32_MAX)
        return (uint32_t)number;
    coder_fail(coder, RESULT_UNFIT);
    return 0;
}

static inline uint32_t code_32(struct mapping_coder *coder, unsigned stream, uint32_t number)
{
    return coder_check_32(coder, code_number(coder, stream, number));
}

/* A number as its difference to another one. */
static inline uint32_t code_from(struct mapping_coder *coder, unsigned stream, uint64_t base,
                                 uint32_t number)
{
    return coder_check_32(coder,
                          base + unzigzag(code_number(coder, stream, zigzag(number - base))));
}

/* ---- counters ---- */

/* The counters of a mapping's regions, and the table of expressions that follows from them:
 * "Counters" in docs/format.md.
 *
 * LLVM numbers expressions when it writes a mapping: it goes through the counters of all regions in
 * order, gives each expression that it meets the next number, and then does the same for both
 * sides. An expression that it meets again gets another number, and the last one counts; only the
 * expression with number 0 keeps it. So the table is not stored, but computed from each region's
 * counter, as a tree. A mapping whose table differs from the computed one is stored raw.
 *
 * Counters and expressions are numbered as *values* in the order of their first occurrence: value 0
 * is zero, value 1 the function's own counter (number 0). A region's counter mostly follows from
 * where the region is. It is stored as a symbol, which is part of the region's pattern. For
 * SYMBOL_TOKEN, there is also a token.
 */

/* Numbers of values. */
#define VALUE_ZERO  0
#define VALUE_ENTRY 1
#define VALUE_NONE  UINT32_MAX

/* The number of last used values that are remembered. The stored form depends on it. */
#define VALUES_USED 8

/* Initialize to {0}; reused for one mapping after the other; free with counters_free. */
struct counters {
    struct counter_node *nodes; /* of expressions */
    size_t node_count, node_capacity;
    uint32_t *table; /* indexes of nodes, in the order of the table */
    size_t table_count, table_capacity;
    /* The counters of values, as in the mapping, but the index of an expression is that of its
     * node. */
    uint32_t *values;
    size_t value_count, value_capacity;
    uint32_t used[VALUES_USED]; /* values, the one that was used last first */
    uint32_t highest;           /* the highest number so far */
    /* Reading: which operands of regions are expressions. For each a uint32_t, the region's number
     * times REGION_COUNTERS_MAX plus the operand's number. */
    struct buffer roots;
    /* Writing. */
    uint32_t *of_table; /* the counter for each entry of the mapping's table */
    size_t of_table_capacity;
    uint32_t *of_numbers; /* the value of each plain counter, or VALUE_NONE */
    size_t of_numbers_capacity;
    uint32_t *buckets; /* expressions by both sides: 1 + the node; 0: free */
    size_t bucket_count, bucket_capacity;
    uint64_t seed;
};

/* The values from which a region's counter may follow. */
struct counter_context {
    uint32_t enclosing; /* of the innermost open region */
    uint32_t completed; /* of the region that ended last; VALUE_ZERO: no region ended here */
};

void counters_free(struct counters *counters);

/* Starts reading a mapping, in which nothing has occurred. False if out of memory. */
bool counters_start(struct counters *counters);

/* Starts writing a mapping. Unfit if its table of expressions is not the one that follows from the
 * regions. */
enum result counters_start_writing(struct counters *counters, const struct mapping *mapping);

/* Codes the counter of a code region, the mapping's region `index`, by its symbol and if need be a
 * token, and returns its value. While reading, the index of an expression is that of its node until
 * counters_finish_reading, and there must be room. */
uint32_t counters_code_region(struct counters *counters, struct mapping_coder *coder,
                              struct counter_context context, uint8_t *symbol, size_t index,
                              uint32_t *counter);

/* The same for both sides of a branch; `condition` is the value of its condition. */
void counters_code_branch(struct counters *counters, struct mapping_coder *coder,
                          uint32_t condition, uint8_t symbols[2], size_t index, uint32_t sides[2]);

/* Reading: makes room for the counters of `regions` more regions. False if out of memory. */
bool counters_reserve(struct counters *counters, size_t regions);

/* For how many regions there is room. */
static inline size_t counters_room(const struct counters *counters)
{
    return (counters->roots.capacity - counters->roots.size) /
           (REGION_COUNTERS_MAX * sizeof(uint32_t));
}

/* Reading: makes the table of expressions, of at most `limit` entries, and gives the regions their
 * final counters. The coder's result must be RESULT_OK. */
enum result counters_finish_reading(struct counters *counters, struct mapping *mapping,
                                    uint64_t limit);

/* Appends the table as it is in a mapping: the number of expressions, and for each both sides.
 * False if out of memory. */
bool counters_write_table(struct counters *counters, struct buffer *bytes);

/* ---- patterns ---- */

/* A pattern is one number that combines all properties of a region that are chosen from a
 * few cases.
 *
 * Code has a grammar, and so do its regions: a condition is followed by a branch at the same place,
 * whose counters are a new one and the condition's minus that; then by a gap, one column later;
 * then by code that starts where the gap ends and has the branch's counter. Such choices depend on
 * each other, within a region and from one to the next, so they are stored together. A few hundred
 * patterns cover nearly all regions, and zstd finds repeated sequences of them. Only what cannot be
 * predicted is stored as separate numbers.
 *
 * A table lists the patterns that occur, the most frequent ones first; a pattern is stored as its
 * index in the table, in one byte or two.
 */

/* All values below are stored in sidecars. */

/* `completed` is how many of the open ends (see below) lie at or before the start of this region.
 * The last of them, or if there is none the start of the previous region, is the anchor, from which
 * the start is counted. COMPLETED_FIRST means that this is the first region of its file, whose
 * start is stored. */
#define COMPLETED_MAX   29
#define COMPLETED_FIRST 30

/* Forms of a start. */
enum region_start {
    START_NEAR = 0,    /* on the anchor's line, 0 to 4 columns after it */
    START_ON_LINE = 5, /* on the anchor's line; the column is stored */
    /* On the next line: in one of the frequent columns (see below), or the column is stored. */
    START_LINE = 6,
    START_LINES = 9, /* the same, but on a later line; the number of lines is stored */
    START_FORMS = 12,
};

/* Forms of an end. */
enum region_end {
    END_ACTIVE = 1,  /* at the end of the innermost open region; up to the 15th innermost */
    END_NEAR = 16,   /* on the line of its start, 0 or 1 columns after it */
    END_LENGTH = 18, /* on the line of its start; the length is stored */
    /* On the next line: in one of the frequent columns, or the column is stored. */
    END_LINE = 19,
    END_LINES = 22, /* the same, but on a later line; the number of lines is stored */
    END_FORMS = 25,
};

#define END_ACTIVE_MAX (END_NEAR - END_ACTIVE)

struct region_pattern {
    uint8_t kind; /* enum region_kind; REGION_KINDS: the file has no more regions */
    bool is_gap;
    uint8_t completed;
    uint8_t start; /* enum region_start */
    uint8_t end;   /* enum region_end */
    /* The symbols of the region's counters (counters.c). For an expansion: 0 if its file is the
     * next one. */
    uint8_t symbols[REGION_COUNTERS_MAX];
};

/* The number of patterns with one-byte codes. Stored in sidecars. */
#define PATTERNS_SHORT 240

/* Initialize to {0}; free with patterns_free. */
struct patterns {
    /* Writing: the place of each pattern in `uses`, and the sequence of all patterns. */
    struct intern_table places;
    struct pattern_use *uses;
    size_t use_capacity;
    struct buffer sequence; /* uint32_t */
    /* Reading: the table. */
    struct region_pattern *table;
    size_t count;
};

void patterns_free(struct patterns *patterns);

/* Writing: adds a pattern to the sequence. False if out of memory. */
bool patterns_add(struct patterns *patterns, const struct region_pattern *pattern);

/* Writes the table and all patterns that were added. False if out of memory. */
bool patterns_write(struct patterns *patterns, struct mapping_coder *coder);

/* Reads the table. */
enum result patterns_start_reading(struct patterns *patterns, struct mapping_coder *coder);

/* Reads a pattern that has no one-byte code, after its first byte; false if there is none. */
bool patterns_take_long(const struct patterns *patterns, struct mapping_coder *coder, uint8_t first,
                        struct region_pattern *pattern);

/* Reads a pattern. After a failure the coder's result is not RESULT_OK. */
static inline void patterns_take(const struct patterns *patterns, struct mapping_coder *coder,
                                 struct region_pattern *pattern)
{
    uint8_t first = code_byte(coder, STREAM_PATTERN_CODES, 0);

    if (first < PATTERNS_SHORT && first < patterns->count)
        *pattern = patterns->table[first];
    else if (!patterns_take_long(patterns, coder, first, pattern))
        coder_fail(coder, RESULT_UNFIT);
}

/* ---- files and regions ---- */

/* The files and regions of mappings: "The mapping of functions" in docs/format.md.
 *
 * Regions are sorted by their starts and are nested, as statements are. So the ends of the regions
 * that are open, the *active ends*, tell much about the next one: its start tells which of them are
 * completed, it usually ends where one of them is, and its counter is usually that of the innermost
 * one.
 *
 * Code is indented, so regions that start or end on a new line do so in few different columns,
 * relative to the column where the enclosing block ends: the *frequent columns*. Which ones are
 * frequent depends on the project, so they are counted.
 *
 * For each file but the first, a *template* is stored: the kinds and source ranges of its regions.
 * It is reused, because a macro expands to the same regions wherever it is used. An expansion
 * region is as long as the name of the macro, and an expansion within a macro is always the same.
 * So for each length, and for each expansion in a template, a list has the templates that occurred
 * there, the most recent one first. The regions of a new template are stored as patterns
 * and the numbers that these require.
 */

/* The stored form depends on all these numbers. */
#define ACTIVE_ENDS_MAX  32 /* if there are more, the outermost one is forgotten */
#define FREQUENT_COLUMNS 2
#define FREQUENT_COUNTED 32 /* how many differences are counted, from the lowest on */

struct active_end {
    uint64_t place; /* high half: line, counted from the file's first region; low half: column */
    uint32_t value; /* of the last region that ends there: see above */
};

struct frequent_columns {
    int64_t frequent[FREQUENT_COLUMNS]; /* as differences from the base column */
    uint32_t counts[FREQUENT_COUNTED];
    uint32_t uses;
};

/* Kept from one mapping to the next. Initialize to {0}; free with regions_free. */
struct regions {
    struct patterns patterns;
    struct intern_table template_numbers; /* writing: the number of a template by its digest */
    struct buffer key;
    struct region_template *templates; /* reading */
    size_t template_count, template_capacity;
    struct mapping template_regions; /* reading; only the member `regions` is used */
    uint32_t *lists;                 /* of templates: 1 + a template's number; 0: none */
    uint32_t first_line;             /* of the previous mapping */
    /* For all mappings, by class: columns of starts on another line than the anchor, and of ends on
     * another line than the start. */
    struct frequent_columns starts[RANGE_CLASSES], ends[RANGE_CLASSES];
    /* The current mapping. */
    uint64_t number;
    struct mapping_coder *coder;
    struct counters *counters;
    struct mapping *mapping;
    uint64_t limit;      /* reading: the most bytes that it may have */
    size_t region_count; /* how many regions have been coded */
    uint64_t expansions; /* how many of them are expansions */
    uint64_t next_file;  /* 1 more than the highest file of an expansion */
    struct file_origin *origins;
    size_t origin_count;
    /* The current file, if its template is new. */
    struct active_end active[ACTIVE_ENDS_MAX + 1]; /* in descending order, without duplicates */
    size_t active_count;
    uint64_t line; /* of the last region, counted from the file's first; in the high half */
};

void regions_free(struct regions *regions);

/* Called before the first mapping; reads what precedes all mappings. */
enum result regions_start(struct regions *regions, struct mapping_coder *coder);

/* Codes a mapping, for which counters_start or counters_start_writing was called; while reading, of
 * at most `limit` bytes, and except for its expressions. Its result is the coder's. */
enum result regions_code(struct regions *regions, struct counters *counters,
                         struct mapping_coder *coder, uint64_t limit, struct mapping *mapping);

/* Writes the patterns of all mappings. */
enum result regions_finish_writing(struct regions *regions, struct mapping_coder *coder);

#endif
