/*
 * Which tests reach which functions: see reached.h.
 *
 * In memory a block has a row for each test, with a bit for each function. Rows are what profiles
 * give, and rows are easily put in order and united. Stored, it has a column for each function.
 * Both are converted into each other in squares of 8 by 8 bits.
 */
#include "common/state/reached.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"

#define ROW_SIZE ((size_t)REACHED_BLOCK / 8) /* of a block */

/* Higher levels make real matrices smaller by a twentieth, and take several times as long. */
#define LEVEL 3

/* The numbers at the start of an encoded matrix. */
enum {
    HEADER_FUNCTIONS,
    HEADER_TESTS,
    HEADER_NAMES_SIZE,
    HEADER_NAMES_STORED_SIZE,
    HEADER_COUNT,
};
#define HEADER_SIZE (HEADER_COUNT * sizeof(uint64_t))

static uint64_t block_count(uint64_t functions)
{
    return functions / REACHED_BLOCK + (functions % REACHED_BLOCK != 0);
}

/* How many functions are in the block. */
static size_t block_width(uint64_t functions, uint64_t block)
{
    uint64_t left = functions - block * REACHED_BLOCK;

    return left < REACHED_BLOCK ? (size_t)left : REACHED_BLOCK;
}

static uint64_t load_word(struct bytes words, uint64_t index)
{
    return load_u64(words.data + index * sizeof(uint64_t), false);
}

bool reached_check_name(const char *test, struct error *error)
{
    size_t length = strlen(test);

    if (length == 0)
        return error_set(error, "a test with an empty name; give it a name");
    return length <= REACHED_NAME_MAX ||
           error_set(error, "%.60s...: the name of a test has %zu bytes; give it one of at most %d",
                     test, length, REACHED_NAME_MAX);
}

/* ---- rows and columns ---- */

/* Transposes 8 by 8 bits: bit 8 * i + k becomes bit 8 * k + i (Hacker's Delight, 7-3). */
static uint64_t transpose_square(uint64_t bits)
{
    uint64_t swapped = (bits ^ bits >> 7) & UINT64_C(0x00aa00aa00aa00aa);

    bits ^= swapped ^ swapped << 7;
    swapped = (bits ^ bits >> 14) & UINT64_C(0x0000cccc0000cccc);
    bits ^= swapped ^ swapped << 14;
    swapped = (bits ^ bits >> 28) & UINT64_C(0x00000000f0f0f0f0);
    return bits ^ swapped ^ swapped << 28;
}

/* Transposes `height` rows of `width` bits into `width` rows of `height` bits. The rows start at
 * multiples of the strides, which are in bytes. */
static void transpose(const uint8_t *from, size_t height, size_t width, size_t from_stride,
                      uint8_t *to, size_t to_stride)
{
    for (size_t top = 0; top < height; top += 8) {
        size_t rows = height - top < 8 ? height - top : 8;

        for (size_t left = 0; left < width; left += 8) {
            const uint8_t *square = from + top * from_stride + left / 8;
            size_t columns = width - left < 8 ? width - left : 8;
            uint64_t bits = 0;

            for (size_t i = 0; i < rows; i++)
                bits |= (uint64_t)square[i * from_stride] << 8 * i;
            bits = transpose_square(bits);
            for (size_t i = 0; i < columns; i++)
                to[(left + i) * to_stride + top / 8] = (uint8_t)(bits >> 8 * i);
        }
    }
}

/* ---- encoding ---- */

/* What is encoded: names and rows. */
struct rows {
    const char *name; /* for messages */
    uint64_t function_count;
    size_t test_count;
    const char *const *tests; /* in ascending order */
    /* Sets the bits of a block, which are 0: a row of ROW_SIZE bytes for each test. */
    bool (*fill)(void *context, uint64_t block, uint8_t *rows, struct error *error);
    void *context;
};

/* Memory for one block. */
struct block_buffers {
    uint8_t *rows;
    size_t rows_size;
    uint8_t *columns;
    size_t column_size;
};

/* The numbers before the names; those of the blocks are filled in later. */
static bool append_front(const struct rows *rows, struct bytes text, uint64_t stored_size,
                         struct buffer *to)
{
    const uint64_t words[HEADER_COUNT] = {rows->function_count, rows->test_count, text.size,
                                          stored_size};
    uint8_t front[HEADER_SIZE];

    for (size_t i = 0; i < HEADER_COUNT; i++)
        store_u64(front + i * sizeof(words[i]), words[i], false);
    return buffer_append(to, front, sizeof(front)) &&
           buffer_append_zeros(to, (size_t)block_count(rows->function_count) * sizeof(uint64_t));
}

static bool append_names(const struct rows *rows, struct buffer *to, struct error *error)
{
    struct buffer text = {0}, stored = {0};
    bool done = true;

    for (size_t i = 0; done && i < rows->test_count; i++)
        done = buffer_append(&text, rows->tests[i], strlen(rows->tests[i]) + 1);
    if (!done)
        error_out_of_memory(error, rows->name, text.size);
    else
        done = codec_compress_once(buffer_view(&text), LEVEL, false, rows->name, &stored, error);
    if (done && !(append_front(rows, buffer_view(&text), stored.size, to) &&
                  buffer_append(to, stored.data, stored.size)))
        done = error_out_of_memory(error, rows->name, stored.size);
    buffer_free(&text);
    buffer_free(&stored);
    return done;
}

static bool append_block(const struct rows *rows, uint64_t block,
                         const struct block_buffers *buffers, struct buffer *to,
                         struct error *error)
{
    size_t width = block_width(rows->function_count, block);
    struct bytes columns = {buffers->columns, width * buffers->column_size};

    memset(buffers->rows, 0, buffers->rows_size);
    if (!rows->fill(rows->context, block, buffers->rows, error))
        return false;
    if (bytes_all_zero((struct bytes){buffers->rows, buffers->rows_size}))
        return true;
    transpose(buffers->rows, rows->test_count, width, ROW_SIZE, buffers->columns,
              buffers->column_size);
    return codec_compress_once(columns, LEVEL, false, rows->name, to, error);
}

static bool append_blocks(const struct rows *rows, size_t sizes, struct buffer *to,
                          struct error *error)
{
    struct block_buffers buffers = {.rows_size = rows->test_count * ROW_SIZE,
                                    .column_size = bit_set_size(rows->test_count)};
    bool done;

    buffers.rows = malloc(buffers.rows_size);
    buffers.columns = malloc(buffers.column_size * REACHED_BLOCK);
    done = (buffers.rows != NULL && buffers.columns != NULL) ||
           error_out_of_memory(error, rows->name, 2 * buffers.rows_size);
    for (uint64_t block = 0; done && block < block_count(rows->function_count); block++) {
        size_t start = to->size;

        done = append_block(rows, block, &buffers, to, error);
        if (done)
            store_u64(to->data + sizes + block * sizeof(uint64_t), to->size - start, false);
    }
    free(buffers.rows);
    free(buffers.columns);
    return done;
}

static bool encode(const struct rows *rows, struct buffer *to, struct error *error)
{
    size_t sizes = to->size + HEADER_SIZE;

    return rows->test_count == 0 ||
           (append_names(rows, to, error) && append_blocks(rows, sizes, to, error));
}

/* ---- made in memory ---- */

struct reached {
    uint64_t function_count;
    size_t test_count, test_capacity, row_capacity;
    const char **tests; /* owned, in ascending order */
    uint8_t **rows;     /* a bit set of functions for each test */
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
    for (size_t i = 0; i < reached->test_count; i++) {
        free((void *)(uintptr_t)reached->tests[i]);
        free(reached->rows[i]);
    }
    free(reached->tests);
    free(reached->rows);
    free(reached);
}

/* The first test whose name is not less. */
static size_t find_place(const char *const *tests, size_t count, const char *test)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(tests[middle], test) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Rows are whole words, so that they can be united word by word. */
static size_t row_words(const struct reached *reached)
{
    return (size_t)(reached->function_count / 64 + 1);
}

static bool insert_test(struct reached *reached, size_t place, const char *test)
{
    size_t after = reached->test_count - place;
    uint8_t *row;
    char *copy;

    if (!ARRAY_ROOM_FOR_ONE(reached->tests, reached->test_capacity, reached->test_count) ||
        !ARRAY_ROOM_FOR_ONE(reached->rows, reached->row_capacity, reached->test_count))
        return false;
    row = calloc(row_words(reached), sizeof(uint64_t));
    copy = strdup(test);
    if (row == NULL || copy == NULL) {
        free(row);
        free(copy);
        return false;
    }
    memmove(&reached->tests[place + 1], &reached->tests[place], after * sizeof(*reached->tests));
    memmove(&reached->rows[place + 1], &reached->rows[place], after * sizeof(*reached->rows));
    reached->tests[place] = copy;
    reached->rows[place] = row;
    reached->test_count++;
    reached->name_bytes += strlen(test) + 1;
    return true;
}

static void unite(uint8_t *to, const uint8_t *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] |= from[i];
}

bool reached_add(struct reached *reached, const char *test, const uint8_t *functions)
{
    size_t place = find_place(reached->tests, reached->test_count, test);
    bool is_new = place == reached->test_count || strcmp(reached->tests[place], test) != 0;

    if (is_new && !insert_test(reached, place, test))
        return false;
    unite(reached->rows[place], functions, bit_set_size(reached->function_count));
    return true;
}

uint64_t reached_memory_of_test(uint64_t function_count)
{
    return function_count / 8 + 2 * sizeof(uint64_t);
}

uint64_t reached_memory(const struct reached *reached)
{
    return reached->test_count * reached_memory_of_test(reached->function_count) +
           reached->name_bytes;
}

static bool fill_from_memory(void *context, uint64_t block, uint8_t *rows, struct error *error)
{
    const struct reached *reached = context;
    size_t size = bit_set_size(block_width(reached->function_count, block));

    (void)error;
    for (size_t i = 0; i < reached->test_count; i++)
        memcpy(rows + i * ROW_SIZE, reached->rows[i] + block * ROW_SIZE, size);
    return true;
}

bool reached_encode(const struct reached *reached, const char *name, struct buffer *to,
                    struct error *error)
{
    const struct rows rows = {
        .name = name,
        .function_count = reached->function_count,
        .test_count = reached->test_count,
        .tests = reached->tests,
        .fill = fill_from_memory,
        .context = (void *)(uintptr_t)reached,
    };

    return encode(&rows, to, error);
}

/* ---- encoded ---- */

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

/* The stored sizes must add up to what there is. */
static bool check_block_sizes(const struct reached_table *table, struct error *error)
{
    uint64_t left = table->blocks.size;

    for (uint64_t i = 0; i < block_count(table->function_count); i++) {
        uint64_t size = load_word(table->block_sizes, i);

        if (size > left)
            return damaged(table, "the size of a block", error);
        left -= size;
    }
    return left == 0 || damaged(table, "the sizes of its blocks", error);
}

static bool read_front(struct reached_table *table, struct bytes encoded, struct error *error)
{
    struct bytes header, names;
    uint64_t names_size, stored_size, after;

    if (!bytes_slice(encoded, 0, HEADER_SIZE, &header))
        return damaged(table, "too short", error);
    table->function_count = load_word(header, HEADER_FUNCTIONS);
    names_size = load_word(header, HEADER_NAMES_SIZE);
    stored_size = load_word(header, HEADER_NAMES_STORED_SIZE);
    if (block_count(table->function_count) > encoded.size / sizeof(uint64_t) ||
        load_word(header, HEADER_TESTS) > names_size)
        return damaged(table, "its size", error);
    table->test_count = (size_t)load_word(header, HEADER_TESTS);
    after = HEADER_SIZE + block_count(table->function_count) * sizeof(uint64_t);
    if (!bytes_slice(encoded, HEADER_SIZE, after - HEADER_SIZE, &table->block_sizes) ||
        !bytes_slice(encoded, after, stored_size, &names))
        return damaged(table, "too short", error);
    table->blocks = (struct bytes){names.data + names.size, encoded.size - after - stored_size};
    return decompress(table, names, names_size, &table->text, error) && read_names(table, error) &&
           check_block_sizes(table, error);
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
    uint64_t size =
        (uint64_t)bit_set_size(table->test_count) * block_width(table->function_count, block);
    uint64_t offset = 0;
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

bool reached_verify(struct reached_table *table, struct error *error)
{
    for (uint64_t i = 0; i < block_count(table->function_count); i++) {
        if (!load_block(table, i, error))
            return false;
    }
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

/* A matrix, and where its tests are in the union. */
struct merge_side {
    struct reached_table *table;
    size_t *places;
    uint8_t *rows; /* for one block */
};

struct merge {
    struct merge_side sides[2];
    const char **tests;
    size_t test_count;
};

static bool add_side(const struct merge_side *side, uint64_t block, uint8_t *rows,
                     struct error *error)
{
    struct reached_table *table = side->table;
    size_t width = block_width(table->function_count, block);

    if (load_word(table->block_sizes, block) == 0)
        return true;
    if (!load_block(table, block, error))
        return false;
    transpose(table->columns.data, width, table->test_count, bit_set_size(table->test_count),
              side->rows, ROW_SIZE);
    for (size_t i = 0; i < table->test_count; i++)
        unite(rows + side->places[i] * ROW_SIZE, side->rows + i * ROW_SIZE, bit_set_size(width));
    return true;
}

static bool fill_from_both(void *context, uint64_t block, uint8_t *rows, struct error *error)
{
    const struct merge *merge = context;

    return add_side(&merge->sides[0], block, rows, error) &&
           add_side(&merge->sides[1], block, rows, error);
}

static bool make_room(struct merge *merge)
{
    size_t all = 0;

    for (size_t i = 0; i < 2; i++) {
        struct merge_side *side = &merge->sides[i];

        all += side->table->test_count;
        side->places = malloc(side->table->test_count * sizeof(*side->places));
        side->rows = malloc(side->table->test_count * ROW_SIZE);
        if (side->places == NULL || side->rows == NULL)
            return false;
    }
    merge->tests = malloc(all * sizeof(*merge->tests));
    return merge->tests != NULL;
}

/* Unites both lists of names. */
static void unite_names(struct merge *merge)
{
    const struct merge_side *a = &merge->sides[0], *b = &merge->sides[1];
    size_t i = 0, k = 0;

    while (i < a->table->test_count || k < b->table->test_count) {
        int order = i == a->table->test_count   ? 1
                    : k == b->table->test_count ? -1
                                                : strcmp(a->table->tests[i], b->table->tests[k]);

        merge->tests[merge->test_count] = order <= 0 ? a->table->tests[i] : b->table->tests[k];
        if (order <= 0)
            a->places[i++] = merge->test_count;
        if (order >= 0)
            b->places[k++] = merge->test_count;
        merge->test_count++;
    }
}

/* Both have tests. */
static bool merge_both(struct merge *merge, struct buffer *to, struct error *error)
{
    const struct reached_table *table = merge->sides[0].table;
    struct rows rows = {.name = table->name,
                        .function_count = table->function_count,
                        .fill = fill_from_both,
                        .context = merge};

    unite_names(merge);
    rows.tests = merge->tests;
    rows.test_count = merge->test_count;
    return encode(&rows, to, error);
}

bool reached_merge(struct reached_table *a, struct reached_table *b, struct buffer *to,
                   struct error *error)
{
    struct merge merge = {.sides = {{.table = a}, {.table = b}}};
    bool done;

    if (a->function_count != b->function_count)
        return damaged(b, "the number of functions", error);
    done = make_room(&merge) ? merge_both(&merge, to, error)
                             : error_out_of_memory(error, a->name, a->test_count * ROW_SIZE);
    for (size_t i = 0; i < 2; i++) {
        free(merge.sides[i].places);
        free(merge.sides[i].rows);
    }
    free(merge.tests);
    return done;
}
