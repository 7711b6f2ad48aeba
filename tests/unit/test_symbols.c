/*
 * The symbols of coverage records: of tables as linkers make them, and of others, what is left has
 * the same symbols as before but for those, and both tables come back to the byte. No recipe,
 * however damaged, reads or writes elsewhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edit/symbols.h"
#include "common/llvm/coverage.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/refused_memory.h"

#define RECORD_MAX 40
#define SYMBOL_MAX 90
#define SECTION    7
#define ADDRESS    0x1000u
#define NAME       "test"
#define GAP        5
#define KIND_FORMS 4

struct world {
    struct elf_form form;
    struct buffer records, symbols, names;
    struct {
        uint64_t offset, size, reference;
    } facts[RECORD_MAX];
    size_t record_count, symbol_count, expected; /* how many symbols go */
    struct symbol_cut cut;
    struct buffer stripped, recipe;
    uint64_t symbols_offset, names_offset;
};

static void make_records(struct world *world, struct random_state *random)
{
    uint8_t mapping[60] = {0};

    world->record_count = 1 + random_below(random, RECORD_MAX);
    for (size_t i = 0; i < world->record_count; i++) {
        struct covfun_record record = {.name_reference =
                                           random_next(random) >> random_below(random, 64),
                                       .mapping = {mapping, random_below(random, sizeof(mapping))}};

        buffer_append_zeros(&world->records, (0 - world->records.size) % COVERAGE_ALIGNMENT);
        world->facts[i].offset = world->records.size;
        world->facts[i].size = COVFUN_HEADER_SIZE + record.mapping.size;
        world->facts[i].reference = record.name_reference;
        ck_assert(covfun_append(&world->records, &record, world->form.big_endian));
    }
}

static void put_symbol(struct world *world, uint32_t name, uint8_t info, uint16_t section,
                       uint64_t value, uint64_t size)
{
    uint8_t entry[24];
    unsigned width = world->form.wide ? 8 : 4;
    uint8_t *numbers = entry + (world->form.wide ? 8 : 4);
    uint8_t *rest = world->form.wide ? entry + 4 : entry + 12;
    bool big = world->form.big_endian;

    store_u32(entry, name, big);
    rest[0] = info;
    rest[1] = 2;
    store_u16(rest + 2, section, big);
    store_number(numbers, value, width, big);
    store_number(numbers + width, size, width, big);
    ck_assert(buffer_append(&world->symbols, entry, world->form.wide ? 24 : 16));
    world->symbol_count++;
}

static uint32_t put_name(struct world *world, const char *name)
{
    uint32_t offset = (uint32_t)world->names.size;

    ck_assert(buffer_append(&world->names, name, strlen(name) + 1));
    return offset;
}

/* A symbol of a record; `oddity` 1 to 5: one that stays. */
static void put_record_symbol(struct world *world, size_t record, bool is_plain, unsigned oddity)
{
    char text[60];
    uint64_t value = ADDRESS + world->facts[record].offset, size = world->facts[record].size;
    uint32_t name;

    snprintf(text, sizeof(text), "__covrec_%llX%s%s",
             (unsigned long long)world->facts[record].reference, is_plain ? "" : "u",
             oddity == 1 ? "x" : "");
    name = put_name(world, text);
    /* Another symbol uses the end of its name. */
    if (oddity == 2)
        put_symbol(world, name + 9, 3, 1, 5, 5);
    put_symbol(world, name, oddity == 5 ? 0x11 : 1, oddity == 3 ? SECTION + 1 : SECTION, value,
               oddity == 4 ? size + 1 : size);
    world->expected += oddity == 0;
}

/* `is_odd`: not all symbols of records go. */
static void make_tables(struct world *world, struct random_state *random, bool is_odd)
{
    put_name(world, "");
    put_symbol(world, 0, 0, 0, 0, 0);
    put_record_symbol(world, 0, false, 0);
    while (world->symbol_count < SYMBOL_MAX && random_below(random, 40) != 0) {
        char text[20];

        if (random_below(random, 3) == 0) {
            snprintf(text, sizeof(text), "name%u", (unsigned)random_below(random, 1000));
            put_symbol(world, put_name(world, text), 1, (uint16_t)random_below(random, 9),
                       random_next(random) >> 32, 8);
        } else {
            put_record_symbol(world, random_below(random, world->record_count),
                              random_below(random, 5) == 0,
                              is_odd ? (unsigned)random_below(random, 7) % 6 : 0);
        }
    }
}

static struct symbol_tables tables_of(const struct world *world)
{
    return (struct symbol_tables){buffer_view(&world->symbols), buffer_view(&world->names)};
}

/* Lists the records, of which `step` bytes pass at a time. */
static bool list(const struct world *world, size_t step, struct record_list *list)
{
    bool done = true;

    record_list_start(list, world->records.size, world->form.big_endian);
    for (size_t at = 0; done && at < world->records.size; at += step) {
        size_t left = world->records.size - at;

        done = record_list_add(list,
                               (struct bytes){world->records.data + at, left < step ? left : step});
    }
    return done;
}

static bool cut(struct world *world)
{
    const struct symbol_tables tables = tables_of(world);

    world->cut = (struct symbol_cut){.section = SECTION, .address = ADDRESS};
    return list(world, world->records.size, &world->cut.records) &&
           symbol_cut_make(&world->cut, world->form, &tables);
}

/* The symbols that stay have the names that they had, and their order. */
static void expect_left(const struct world *world)
{
    size_t entry = world->form.wide ? 24 : 16, left = 0;

    for (size_t i = 0; i < world->symbol_count; i++) {
        const uint8_t *old = world->symbols.data + i * entry, *new;
        size_t index;

        if (!symbol_cut_stays(&world->cut, i, &index))
            continue;
        ck_assert_uint_eq(index, left++);
        new = world->cut.symbols.data + index *entry;
        ck_assert_mem_eq(old + 4, new + 4, entry - 4);
        ck_assert_str_eq((const char *)world->names.data + load_u32(old, world->form.big_endian),
                         (const char *)world->cut.names.data +
                             load_u32(new, world->form.big_endian));
    }
    ck_assert_uint_eq(left * entry, world->cut.symbols.size);
    ck_assert_uint_eq(left + world->cut.count, world->symbol_count);
}

static void put_table(struct world *world, const struct buffer *table, uint64_t *offset)
{
    ck_assert(buffer_append_zeros(&world->stripped, GAP));
    *offset = world->stripped.size;
    ck_assert(buffer_append(&world->stripped, table->data, table->size));
}

/* What a split does with the tables. */
static bool strip(struct world *world, bool names_are_first)
{
    if (names_are_first)
        put_table(world, &world->cut.names, &world->names_offset);
    put_table(world, &world->cut.symbols, &world->symbols_offset);
    if (!names_are_first)
        put_table(world, &world->cut.names, &world->names_offset);
    return symbol_cut_encode(&world->cut, world->symbols_offset, world->names_offset,
                             &world->recipe);
}

static bool apply_below(const struct world *world, struct bytes recipe, uint64_t limit,
                        struct buffer *tables, struct error *error)
{
    FREED_BY(record_list_free) struct record_list records = {0};

    return list(world, 1 + world->records.size / 7, &records)
               ? symbol_recipe_apply(recipe, world->form, buffer_view(&world->stripped), &records,
                                     limit, NAME, tables, error)
               : error_out_of_memory(error, NAME, 0);
}

static bool apply(const struct world *world, struct bytes recipe, struct buffer *tables,
                  struct error *error)
{
    return apply_below(world, recipe, UINT64_MAX, tables, error);
}

static void expect_back(const struct world *world, const struct buffer *tables)
{
    bool names_are_first = world->names_offset < world->symbols_offset;
    const struct buffer *first = names_are_first ? &world->names : &world->symbols;
    const struct buffer *second = names_are_first ? &world->symbols : &world->names;

    ck_assert_uint_eq(tables->size, first->size + second->size);
    ck_assert_uint_eq(symbol_recipe_size(buffer_view(&world->recipe)), tables->size);
    ck_assert_mem_eq(tables->data, first->data, first->size);
    ck_assert_mem_eq(tables->data + first->size, second->data, second->size);
}

static void make(struct world *world, struct random_state *random, unsigned form, bool is_odd)
{
    *world = (struct world){.form = {(form & 1) != 0, (form & 2) != 0}};
    make_records(world, random);
    make_tables(world, random, is_odd);
}

static void world_free(struct world *world)
{
    buffer_free(&world->records);
    buffer_free(&world->symbols);
    buffer_free(&world->names);
    symbol_cut_free(&world->cut);
    buffer_free(&world->stripped);
    buffer_free(&world->recipe);
}

START_TEST(test_round_trip)
{
    struct random_state random = random_start((unsigned)_i);

    for (unsigned round = 0; round < 400; round++) {
        bool is_odd = round % 3 == 2;
        FREED_BY(buffer_free) struct buffer tables = {0};
        FREED_BY(world_free) struct world world;
        struct error error;

        make(&world, &random, (unsigned)_i, is_odd);
        ck_assert(cut(&world));
        ck_assert_uint_eq(world.cut.count, world.expected);
        expect_left(&world);
        /* As where a section moves. */
        if (round % 2 == 1)
            world.cut.symbols.data[world.cut.symbols.size - 1] ^= 0x55;
        ck_assert(strip(&world, round % 4 >= 2));
        ck_assert_msg(apply(&world, buffer_view(&world.recipe), &tables, &error), "%s",
                      error.message);
        expect_back(&world, &tables);
    }
}
END_TEST

/* In pieces of any size, the same records pass: all, or those before damage. */
START_TEST(test_listed)
{
    struct random_state random = random_start(9);

    for (unsigned round = 0; round < 400; round++) {
        FREED_BY(world_free) struct world world;
        size_t expected;

        make(&world, &random, round % KIND_FORMS, false);
        expected = world.record_count;
        if (round % 2 == 1) {
            expected = random_below(&random, world.record_count);
            memset(world.records.data + world.facts[expected].offset + COVFUN_DATA_SIZE, 0xff, 4);
        } else if (round % 3 == 0) {
            world.records.size -= 1;
            expected -= world.facts[expected - 1].offset + world.facts[expected - 1].size >
                        world.records.size;
        }
        for (size_t step = 1; step < 2 * COVFUN_HEADER_SIZE; step++) {
            FREED_BY(record_list_free) struct record_list found = {0};

            ck_assert(list(&world, step, &found));
            ck_assert_uint_eq(found.count, expected);
            for (size_t i = 0; i < expected; i++) {
                ck_assert_uint_eq(found.records[i].offset, world.facts[i].offset);
                ck_assert_uint_eq(found.records[i].size, world.facts[i].size);
                ck_assert_uint_eq(found.records[i].reference, world.facts[i].reference);
            }
        }
    }
}
END_TEST

/* Nothing goes from tables with a name that is not there, or from none. */
START_TEST(test_unsound)
{
    struct random_state random = random_start(5);
    FREED_BY(world_free) struct world world;

    make(&world, &random, 1, false);
    put_symbol(&world, (uint32_t)world.names.size, 1, 1, 1, 1);
    ck_assert(cut(&world));
    ck_assert_uint_eq(world.cut.count, 0);
    symbol_cut_free(&world.cut);
    world.symbols.size = 0;
    ck_assert(cut(&world));
    ck_assert_uint_eq(world.cut.count, 0);
}
END_TEST

START_TEST(test_damaged)
{
    struct random_state random = random_start(6);
    unsigned refused = 0;

    for (unsigned round = 0; round < 4000; round++) {
        FREED_BY(buffer_free) struct buffer tables = {0};
        FREED_BY(world_free) struct world world;
        struct error error;

        make(&world, &random, round % KIND_FORMS, false);
        ck_assert(cut(&world) && strip(&world, false));
        for (uint64_t i = 0; i <= random_below(&random, 4); i++)
            world.recipe.data[random_below(&random, world.recipe.size)] =
                (uint8_t)random_next(&random);
        if (random_below(&random, 4) == 0)
            world.recipe.size = random_below(&random, world.recipe.size);
        if (random_below(&random, 4) == 0)
            world.records.size = random_below(&random, world.records.size);
        refused += !apply(&world, buffer_view(&world.recipe), &tables, &error);
    }
    ck_assert_uint_gt(refused, 2000);
}
END_TEST

/* What is put back is bounded by the limit; what stayed is in the stripped image. And nothing is
 * made of a recipe that claims less than it has. */
START_TEST(test_bounded)
{
    struct random_state random = random_start(8);
    FREED_BY(buffer_free) struct buffer tables = {0}, less = {0};
    FREED_BY(world_free) struct world world;
    struct error error;
    uint64_t more;

    make(&world, &random, 1, false);
    ck_assert(cut(&world) && strip(&world, false));
    more = world.symbols.size + world.names.size - world.cut.symbols.size - world.cut.names.size;
    ck_assert(!apply_below(&world, buffer_view(&world.recipe), more - 1, &tables, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "--memory-limit"));
    ck_assert_uint_eq(tables.size, 0);
    ck_assert(apply_below(&world, buffer_view(&world.recipe), more, &tables, &error));
    expect_back(&world, &tables);
    tables.size = 0;
    for (uint64_t fewer = 1; fewer <= more; fewer++) {
        uint64_t size = symbol_recipe_size(buffer_view(&world.recipe));
        struct cursor at = cursor_open(buffer_view(&world.recipe), false, false);
        struct bytes rest;

        cursor_uleb128(&at);
        rest = cursor_rest(&at);
        less.size = 0;
        ck_assert(buffer_append_uleb128(&less, size - fewer) &&
                  buffer_append(&less, rest.data, (size_t)rest.size));
        ck_assert(!apply(&world, buffer_view(&less), &tables, &error));
        ck_assert_uint_eq(tables.size, 0);
    }
}
END_TEST

static bool run_without_memory(void *subject)
{
    struct random_state random = random_start(7);
    FREED_BY(buffer_free) struct buffer tables = {0};
    FREED_BY(world_free) struct world world;
    struct error error;
    size_t granted = memory_granted;
    bool done;

    (void)subject;
    memory_granted = MEMORY_ALL;
    make(&world, &random, 1, true);
    memory_granted = granted;
    done = cut(&world);
    granted = memory_granted;
    memory_granted = MEMORY_ALL;
    if (done)
        put_table(&world, &world.cut.symbols, &world.symbols_offset);
    if (done)
        put_table(&world, &world.cut.names, &world.names_offset);
    memory_granted = granted;
    done = done &&
           symbol_cut_encode(&world.cut, world.symbols_offset, world.names_offset, &world.recipe);
    if (done && !apply(&world, buffer_view(&world.recipe), &tables, &error)) {
        expect_memory(&error);
        done = false;
    }
    if (done)
        expect_back(&world, &tables);
    return done;
}

START_TEST(test_no_memory)
{
    refuse_each_way(run_without_memory, NULL);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("symbols", 60, NULL);

    tcase_add_loop_test(test_case, test_round_trip, 0, KIND_FORMS);
    suite_tests(test_case, test_listed, test_unsound, test_damaged, test_bounded, test_no_memory);
    return suite_main("symbols", test_case);
}
