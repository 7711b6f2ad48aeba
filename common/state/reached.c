/*
 * Matrices of tests and functions: see reached.h.
 *
 * In memory, there is a row for each test, with a bit for each function: each profile gives a row,
 * and rows are easy to sort and unite. On disk, a block has a column for each function. Most bits
 * are 0, so the others are moved one by one.
 */
#include "common/state/reached.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"

/* The numbers at the start of an encoded matrix. */
enum {
    HEADER_FUNCTIONS,
    HEADER_TESTS,
    HEADER_NAMES_SIZE,
    HEADER_NAMES_STORED_SIZE,
    HEADER_COUNT,
};
#define HEADER_SIZE (HEADER_COUNT * sizeof(uint64_t))

/* Higher levels make real matrices smaller by a twentieth, and take several times as long. */
#define LEVEL 3

static uint64_t block_count(uint64_t functions)
{
    return functions / REACHED_BLOCK + (functions % REACHED_BLOCK != 0);
}

/* The number of functions in the block. */
static size_t block_width(uint64_t functions, uint64_t block)
{
    uint64_t left = functions - block * REACHED_BLOCK;

    return left < REACHED_BLOCK ? (size_t)left : REACHED_BLOCK;
}

/* ---- encoding ---- */

/* A matrix to be encoded: the names of its tests, and its columns. */
struct matrix {
    const char *name; /* for messages */
    uint64_t function_count;
    size_t test_count;
    const char *const *tests; /* in ascending order */
    /* Sets bits of a block, which are 0: for each function a column, a bit set of the tests. */
    bool (*fill)(void *context, uint64_t block, uint8_t *columns, struct error *error);
    void *context;
};

/* Appends the encoded matrix; nothing if it has no tests. */
static bool encode(const struct matrix *matrix, struct buffer *to, struct error *error)
{
    const char *name = matrix->name;
    uint64_t functions = matrix->function_count;
    size_t start = to->size, column_size = bit_set_size(matrix->test_count);
    struct buffer text = {0}, stored = {0}, columns = {0};
    bool done;

    if (matrix->test_count == 0)
        return true;
    for (size_t i = 0; i < matrix->test_count; i++)
        buffer_append(&text, matrix->tests[i], strlen(matrix->tests[i]) + 1);
    buffer_append_zeros(&columns, column_size * block_width(functions, 0));
    done = ((!text.failed && !columns.failed) ||
            error_out_of_memory(error, name, text.size + column_size * REACHED_BLOCK)) &&
           codec_compress_once(buffer_view(&text), LEVEL, false, name, &stored, error);
    if (done) {
        /* The sizes of blocks are filled in below. */
        buffer_append_zeros(to, HEADER_SIZE + (size_t)block_count(functions) * sizeof(uint64_t));
        done = buffer_append(to, stored.data, stored.size) ||
               error_out_of_memory(error, name, stored.size);
    }
    if (done) {
        const uint64_t words[HEADER_COUNT] = {functions, matrix->test_count, text.size,
                                              stored.size};

        for (size_t i = 0; i < HEADER_COUNT; i++)
            store_u64(to->data + start + i * sizeof(words[i]), words[i], false);
    }
    for (uint64_t block = 0; done && block < block_count(functions); block++) {
        size_t before = to->size;

        columns.size = column_size * block_width(functions, block);
        memset(columns.data, 0, columns.size);
        done = matrix->fill(matrix->context, block, columns.data, error) &&
               (bytes_all_zero(buffer_view(&columns)) ||
                codec_compress_once(buffer_view(&columns), LEVEL, false, name, to, error));
        if (done)
            store_u64(to->data + start + HEADER_SIZE + block * sizeof(uint64_t), to->size - before,
                      false);
    }
    buffer_free(&text);
    buffer_free(&stored);
    buffer_free(&columns);
    return done;
}

/* ---- made in memory ---- */

bool reached_check_name(const char *test, struct error *error)
{
    size_t length = strlen(test);

    if (length == 0)
        return error_set(error, "a test with an empty name; give it a name");
    return length <= REACHED_NAME_MAX ||
           error_set(error, "%.60s...: the name of a test has %zu bytes; give it one of at most %d",
                     test, length, REACHED_NAME_MAX);
}

struct reached {
    uint64_t function_count;
    size_t test_count, test_capacity, row_capacity;
    const char **tests; /* in ascending order */
    uint8_t **rows;     /* a bit set of functions for each test, and behind it the test's name */
    uint64_t name_bytes;
};

struct reached *reached_new(uint64_t function_count)
{
    struct reached *reached = calloc(1, sizeof(*reached));

    if (reached != NULL)
        reached->function_count = function_count;
    return reached;
}

void reached_free(struct reached *reached)
{
    if (reached == NULL)
        return;
    for (size_t i = 0; i < reached->test_count; i++)
        free(reached->rows[i]);
    free(reached->tests);
    free(reached->rows);
    free(reached);
}

bool reached_add(struct reached *reached, const char *test, const uint8_t *functions)
{
    size_t size = bit_set_size(reached->function_count), place = 0, end = reached->test_count;
    size_t name_size = strlen(test) + 1;

    while (place < end) {
        size_t middle = place + (end - place) / 2;

        if (strcmp(reached->tests[middle], test) < 0)
            place = middle + 1;
        else
            end = middle;
    }
    if (place == reached->test_count || strcmp(reached->tests[place], test) != 0) {
        size_t after = reached->test_count - place;
        uint8_t *row;

        if (!ARRAY_ROOM_FOR_ONE(reached->tests, reached->test_capacity, reached->test_count) ||
            !ARRAY_ROOM_FOR_ONE(reached->rows, reached->row_capacity, reached->test_count))
            return false;
        row = calloc(1, size + name_size);
        if (row == NULL)
            return false;
        memmove(&reached->tests[place + 1], &reached->tests[place], after * sizeof(test));
        memmove(&reached->rows[place + 1], &reached->rows[place], after * sizeof(row));
        reached->tests[place] = memcpy(row + size, test, name_size);
        reached->rows[place] = row;
        reached->test_count++;
        reached->name_bytes += name_size;
    }
    bit_set_unite(reached->rows[place], functions, size);
    return true;
}

uint64_t reached_memory(const struct reached *reached)
{
    return reached->test_count * (reached->function_count / 8 + 2 * sizeof(uint64_t)) +
           reached->name_bytes;
}

/* Turns the part of each row that is in the block into bits of columns. */
static bool fill_from_memory(void *context, uint64_t block, uint8_t *columns, struct error *error)
{
    const struct reached *reached = context;
    size_t width = block_width(reached->function_count, block);
    size_t column_size = bit_set_size(reached->test_count);

    (void)error;
    for (size_t test = 0; test < reached->test_count; test++) {
        const uint8_t *row = reached->rows[test] + block * (REACHED_BLOCK / 8);

        for (size_t i = 0; i < bit_set_size(width); i++) {
            for (unsigned bits = row[i]; bits != 0; bits &= bits - 1) {
                size_t function = 8 * i + (size_t)__builtin_ctz(bits);

                if (function < width)
                    bit_set_add(columns + function * column_size, test);
            }
        }
    }
    return true;
}

bool reached_encode(const struct reached *reached, const char *name, struct buffer *to,
                    struct error *error)
{
    const struct matrix matrix = {
        .name = name,
        .function_count = reached->function_count,
        .test_count = reached->test_count,
        .tests = reached->tests,
        .fill = fill_from_memory,
        .context = (void *)(uintptr_t)reached,
    };

    return encode(&matrix, to, error);
}

/* ---- encoded ---- */

static uint64_t load_word(struct bytes words, uint64_t index)
{
    return load_u64(words.data + index * sizeof(uint64_t), false);
}

static bool damaged(const struct reached_table *table, const char *how, struct error *error)
{
    const struct packed whole = {.name = table->name, .what = "its list of tests"};

    return packed_damaged(&whole, how, error);
}

static bool decompress(const struct reached_table *table, struct bytes stored, uint64_t size,
                       struct buffer *to, struct error *error)
{
    const struct packed frame = {stored, size, table->name, "its list of tests"};

    return memory_limit_allows(table->limit, size, table->name, "its list of tests", error) &&
           codec_decompress(&frame, to, error);
}

/* Names are not empty, and ascend. */
static bool read_names(struct reached_table *table, struct error *error)
{
    const char *next = (const char *)table->text.data;
    const char *end = next + table->text.size;

    if (table->test_count == 0 || table->test_count > table->text.size / 2 || end[-1] != '\0')
        return damaged(table, "its names", error);
    table->tests = malloc(table->test_count * sizeof(*table->tests));
    if (table->tests == NULL)
        return error_out_of_memory(error, table->name, table->test_count * sizeof(*table->tests));
    for (size_t i = 0; i < table->test_count; i++) {
        size_t length = next == end ? 0 : strlen(next);

        if (length == 0 || length > REACHED_NAME_MAX ||
            (i != 0 && strcmp(table->tests[i - 1], next) >= 0))
            return damaged(table, "its names", error);
        table->tests[i] = next;
        next += length + 1;
    }
    return next == end || damaged(table, "its names", error);
}

/* The size of a block that is decoded, in bytes; both numbers have been checked. */
static uint64_t block_size(const struct reached_table *table, uint64_t block)
{
    return (uint64_t)bit_set_size(table->test_count) * block_width(table->function_count, block);
}

static bool read_front(struct reached_table *table, struct bytes encoded, struct error *error)
{
    uint64_t blocks, tests, names_size, stored_size, left, most, whole = 0;
    struct cursor cursor = cursor_open(encoded, false, true);
    struct bytes names;

    table->function_count = cursor_u64(&cursor);
    tests = cursor_u64(&cursor);
    names_size = cursor_u64(&cursor);
    stored_size = cursor_u64(&cursor);
    blocks = block_count(table->function_count);
    if (!cursor.bad && (blocks > encoded.size / sizeof(uint64_t) || tests > names_size))
        return damaged(table, "its size", error);
    table->test_count = (size_t)tests;
    table->block_sizes = cursor_bytes(&cursor, blocks * sizeof(uint64_t));
    names = cursor_bytes(&cursor, stored_size);
    table->blocks = cursor_rest(&cursor);
    if (cursor.bad)
        return damaged(table, "too short", error);
    if (!decompress(table, names, names_size, &table->text, error) || !read_names(table, error))
        return false;
    left = table->blocks.size;
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t size = load_word(table->block_sizes, i);

        if (size > left)
            return damaged(table, "the size of a block", error);
        left -= size;
        if (size != 0 && !add_fits(whole, block_size(table, i), &whole))
            whole = UINT64_MAX;
    }
    if (left != 0)
        return damaged(table, "the sizes of its blocks", error);
    most = work_limit_for(encoded.size);
    return memory_limit_allows(most > table->limit ? most : table->limit, whole, table->name,
                               "its list of tests", error);
}

#define NO_BLOCK UINT64_MAX

bool reached_open(struct reached_table *table, struct bytes encoded, const char *name,
                  uint64_t limit, struct error *error)
{
    *table = (struct reached_table){.name = name, .limit = limit, .block = NO_BLOCK};
    return encoded.size == 0 || read_front(table, encoded, error);
}

void reached_close(struct reached_table *table)
{
    free(table->tests);
    buffer_free(&table->text);
    buffer_free(&table->columns);
    *table = (struct reached_table){0};
}

/* Bits for tests that do not exist must be 0. */
static bool check_columns(const struct reached_table *table, struct error *error)
{
    size_t size = bit_set_size(table->test_count);
    uint8_t unused = table->test_count % 8 == 0 ? 0 : (uint8_t)(0xffu << table->test_count % 8);

    for (size_t i = size - 1; unused != 0 && i < table->columns.size; i += size) {
        if ((table->columns.data[i] & unused) != 0)
            return damaged(table, "bits for tests without names", error);
    }
    return true;
}

/* Decodes a block into table->columns. */
static bool load_block(struct reached_table *table, uint64_t block, struct error *error)
{
    uint64_t size = block_size(table, block), offset = 0;
    struct bytes stored;

    if (table->block == block)
        return true;
    table->block = NO_BLOCK;
    table->columns.size = 0;
    for (uint64_t i = 0; i < block; i++)
        offset += load_word(table->block_sizes, i);
    if (!bytes_slice(table->blocks, offset, load_word(table->block_sizes, block), &stored))
        return damaged(table, "the size of a block", error);
    if (stored.size != 0) {
        if (!decompress(table, stored, size, &table->columns, error) ||
            !check_columns(table, error))
            return false;
    } else if (!memory_limit_allows(table->limit, size, table->name, "its list of tests", error))
        return false;
    else if (!buffer_append_zeros(&table->columns, (size_t)size))
        return error_out_of_memory(error, table->name, size);
    table->block = block;
    return true;
}

bool reached_find(struct reached_table *table, uint64_t function, const uint8_t **tests,
                  struct error *error)
{
    if (!load_block(table, function / REACHED_BLOCK, error))
        return false;
    *tests = table->columns.data + function % REACHED_BLOCK * bit_set_size(table->test_count);
    return true;
}

/* ---- merging ---- */

/* Two matrices, and where their tests are in the union of these. */
struct merge {
    struct reached_table *tables[2];
    size_t *places[2];
    size_t test_count;
};

static bool fill_from_both(void *context, uint64_t block, uint8_t *columns, struct error *error)
{
    const struct merge *merge = context;
    size_t column_size = bit_set_size(merge->test_count);

    for (size_t side = 0; side < 2; side++) {
        struct reached_table *table = merge->tables[side];
        size_t size = bit_set_size(table->test_count);
        size_t width = block_width(table->function_count, block);

        if (load_word(table->block_sizes, block) == 0)
            continue;
        if (!load_block(table, block, error))
            return false;
        for (size_t function = 0; function < width; function++) {
            const uint8_t *column = table->columns.data + function * size;

            for (size_t i = 0; i < size; i++) {
                for (unsigned bits = column[i]; bits != 0; bits &= bits - 1)
                    bit_set_add(columns + function * column_size,
                                merge->places[side][8 * i + (size_t)__builtin_ctz(bits)]);
            }
        }
    }
    return true;
}

bool reached_merge(struct reached_table *a, struct reached_table *b, struct buffer *to,
                   struct error *error)
{
    struct arena arena = {0};
    struct merge merge = {.tables = {a, b}};
    const char **tests = arena_array(&arena, a->test_count + b->test_count, sizeof(*tests));
    bool done;

    for (size_t i = 0; i < 2; i++)
        merge.places[i] =
            arena_array(&arena, merge.tables[i]->test_count, sizeof(*merge.places[i]));
    if (a->function_count != b->function_count) {
        done = damaged(b, "the number of functions", error);
    } else if (arena.failed) {
        done = error_out_of_memory(error, a->name, a->test_count * sizeof(*tests));
    } else {
        for (size_t i = 0, k = 0; i < a->test_count || k < b->test_count; merge.test_count++) {
            int order = i == a->test_count   ? 1
                        : k == b->test_count ? -1
                                             : strcmp(a->tests[i], b->tests[k]);

            tests[merge.test_count] = order <= 0 ? a->tests[i] : b->tests[k];
            if (order <= 0)
                merge.places[0][i++] = merge.test_count;
            if (order >= 0)
                merge.places[1][k++] = merge.test_count;
        }
        const struct matrix matrix = {.name = a->name,
                                      .function_count = a->function_count,
                                      .test_count = merge.test_count,
                                      .tests = tests,
                                      .fill = fill_from_both,
                                      .context = &merge};
        done = encode(&matrix, to, error);
    }
    arena_free(&arena);
    return done;
}

bool reached_unite(struct buffer *encoded, struct bytes more, const char *name, struct error *error)
{
    struct reached_table before = {0}, added = {0};
    struct buffer both = {0};
    bool done;

    if (more.size == 0)
        return true;
    if (encoded->size == 0) {
        done = buffer_append(encoded, more.data, (size_t)more.size) ||
               error_out_of_memory(error, name, more.size);
        encoded->failed = false; /* it is as it was, and can be used again */
        return done;
    }
    done =
        reached_open(&before, buffer_view(encoded), name, memory_limit_for(encoded->size), error) &&
        reached_open(&added, more, name, memory_limit_for(more.size), error) &&
        reached_merge(&before, &added, &both, error);
    reached_close(&before);
    reached_close(&added);
    if (!done) {
        buffer_free(&both);
        return false;
    }
    buffer_free(encoded);
    *encoded = both;
    return true;
}
