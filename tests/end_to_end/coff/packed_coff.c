/*
 * Packed COFF objects: they are compared with the ordinary ones, and linked; the sidecars of the
 * images are compared with those of images of ordinary objects. And damaged objects: each stays as
 * it is, or what is made of it is the damaged object without coverage mapping.
 *
 * Usage: packed_coff CLANG
 *        packed_coff damaged FIRST COUNT      seeds of the mutations
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/hostile.h"
#include "tests/support/mutation.h"
#include "tests/support/pe_file.h"
#include "tests/support/rounds.h"
#include "tests/support/suite.h"
#include "tests/support/windows_program.h"
#include "tests/support/wine.h"

#define RUN       10
#define EXIT_CODE 3

static const char *clang_version;

#define SHARED INSTRUMENT_COVERAGE " -include " COVSPLIT_FIXTURE_DIRECTORY "/windows/shared.h"

static const struct windows_program programs[] = {
    {.target = WINDOWS_MSVC_X86_64, .instrumentation = SHARED, .link_options = "/debug"},
    {.target = WINDOWS_MSVC_X86_64,
     .instrumentation = SHARED " -Xclang -cfguard-no-checks -ffunction-sections",
     .link_options = "/guard:cf /opt:ref /opt:icf"},
    {.target = WINDOWS_MSVC_ARM64, .instrumentation = SHARED, .link_options = ""},
    {.target = WINDOWS_MSVC_I686, .instrumentation = SHARED, .link_options = ""},
    {.target = WINDOWS_MINGW_LLD, .instrumentation = SHARED},
};

/* What the programs in C++ need of a library, the fixtures have for clang from this one on; others
 * compile C, which has no function in several objects, and not for mingw-w64, the last one. From
 * this one on also, the mapping is at the end of an image. */
#define NEW_CLANG 19

static const char *const objects[] = {"main.o", "first.o", "second.o"};

#define OBJECTS (sizeof objects / sizeof *objects)

/* The same program as it is built, and with packed objects. The names of the directories are
 * equally long, since the program counts the characters of its command line. */
struct cell {
    struct windows_program program;
    char *scratch;
    char *ordinary; /* directories */
    char *packed;
};

static struct cell cell_build(const struct windows_program *program)
{
    struct cell cell = {.program = *program, .scratch = scratch_create("packed-coff")};
    cell.program.clang = clang_version;
    if (atoi(clang_version) >= NEW_CLANG) {
        cell.program.language = LANGUAGE_CXX;
    } else {
        cell.program.instrumentation = NULL;
    }
    cell.ordinary = path_join(cell.scratch, "before");
    cell.packed = path_join(cell.scratch, "packed");
    directory_create(cell.ordinary);
    windows_program_build(&cell.program, cell.ordinary);
    run_or_abort(cell.scratch, "cp", "-a", "before", "packed", NULL);
    return cell;
}

static bool pack(const struct cell *cell, const char *operands, struct verdict *verdict)
{
    struct command command = covsplit_words(cell->packed, text_format("pack %s", operands));
    struct outcome outcome = command_run(&command);
    return (outcome_exited(&outcome, 0) && outcome.errors[0] == '\0') ||
           verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
}

/* ---- objects ---- */

/* An independent reader, for pairs of objects. */
#define READER "python3 " COVSPLIT_FIXTURE_DIRECTORY "/../support/coff_objects.py"

static bool same_objects(const struct cell *cell, struct verdict *verdict)
{
    struct command command = {.directory = cell->scratch};
    text_list_add_words(&command.arguments, READER);
    for (size_t i = 0; i < OBJECTS; i++) {
        text_list_add_format(&command.arguments, "before/%s", objects[i]);
        text_list_add_format(&command.arguments, "packed/%s", objects[i]);
    }
    struct outcome outcome = command_run(&command);
    return outcome_exited(&outcome, 0) ||
           verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
}

/* What a tool of LLVM says of an object; it must not complain. NULL: it did. */
static const char *told_by(const char *directory, const char *tool, const char *words,
                           struct verdict *verdict)
{
    struct command command =
        command_words(directory, "%s %s", versioned_tool(tool, clang_version), words);
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0) || outcome.errors[0] != '\0') {
        verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
        return NULL;
    }
    return outcome.output;
}

/* Without the lines that are about what goes. */
static const char *lines_without_records(const char *text)
{
    struct text_list lines = text_list_of_lines(text);
    char *kept = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&kept, &size);
    ck_assert(file != NULL);
    for (size_t i = 0; i < lines.count; i++) {
        if (strstr(lines.items[i], "__covrec_") == NULL &&
            strstr(lines.items[i], ".lcovfun") == NULL) {
            fprintf(file, "%s\n", lines.items[i]);
        }
    }
    ck_assert_int_eq(fclose(file), 0);
    text_list_free(&lines);
    return kept;
}

/* Disassemblers and debuggers see what they saw. */
static bool same_to_tools(const struct cell *cell, const char *object, struct verdict *verdict)
{
    static const struct {
        const char *tool;
        const char *options;
    } views[] = {{"llvm-objdump", "-d -r"}, {"llvm-nm", ""}};
    const char *all = "--sections --symbols --relocations --string-table --addrsig";
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        const char *words = text_format("%s %s", views[i].options, object);
        const char *before = told_by(cell->ordinary, views[i].tool, words, verdict);
        const char *after = told_by(cell->packed, views[i].tool, words, verdict);
        if (before == NULL || after == NULL) {
            return false;
        }
        if (strcmp(lines_without_records(before), lines_without_records(after)) != 0) {
            return verdict_fail(verdict, "%s %s differs", views[i].tool, words);
        }
    }
    return told_by(cell->packed, "llvm-readobj", text_format("%s %s", all, object), verdict) !=
           NULL;
}

/* ---- images ---- */

static bool is_of_mapping(const char *name)
{
    return strncmp(name, ".lcov", strlen(".lcov")) == 0;
}

static bool has_build_id(const char *name)
{
    return strcmp(name, ".rdata") == 0 || strcmp(name, ".buildid") == 0;
}

/* Where the linker puts the mapping in front of other sections, these move, and what refers to them
 * changes. */
static bool has_moved(const struct pe_file *before, const struct pe_file *after)
{
    for (size_t i = 0; i < before->section_count; i++) {
        const struct pe_section *one = &before->sections[i];
        const struct pe_section *other = pe_file_section(after, one->name);
        if (!is_of_mapping(one->name) &&
            (other == NULL || one->virtual_address != other->virtual_address)) {
            return true;
        }
    }
    return false;
}

/* All sections of the image but those of the mapping are as in the ordinary one. */
static bool same_sections(const struct cell *cell, struct verdict *verdict)
{
    struct pe_file before = pe_file_read(path_join(cell->ordinary, WINDOWS_PROGRAM));
    struct pe_file after = pe_file_read(path_join(cell->packed, WINDOWS_PROGRAM));
    bool moved = has_moved(&before, &after);
    size_t compared = 0;
    for (size_t i = 0; i < before.section_count; i++) {
        const struct pe_section *one = &before.sections[i];
        const struct pe_section *other = pe_file_section(&after, one->name);
        if (is_of_mapping(one->name)) {
            continue;
        }
        if (other == NULL || one->virtual_size != other->virtual_size ||
            one->raw_size != other->raw_size) {
            return verdict_fail(verdict, "%s has another size", one->name);
        }
        if (!moved && !has_build_id(one->name) &&
            memcmp(before.file.data + one->raw_pointer, after.file.data + other->raw_pointer,
                   one->raw_size) != 0) {
            return verdict_fail(verdict, "%s has other contents", one->name);
        }
        compared++;
    }
    if (moved && windows_target_is_msvc(cell->program.target) && atoi(clang_version) >= NEW_CLANG) {
        return verdict_fail(verdict, "sections have moved");
    }
    return compared > 4 || verdict_fail(verdict, "the image has only %zu sections", compared);
}

static bool dump(const char *directory, const char *section, struct verdict *verdict)
{
    return told_by(directory, "llvm-objcopy",
                   text_format("--dump-section %s=%s.bytes object object.copy", section, section),
                   verdict) != NULL;
}

/* Splits the image in a directory, and takes the mapping out of its sidecar. */
static bool split(const char *directory, struct verdict *verdict)
{
    const char *messages = "";
    return (covsplit_expect(verdict, 0, &messages, directory, "split", "-o", "stripped.exe",
                            "--sidecar", "sidecar", WINDOWS_PROGRAM, NULL) &&
            (messages[0] == '\0' || verdict_fail(verdict, "%s", messages))) &&
           covsplit_expect(verdict, 0, NULL, directory, "export", "--sidecar", "sidecar", "-o",
                           "object", NULL) &&
           dump(directory, "__llvm_covmap", verdict) && dump(directory, "__llvm_covfun", verdict);
}

/* The ordinary image was split before. */
static bool same_mapping_as_before(const struct cell *cell, struct verdict *verdict)
{
    return split(cell->packed, verdict) &&
           files_equal(path_join(cell->packed, "__llvm_covmap.bytes"),
                       path_join(cell->ordinary, "__llvm_covmap.bytes"), verdict) &&
           files_equal(path_join(cell->packed, "__llvm_covfun.bytes"),
                       path_join(cell->ordinary, "__llvm_covfun.bytes"), verdict);
}

static bool same_mapping(const struct cell *cell, struct verdict *verdict)
{
    return split(cell->ordinary, verdict) && same_mapping_as_before(cell, verdict);
}

static bool joins(const struct cell *cell, struct verdict *verdict)
{
    return covsplit_expect(verdict, 0, NULL, cell->packed, "join", "--sidecar", "sidecar", "-o",
                           "joined", "stripped.exe", NULL) &&
           files_equal(path_join(cell->packed, "joined"), path_join(cell->packed, WINDOWS_PROGRAM),
                       verdict);
}

/* ---- libraries, and objects of both kinds ---- */

static bool check_library(const struct cell *cell, struct verdict *verdict)
{
    const char *words = "rc both.lib first.o second.o";
    if (told_by(cell->ordinary, "llvm-ar", words, verdict) == NULL) {
        return false;
    }
    file_copy(path_join(cell->ordinary, "both.lib"), path_join(cell->packed, "both.lib"));
    if (!pack(cell, "both.lib", verdict)) {
        return false;
    }
    windows_program_link(&cell->program, cell->ordinary, "main.o both.lib");
    windows_program_link(&cell->program, cell->packed, "main.o both.lib");
    return same_mapping(cell, verdict);
}

static bool check_mixed(const struct cell *cell, struct verdict *verdict)
{
    for (size_t i = 0; i < OBJECTS; i++) {
        const char *object = path_join(cell->packed, objects[i]);
        const char *ordinary = path_join(cell->ordinary, objects[i]);
        const char *kept = path_join(cell->packed, "kept.o");
        file_copy(object, kept);
        file_copy(ordinary, object);
        windows_program_link(&cell->program, cell->packed, WINDOWS_OBJECTS);
        if (!same_mapping_as_before(cell, verdict)) {
            return verdict_fail(verdict, "%s is not packed", objects[i]);
        }
        file_copy(kept, object);
    }
    return true;
}

/* ---- runs ---- */

static bool can_run(const struct windows_program *program)
{
    return program->target != WINDOWS_MSVC_ARM64 && program->target != WINDOWS_MSVC_I686;
}

/* The profile of a run; the stripped image runs under the image's name. */
static bool run(const char *directory, struct verdict *verdict)
{
    struct command command = wine_command(directory, RUN);
    struct outcome outcome = command_run(&command);
    return outcome_exited(&outcome, EXIT_CODE) ||
           verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
}

static bool check_reports(const struct cell *cell, struct verdict *verdict)
{
    static const char *const reports[] = {"report", "show", "export -format=lcov", "export"};
    const char *profile = text_format("run%u-program.profraw", RUN);
    file_copy(path_join(cell->packed, "stripped.exe"), path_join(cell->packed, WINDOWS_PROGRAM));
    if (!run(cell->ordinary, verdict) || !run(cell->packed, verdict) ||
        told_by(cell->ordinary, "llvm-profdata", text_format("merge -o all.profdata %s", profile),
                verdict) == NULL ||
        !covsplit_expect(verdict, 0, NULL, cell->packed, "merge", "--sidecar", "sidecar",
                         "--llvm-profdata", versioned_tool("llvm-profdata", clang_version), "-o",
                         "all.profdata", profile, NULL) ||
        !files_equal(path_join(cell->packed, "all.profdata"),
                     path_join(cell->ordinary, "all.profdata"), verdict)) {
        return false;
    }
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const char *words = text_format("%s -instr-profile=all.profdata", reports[i]);
        const char *before =
            told_by(cell->ordinary, "llvm-cov", text_format("%s " WINDOWS_PROGRAM, words), verdict);
        const char *after =
            told_by(cell->packed, "llvm-cov", text_format("%s object", words), verdict);
        if (before == NULL || after == NULL) {
            return false;
        }
        if (strcmp(before, after) != 0 || strstr(before, "first") == NULL) {
            return verdict_fail(verdict, "%s differs", words);
        }
    }
    return true;
}

/* ---- all of it ---- */

START_TEST(test_program)
{
    struct cell cell = cell_build(&programs[_i]);
    struct verdict verdict = {0};
    bool fine = pack(&cell, WINDOWS_OBJECTS, &verdict) && same_objects(&cell, &verdict);
    for (size_t i = 0; i < OBJECTS && fine; i++) {
        fine = same_to_tools(&cell, objects[i], &verdict);
    }
    if (fine) {
        windows_program_link(&cell.program, cell.packed, WINDOWS_OBJECTS);
        fine = same_sections(&cell, &verdict) && same_mapping(&cell, &verdict) &&
               joins(&cell, &verdict) &&
               (!can_run(&cell.program) || check_reports(&cell, &verdict)) &&
               (!rounds_have((unsigned)_i, 3) || check_mixed(&cell, &verdict)) &&
               (!rounds_have((unsigned)_i + 2, 3) || check_library(&cell, &verdict));
    }
    verdict_assert(&verdict, windows_program_describe(&cell.program));
}
END_TEST

/* ---- damage ---- */

#define DAMAGED_FUNCTIONS 4

static const struct windows_program damaged_programs[] = {
    {.target = WINDOWS_MSVC_X86_64, .instrumentation = SHARED " -Xclang -cfguard-no-checks"},
    {.target = WINDOWS_MSVC_I686, .instrumentation = SHARED " -ffunction-sections"},
    {.target = WINDOWS_MINGW_LLD, .instrumentation = SHARED},
};

#define DAMAGED (sizeof damaged_programs / sizeof *damaged_programs)

static struct contents damaged_objects[DAMAGED];

static void prepare_damaged(void)
{
    for (size_t i = 0; i < DAMAGED; i++) {
        struct windows_program program = damaged_programs[i];
        char *directory = scratch_create("packed-coff");
        program.clang = "22";
        program.language = LANGUAGE_CXX;
        program.functions = DAMAGED_FUNCTIONS;
        windows_program_build(&program, directory);
        damaged_objects[i] = file_read(path_join(directory, "first.o"));
        directory_remove(directory);
    }
}

static uint32_t number_at(const struct contents *object, size_t offset)
{
    uint32_t number;
    memcpy(&number, object->data + offset, sizeof number);
    return number;
}

/* The header, those of the sections, the symbols, all of it, and what names the records. */
static struct contents damage(const struct contents *object, uint64_t seed, char **description)
{
    uint64_t sections = number_at(object, 0) >> 16, symbols = number_at(object, 8);
    const char *end = (const char *)object->data + object->size;
    const char *directives = memmem(object->data, object->size, ":__covrec_", 10);
    uint64_t named = directives == NULL ? 0 : (uint64_t)(directives - (end - object->size));
    const struct mutated_part parts[] = {
        {0, 20},
        {20, 40 * sections},
        {20, 40 * sections},
        {symbols, object->size - symbols},
        {symbols, object->size - symbols},
        {0, object->size},
        {named, directives == NULL ? object->size : 64},
    };
    return mutate_parts(object, parts, sizeof parts / sizeof *parts, seed, description);
}

START_TEST(test_damaged)
{
    char *directory = scratch_create("packed-coff"), *input = path_join(directory, "input");
    struct command reader = {.directory = directory};
    unsigned kept = 0, packed = 0;
    text_list_add_words(&reader.arguments, READER);
    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed++) {
        struct verdict verdict = {0};
        char *description = NULL;
        int exit_code = -1;
        struct contents object = damage(&damaged_objects[seed % DAMAGED], seed, &description);
        hostile_fork_most(seed);
        file_write(input, object.data, object.size);
        hostile_run(directory, "pack input", &exit_code, &verdict);
        verdict_assert(&verdict, description);
        struct contents result = file_read(input);
        if (contents_equal(&object, &result)) {
            kept++;
        } else {
            ck_assert_msg(exit_code == 0, "%s: changed, but an error", description);
            const char *names[] = {text_format("%lu.before", seed), text_format("%lu", seed)};
            const struct contents *pair[] = {&object, &result};
            for (size_t i = 0; i < 2; i++) {
                file_write(path_join(directory, names[i]), pair[i]->data, pair[i]->size);
                text_list_add(&reader.arguments, names[i]);
            }
            packed++;
        }
        contents_free(&object);
        contents_free(&result);
        free(description);
    }
    command_run_or_abort(&reader);
    hostile_assert_mixed(packed, kept);
    directory_remove(directory);
}
END_TEST

static int run_damaged(const char *first, const char *count)
{
    TCase *test_case = suite_case("damaged", 1500, prepare_damaged);
    hostile_in_memory();
    hostile_seeds(first, count);
    suite_loops(test_case, hostile_tests(), test_damaged);
    return suite_main("damaged COFF objects", test_case);
}

int main(int argument_count, char **arguments)
{
    if (argument_count == 4 && strcmp(arguments[1], "damaged") == 0) {
        return run_damaged(arguments[2], arguments[3]);
    }
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("programs", 600, NULL);
    size_t count = sizeof programs / sizeof *programs - (atoi(clang_version) < NEW_CLANG);
    suite_loops(test_case, count, test_program);
    wine_start();
    int status = suite_main(text_format("packed COFF objects, clang-%s", clang_version), test_case);
    wine_stop();
    return status;
}
