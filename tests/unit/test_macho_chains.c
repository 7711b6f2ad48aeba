/*
 * Chained fixups: which of them a page's chain has, which are left after some are removed, in each
 * pointer format, and tables that are damaged.
 *
 * The chains are read by a walk of the test's own.
 */
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/macho_maker.h"

/* The parts of LC_DYLD_CHAINED_FIXUPS, by their offsets in it, for four segments. */
#define STARTS_AT    32u
#define SEGMENT_AT   (STARTS_AT + 24u)
#define IMPORTS_AT   (SEGMENT_AT + 32u)
#define SYMBOLS_AT   (IMPORTS_AT + 16u)
#define BLOB_SIZE    (SYMBOLS_AT + 8u)
#define IMPORTS_TEXT "imports and symbols...."

#define NONE         0xffffu
#define FIXUPS_MAX   PLACES

static const struct pointer_format {
    uint16_t number;
    uint32_t stride;
    unsigned next_bits; /* from bit 51 on */
} pointer_formats[] = {
    {2, 4, 12}, {6, 4, 12}, {1, 8, 11}, {9, 8, 11}, {12, 8, 11},
};

#define FORMATS (sizeof(pointer_formats) / sizeof(pointer_formats[0]))

/* ---- making images ---- */

/* Where the fixups are in __DATA: several on each page, the last one as late as can be. */
static const uint32_t places[] = {0x10,   0x20,   0x800,  0xff8,  0x1000, 0x1008,
                                  0x1ff0, 0x2400, 0x2408, 0x3000, 0x3ff8};

#define PLACES (sizeof(places) / sizeof(places[0]))

static uint64_t next_mask(const struct pointer_format *format)
{
    return ((UINT64_C(1) << format->next_bits) - 1) << 51;
}

/* A rebase that points to a place of its own. */
static uint64_t word_for(size_t index)
{
    return 0x5000 + 16 * index;
}

static void put_fixups(struct macho_maker *maker, const struct pointer_format *format,
                       uint32_t page_size)
{
    for (size_t i = 0; i < PLACES; i++) {
        uint64_t word = word_for(i);

        if (i + 1 < PLACES && places[i + 1] / page_size == places[i] / page_size)
            word |= (uint64_t)(places[i + 1] - places[i]) / format->stride << 51;
        store_u64(maker->file + MAKER_DATA + places[i], word, false);
    }
}

static uint8_t *blob_of(struct macho_maker *maker)
{
    return maker->file + MAKER_LINKEDIT;
}

/* Writes the table for `seg_count` segments, of which __DATA has fixups. */
static void put_table(struct macho_maker *maker, uint16_t pointer_format, uint32_t page_size,
                      uint32_t seg_count)
{
    uint8_t *blob = blob_of(maker), *chain = blob + SEGMENT_AT;
    uint32_t pages = MAKER_DATA_PAGES * MAKER_PAGE / page_size;

    store_u32(blob + CHAINS_STARTS_OFFSET, STARTS_AT, false);
    store_u32(blob + CHAINS_IMPORTS_OFFSET, IMPORTS_AT, false);
    store_u32(blob + CHAINS_SYMBOLS_OFFSET, SYMBOLS_AT, false);
    store_u32(blob + STARTS_AT, seg_count, false);
    store_u32(blob + STARTS_AT + 4 + 4 * MAKER_DATA_INDEX, SEGMENT_AT - STARTS_AT, false);
    store_u32(chain + CHAIN_SIZE, CHAIN_PAGE_START + 2 * pages, false);
    store_u16(chain + CHAIN_PAGE_SIZE, (uint16_t)page_size, false);
    store_u16(chain + CHAIN_POINTER_FORMAT, pointer_format, false);
    store_u64(chain + CHAIN_SEGMENT_OFFSET, MAKER_DATA, false);
    store_u16(chain + CHAIN_PAGE_COUNT, (uint16_t)pages, false);
    for (size_t i = PLACES; i > 0; i--)
        store_u16(chain + CHAIN_PAGE_START + 2 * (size_t)(places[i - 1] / page_size),
                  (uint16_t)(places[i - 1] % page_size), false);
    memcpy(blob + IMPORTS_AT, IMPORTS_TEXT, BLOB_SIZE - IMPORTS_AT);
    macho_maker_table(maker, LC_DYLD_CHAINED_FIXUPS, MAKER_LINKEDIT, BLOB_SIZE);
}

static struct macho_maker *make_image(const struct pointer_format *format, uint32_t page_size,
                                      uint32_t seg_count)
{
    struct macho_maker *maker = macho_maker_new();

    put_fixups(maker, format, page_size);
    put_table(maker, format->number, page_size, seg_count);
    return maker;
}

/* ---- reading chains ---- */

struct fixups {
    uint32_t places[FIXUPS_MAX]; /* in the original's __DATA */
    uint64_t words[FIXUPS_MAX];  /* without the distance to the next one */
    size_t count;
};

/* Walks the chains of one page, whose bytes are at `page`, up to `end`. */
static void walk_page(const struct pointer_format *format, struct bytes page, uint32_t place,
                      uint32_t start, struct fixups *fixups)
{
    uint64_t offset = start, next;

    do {
        struct bytes word;

        ck_assert_msg(bytes_slice(page, offset, 8, &word), "the chain leaves its page");
        ck_assert_uint_lt(fixups->count, FIXUPS_MAX);
        fixups->places[fixups->count] = place + (uint32_t)offset;
        fixups->words[fixups->count++] = load_u64(word.data, false) & ~next_mask(format);
        next = (load_u64(word.data, false) & next_mask(format)) >> 51;
        offset += next * format->stride;
    } while (next != 0);
}

/* Walks all chains of a result whose __DATA is still in its place: bytes are cut by nobody here. */
static struct fixups walk_all(const struct pointer_format *format, struct bytes file,
                              uint32_t segments)
{
    const uint8_t *starts = file.data + MAKER_LINKEDIT + STARTS_AT;
    struct fixups fixups = {.count = 0};

    ck_assert_uint_eq(load_u32(starts, false), segments);
    for (uint32_t i = 0; i < segments; i++) {
        uint32_t offset = load_u32(starts + 4 + (size_t)4 * i, false), page_size;
        const uint8_t *chain = starts + offset;
        uint64_t place;

        if (offset == 0)
            continue;
        ck_assert_uint_eq(offset % 8, 0);
        ck_assert_uint_ge(offset, 4 + 4 * segments);
        page_size = load_u16(chain + CHAIN_PAGE_SIZE, false);
        place = load_u64(chain + CHAIN_SEGMENT_OFFSET, false);
        ck_assert_uint_eq(load_u16(chain + CHAIN_POINTER_FORMAT, false), format->number);
        for (uint32_t j = 0; j < load_u16(chain + CHAIN_PAGE_COUNT, false); j++) {
            uint32_t start = load_u16(chain + CHAIN_PAGE_START + (size_t)2 * j, false);
            struct bytes page;

            ck_assert(bytes_slice(file, place + (uint64_t)j * page_size, page_size, &page));
            if (start != NONE)
                walk_page(format, page, (uint32_t)place - MAKER_DATA + j * page_size, start,
                          &fixups);
        }
    }
    return fixups;
}

/* Exactly the fixups outside of the removed range are left. */
static void assert_left(const struct fixups *fixups, uint32_t removed, uint32_t size)
{
    size_t expected = 0;

    for (size_t i = 0; i < PLACES; i++) {
        if (places[i] - removed < size)
            continue;
        ck_assert_uint_lt(expected, fixups->count);
        ck_assert_uint_eq(fixups->places[expected], places[i]);
        ck_assert_uint_eq(fixups->words[expected], word_for(i));
        expected++;
    }
    ck_assert_uint_eq(fixups->count, expected);
}

/* ---- what is read ---- */

static bool count_fixup(void *context, const struct macho_fixup *fixup)
{
    size_t *count = context;

    ck_assert_uint_lt(*count, PLACES);
    ck_assert_uint_eq(fixup->address, MAKER_BASE + MAKER_DATA + places[*count]);
    ck_assert_uint_eq(fixup->segment, MAKER_DATA_INDEX);
    ck_assert(fixup->is_rebase);
    (*count)++;
    return true;
}

static bool stop_at_third(void *context, const struct macho_fixup *fixup)
{
    size_t *count = context;

    (void)fixup;
    return ++*count < 3;
}

START_TEST(test_each)
{
    static const uint32_t page_sizes[] = {4096, 16384};
    const struct pointer_format *format = &pointer_formats[_i];

    for (size_t i = 0; i < 2; i++) {
        FREED_BY(drop_maker) struct macho_maker *maker = make_image(format, page_sizes[i], 4);
        const char *reason = "";
        size_t count = 0;

        macho_maker_open(maker);
        ck_assert(macho_fixups_each(&maker->state.image, count_fixup, &count, &reason));
        ck_assert_uint_eq(count, PLACES);
        count = 0;
        ck_assert(!macho_fixups_each(&maker->state.image, stop_at_third, &count, &reason));
        ck_assert_uint_eq(count, 3);
        ck_assert_ptr_null(reason);
    }
}
END_TEST

struct target {
    uint64_t word;
    bool is_rebase;
    uint64_t target; /* of a rebase */
};

static bool see_target(void *context, const struct macho_fixup *fixup)
{
    struct target *target = context;

    target->is_rebase = fixup->is_rebase;
    target->target = fixup->target;
    return false;
}

/* Where fixups point, by format: addresses, or offsets from the image's start. */
START_TEST(test_targets)
{
    static const struct {
        size_t format;
        struct target target;
    } rows[] = {
        {0, {UINT64_C(0x100005010), true, UINT64_C(0x100005010)}},
        {0, {UINT64_C(0xff) << 36 | UINT64_C(0x100005010), true, UINT64_C(0x100005010)}},
        {0, {UINT64_C(1) << 63 | 7, false, 0}},
        {1, {0x5010, true, MAKER_BASE + 0x5010}},
        {1, {UINT64_C(1) << 63 | 7, false, 0}},
        {2, {UINT64_C(0x100005010), true, UINT64_C(0x100005010)}},
        {2, {UINT64_C(1) << 63 | 0xabcdull << 32 | 0x5010, true, MAKER_BASE + 0x5010}},
        {2, {UINT64_C(1) << 62 | 7, false, 0}},
        {3, {0x5010, true, MAKER_BASE + 0x5010}},
        {4, {UINT64_C(3) << 62 | 7, false, 0}},
        {4, {UINT64_C(1) << 63 | 0x5010, true, MAKER_BASE + 0x5010}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        FREED_BY(drop_maker)
        struct macho_maker *maker = make_image(&pointer_formats[rows[i].format], 4096, 4);
        struct target seen;
        const char *reason;

        store_u64(maker->file + MAKER_DATA + places[0], rows[i].target.word, false);
        macho_maker_open(maker);
        ck_assert(!macho_fixups_each(&maker->state.image, see_target, &seen, &reason));
        ck_assert_ptr_null(reason);
        ck_assert_msg(seen.is_rebase == rows[i].target.is_rebase, "row %zu", i);
        ck_assert_msg(seen.target == rows[i].target.target, "row %zu", i);
    }
}
END_TEST

/* ---- what is removed ---- */

static const struct removal {
    const char *what;
    uint32_t offset, size; /* of the data, in __DATA */
} removals[] = {
    {"nothing", 0x2800, 0x100},
    {"the last one of a page", 0xff8, 0x8},
    {"the last ones of a page", 0x800, 0x800},
    {"the last one of the last page", 0x3ff8, 0x8},
    {"the last one of a page, and the first ones of the next", 0x900, 0x800},
    {"the first one of a page", 0x10, 0x10},
    {"one between two", 0x20, 0x8},
    {"all of a page", 0x1000, 0x1000},
    {"all of the last page", 0x3000, 0x1000},
    {"all of two pages, and the last one before them", 0xff8, 0x2008},
    {"all", 0, 0x4000},
};

#define REMOVALS (sizeof(removals) / sizeof(removals[0]))

static void check_removal(const struct pointer_format *format, uint32_t page_size,
                          const struct removal *removal)
{
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(format, page_size, 4);
    const char *problem = "";
    struct fixups left;
    FREED_BY(buffer_free) struct buffer result;

    macho_maker_open(maker);
    macho_maker_remove(maker, SECTION_DATA, removal->offset, removal->size);
    ck_assert(macho_relink_plan(&maker->state, &problem));
    ck_assert_ptr_null(problem);
    ck_assert_uint_eq(maker->state.chains_growth, 0);
    result = macho_maker_apply(maker);
    ck_assert_uint_eq(result.size, MAKER_SIZE);
    left = walk_all(format, buffer_view(&result), 4);
    assert_left(&left, removal->offset, removal->size);
    ck_assert(memcmp(result.data + MAKER_LINKEDIT + IMPORTS_AT, IMPORTS_TEXT,
                     BLOB_SIZE - IMPORTS_AT) == 0);
}

START_TEST(test_removal)
{
    for (size_t i = 0; i < FORMATS; i++) {
        check_removal(&pointer_formats[i], 4096, &removals[_i]);
        check_removal(&pointer_formats[i], 16384, &removals[_i]);
    }
}
END_TEST

/* The fixups behind a split belong to the next segment, and the table has lists for both. It may
 * end before segments without fixups. */
START_TEST(test_split)
{
    const struct pointer_format *format = &pointer_formats[_i];

    for (uint32_t seg_count = 4; seg_count > MAKER_COVER_INDEX; seg_count--) {
        FREED_BY(drop_maker) struct macho_maker *maker = make_image(format, 4096, seg_count);
        const char *problem = "";
        struct fixups left;
        FREED_BY(buffer_free) struct buffer result;
        size_t growth;

        macho_maker_open(maker);
        macho_maker_remove(maker, SECTION_DATA, 0x800, 0x2000);
        macho_maker_split(maker, 0x1000, 0x1000);
        ck_assert_msg(macho_relink_plan(&maker->state, &problem), "%s", problem);
        growth = (size_t)maker->state.chains_growth;
        ck_assert_uint_eq(growth % 16, 0);
        result = macho_maker_apply(maker);
        ck_assert_uint_eq(result.size, MAKER_SIZE + growth);
        left = walk_all(format, buffer_view(&result), seg_count);
        assert_left(&left, 0x800, 0x2000);
        ck_assert_uint_eq(load_u32(result.data + MAKER_LINKEDIT + CHAINS_IMPORTS_OFFSET, false),
                          IMPORTS_AT + growth);
        ck_assert_uint_eq(load_u32(result.data + MAKER_LINKEDIT + CHAINS_SYMBOLS_OFFSET, false),
                          SYMBOLS_AT + growth);
        ck_assert(memcmp(result.data + MAKER_LINKEDIT + IMPORTS_AT + growth, IMPORTS_TEXT,
                         BLOB_SIZE - IMPORTS_AT) == 0);
    }
}
END_TEST

/* ---- damage ---- */

static const char malformed[] = "its chained fixups are malformed";
static const char unknown_format[] =
    "its chained fixups are of a format that covsplit does not know";
static const char unknown_layout[] = "its chained fixups have a layout that covsplit does not know";

/* A number of `width` bytes, at an offset in the blob. */
static const struct damage {
    const char *what;
    uint32_t offset;
    unsigned width;
    uint64_t value;
    const char *reason;
} damages[] = {
    {"starts past the end", CHAINS_STARTS_OFFSET, 4, BLOB_SIZE, malformed},
    {"starts that wrap around", CHAINS_STARTS_OFFSET, 4, UINT32_MAX, malformed},
    {"starts that do not fit", CHAINS_STARTS_OFFSET, 4, BLOB_SIZE - 4, malformed},
    {"more segments than the image", STARTS_AT, 4, 5, malformed},
    {"a segment past the end", STARTS_AT + 8, 4, BLOB_SIZE - STARTS_AT - 8, malformed},
    {"a segment far past the end", STARTS_AT + 8, 4, UINT32_MAX, malformed},
    {"more pages than fit", SEGMENT_AT + CHAIN_PAGE_COUNT, 2, 0xffff, malformed},
    {"a page size of nobody", SEGMENT_AT + CHAIN_PAGE_SIZE, 2, 8192, malformed},
    {"another segment's offset", SEGMENT_AT + CHAIN_SEGMENT_OFFSET, 8, MAKER_PAGE + 8, malformed},
    {"a format of 32 bits", SEGMENT_AT + CHAIN_POINTER_FORMAT, 2, 3, unknown_format},
    {"several chains in a page", SEGMENT_AT + CHAIN_PAGE_START, 2, 0x8000, unknown_format},
    {"a start past its page", SEGMENT_AT + CHAIN_PAGE_START, 2, 0x1000, malformed},
    {"a fixup over the end of the segment", SEGMENT_AT + CHAIN_PAGE_START + 6, 2, 0xffc, malformed},
};

static void put_number(uint8_t *to, unsigned width, uint64_t value)
{
    if (width == 2)
        store_u16(to, (uint16_t)value, false);
    else if (width == 4)
        store_u32(to, (uint32_t)value, false);
    else
        store_u64(to, value, false);
}

static bool take_any(void *context, const struct macho_fixup *fixup)
{
    (void)context;
    (void)fixup;
    return true;
}

static void assert_unreadable(struct macho_maker *maker, const char *reason, const char *what)
{
    const char *found = NULL;

    macho_maker_open(maker);
    ck_assert_msg(!macho_fixups_each(&maker->state.image, take_any, NULL, &found), "%s", what);
    ck_assert_msg(found != NULL && strcmp(found, reason) == 0, "%s: %s", what,
                  found != NULL ? found : "no reason");
    macho_maker_free(maker);
}

START_TEST(test_damage)
{
    const struct damage *damage = &damages[_i];
    struct macho_maker *maker = make_image(&pointer_formats[0], 4096, 4);

    put_number(blob_of(maker) + damage->offset, damage->width, damage->value);
    assert_unreadable(maker, damage->reason, damage->what);
}
END_TEST

START_TEST(test_other_damage)
{
    struct macho_maker *maker = make_image(&pointer_formats[0], 4096, 4);

    /* A chain that leaves its page. */
    store_u64(maker->file + MAKER_DATA + 0x20, UINT64_C(0xfff) << 51, false);
    assert_unreadable(maker, malformed, "a chain that leaves its page");
    /* A blob that is no header, and one past the end of the file. */
    maker = macho_maker_new();
    macho_maker_table(maker, LC_DYLD_CHAINED_FIXUPS, MAKER_LINKEDIT, CHAINS_HEADER_SIZE - 1);
    assert_unreadable(maker, malformed, "a short header");
    maker = macho_maker_new();
    macho_maker_table(maker, LC_DYLD_CHAINED_FIXUPS, MAKER_SIZE - 8, CHAINS_HEADER_SIZE);
    assert_unreadable(maker, malformed, "a header past the end");
}
END_TEST

/* Relocations of old images: external ones, and local ones. */
START_TEST(test_old_relocations)
{
    static const uint32_t fields[] = {DYSYMTAB_NEXTREL, DYSYMTAB_NLOCREL};

    for (size_t i = 0; i < 2; i++) {
        struct macho_maker *maker = make_image(&pointer_formats[0], 4096, 4);

        store_u32(macho_maker_command(maker, LC_DYSYMTAB, DYSYMTAB_SIZE) + fields[i], 1, false);
        assert_unreadable(maker, "it has relocations of a kind that covsplit does not know",
                          "old relocations");
    }
}
END_TEST

/* ---- what cannot be relinked ---- */

static const struct damage orders[] = {
    {"starts in the header", CHAINS_STARTS_OFFSET, 4, 0, unknown_layout},
    {"imports before the starts", CHAINS_IMPORTS_OFFSET, 4, STARTS_AT - 4, unknown_layout},
    {"symbols before the imports", CHAINS_SYMBOLS_OFFSET, 4, IMPORTS_AT - 4, unknown_layout},
    {"more segments than the image", STARTS_AT, 4, 5, unknown_layout},
    {"a page size of nobody", SEGMENT_AT + CHAIN_PAGE_SIZE, 2, 8192, malformed},
};

/* Removes data, if its size is not 0, and splits the segment behind 0x1000 if that is wanted. */
static void assert_not_relinked(struct macho_maker *maker, uint32_t offset, uint32_t size,
                                bool is_split, const char *reason)
{
    const char *problem = NULL;

    macho_maker_open(maker);
    if (size != 0)
        macho_maker_remove(maker, SECTION_DATA, offset, size);
    if (is_split)
        macho_maker_split(maker, 0x1000, 0x1000);
    ck_assert_msg(!macho_relink_plan(&maker->state, &problem), "not: %s", reason);
    ck_assert_str_eq(problem, reason);
    macho_maker_free(maker);
}

START_TEST(test_unknown_order)
{
    const struct damage *order = &orders[_i];
    struct macho_maker *maker = make_image(&pointer_formats[0], 4096, 4);

    put_number(blob_of(maker) + order->offset, order->width, order->value);
    assert_not_relinked(maker, 0, 0x100, false, order->reason);
}
END_TEST

/* Imports that begin past the end of all. */
START_TEST(test_imports_outside)
{
    struct macho_maker *maker = make_image(&pointer_formats[0], 4096, 4);

    store_u32(blob_of(maker) + CHAINS_IMPORTS_OFFSET, BLOB_SIZE + 8, false);
    store_u32(blob_of(maker) + CHAINS_SYMBOLS_OFFSET, BLOB_SIZE + 8, false);
    assert_not_relinked(maker, 0, 0, false, unknown_layout);
}
END_TEST

/* A pointer that dyld sets must not be cut out if it is not of the data. The table must not end
 * before the segment that would get the second part; and pages of the chains that are larger than
 * those of the machine would have bytes in both parts. */
START_TEST(test_impossible_split)
{
    assert_not_relinked(make_image(&pointer_formats[0], 4096, 4), 0x800, 0x900, true,
                        "dyld applies fixups outside all sections");
    assert_not_relinked(make_image(&pointer_formats[0], 4096, 2), 0x800, 0x2000, true,
                        "its chained fixups have fewer segments than the image");
    assert_not_relinked(make_image(&pointer_formats[0], 16384, 4), 0x800, 0x2000, true,
                        "its fixups are chained over larger pages");
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, FORMATS, test_each, test_split);
    suite_loops(all, REMOVALS, test_removal);
    suite_loops(all, sizeof(damages) / sizeof(damages[0]), test_damage);
    suite_loops(all, sizeof(orders) / sizeof(orders[0]), test_unknown_order);
    suite_tests(all, test_targets, test_other_damage, test_old_relocations, test_imports_outside,
                test_impossible_split);
    return suite_main("macho_chains", all);
}
