/*
 * Random coverage mappings: see mapping_maker.h.
 *
 * This is written from LLVM's documentation and from what compilers write, and shares nothing with
 * the code that it tests: expressions get their numbers here by going through counters as LLVM's
 * CounterExpressionsMinimizer does.
 */
#include "tests/unit/mapping_maker.h"

#include <check.h>

#define EXPRESSIONS_MAX 40
#define TABLE_MAX       4000
#define REGIONS_MAX     800

/* Counters as they are stored: a tag in the low two bits. */
enum {
    TAG_COUNTER = 1,
    TAG_SUBTRACT = 2,
    TAG_ADD = 3,
};

struct maker_region {
    uint64_t header;
    bool has_counter; /* the header is one */
    uint64_t more[5]; /* behind the header */
    unsigned more_count;
    unsigned counters; /* how many of those, the first, are counters */
    uint64_t line, column, num_lines, column_end;
};

struct function {
    struct random_state *random;
    uint64_t sides[EXPRESSIONS_MAX][2];
    unsigned tags[EXPRESSIONS_MAX];
    size_t expressions;
    uint64_t place[EXPRESSIONS_MAX]; /* in the table */
    bool placed[EXPRESSIONS_MAX];
    size_t table[TABLE_MAX];
    size_t table_size;
    uint64_t counters;
    struct maker_region regions[REGIONS_MAX];
    size_t region_counts[4];
    size_t region_count;
    size_t files;
};

static uint64_t below(struct function *function, uint64_t limit)
{
    return random_below(function->random, limit);
}

/* ---- counters ---- */

static uint64_t any_counter(struct function *function)
{
    uint64_t choice = below(function, 10);

    if (choice == 0)
        return 0;
    if (choice < 4 && function->expressions != 0) {
        size_t index = (size_t)below(function, function->expressions);
        return index << 2 | function->tags[index];
    }
    if (choice < 7)
        return function->counters++ << 2 | TAG_COUNTER;
    return below(function, function->counters) << 2 | TAG_COUNTER;
}

/* An expression, which is the one that is there if there is an equal one. */
static uint64_t make_expression(struct function *function, unsigned tag, uint64_t left,
                                uint64_t right)
{
    size_t i;

    for (i = 0; i < function->expressions; i++) {
        if (function->tags[i] == tag && function->sides[i][0] == left &&
            function->sides[i][1] == right)
            return i << 2 | tag;
    }
    if (i == EXPRESSIONS_MAX)
        return left;
    function->tags[i] = tag;
    function->sides[i][0] = left;
    function->sides[i][1] = right;
    function->expressions++;
    return i << 2 | tag;
}

static void gather(struct function *function, uint64_t counter)
{
    size_t index = (size_t)(counter >> 2);

    if ((counter & 3) < TAG_SUBTRACT || (function->placed[index] && function->place[index] == 0))
        return;
    if (function->table_size == TABLE_MAX)
        return;
    function->placed[index] = true;
    function->place[index] = function->table_size;
    function->table[function->table_size++] = index;
    gather(function, function->sides[index][0]);
    gather(function, function->sides[index][1]);
}

static uint64_t final(const struct function *function, uint64_t counter)
{
    return (counter & 3) < TAG_SUBTRACT ? counter
                                        : function->place[counter >> 2] << 2 | (counter & 3);
}

/* ---- regions ---- */

static void set_counter(struct function *function, struct maker_region *region)
{
    region->header = any_counter(function);
    region->has_counter = true;
}

static void set_branch(struct function *function, struct maker_region *region, bool is_mcdc)
{
    uint64_t when_true = any_counter(function);

    region->header = is_mcdc ? 6 << 3 : 4 << 3;
    region->more[0] = when_true;
    region->more[1] = make_expression(function, TAG_SUBTRACT, any_counter(function), when_true);
    region->counters = 2;
    region->more_count = is_mcdc ? 5 : 2;
    for (unsigned i = 2; i < region->more_count; i++)
        region->more[i] = below(function, 200);
}

static void set_kind(struct function *function, struct maker_region *region, size_t file)
{
    switch (below(function, 8)) {
    case 0:
        region->header = below(function, 4) << 3 | 4;
        break;
    case 1:
        region->header = 2 << 3;
        break;
    case 2:
    case 3:
        set_branch(function, region, below(function, 4) == 0);
        break;
    case 4:
        region->header = file == 0 ? 5 << 3 : 0;
        region->more_count = file == 0 ? 2 : 0;
        region->more[0] = below(function, 300);
        break;
    default:
        set_counter(function, region);
    }
    if (region->has_counter && below(function, 3) == 0)
        make_expression(function, TAG_ADD, region->header, any_counter(function));
}

static void set_place(struct function *function, struct maker_region *region, size_t index)
{
    const struct maker_region *before = region - 1;

    region->line = index == 0 ? below(function, 3000) : below(function, 3);
    region->column = below(function, 200);
    region->num_lines = below(function, 3);
    region->column_end = below(function, 200);
    if (region->has_counter && below(function, 4) == 0)
        region->column_end |= 0x80000000u;
    if (index != 0 && below(function, 2) == 0) {
        region->line = 0;
        region->column = before->column;
        region->num_lines = before->num_lines;
        region->column_end = before->column_end & 0x7fffffff;
    }
}

static void make_regions(struct function *function)
{
    for (size_t file = 0; file < function->files; file++) {
        /* Few functions are so large that lists of what came last are full. */
        uint64_t most = file != 0 ? 4 : below(function, 20) == 0 ? 700 : 40;
        size_t count = (size_t)below(function, most);

        for (size_t i = 0; i < count; i++) {
            struct maker_region *region = &function->regions[function->region_count++];

            *region = (struct maker_region){0};
            set_kind(function, region, file);
            set_place(function, region, i);
            /* Macros look the same wherever they are used. */
            if (file != 0 && below(function, 2) == 0) {
                region->line = 77 + i;
                region->column = region->num_lines = 1;
                region->column_end = 9;
            }
        }
        function->region_counts[file] = count;
    }
}

/* ---- writing ---- */

static void put(struct buffer *bytes, uint64_t number)
{
    ck_assert(buffer_append_uleb128(bytes, number));
}

static void put_region(const struct function *function, const struct maker_region *region,
                       struct buffer *bytes)
{
    put(bytes, region->has_counter ? final(function, region->header) : region->header);
    for (unsigned i = 0; i < region->more_count; i++)
        put(bytes, i < region->counters ? final(function, region->more[i]) : region->more[i]);
    put(bytes, region->line);
    put(bytes, region->column);
    put(bytes, region->num_lines);
    put(bytes, region->column_end);
}

static void put_function(struct function *function, struct buffer *bytes)
{
    const struct maker_region *region = function->regions;

    put(bytes, function->files);
    for (size_t i = 0; i < function->files; i++)
        put(bytes, i * 3);
    put(bytes, function->table_size);
    for (size_t i = 0; i < function->table_size; i++) {
        put(bytes, final(function, function->sides[function->table[i]][0]));
        put(bytes, final(function, function->sides[function->table[i]][1]));
    }
    for (size_t file = 0; file < function->files; file++) {
        put(bytes, function->region_counts[file]);
        for (size_t i = 0; i < function->region_counts[file]; i++)
            put_region(function, region++, bytes);
    }
}

void mapping_make(struct random_state *random, struct buffer *bytes)
{
    struct function function = {.random = random, .counters = 1};

    if (random_below(random, 20) == 0) {
        for (uint64_t i = random_below(random, 30); i != 0; i--)
            put(bytes, random_below(random, 10));
        return;
    }
    function.files = 1 + (size_t)below(&function, 4);
    make_regions(&function);
    for (size_t i = 0; i < function.region_count; i++) {
        const struct maker_region *region = &function.regions[i];

        if (region->has_counter)
            gather(&function, region->header);
        for (unsigned j = 0; j < region->counters; j++)
            gather(&function, region->more[j]);
    }
    /* A table that LLVM would not write. */
    if (function.table_size > 1 && below(&function, 20) == 0)
        function.table[0] = function.table[1];
    put_function(&function, bytes);
}
