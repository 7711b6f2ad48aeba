/*
 * covsplit report: what it prints is what llvm-cov prints of the unsplit images, and what it makes
 * of that is compared with a second implementation (tests/support/report_check.py).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define APP     MANY_UNITS_PROGRAM
#define LIBRARY MANY_UNITS_LIBRARY

static char *scratch;
static char *sample; /* by clang-19: unsplit/, and split/ with its store and profiles */

static const char *const clangs[] = {"14", "16", "19", "22"};

static struct outcome run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words);
}

static char *output(const char *directory, const char *words)
{
    return run(directory, 0, words).output;
}

static void assert_says(struct outcome outcome, const char *text)
{
    ck_assert_msg(strstr(outcome.errors, text) != NULL, "'%s' is not in: %s", text, outcome.errors);
}

static void run_program(const char *directory, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, APP));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", directory);
    command_run_or_abort(&command);
}

/* Builds the program with its library in unsplit/, splits copies of both to split/, and runs both
 * programs. Sources are in unsplit/. */
static char *build(const char *clang)
{
    struct many_units program = {.clang = clang, .shared = true, .options = "-O1"};
    char *directory = path_join(scratch, text_format("report%s-%d", clang, (int)getpid()));
    char *unsplit = path_join(directory, "unsplit"), *split = path_join(directory, "split");
    directory_create(directory);
    directory_create(unsplit);
    directory_create(split);
    many_units_build(&program, unsplit);
    file_copy(path_join(unsplit, APP), path_join(split, APP));
    file_copy(path_join(unsplit, LIBRARY), path_join(split, LIBRARY));
    run(split, 0, "split --store store " APP " " LIBRARY);
    run_program(unsplit, "../full/%m.profraw");
    run_program(split, "profiles/%m.profraw");
    run_or_abort(directory, "sh", "-c",
                 text_format("%s merge -o unsplit/app.profdata full/*",
                             versioned_tool("llvm-profdata", clang)),
                 NULL);
    return directory;
}

/* What llvm-cov prints of the unsplit images, in the order of their names. */
static const char *expected(const char *directory, const char *clang, const char *words)
{
    bool app_is_first = strcmp(APP, LIBRARY) < 0;
    const char *first = app_is_first ? APP : LIBRARY, *second = app_is_first ? LIBRARY : APP;
    struct command command = command_words(path_join(directory, "unsplit"),
                                           "%s %s %s -object %s -instr-profile=app.profdata",
                                           versioned_tool("llvm-cov", clang), words, first, second);
    return command_run_or_abort(&command);
}

/* The directory in which unit1.cc was compiled, which may be that of an earlier run. */
static const char *source_directory(const char *lcov)
{
    const char *end = strstr(lcov, "/unit1.cc\n"), *start = end;
    ck_assert(end != NULL);
    while (strncmp(start, "SF:", 3) != 0)
        start--;
    return text_format("%.*s", (int)(end - start - 3), start + 3);
}

static void assert_equal(const char *found, const char *wanted, const char *what)
{
    ck_assert_msg(strlen(wanted) > 100, "%s: nothing is reported: %s", what, wanted);
    ck_assert_msg(strcmp(found, wanted) == 0, "%s: %s\nis not: %s", what, found, wanted);
}

/* ---- llvm-cov's own formats ---- */

START_TEST(test_same_reports)
{
    static const struct {
        const char *ours, *theirs;
    } formats[] = {{"", "report"},
                   {"--format lcov", "export -format=lcov"},
                   {"--format json", "export -format=text"},
                   {"--format summary", "export -summary-only"},
                   {"--format lcov -ignore-filename-regex=unit1",
                    "export -format=lcov -ignore-filename-regex=unit1"}};
    const char *clang = clangs[_i];
    char *directory = build(clang), *split = path_join(directory, "split");
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const char *words = text_format(
            "report --store store --include / --llvm-cov %s --llvm-profdata %s %s profiles",
            versioned_tool("llvm-cov", clang), versioned_tool("llvm-profdata", clang),
            formats[i].ours);
        assert_equal(output(split, words), expected(directory, clang, formats[i].theirs), words);
    }
    run(split, 0,
        text_format("report --store store --html html --llvm-cov %s profiles",
                    versioned_tool("llvm-cov", clang)));
    expected(directory, clang, "show -format=html -output-dir=html");
    run_or_abort(directory, "sed", "-i", "s/Created: [-0-9: ]*//", "split/html/index.html",
                 "unsplit/html/index.html", NULL);
    run_or_abort(
        directory, "sh", "-c",
        "find */html -name '*.html' -exec sed -i 's/Created: [-0-9: ]*//' {} + && "
        "diff -r split/html unsplit/html && test -n \"$(find split/html -name 'unit*.html')\"",
        NULL);
}
END_TEST

/* The same from a state, from full profiles, and with sidecars in place of the store; nothing is
 * left in the directory. */
START_TEST(test_inputs)
{
    char *split = path_join(sample, "split");
    const char *wanted = output(split, "report --store store --include / profiles");
    const char *before = run_or_abort(split, "find", ".", NULL);
    assert_equal(output(split, "report --store store --include / ../full"), wanted,
                 "full profiles");
    ck_assert_str_eq(run_or_abort(split, "find", ".", NULL), before);
    run(split, 0, "merge --store store --into state profiles");
    assert_equal(output(split, "report --store store --include / state"), wanted, "a state");
    run(split, 0, "merge --store store -o full.profraw profiles");
    assert_equal(
        output(split, "report --include / full.profraw ../unsplit/" APP " ../unsplit/" LIBRARY),
        wanted, "unsplit images");
    assert_equal(output(split, "report --store store --include / full.profraw " APP), wanted,
                 "a split image");
    run(split, 0, "report --store store --include / -o table profiles");
    ck_assert_str_eq((const char *)file_read(path_join(split, "table")).data, wanted);
}
END_TEST

/* ---- which files ---- */

START_TEST(test_selection)
{
    char *split = path_join(sample, "split");
    const char *all = output(split, "report --store store --format lcov --include / profiles");
    const char *sources = source_directory(all);
    const char *one = output(
        split,
        text_format("report --store store --format lcov --include %s/unit1.cc profiles", sources));
    ck_assert_uint_gt(text_count(all, "SF:"), 2);
    ck_assert_uint_eq(text_count(one, "SF:"), 1);
    ck_assert(strstr(one, "/unit1.cc\n") != NULL);
    /* No source is below split/: then all are shown, and nothing needs to be said. */
    struct outcome outcome = run(split, 0, "report --store store --format lcov profiles");
    ck_assert_str_eq(outcome.output, all);
    ck_assert_ptr_null(strstr(outcome.errors, "left out"));
    assert_says(run(split, 1, "report --store store --include nowhere profiles"),
                "nowhere: no source file");
    /* Of sources here and elsewhere, those here are shown, and a line says so. */
    struct command here = covsplit_command(sources, "report", "--format", "lcov", "--store", NULL);
    text_list_add(&here.arguments, path_join(split, "store"));
    text_list_add(&here.arguments, path_join(split, "profiles"));
    outcome = command_run(&here);
    ck_assert(outcome_exited(&outcome, 0));
    ck_assert_uint_lt(text_count(outcome.output, "SF:"), text_count(all, "SF:"));
    ck_assert_uint_eq(text_count(outcome.output, "SF:"), text_count(outcome.output, sources));
    assert_says(outcome, "'--include /' shows all");

    const char *moved =
        output(split, text_format("report --store store --format lcov --path-map %s=/src profiles",
                                  sources));
    ck_assert_uint_eq(text_count(moved, "SF:/src/"), text_count(outcome.output, "SF:"));
    moved =
        output(split, text_format("report --store store --format json --path-map %s=/src profiles",
                                  sources));
    ck_assert(strstr(moved, "\"/src/unit1.cc\"") != NULL && strstr(moved, sources) == NULL);
}
END_TEST

/* ---- our own formats ---- */

static void check(const char *directory, const char *words)
{
    struct command command = command_words(directory, "python3 %s/report_check.py %s",
                                           COVSPLIT_FIXTURE_DIRECTORY "/../support", words);
    command_run_or_abort(&command);
}

START_TEST(test_cobertura)
{
    char *split = path_join(sample, "split");
    run(split, 0, "report --store store --format lcov -o lines profiles");
    run(split, 0, "report --store store --format cobertura -o cobertura.xml profiles");
    check(split, "cobertura lines cobertura.xml");
    run(split, 0, "report --store store --format cobertura -o again.xml profiles");
    files_assert_equal(path_join(split, "again.xml"), path_join(split, "cobertura.xml"),
                       "the same again");
}
END_TEST

START_TEST(test_change)
{
    char *split = path_join(sample, "split"), *unsplit = path_join(sample, "unsplit");
    file_copy(path_join(unsplit, "unit1.cc"), path_join(split, "unit1.cc"));
    run_or_abort(split, "sed", "-i", "5,9d", "unit1.cc", NULL);
    run_or_abort(split, "sh", "-c",
                 "mkdir old; cp unit1.cc old; cp ../unsplit/unit*.cc .; cp old/unit1.cc .; "
                 "git init -q .; git add unit*.cc; git rm -q --cached unit2.cc; "
                 "git -c user.name=a -c user.email=a commit -qm old; cp ../unsplit/*.cc .; "
                 "git add -N main.cc unit2.cc; git diff >git.diff",
                 NULL);
    run(split, 0, "report --store store --format lcov -o lines profiles");
    struct outcome by_diff = run(split, 0, "report --store store --diff git.diff profiles");
    file_write_text(path_join(split, "found"), by_diff.output);
    check(split, "change lines git.diff found");
    ck_assert(strstr(by_diff.output, "main.cc: ") != NULL);
    run_or_abort(split, "sh", "-c", "mkfifo pipe; cat git.diff >pipe 2>/dev/null &", NULL);
    ck_assert_str_eq(output(split, "report --store store --diff pipe profiles"), by_diff.output);
    run(split, 0, "report --store store --diff git.diff --fail-under lines=0 profiles");
    assert_says(
        run(split, 1, "report --store store --diff git.diff --fail-under lines=100 profiles"),
        "new lines: ");
    assert_says(run(split, 1, "report --store store --diff lines profiles"), "not a unified diff");
}
END_TEST

START_TEST(test_limits)
{
    char *split = path_join(sample, "split");
    run(split, 0, "report --store store --fail-under lines=1 --fail-under branches=0 profiles");
    assert_says(run(split, 1, "report --store store --fail-under functions=100 profiles"),
                "functions: ");
    assert_says(run(split, 1, "report --store store --fail-under regions=99.9 profiles"),
                "wants 99.9%");
    static const char *const wrong[] = {"--fail-under lines",  "--fail-under lines=x",
                                        "--fail-under line=1", "--fail-under lines=101",
                                        "--path-map nothing",  "--html out --format lcov",
                                        "--diff x -o y"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        run(split, 2, text_format("report --store store %s profiles", wrong[i]));
}
END_TEST

/* ---- what is missing ---- */

START_TEST(test_missing)
{
    char *split = path_join(sample, "split");
    run_or_abort(split, "sh", "-c",
                 "cp -r store part && ls part/.build-id/*/*.covsplit | head -1 | xargs rm", NULL);
    assert_says(run(split, 1, "report --store part profiles"), "no sidecar for its UUID");
    struct outcome outcome = run(split, 0, "report --store part --ignore-missing profiles");
    assert_says(outcome, "the report lacks the image");
    ck_assert(strstr(outcome.output, "TOTAL") != NULL);
    assert_says(run(split, 1, "report --store store " APP), "no profile is named");
    file_write_text(path_join(split, "bad.profraw"), "not a profile");
    assert_says(run(split, 1, "report --store store --ignore-missing profiles bad.profraw"),
                "bad.profraw");
    assert_says(run(split, 1, "report --store store --llvm-cov false profiles"), "--llvm-cov");
    assert_says(run(split, 1, "report --store store --llvm-cov /nowhere profiles"),
                "cannot be run");
    assert_says(run(split, 1, "report --store store -o nowhere/x profiles"), "nowhere");

    /* An image that no profile is of: its files are at 0% with --all. */
    struct many_units other = {.clang = "19", .options = "-O0"};
    char *directory = path_join(scratch, text_format("other-%d", (int)getpid()));
    directory_create(directory);
    many_units_build(&other, directory);
    run(split, 0, text_format("split --store store -o out %s", path_join(directory, APP)));
    const char *without = output(split, "report --store store --format lcov profiles");
    const char *with = output(split, "report --store store --format lcov --all profiles");
    ck_assert_uint_gt(text_count(with, "SF:"), text_count(without, "SF:"));
}
END_TEST

/* ---- covsplit test ---- */

/* The report is that of the profiles which the command makes, and nothing else is left; what the
 * command's end says is passed on. */
START_TEST(test_command)
{
    char *split = path_join(sample, "split");
    const char *wanted = output(split, "report --store store profiles");
    directory_create(path_join(split, "temporary"));
    struct command command = covsplit_command(split, "test", "--store", "store", "--", "sh", "-c",
                                              "here=$PWD; cd /; $here/" APP " >&2", NULL);
    text_list_add_format(&command.environment, "TMPDIR=%s/temporary", split);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", split);
    const char *found = command_run_or_abort(&command);
    ck_assert_str_eq(found, wanted);
    ck_assert_str_eq(run_or_abort(split, "ls", "-A", "temporary", NULL), "");

    char **script = &command.arguments.items[command.arguments.count - 1];
    *script = "./" APP " >&2; exit 7";
    struct outcome outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 7));
    ck_assert_str_eq(outcome.output, wanted);
    *script = "kill -9 $$";
    outcome = command_run(&command);
    ck_assert_int_eq(outcome.signal, SIGKILL);
    ck_assert_str_eq(outcome.output, "");
    *script = "exit 0";
    outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 1));
    assert_says(outcome, "no program wrote a profile");
    ck_assert_str_eq(run_or_abort(split, "ls", "-A", "temporary", NULL), "");

    /* Two runs add up. */
    command = covsplit_command(split, "test", "--store", "store", "--profiles", "kept", "--format",
                               "lcov", "-o", "lines", "--", "./" APP, NULL);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", split);
    command_run_or_abort(&command);
    command_run_or_abort(&command);
    ck_assert_uint_eq(
        text_count((const char *)file_read(path_join(split, "lines")).data, "FNDA:2,main\n"), 1);
    ck_assert_uint_ge(directory_list(path_join(split, "kept")).count, 2);

    run(split, 2, "test --store store --fail-under x -- touch ran");
    ck_assert(!file_exists(path_join(split, "ran")));
    run(split, 127, "test --store store -- ./nowhere");
    assert_says(run(split, 1, "test --store store --profiles " APP " -- touch ran"), APP);
    ck_assert(!file_exists(path_join(split, "ran")));
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("report");
    sample = build("19");
}

int main(void)
{
    TCase *all = suite_case("report", 300, prepare);
    suite_loops(all, 4, test_same_reports);
    suite_tests(all, test_inputs, test_selection, test_cobertura, test_change, test_limits,
                test_missing, test_command);
    return suite_main("report", all);
}
