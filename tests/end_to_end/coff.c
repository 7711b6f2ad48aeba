/*
 * COFF images: executables and DLLs, by clang with lld-link for three machines and with mingw-w64,
 * split and checked; those for x86-64 run under wine.
 *
 * Usage: coff CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/pe_file.h"
#include "tests/support/raw_profile.h"
#include "tests/support/suite.h"
#include "tests/support/windows_program.h"

#define CELL_TIMEOUT_SECONDS 600
#define RUNS                 3
#define EXIT_CODE            3

static const char *clang_version;
static char *wine_prefix;

/* One program before and after the split, each with its DLL, and the store of its sidecars. */
struct cell {
    struct windows_program program;
    char *scratch;
    char *original; /* directories */
    char *stripped;
    char *store;
    struct text_list images;
};

static struct cell cell_build(const struct windows_program *program)
{
    struct cell cell = {.program = *program, .scratch = scratch_create("coff")};
    cell.program.clang = clang_version;
    cell.original = path_join(cell.scratch, "original");
    cell.stripped = path_join(cell.scratch, "stripped");
    cell.store = path_join(cell.scratch, "store");
    directory_create(cell.original);
    directory_create(cell.stripped);
    text_list_add(&cell.images, WINDOWS_PROGRAM);
    if (program->library) {
        text_list_add(&cell.images, WINDOWS_LIBRARY);
    }
    windows_program_build(&cell.program, cell.original);
    return cell;
}

static void cell_remove(struct cell *cell)
{
    scratch_remove(cell->scratch);
}

static const char *sidecar_of(const char *image)
{
    return text_format("%s.covsplit", image);
}

/* ---- splitting ---- */

static bool split(const struct cell *cell, const char *image, struct verdict *verdict)
{
    const char *from = path_join(cell->original, image), *messages = "";
    if (!covsplit_expect(verdict, 0, &messages, cell->stripped, "split", "-o", image, "--sidecar",
                         sidecar_of(image), from, NULL) ||
        !covsplit_expect(verdict, 0, NULL, cell->stripped, "split", "-o", "again", "--store",
                         cell->store, from, NULL)) {
        return false;
    }
    if (messages[0] != '\0') {
        return verdict_fail(verdict, "%s: %s", image, messages);
    }
    return files_equal(path_join(cell->stripped, image), path_join(cell->stripped, "again"),
                       verdict);
}

static bool check_join(const struct cell *cell, const char *image, struct verdict *verdict)
{
    return covsplit_expect(verdict, 0, NULL, cell->stripped, "join", "--sidecar", sidecar_of(image),
                           "-o", "joined", image, NULL) &&
           covsplit_expect(verdict, 0, NULL, cell->stripped, "verify", "--image", image,
                           sidecar_of(image), NULL) &&
           files_equal(path_join(cell->stripped, "joined"), path_join(cell->original, image),
                       verdict);
}

/* Splitting a stripped image passes it on. */
static bool check_split_again(const struct cell *cell, const char *image, struct verdict *verdict)
{
    const char *messages = "";
    if (!covsplit_expect(verdict, 0, &messages, cell->stripped, "split", "-o", "again", "--sidecar",
                         sidecar_of(image), image, NULL)) {
        return false;
    }
    if (strstr(messages, "split already") == NULL) {
        return verdict_fail(verdict, "%s is not known to be split: %s", image, messages);
    }
    return files_equal(path_join(cell->stripped, "again"), path_join(cell->stripped, image),
                       verdict);
}

/* ---- the stripped image as others see it ---- */

static bool accepts(const struct cell *cell, const char *tool, const char *option,
                    const char *image, struct verdict *verdict)
{
    struct command command = {.directory = cell->stripped};
    text_list_add(&command.arguments, versioned_tool(tool, clang_version));
    text_list_add(&command.arguments, option);
    text_list_add(&command.arguments, image);
    struct outcome outcome = command_run(&command);
    bool fine = outcome_exited(&outcome, 0) && outcome.errors[0] == '\0';
    if (!fine) {
        verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
    }
    outcome_free(&outcome);
    command_free(&command);
    return fine;
}

static const char *const removed_sections[] = {".lcovmap", ".lcovfun", ".lprfn", ".lprfd"};

#define REMOVED_COUNT (sizeof removed_sections / sizeof *removed_sections)

/* What is left of a removed section: nothing, or a block with the stub. */
static bool check_section(const struct pe_file *stripped, const struct pe_section *original,
                          struct verdict *verdict)
{
    const struct pe_section *left = pe_file_section(stripped, original->name);
    uint32_t most = strcmp(original->name, ".lprfd") == 0 ? stripped->file_alignment : 0;
    if (left != NULL && (left->raw_size > most || left->virtual_size != original->virtual_size ||
                         left->virtual_address != original->virtual_address)) {
        return verdict_fail(verdict, "%s is still there, or is another", original->name);
    }
    return true;
}

/* The stripped file is the original minus what was removed, and has a right checksum. */
static bool check_sizes(const struct cell *cell, const char *image, struct verdict *verdict)
{
    struct pe_file original = pe_file_read(path_join(cell->original, image));
    struct pe_file stripped = pe_file_read(path_join(cell->stripped, image));
    uint64_t removed = 0, difference = original.file.size - stripped.file.size;
    bool fine = true;
    for (size_t i = 0; i < REMOVED_COUNT; i++) {
        const struct pe_section *section = pe_file_section(&original, removed_sections[i]);
        if (section == NULL) {
            fine = verdict_fail(verdict, "%s has no %s", image, removed_sections[i]);
            break;
        }
        removed += section->raw_size;
        fine = fine && check_section(&stripped, section, verdict);
    }
    if (fine && (difference > removed ||
                 removed - difference > REMOVED_COUNT * (uint64_t)original.file_alignment)) {
        fine = verdict_fail(verdict, "%s shrank by %llu bytes, not by %llu", image,
                            (unsigned long long)difference, (unsigned long long)removed);
    }
    if (fine &&
        stripped.check_sum != (original.check_sum != 0 ? pe_file_check_sum(&stripped) : 0)) {
        fine = verdict_fail(verdict, "%s has the checksum 0x%x", image, stripped.check_sum);
    }
    pe_file_free(&original);
    pe_file_free(&stripped);
    return fine;
}

static bool check_image(const struct cell *cell, const char *image, struct verdict *verdict)
{
    return split(cell, image, verdict) && check_join(cell, image, verdict) &&
           check_split_again(cell, image, verdict) && check_sizes(cell, image, verdict) &&
           accepts(cell, "llvm-readobj", "--all", image, verdict) &&
           accepts(cell, "llvm-objdump", "-p", image, verdict);
}

/* ---- runs ---- */

static struct command wine_command(const char *directory, unsigned run)
{
    struct command command = {.directory = directory};
    text_list_add_words(&command.arguments, "wine " WINDOWS_PROGRAM);
    text_list_add_format(&command.arguments, "%u", 10 + run);
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=run%u", run);
    return command;
}

static bool check_run(const struct cell *cell, unsigned run, struct verdict *verdict)
{
    struct command original_command = wine_command(cell->original, run);
    struct command stripped_command = wine_command(cell->stripped, run);
    struct outcome original = command_run(&original_command);
    struct outcome stripped = command_run(&stripped_command);
    bool fine = true;
    if (!outcome_exited(&original, EXIT_CODE) || original.output_size == 0) {
        fine = verdict_fail(verdict, "%s", outcome_describe(&original_command, &original));
    } else if (!outcome_exited(&stripped, EXIT_CODE) ||
               strcmp(original.output, stripped.output) != 0) {
        fine = verdict_fail(verdict, "unlike the original: %s",
                            outcome_describe(&stripped_command, &stripped));
    }
    outcome_free(&original);
    outcome_free(&stripped);
    command_free(&original_command);
    command_free(&stripped_command);
    return fine;
}

static const char *module_of(const char *image)
{
    return strcmp(image, WINDOWS_LIBRARY) == 0 ? "second" : "program";
}

static const char *profile_of(const char *directory, unsigned run, const char *module)
{
    return path_join(directory, text_format("run%u-%s.profraw", run, module));
}

/* Header, stub, counters, and nothing more. */
static bool check_size_of_profile(const char *path, struct verdict *verdict)
{
    struct raw_profile profile;
    bool fine = raw_profile_read(path, &profile, verdict);
    if (fine &&
        (profile.record_count != 1 || profile.names.size != 0 || profile.binary_ids.size != 0 ||
         raw_profile_total(&profile) == 0 ||
         profile.file.size != profile.header_size + profile.record_size + profile.counters.size +
                                  profile.bitmap.size + profile.padding)) {
        fine = verdict_fail(verdict, "%s is not as small as it can be", path);
    }
    raw_profile_free(&profile);
    return fine;
}

/* The profiles of all runs, merged by covsplit with the store's sidecar and by llvm-profdata. */
static bool check_merged(const struct cell *cell, const char *module, struct verdict *verdict)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    struct command merge =
        covsplit_command(cell->scratch, "merge", "--store", cell->store, "--llvm-profdata",
                         profdata, "-o", "light.profdata", NULL);
    struct command expected = {.directory = cell->scratch};
    text_list_add(&expected.arguments, profdata);
    text_list_add_words(&expected.arguments, "merge -o full.profdata");
    for (unsigned run = 0; run < RUNS; run++) {
        text_list_add(&merge.arguments, profile_of(cell->stripped, run, module));
        text_list_add(&expected.arguments, profile_of(cell->original, run, module));
    }
    command_run_or_abort(&expected);
    struct outcome outcome = command_run(&merge);
    bool fine = outcome_exited(&outcome, 0);
    if (!fine) {
        verdict_fail(verdict, "%s", outcome_describe(&merge, &outcome));
    }
    outcome_free(&outcome);
    command_free(&expected);
    command_free(&merge);
    return fine && files_equal(path_join(cell->scratch, "light.profdata"),
                               path_join(cell->scratch, "full.profdata"), verdict);
}

static bool check_profiles(const struct cell *cell, const char *image, struct verdict *verdict)
{
    const char *module = module_of(image);
    for (unsigned run = 0; run < RUNS; run++) {
        const char *light = profile_of(cell->stripped, run, module);
        if (!check_size_of_profile(light, verdict) ||
            !covsplit_expect(verdict, 0, NULL, cell->stripped, "correlate", "--store", cell->store,
                             "-o", "full.profraw", light, NULL) ||
            !files_equal(path_join(cell->stripped, "full.profraw"),
                         profile_of(cell->original, run, module), verdict)) {
            return false;
        }
    }
    return check_merged(cell, module, verdict);
}

static bool check_runs(const struct cell *cell, struct verdict *verdict)
{
    for (unsigned run = 0; run < RUNS; run++) {
        if (!check_run(cell, run, verdict)) {
            return false;
        }
    }
    for (size_t i = 0; i < cell->images.count; i++) {
        if (!check_profiles(cell, cell->images.items[i], verdict)) {
            return false;
        }
    }
    return true;
}

/* ---- cells ---- */

/* No C++ by GNU ld: it does not link what clang makes of inline functions. */
static const struct windows_program programs[] = {
    {.target = WINDOWS_MSVC_X86_64, .language = LANGUAGE_C},
    {.target = WINDOWS_MSVC_X86_64,
     .language = LANGUAGE_CXX,
     .library = true,
     .link_options = "/debug /build-id /release"},
    {.target = WINDOWS_MSVC_X86_64, .language = LANGUAGE_C, .link_options = "/build-id:no"},
    {.target = WINDOWS_MSVC_ARM64, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MSVC_ARM64, .language = LANGUAGE_CXX, .link_options = "/build-id"},
    {.target = WINDOWS_MSVC_I686, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MSVC_I686, .language = LANGUAGE_CXX, .link_options = "/build-id"},
    {.target = WINDOWS_MINGW_BFD, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MINGW_BFD, .language = LANGUAGE_C, .link_options = "-s"},
    {.target = WINDOWS_MINGW_LLD, .language = LANGUAGE_C},
    {.target = WINDOWS_MINGW_LLD, .language = LANGUAGE_CXX, .library = true},
};

START_TEST(test_program)
{
    struct cell cell = cell_build(&programs[_i]);
    bool runs =
        cell.program.target != WINDOWS_MSVC_ARM64 && cell.program.target != WINDOWS_MSVC_I686;
    struct verdict verdict = {0};
    bool fine = true;
    for (size_t i = 0; fine && i < cell.images.count; i++) {
        fine = check_image(&cell, cell.images.items[i], &verdict);
    }
    if (fine && runs) {
        check_runs(&cell, &verdict);
    }
    verdict_assert(&verdict, windows_program_describe(&cell.program));
    cell_remove(&cell);
}
END_TEST

/* Wine sets up its directory once, which takes seconds. */
static void start_wine(void)
{
    wine_prefix = scratch_create("wine");
    struct command command = {0};
    text_list_add_words(&command.arguments, "wine wineboot --init");
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0)) {
        fprintf(stderr, "%s\n", outcome_describe(&command, &outcome));
    }
    outcome_free(&outcome);
    command_free(&command);
}

/* Its server would stay for a few seconds, and keep the directory busy. */
static void stop_wine(void)
{
    struct command command = {0};
    text_list_add_words(&command.arguments, "wineserver --kill --wait");
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    struct outcome outcome = command_run(&command);
    outcome_free(&outcome);
    command_free(&command);
    scratch_remove(wine_prefix);
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 2) {
        fprintf(stderr, "usage: %s CLANG\n", arguments[0]);
        return EXIT_FAILURE;
    }
    clang_version = arguments[1];
    Suite *suite = suite_create(text_format("coff clang-%s", clang_version));
    TCase *test_case = suite_add_case(suite, "programs", CELL_TIMEOUT_SECONDS);
    tcase_add_loop_test(test_case, test_program, 0, sizeof programs / sizeof *programs);
    start_wine();
    int status = suite_run(suite);
    stop_wine();
    return status;
}
