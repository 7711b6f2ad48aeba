/*
 * Mach-O images: what clang and ld64.lld make, split and joined, read by other tools, and run.
 *
 * Usage: macho CLANG ARCHITECTURE [--list]
 *        macho real      images that others have made, without coverage, from COVSPLIT_TEST_CACHE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"

#define IMAGE "image"
/* Of raw version 10. */
#define RAW_HEADER_SIZE 128
#define RAW_RECORD_SIZE 64
/* The tripwire for a UUID of 16 bytes, padded. */
#define TRIPWIRE_SIZE 96
#define STRIPPED      "stripped"
/* In a code directory. */
#define CODE_DIRECTORY_FLAGS_END 15
#define CS_ADHOC                 2
#define SIDECAR                  "image.covsplit"

static const char *clang_version;
static const char *architecture;

/* Records with the addresses of functions, which are fixups, but without value sites. */
#define INSTRUMENT_WITH_FIXUPS "-fprofile-generate -mllvm -disable-vp=true"

/* A bitmap before the counters. */
#define INSTRUMENT_WITH_BITMAP INSTRUMENT_COVERAGE " -fcoverage-mcdc"

/* So few that counters, data and names are on one page of arm64. */
#define SMALL_FUNCTIONS 30

static const struct cell {
    struct darwin_program program;
    const char *message; /* a part of what covsplit says; NULL: it says nothing */
} cells[] = {
    {{.kind = DARWIN_EXECUTABLE}, NULL},
    {{.kind = DARWIN_EXECUTABLE, .late_section = true}, NULL},
    {{.kind = DARWIN_EXECUTABLE, .opcodes = true, .late_section = true}, NULL},
    {{.kind = DARWIN_EXECUTABLE, .second_instrumentation = INSTRUMENT_WITH_FIXUPS}, NULL},
    {{.kind = DARWIN_EXECUTABLE,
      .opcodes = true,
      .late_section = true,
      .second_instrumentation = INSTRUMENT_WITH_FIXUPS},
     NULL},
    {{.kind = DARWIN_LIBRARY, .instrumentation = INSTRUMENT_WITH_FIXUPS, .late_section = true},
     "there is no empty segment __LLVM_COV"},
    {{.kind = DARWIN_LIBRARY, .language = LANGUAGE_CXX}, NULL},
    {{.kind = DARWIN_LIBRARY, .opcodes = true}, NULL},
    {{.kind = DARWIN_BUNDLE, .language = LANGUAGE_CXX, .opcodes = true, .late_section = true},
     NULL},
    {{.kind = DARWIN_EXECUTABLE,
      .functions = SMALL_FUNCTIONS,
      .early_fixup = true,
      .second_instrumentation = INSTRUMENT_WITH_FIXUPS},
     NULL},
    {{.kind = DARWIN_BUNDLE,
      .functions = SMALL_FUNCTIONS,
      .early_fixup = true,
      .opcodes = true,
      .second_instrumentation = INSTRUMENT_WITH_FIXUPS},
     NULL},
    {{.kind = DARWIN_EXECUTABLE, .link_options = "-no_uuid"}, NULL},
    {{.kind = DARWIN_LIBRARY, .language = LANGUAGE_CXX, .instrumentation = INSTRUMENT_WITH_BITMAP},
     NULL},
};

/* ---- what other tools say ---- */

/* Runs a tool of this LLVM version on a file; what it prints, or NULL where it finds anything
 * wrong. Never freed. */
static const char *dump(const char *directory, const char *tool, const char *options,
                        const char *file, struct verdict *verdict)
{
    struct command command =
        command_words(directory, "%s %s %s", versioned_tool(tool, clang_version), options, file);
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0) || outcome.errors_size != 0) {
        verdict_fail(verdict, "%.1500s", outcome_describe(&command, &outcome));
        return NULL;
    }
    return outcome.output;
}

/* The lines behind the first one, which has the file's name. */
static const char *body_of(const char *text)
{
    const char *newline = strchr(text, '\n');
    return newline == NULL ? text : newline + 1;
}

static bool same_dump(const char *directory, const char *tool, const char *options,
                      struct verdict *verdict)
{
    const char *before = dump(directory, tool, options, IMAGE, verdict);
    const char *after = dump(directory, tool, options, STRIPPED, verdict);
    if (before == NULL || after == NULL) {
        return false;
    }
    /* __DATA may have become two segments, of which the first has another name. */
    char *expected = text_format("%s", body_of(before));
    char *name = strstr(expected, "(__DATA,__la_symbol_ptr)");
    if (name != NULL && strstr(after, "(__LLVM_PRF,__la_symbol_ptr)") != NULL) {
        *name = '\0';
        expected = text_format("%s(__LLVM_PRF%s", expected, name + strlen("(__DATA"));
    }
    return strcmp(expected, body_of(after)) == 0 ||
           verdict_fail(verdict, "%s %s prints something else:\n%.700s\nand before\n%.700s", tool,
                        options, after, before);
}

/* Of each line about __DATA, or a part of it, what follows the segment: section and address. Those
 * in the data are left out. */
static const char *fixup_places(const char *table)
{
    char *places = calloc(strlen(table) + 1, 1);
    char *end = places;
    for (const char *line = table; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        char segment[32];
        char section[32];
        char address[32];
        line += *line == '\n';
        if (sscanf(line, "%31s %31s %31s", segment, section, address) == 3 &&
            (strcmp(segment, "__DATA") == 0 || strcmp(segment, "__LLVM_PRF") == 0) &&
            strcmp(section, "__llvm_prf_data") != 0) {
            end += sprintf(end, "%s %s\n", section, address);
        }
    }
    return places;
}

/* LLVM's tools see the fixups where they were. */
static bool same_fixups(const char *directory, struct verdict *verdict)
{
    static const char options[] = "--macho --rebase --bind --lazy-bind --weak-bind --dyld-info";
    const char *before = dump(directory, "llvm-objdump", options, IMAGE, verdict);
    const char *after = dump(directory, "llvm-objdump", options, STRIPPED, verdict);
    if (before == NULL || after == NULL) {
        return false;
    }
    return strcmp(fixup_places(before), fixup_places(after)) == 0 ||
           verdict_fail(verdict, "fixups at\n%.700s\nand before at\n%.700s", fixup_places(after),
                        fixup_places(before));
}

static bool check_readers(const char *directory, struct verdict *verdict)
{
    return dump(directory, "llvm-objdump",
                "--macho --all-headers --rebase --bind --lazy-bind --weak-bind --chained-fixups "
                "--function-starts --exports-trie --data-in-code --indirect-symbols",
                STRIPPED, verdict) != NULL &&
           dump(directory, "llvm-readobj", "--all", STRIPPED, verdict) != NULL &&
           dump(directory, "llvm-otool", "-l", STRIPPED, verdict) != NULL &&
           same_fixups(directory, verdict) &&
           same_dump(directory, "llvm-nm", "--format=just-symbols --no-sort", verdict) &&
           same_dump(directory, "llvm-objdump",
                     "--macho --function-starts --exports-trie --data-in-code --indirect-symbols",
                     verdict);
}

/* ---- fixups ---- */

static struct text_list fixups_of(const char *directory, const char *image)
{
    struct command command = darwin_loader_command(directory);
    text_list_add(&command.arguments, "fixups");
    text_list_add(&command.arguments, image);
    const char *text = command_run_or_abort(&command);
    return text_list_of_lines(text);
}

struct range {
    unsigned long long address;
    unsigned long long size;
};

/* Of a section of IMAGE, as objdump says it; it is asked once in each directory, of which a test
 * has one. */
static struct range section_range(const char *directory, const char *name)
{
    static const char *asked, *headers;
    struct range range = {0, 0};
    if (asked == NULL || strcmp(asked, directory) != 0) {
        headers = run_or_abort(directory, versioned_tool("llvm-objdump", clang_version), "-h",
                               IMAGE, NULL);
        asked = directory;
    }
    const char *line = strstr(headers, text_format(" %s ", name));
    if (line != NULL) {
        sscanf(line + 1 + strlen(name), "%llx %llx", &range.size, &range.address);
    }
    return range;
}

static bool is_inside(const char *fixup, struct range range)
{
    return strtoull(fixup, NULL, 16) - range.address < range.size;
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Every pointer that dyld sets is set as before, but for those in the data, which are gone. */
static bool check_fixups(const char *directory, size_t *removed, struct verdict *verdict)
{
    struct range data = section_range(directory, "__llvm_prf_data");
    struct text_list before = fixups_of(directory, IMAGE);
    struct text_list after = fixups_of(directory, STRIPPED);
    qsort(before.items, before.count, sizeof *before.items, compare_lines);
    qsort(after.items, after.count, sizeof *after.items, compare_lines);
    bool good = before.count != 0;
    size_t j = 0;
    *removed = 0;
    for (size_t i = 0; i < before.count && good; i++) {
        if (is_inside(before.items[i], data)) {
            ++*removed;
            continue;
        }
        good = j < after.count && strcmp(before.items[i], after.items[j]) == 0;
        if (!good) {
            verdict_fail(verdict, "the fixup %s has gone", before.items[i]);
        }
        j++;
    }
    if (good && j != after.count) {
        good = verdict_fail(verdict, "%zu fixups are new", after.count - j);
    }
    return good;
}

/* ---- memory ---- */

static struct contents memory_of(const char *directory, const char *image)
{
    struct command command = darwin_loader_command(directory);
    text_list_add_words(&command.arguments, text_format("memory %s memory", image));
    command_run_or_abort(&command);
    return file_read(path_join(directory, "memory"));
}

/* The tripwire of the names is in the memory of the data, too. */
static bool is_removed_at(uint64_t address, const struct range *removed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (address - removed[i].address < removed[i].size) {
            return true;
        }
    }
    return false;
}

/* All writable memory is as before, but for what was removed. llvm-strip makes it end with the last
 * section. */
static bool check_memory(const char *directory, const char *image, struct verdict *verdict)
{
    struct range removed[] = {
        section_range(directory, "__llvm_prf_data"), section_range(directory, "__llvm_prf_names"),
        section_range(directory, "__llvm_covmap"), section_range(directory, "__llvm_covfun")};
    struct contents before = memory_of(directory, IMAGE);
    struct contents after = memory_of(directory, image);
    uint64_t address;
    memcpy(&address, before.data, sizeof address);
    bool good = memcmp(before.data, after.data, sizeof address) == 0 ||
                verdict_fail(verdict, "%s has other writable memory", image);
    for (size_t i = sizeof address; i < before.size && good; i++) {
        uint64_t here = address + (i - sizeof address);
        good =
            before.data[i] == (i < after.size ? after.data[i] : 0) ||
            is_removed_at(here, removed, sizeof removed / sizeof *removed) ||
            verdict_fail(verdict, "%s has other memory at %llx", image, (unsigned long long)here);
    }
    contents_free(&before);
    contents_free(&after);
    return good;
}

/* ---- sizes ---- */

/* The bytes of zeros that a split takes out. */
static uint64_t zeros_size(const char *directory)
{
    struct command command = covsplit_command(directory, "show", "--json", IMAGE, NULL);
    const char *zeros = strstr(command_run_or_abort(&command), "\"zeros_size\": ");
    return zeros == NULL ? 0 : strtoull(strchr(zeros, ' '), NULL, 10);
}

/* All that was removed is gone from the file, but for the pages at both ends of the two runs. */
static bool check_size(const char *directory, struct verdict *verdict)
{
    static const char *const names[] = {"__llvm_covmap", "__llvm_covfun", "__llvm_prf_names",
                                        "__llvm_prf_data"};
    uint64_t allowance = 3 * (strcmp(architecture, "arm64") == 0 ? 16384 : 4096);
    uint64_t removed = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        removed += section_range(directory, names[i]).size;
    }
    uint64_t counters = section_range(directory, "__llvm_prf_cnts").size +
                        section_range(directory, "__llvm_prf_bits").size;
    uint64_t zeros = zeros_size(directory);
    /* Before the counters there may be a few bytes that align them. */
    if (zeros > counters + 8 || zeros + allowance / 3 < counters) {
        return verdict_fail(verdict, "%llu bytes of zeros go of %llu", (unsigned long long)zeros,
                            (unsigned long long)counters);
    }
    removed += counters;
    uint64_t before = file_size(path_join(directory, IMAGE));
    uint64_t after = file_size(path_join(directory, STRIPPED));
    return removed > allowance && after + removed <= before + allowance
               ? true
               : verdict_fail(verdict, "%llu of %llu bytes are left, %llu were removable",
                              (unsigned long long)after, (unsigned long long)before,
                              (unsigned long long)removed);
}

/* ---- running ---- */

/* The profile as text, whatever its form was. */
static const char *profile_text(const char *directory, const char *profile)
{
    const char *full = text_format("%s.full", profile);
    const char *merged = text_format("%s.profdata", profile);
    covsplit_assert(0, directory, "correlate", "--sidecar", SIDECAR, "-o", full, profile, NULL);
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge", full, "-o",
                 merged, NULL);
    return run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "show", "--text",
                        "--all-functions", "--counts", merged, NULL);
}

static const char *run_image(const char *directory, const char *image, const char *profile)
{
    struct command command = darwin_loader_command(directory);
    text_list_add(&command.arguments, "run");
    text_list_add(&command.arguments, image);
    text_list_add(&command.arguments, "_program_main");
    text_list_add(&command.arguments, "7");
    text_list_add(&command.arguments, profile);
    struct outcome outcome = command_expect(&command, 3);
    return outcome.output;
}

static bool check_run(const char *directory, const char *image, struct verdict *verdict)
{
    const char *before = run_image(directory, IMAGE, "before.profraw");
    const char *after = run_image(directory, image, "after.profraw");
    if (strcmp(before, after) != 0) {
        return verdict_fail(verdict, "%s printed\n%s\nand before\n%s", image, after, before);
    }
    uint64_t counters = section_range(directory, "__llvm_prf_cnts").size;
    uint64_t size = file_size(path_join(directory, "after.profraw"));
    if (size != RAW_HEADER_SIZE + RAW_RECORD_SIZE + counters + TRIPWIRE_SIZE) {
        return verdict_fail(verdict, "the profile of %s is no lightweight one: %llu bytes", image,
                            (unsigned long long)size);
    }
    return strcmp(profile_text(directory, "before.profraw"),
                  profile_text(directory, "after.profraw")) == 0 ||
           verdict_fail(verdict, "the profile of %s has other counts", image);
}

/* ---- reports ---- */

static const char *report_of(const char *directory, const char *object, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments, "report -arch");
    text_list_add(&command.arguments, architecture);
    text_list_add(&command.arguments, object);
    text_list_add_format(&command.arguments, "-instr-profile=%s", profile);
    return command_run_or_abort(&command);
}

/* The report that llvm-cov makes of the stripped image itself. */
static const char *report_by_run(const char *directory, const char *options, const char *profile)
{
    struct command command = covsplit_command(directory, "run", NULL);
    text_list_add_words(&command.arguments, options);
    text_list_add(&command.arguments, "--");
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments, "report -arch");
    text_list_add(&command.arguments, architecture);
    text_list_add(&command.arguments, STRIPPED);
    text_list_add_format(&command.arguments, "-instr-profile=%s", profile);
    return command_run_or_abort(&command);
}

/* llvm-cov makes of the exported object what it makes of the image: with the profile of the run, or
 * with one that says nothing of the program. */
static bool check_report(const char *directory, bool ran, struct verdict *verdict)
{
    const char *profile = "after.profraw.profdata";
    if (!ran) {
        profile = "empty.profdata";
        file_write_text(path_join(directory, "empty.proftext"), "nothing\n1\n1\n1\n");
        run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge",
                     "empty.proftext", "-o", profile, NULL);
    }
    if (!covsplit_expect(verdict, 0, NULL, directory, "export", "--sidecar", SIDECAR, "-o",
                         "object", NULL)) {
        return false;
    }
    const char *before = report_of(directory, IMAGE, profile);
    const char *after = report_of(directory, "object", profile);
    if (strstr(before, "TOTAL") == NULL || strcmp(before, after) != 0) {
        return verdict_fail(verdict, "another report:\n%.700s\nand before\n%.700s", after, before);
    }
    /* What is preloaded is no sanitized program's. */
    return covsplit_is_sanitized() ||
           strcmp(before, report_by_run(directory, "--sidecar " SIDECAR, profile)) == 0 ||
           verdict_fail(verdict, "another report by 'covsplit run'");
}

/* ---- the whole ---- */

static bool is_signed(const struct darwin_program *program)
{
    return strcmp(program->architecture, "arm64") == 0;
}

static bool check_signature(const char *directory, const char *image, struct verdict *verdict)
{
    struct command command = command_words(
        directory, "python3 %s %s",
        path_join(COVSPLIT_FIXTURE_DIRECTORY, "../support/check_signature.py"), image);
    struct outcome outcome = command_run(&command);
    bool good = outcome_exited(&outcome, 0) ||
                verdict_fail(verdict, "%s", outcome_describe(&command, &outcome));
    return good;
}

static bool check_join(const char *directory, struct verdict *verdict)
{
    const char *messages = "";
    if (!covsplit_expect(verdict, 0, NULL, directory, "join", "--sidecar", SIDECAR, "-o", "joined",
                         STRIPPED, NULL) ||
        !files_equal(path_join(directory, "joined"), path_join(directory, IMAGE), verdict) ||
        !covsplit_expect(verdict, 0, &messages, directory, "verify", "--image", STRIPPED, SIDECAR,
                         NULL)) {
        return false;
    }
    /* A second reader that does not understand the image would make it a warning. */
    return messages[0] == '\0' || verdict_fail(verdict, "%s", messages);
}

/* The same input gives the same bytes; what was split is passed on. */
static bool check_again(const char *directory, struct verdict *verdict)
{
    const char *errors = "";
    if (!covsplit_expect(verdict, 0, NULL, directory, "split", "-j1", "-o", "again", "--sidecar",
                         "again.covsplit", IMAGE, NULL) ||
        !files_equal(path_join(directory, "again"), path_join(directory, STRIPPED), verdict) ||
        !files_equal(path_join(directory, "again.covsplit"), path_join(directory, SIDECAR),
                     verdict) ||
        !covsplit_expect(verdict, 0, &errors, directory, "split", "again", NULL)) {
        return false;
    }
    return (strstr(errors, "split already") != NULL ||
            verdict_fail(verdict, "a stripped image was not known again: %s", errors)) &&
           files_equal(path_join(directory, "again"), path_join(directory, STRIPPED), verdict);
}

/* The image that llvm-strip leaves is as good. */
static bool check_strip(const struct darwin_program *program, const char *directory, bool runs,
                        struct verdict *verdict)
{
    run_or_abort(directory, versioned_tool("llvm-strip", clang_version), "-x", "-o", "after-strip",
                 STRIPPED, NULL);
    return (!is_signed(program) || check_signature(directory, "after-strip", verdict)) &&
           check_memory(directory, "after-strip", verdict) &&
           (!runs || check_run(directory, "after-strip", verdict));
}

static bool check_message(const struct cell *cell, const char *errors, struct verdict *verdict)
{
    bool good = cell->message == NULL ? errors[0] == '\0' : strstr(errors, cell->message) != NULL;
    return good || verdict_fail(verdict, "covsplit says: %.1000s", errors);
}

static bool can_run(const struct darwin_program *program)
{
    return strcmp(architecture, "x86_64") == 0 && program->language == LANGUAGE_C &&
           !program->early_fixup;
}

START_TEST(test_program)
{
    const struct cell *cell = &cells[_i];
    if (!rounds_have((unsigned)_i + (strcmp(architecture, "arm64") != 0), 2)) {
        return; /* architectures take turns */
    }
    struct darwin_program program = cell->program;
    struct verdict verdict = {0};
    const char *errors = "";
    char *directory = scratch_create("macho");
    program.clang = clang_version;
    program.architecture = architecture;
    darwin_program_build(&program, directory, IMAGE);
    bool runs = can_run(&program);
    bool has_fixups = program.second_instrumentation != NULL ||
                      (program.instrumentation != NULL &&
                       strcmp(program.instrumentation, INSTRUMENT_WITH_FIXUPS) == 0);
    size_t removed = 0;
    bool good =
        covsplit_expect(&verdict, 0, &errors, directory, "split", "-o", STRIPPED, "--sidecar",
                        SIDECAR, IMAGE, NULL) &&
        check_message(cell, errors, &verdict) && check_join(directory, &verdict) &&
        check_readers(directory, &verdict) && check_fixups(directory, &removed, &verdict) &&
        check_again(directory, &verdict) &&
        (cell->message != NULL || program.functions != 0 || check_size(directory, &verdict)) &&
        check_memory(directory, STRIPPED, &verdict) &&
        (!is_signed(&program) || (check_signature(directory, IMAGE, &verdict) &&
                                  check_signature(directory, STRIPPED, &verdict))) &&
        (!runs || check_run(directory, STRIPPED, &verdict)) &&
        (has_fixups || check_report(directory, runs, &verdict)) &&
        check_strip(&program, directory, runs, &verdict);
    verdict_assert(&verdict, darwin_program_describe(&program));
    ck_assert(good);
    ck_assert_msg((removed != 0) == has_fixups, "%zu fixups were removed", removed);
}
END_TEST

/* ---- signatures ---- */

/* Makes a certificate's of the ad-hoc signature, as far as covsplit looks: its code directory does
 * not say ad-hoc any more. */
static void unmark_signature(const char *path)
{
    struct contents image = file_read(path);
    size_t i = image.size - CODE_DIRECTORY_FLAGS_END;
    while (i-- > 0 && memcmp(image.data + i, "\xfa\xde\x0c\x02", 4) != 0) {
    }
    image.data[i + CODE_DIRECTORY_FLAGS_END] &= (uint8_t)~CS_ADHOC;
    file_write(path, image.data, image.size);
}

/* A certificate's signature is refused, or dropped where that is wanted. */
START_TEST(test_certificate)
{
    struct darwin_program program = {.clang = clang_version, .architecture = "arm64"};
    struct verdict verdict = {0};
    char *directory = scratch_create("macho");
    darwin_program_build(&program, directory, IMAGE);
    unmark_signature(path_join(directory, IMAGE));
    const char *errors =
        covsplit_assert(1, directory, "split", "-o", STRIPPED, "--sidecar", SIDECAR, IMAGE, NULL);
    ck_assert_msg(strstr(errors, "--drop-signature") != NULL, "%s", errors);
    ck_assert(!file_exists(path_join(directory, STRIPPED)));
    bool good = covsplit_expect(&verdict, 0, &errors, directory, "split", "--drop-signature", "-o",
                                STRIPPED, "--sidecar", SIDECAR, IMAGE, NULL) &&
                check_join(directory, &verdict) && check_readers(directory, &verdict);
    verdict_assert(&verdict, "with --drop-signature");
    ck_assert(good);
    const char *commands = dump(directory, "llvm-otool", "-l", STRIPPED, &verdict);
    ck_assert(commands != NULL && strstr(commands, "LC_CODE_SIGNATURE") == NULL);
}
END_TEST

/* ---- pointers of arm64e ---- */

/* DYLD_CHAINED_PTR_ARM64E, _USERLAND and _USERLAND24. No linker at hand makes them, so the chains
 * of an image for arm64 are written anew. */
static const char *const arm64e_formats[] = {"1", "9", "12"};

START_TEST(test_arm64e)
{
    struct darwin_program program = {.clang = clang_version,
                                     .architecture = "arm64",
                                     .late_section = true,
                                     .second_instrumentation = INSTRUMENT_WITH_FIXUPS};
    struct verdict verdict = {0};
    const char *errors = "";
    size_t removed = 0;
    char *directory = scratch_create("macho");
    darwin_program_build(&program, directory, "arm64");
    struct command command = darwin_loader_command(directory);
    text_list_add_words(&command.arguments, "arm64e arm64");
    text_list_add(&command.arguments, arm64e_formats[_i]);
    text_list_add(&command.arguments, IMAGE);
    command_run_or_abort(&command);
    bool good = covsplit_expect(&verdict, 0, &errors, directory, "split", "-o", STRIPPED,
                                "--sidecar", SIDECAR, IMAGE, NULL) &&
                check_join(directory, &verdict) && check_fixups(directory, &removed, &verdict) &&
                check_size(directory, &verdict) && check_memory(directory, STRIPPED, &verdict) &&
                check_signature(directory, STRIPPED, &verdict);
    verdict_assert(&verdict, text_format("pointer format %s", arm64e_formats[_i]));
    ck_assert(good);
    ck_assert_msg(errors[0] == '\0' && removed != 0, "%zu fixups were removed: %s", removed,
                  errors);
    struct text_list fixups = fixups_of(directory, STRIPPED);
    size_t authenticated = 0;
    for (size_t i = 0; i < fixups.count; i++) {
        authenticated += strstr(fixups.items[i], " authenticated by ") != NULL;
    }
    ck_assert_uint_ne(authenticated, 0);
}
END_TEST

/* ---- an adr of a page ---- */

/* Functions of three counters, of which clang loads the second and third by one ldp. */
#define LOOPS 172

/* ld64.lld makes adr and nop of adrp and add, and an adr of a counter at a multiple of 4 KiB forms
 * that address, not half of another one on that page, where the records begin. So many counters
 * come before the others that it is the second of a loop that is there. */
static const unsigned counters_before[] = {1, 4, 7, 10};

START_TEST(test_adr_of_page)
{
    struct darwin_program program = {.clang = clang_version,
                                     .architecture = "arm64",
                                     .functions = SMALL_FUNCTIONS,
                                     .link_options = "loops.o"};
    struct verdict verdict = {0};
    char *directory = scratch_create("macho"), *source = "";
    for (unsigned i = 0; i < counters_before[_i]; i++) {
        source = text_format("%sint one_%u(int x) { return x; }\n", source, i);
    }
    for (unsigned i = 0; i < LOOPS; i++) {
        source =
            text_format("%sint loop_%u(int x, int *p) { int s = 0; for (int i = 0; i < x; i++) "
                        "{ s += p[i]; if (p[i] > %u) s ^= 1; } return s; }\n",
                        source, i, i);
    }
    file_write_text(path_join(directory, "loops.c"), source);
    struct command compile =
        command_words(directory, "%s --target=arm64-apple-macos13 -O2 %s -c loops.c -o loops.o",
                      versioned_tool("clang", clang_version), INSTRUMENT_COVERAGE);
    command_run_or_abort(&compile);
    darwin_program_build(&program, directory, IMAGE);
    const char *errors =
        covsplit_assert(0, directory, "split", "-o", STRIPPED, "--sidecar", SIDECAR, IMAGE, NULL);
    ck_assert_msg(errors[0] == '\0', "%s", errors);
    bool good = check_join(directory, &verdict);
    verdict_assert(&verdict, "an adr of a page");
    ck_assert(good);
}
END_TEST

/* ---- universal images ---- */

static void build_universal(const char *directory)
{
    struct darwin_program program = {.clang = clang_version, .architecture = "arm64"};
    darwin_program_build(&program, directory, "arm64");
    program.architecture = "x86_64";
    program.opcodes = true;
    darwin_program_build(&program, directory, "x86_64");
    run_or_abort(directory, versioned_tool("llvm-lipo", clang_version), "-create", "arm64",
                 "x86_64", "-output", IMAGE, NULL);
}

/* The slice of the stripped universal image is what a split of the thin image makes. */
static bool check_slice(const char *directory, const char *name, struct verdict *verdict)
{
    const char *slice = text_format("%s.slice", name);
    const char *thin = text_format("%s.stripped", name);
    run_or_abort(directory, versioned_tool("llvm-lipo", clang_version), "-thin", name, STRIPPED,
                 "-output", slice, NULL);
    return covsplit_expect(verdict, 0, NULL, directory, "split", "-o", thin, "--sidecar",
                           text_format("%s.side", name), name, NULL) &&
           files_equal(path_join(directory, slice), path_join(directory, thin), verdict);
}

static bool check_universal_report(const char *directory, const char *name, struct verdict *verdict)
{
    file_write_text(path_join(directory, "empty.proftext"), "nothing\n1\n1\n1\n");
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge",
                 "empty.proftext", "-o", "empty.profdata", NULL);
    architecture = name;
    if (!covsplit_expect(verdict, 0, NULL, directory, "export", "--sidecar",
                         text_format("image.%s.covsplit", name), "-o", "object", NULL)) {
        return false;
    }
    const char *before = report_of(directory, IMAGE, "empty.profdata");
    return strcmp(before, report_of(directory, "object", "empty.profdata")) == 0 ||
           verdict_fail(verdict, "another report for %s", name);
}

/* What llvm-cov says of one slice, under `covsplit run` with the options. */
static bool check_universal_run(const char *directory, const char *name, const char *options,
                                struct verdict *verdict)
{
    architecture = name;
    return covsplit_is_sanitized() ||
           strcmp(report_of(directory, IMAGE, "empty.profdata"),
                  report_by_run(directory, options, "empty.profdata")) == 0 ||
           verdict_fail(verdict, "another report for %s by 'covsplit run %s'", name, options);
}

/* show and verify see the slices. */
static bool check_universal_tools(const char *directory, struct verdict *verdict)
{
    const char *messages = "";
    struct command show = covsplit_command(directory, "show", STRIPPED, NULL);
    struct outcome outcome = command_run(&show);
    bool good =
        (outcome_exited(&outcome, 0) && strstr(outcome.output, STRIPPED ".arm64\n") != NULL &&
         strstr(outcome.output, STRIPPED ".x86_64\n") != NULL &&
         text_count(outcome.output, "already split") == 2) ||
        verdict_fail(verdict, "%s", outcome_describe(&show, &outcome));
    if (!good || !covsplit_expect(verdict, 0, &messages, directory, "verify", "--image", STRIPPED,
                                  "image.arm64.covsplit", "image.x86_64.covsplit", NULL)) {
        return false;
    }
    if (messages[0] != '\0') {
        return verdict_fail(verdict, "%s", messages);
    }
    struct darwin_program other = {
        .clang = clang_version, .architecture = "arm64", .functions = SMALL_FUNCTIONS};
    char *place = path_join(directory, "other");
    directory_create(place);
    darwin_program_build(&other, place, IMAGE);
    return covsplit_expect(verdict, 0, NULL, place, "split", IMAGE, NULL) &&
           covsplit_expect(verdict, 1, &messages, directory, "verify", "--image", STRIPPED,
                           "other/" SIDECAR, NULL) &&
           (strstr(messages, "belongs to no slice") != NULL ||
            verdict_fail(verdict, "%s", messages));
}

static bool check_universal_join(const char *directory, const char *how, const char *from,
                                 struct verdict *verdict)
{
    return covsplit_expect(verdict, 0, NULL, directory, "join", how, from, "-o", "joined", STRIPPED,
                           NULL) &&
           files_equal(path_join(directory, "joined"), path_join(directory, IMAGE), verdict);
}

/* Among others it is found as well, and not passed over where its layout is not known. */
static bool check_universal_among_others(const char *directory, struct verdict *verdict)
{
    const char *messages = "";
    struct contents original = file_read(path_join(directory, IMAGE));
    char *longer = malloc(original.size + 1);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, original.data, original.size);
    longer[original.size] = 'x';
    directory_create(path_join(directory, "tree"));
    file_write(path_join(directory, "tree/" IMAGE), longer, original.size + 1);
    bool good = covsplit_expect(verdict, 1, &messages, directory, "split", "-r", "tree", NULL) &&
                (strstr(messages, "a layout that lipo does not make") != NULL ||
                 verdict_fail(verdict, "%s", messages));
    file_write(path_join(directory, "tree/" IMAGE), original.data, original.size);
    good =
        good && covsplit_expect(verdict, 0, NULL, directory, "split", "-r", "tree", NULL) &&
        files_equal(path_join(directory, "tree/" IMAGE), path_join(directory, STRIPPED), verdict);
    free(longer);
    contents_free(&original);
    return good;
}

START_TEST(test_universal)
{
    struct verdict verdict = {0};
    char *directory = scratch_create("macho");
    build_universal(directory);
    bool good =
        covsplit_expect(&verdict, 0, NULL, directory, "split", "-o", STRIPPED, IMAGE, NULL) &&
        check_slice(directory, "arm64", &verdict) && check_slice(directory, "x86_64", &verdict) &&
        check_universal_report(directory, "arm64", &verdict) &&
        check_universal_report(directory, "x86_64", &verdict) &&
        check_universal_among_others(directory, &verdict) &&
        check_universal_tools(directory, &verdict) &&
        check_universal_run(directory, "x86_64", "--sidecar image.x86_64.covsplit", &verdict) &&
        covsplit_expect(&verdict, 0, NULL, directory, "split", "--store", "store", "-o", STRIPPED,
                        IMAGE, NULL) &&
        check_universal_run(directory, "arm64", "--store store", &verdict) &&
        check_universal_run(directory, "x86_64", "--store store", &verdict) &&
        check_universal_join(directory, "--store", "store", &verdict) &&
        covsplit_expect(&verdict, 1, NULL, directory, "split", "--sidecar", "one", "-o", "none",
                        IMAGE, NULL) &&
        covsplit_expect(&verdict, 0, NULL, directory, "split", "--arch", "arm64", "--sidecar",
                        "one", "-o", STRIPPED, IMAGE, NULL) &&
        check_universal_join(directory, "--sidecar", "one", &verdict);
    verdict_assert(&verdict, "universal");
    ck_assert(good);
    ck_assert(!file_exists(path_join(directory, "none")));
    /* In place, and back. */
    file_copy(path_join(directory, IMAGE), path_join(directory, "original"));
    covsplit_run_words(directory, 0, "split " IMAGE);
    covsplit_run_words(directory, 0, "join -o " IMAGE " " IMAGE);
    files_assert_equal(path_join(directory, IMAGE), path_join(directory, "original"), "in place");
}
END_TEST

/* ---- images that others have made ---- */

static const char *const real_images[] = {
    "esbuild-darwin-arm64/bin/esbuild",
    "esbuild-darwin-x64/bin/esbuild",
    "biomejs-cli-darwin-arm64/biome",
};

START_TEST(test_real)
{
    char *directory = scratch_create("macho");
    const char *image = path_join(COVSPLIT_TEST_CACHE, real_images[_i]);
    const char *errors =
        covsplit_assert(0, directory, "split", "-o", STRIPPED, "--sidecar", SIDECAR, image, NULL);
    files_assert_equal(path_join(directory, STRIPPED), image, real_images[_i]);
    ck_assert_msg(strstr(errors, "nothing to take out") != NULL, "%s", errors);
}
END_TEST

static void list_cells(void)
{
    static const char *const kinds[] = {
        [DARWIN_EXECUTABLE] = "executable",
        [DARWIN_LIBRARY] = "shared",
        [DARWIN_BUNDLE] = "bundle",
    };
    bool is_arm = strcmp(architecture, "arm64") == 0;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        suite_list_row("Mach-O", is_arm ? "aarch64" : "x86-64",
                       can_run(&cells[i].program)
                           ? "run by a loader of our own, with a runtime of our own"
                           : "read by other tools",
                       "ld64.lld", clang_version, kinds[cells[i].program.kind]);
    }
}

int main(int argument_count, char **arguments)
{
    TCase *test_case = suite_case("images", 300, NULL);
    if (argument_count == 2 && strcmp(arguments[1], "real") == 0) {
        suite_loops(test_case, sizeof real_images / sizeof *real_images, test_real);
        return suite_main("real Mach-O images", test_case);
    }
    bool is_list = suite_is_list(&argument_count, arguments);
    suite_arguments(argument_count, arguments, "CLANG ARCHITECTURE", &clang_version, &architecture);
    if (is_list) {
        list_cells();
        return EXIT_SUCCESS;
    }
    suite_loops(test_case, sizeof cells / sizeof *cells, test_program);
    if (strcmp(architecture, "arm64") == 0) {
        tcase_add_test(test_case, test_certificate);
        suite_loops(test_case, sizeof arm64e_formats / sizeof *arm64e_formats, test_arm64e);
        suite_loops(test_case, sizeof counters_before / sizeof *counters_before, test_adr_of_page);
        tcase_add_test(test_case, test_universal);
    }
    return suite_main(text_format("macho clang-%s %s", clang_version, architecture), test_case);
}
