/*
 * COFF images: executables and DLLs, by clang with lld-link for three machines and with mingw-w64,
 * split and checked; those for x86-64 run under wine.
 *
 * Usage: coff CLANG [--list]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"
#include "tests/support/windows_image.h"

#define RUNS      3
#define EXIT_CODE 3

static const char *clang_version;

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

static const char *sidecar_of(const char *image)
{
    return text_format("%s.covsplit", image);
}

static const char *map_of(const struct cell *cell, const char *image)
{
    return path_join(cell->original, text_format("%s.map", image));
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
    const char *messages = "";
    if (!covsplit_expect(verdict, 0, NULL, cell->stripped, "join", "--sidecar", sidecar_of(image),
                         "-o", "joined", image, NULL) ||
        !covsplit_expect(verdict, 0, &messages, cell->stripped, "verify", "--image", image,
                         sidecar_of(image), NULL)) {
        return false;
    }
    /* A second reader that does not understand the image would make it a warning. */
    if (messages[0] != '\0') {
        return verdict_fail(verdict, "%s", messages);
    }
    return files_equal(path_join(cell->stripped, "joined"), path_join(cell->original, image),
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
    struct command command = command_words(cell->stripped, "%s %s %s",
                                           versioned_tool(tool, clang_version), option, image);
    struct outcome outcome = command_run(&command);
    bool fine = outcome_exited(&outcome, 0) && outcome.errors[0] == '\0';
    if (!fine) {
        verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
    }
    return fine;
}

/* ---- profiles and reports without a run ---- */

/* Runs a tool of LLVM, behind what the command has already; returns standard output. */
static const char *run_llvm(const struct cell *cell, struct command command, const char *tool,
                            const char *words)
{
    command.directory = cell->scratch;
    text_list_add(&command.arguments, versioned_tool(tool, clang_version));
    text_list_add_words(&command.arguments, words);
    return command_run_or_abort(&command);
}

/* What an independent reader sees of the base relocations, but for those in .lprfd, a line each. */
static const char *relocations_outside(const struct cell *cell, const struct pe_section *data,
                                       const char *path)
{
    const struct command plain = {0};
    const char *at =
        run_llvm(cell, plain, "llvm-readobj", text_format("--coff-basereloc %s", path));
    const char *kept = "";
    while ((at = strstr(at, "Type: ")) != NULL) {
        const char *type_end = strchr(at, '\n'), *address_text = strstr(at, "Address: ");
        ck_assert(type_end != NULL && address_text != NULL);
        unsigned long long address = strtoull(address_text + strlen("Address: "), NULL, 16);
        bool is_padding = strncmp(at, "Type: ABSOLUTE", strlen("Type: ABSOLUTE")) == 0;
        if (!is_padding && address - data->virtual_address >= data->virtual_size) {
            kept = text_format("%s%.*s 0x%llx\n", kept, (int)(type_end - at), at, address);
        }
        at = address_text;
    }
    return kept;
}

static bool check_relocations(const struct cell *cell, const char *image, struct verdict *verdict)
{
    struct pe_file original = pe_file_read(path_join(cell->original, image));
    struct pe_section part = windows_section(&original, map_of(cell, image), ".lprfd"),
                      *data = &part;
    const char *expected = relocations_outside(cell, data, text_format("original/%s", image));
    const char *found = relocations_outside(cell, data, text_format("stripped/%s", image));
    return (expected[0] != '\0' && strcmp(expected, found) == 0) ||
           verdict_fail(verdict, "%s has the relocations\n%.300sand not\n%.300s", image, found,
                        expected);
}

/* What the debug directory and the symbol table lead to, read independently. */
static bool check_symbols(const struct cell *cell, const char *image, struct verdict *verdict)
{
    const struct command plain = {0};
    bool has_symbols =
        !windows_target_is_msvc(cell->program.target) &&
        (cell->program.link_options == NULL || strstr(cell->program.link_options, "-s") == NULL);
    const char *options =
        has_symbols ? "--symbols --coff-debug-directory" : "--coff-debug-directory";
    const char *outputs[2];
    const char *const directories[] = {"original", "stripped"};
    for (size_t i = 0; i < 2; i++) {
        const char *output = run_llvm(cell, plain, "llvm-readobj",
                                      text_format("%s %s/%s", options, directories[i], image));
        struct text_list lines = text_list_of_lines(output);
        char *kept = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&kept, &size);
        ck_assert(file != NULL);
        for (size_t j = 0; j < lines.count; j++) {
            /* These are meant to change. */
            if (strstr(lines.items[j], "PointerToRawData") == NULL &&
                strstr(lines.items[j], "File: ") == NULL) {
                fprintf(file, "%s\n", lines.items[j]);
            }
        }
        ck_assert_int_eq(fclose(file), 0);
        text_list_free(&lines);
        outputs[i] = kept;
    }
    if (has_symbols && strstr(outputs[0], "__llvm_profile_end_names") == NULL) {
        return verdict_fail(verdict, "%s has no symbols", image);
    }
    return strcmp(outputs[0], outputs[1]) == 0 ||
           verdict_fail(verdict, "%s has other symbols, or another debug directory", image);
}

static bool same_report(const char *expected, const char *found, const char *how,
                        struct verdict *verdict)
{
    if (strstr(expected, "first") == NULL && strstr(expected, "second") == NULL) {
        return verdict_fail(verdict, "the report is empty: %s", expected);
    }
    return strcmp(expected, found) == 0 ||
           verdict_fail(verdict, "the report by %s differs:\n%s%s", how, expected, found);
}

/* What llvm-cov says of the unsplit image, of the exported object, and of the stripped image under
 * covsplit run. */
static bool check_reports(const struct cell *cell, const char *image, struct verdict *verdict)
{
    static const char *const reports[] = {"report", "export -format=lcov"};
    const char *sidecar = text_format("stripped/%s", sidecar_of(image));
    const struct command plain = {0};
    run_llvm(cell, plain, "llvm-profdata", "merge -o made.profdata made.profraw");
    if (!covsplit_expect(verdict, 0, NULL, cell->scratch, "export", "--sidecar", sidecar, "-o",
                         "object", NULL)) {
        return false;
    }
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const char *options = text_format("%s -instr-profile=made.profdata", reports[i]);
        struct command run = covsplit_command(NULL, "run", "--sidecar", sidecar, "--", NULL);
        const char *expected =
            run_llvm(cell, plain, "llvm-cov", text_format("%s original/%s", options, image));
        const char *object = run_llvm(cell, plain, "llvm-cov", text_format("%s object", options));
        const char *stripped =
            run_llvm(cell, run, "llvm-cov", text_format("%s stripped/%s", options, image));
        if (!same_report(expected, object, "export", verdict) ||
            !same_report(expected, stripped, "run", verdict)) {
            return false;
        }
    }
    return true;
}

/* What llvm-profdata makes of a correlated profile is what it makes of the unsplit image's. */
static bool same_indexed(const struct cell *cell, const char *found, const char *expected,
                         struct verdict *verdict)
{
    const struct command plain = {0};
    run_llvm(cell, plain, "llvm-profdata", text_format("merge -o found.profdata %s", found));
    run_llvm(cell, plain, "llvm-profdata", text_format("merge -o expected.profdata %s", expected));
    return files_equal(path_join(cell->scratch, "found.profdata"),
                       path_join(cell->scratch, "expected.profdata"), verdict);
}

static bool check_made_profile(const struct cell *cell, const char *image, struct verdict *verdict)
{
    struct pe_file original = pe_file_read(path_join(cell->original, image));
    struct pe_file stripped = pe_file_read(path_join(cell->stripped, image));
    windows_profile_write(&original, map_of(cell, image), false,
                          path_join(cell->scratch, "made.profraw"));
    windows_profile_write(&stripped, map_of(cell, image), true,
                          path_join(cell->scratch, "light.profraw"));
    return covsplit_expect(verdict, 0, NULL, cell->scratch, "correlate", "--store", cell->store,
                           "-o", "full.profraw", "light.profraw", NULL) &&
           same_indexed(cell, "full.profraw", "made.profraw", verdict) &&
           check_reports(cell, image, verdict);
}

/* ---- the runtime's functions, where they cannot be run ---- */

/* The instructions of a function of the stripped image, whose place the map file tells. */
static const char *disassemble(const struct cell *cell, const char *image, const char *function,
                               unsigned size)
{
    const struct command plain = {0};
    struct contents map = file_read(map_of(cell, image));
    const char *text = text_format("%.*s", (int)map.size, (const char *)map.data);
    const char *line = strstr(text, function);
    ck_assert_msg(line != NULL, "%s is not in the map file", function);
    unsigned long long address = strtoull(line + strlen(function), NULL, 16);
    const char *output =
        run_llvm(cell, plain, "llvm-objdump",
                 text_format("-d --no-show-raw-insn --no-leading-addr --start-address=%llu "
                             "--stop-address=%llu stripped/%s",
                             address, address + size, image));
    const char *start = strstr(output, ">:\n");
    ck_assert_msg(start != NULL, "%s", output);
    return start;
}

/* The low 12 bits of the address are what is looked at. */
static bool returns(const char *code, uint32_t low, bool arm)
{
    return strstr(code, arm ? text_format("add\tx0, x0, #0x%x\n", low)
                            : text_format("%03x, %%eax", low)) != NULL;
}

/* A tripwire behind a marker of one byte, and one record behind a marker of its size. */
static bool check_functions(const struct cell *cell, const char *image, struct verdict *verdict)
{
    bool arm = cell->program.target == WINDOWS_MSVC_ARM64;
    unsigned size = arm ? 12 : 6;
    const char *names = disassemble(cell, image, "__llvm_profile_end_names", size);
    const char *data = disassemble(cell, image, "__llvm_profile_end_data", size);
    struct pe_file original = pe_file_read(path_join(cell->original, image));
    struct pe_file stripped = pe_file_read(path_join(cell->stripped, image));
    struct pe_section section = windows_section(&original, map_of(cell, image), ".lprfd");
    uint32_t data_end = (section.virtual_address + 2 * windows_record_size(&original)) % 4096;
    uint32_t names_end = (pe_file_section(&stripped, ".lprfn")->virtual_address + 1 +
                          windows_tripwire_size(&stripped)) %
                         4096;
    if (!returns(names, names_end, arm)) {
        return verdict_fail(verdict, "names do not end behind the tripwire: %s", names);
    }
    return returns(data, data_end, arm) ||
           verdict_fail(verdict, "data does not end behind one record: %s", data);
}

static bool check_image(const struct cell *cell, const char *image, struct verdict *verdict)
{
    return split(cell, image, verdict) && check_join(cell, image, verdict) &&
           check_split_again(cell, image, verdict) &&
           windows_sizes_are_right(path_join(cell->original, image),
                                   path_join(cell->stripped, image), verdict) &&
           accepts(cell, "llvm-readobj", "--all", image, verdict) &&
           accepts(cell, "llvm-objdump", "-p", image, verdict) &&
           check_relocations(cell, image, verdict) && check_symbols(cell, image, verdict) &&
           check_made_profile(cell, image, verdict);
}

static bool can_run(const struct windows_program *program)
{
    return program->target != WINDOWS_MSVC_ARM64 && program->target != WINDOWS_MSVC_I686;
}

/* ---- runs ---- */

static bool check_run(const struct cell *cell, unsigned run, struct verdict *verdict)
{
    struct command original_command = wine_command(cell->original, 10 + run);
    struct command stripped_command = wine_command(cell->stripped, 10 + run);
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
    return fine;
}

static const char *module_of(const char *image)
{
    return strcmp(image, WINDOWS_LIBRARY) == 0 ? "second" : "program";
}

static const char *profile_of(const char *directory, unsigned run, const char *module)
{
    return path_join(directory, text_format("run%u-%s.profraw", 10 + run, module));
}

/* Header, stub, counters, tripwire, and nothing more. */
static bool check_size_of_profile(const char *path, struct verdict *verdict)
{
    struct raw_profile profile;
    bool fine = raw_profile_read(path, &profile, verdict);
    if (fine && (profile.record_count != 1 || profile.names.size > 128 ||
                 profile.binary_ids.size != 0 || raw_profile_total(&profile) == 0 ||
                 profile.file.size != profile.header_size + profile.record_size +
                                          profile.counters.size + profile.bitmap.size +
                                          (profile.names.size + 7) / 8 * 8 + profile.padding)) {
        fine = verdict_fail(verdict, "%s is not as small as it can be", path);
    }
    return fine;
}

/* The profiles of all runs, merged by covsplit with the store's sidecar and by llvm-profdata. */
static bool check_merged(const struct cell *cell, const char *module, struct verdict *verdict)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    struct command merge =
        covsplit_command(cell->scratch, "merge", "--store", cell->store, "--llvm-profdata",
                         profdata, "-o", "light.profdata", NULL);
    struct command expected = command_words(cell->scratch, "%s merge -o full.profdata", profdata);
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
            !same_indexed(cell, path_join(cell->stripped, "full.profraw"),
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

/* ---- after other tools ---- */

/* A run of the images that a tool made of the stripped ones counts the same: their sections of
 * zeros are still in memory. */
static bool check_strip(const struct cell *cell, const char *tool, unsigned run,
                        struct verdict *verdict)
{
    struct cell after = *cell;
    /* The program counts the characters of its path, so this name is as long as the others. */
    after.stripped = path_join(cell->scratch, "reworked");
    directory_create(after.stripped);
    for (size_t i = 0; i < cell->images.count; i++) {
        const char *image = cell->images.items[i];
        run_or_abort(cell->scratch, tool, "-o", path_join(after.stripped, image),
                     path_join(cell->stripped, image), NULL);
    }
    /* Another run than before: its profiles are added to those that exist. */
    bool fine = check_run(&after, run, verdict);
    for (size_t i = 0; i < cell->images.count && fine; i++) {
        const char *module = module_of(cell->images.items[i]);
        fine =
            covsplit_expect(verdict, 0, NULL, after.stripped, "correlate", "--store", cell->store,
                            "-o", "full.profraw", profile_of(after.stripped, run, module), NULL) &&
            same_indexed(cell, path_join(after.stripped, "full.profraw"),
                         profile_of(cell->original, run, module), verdict);
    }
    directory_remove(after.stripped);
    return fine || verdict_fail(verdict, "after %s", tool);
}

/* llvm-strip does not take the symbols of GNU ld, in unsplit images either. */
static bool check_strips(const struct cell *cell, struct verdict *verdict)
{
    return (cell->program.target == WINDOWS_MINGW_BFD ||
            check_strip(cell, versioned_tool("llvm-strip", clang_version), RUNS, verdict)) &&
           (windows_target_is_msvc(cell->program.target) ||
            check_strip(cell, "x86_64-w64-mingw32-strip", RUNS + 1, verdict));
}

/* ---- cells ---- */

/* As LLVM's own runtime for MSVC is linked: its records are a part of .data. */
#define MERGED               "-DPROFILE_MERGED"

#define SINGLE_BYTE_COUNTERS INSTRUMENT_COVERAGE " -mllvm -enable-single-byte-coverage"

static const struct windows_program programs[] = {
    {.target = WINDOWS_MSVC_X86_64, .language = LANGUAGE_C},
    {.target = WINDOWS_MSVC_X86_64,
     .language = LANGUAGE_CXX,
     .library = true,
     .link_options = "/debug /build-id /release"},
    {.target = WINDOWS_MSVC_X86_64,
     .language = LANGUAGE_C,
     .library = true,
     .instrumentation = INSTRUMENT_COVERAGE " -fcoverage-mcdc",
     .runtime_options = MERGED},
    {.target = WINDOWS_MSVC_ARM64,
     .language = LANGUAGE_C,
     .runtime_options = MERGED,
     .link_options = "/build-id:no"},
    {.target = WINDOWS_MSVC_ARM64,
     .language = LANGUAGE_CXX,
     .library = true,
     .link_options = "/debug /build-id"},
    {.target = WINDOWS_MSVC_I686, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MINGW_BFD, .language = LANGUAGE_C, .link_options = "-s"},
    {.target = WINDOWS_MINGW_BFD, .language = LANGUAGE_CXX, .library = true},
    {.target = WINDOWS_MSVC_X86_64,
     .language = LANGUAGE_C,
     .instrumentation = SINGLE_BYTE_COUNTERS,
     .runtime_options = MERGED},
    {.target = WINDOWS_MINGW_LLD,
     .language = LANGUAGE_C,
     .runtime_options = "-DPROFILE_REFERENCE",
     .link_options = "-s"},
    {.target = WINDOWS_MINGW_LLD, .language = LANGUAGE_C, .library = true},
    /* Where everything is asked for (suite.h): each two of their properties meet above as well. */
    {.target = WINDOWS_MSVC_X86_64, .language = LANGUAGE_C, .link_options = "/build-id:no"},
    {.target = WINDOWS_MSVC_I686,
     .language = LANGUAGE_C,
     .runtime_options = MERGED,
     .link_options = "/build-id:no"},
    {.target = WINDOWS_MSVC_ARM64, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MSVC_I686,
     .language = LANGUAGE_CXX,
     .library = true,
     .link_options = "/build-id"},
    {.target = WINDOWS_MINGW_BFD, .language = LANGUAGE_C, .library = true},
    {.target = WINDOWS_MINGW_LLD, .language = LANGUAGE_CXX, .library = true},
};

#define ALL_PROGRAMS   (sizeof programs / sizeof *programs)
#define DAILY_PROGRAMS (ALL_PROGRAMS - 6)

START_TEST(test_program)
{
    struct cell cell = cell_build(&programs[_i]);
    struct verdict verdict = {0};
    bool fine = true;
    for (size_t i = 0; fine && i < cell.images.count; i++) {
        fine = check_image(&cell, cell.images.items[i], &verdict) &&
               (can_run(&cell.program) || check_functions(&cell, cell.images.items[i], &verdict));
    }
    if (fine && can_run(&cell.program)) {
        fine = check_runs(&cell, &verdict) && check_strips(&cell, &verdict);
    }
    verdict_assert(&verdict, windows_program_describe(&cell.program));
    ck_assert(fine);
}
END_TEST

static void list_programs(void)
{
    for (size_t i = 0; i < ALL_PROGRAMS; i++) {
        suite_list_row("COFF", windows_target_processor(programs[i].target),
                       can_run(&programs[i]) ? "run by wine, with a runtime of our own"
                                             : "read by other tools",
                       windows_target_linker(programs[i].target), clang_version,
                       programs[i].library ? "shared" : "executable");
    }
}

int main(int argument_count, char **arguments)
{
    bool is_list = suite_is_list(&argument_count, arguments);
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    if (is_list) {
        list_programs();
        return EXIT_SUCCESS;
    }
    TCase *test_case = suite_case("programs", 600, NULL);
    suite_loops(test_case, rounds_are_all() ? ALL_PROGRAMS : DAILY_PROGRAMS, test_program);
    wine_start();
    int status = suite_main(text_format("coff clang-%s", clang_version), test_case);
    wine_stop();
    return status;
}
