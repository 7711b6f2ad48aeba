/*
 * The machines other than this one: every kind of image, by every compiler and linker that there is
 * for each; split, run in an emulator, joined and checked in every way, and the reports compared.
 *
 * Usage: machines MACHINE [--list]
 *
 * The rows are a product: {PIE, non-PIE, shared library and program, static} x {GNU ld, lld, where
 * it knows the machine} x {LLVM versions with a runtime for it}; {static-PIE, static} where no C
 * library and so no loader is packaged. Kinds of code (A32 and T32, with compressed instructions
 * and without) and levels of optimization take turns in them. Each is with the smallest pages that
 * the machine has, so that a small program has whole ones to cut. Where linkers take larger ones,
 * one row more for each linker has those and more functions.
 *
 * Where not everything is asked for (suite.h), the rows on a diagonal are run: each compiler, each
 * linker and each kind of image has a row; which come together moves on from machine to machine.
 */
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"
#include "tests/support/trial.h"

/* So many that names and data have two pages each: records of 32-bit machines are the smallest. */
#define SMALL_FUNCTIONS(page) (220 * (page) / 4096)
#define LARGE_FUNCTIONS       1500
#define ROWS_MAX              64

static const enum link_kind hosted_kinds[] = {LINK_PIE, LINK_NO_PIE, LINK_SHARED, LINK_STATIC};
static const enum link_kind freestanding_kinds[] = {LINK_STATIC_PIE, LINK_STATIC};
static const char *const linkers[] = {"bfd", "lld"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct program rows[ROWS_MAX];
static size_t row_count;

/* Returns how many there are for a machine. */
static size_t list_kinds(const struct target *target, const enum link_kind **kinds)
{
    *kinds = target->is_freestanding ? freestanding_kinds : hosted_kinds;
    return target->is_freestanding ? COUNT(freestanding_kinds) : COUNT(hosted_kinds);
}

/* A compiler with a linker. */
struct tools {
    const char *clang;
    const char *linker;
};

/* All that there are for a machine, linkers taking turns. Returns how many. */
static size_t list_tools(const struct target *target, struct tools *tools)
{
    static const char *const clangs[] = {"14", "16", "19", "22"};
    size_t count = 0;
    for (size_t i = 0; i < COUNT(clangs) * COUNT(linkers); i++) {
        struct tools these = {clangs[i / COUNT(linkers)], linkers[i % COUNT(linkers)]};
        if (target_has_tools(target, these.clang, these.linker)) {
            tools[count++] = these;
        }
    }
    return count;
}

/* Rows with code that seems to refer to names or data, by a number or by half of an address whose
 * other half is not found: they stay, with that reason. */
struct kept_row {
    const char *machine;
    struct tools tools;
    enum link_kind kind;
    const char *refusal; /* NULL: data alone stays */
    const char *refused; /* the image that keeps them; NULL: each */
};

static const struct kept_row kept_rows[] = {
    /* A jump table of LLVM 14's runtime, behind which halves may be anywhere. */
    {"ppc64le", {"14", "bfd"}, LINK_PIE, "refers to it, other than the runtime's", NULL},
    {"ppc64le", {"14", "bfd"}, LINK_NO_PIE, "refers to it, other than the runtime's", NULL},
    {"ppc64le", {"14", "lld"}, LINK_PIE, "refers to it, other than the runtime's", NULL},
    {"ppc64le", {"14", "lld"}, LINK_SHARED, "refers to it, other than the runtime's", PROGRAM_NAME},
    /* The first word of the GOT is the TOC pointer, 32 KiB above, which is inside the data; its own
     * address is where the constructors end. */
    {"ppc64le", {"14", "lld"}, LINK_STATIC, NULL, NULL},
    {"ppc64le", {"19", "lld"}, LINK_STATIC, NULL, NULL},
};

static const struct kept_row *find_kept(const struct program *row)
{
    for (size_t i = 0; i < COUNT(kept_rows); i++) {
        const struct kept_row *kept = &kept_rows[i];
        if (strcmp(kept->machine, row->target->name) == 0 &&
            strcmp(kept->tools.clang, row->clang) == 0 &&
            strcmp(kept->tools.linker, row->linker) == 0 && kept->kind == row->kind &&
            row->functions == SMALL_FUNCTIONS(target_page_size(row->target))) {
            return kept;
        }
    }
    return NULL;
}

/* The pages, and what else is for this linker and kind of image. */
static const char *link_options(const struct target *target, struct tools tools,
                                enum link_kind kind)
{
    const char *pages = target_page_option(target);
    bool is_fixed = kind == LINK_NO_PIE || kind == LINK_STATIC;
    return is_fixed && strcmp(tools.linker, "lld") == 0 && target->lld_fixed_options != NULL
               ? text_format("%s %s", pages, target->lld_fixed_options)
               : pages;
}

static struct program *add_row(const struct target *target, struct tools tools, enum link_kind kind)
{
    static const char *const optimizations[] = {"-O0", "-O2", "-O1", "-Os", "-O3"};
    /* Both kinds of code meet each kind of image, and each compiler. */
    size_t code = (row_count + row_count / 4) % COUNT(target->options);
    ck_assert_uint_lt(row_count, ROWS_MAX);
    rows[row_count] = (struct program){
        .target = target,
        .clang = tools.clang,
        .linker = tools.linker,
        .kind = kind,
        .language = LANGUAGE_C,
        .optimization = optimizations[row_count % COUNT(optimizations)],
        .compile_options = target->options[code],
        .link_options = link_options(target, tools, kind),
        .functions = (unsigned)SMALL_FUNCTIONS(target_page_size(target)),
    };
    return &rows[row_count++];
}

static void add_all_rows(const struct target *target)
{
    struct tools tools[ROWS_MAX];
    const enum link_kind *kinds;
    size_t count = list_tools(target, tools), kind_count = list_kinds(target, &kinds);
    for (size_t i = 0; i < count; i++) {
        for (size_t kind = 0; kind < kind_count; kind++) {
            add_row(target, tools[i], kinds[kind]);
        }
    }
    for (size_t i = count < 2 ? 0 : count - 2; i < count && target->has_large_pages; i++) {
        struct program *row = add_row(target, tools[i], kinds[0]);
        row->link_options = NULL;
        row->functions = LARGE_FUNCTIONS;
    }
}

static void add_diagonal(const struct target *target)
{
    struct tools tools[ROWS_MAX];
    const enum link_kind *kinds;
    size_t count = list_tools(target, tools), kind_count = list_kinds(target, &kinds);
    size_t turn = (size_t)(target - target_table);
    /* Of a compiler's two linkers one where that gives enough rows. */
    size_t step = count >= 2 * kind_count && count > 4 ? 2 : 1;
    size_t longer = count / step < kind_count ? kind_count : count / step;
    for (size_t i = 0; i < longer; i++) {
        size_t kind = i + i / kind_count + turn;
        add_row(target, tools[(i * step + (i + turn) % step) % count], kinds[kind % kind_count]);
    }
}

/* Linkers leave static images no room for another program header, and no table that could make
 * some: those keep zeros, and only those. */
static bool check_cut(const struct program *row, const struct trial *trial, struct verdict *verdict)
{
    return row->kind == LINK_STATIC || row->kind == LINK_STATIC_PIE ||
           strstr(trial->messages, "no room for another program header") == NULL ||
           verdict_fail(verdict, "the pages were not cut: %s", trial->messages);
}

START_TEST(test_row)
{
    const struct program *row = &rows[_i];
    struct trial trial = trial_create("machines");
    trial.clang = row->clang;
    trial.emulator = target_emulator(row->target);
    trial.address_unit = row->target->address_unit;
    trial.exit_code = 3;
    trial.numbered_runs = true;
    const struct kept_row *kept = find_kept(row);
    trial.refusal = kept != NULL ? kept->refusal : NULL;
    trial.refused = kept != NULL ? kept->refused : NULL;
    trial.data_stays = kept != NULL && kept->refusal == NULL;
    text_list_add(&trial.images, PROGRAM_NAME);
    if (row->kind == LINK_SHARED) {
        text_list_add(&trial.images, PROGRAM_LIBRARY);
    }
    program_build(row, trial.original);
    trial_assert_whole_pages(&trial);

    struct verdict verdict = {0};
    if (trial_check_all(&trial, &verdict) && check_cut(row, &trial, &verdict) &&
        trial_check_report(&trial, &verdict) && rounds_are_all()) {
        trial_check_strip_tools(&trial, &verdict);
    }
    verdict_assert(&verdict, program_describe(row));
    printf("%s: passed\n%s", program_describe(row), trial.messages);
}
END_TEST

static void list_rows(void)
{
    for (size_t i = 0; i < row_count; i++) {
        suite_list_row("ELF", rows[i].target->name,
                       rows[i].target->architecture != NULL
                           ? "run in an emulator"
                           : "run in an emulator, with a runtime of our own",
                       rows[i].linker, rows[i].clang, program_kind(&rows[i]));
    }
}

/* Programs that get at their own records, which stay then: by the slots of the GOT that the
 * accessors load, in a loop without optimization, and by pointers to the accessors. These are of
 * the machine's other kind of code where it has two, in a runtime that is the tests' own then. */
#define OWN_FUNCTIONS 40
#define OWN_START                                                                                  \
    "long first_run(long seed);\n"                                                                 \
    "extern unsigned char __start___llvm_prf_data[];\n"                                            \
    "int main(void) { unsigned sum = 0; unsigned char *records;"
#define OWN_END                                                                                    \
    " for (int i = 0; i < 99; i++) sum += records[i]; return (int)first_run((long)sum) & 3; }\n"

#define REFERS " refers to it, other than the runtime's"

static const struct {
    const char *optimization;
    const char *source;
    const char *message;
    bool has_other_code;
} own_records[] = {
    {"-O1", OWN_START "records = __start___llvm_prf_data;" OWN_END, REFERS, false},
    {"-O0",
     OWN_START "for (int i = 0; i < 99; i++) sum += __start___llvm_prf_data[i + 40];"
               " return (int)first_run((long)sum) & 3; }\n",
     REFERS, false},
    {"-O1",
     "unsigned char *__llvm_profile_begin_data(void), *__llvm_profile_end_data(void);\n"
     "unsigned char *(*volatile bounds[])(void) = {__llvm_profile_begin_data,\n"
     "                                             __llvm_profile_end_data};\n" OWN_START
     "records = bounds[0](); sum = (unsigned)(bounds[1]() - records);" OWN_END,
     "the program looks at its own records", true},
};

START_TEST(test_own_records)
{
    struct program program = rows[0];
    struct target target = *program.target;
    char *directory = scratch_create("machines");
    if (own_records[_i].has_other_code && target.options[1] != NULL) {
        target.architecture = NULL;
        target.all_options = target.options[1];
        program.target = &target;
    }
    program.kind = program.target->is_freestanding ? LINK_STATIC_PIE : LINK_PIE;
    program.optimization = own_records[_i].optimization;
    file_write_text(path_join(directory, "main.c"), own_records[_i].source);
    source_generate(path_join(directory, "first.c"), LANGUAGE_C, "first", OWN_FUNCTIONS);
    program_compile(&program, directory, "main.c", "main.o");
    program_compile(&program, directory, "first.c", "first.o");
    program_link(&program, directory, program.target->is_freestanding ? "-static-pie" : "-pie",
                 "main.o first.o", "app");
    const char *errors =
        covsplit_assert(0, directory, "split", "-o", "stripped", "--sidecar", "side", "app", NULL);
    ck_assert_msg(strstr(errors, "__llvm_prf_data stays: ") != NULL &&
                      strstr(errors, own_records[_i].message) != NULL,
                  "%s", errors);
}
END_TEST

/* One for a machine that nobody knows, and one for this machine with addresses of the other size.
 */
START_TEST(test_other_machine)
{
    struct sample sample = sample_create_for(rows[0].target, "machines", 1);
    struct contents image = file_read(sample.image);
    bool is_class = _i != 0;
    char *directory = sample_directory(&sample);
    image.data[is_class ? EI_CLASS : offsetof(Elf64_Ehdr, e_machine)] ^= is_class ? 3 : 0x55;
    file_write(path_join(directory, "input"), image.data, image.size);
    const char *errors = covsplit_assert(1, directory, "split", "-o", "out", "input", NULL);
    ck_assert_msg(is_class || strstr(errors, "for a machine that covsplit does not know") != NULL,
                  "%s", errors);
    ck_assert(!file_exists(path_join(directory, "out")));
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *name;
    bool is_list = suite_is_list(&argument_count, arguments);
    suite_arguments(argument_count, arguments, "MACHINE", &name);
    const struct target *target = target_find(name);
    if (target == NULL) {
        return suite_usage(arguments[0], "MACHINE");
    }
    if (is_list || rounds_are_all()) {
        add_all_rows(target);
    } else {
        add_diagonal(target);
    }
    if (is_list) {
        list_rows();
        return EXIT_SUCCESS;
    }
    TCase *test_case = suite_case("rows", 600, NULL);
    suite_loops(test_case, row_count, test_row);
    suite_loops(test_case, 2, test_other_machine);
    suite_loops(test_case, COUNT(own_records), test_own_records);
    return suite_main(text_format("machines %s", name), test_case);
}
