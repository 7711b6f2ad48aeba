/*
 * `covsplit run` with LLVM's tools: what they make of lightweight profiles, stripped images and
 * sidecars must be what they make of the profiles and images as they were before the split.
 *
 * Usage: run_llvm CLANG LINKER.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define RUNS 16

static const char *clang;
static const char *link_editor;
static const char *place_option = "--store";
static bool binary; /* -profile-correlate=binary: llvm-profdata needs the image */

/* Each run has profiles of its own; %m gives each image one. */
static void run_all(const struct application *application, const char *images)
{
    char *profiles = text_format("profiles-%s", images);
    directory_create(path_join(application->scratch, profiles));
    for (unsigned run = 1; run <= RUNS; run++) {
        application_run_once(application, images, run,
                             text_format("%s/run-%02u-%%m.profraw", profiles, run));
    }
    profiles = text_format("pool-%s", images);
    directory_create(path_join(application->scratch, profiles));
    for (unsigned run = 1; run <= RUNS; run++) {
        application_run_once(application, images, run, text_format("%s/%%2m.profraw", profiles));
    }
}

/* A program and its shared library, with the profiles of RUNS runs of the images of either
 * directory. */
static struct application build(enum link_kind kind, const char *build_id,
                                const char *compile_options, const char *link_options,
                                const char *split_options)
{
    struct program program = {.clang = clang,
                              .linker = link_editor,
                              .kind = kind,
                              .language = LANGUAGE_C,
                              .optimization = build_id == NULL ? "-O1" : "-O0",
                              .build_id = build_id,
                              .compile_options = compile_options,
                              .link_options = link_options,
                              .functions = kind == LINK_SHARED ? 100 : 50};
    struct application application = application_build(&program, "run", split_options, NULL);
    run_all(&application, "original");
    run_all(&application, "split");
    return application;
}

/* ---- tools ---- */

/* A command line that starts with `covsplit run`, where sidecars are needed. */
static struct command tool_command(const struct application *application, bool transparent,
                                   const char *tool)
{
    struct command command = {.directory = application->scratch};
    if (transparent) {
        command = covsplit_command(application->scratch, "run", place_option, "store", "--", NULL);
    }
    text_list_add(&command.arguments, versioned_tool(tool, clang));
    return command;
}

static const char *run_tool(struct command *command)
{
    struct outcome outcome = command_run(command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome_describe(command, &outcome));
    /* llvm-cov warns where an image is newer than a profile; covsplit must say nothing at all. */
    ck_assert_msg(strstr(outcome.errors, "covsplit") == NULL, "%s",
                  outcome_describe(command, &outcome));
    free(outcome.errors);
    return outcome.output;
}

/* By run, and those of a run by the size of what they count: the names of the original images'
 * profiles and of the split ones' have different hashes in them, but what LLVM writes depends a
 * little on the order of its inputs. */
static int compare_profiles(const void *a, const void *b)
{
    static const size_t run_size = sizeof "run-00" - 1;
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    int order = strncmp(strrchr(left, '/') + 1, strrchr(right, '/') + 1, run_size);
    if (order != 0 && strncmp(strrchr(left, '/') + 1, "run-", 4) == 0) {
        return order;
    }
    return profiles_by_counters(a, b);
}

static struct text_list profiles_of(const struct application *application, const char *directory)
{
    struct text_list paths = application_profiles(application, directory);
    qsort(paths.items, paths.count, sizeof *paths.items, compare_profiles);
    return paths;
}

/* llvm-profdata merge of a directory of profiles; -binary-file names the image in another one, or
 * NULL for none. */
static char *merge_with(const struct application *application, bool transparent,
                        const char *binary_directory, const char *directory, const char *threads,
                        const char *output)
{
    struct command command = tool_command(application, transparent, "llvm-profdata");
    struct text_list profiles = profiles_of(application, directory);
    text_list_add(&command.arguments, "merge");
    text_list_add_format(&command.arguments, "-num-threads=%s", threads);
    if (binary && binary_directory != NULL) {
        text_list_add_format(&command.arguments, "-binary-file=%s/%s", binary_directory,
                             PROGRAM_NAME);
    }
    text_list_add_words(&command.arguments, "-o");
    text_list_add(&command.arguments, output);
    text_list_add_all(&command.arguments, (const char *const *)profiles.items);
    run_tool(&command);
    return path_join(application->scratch, output);
}

static char *merge(const struct application *application, bool transparent, const char *directory,
                   const char *threads, const char *output)
{
    return merge_with(application, transparent, transparent ? NULL : "original", directory, threads,
                      output);
}

/* ---- profiles ---- */

static void check_profiles(const struct application *application)
{
    const char *expected = merge(application, false, "profiles-original", "1", "a.profdata");
    files_assert_equal(expected, merge(application, true, "profiles-split", "1", "b.profdata"),
                       "one thread");
    files_assert_equal(merge(application, false, "profiles-original", "4", "c.profdata"),
                       merge(application, true, "profiles-split", "4", "d.profdata"),
                       "four threads");
    files_assert_equal(merge(application, false, "pool-original", "1", "e.profdata"),
                       merge(application, true, "pool-split", "1", "f.profdata"), "pools");
}

/* All profiles of the images in one file, as cat makes it. */
static void check_concatenated(const struct application *application)
{
    static const char *const kinds[] = {"original", "split"};
    char *merged[2];
    for (size_t i = 0; i < 2; i++) {
        char *directory = text_format("joined-%s", kinds[i]);
        struct text_list profiles = profiles_of(application, text_format("profiles-%s", kinds[i]));
        struct command command = {.directory = application->scratch};
        text_list_add_words(&command.arguments, "sh -c");
        text_list_add_format(&command.arguments, "cat \"$@\" >%s/all.profraw", directory);
        text_list_add(&command.arguments, "sh");
        text_list_add_all(&command.arguments, (const char *const *)profiles.items);
        directory_create(path_join(application->scratch, directory));
        command_run_or_abort(&command);
        merged[i] =
            merge(application, i == 1, directory, "1", text_format("%s.profdata", directory));
    }
    files_assert_equal(merged[0], merged[1], "concatenated");
}

/* ---- reports ---- */

/* The images in `directory`, or the sidecars of the store for NULL. */
static struct text_list objects_in(const struct application *application, const char *directory)
{
    struct text_list objects = {0};
    for (size_t i = 0; directory != NULL && i < application->images.count; i++) {
        text_list_add_format(&objects, "%s/%s", directory, application->images.items[i]);
    }
    if (directory == NULL) {
        const char *found =
            run_or_abort(application->scratch, "find", "store", "-name", "*.covsplit", NULL);
        objects = text_list_of_lines(found);
        ck_assert_uint_eq(objects.count, application->images.count);
    }
    return objects;
}

/* llvm-cov WORDS... OBJECTS... SOURCES... */
static const char *report(const struct application *application, bool transparent,
                          const char *words, const char *directory, const char *sources)
{
    struct command command = tool_command(application, transparent, "llvm-cov");
    struct text_list objects = objects_in(application, directory);
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.arguments, "-instr-profile=a.profdata");
    text_list_add(&command.arguments, objects.items[0]);
    for (size_t i = 1; i < objects.count; i++) {
        text_list_add_format(&command.arguments, "-object=%s", objects.items[i]);
    }
    text_list_add_words(&command.arguments, sources);
    return run_tool(&command);
}

/* The path of first.c in the mapping: that of where it was compiled. */
static const char *first_source(const struct application *application)
{
    const char *text = report(application, false, "export -format=lcov", "original", "");
    struct text_list lines = text_list_of_lines(text);
    for (size_t i = 0; i < lines.count; i++) {
        const char *end = strstr(lines.items[i], "/first.c");
        if (strncmp(lines.items[i], "SF:", 3) == 0 && end != NULL) {
            return lines.items[i] + 3;
        }
    }
    ck_abort_msg("no first.c in %.500s", text);
}

/* The reports name no object, so they are equal to the byte, whatever the object is. The files of a
 * report come in the order of the objects: with the sidecars, whose order is that of their UUIDs,
 * only the sum is compared where there are several. */
static void check_reports(const struct application *application)
{
    static const char *const reports[] = {
        "report",
        "show",
        "show -show-branches=count -show-regions",
        "show -path-equivalence=/nowhere,/elsewhere -show-line-counts-or-regions",
        "export",
        "export -format=lcov",
    };
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const char *expected = report(application, false, reports[i], "original", "");
        ck_assert_ptr_nonnull(strstr(expected, "first.c"));
        ck_assert_str_eq(expected, report(application, true, reports[i], "split", ""));
        if (application->images.count == 1) {
            ck_assert_str_eq(expected, report(application, true, reports[i], NULL, ""));
        }
    }
    const char *words = "report -show-functions";
    const char *source = first_source(application);
    const char *expected = report(application, false, words, "original", source);
    ck_assert_ptr_nonnull(strstr(expected, "first_run"));
    ck_assert_str_eq(expected, report(application, true, words, "split", source));
    const char *sum = strstr(report(application, false, "report", "original", ""), "TOTAL");
    ck_assert_str_eq(sum, strstr(report(application, true, "report", NULL, ""), "TOTAL"));
}

static void check_html(const struct application *application)
{
    report(application, false, "show -format=html -output-dir=html", "original", "");
    char *expected = path_join(application->scratch, "html");
    char *kept = path_join(application->scratch, "html-original");
    ck_assert_int_eq(rename(expected, kept), 0);
    report(application, true, "show -format=html -output-dir=html", "split", "");
    /* Each page says when it was made. */
    run_or_abort(application->scratch, "diff", "-r", "-I", "Created: ", kept, expected, NULL);
}

/* llvm-cov report of the split images, and what it says. */
static struct outcome report_by(const struct application *application, const char *profile)
{
    struct command command = tool_command(application, true, "llvm-cov");
    struct text_list objects = objects_in(application, "split");
    text_list_add_words(&command.arguments, "report");
    text_list_add(&command.arguments, objects.items[0]);
    text_list_add_format(&command.arguments, "-object=%s", objects.items[1]);
    text_list_add_format(&command.arguments, "--instr-profile=%s", profile);
    return command_run(&command);
}

/* What llvm-cov is given in place of the merged profile of its images is told. */
static void check_wrong_profiles(const struct application *application)
{
    struct text_list profiles = profiles_of(application, "profiles-split");
    struct outcome outcome = report_by(application, profiles.items[0]);
    ck_assert(outcome_exited(&outcome, 1));
    assert_contains(
        outcome.errors,
        text_format("merge it first: covsplit merge %s store -o app.profdata /", place_option));
    run_or_abort(application->scratch, covsplit_path(), "merge", "--store", "store",
                 "--llvm-profdata", versioned_tool("llvm-profdata", clang), "-o", "one.profdata",
                 profiles.items[0], NULL);
    outcome = report_by(application, "one.profdata");
    ck_assert(outcome_exited(&outcome, 0));
    /* Earlier profiles do not say which images they are of. */
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: warning: "), atoi(clang) >= 16);
    if (atoi(clang) >= 16) {
        assert_contains(outcome.errors, "is not among those of the images that one.profdata is of: "
                                        "it did not run, and its coverage is rightly zero; or "
                                        "another build of it ran");
    }
}

/* ---- the tests ---- */

START_TEST(test_shared_library)
{
    struct application application = build(LINK_SHARED, NULL, NULL, NULL, NULL);
    check_profiles(&application);
    check_concatenated(&application);
    check_reports(&application);
    check_html(&application);
    check_wrong_profiles(&application);
}
END_TEST

START_TEST(test_without_build_id)
{
    struct application application = build(LINK_PIE, "none", NULL, NULL, NULL);
    check_profiles(&application);
    check_reports(&application);
}
END_TEST

/* Where the names stay, no UUID is in an image without build ID: only its digest tells which
 * sidecar is its own. They stay if asked for, and where no symbols name the runtime's functions. */
START_TEST(test_without_uuid)
{
    static const char *const options[][2] = {
        {NULL, "--sections covmap,covfun --sidecar store/" PROGRAM_NAME ".covsplit"},
        {"-s", "--sidecar store/" PROGRAM_NAME ".covsplit"}};
    place_option = "--sidecar";
    struct application application = build(LINK_PIE, "none", NULL, options[_i][0], options[_i][1]);
    const char *shown = run_or_abort(application.scratch, versioned_tool("llvm-readelf", clang),
                                     "-S", "split/" PROGRAM_NAME, NULL);
    const char *names = strstr(shown, "__llvm_prf_names");
    unsigned long size = 0;
    ck_assert_msg(names != NULL && sscanf(names, "%*s %*s %*s %*s %lx", &size) == 1 && size > 100,
                  "%.200s", shown);
    check_profiles(&application);
    check_reports(&application);
}
END_TEST

START_TEST(test_binary_correlation)
{
    binary = true;
    struct application application =
        build(LINK_PIE, NULL, "-mllvm -profile-correlate=binary", NULL, NULL);
    check_profiles(&application);
    /* As scripts do it that know of the correlation. */
    files_assert_equal(path_join(application.scratch, "a.profdata"),
                       merge_with(&application, true, "split", "profiles-split", "1", "g.profdata"),
                       "with the stripped image");
    check_reports(&application);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang, &link_editor);
    TCase *test_case = suite_case("run", 300, NULL);
    suite_tests(test_case, test_shared_library, test_without_build_id);
    suite_loops(test_case, 2, test_without_uuid);
    if (atoi(clang) >= 19) {
        tcase_add_test(test_case, test_binary_correlation);
    }
    return suite_main(text_format("run with LLVM %s", clang), test_case);
}
