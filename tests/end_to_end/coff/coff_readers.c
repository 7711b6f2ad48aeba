/*
 * What readers make of COFF images that were split, and of their profiles: without the sidecar an
 * error, whatever was left in the image, and with it what they make of the unsplit image.
 *
 * Usage: coff_readers CLANG...      versions; tests of others are left out
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"
#include "tests/support/windows_image.h"

#define FUNCTIONS       8
#define RUN             12
#define EXIT_CODE       3

#define MERGED_RUNTIME  "-DPROFILE_MERGED"
#define MERGED_COUNTERS "/debug /merge:.lprfc=.data"

static char **clangs;
static int clang_count;

/* Whether the tests use that version. */
static bool has_clang(const char *clang)
{
    for (int i = 0; i < clang_count; i++) {
        if (strcmp(clangs[i], clang) == 0) {
            return true;
        }
    }
    return false;
}

/* One program in "original" and in "stripped", with profiles of a run of each beside it. The names
 * are of one length, so that the programs have command lines of one length too. */
struct cell {
    const char *clang;
    char *scratch;
    char *original;
    char *stripped;
};

static const char *tool(const struct cell *cell, const char *name)
{
    return versioned_tool(name, cell->clang);
}

static void run_program(const char *directory)
{
    struct command command = wine_command(directory, RUN);
    command_expect(&command, EXIT_CODE);
}

/* Splits an image of the program into "stripped", with a sidecar of its name in the scratch
 * directory. Returns what covsplit said. */
static const char *split(const struct cell *cell, const char *image, const char *options)
{
    const char *words = text_format("split %s -o stripped/%s --sidecar %s.side original/%s",
                                    options, image, image, image);
    struct outcome outcome = covsplit_run_words(cell->scratch, 0, words);
    return text_format("%s", outcome.errors);
}

/* Builds the program and runs it. */
static struct cell cell_build(const struct windows_program *program)
{
    struct cell cell = {.clang = program->clang, .scratch = scratch_create("coff-readers")};
    cell.original = path_join(cell.scratch, "original");
    cell.stripped = path_join(cell.scratch, "stripped");
    directory_create(cell.original);
    directory_create(cell.stripped);
    windows_program_build(program, cell.original);
    run_program(cell.original);
    return cell;
}

/* Runs a command of these words in the scratch directory. Returns what it printed, errors too, and
 * whether it ended with that code. */
static bool ends_with(const struct cell *cell, int exit_code, const char *words, const char **said)
{
    struct command command = {.directory = cell->scratch};
    text_list_add_words(&command.arguments, words);
    struct outcome outcome = command_run(&command);
    bool as_expected = outcome_exited(&outcome, exit_code);
    *said = text_format("%s%s%s", as_expected ? "" : outcome_describe(&command, &outcome),
                        outcome.output, outcome.errors);
    return as_expected;
}

static const char *succeed(const struct cell *cell, const char *words)
{
    const char *said;
    bool done = ends_with(cell, 0, words, &said);
    ck_assert_msg(done, "%s", said);
    return said;
}

static void refuse(const struct cell *cell, const char *words, const char *reason)
{
    const char *said;
    bool refused = ends_with(cell, 1, words, &said);
    ck_assert_msg(refused && strstr(said, reason) != NULL, "clang %s: %s: %s", cell->clang, words,
                  said);
}

/* ---- with the sidecar ---- */

#define ORIGINAL_PROFILE "original/run12-program.profraw"
#define STRIPPED_PROFILE "stripped/run12-program.profraw"
#define SIDECAR          WINDOWS_PROGRAM ".side"

static void assert_same(const struct cell *cell, const char *found, const char *expected)
{
    files_assert_equal(path_join(cell->scratch, found), path_join(cell->scratch, expected), found);
}

/* Every way to the indexed profile and to the report leads to those of the unsplit image. */
static void assert_complete(const struct cell *cell)
{
    const char *profdata = tool(cell, "llvm-profdata"), *cov = tool(cell, "llvm-cov");
    const char *covsplit = covsplit_path();
    const char *run = text_format("%s run --sidecar " SIDECAR " --", covsplit);
    succeed(cell, text_format("%s merge -o full.profdata " ORIGINAL_PROFILE, profdata));
    succeed(cell, text_format("%s %s merge -o run.profdata " STRIPPED_PROFILE, run, profdata));
    assert_same(cell, "run.profdata", "full.profdata");
    succeed(cell, text_format("%s merge --sidecar " SIDECAR
                              " --llvm-profdata %s -o own.profdata " STRIPPED_PROFILE,
                              covsplit, profdata));
    assert_same(cell, "own.profdata", "full.profdata");
    succeed(cell, text_format("%s correlate --sidecar " SIDECAR " -o out.profraw " STRIPPED_PROFILE,
                              covsplit));
    succeed(cell, text_format("%s merge -o correlated.profdata out.profraw", profdata));
    assert_same(cell, "correlated.profdata", "full.profdata");
    const char *report = "export -format=lcov -instr-profile=full.profdata";
    const char *expected =
        succeed(cell, text_format("%s %s original/" WINDOWS_PROGRAM, cov, report));
    ck_assert(strstr(expected, "FNDA:0") != NULL);
    ck_assert_str_eq(
        succeed(cell, text_format("%s %s %s stripped/" WINDOWS_PROGRAM, run, cov, report)),
        expected);
}

/* ---- without it ---- */

/* No reader takes the profile, alone or beside a full one. */
static void assert_profile_refused(const struct cell *cell)
{
    static const char *const words[] = {
        "merge -o none.profdata " STRIPPED_PROFILE,
        "merge -o none.profdata " ORIGINAL_PROFILE " " STRIPPED_PROFILE, "show " STRIPPED_PROFILE};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        refuse(cell, text_format("%s %s", tool(cell, "llvm-profdata"), words[i]), "uncompress");
    }
}

/* No reader takes the image, alone or beside the unsplit one. Reports take turns, from `turn` on.
 */
static void assert_image_refused(const struct cell *cell, int turn)
{
    static const char *const reports[] = {"report", "export", "show"};
    const char *cov = tool(cell, "llvm-cov");
    succeed(cell, text_format("%s merge -o full.profdata " ORIGINAL_PROFILE,
                              tool(cell, "llvm-profdata")));
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        if (!rounds_have((unsigned)turn + (unsigned)i, sizeof reports / sizeof *reports)) {
            continue;
        }
        const char *words = text_format("%s %s -instr-profile=full.profdata stripped/%s", cov,
                                        reports[i], WINDOWS_PROGRAM);
        refuse(cell, words, "oad coverage");
        refuse(cell, text_format("%s -object original/" WINDOWS_PROGRAM, words), "oad coverage");
        words = text_format("%s %s -instr-profile=full.profdata original/%s", cov, reports[i],
                            WINDOWS_PROGRAM);
        refuse(cell, text_format("%s -object stripped/" WINDOWS_PROGRAM, words), "oad coverage");
    }
}

/* ---- what was removed ---- */

/* All, and what leaves the records, as with value profiling, in profiles too; then such as leave no
 * more than some of the mapping or the names for llvm-cov to find. */
static const char *const selections[] = {"", "--sections covmap,covfun,names", "--sections names",
                                         "--sections covmap"};

#define RUN_SELECTIONS 2

#define SELECTIONS     ((int)(sizeof selections / sizeof *selections))

static struct windows_program merged_program(const char *clang)
{
    return (struct windows_program){.clang = clang,
                                    .target = WINDOWS_MSVC_X86_64,
                                    .runtime_options = MERGED_RUNTIME,
                                    .functions = FUNCTIONS};
}

/* With symbols, as /debug:symtab puts them in, no header of a section can go. */
START_TEST(test_readers)
{
    struct windows_program program = merged_program(clangs[_i]);
    program.link_options = atoi(program.clang) < 19 ? NULL : "/debug:symtab /build-id";
    struct cell cell = cell_build(&program);
    for (int i = 0; i < SELECTIONS; i++) {
        ck_assert_str_eq(split(&cell, WINDOWS_PROGRAM, selections[i]), "");
        assert_image_refused(&cell, i + _i);
        if (i < RUN_SELECTIONS) {
            run_program(cell.stripped);
            assert_profile_refused(&cell);
            assert_complete(&cell);
        }
    }
}
END_TEST

/* Without a GUID, profiles tell their image by the tripwire, and the image itself by it too. */
START_TEST(test_digest)
{
    if (!has_clang("22")) {
        return;
    }
    struct windows_program program = merged_program("22");
    program.link_options = "/build-id:no";
    struct cell cell = cell_build(&program);
    succeed(&cell, text_format("%s split -o stripped/%s --store store original/%s", covsplit_path(),
                               WINDOWS_PROGRAM, WINDOWS_PROGRAM));
    run_program(cell.stripped);
    assert_profile_refused(&cell);
    succeed(&cell, text_format("%s merge -o full.profdata " ORIGINAL_PROFILE, "llvm-profdata-22"));
    succeed(&cell, text_format("%s merge --store store --llvm-profdata llvm-profdata-22 -o "
                               "own.profdata " STRIPPED_PROFILE,
                               covsplit_path()));
    assert_same(&cell, "own.profdata", "full.profdata");
    const char *cov = "llvm-cov-22 report -instr-profile=full.profdata";
    ck_assert_str_eq(succeed(&cell, text_format("%s run --store store -- %s stripped/%s",
                                                covsplit_path(), cov, WINDOWS_PROGRAM)),
                     succeed(&cell, text_format("%s original/%s", cov, WINDOWS_PROGRAM)));
}
END_TEST

/* ---- %m ---- */

/* By which the runtime tells the images of a process apart (lprofGetLoadModuleSignature), but for
 * what no split changes. */
static uint64_t signature(const char *path)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    uint64_t name_ref = 0, sum;
    raw_profile_read(path, &profile, &verdict);
    verdict_assert(&verdict, path);
    memcpy(&name_ref, profile.data.data, sizeof name_ref);
    sum = (profile.names.size << 40) + ((profile.counters.size / profile.counter_size) << 30) +
          (profile.record_count << 20) + name_ref;
    return sum;
}

/* A program and its DLL: where records stay and names go, each has a sum of its own. */
START_TEST(test_signature)
{
    static const char *const modules[] = {"program", "second"};
    if (!has_clang("22")) {
        return;
    }
    struct windows_program program = merged_program("22");
    program.library = true;
    struct cell cell = cell_build(&program);
    uint64_t found[2];
    split(&cell, WINDOWS_PROGRAM, "--sections covmap,covfun,names");
    split(&cell, WINDOWS_LIBRARY, "--sections covmap,covfun,names");
    run_program(cell.stripped);
    for (size_t i = 0; i < 2; i++) {
        const char *name = text_format("run%d-%s.profraw", RUN, modules[i]);
        found[i] = signature(path_join(cell.stripped, name));
        ck_assert_uint_ne(found[i], signature(path_join(cell.original, name)));
    }
    ck_assert_uint_ne(found[0], found[1]);
}
END_TEST

/* ---- what stays ---- */

/* Up to LLVM 17 no header tells where the counters are, and names stay, whatever tells the
 * functions; so it is where a later runtime is linked that way. */
static const struct {
    const char *clang;
    const char *link_options;
    const char *options;
} merged_counters[] = {
    {"14", MERGED_COUNTERS, ""},
    {"14", MERGED_COUNTERS, "--map original/" WINDOWS_PROGRAM ".map"},
    {"16", MERGED_COUNTERS, "--map original/" WINDOWS_PROGRAM ".map"},
    {"19", MERGED_COUNTERS " /debug:symtab /build-id", ""},
};

START_TEST(test_merged_counters)
{
    if (!has_clang(merged_counters[_i].clang)) {
        return;
    }
    struct windows_program program = merged_program(merged_counters[_i].clang);
    program.link_options = merged_counters[_i].link_options;
    struct cell cell = cell_build(&program);
    const char *messages = split(&cell, WINDOWS_PROGRAM, merged_counters[_i].options);
    ck_assert_msg(strstr(messages, ".lprfn stays") != NULL, "%s", messages);
    run_program(cell.stripped);
    assert_image_refused(&cell, _i);
    assert_complete(&cell);
}
END_TEST

/* Records of binary correlation are in the image alone: under run it is the whole one. */
START_TEST(test_binary_correlation)
{
    const char *clang = _i == 0 ? "19" : "22";
    if (!has_clang(clang)) {
        return;
    }
    struct windows_program program = merged_program(clang);
    program.instrumentation = INSTRUMENT_COVERAGE " -mllvm -profile-correlate=binary";
    program.runtime_options = NULL;
    struct cell cell = cell_build(&program);
    const char *profdata = tool(&cell, "llvm-profdata");
    split(&cell, WINDOWS_PROGRAM, "");
    run_program(cell.stripped);
    succeed(&cell, text_format("%s merge --binary-file=original/" WINDOWS_PROGRAM
                               " -o full.profdata " ORIGINAL_PROFILE,
                               profdata));
    succeed(&cell, text_format("%s run --sidecar " SIDECAR
                               " -- %s merge --binary-file=stripped/" WINDOWS_PROGRAM
                               " -o run.profdata " STRIPPED_PROFILE,
                               covsplit_path(), profdata));
    assert_same(&cell, "run.profdata", "full.profdata");
    const char *merge = text_format("%s merge -o own.profdata %s", covsplit_path(),
                                    STRIPPED_PROFILE " --llvm-profdata");
    refuse(&cell, text_format("%s %s --store .", merge, profdata), "--binary-file=IMAGE");
    refuse(&cell, text_format("%s %s --sidecar " SIDECAR, merge, profdata), "--binary-file=IMAGE");
}
END_TEST

int main(int argument_count, char **arguments)
{
    if (argument_count < 2) {
        return suite_usage(arguments[0], "CLANG...");
    }
    clangs = arguments + 1;
    clang_count = argument_count - 1;
    TCase *test_case = suite_case("readers", 300, NULL);
    suite_loops(test_case, clang_count, test_readers);
    suite_tests(test_case, test_digest, test_signature);
    suite_loops(test_case, sizeof merged_counters / sizeof *merged_counters, test_merged_counters);
    suite_loops(test_case, 2, test_binary_correlation);
    wine_start();
    int status = suite_main("readers of COFF images", test_case);
    wine_stop();
    return status;
}
