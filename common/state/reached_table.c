/*
 * Encoded matrices: see reached.h.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/codec/zstd.h"
#include "common/state/reached_rows.h"

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

/* The stored sizes must add up to what there is. */
static bool check_block_sizes(const struct reached_table *table, struct error *error)
{
    uint64_t left = table->blocks.size;

    for (uint64_t i = 0; i < reached_block_count(table->function_count); i++) {
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

    if (!bytes_slice(encoded, 0, REACHED_HEADER_SIZE, &header))
        return damaged(table, "too short", error);
    table->function_count = load_word(header, REACHED_HEADER_FUNCTIONS);
    names_size = load_word(header, REACHED_HEADER_NAMES_SIZE);
    stored_size = load_word(header, REACHED_HEADER_NAMES_STORED_SIZE);
    if (reached_block_count(table->function_count) > encoded.size / sizeof(uint64_t) ||
        load_word(header, REACHED_HEADER_TESTS) > names_size)
        return damaged(table, "its size", error);
    table->test_count = (size_t)load_word(header, REACHED_HEADER_TESTS);
    after = REACHED_HEADER_SIZE + reached_block_count(table->function_count) * sizeof(uint64_t);
    if (!bytes_slice(encoded, REACHED_HEADER_SIZE, after - REACHED_HEADER_SIZE,
                     &table->block_sizes) ||
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
    uint64_t size = (uint64_t)bit_set_size(table->test_count) *
                    reached_block_width(table->function_count, block);
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
    for (uint64_t i = 0; i < reached_block_count(table->function_count); i++) {
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
    size_t width = reached_block_width(table->function_count, block);

    if (load_word(table->block_sizes, block) == 0)
        return true;
    if (!load_block(table, block, error))
        return false;
    reached_transpose(table->columns.data, width, table->test_count,
                      bit_set_size(table->test_count), side->rows, REACHED_ROW_SIZE);
    for (size_t i = 0; i < table->test_count; i++)
        bit_set_unite(rows + side->places[i] * REACHED_ROW_SIZE, side->rows + i * REACHED_ROW_SIZE,
                      bit_set_size(width));
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
        side->rows = malloc(side->table->test_count * REACHED_ROW_SIZE);
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
    struct reached_rows rows = {.name = table->name,
                                .function_count = table->function_count,
                                .fill = fill_from_both,
                                .context = merge};

    unite_names(merge);
    rows.tests = merge->tests;
    rows.test_count = merge->test_count;
    return reached_rows_encode(&rows, to, error);
}

bool reached_merge(struct reached_table *a, struct reached_table *b, struct buffer *to,
                   struct error *error)
{
    struct merge merge = {.sides = {{.table = a}, {.table = b}}};
    bool done;

    if (a->function_count != b->function_count)
        return damaged(b, "the number of functions", error);
    done = make_room(&merge)
               ? merge_both(&merge, to, error)
               : error_out_of_memory(error, a->name, a->test_count * REACHED_ROW_SIZE);
    for (size_t i = 0; i < 2; i++) {
        free(merge.sides[i].places);
        free(merge.sides[i].rows);
    }
    free(merge.tests);
    return done;
}

static bool unite_with(struct buffer *encoded, struct bytes more, const char *name,
                       struct error *error)
{
    struct reached_table before = {0}, added = {0};
    struct buffer both = {0};
    bool done =
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

bool reached_unite(struct buffer *encoded, struct bytes more, const char *name, struct error *error)
{
    if (more.size == 0)
        return true;
    if (encoded->size != 0)
        return unite_with(encoded, more, name, error);
    return buffer_append(encoded, more.data, (size_t)more.size) ||
           error_out_of_memory(error, name, more.size);
}
