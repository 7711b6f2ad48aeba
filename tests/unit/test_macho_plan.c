/*
 * Plans of a whole program for Darwin that differs in one thing from one in which all can go: what
 * stays then, and why.
 */
#include <string.h>

#include "formats/image.h"
#include "tests/support/suite.h"
#include "tests/unit/macho_program.h"

static void no_symbols(struct macho_program *program)
{
    program->symbol_count = 0;
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

static void other_bounds(struct macho_program *program)
{
    code_of(program, RUNTIME_END_NAMES)[3] -= 8;
}

static void value_sites(struct macho_program *program)
{
    memset(program->maker->file + PROGRAM_DATA + PROGRAM_RECORD + PROGRAM_VALUE_SITES, 1, 3 * 2);
}

static void part_of_record(struct macho_program *program)
{
    uint8_t *section = program->parts[PROGRAM_DATA_SECTION];

    store_u64(section + SECTION_64_BYTES, PROGRAM_RECORDS * PROGRAM_RECORD - 32, false);
    code_of(program, RUNTIME_END_DATA)[3] -= 32;
}

/* Opcodes of a table; segment 1 is __DATA. */
#define FIXUPS(table, ...)                                                                         \
    {                                                                                              \
        table, sizeof((uint8_t[]){__VA_ARGS__}),                                                   \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define REBASE_AT(...) FIXUPS(DYLD_INFO_REBASE, 0x11, 0x21, __VA_ARGS__, 0x51)
/* What is at the start of the counters then. */
#define POINTER_TO(to)                                                                             \
    {                                                                                              \
        PROGRAM_FILE, PROGRAM_COUNTERS, 8, MAKER_BASE + (to)                                       \
    }

#define END_NAMES       "__llvm_profile_end_names"
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
    enum runtime_symbol lost;                       /* that has another name; 0: none */
    /* One more symbol, or NULL: of a function that returns that, or if that is 0, of the function
     * for the end of names. */
    const char *symbol;
    uint32_t returned;
    struct {
        uint32_t table;
        size_t size; /* 0: there are none */
        uint8_t opcodes[6];
    } fixups;
    uint32_t command; /* with a table of eight zeros; 0: none */
    struct program_change changes[PROGRAM_CHANGES];
    const char *names, *data, *covmap, *covfun;
} rows[] = {
    {.what = "nothing unusual"},
    {"two equal copies", .symbol = END_NAMES, .returned = PROGRAM_NAMES + PROGRAM_NAMES_SIZE},
    {"one copy with two symbols", .symbol = END_NAMES},
    {"a fixup in data", .fixups = REBASE_AT(0x88, 0x10)},
    {"a UUID of zeros",
     .changes = {{PROGRAM_UUID, UUID_BYTES, 8, 0}, {PROGRAM_UUID, UUID_BYTES + 8, 8, 0}}},
    {"encryption that was not done",
     .changes = {{PROGRAM_DYSYMTAB, COMMAND_CMD, 4, LC_ENCRYPTION_INFO_64}}},
    {"no symbols", .prepare = no_symbols, .names = NO_SYMBOLS, .data = NO_SYMBOLS},
    {"no fixups", .changes = {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_MAIN}}, .names = NO_FIXUPS,
     .data = NO_FIXUPS},
    {"older fixups", .changes = {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_DYLD_INFO}}},
    {"relocations of old", .changes = {{PROGRAM_DYSYMTAB, DYSYMTAB_NLOCREL, 4, 1}},
     .names = OLD_RELOCATIONS, .data = OLD_RELOCATIONS, .covmap = SEGMENT_FIXUPS,
     .covfun = SEGMENT_FIXUPS},
    {"external relocations of old", .changes = {{PROGRAM_DYSYMTAB, DYSYMTAB_NEXTREL, 4, 1}},
     .names = OLD_RELOCATIONS, .data = OLD_RELOCATIONS, .covmap = SEGMENT_FIXUPS,
     .covfun = SEGMENT_FIXUPS},
    {"no version", .lost = RUNTIME_RAW_VERSION, .names = NO_VERSION, .data = NO_VERSION},
    {"two versions", .prepare = two_versions, .names = NO_VERSION, .data = NO_VERSION},
    {"a version that is nowhere", .prepare = version_nowhere, .names = NO_VERSION,
     .data = NO_VERSION},
    {"an older version", .changes = {{PROGRAM_FILE, PROGRAM_VERSION, 8, 7}},
     .data = "its records hold addresses (LLVM 13)"},
    {"a later version", .changes = {{PROGRAM_FILE, PROGRAM_VERSION, 8, 99}},
     .names = "raw profile version 99; this covsplit knows",
     .data = "raw profile version 99; this covsplit knows"},
    {"a variant that nobody knows", .changes = {{PROGRAM_FILE, PROGRAM_VERSION + 5, 1, 0x80}},
     .names = "the version of its raw profiles is not known to covsplit",
     .data = "the version of its raw profiles is not known to covsplit"},
    {"no begin of names", .lost = RUNTIME_BEGIN_NAMES, .names = IS_STRIPPED, .data = NAMES_STAY},
    {"no end of data", .lost = RUNTIME_END_DATA,
     .names = "refers to it, other than the runtime's accessors", .data = IS_STRIPPED},
    {"no begin of counters", .lost = RUNTIME_BEGIN_COUNTERS, .data = IS_STRIPPED},
    {"code that nobody knows", .prepare = unknown_code, .names = UNKNOWN_CODE_OF("end_names"),
     .data = NAMES_STAY},
    {"code that loads", .prepare = load_of_slot, .names = UNKNOWN_CODE_OF("end_names"),
     .data = NAMES_STAY},
    {"code in data", .prepare = code_in_data, .names = UNKNOWN_CODE_OF("begin_names"),
     .data = NAMES_STAY},
    {"code nowhere", .prepare = code_nowhere, .names = UNKNOWN_CODE_OF("begin_names"),
     .data = NAMES_STAY},
    {"copies that differ", .symbol = END_NAMES, .returned = PROGRAM_NAMES,
     .names = "the image has several definitions of __llvm_profile_end_names that differ",
     .data = NAMES_STAY},
    {"folded code", .symbol = "mine",
     .names = "__llvm_profile_end_names shares its code with another function; link without "
              "identical code "
              "folding",
     .data = NAMES_STAY},
    {"other bounds", .prepare = other_bounds,
     .names =
         "__llvm_profile_begin_names and __llvm_profile_end_names do not return the bounds of the "
         "section",
     .data = NAMES_STAY},
    {"code that uses names", .symbol = "mine", .returned = PROGRAM_NAMES,
     .names = "refers to it, other than the runtime's accessors", .data = NAMES_STAY},
    {"code that uses records", .symbol = "mine", .returned = PROGRAM_DATA + PROGRAM_RECORD + 8,
     .data = "refers to it, other than the runtime's accessors"},
    {"value profiling", .prepare = value_sites, .data = "value profiling is on"},
    {"a part of a record", .prepare = part_of_record,
     .data = "its size is not a whole number of records"},
    {"a pointer to names", .fixups = REBASE_AT(0x00), .changes = {POINTER_TO(PROGRAM_NAMES + 8)},
     .names = "a pointer at 0x100001000 refers to it", .data = NAMES_STAY},
    {"a pointer to a record", .fixups = REBASE_AT(0x00),
     .changes = {POINTER_TO(PROGRAM_DATA + PROGRAM_RECORD)},
     .data = "a pointer at 0x100001000 refers to it"},
    {"a pointer to the mapping", .fixups = REBASE_AT(0x00),
     .changes = {POINTER_TO(PROGRAM_COVMAP + 8)}, .covmap = "a pointer at 0x100001000 refers to it",
     .covfun = "__llvm_covmap stays"},
    {"a fixup in the mapping", .fixups = FIXUPS(DYLD_INFO_REBASE, 0x11, 0x22, 0x00, 0x51),
     .covmap = SEGMENT_FIXUPS, .covfun = SEGMENT_FIXUPS},
    {"a fixup in names", .fixups = REBASE_AT(0x80, 0x70), .names = "dyld applies fixups to it",
     .data = NAMES_STAY},
    /* Half of it is in the counters. */
    {"a fixup on both sides of a bound", .fixups = REBASE_AT(0xfc, 0x0f),
     .data = "it refers to other images"},
    {"a bind in data", .fixups = FIXUPS(DYLD_INFO_BIND, 0x51, 0x71, 0x88, 0x10, 0x90),
     .data = "it refers to other images"},
    {"bad fixups", .fixups = FIXUPS(DYLD_INFO_REBASE, 0x51),
     .names = "its fixup opcodes are malformed", .data = "its fixup opcodes are malformed",
     .covmap = SEGMENT_FIXUPS, .covfun = SEGMENT_FIXUPS},
    {"bad chains", .command = LC_DYLD_CHAINED_FIXUPS, .names = "its chained fixups are malformed",
     .data = "its chained fixups are malformed", .covmap = SEGMENT_FIXUPS,
     .covfun = SEGMENT_FIXUPS},
    {"a library of the system", .command = LC_SEGMENT_SPLIT_INFO, .names = SHARED_CACHE,
     .data = SHARED_CACHE},
    {"names of zeros", .changes = {{PROGRAM_NAMES_SECTION, SECTION_64_FLAGS, 4, S_ZEROFILL}},
     .names = NO_BYTES, .data = NAMES_STAY},
    {"a mapping of zeros", .changes = {{PROGRAM_COVMAP_SECTION, SECTION_64_FLAGS, 4, S_ZEROFILL}},
     .covmap = NO_BYTES, .covfun = "__llvm_covmap stays"},
    {"a short mapping", .changes = {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, 15}},
     .covmap = "it is shorter than the header of a record", .covfun = "__llvm_covmap stays"},
    {"short names", .changes = {{PROGRAM_NAMES_SECTION, SECTION_64_BYTES, 8, 0}},
     .data = "the names stay"},
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

static void prepare_row(const struct plan_row *row, struct macho_program *program)
{
    if (row->prepare != NULL)
        row->prepare(program);
    if (row->lost != 0)
        strcpy(macho_program_find(program, runtime_symbol_name(row->lost))->name, "_mine");
    if (row->symbol != NULL && row->returned != 0)
        macho_program_symbol(program, row->symbol,
                             macho_program_code(program, MAKER_BASE + row->returned));
    else if (row->symbol != NULL)
        macho_program_symbol(
            program, row->symbol,
            (uint32_t)(macho_program_find(program, END_NAMES)->address - MAKER_BASE));
    if (row->fixups.size != 0)
        macho_program_opcodes(program, row->fixups.table, row->fixups.opcodes, row->fixups.size);
    if (row->command != 0)
        macho_maker_table(program->maker, row->command, PROGRAM_LINKEDIT + 0x4000, 8);
}

START_TEST(test_plan)
{
    const struct plan_row *row = &rows[_i];
    struct macho_program program;
    struct image_plan *plan;
    struct error error = {0};

    macho_program_begin(&program);
    prepare_row(row, &program);
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

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, sizeof(rows) / sizeof(rows[0]), test_plan);
    suite_tests(all, test_many_definitions);
    return suite_main("macho_plan", all);
}
