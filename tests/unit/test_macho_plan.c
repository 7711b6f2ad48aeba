/*
 * Plans of a whole program for Darwin that differs in one thing from one in which all can go: what
 * stays then, and why.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"
#include "tests/support/suite.h"
#include "tests/unit/macho_program.h"
#include "tests/unit/refused_ways.h"

static void no_symbols(struct macho_program *program)
{
    program->symbol_count = 0;
}

static void rename_symbol(struct macho_program *program, enum runtime_symbol symbol)
{
    strcpy(macho_program_find(program, runtime_symbol_name(symbol))->name, "_mine");
}

static void no_version(struct macho_program *program)
{
    rename_symbol(program, RUNTIME_RAW_VERSION);
}

static void two_versions(struct macho_program *program)
{
    macho_program_symbol(program, runtime_symbol_name(RUNTIME_RAW_VERSION), PROGRAM_VERSION + 8);
    store_u64(program->maker->file + PROGRAM_VERSION + 8, 9, false);
}

static void version_nowhere(struct macho_program *program)
{
    macho_program_find(program, runtime_symbol_name(RUNTIME_RAW_VERSION))->address = 16;
}

static void no_begin_names(struct macho_program *program)
{
    rename_symbol(program, RUNTIME_BEGIN_NAMES);
}

static void no_end_data(struct macho_program *program)
{
    rename_symbol(program, RUNTIME_END_DATA);
}

static void no_begin_counters(struct macho_program *program)
{
    rename_symbol(program, RUNTIME_BEGIN_COUNTERS);
}

static uint8_t *code_of(struct macho_program *program, enum runtime_symbol symbol)
{
    const char *name = runtime_symbol_name(symbol);

    return program->maker->file + (macho_program_find(program, name)->address - MAKER_BASE);
}

static void unknown_code(struct macho_program *program)
{
    memcpy(code_of(program, RUNTIME_END_NAMES), "\x0f\x0b", 2);
}

/* mov slot(%rip),%rax: nothing on Darwin has such code. */
static void load_of_slot(struct macho_program *program)
{
    code_of(program, RUNTIME_END_NAMES)[1] = 0x8b;
}

static void code_in_data(struct macho_program *program)
{
    macho_program_find(program, runtime_symbol_name(RUNTIME_BEGIN_NAMES))->address =
        MAKER_BASE + PROGRAM_COUNTERS;
}

static void code_nowhere(struct macho_program *program)
{
    macho_program_find(program, runtime_symbol_name(RUNTIME_BEGIN_NAMES))->address = 8;
}

static void second_copy(struct macho_program *program)
{
    macho_program_symbol(
        program, runtime_symbol_name(RUNTIME_END_NAMES),
        macho_program_code(program, MAKER_BASE + PROGRAM_NAMES + PROGRAM_NAMES_SIZE));
}

static void same_copy(struct macho_program *program)
{
    const char *name = runtime_symbol_name(RUNTIME_END_NAMES);

    macho_program_symbol(program, name,
                         (uint32_t)(macho_program_find(program, name)->address - MAKER_BASE));
}

static void differing_copy(struct macho_program *program)
{
    macho_program_symbol(program, runtime_symbol_name(RUNTIME_END_NAMES),
                         macho_program_code(program, MAKER_BASE + PROGRAM_NAMES));
}

static void shared_code(struct macho_program *program)
{
    const char *name = runtime_symbol_name(RUNTIME_END_NAMES);

    macho_program_symbol(program, "mine",
                         (uint32_t)(macho_program_find(program, name)->address - MAKER_BASE));
}

static void other_bounds(struct macho_program *program)
{
    code_of(program, RUNTIME_END_NAMES)[3] -= 8;
}

static void use_of_names(struct macho_program *program)
{
    macho_program_symbol(program, "mine", macho_program_code(program, MAKER_BASE + PROGRAM_NAMES));
}

static void use_of_records(struct macho_program *program)
{
    macho_program_symbol(
        program, "mine",
        macho_program_code(program, MAKER_BASE + PROGRAM_DATA + PROGRAM_RECORD + 8));
}

static void value_sites(struct macho_program *program)
{
    memset(program->maker->file + PROGRAM_DATA + PROGRAM_RECORD, 1, PROGRAM_RECORD);
}

static void part_of_record(struct macho_program *program)
{
    uint8_t *section = program->parts[PROGRAM_DATA_SECTION];

    store_u64(section + SECTION_64_BYTES, PROGRAM_RECORDS * PROGRAM_RECORD - 32, false);
    code_of(program, RUNTIME_END_DATA)[3] -= 32;
}

/* Rebases; segment 1 is __DATA. The pointer at the start of the counters, among others. */
#define REBASE_AT(...) 0x11, 0x21, __VA_ARGS__, 0x51

static void point(struct macho_program *program, uint32_t to)
{
    static const uint8_t opcodes[] = {REBASE_AT(0x00)};

    store_u64(program->maker->file + PROGRAM_COUNTERS, MAKER_BASE + to, false);
    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

static void pointer_to_mapping(struct macho_program *program)
{
    point(program, PROGRAM_COVMAP + 8);
}

static void pointer_to_names(struct macho_program *program)
{
    point(program, PROGRAM_NAMES + 8);
}

static void pointer_to_record(struct macho_program *program)
{
    point(program, PROGRAM_DATA + PROGRAM_RECORD);
}

static void fixup_in_mapping(struct macho_program *program)
{
    static const uint8_t opcodes[] = {0x11, 0x22, 0x00, 0x51};

    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

static void fixup_in_names(struct macho_program *program)
{
    static const uint8_t opcodes[] = {REBASE_AT(0x80, 0x70)};

    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

static void fixup_in_data(struct macho_program *program)
{
    static const uint8_t opcodes[] = {REBASE_AT(0x88, 0x10)};

    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

/* Half of it is in the counters. */
static void fixup_before_data(struct macho_program *program)
{
    static const uint8_t opcodes[] = {REBASE_AT(0xfc, 0x0f)};

    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

static void bind_in_data(struct macho_program *program)
{
    static const uint8_t opcodes[] = {0x51, 0x71, 0x88, 0x10, 0x90};

    macho_program_opcodes(program, DYLD_INFO_BIND, opcodes, sizeof(opcodes));
}

static void bad_fixups(struct macho_program *program)
{
    static const uint8_t opcodes[] = {0x51};

    macho_program_opcodes(program, DYLD_INFO_REBASE, opcodes, sizeof(opcodes));
}

static void split_info(struct macho_program *program)
{
    macho_maker_table(program->maker, LC_SEGMENT_SPLIT_INFO, PROGRAM_LINKEDIT + 0x4000, 8);
}

static void bad_chains(struct macho_program *program)
{
    macho_maker_table(program->maker, LC_DYLD_CHAINED_FIXUPS, PROGRAM_LINKEDIT + 0x4000, 8);
}

#define NO_BYTES        "it has no bytes in the file"
#define NAMES_STAY      "the names stay, so nothing would show that a profile lacks its records"
#define NO_SYMBOLS      "no symbol table: run covsplit before strip, and link without -s"
#define NO_FIXUPS       "the image has no fixups, which would tell what points to it"
#define NO_VERSION      "the image does not tell the version of its raw profiles"
#define OLD_RELOCATIONS "it has relocations of a kind that covsplit does not know"
#define IS_STRIPPED     "it was stripped, or its profile runtime was inlined, or is not LLVM's"
#define UNKNOWN_CODE_OF(name)                                                                      \
    "covsplit does not know the code of __llvm_profile_" name                                      \
    "; link with LLVM's own profile runtime, without LTO"
#define SHARED_CACHE   "the image may become part of dyld's shared cache, which moves its sections"
#define SEGMENT_FIXUPS "dyld applies fixups to its segment"

/* NULL: it goes. */
static const struct plan_row {
    const char *what;
    void (*prepare)(struct macho_program *program); /* or NULL */
    struct program_change changes[PROGRAM_CHANGES];
    const char *names, *data, *covmap, *covfun;
} rows[] = {
    {"nothing unusual", NULL, {{0}}, NULL, NULL, NULL, NULL},
    {"two equal copies", second_copy, {{0}}, NULL, NULL, NULL, NULL},
    {"one copy with two symbols", same_copy, {{0}}, NULL, NULL, NULL, NULL},
    {"a fixup in data", fixup_in_data, {{0}}, NULL, NULL, NULL, NULL},
    {"a UUID of zeros",
     NULL,
     {{PROGRAM_UUID, UUID_BYTES, 8, 0}, {PROGRAM_UUID, UUID_BYTES + 8, 8, 0}},
     NULL,
     NULL,
     NULL,
     NULL},
    {"encryption that was not done",
     NULL,
     {{PROGRAM_DYSYMTAB, COMMAND_CMD, 4, LC_ENCRYPTION_INFO_64}},
     NULL,
     NULL,
     NULL,
     NULL},
    {"no symbols", no_symbols, {{0}}, NO_SYMBOLS, NO_SYMBOLS, NULL, NULL},
    {"no fixups",
     NULL,
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_MAIN}},
     NO_FIXUPS,
     NO_FIXUPS,
     NULL,
     NULL},
    {"older fixups",
     NULL,
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_DYLD_INFO}},
     NULL,
     NULL,
     NULL,
     NULL},
    {"relocations of old",
     NULL,
     {{PROGRAM_DYSYMTAB, DYSYMTAB_NLOCREL, 4, 1}},
     OLD_RELOCATIONS,
     OLD_RELOCATIONS,
     SEGMENT_FIXUPS,
     SEGMENT_FIXUPS},
    {"external relocations of old",
     NULL,
     {{PROGRAM_DYSYMTAB, DYSYMTAB_NEXTREL, 4, 1}},
     OLD_RELOCATIONS,
     OLD_RELOCATIONS,
     SEGMENT_FIXUPS,
     SEGMENT_FIXUPS},
    {"no version", no_version, {{0}}, NO_VERSION, NO_VERSION, NULL, NULL},
    {"two versions", two_versions, {{0}}, NO_VERSION, NO_VERSION, NULL, NULL},
    {"a version that is nowhere", version_nowhere, {{0}}, NO_VERSION, NO_VERSION, NULL, NULL},
    {"an older version",
     NULL,
     {{PROGRAM_FILE, PROGRAM_VERSION, 8, 7}},
     NULL,
     "its records hold addresses (LLVM 13)",
     NULL,
     NULL},
    {"a later version",
     NULL,
     {{PROGRAM_FILE, PROGRAM_VERSION, 8, 99}},
     "raw profile version 99; this covsplit knows",
     "raw profile version 99; this covsplit knows",
     NULL,
     NULL},
    {"a variant that nobody knows",
     NULL,
     {{PROGRAM_FILE, PROGRAM_VERSION + 5, 1, 0x80}},
     "the version of its raw profiles is not known to covsplit",
     "the version of its raw profiles is not known to covsplit",
     NULL,
     NULL},
    {"no begin of names", no_begin_names, {{0}}, IS_STRIPPED, NAMES_STAY, NULL, NULL},
    {"no end of data",
     no_end_data,
     {{0}},
     "refers to it, other than the runtime's accessors",
     IS_STRIPPED,
     NULL,
     NULL},
    {"no begin of counters", no_begin_counters, {{0}}, NULL, IS_STRIPPED, NULL, NULL},
    {"code that nobody knows",
     unknown_code,
     {{0}},
     UNKNOWN_CODE_OF("end_names"),
     NAMES_STAY,
     NULL,
     NULL},
    {"code that loads", load_of_slot, {{0}}, UNKNOWN_CODE_OF("end_names"), NAMES_STAY, NULL, NULL},
    {"code in data", code_in_data, {{0}}, UNKNOWN_CODE_OF("begin_names"), NAMES_STAY, NULL, NULL},
    {"code nowhere", code_nowhere, {{0}}, UNKNOWN_CODE_OF("begin_names"), NAMES_STAY, NULL, NULL},
    {"copies that differ",
     differing_copy,
     {{0}},
     "the image has several definitions of __llvm_profile_end_names that differ",
     NAMES_STAY,
     NULL,
     NULL},
    {"folded code",
     shared_code,
     {{0}},
     "__llvm_profile_end_names shares its code with another function; link without identical code "
     "folding",
     NAMES_STAY,
     NULL,
     NULL},
    {"other bounds",
     other_bounds,
     {{0}},
     "__llvm_profile_begin_names and __llvm_profile_end_names do not return the bounds of the "
     "section",
     NAMES_STAY,
     NULL,
     NULL},
    {"code that uses names",
     use_of_names,
     {{0}},
     "refers to it, other than the runtime's accessors",
     NAMES_STAY,
     NULL,
     NULL},
    {"code that uses records",
     use_of_records,
     {{0}},
     NULL,
     "refers to it, other than the runtime's accessors",
     NULL,
     NULL},
    {"value profiling", value_sites, {{0}}, NULL, "value profiling is on", NULL, NULL},
    {"a part of a record",
     part_of_record,
     {{0}},
     NULL,
     "its size is not a whole number of records",
     NULL,
     NULL},
    {"a pointer to names",
     pointer_to_names,
     {{0}},
     "a pointer at 0x100001000 refers to it",
     NAMES_STAY,
     NULL,
     NULL},
    {"a pointer to a record",
     pointer_to_record,
     {{0}},
     NULL,
     "a pointer at 0x100001000 refers to it",
     NULL,
     NULL},
    {"a pointer to the mapping",
     pointer_to_mapping,
     {{0}},
     NULL,
     NULL,
     "a pointer at 0x100001000 refers to it",
     "__llvm_covmap stays"},
    {"a fixup in the mapping", fixup_in_mapping, {{0}}, NULL, NULL, SEGMENT_FIXUPS, SEGMENT_FIXUPS},
    {"a fixup in names",
     fixup_in_names,
     {{0}},
     "dyld applies fixups to it",
     NAMES_STAY,
     NULL,
     NULL},
    {"a fixup on both sides of a bound",
     fixup_before_data,
     {{0}},
     NULL,
     "it refers to other images",
     NULL,
     NULL},
    {"a bind in data", bind_in_data, {{0}}, NULL, "it refers to other images", NULL, NULL},
    {"bad fixups",
     bad_fixups,
     {{0}},
     "its fixup opcodes are malformed",
     "its fixup opcodes are malformed",
     SEGMENT_FIXUPS,
     SEGMENT_FIXUPS},
    {"bad chains",
     bad_chains,
     {{0}},
     "its chained fixups are malformed",
     "its chained fixups are malformed",
     SEGMENT_FIXUPS,
     SEGMENT_FIXUPS},
    {"a library of the system", split_info, {{0}}, SHARED_CACHE, SHARED_CACHE, NULL, NULL},
    {"names of zeros",
     NULL,
     {{PROGRAM_NAMES_SECTION, SECTION_64_FLAGS, 4, S_ZEROFILL}},
     NO_BYTES,
     NAMES_STAY,
     NULL,
     NULL},
    {"a mapping of zeros",
     NULL,
     {{PROGRAM_COVMAP_SECTION, SECTION_64_FLAGS, 4, S_ZEROFILL}},
     NULL,
     NULL,
     NO_BYTES,
     "__llvm_covmap stays"},
    {"a short mapping",
     NULL,
     {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, 15}},
     NULL,
     NULL,
     "it is shorter than the header of a record",
     "__llvm_covmap stays"},
    {"short names",
     NULL,
     {{PROGRAM_NAMES_SECTION, SECTION_64_BYTES, 8, 0}},
     NULL,
     "the names stay",
     NULL,
     NULL},
};

static void assert_reason(struct image_plan *plan, enum section_kind kind, const char *reason,
                          const char *what)
{
    const struct section *section = image_plan_section(plan, kind);

    ck_assert_ptr_nonnull(section);
    ck_assert_msg(reason == NULL ? section->fate == FATE_REMOVED || section->size == 0
                                 : !section_goes(section),
                  "%s: %s: %s", what, section->name, section->reason);
    ck_assert_msg(strstr(section->reason, reason == NULL ? "" : reason) != NULL, "%s: %s: %s", what,
                  section->name, section->reason);
}

START_TEST(test_plan)
{
    const struct plan_row *row = &rows[_i];
    struct macho_program program;
    struct image_plan *plan;
    struct error error = {0};

    macho_program_begin(&program);
    if (row->prepare != NULL)
        row->prepare(&program);
    plan = macho_program_plan(&program, row->changes, SECTION_REMOVABLE, &error);
    ck_assert_msg(plan != NULL, "%s: %s", row->what, error.message);
    assert_reason(plan, SECTION_NAMES, row->names, row->what);
    assert_reason(plan, SECTION_DATA, row->data, row->what);
    assert_reason(plan, SECTION_COVMAP, row->covmap, row->what);
    assert_reason(plan, SECTION_COVFUN, row->covfun, row->what);
    macho_program_end(&program, plan);
}
END_TEST

START_TEST(test_many_definitions)
{
    static const struct program_change none[PROGRAM_CHANGES];
    struct macho_program program;
    struct error error;

    macho_program_begin(&program);
    while (program.symbol_count <= RUNTIME_DEFINITIONS_MAX)
        macho_program_symbol(&program, runtime_symbol_name(RUNTIME_END_DATA), PROGRAM_CODE);
    ck_assert_ptr_null(macho_program_plan(&program, none, SECTION_REMOVABLE, &error));
    ck_assert_str_eq(error.message,
                     "image: the profile runtime is defined too many times; link it again");
    macho_program_end(&program, NULL);
}
END_TEST

/* ---- memory ---- */

static bool plan_again(void *subject)
{
    struct macho_program *program = subject;
    struct image_options options = {.sections = SECTION_REMOVABLE};
    struct error error;
    struct image_plan *plan = image_plan_make(&program->maker->input, &options, &error);

    if (plan == NULL)
        expect_memory(&error);
    image_plan_free(plan);
    return plan != NULL;
}

START_TEST(test_memory)
{
    static const struct program_change none[PROGRAM_CHANGES];
    struct macho_program program;
    struct image_plan *plan;
    struct error error;

    macho_program_begin(&program);
    fixup_in_data(&program);
    plan = macho_program_plan(&program, none, SECTION_REMOVABLE, &error);
    ck_assert_ptr_nonnull(plan);
    refuse_each_way(plan_again, &program);
    macho_program_end(&program, plan);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, sizeof(rows) / sizeof(rows[0]), test_plan);
    suite_tests(all, test_many_definitions, test_memory);
    return suite_main("macho_plan", all);
}
