/*
 * Plans of a whole program for Darwin that differs in one thing from one in which all can go: what
 * stays then, and why; or why the image is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"
#include "tests/support/suite.h"
#include "tests/unit/macho_program.h"
#include "tests/unit/refused_ways.h"

/* ---- changes of numbers ---- */

struct change {
    enum program_part part;
    uint32_t offset;
    unsigned width; /* 0: no change */
    uint64_t value;
};

static void apply(struct macho_program *program, const struct change *change)
{
    uint8_t *to =
        change->part == PROGRAM_FILE ? program->maker->file : program->parts[change->part];

    if (change->width == 1)
        to[change->offset] = (uint8_t)change->value;
    else if (change->width == 4)
        store_u32(to + change->offset, (uint32_t)change->value, false);
    else if (change->width == 8)
        store_u64(to + change->offset, change->value, false);
}

/* ---- images that are refused ---- */

#define UNKNOWN_LAYOUT(what)                                                                       \
    "image: the image has a layout that covsplit does not know: " what "; it stays as it is"
#define DAMAGED(what) "image: damaged Mach-O image: " what "; link it again"

static const struct refusal {
    const char *message;
    struct change changes[3];
} refusals[] = {
    /* segments */
    {UNKNOWN_LAYOUT("a segment has a wrong size"),
     {{PROGRAM_DATA_SEGMENT, SEGMENT_VMSIZE, 8, 0x6000}}},
    {UNKNOWN_LAYOUT("a segment has a wrong size"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMSIZE, 8, INT64_MAX}}},
    {UNKNOWN_LAYOUT("a segment does not start at a page boundary"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, MAKER_BASE + PROGRAM_LINKEDIT + 8}}},
    {UNKNOWN_LAYOUT("a segment does not start at a page boundary"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_LINKEDIT + 8},
      {PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x5ff8}}},
    {UNKNOWN_LAYOUT("segments overlap or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, MAKER_BASE + PROGRAM_COVMAP}}},
    {UNKNOWN_LAYOUT("segments overlap in the file, or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_COVMAP}}},
    {UNKNOWN_LAYOUT("segments overlap in the file, or are out of order"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILEOFF, 8, PROGRAM_COVMAP},
      {PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0}}},
    {UNKNOWN_LAYOUT("__TEXT does not hold the load commands"),
     {{PROGRAM_TEXT, SEGMENT_SEGNAME, 8, 0x30}}},
    {UNKNOWN_LAYOUT("__TEXT does not hold the load commands"),
     {{PROGRAM_TEXT, SEGMENT_FILESIZE, 8, 0x100}}},
    {UNKNOWN_LAYOUT("__LINKEDIT is not the last segment"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_SEGNAME, 8, 0x30}}},
    {UNKNOWN_LAYOUT("__LINKEDIT is not the last segment"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0}}},
    {"image: data is appended to the image, and may have to stay in its place; run covsplit before "
     "it is appended",
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x5ff8}}},
    {DAMAGED("a segment is not inside the file"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_FILESIZE, 8, 0x6001}}},
    {DAMAGED("a segment is not inside the file"),
     {{PROGRAM_LINKEDIT_SEGMENT, SEGMENT_VMADDR, 8, UINT64_MAX}}},
    {DAMAGED("a segment's sections do not fill its load command"),
     {{PROGRAM_COVERAGE, SEGMENT_NSECTS, 4, 1}}},
    {DAMAGED("it has more sections than its load commands hold"),
     {{PROGRAM_COVERAGE, SEGMENT_NSECTS, 4, 0x1000}}},
    /* sections */
    {DAMAGED("a section has a wrong size"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, UINT64_MAX}}},
    {UNKNOWN_LAYOUT("a section is not inside its segment"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_BYTES, 8, 0x1001}}},
    {UNKNOWN_LAYOUT("sections overlap or are out of order"),
     {{PROGRAM_COVFUN_SECTION, SECTION_64_BYTES, 8, 0x1001}}},
    {UNKNOWN_LAYOUT("a section has relocations of its own"),
     {{PROGRAM_CODE_SECTION, SECTION_64_NRELOC, 4, 1}}},
    {UNKNOWN_LAYOUT("a section is not where its segment is in the file"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_OFFSET, 4, PROGRAM_COVMAP + 8}}},
    {UNKNOWN_LAYOUT("a section is not where its segment is in the file"),
     {{PROGRAM_COVMAP_SECTION, SECTION_64_OFFSET, 4, 0xfff0}}},
    {UNKNOWN_LAYOUT("a section overlaps the load commands"),
     {{PROGRAM_CODE_SECTION, SECTION_64_OFFSET, 4, 0x100},
      {PROGRAM_CODE_SECTION, SECTION_64_ADDR, 8, MAKER_BASE + 0x100}}},
    {"image: the image has two sections named __llvm_prf_names; link it so that it has one",
     {{PROGRAM_COUNTERS_SECTION, 11, 4, 0x656d616e}, {PROGRAM_COUNTERS_SECTION, 15, 1, 's'}}},
    /* load commands and tables */
    {"image: the image has a load command 0x7777 that covsplit does not know; it stays as it is",
     {{PROGRAM_DYSYMTAB, COMMAND_CMD, 4, 0x7777}}},
    {UNKNOWN_LAYOUT("it is encrypted"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_ENCRYPTION_INFO_64},
      {PROGRAM_DYLD_INFO, ENCRYPTION_CRYPTID, 4, 1}}},
    {UNKNOWN_LAYOUT("it is encrypted"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_ENCRYPTION_INFO},
      {PROGRAM_DYLD_INFO, ENCRYPTION_CRYPTID, 4, 1}}},
    {UNKNOWN_LAYOUT("a load command occurs twice"),
     {{PROGRAM_DYLD_INFO, COMMAND_CMD, 4, LC_SYMTAB}}},
    {UNKNOWN_LAYOUT("a table is not inside __LINKEDIT"),
     {{PROGRAM_DYLD_INFO, DYLD_INFO_EXPORT, 4, PROGRAM_COVMAP},
      {PROGRAM_DYLD_INFO, DYLD_INFO_EXPORT + 4, 4, 8}}},
    {DAMAGED("its symbol table is cut short"), {{PROGRAM_SYMTAB, SYMTAB_NSYMS, 4, UINT32_MAX}}},
    {DAMAGED("its symbol table is cut short"), {{PROGRAM_SYMTAB, SYMTAB_STROFF, 4, UINT32_MAX}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 16}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 20}}},
    {DAMAGED("a load command has a wrong size"), {{PROGRAM_UUID, COMMAND_CMDSIZE, 4, 0x10000}}},
    /* the header */
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xfeedfacf, cputype "
     "0x7); this version of covsplit cannot split it",
     {{PROGRAM_FILE, HEADER_CPUTYPE, 4, 7}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xfeedface, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_MAGIC}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xcefaedfe, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_CIGAM}}},
    {"image: a Mach-O image for a machine other than x86-64 and arm64 (magic 0xcffaedfe, cputype "
     "0x1000007); this version of covsplit cannot split it",
     {{PROGRAM_FILE, 0, 4, MH_CIGAM_64}}},
    {"image: a Mach-O file of type 1, not a linked image; name an executable, a dynamic library or "
     "a bundle",
     {{PROGRAM_FILE, HEADER_FILETYPE, 4, 1}}},
};

static struct image_plan *make_plan(struct macho_program *program, const struct change *changes,
                                    unsigned sections, struct error *error)
{
    struct image_options options = {.sections = sections};
    struct macho_maker *maker = program->maker;
    struct buffer copy = {0};

    macho_program_finish(program);
    store_u32(maker->file + HEADER_NCMDS, maker->command_count, false);
    store_u32(maker->file + HEADER_SIZEOFCMDS, maker->commands_end - HEADER_SIZE, false);
    for (size_t i = 0; i < 3; i++)
        apply(program, &changes[i]);
    ck_assert(buffer_append(&copy, maker->file, (size_t)maker->size));
    ck_assert(input_from_buffer(&maker->input, &copy, "image", error));
    return image_plan_make(&maker->input, &options, error);
}

static void end(struct macho_program *program, struct image_plan *plan)
{
    image_plan_free(plan);
    input_close(&program->maker->input);
    free(program->maker);
}

START_TEST(test_refusal)
{
    const struct refusal *refusal = &refusals[_i];
    struct macho_program program;
    struct image_plan *plan;
    struct error error;

    macho_program_begin(&program);
    plan = make_plan(&program, refusal->changes, SECTION_REMOVABLE, &error);
    ck_assert_msg(plan == NULL, "%s", refusal->message);
    ck_assert_str_eq(error.message, refusal->message);
    end(&program, plan);
}
END_TEST

/* ---- what stays ---- */

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
    struct change changes[3];
    const char *names, *data, *covmap, *covfun;
} rows[] = {
    {"nothing unusual", NULL, {{0}}, NULL, NULL, NULL, NULL},
    {"two equal copies", second_copy, {{0}}, NULL, NULL, NULL, NULL},
    {"one copy with two symbols", same_copy, {{0}}, NULL, NULL, NULL, NULL},
    {"a fixup in data", fixup_in_data, {{0}}, NULL, NULL, NULL, NULL},
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
    const struct image_section *section = image_plan_section(plan, kind);

    ck_assert_ptr_nonnull(section);
    ck_assert_msg(reason == NULL ? section->fate == FATE_REMOVED || section->size == 0
                                 : section->fate == FATE_STAYS,
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
    plan = make_plan(&program, row->changes, SECTION_REMOVABLE, &error);
    ck_assert_msg(plan != NULL, "%s: %s", row->what, error.message);
    assert_reason(plan, SECTION_NAMES, row->names, row->what);
    assert_reason(plan, SECTION_DATA, row->data, row->what);
    assert_reason(plan, SECTION_COVMAP, row->covmap, row->what);
    assert_reason(plan, SECTION_COVFUN, row->covfun, row->what);
    end(&program, plan);
}
END_TEST

START_TEST(test_many_definitions)
{
    static const struct change none[3];
    struct macho_program program;
    struct error error;

    macho_program_begin(&program);
    while (program.symbol_count <= RUNTIME_DEFINITIONS_MAX)
        macho_program_symbol(&program, runtime_symbol_name(RUNTIME_END_DATA), PROGRAM_CODE);
    ck_assert_ptr_null(make_plan(&program, none, SECTION_REMOVABLE, &error));
    ck_assert_str_eq(error.message,
                     "image: the profile runtime is defined too many times; link it again");
    end(&program, NULL);
}
END_TEST

/* As the first bytes of a file tell. */
START_TEST(test_linked)
{
    static const struct {
        uint32_t magic, type;
        bool is_linked;
    } headers[] = {
        {MH_MAGIC_64, MH_EXECUTE, true},     {MH_MAGIC_64, MH_DYLIB, true},
        {MH_MAGIC_64, MH_BUNDLE, true},      {MH_MAGIC_64, 1, false},
        {MH_MAGIC, MH_EXECUTE, true},        {MH_CIGAM, MH_EXECUTE << 24, true},
        {MH_CIGAM_64, MH_DYLIB << 24, true}, {MH_CIGAM_64, MH_DYLIB, false},
        {0xfeedfac0, MH_EXECUTE, false},
    };
    uint8_t header[HEADER_SIZE] = {0};

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        store_u32(header, headers[i].magic, false);
        store_u32(header + HEADER_FILETYPE, headers[i].type, false);
        ck_assert_msg(image_is_linked((struct bytes){header, sizeof(header)}) ==
                          headers[i].is_linked,
                      "row %zu", i);
        ck_assert(!image_is_linked((struct bytes){header, sizeof(header) - 1}));
        ck_assert(!image_is_linked((struct bytes){header, 3}));
    }
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
    static const struct change none[3];
    struct macho_program program;
    struct image_plan *plan;
    struct error error;

    macho_program_begin(&program);
    fixup_in_data(&program);
    plan = make_plan(&program, none, SECTION_REMOVABLE, &error);
    ck_assert_ptr_nonnull(plan);
    refuse_each_way(plan_again, &program);
    end(&program, plan);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    suite_loops(all, sizeof(refusals) / sizeof(refusals[0]), test_refusal);
    suite_loops(all, sizeof(rows) / sizeof(rows[0]), test_plan);
    suite_tests(all, test_many_definitions, test_linked, test_memory);
    return suite_main("macho_plan", all);
}
