/*
 * Plans of a whole program for Windows that differs in one thing from one in which all can go: what
 * stays then, and why; or why the image is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/image.h"
#include "tests/support/suite.h"
#include "tests/unit/coff_program.h"

/* ---- changes of numbers ---- */

/* Where a number is: from the start of the file, of a header, or at an address. */
enum where { IN_FILE, IN_COFF, IN_OPTIONAL, IN_DIRECTORIES, IN_SECTION, AT_ADDRESS };

struct change {
    enum where where;
    unsigned section; /* for IN_SECTION */
    uint32_t offset;
    unsigned width; /* 0: no change */
    uint64_t value;
};

#define FILE_U32(offset, value)                                                                    \
    {                                                                                              \
        IN_FILE, 0, offset, 4, value                                                               \
    }
#define COFF_U16(offset, value)                                                                    \
    {                                                                                              \
        IN_COFF, 0, offset, 2, value                                                               \
    }
#define COFF_U32(offset, value)                                                                    \
    {                                                                                              \
        IN_COFF, 0, offset, 4, value                                                               \
    }
#define OPTIONAL_U16(offset, value)                                                                \
    {                                                                                              \
        IN_OPTIONAL, 0, offset, 2, value                                                           \
    }
#define OPTIONAL_U32(offset, value)                                                                \
    {                                                                                              \
        IN_OPTIONAL, 0, offset, 4, value                                                           \
    }
#define OPTIONAL_U64(offset, value)                                                                \
    {                                                                                              \
        IN_OPTIONAL, 0, offset, 8, value                                                           \
    }
#define DIRECTORY(number, address)                                                                 \
    {                                                                                              \
        IN_DIRECTORIES, 0, 8 * (number), 4, address                                                \
    }
#define DIRECTORY_SIZE(number, size)                                                               \
    {                                                                                              \
        IN_DIRECTORIES, 0, 8 * (number) + 4, 4, size                                               \
    }
#define SECTION_U32(section, offset, value)                                                        \
    {                                                                                              \
        IN_SECTION, section, offset, 4, value                                                      \
    }
#define SECTION_NAME(section, value)                                                               \
    {                                                                                              \
        IN_SECTION, section, 0, 8, value                                                           \
    }
#define BYTE_AT(address, value)                                                                    \
    {                                                                                              \
        AT_ADDRESS, 0, address, 1, value                                                           \
    }
#define U32_AT(address, value)                                                                     \
    {                                                                                              \
        AT_ADDRESS, 0, address, 4, value                                                           \
    }
#define U64_AT(address, value)                                                                     \
    {                                                                                              \
        AT_ADDRESS, 0, address, 8, value                                                           \
    }

static void apply(struct coff_program *program, const struct change *change)
{
    uint8_t *to = program->file + change->offset;

    if (change->where == IN_COFF)
        to += PROGRAM_COFF_HEADER;
    else if (change->where == IN_OPTIONAL)
        to += PROGRAM_OPTIONAL;
    else if (change->where == IN_DIRECTORIES)
        to += PROGRAM_DIRECTORIES;
    else if (change->where == IN_SECTION)
        to = coff_program_section(program, change->section) + change->offset;
    else if (change->where == AT_ADDRESS)
        to = coff_program_at(program, change->offset);
    if (change->width == 1)
        *to = (uint8_t)change->value;
    else if (change->width == 2)
        store_u16(to, (uint16_t)change->value, false);
    else if (change->width == 4)
        store_u32(to, (uint32_t)change->value, false);
    else if (change->width == 8)
        store_u64(to, change->value, false);
}

#define CHANGES 3

static struct image_plan *make_plan(struct coff_program *program, const struct change *changes,
                                    const struct image_options *options, struct error *error)
{
    coff_program_add_symbols(program);
    for (size_t i = 0; i < CHANGES; i++)
        apply(program, &changes[i]);
    coff_program_finish(program);
    return image_plan_make(&program->input, options, error);
}

static const struct image_options all = {.sections = SECTION_REMOVABLE};

/* ---- images that are refused ---- */

#define DAMAGED(what) "image: damaged COFF image: " what "; link it again"

#define SIGNED                                                                                     \
    "image: the image is signed, and a split makes the signature invalid; split it before it is "  \
    "signed, or give --drop-signature and sign the stripped image"

static const struct refusal {
    const char *message;
    struct change changes[CHANGES];
    bool drop_signature;
} refusals[] = {
    {"image: a COFF image for a machine other than x86-64, AArch64 and i386 (machine 0x1c4); this "
     "version of covsplit cannot split it",
     {COFF_U16(0, 0x1c4)},
     false},
    {DAMAGED("its optional header is cut short"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 111)},
     false},
    {DAMAGED("its optional header does not fit its machine"), {OPTIONAL_U16(0, 0x10b)}, false},
    {DAMAGED("an alignment is not a power of two"),
     {OPTIONAL_U32(OPTIONAL_SECTION_ALIGNMENT, 0x1800)},
     false},
    {DAMAGED("an alignment is not a power of two"),
     {OPTIONAL_U32(OPTIONAL_FILE_ALIGNMENT, 0)},
     false},
    {DAMAGED("its base address is impossible"), {OPTIONAL_U64(24, UINT64_C(1) << 63)}, false},
    {DAMAGED("its data directories do not fit the optional header"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8)},
     false},
    {DAMAGED("its data directories do not fit the optional header"),
     {COFF_U16(HEADER_SIZE_OF_OPTIONAL_HEADER, 0xe8), OPTIONAL_U32(108, UINT32_MAX)},
     false},
    {DAMAGED("its symbol table is not inside the file"),
     {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, UINT32_MAX)},
     false},
    {DAMAGED("its section table is not inside the file"),
     {COFF_U16(HEADER_NUMBER_OF_SECTIONS, 0xffff)},
     false},
    {DAMAGED("a section is not inside the file"),
     {SECTION_U32(RELOC, COFF_SECTION_SIZE_OF_RAW_DATA, 0x10000)},
     false},
    {"image: the image has two sections named .lprfn; link it so that it has one",
     {SECTION_NAME(LPRFC, UINT64_C(0x6e6672706c2e))},
     false},
    {DAMAGED("SizeOfHeaders is wrong"), {OPTIONAL_U32(OPTIONAL_SIZE_OF_HEADERS, 0x200)}, false},
    {SIGNED,
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     false},
    {DAMAGED("its signature is not inside the file"),
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x4400), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 0x10000)},
     true},
    {DAMAGED("its signature is not inside the file"),
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x100), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     true},
};

START_TEST(test_refusal)
{
    const struct refusal *refusal = &refusals[_i];
    struct image_options options = {.sections = SECTION_REMOVABLE,
                                    .drop_signature = refusal->drop_signature};
    struct coff_program *program = coff_program_new();
    struct error error;

    ck_assert_msg(make_plan(program, refusal->changes, &options, &error) == NULL, "%s",
                  refusal->message);
    ck_assert_str_eq(error.message, refusal->message);
    coff_program_free(program);
}
END_TEST

/* ---- what stays ---- */

static const char *name_of(enum runtime_symbol symbol)
{
    return runtime_symbol_name(symbol);
}

static uint8_t *code_of(struct coff_program *program, enum runtime_symbol symbol)
{
    return coff_program_at(program, coff_program_find(program, name_of(symbol))->address);
}

static void no_symbols(struct coff_program *program)
{
    program->symbol_count = 0;
}

static void no_symbols_and_two_ends(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1);
    program->symbol_count = 0;
}

static void no_symbols_and_three_bounds(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_NAMES + 2);
    program->symbol_count = 0;
}

/* A jump to the function, as incremental linking has it. */
static void thunk(struct coff_program *program)
{
    struct coff_symbol *symbol = coff_program_find(program, name_of(RUNTIME_END_NAMES));
    uint32_t own = coff_program_code(program, 0);
    uint8_t *code = coff_program_at(program, own);

    memset(code, 0xc3, 16);
    code[0] = 0xe9;
    store_u32(code + 1, symbol->address - (own + 5), false);
    symbol->address = own;
}

static void thunk_to_nowhere(struct coff_program *program)
{
    uint8_t *code = code_of(program, RUNTIME_END_NAMES);

    code[0] = 0xe9;
    store_u32(code + 1, 0x100000, false);
}

static void code_in_data(struct coff_program *program)
{
    coff_program_find(program, name_of(RUNTIME_END_NAMES))->address = PROGRAM_DATA;
}

static void code_nowhere(struct coff_program *program)
{
    coff_program_find(program, name_of(RUNTIME_END_NAMES))->address = 0x1fff;
}

static void folded_code(struct coff_program *program)
{
    coff_program_symbol(program, "mine_with_a_long_name",
                        coff_program_find(program, name_of(RUNTIME_END_NAMES))->address);
}

static void early_end(struct coff_program *program)
{
    code_of(program, RUNTIME_END_NAMES)[3]--;
}

static void late_begin(struct coff_program *program)
{
    code_of(program, RUNTIME_BEGIN_NAMES)[3]++;
}

static void crossed_bounds(struct coff_program *program)
{
    uint8_t *code = code_of(program, RUNTIME_END_NAMES) + 3;

    store_u32(code, load_u32(code, false) - (PROGRAM_NAMES_SIZE - 2), false);
}

static void use_of_mapping(struct coff_program *program)
{
    coff_program_code(program, PROGRAM_COVMAP + 8);
}

static void pointer_to_mapping(struct coff_program *program)
{
    store_u64(coff_program_at(program, PROGRAM_DATA + 0x10), PROGRAM_BASE + PROGRAM_COVFUN + 8,
              false);
}

/* The exports are in .rdata: `count` addresses at `table`, all of them `address`. */
static void export(struct coff_program *program, uint32_t count, uint32_t table, uint32_t address)
{
    uint8_t *header = coff_program_at(program, PROGRAM_VERSION + 0x100);

    coff_program_directory(program, DIRECTORY_EXPORT, PROGRAM_VERSION + 0x100, 40);
    store_u32(header + 20, count, false);
    store_u32(header + 28, table, false);
    for (uint32_t i = 0; i < 2; i++)
        store_u32(header + 40 + 4 * (size_t)i, address, false);
}

static void export_of_nothing(struct coff_program *program)
{
    export(program, 0, 0, 0);
}

static void export_of_code(struct coff_program *program)
{
    export(program, 2, PROGRAM_VERSION + 0x128, 0x1000);
}

static void export_of_names(struct coff_program *program)
{
    export(program, 2, PROGRAM_VERSION + 0x128, PROGRAM_NAMES + 8);
}

static void endless_exports(struct coff_program *program)
{
    export(program, 0x1000, PROGRAM_VERSION + 0x128, 0x1000);
}

static void one_bitmap(struct coff_program *program)
{
    store_u32(coff_program_at(program, PROGRAM_RECORDS + PROGRAM_RECORD + 60), 4, false);
}

#define NAME_LPRFB UINT64_C(0x6266726c6c2e)

#define NAMES_STAY "the names stay, so nothing would show that a profile lacks its records"
#define BOUNDS                                                                                     \
    "__llvm_profile_begin_names and __llvm_profile_end_names do not return the bounds of the "     \
    "section"
#define UNKNOWN_CODE                                                                               \
    "covsplit does not know the code of __llvm_profile_end_names; link with LLVM's own profile "   \
    "runtime, without LTO"
#define CANNOT_TELL      "covsplit cannot tell which function is __llvm_profile_begin_names"
#define OVERLAPS         "it overlaps another part of the image"
#define OWN              "it has relocations or line numbers of its own"
#define COVMAP_STAYS     ".lcovmap stays"
#define NOT_SUPPORTED    "it belongs to -profile-correlate=binary, which covsplit does not support"
#define NOT_ALIGNED      "the image's sections overlap, or are not aligned, in the file"
#define NOT_FOLLOWING    "the image's sections do not follow each other in memory"
#define NO_COUNTERS      "the linker merged the counters into other data"
#define UNKNOWN_POINTERS "base relocation"

/* NULL: it goes. */
static const struct plan_row {
    const char *what;
    void (*prepare)(struct coff_program *program); /* or NULL */
    struct change changes[CHANGES];
    const char *names, *data, *covmap, *covfun;
} rows[] = {
    {"nothing unusual", NULL, {{0}}, NULL, NULL, NULL, NULL},
    {"no symbols", no_symbols, {{0}}, NULL, NULL, NULL, NULL},
    {"a jump to a function", thunk, {{0}}, NULL, NULL, NULL, NULL},
    {"no symbols, and two functions that return the end",
     no_symbols_and_two_ends,
     {{0}},
     CANNOT_TELL,
     NAMES_STAY,
     NULL,
     NULL},
    {"no symbols, and functions that return three bounds",
     no_symbols_and_three_bounds,
     {{0}},
     CANNOT_TELL,
     NAMES_STAY,
     NULL,
     NULL},
    {"a jump to nowhere", thunk_to_nowhere, {{0}}, UNKNOWN_CODE, NAMES_STAY, NULL, NULL},
    {"code in data", code_in_data, {{0}}, UNKNOWN_CODE, NAMES_STAY, NULL, NULL},
    {"code behind a section", code_nowhere, {{0}}, UNKNOWN_CODE, NAMES_STAY, NULL, NULL},
    {"folded code",
     folded_code,
     {{0}},
     "__llvm_profile_end_names shares its code with another function; link without /opt:icf",
     NAMES_STAY,
     NULL,
     NULL},
    {"an end before zeros", early_end, {{0}}, NULL, NULL, NULL, NULL},
    {"a late begin", late_begin, {{0}}, BOUNDS, NAMES_STAY, NULL, NULL},
    {"bounds that cross", crossed_bounds, {{0}}, BOUNDS, NAMES_STAY, NULL, NULL},
    {"no marker in front", NULL, {BYTE_AT(PROGRAM_NAMES, 1)}, BOUNDS, NAMES_STAY, NULL, NULL},
    {"no marker behind",
     NULL,
     {BYTE_AT(PROGRAM_NAMES + PROGRAM_NAMES_SIZE - 1, 1)},
     BOUNDS,
     NAMES_STAY,
     NULL,
     NULL},
    {"names that are longer in memory",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x800)},
     BOUNDS,
     NAMES_STAY,
     NULL,
     NULL},
    {"names that end before the end",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_VIRTUAL_SIZE, 0x300)},
     BOUNDS,
     NAMES_STAY,
     NULL,
     NULL},
    {"an unknown version",
     NULL,
     {U64_AT(PROGRAM_VERSION, 7)},
     "the version of its raw profiles is not known to covsplit",
     "the version of its raw profiles is not known to covsplit",
     NULL,
     NULL},
    {".NET",
     NULL,
     {DIRECTORY(DIRECTORY_CLR, PROGRAM_VERSION + 0x180), DIRECTORY_SIZE(DIRECTORY_CLR, 72)},
     "covsplit does not support .NET images",
     "covsplit does not support .NET images",
     "covsplit does not support .NET images",
     "covsplit does not support .NET images"},
    {"an image that ends late",
     NULL,
     {OPTIONAL_U32(OPTIONAL_SIZE_OF_IMAGE, 0xc000)},
     NOT_FOLLOWING,
     NOT_FOLLOWING,
     NOT_FOLLOWING,
     NOT_FOLLOWING},
    {"sections out of their units",
     NULL,
     {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x4100)},
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED},
    {"a section in the headers",
     NULL,
     {SECTION_U32(RELOC, COFF_SECTION_POINTER_TO_RAW_DATA, 0x200)},
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED,
     NOT_ALIGNED},
    {"code that uses the mapping",
     use_of_mapping,
     {{0}},
     NULL,
     NULL,
     "the program refers to it",
     COVMAP_STAYS},
    {"a pointer to the mapping",
     pointer_to_mapping,
     {{0}},
     NULL,
     NULL,
     NULL,
     "the program refers to it"},
    {"no exports", export_of_nothing, {{0}}, NULL, NULL, NULL, NULL},
    {"exports of code", export_of_code, {{0}}, NULL, NULL, NULL, NULL},
    {"exports of names",
     export_of_names,
     {{0}},
     "the image exports something in it",
     NAMES_STAY,
     NULL,
     NULL},
    {"endless exports",
     endless_exports,
     {{0}},
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it"},
    {"exports nowhere",
     NULL,
     {DIRECTORY(DIRECTORY_EXPORT, 0x100000), DIRECTORY_SIZE(DIRECTORY_EXPORT, 40)},
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it",
     "the image exports something in it"},
    {"a debug directory nowhere",
     NULL,
     {DIRECTORY(DIRECTORY_DEBUG, 0x100000)},
     OVERLAPS,
     OVERLAPS,
     OVERLAPS,
     OVERLAPS},
    {"debug data in names",
     NULL,
     {U32_AT(PROGRAM_DEBUG + DEBUG_POINTER_TO_RAW_DATA, 0x3100)},
     OVERLAPS,
     NAMES_STAY,
     NULL,
     NULL},
    {"symbols in the names",
     NULL,
     {COFF_U32(HEADER_POINTER_TO_SYMBOL_TABLE, 0x3100), COFF_U32(HEADER_NUMBER_OF_SYMBOLS, 1)},
     OVERLAPS,
     NAMES_STAY,
     NULL,
     NULL},
    {"a certificate in the names",
     NULL,
     {DIRECTORY(DIRECTORY_CERTIFICATE, 0x3100), DIRECTORY_SIZE(DIRECTORY_CERTIFICATE, 8)},
     OVERLAPS,
     NAMES_STAY,
     NULL,
     NULL},
    {"relocations of its own",
     NULL,
     {SECTION_U32(LPRFN, COFF_SECTION_POINTER_TO_RELOCATIONS, 0x100)},
     OWN,
     NAMES_STAY,
     NULL,
     NULL},
    {"line numbers of its own",
     NULL,
     {SECTION_U32(LCOVMAP, COFF_SECTION_POINTER_TO_LINENUMBERS, 0x100)},
     NULL,
     NULL,
     OWN,
     COVMAP_STAYS},
    {"no counters", NULL, {SECTION_NAME(LPRFC, 'x')}, NO_COUNTERS, NO_COUNTERS, NULL, NULL},
    {"a bitmap without a section",
     one_bitmap,
     {{0}},
     "its bitmap cannot be told apart from other data",
     "its bitmap cannot be told apart from other data",
     NULL,
     NULL},
};

static void assert_reason(struct image_plan *plan, enum section_kind kind, const char *reason,
                          const char *what)
{
    const struct image_section *section = image_plan_section(plan, kind);

    ck_assert_ptr_nonnull(section);
    ck_assert_msg((section->fate == FATE_STAYS) == (reason != NULL), "%s: %s: %s", what,
                  section->name, section->reason);
    ck_assert_msg(strstr(section->reason, reason == NULL ? "" : reason) != NULL, "%s: %s: %s", what,
                  section->name, section->reason);
}

static void assert_row(struct image_plan *plan, const struct plan_row *row)
{
    assert_reason(plan, SECTION_NAMES, row->names, row->what);
    assert_reason(plan, SECTION_DATA, row->data, row->what);
    assert_reason(plan, SECTION_COVMAP, row->covmap, row->what);
    assert_reason(plan, SECTION_COVFUN, row->covfun, row->what);
}

START_TEST(test_plan)
{
    const struct plan_row *row = &rows[_i];
    struct image_options options = {.sections = SECTION_REMOVABLE, .drop_signature = true};
    struct coff_program *program = coff_program_new();
    struct image_plan *plan;
    struct error error = {0};

    if (row->prepare != NULL)
        row->prepare(program);
    plan = make_plan(program, row->changes, &options, &error);
    ck_assert_msg(plan != NULL, "%s: %s", row->what, error.message);
    assert_row(plan, row);
    image_plan_free(plan);
    coff_program_free(program);
}
END_TEST

START_TEST(test_many_definitions)
{
    static const struct change none[CHANGES];
    struct coff_program *program = coff_program_new();
    struct error error;

    while (program->symbol_count <= RUNTIME_DEFINITIONS_MAX)
        coff_program_symbol(program, name_of(RUNTIME_END_NAMES), 0x1000);
    ck_assert_ptr_null(make_plan(program, none, &all, &error));
    ck_assert_str_eq(error.message, "image: damaged COFF image or map file: the profile runtime is "
                                    "defined too many times; link it again");
    coff_program_free(program);
}
END_TEST

/* ---- map files ---- */

/* As lld-link writes it, with lines of other kinds. */
static const char map_text[] =
    " image.exe\r\n\r\n Preferred load address is 0000000140000000\r\n\r\n"
    " Start         Length     Name                   Class\r\n"
    " 0001:00000000 00000400H .text                   CODE\r\n\r\n"
    "  Address         Publics by Value              Rva+Base               Lib:Object\r\n\r\n"
    " 0001:00000000       __llvm_profile_begin_data  0000000140001000     runtime.obj\r\n"
    " 0001:00000010       __llvm_profile_end_data    0000000140001010     runtime.obj\r\n"
    " 0001:00000020       __llvm_profile_begin_names 0000000140001020     runtime.obj\r\n"
    " 0001:00000030       __llvm_profile_end_names   0000000140001030     runtime.obj\r\n"
    " 0001:00000040       __llvm_profile_begin_counters 0000000140001040 f runtime.obj\r\n"
    " 0001:00000050       __llvm_profile_end_counters 0000000140001050 f   runtime.obj\r\n"
    " 0002:00000000       __llvm_profile_raw_version 0000000140002000     runtime.obj";

static const char no_map[] =
    ": not a map file of this image: no line has an address in it, in the form that MSVC and "
    "lld-link write; give the one that /map writes (mingw: link without -s instead)";

static struct image_plan *plan_with_map(struct coff_program *program, const char *text,
                                        struct error *error)
{
    static const struct change none[CHANGES];
    struct image_options options = {.sections = SECTION_REMOVABLE};
    struct buffer buffer = {0};
    struct input map = {0};
    struct image_plan *plan;

    ck_assert(buffer_append(&buffer, text, strlen(text)));
    ck_assert(input_from_buffer(&map, &buffer, "map", error));
    options.map = &map;
    program->symbol_count = 0;
    plan = make_plan(program, none, &options, error);
    input_close(&map);
    return plan;
}

/* It names the functions where two of them return the same. */
START_TEST(test_map)
{
    static const struct plan_row row = {.what = "a map"};
    struct coff_program *program = coff_program_new();
    struct image_plan *plan;
    struct error error = {0};

    coff_program_code(program, 0);
    plan = plan_with_map(program, map_text, &error);
    ck_assert_msg(plan != NULL, "%s", error.message);
    assert_row(plan, &row);
    image_plan_free(plan);
    coff_program_free(program);
}
END_TEST

/* Lines that tell no address of the image. */
START_TEST(test_no_map)
{
    static const char *const texts[] = {
        "",
        "\n\n",
        " 0001:00000000",
        " 0001:00000000 name",
        " 0001:00000000 name ",
        " 01 name 0000000140001000",
        " 0100000000 name 0000000140001000",
        " 0001:00000000 name 1000",
        " 0001:00000000 name 00000001400010g0",
        " 0001:00000000 name 00000001400010-0",
        " 0001:00000000 name 10000000140001000",
        " 0001:00000000 name 0000000140009000000000",
        " 0001:00000000 name 0000000140000fff",
        " 0001:00000000 name 000000014000900c",
        " 0001:00000000 name\n0000000140001000",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct coff_program *program = coff_program_new();
        struct error error = {0};

        ck_assert_msg(plan_with_map(program, texts[i], &error) == NULL, "'%s'", texts[i]);
        ck_assert_msg(strncmp(error.message, "map", 3) == 0 &&
                          strcmp(error.message + 3, no_map) == 0,
                      "'%s': %s", texts[i], error.message);
        coff_program_free(program);
    }
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("all");

    suite_loops(test_case, sizeof(refusals) / sizeof(refusals[0]), test_refusal);
    suite_loops(test_case, sizeof(rows) / sizeof(rows[0]), test_plan);
    suite_tests(test_case, test_many_definitions, test_map, test_no_map);
    return suite_main("coff_plan", test_case);
}
