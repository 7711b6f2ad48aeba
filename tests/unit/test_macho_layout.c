/*
 * Layouts of Mach-O images made by hand: which pages are cut, where the tripwires are put, and why
 * zeros stay.
 *
 * Whatever the layout is, what must stay is the same in the result, in the place that the edits
 * say, and the tripwires are where the headers will say.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/unit/macho_maker.h"

#define DATA_START     0x1000u
#define COVERAGE_START 0x8000u
#define LINKEDIT_START 0xa000u
#define FILE_SIZE      (LINKEDIT_START + 0x400u)
#define RECORD_SIZE    64u
#define TRIPWIRE       96u
/* With that of the mapping behind it. */

enum { COUNTERS, DATA, NAMES, OTHER, COVFUN, COVMAP, PARTS };

static const struct part {
    const char *name;
    enum section_kind kind; /* 0: another section */
} parts[] = {
    [COUNTERS] = {"__llvm_prf_cnts", SECTION_COUNTERS},
    [DATA] = {"__llvm_prf_data", SECTION_DATA},
    [NAMES] = {"__llvm_prf_names", SECTION_NAMES},
    [OTHER] = {"__other", (enum section_kind)0},
    [COVFUN] = {"__llvm_covfun", SECTION_COVFUN},
    [COVMAP] = {"__llvm_covmap", SECTION_COVMAP},
};

#define NOWHERE UINT32_MAX

struct place {
    uint32_t offset; /* in the file; NOWHERE: there is no such section */
    uint32_t size;   /* 0: both as usual */
};

static const struct place usual[] = {
    [COUNTERS] = {0x1000, 0x800}, [DATA] = {0x1800, 0x2c00},   [NAMES] = {0x4400, 0x2400},
    [OTHER] = {0x6800, 0x1000},   [COVFUN] = {0x8000, 0x1000}, [COVMAP] = {0x9000, 0x800},
};

#define BIT(part) (1u << (part))

struct layout {
    const char *what;
    struct place places[PARTS];
    unsigned staying;                          /* besides counters and other: a mask of parts */
    void (*change)(struct macho_maker *maker); /* before the image is opened; or NULL */
    void (*adjust)(struct macho_state *state); /* and after that */
    uint32_t cut;                              /* bytes */
    uint32_t split;                            /* where the second part begins; 0: none */
    uint32_t zeros;                            /* bytes of counters that are cut */
    enum macho_names_place names_place;
    const char *why[PARTS]; /* the reason for zeros; NULL: there are none for a reason */
};

static const char cut_twice[] = "its segment cannot be cut twice";
static const char no_empty_segment[] = "other bytes of its segment come behind it, and there is no "
                                       "empty segment __LLVM_COV next to it "
                                       "that could take them";
static const char both_sides[] =
    "its segment has sections on both sides that programs may look for by name";
static const char no_start[] =
    "no section would start where a new segment does, as LLVM's tools expect it";

/* ---- the rows ---- */

/* Names up to the end of the segment. */
#define NAMES_LAST [OTHER] = {NOWHERE, 1}, [NAMES] = {0x4400, 0x3c00}

#define WHY_ALL(reason)                                                                            \
    {                                                                                              \
        [DATA] = (reason), [NAMES] = (reason)                                                      \
    }

/* Counters that may leave the file. */
static void take_zeros(struct macho_maker *maker)
{
    memset(maker->file + 0x1000, 0, 0x800);
    maker->options.sections = SECTION_ZEROS;
}

static void take_zeros_behind_byte(struct macho_maker *maker)
{
    take_zeros(maker);
    maker->file[0x1000] = 1;
}

static void take_no_bytes(struct macho_maker *maker)
{
    maker->options.sections = SECTION_ZEROS;
}

static void put_byte_between(struct macho_maker *maker)
{
    maker->file[0x43f8] = 1;
}

static void put_byte_behind(struct macho_maker *maker)
{
    maker->file[0x7ff0] = 1;
}

static void share_names(struct macho_state *state)
{
    struct runtime_symbols *symbols = &state->base.code.symbols;

    symbols->definitions[0] =
        (struct runtime_definition){.symbol = RUNTIME_BEGIN_NAMES, .is_shared = true};
    symbols->count = 1;
}

static void share_data(struct macho_state *state)
{
    struct runtime_symbols *symbols = &state->base.code.symbols;

    symbols->definitions[0] =
        (struct runtime_definition){.symbol = RUNTIME_BEGIN_DATA, .is_shared = true};
    symbols->count = 1;
}

static void name_counters(struct macho_state *state)
{
    strcpy(state->image.sections[0].sectname, "__data");
}

static void shorten_data(struct macho_state *state)
{
    state->image.segments[MAKER_DATA_INDEX].filesize -= 8;
}

static void drop_next(struct macho_state *state)
{
    state->image.segment_count = MAKER_COVER_INDEX;
}

static void rename_data(struct macho_state *state)
{
    strcpy(state->image.segments[MAKER_DATA_INDEX].segname, "__MINE");
}

static void rename_next(struct macho_state *state)
{
    strcpy(state->image.segments[MAKER_COVER_INDEX].segname, "__MINE");
}

static void empty_next(struct macho_state *state)
{
    state->image.segments[MAKER_COVER_INDEX].filesize = 0;
}

static void move_next(struct macho_state *state)
{
    state->image.segments[MAKER_COVER_INDEX].vmaddr += MAKER_PAGE;
}

static void move_next_command(struct macho_state *state)
{
    state->image.segments[MAKER_COVER_INDEX].command += 8;
}

static void protect_next(struct macho_state *state)
{
    state->image.segments[MAKER_COVER_INDEX].initprot = 1;
}

static void protect_next_for_good(struct macho_state *state)
{
    state->image.segments[MAKER_COVER_INDEX].maxprot = 1;
}

/* Counters of more than a page. */
#define MORE_COUNTERS [COUNTERS] = {0x1000, 0x1800}, [DATA] = {0x2800, 0x1c00}

static const struct layout layouts[] = {
    {"zeros", .change = take_zeros, .cut = 0x5000 + 0x2000, .split = 0x6000, .zeros = 0x800,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"more zeros, of which some bytes are not zero", .places = {MORE_COUNTERS},
     .change = take_zeros, .cut = 0x3000 + 0x2000, .split = 0x6000,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"zeros that begin with another byte", .change = take_zeros_behind_byte, .cut = 0x4000 + 0x2000,
     .split = 0x6000, .names_place = MACHO_NAMES_AT_SPLIT},
    {"counters that are no zeros", .change = take_no_bytes, .cut = 0x4000 + 0x2000, .split = 0x6000,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"zeros, but the function of the first record shares its code", .change = take_zeros,
     .adjust = share_data, .cut = 0x4000 + 0x2000, .split = 0x6000,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"zeros, but names come first",
     .places = {[NAMES] = {0x1800, 0x2c00}, [DATA] = {0x4400, 0x2400}}, .change = take_zeros,
     .cut = 0x2000 + 0x2000, .split = 0x4000, .names_place = MACHO_NAMES_AT_SPLIT,
     .why = {[DATA] = cut_twice}},
    {"zeros, but the names stay in the last page", .places = {NAMES_LAST}, .change = take_zeros,
     .cut = 0x6000 + 0x1000, .names_place = MACHO_NAMES_BEHIND_STUB},
    {"data behind the names", .cut = 0x4000 + 0x2000, .split = 0x6000,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"names last", .places = {NAMES_LAST}, .cut = 0x6000 + 0x1000,
     .names_place = MACHO_NAMES_BEHIND_STUB},
    {"names last, and bytes behind them",
     .places = {[OTHER] = {NOWHERE, 1}, [NAMES] = {0x4400, 0x3a00}}, .change = put_byte_behind,
     .cut = 0x5000 + 0x2000, .split = 0x7000, .names_place = MACHO_NAMES_AT_SPLIT},
    {"names last, whose functions share their code", .places = {NAMES_LAST}, .adjust = share_names,
     .cut = 0x3000 + 0x1000, .why = {[DATA] = no_empty_segment}},
    {"functions that share their code", .adjust = share_names, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"names before data", .places = {[NAMES] = {0x1800, 0x2c00}, [DATA] = {0x4400, 0x2400}},
     .cut = 0x2000 + 0x2000, .split = 0x4000, .names_place = MACHO_NAMES_AT_SPLIT,
     .why = {[DATA] = cut_twice}},
    {"names before more data", .places = {[NAMES] = {0x1800, 0x1000}, [DATA] = {0x2800, 0x4000}},
     .cut = 0x1000, .why = {[DATA] = no_start}},
    {"short names",
     .places = {[DATA] = {0x1800, 0x47a0}, [NAMES] = {0x5fa0, 0x68}, [OTHER] = {0x6008, 0x1000}},
     .cut = 0x3000 + 0x2000, .split = 0x5000, .names_place = MACHO_NAMES_AT_SPLIT},
    {"short names, and one page of data",
     .places = {[DATA] = {0x1800, 0x17a0}, [NAMES] = {0x2fa0, 0x68}, [OTHER] = {0x3008, 0x1000}},
     .cut = 0x1000, .why = WHY_ALL(no_start)},
    {"a byte between data and names", .places = {[DATA] = {0x1800, 0x2bf0}},
     .change = put_byte_between, .cut = 0x2000 + 0x2000, .split = 0x4000,
     .names_place = MACHO_NAMES_AT_SPLIT, .why = {[NAMES] = cut_twice}},
    {"a section between data and names",
     .places = {[OTHER] = {0x4400, 0x100}, [NAMES] = {0x4500, 0x3b00}}, .cut = 0x3000 + 0x1000,
     .why = {[DATA] = no_start}},
    {"more names than data, and a section between them",
     .places = {[DATA] = {0x1800, 0x1800}, [OTHER] = {0x3000, 0x100}, [NAMES] = {0x3100, 0x3f00}},
     .change = put_byte_behind, .cut = 0x1000, .why = {[DATA] = cut_twice, [NAMES] = both_sides}},
    {"only names", .staying = BIT(DATA), .cut = 0x1000 + 0x2000, .split = 0x6000,
     .names_place = MACHO_NAMES_AT_SPLIT},
    {"only data", .staying = BIT(NAMES), .cut = 0x1000, .why = {[DATA] = no_empty_segment}},
    {"only the mapping", .staying = BIT(DATA) | BIT(NAMES), .cut = 0x1000},
    {"only the records of functions", .staying = BIT(DATA) | BIT(NAMES) | BIT(COVMAP), .cut = 0,
     .why = {[COVFUN] = no_empty_segment}},
    {"only the filenames", .staying = BIT(DATA) | BIT(NAMES) | BIT(COVFUN), .cut = 0},
    {"no mapping", .staying = BIT(COVMAP) | BIT(COVFUN), .why = WHY_ALL(no_empty_segment)},
    {"nothing", .staying = BIT(DATA) | BIT(NAMES) | BIT(COVMAP) | BIT(COVFUN)},
    {"few records of functions", .places = {[COVFUN] = {0x8000, 0x8}, [COVMAP] = {0x8008, 0x1800}},
     .staying = BIT(DATA) | BIT(NAMES), .cut = 0x1000},
    {"the filenames first", .places = {[COVMAP] = {0x8000, 0x800}, [COVFUN] = {0x8800, 0x1800}},
     .staying = BIT(DATA) | BIT(NAMES), .cut = 0x1000},
    {"no names at all", .places = {[NAMES] = {NOWHERE, 1}, [OTHER] = {0x4400, 0x100}},
     .cut = 0x1000, .why = {[DATA] = no_empty_segment}},
    {"a section to be found by its name", .adjust = name_counters, .cut = 0x1000,
     .why = WHY_ALL(both_sides)},
    {"a segment that ends inside a page", .adjust = shorten_data, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"names last in such a segment", .places = {NAMES_LAST}, .adjust = shorten_data, .cut = 0x1000,
     .why = WHY_ALL(cut_twice)},
    {"no segment behind it", .adjust = drop_next, .cut = 0x1000, .why = WHY_ALL(no_empty_segment)},
    {"a segment of another name", .adjust = rename_data, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"another segment behind it", .adjust = rename_next, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"an empty segment behind it", .adjust = empty_next, .cut = 0,
     .why = WHY_ALL(no_empty_segment)},
    {"a segment further behind it", .adjust = move_next, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"a load command further behind it", .adjust = move_next_command, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
    {"another protection", .adjust = protect_next, .cut = 0x1000, .why = WHY_ALL(no_empty_segment)},
    {"another greatest protection", .adjust = protect_next_for_good, .cut = 0x1000,
     .why = WHY_ALL(no_empty_segment)},
};

#define LAYOUTS (sizeof(layouts) / sizeof(layouts[0]))

/* ---- images ---- */

static struct place place_of(const struct layout *layout, size_t part)
{
    return layout->places[part].size != 0 ? layout->places[part] : usual[part];
}

/* Adds the sections of a segment in the order of their offsets. */
static void add_sections(struct macho_maker *maker, const struct layout *layout, uint32_t start,
                         uint32_t end)
{
    for (uint32_t at = start; at < end; at += 8) {
        for (size_t i = 0; i < PARTS; i++) {
            struct place place = place_of(layout, i);

            if (place.offset == at)
                macho_maker_section(maker, parts[i].name, place.offset, place.size, 0);
        }
    }
}

static void add_segments(struct macho_maker *maker, const struct layout *layout)
{
    macho_maker_segment(maker, "__TEXT", MAKER_BASE, 0, DATA_START);
    macho_maker_segment(maker, "__DATA", MAKER_BASE + DATA_START, DATA_START,
                        COVERAGE_START - DATA_START);
    add_sections(maker, layout, DATA_START, COVERAGE_START);
    macho_maker_segment(maker, "__LLVM_COV", MAKER_BASE + COVERAGE_START, COVERAGE_START,
                        LINKEDIT_START - COVERAGE_START);
    add_sections(maker, layout, COVERAGE_START, LINKEDIT_START);
    macho_maker_segment(maker, "__LINKEDIT", MAKER_BASE + LINKEDIT_START, LINKEDIT_START,
                        FILE_SIZE - LINKEDIT_START);
}

static void plan_section(struct macho_state *state, size_t part, bool goes)
{
    size_t index = macho_find_section(&state->image, part >= COVFUN ? "__LLVM_COV" : "__DATA",
                                      parts[part].name, NO_INDEX);

    state->base.section_index[parts[part].kind] = index;
    if (index != NO_INDEX)
        image_plan_add(state->base.plan,
                       &(struct section){.kind = parts[part].kind,
                                         .address = state->image.sections[index].addr,
                                         .offset = state->image.sections[index].offset,
                                         .size = state->image.sections[index].size,
                                         .fate = goes ? FATE_REMOVED : FATE_STAYS});
}

static struct macho_maker *make_image(const struct layout *layout)
{
    struct macho_maker *maker = macho_maker_bare(FILE_SIZE);
    struct macho_state *state = &maker->state;
    bool names_go =
        (layout->staying & BIT(NAMES)) == 0 && place_of(layout, NAMES).offset != NOWHERE;

    for (size_t i = 0; i < PARTS; i++) {
        struct place place = place_of(layout, i);

        if (place.offset != NOWHERE)
            memset(maker->file + place.offset, (int)(0x11 * (i + 1)), place.size);
    }
    memset(maker->file + LINKEDIT_START, 0xee, FILE_SIZE - LINKEDIT_START);
    add_segments(maker, layout);
    if (layout->change != NULL)
        layout->change(maker);
    macho_maker_open(maker);
    for (size_t i = 0; i < PARTS; i++) {
        if (parts[i].kind != 0)
            plan_section(state, i, i != COUNTERS && (layout->staying & BIT(i)) == 0);
    }
    image_plan_sort(state->base.plan);
    state->base.format = &macho_format;
    state->base.input = &maker->input;
    state->base.plan->facts.raw_version = 10;
    ck_assert(profile_record_layout(10, 8, &state->base.record_layout));
    ck_assert_uint_eq(state->base.record_layout.record_size, RECORD_SIZE);
    state->base.tripwire_size = names_go ? TRIPWIRE : 0;
    memset(state->base.stub, 's', RECORD_SIZE);
    memset(state->base.tripwire, 'n', TRIPWIRE);
    memset(state->base.mapping_tripwire, 'm', TRIPWIRE_MAPPING_SIZE);
    if (layout->adjust != NULL)
        layout->adjust(state);
    return maker;
}

/* ---- what must hold ---- */

static bool goes(const struct macho_state *state, enum section_kind kind)
{
    return image_plan_removes(state->base.plan, kind);
}

static void assert_text(const struct layout *layout, struct bytes file, uint64_t offset, int byte,
                        uint64_t size)
{
    struct bytes part;

    ck_assert_msg(bytes_slice(file, offset, size, &part), "%s", layout->what);
    for (uint64_t i = 0; i < size; i++)
        ck_assert_msg(part.data[i] == byte, "%s: byte 0x%x instead of 0x%x at 0x%x", layout->what,
                      part.data[i], (unsigned)byte, (unsigned)(offset + i));
}

static bool maker_has_counters(const struct layout *layout)
{
    return layout->change != take_zeros && layout->change != take_zeros_behind_byte;
}

/* A stub that was moved is made anew. */
static void assert_stub(const struct layout *layout, struct macho_state *state, struct bytes file)
{
    const struct edit_script *edits = &state->base.plan->edits;
    struct bytes stub;

    if (layout->zeros == 0) {
        assert_text(layout, file, edit_script_map(edits, place_of(layout, DATA).offset), 's',
                    RECORD_SIZE);
        return;
    }
    ck_assert(bytes_slice(file, edit_script_map(edits, layout->split), RECORD_SIZE, &stub));
    ck_assert_uint_eq(load_u64(stub.data + state->base.record_layout.counter_ptr, false),
                      UINT64_C(0) + DATA_START - layout->split);
    ck_assert_uint_eq(load_u32(stub.data + state->base.record_layout.num_counters, false), 0x100);
}

/* All bytes that stay are where the edits say, and so are stub and tripwires. */
static void assert_bytes(const struct layout *layout, struct macho_state *state, struct bytes file)
{
    const struct edit_script *edits = &state->base.plan->edits;

    for (size_t i = 0; i < PARTS; i++) {
        struct place place = place_of(layout, i);

        if (place.offset != NOWHERE && (parts[i].kind == 0 || !goes(state, parts[i].kind)) &&
            (i != COUNTERS || maker_has_counters(layout)))
            assert_text(layout, file, edit_script_map(edits, place.offset), (int)(0x11 * (i + 1)),
                        place.size);
    }
    if (layout->change == put_byte_behind)
        assert_text(layout, file, edit_script_map(edits, 0x7ff0), 1, 1);
    if (layout->change == put_byte_between)
        assert_text(layout, file, edit_script_map(edits, 0x43f8), 1, 1);
    if (goes(state, SECTION_DATA))
        assert_stub(layout, state, file);
    if (goes(state, SECTION_NAMES))
        assert_text(layout, file, edit_script_map(edits, state->names.offset), 'n', TRIPWIRE);
    if (goes(state, SECTION_COVMAP))
        assert_text(layout, file, edit_script_map(edits, state->mapping.offset), 'm',
                    TRIPWIRE_MAPPING_SIZE);
    assert_text(layout, file, file.size - (FILE_SIZE - LINKEDIT_START), 0xee,
                FILE_SIZE - LINKEDIT_START);
}

static void assert_reasons(const struct layout *layout, struct macho_state *state)
{
    for (size_t i = 0; i < PARTS; i++) {
        const struct section *section =
            parts[i].kind == 0 ? NULL : image_plan_section(state->base.plan, parts[i].kind);

        if (section == NULL)
            continue;
        ck_assert_msg(layout->why[i] != NULL ? strstr(section->reason, layout->why[i]) != NULL
                                             : section->reason[0] == '\0',
                      "%s: %s: '%s'", layout->what, parts[i].name, section->reason);
        ck_assert((section->fate == FATE_ZEROED) == (layout->why[i] != NULL));
    }
}

START_TEST(test_layout)
{
    const struct layout *layout = &layouts[_i];
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(layout);
    struct macho_state *state = &maker->state;
    FREED_BY(buffer_free) struct buffer result;
    struct error error;

    ck_assert_msg(macho_layout(state, &error), "%s: %s", layout->what, error.message);
    result = macho_maker_apply(maker);
    assert_reasons(layout, state);
    ck_assert_msg(FILE_SIZE - result.size == layout->cut, "%s: 0x%x bytes are cut", layout->what,
                  (unsigned)(FILE_SIZE - result.size));
    ck_assert_msg((state->split_segment != NO_INDEX) == (layout->split != 0), "%s", layout->what);
    ck_assert_msg(layout->split == 0 || state->split_fileoff == layout->split, "%s: 0x%x",
                  layout->what, (unsigned)state->split_fileoff);
    ck_assert_uint_eq(state->base.plan->zeros_size, layout->zeros);
    ck_assert_msg(state->names_place == layout->names_place, "%s: %d", layout->what,
                  (int)state->names_place);
    assert_bytes(layout, state, buffer_view(&result));
}
END_TEST

/* Sections before a split that nobody looks for by name: those of pointers and of threads. */
START_TEST(test_section_types)
{
    static const uint32_t nameless[] = {6, 7, 9, 10, 0x11, 0x12, 0x13, 0x14, 0x15};

    for (uint32_t type = 0, next = 0; type <= 0x17; type++) {
        FREED_BY(drop_maker) struct macho_maker *maker = make_image(&layouts[0]);
        bool is_nameless = type == nameless[next];
        struct error error;

        name_counters(&maker->state);
        maker->state.image.sections[0].flags = 0x400 | type;
        ck_assert(macho_layout(&maker->state, &error));
        ck_assert_msg((maker->state.split_segment != NO_INDEX) == is_nameless, "type 0x%x", type);
        next += is_nameless && next < 8;
    }
}
END_TEST

/* ---- fixups ---- */

/* Chained fixups that no segment has, in a table for so many segments. */
static void put_chains(struct macho_maker *maker, uint32_t seg_count, uint32_t imports)
{
    uint8_t *blob = maker->file + LINKEDIT_START;

    memset(blob, 0, 80);
    store_u32(blob + CHAINS_STARTS_OFFSET, 32, false);
    store_u32(blob + CHAINS_IMPORTS_OFFSET, imports, false);
    store_u32(blob + CHAINS_SYMBOLS_OFFSET, 72, false);
    store_u32(blob + 32, seg_count, false);
    macho_maker_table(maker, LC_DYLD_CHAINED_FIXUPS, LINKEDIT_START, 80);
}

static void put_few_segments(struct macho_maker *maker)
{
    put_chains(maker, 2, 72);
}

static void put_imports_first(struct macho_maker *maker)
{
    put_chains(maker, 4, 16);
}

static void put_opcodes(struct macho_maker *maker)
{
    uint8_t *command = macho_maker_command(maker, LC_DYLD_INFO_ONLY, DYLD_INFO_SIZE);

    /* DO_REBASE_IMM_TIMES, nowhere. */
    maker->file[LINKEDIT_START] = 0x51;
    store_u32(command + DYLD_INFO_REBASE, LINKEDIT_START, false);
    store_u32(command + DYLD_INFO_REBASE + 4, 1, false);
}

/* A rebase, of which nothing tells in the bytes: counters, and a word of zeros behind them. */
static void put_rebase_in_zeros(struct macho_maker *maker)
{
    static const uint8_t rebase[] = {0x11, 0x20 | MAKER_DATA_INDEX, 0xf8, 0x0f, 0x51, 0};
    uint8_t *command = macho_maker_command(maker, LC_DYLD_INFO_ONLY, DYLD_INFO_SIZE);

    take_zeros(maker);
    memcpy(maker->file + LINKEDIT_START, rebase, sizeof(rebase));
    store_u32(command + DYLD_INFO_REBASE, LINKEDIT_START, false);
    store_u32(command + DYLD_INFO_REBASE + 4, sizeof(rebase), false);
}

/* Zeros to which dyld applies fixups stay, whether in a section or between two, and nothing else
 * does for that. */
START_TEST(test_fixups_of_zeros)
{
    static const struct place counters[] = {{0x1000, 0x800}, {0x1000, 0x7f8}};

    for (size_t i = 0; i < 2; i++) {
        const struct layout layout = {.what = "fixups of zeros",
                                      .places = {[COUNTERS] = counters[i]},
                                      .change = put_rebase_in_zeros};
        FREED_BY(drop_maker) struct macho_maker *maker = make_image(&layout);
        struct error error;

        ck_assert_msg(macho_layout(&maker->state, &error), "%s", error.message);
        ck_assert_uint_eq(maker->state.split_segment, MAKER_DATA_INDEX);
        ck_assert_uint_eq(maker->state.zeros, NO_INDEX);
        assert_reasons(&layout, &maker->state);
    }
}
END_TEST

/* Fixups that only prevent a split do not prevent the rest. */
START_TEST(test_fixups_of_both_parts)
{
    static const struct layout layout = {
        .what = "fixups of both parts",
        .change = put_few_segments,
        .why = WHY_ALL("its chained fixups have fewer segments than the image")};
    FREED_BY(drop_maker) struct macho_maker *maker = make_image(&layout);
    FREED_BY(buffer_free) struct buffer result;
    struct error error;

    ck_assert_msg(macho_layout(&maker->state, &error), "%s", error.message);
    ck_assert_uint_eq(maker->state.split_segment, NO_INDEX);
    assert_reasons(&layout, &maker->state);
    result = macho_maker_apply(maker);
    ck_assert_uint_eq(FILE_SIZE - result.size, 0x1000);
}
END_TEST

START_TEST(test_unknown_fixups)
{
    static const struct {
        void (*change)(struct macho_maker *maker);
        const char *message;
    } rows[] = {
        {put_imports_first,
         "image: its chained fixups have a layout that covsplit does not know; use --sections "
         "without names and data"},
        {put_opcodes,
         "image: its fixup opcodes are malformed; use --sections without names and data"},
    };

    for (size_t i = 0; i < 2; i++) {
        struct layout layout = {.what = "unknown fixups", .change = rows[i].change};
        FREED_BY(drop_maker) struct macho_maker *maker = make_image(&layout);
        struct error error;

        ck_assert(!macho_layout(&maker->state, &error));
        ck_assert_str_eq(error.message, rows[i].message);
        macho_maker_free(maker);
        /* They do not matter if only the mapping goes. */
        layout.staying = BIT(DATA) | BIT(NAMES);
        maker = make_image(&layout);
        ck_assert_msg(macho_layout(&maker->state, &error), "%s", error.message);
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, LAYOUTS, test_layout);
    suite_tests(all, test_section_types, test_fixups_of_zeros, test_fixups_of_both_parts,
                test_unknown_fixups);
    return suite_main("macho_layout", all);
}
