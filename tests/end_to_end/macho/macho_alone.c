/*
 * Stripped Mach-O images and their profiles without the sidecar: every tool that reads them fails,
 * with status 1, and says why. With the sidecar everything is as if nothing had been split.
 *
 * Usage: macho_alone CLANG READER...   READER is a version of llvm-profdata and llvm-cov
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/raw_profile.h"

#define IMAGE           "image"
#define STRIPPED        "stripped"
#define OTHER           "other-%s"
#define SIDECAR         "image.covsplit"
#define READERS_MAX     8
#define SIGNATURE_SHIFT 40
#define SMALL_FUNCTIONS 30

static const char *clang_version;
static const char *readers[READERS_MAX];
static size_t reader_count;

/* ---- failing tools ---- */

/* The tool must exit with 1, and say a text on standard error. */
static bool expect_failure(const char *directory, const char *tool, const char *words,
                           const char *says, struct verdict *verdict)
{
    struct command command = command_words(directory, "%s %s", tool, words);
    struct outcome outcome = command_run(&command);
    bool good = (outcome_exited(&outcome, 1) && strstr(outcome.errors, says) != NULL) ||
                verdict_fail(verdict, "not an error of status 1 with '%s': %.1500s", says,
                             outcome_describe(&command, &outcome));
    return good;
}

/* ---- images ---- */

static const struct image_row {
    const char *architecture; /* NULL: universal */
    bool opcodes;
    bool late_section;
    const char *sections;
} image_rows[] = {
    {"arm64", false, true, "all"},
    {"x86_64", true, false, "all"},
    {"x86_64", false, true, "covmap,covfun"},
    {"arm64", false, false, "covmap"},
    {"x86_64", true, false, "covmap"},
    {"arm64", true, true, "covmap,covfun,names"},
    {"x86_64", true, true, "covmap,covfun,names"},
    {NULL, true, false, "all"},
};

static void build_image(const struct image_row *row, const char *directory)
{
    struct darwin_program program = {.clang = clang_version,
                                     .architecture = "arm64",
                                     .opcodes = row->opcodes,
                                     .late_section = row->late_section,
                                     .functions = SMALL_FUNCTIONS};
    if (row->architecture != NULL) {
        program.architecture = row->architecture;
        darwin_program_build(&program, directory, IMAGE);
        return;
    }
    darwin_program_build(&program, directory, "arm64");
    program.architecture = "x86_64";
    darwin_program_build(&program, directory, "x86_64");
    run_or_abort(directory, versioned_tool("llvm-lipo", clang_version), "-create", "arm64",
                 "x86_64", "-output", IMAGE, NULL);
}

/* Profiles of the oldest reader are read by all of them. */
static void make_profile(const char *directory)
{
    file_write_text(path_join(directory, "nothing.proftext"), "nothing\n1\n1\n1\n");
    run_or_abort(directory, versioned_tool("llvm-profdata", readers[0]), "merge",
                 "nothing.proftext", "-o", "nothing.profdata", NULL);
}

/* Another program that was not split, of which a report would tell where the image is passed over.
 */
static void build_other(const char *directory, const char *architecture)
{
    struct darwin_program program = {
        .clang = clang_version, .architecture = architecture, .functions = 1};
    darwin_program_build(&program, directory, text_format(OTHER, architecture));
}

/* Alone, and in front of another program and behind it. */
static bool check_image(const char *directory, const char *architecture, const char *reader,
                        struct verdict *verdict)
{
    static const char *const reports[] = {"report", "show", "export"};
    const char *tool = versioned_tool("llvm-cov", reader);
    const char *other = text_format(OTHER, architecture);
    const char *images[] = {STRIPPED,
                            text_format(STRIPPED " -object %s -arch %s", other, architecture),
                            text_format("%s -object " STRIPPED " -arch %s", other, architecture)};
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        for (size_t j = 0; j < sizeof images / sizeof *images; j++) {
            const char *words = text_format("%s -arch %s %s -instr-profile=nothing.profdata",
                                            reports[i], architecture, images[j]);
            if (!expect_failure(directory, tool, words, "nsupported coverage format version",
                                verdict)) {
                return false;
            }
        }
    }
    return true;
}

START_TEST(test_images)
{
    const struct image_row *row = &image_rows[_i];
    const char *first = row->architecture != NULL ? row->architecture : "arm64";
    struct verdict verdict = {0};
    char *directory = scratch_create("macho-alone");
    build_image(row, directory);
    build_other(directory, "arm64");
    build_other(directory, "x86_64");
    make_profile(directory);
    bool good = covsplit_expect(&verdict, 0, NULL, directory, "split", "--sections", row->sections,
                                "-o", STRIPPED, IMAGE, NULL);
    for (size_t i = 0; good && i < reader_count; i++) {
        if (!rounds_have((unsigned)(i + (size_t)_i), 4)) {
            continue; /* readers take turns */
        }
        good =
            check_image(directory, first, readers[i], &verdict) &&
            (row->architecture != NULL || check_image(directory, "x86_64", readers[i], &verdict));
    }
    verdict_assert(&verdict, text_format("%s with --sections %s", first, row->sections));
    ck_assert(good);
}
END_TEST

/* What leaves no tripwire itself would read as zero beside what stays, and stays too. */
START_TEST(test_all_stays)
{
    static const struct image_row row = {"x86_64", false, true, "covfun,data"};
    char *directory = scratch_create("macho-alone");
    build_image(&row, directory);
    const char *errors = covsplit_assert(0, directory, "split", "--sections", row.sections, "-o",
                                         STRIPPED, IMAGE, NULL);
    ck_assert_msg(strstr(errors, "__llvm_covfun stays: __llvm_covmap stays") != NULL &&
                      strstr(errors, "__llvm_prf_data stays: the names stay") != NULL,
                  "%s: covsplit says: %s", row.sections, errors);
    files_assert_equal(path_join(directory, STRIPPED), path_join(directory, IMAGE), row.sections);
}
END_TEST

/* ---- profiles ---- */

/* No other data is behind the names in the file then. */
#define NAMES_LAST "-rename_section __DATA __data __OTHER __data"

static const struct profile_row {
    struct darwin_program program;
    const char *sections;
    const char *uuid; /* --uuid */
} profile_rows[] = {
    {{.late_section = true}, "all", NULL},
    {{.opcodes = true, .link_options = NAMES_LAST}, "all", NULL},
    {{.kind = DARWIN_LIBRARY, .functions = SMALL_FUNCTIONS}, "all", NULL},
    {{.late_section = true, .functions = SMALL_FUNCTIONS}, "names", NULL},
    {{.opcodes = true, .functions = SMALL_FUNCTIONS}, "covmap,covfun,names", NULL},
    {{.link_options = "-no_uuid", .functions = SMALL_FUNCTIONS}, "all", "0123456789"},
};

static void run_image(const char *directory, const char *image, const char *profile)
{
    struct command command = darwin_loader_command(directory);
    text_list_add_words(&command.arguments,
                        text_format("run %s _program_main 7 %s", image, profile));
    command_expect(&command, 3);
}

/* Fails for each reader; only one of the profile's own version says why. */
static bool check_profile(const char *directory, const char *reader, struct verdict *verdict)
{
    const char *tool = versioned_tool("llvm-profdata", reader);
    const char *says = strcmp(reader, clang_version) == 0 ? "zlib" : "error";
    return expect_failure(directory, tool, "show after.profraw", says, verdict) &&
           expect_failure(directory, tool, "merge after.profraw -o no.profdata", says, verdict) &&
           expect_failure(directory, tool, "merge before.profraw after.profraw -o no.profdata",
                          says, verdict) &&
           (!file_exists(path_join(directory, "no.profdata")) ||
            verdict_fail(verdict, "llvm-profdata-%s has written a profile", reader));
}

/* By which the runtime tells the images of a process apart, as far as the split changes it. */
static uint64_t signature_of(const char *directory, const char *name, struct verdict *verdict)
{
    struct raw_profile profile;
    uint64_t name_ref = 0;
    uint64_t names_size = 0;
    if (raw_profile_read(path_join(directory, name), &profile, verdict)) {
        memcpy(&name_ref, profile.data.data, sizeof name_ref);
        names_size = profile.names.size;
    }
    return (names_size << SIGNATURE_SHIFT) + name_ref;
}

static const char *profile_text(const char *directory, const char *profile)
{
    const char *merged = text_format("%s.profdata", profile);
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge", profile, "-o",
                 merged, NULL);
    return run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "show", "--text",
                        "--all-functions", "--counts", merged, NULL);
}

/* With the sidecar, named or in the store, all is as before. */
static bool check_with_sidecar(const char *directory, struct verdict *verdict)
{
    return covsplit_expect(verdict, 0, NULL, directory, "correlate", "--sidecar", SIDECAR, "-o",
                           "full.profraw", "after.profraw", NULL) &&
           covsplit_expect(verdict, 0, NULL, directory, "merge", "--store", "store", "-o",
                           "merged.profraw", "after.profraw", NULL) &&
           (strcmp(profile_text(directory, "before.profraw"),
                   profile_text(directory, "full.profraw")) == 0 ||
            verdict_fail(verdict, "the correlated profile has other counts")) &&
           files_equal(path_join(directory, "full.profraw"), path_join(directory, "merged.profraw"),
                       verdict) &&
           covsplit_expect(verdict, 0, NULL, directory, "join", "--store", "store", "-o", "joined",
                           STRIPPED, NULL) &&
           files_equal(path_join(directory, "joined"), path_join(directory, IMAGE), verdict);
}

/* What `show` says of a file: the UUID, and where it is from. */
static bool check_show(const char *directory, const char *file, const char *uuid,
                       const char *source, struct verdict *verdict)
{
    struct command command = covsplit_command(directory, "show", "--json", file, NULL);
    struct outcome outcome = command_run(&command);
    bool good = (outcome_exited(&outcome, 0) &&
                 strstr(outcome.output, text_format("\"uuid\": %s,", uuid)) != NULL &&
                 strstr(outcome.output, text_format("\"uuid_source\": %s,", source)) != NULL) ||
                verdict_fail(verdict, "not UUID %s from %s: %s", uuid, source,
                             outcome_describe(&command, &outcome));
    return good;
}

/* One UUID for the image, for its profiles and in the store. An image that was not split has none
 * of its own. */
static bool check_uuid(const struct profile_row *row, const char *directory,
                       struct verdict *verdict)
{
    if (row->uuid == NULL) {
        return true;
    }
    const char *uuid = text_format("\"%s\"", row->uuid), *source = "\"tripwire\"";
    return check_show(directory, IMAGE, "null", "null", verdict) &&
           check_show(directory, STRIPPED, uuid, source, verdict) &&
           check_show(directory, "after.profraw", uuid, source, verdict);
}

static bool split_row(const struct profile_row *row, const char *directory, const char *where,
                      const char *place, struct verdict *verdict)
{
    return row->uuid != NULL
               ? covsplit_expect(verdict, 0, NULL, directory, "split", "--sections", row->sections,
                                 "--uuid", row->uuid, "-o", STRIPPED, where, place, IMAGE, NULL)
               : covsplit_expect(verdict, 0, NULL, directory, "split", "--sections", row->sections,
                                 "-o", STRIPPED, where, place, IMAGE, NULL);
}

START_TEST(test_profiles)
{
    const struct profile_row *row = &profile_rows[_i];
    struct darwin_program program = row->program;
    bool has_names = strstr(row->sections, "names") == NULL && strcmp(row->sections, "all") != 0;
    bool has_data = strstr(row->sections, "data") == NULL && strcmp(row->sections, "all") != 0;
    struct verdict verdict = {0};
    char *directory = scratch_create("macho-alone");
    program.clang = clang_version;
    program.architecture = "x86_64";
    darwin_program_build(&program, directory, IMAGE);
    bool good = split_row(row, directory, "--sidecar", SIDECAR, &verdict) &&
                split_row(row, directory, "--store", "store", &verdict);
    verdict_assert(&verdict, "split");
    run_image(directory, IMAGE, "before.profraw");
    run_image(directory, STRIPPED, "after.profraw");
    for (size_t i = 0; good && !has_names && i < reader_count; i++) {
        good = check_profile(directory, readers[i], &verdict);
    }
    good = good && check_with_sidecar(directory, &verdict) &&
           check_uuid(row, directory, &verdict) &&
           (!has_data ||
            (signature_of(directory, "before.profraw", &verdict) ==
             signature_of(directory, "after.profraw", &verdict)) == has_names ||
            verdict_fail(&verdict, "the runtime takes it for %s image",
                         has_names ? "another" : "the unsplit"));
    verdict_assert(&verdict, text_format("%s, --sections %s", darwin_program_describe(&program),
                                         row->sections));
    ck_assert(good);
}
END_TEST

int main(int argument_count, char **arguments)
{
    if (argument_count < 3 || argument_count > 2 + READERS_MAX) {
        return suite_usage(arguments[0], "CLANG READER...");
    }
    clang_version = arguments[1];
    for (int i = 2; i < argument_count; i++) {
        readers[reader_count++] = arguments[i];
    }
    TCase *test_case = suite_case("alone", 300, NULL);
    suite_loops(test_case, sizeof image_rows / sizeof *image_rows, test_images);
    suite_tests(test_case, test_all_stays);
    suite_loops(test_case, sizeof profile_rows / sizeof *profile_rows, test_profiles);
    return suite_main(text_format("macho alone clang-%s", clang_version), test_case);
}
