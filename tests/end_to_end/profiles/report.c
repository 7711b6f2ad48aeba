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
#define PLUGIN  "libplugin.so" /* the program needs it, too; its name is between the others */

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

static void build_plugin(const char *clang, const char *directory)
{
    file_write_text(path_join(directory, "plugin.cc"),
                    "#include \"plugin.h\"\n"
                    "static int used = bigger(3, 5);\n"
                    "int unused(int a)\n{\n    return a > 1 ? bigger(a, used) : 0;\n}\n");
    file_write_text(path_join(directory, "plugin.h"),
                    "template <class T> T bigger(T a, T b)\n{\n    if (a > b)\n        return a;\n"
                    "    return b;\n}\n");
    run_or_abort(directory, versioned_tool("clang++", clang), "-O1", "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-Wl,--build-id", "-shared", "-fPIC", "-o", PLUGIN,
                 path_join(directory, "plugin.cc"), NULL);
    run_or_abort(directory, "patchelf", "--add-needed", PLUGIN, APP, NULL);
}

/* Builds the program with its libraries in unsplit/, splits copies of all to split/, and runs both
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
    build_plugin(clang, unsplit);
    file_copy(path_join(unsplit, APP), path_join(split, APP));
    file_copy(path_join(unsplit, LIBRARY), path_join(split, LIBRARY));
    file_copy(path_join(unsplit, PLUGIN), path_join(split, PLUGIN));
    run(split, 0, "split --store store " APP " " LIBRARY " " PLUGIN);
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
    struct command command = command_words(path_join(directory, "unsplit"),
                                           "%s %s " APP " -object " PLUGIN " -object " LIBRARY
                                           " -instr-profile=app.profdata",
                                           versioned_tool("llvm-cov", clang), words);
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
                   {"--format text", "show -show-instantiations=false"},
                   {"--format text --show-instantiations", "show"},
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
    expected(directory, clang,
             text_format("show -format=html -output-dir=html -show-instantiations=false "
                         "-Xdemangler %s %s",
                         versioned_tool("llvm-cxxfilt", clang),
                         atoi(clang) >= 18 ? "-show-directory-coverage" : ""));
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
    assert_equal(output(split, "report --include / full.profraw ../unsplit/" APP
                               " ../unsplit/" LIBRARY " ../unsplit/" PLUGIN),
                 wanted, "unsplit images");
    assert_equal(output(split, "report --store store --include / full.profraw " APP), wanted,
                 "a split image");
    run(split, 0, "merge --store store -o all.profdata profiles");
    assert_equal(output(split, "report --store store --include / all.profdata"), wanted,
                 "an indexed profile");
    directory_create(path_join(split, "beside"));
    file_copy(path_join(split, "../unsplit/" APP), path_join(split, "beside/" APP));
    file_copy(path_join(split, "../unsplit/" LIBRARY), path_join(split, "beside/" LIBRARY));
    file_copy(path_join(split, "../unsplit/" PLUGIN), path_join(split, "beside/" PLUGIN));
    run(split, 0, "split beside/" APP " beside/" LIBRARY " beside/" PLUGIN);
    assert_equal(output(split, "report --include / all.profdata beside/" APP " beside/" LIBRARY
                               " beside/" PLUGIN),
                 wanted, "sidecars beside the images");
    run_or_abort(split, "sh", "-c",
                 text_format("for i in profiles/*; do %s merge --store store -o ${i##*/}.profdata "
                             "$i || exit 1; done",
                             covsplit_path()),
                 NULL);
    const char *each = run_or_abort(
        split, "sh", "-c",
        "ls *.profraw.profdata | tr '\\n' ' '; ls profiles/* | head -1 | tr -d '\\n'", NULL);
    ck_assert(strstr(each, ".profdata ") != NULL);
    assert_equal(output(split, text_format("report --store store --include / %s", each)),
                 output(split, text_format("report --store store --include / profiles %s",
                                           strrchr(each, ' ') + 1)),
                 "indexed and raw profiles");
    run(split, 0, "report --store store --include / -o table profiles");
    ck_assert_str_eq((const char *)file_read(path_join(split, "table")).data, wanted);
}
END_TEST

/* A program without a library. */
START_TEST(test_one_program)
{
    struct many_units program = {.clang = "22", .options = "-O2"};
    char *directory = path_join(scratch, text_format("one-%d", (int)getpid()));
    directory_create(directory);
    many_units_build(&program, directory);
    file_copy(path_join(directory, APP), path_join(directory, "unsplit"));
    run(directory, 0, "split --store store " APP);
    run_program(directory, "default.profraw");
    run(directory, 0,
        "merge --store store --llvm-profdata llvm-profdata-22 -o a.profdata "
        "default.profraw");
    const char *wanted = run_or_abort(directory, "llvm-cov-22", "export", "-format=lcov",
                                      "-instr-profile=a.profdata", "unsplit", NULL);
    assert_equal(output(directory, "report --store store --format lcov --include / --llvm-cov "
                                   "llvm-cov-22 --llvm-profdata llvm-profdata-22 default.profraw"),
                 wanted, "one program");
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
    /* No source is below the root: then all are shown, and nothing needs to be said. */
    struct outcome outcome = run(split, 0, "report --store store --format lcov profiles");
    ck_assert_str_eq(outcome.output, all);
    ck_assert_ptr_null(strstr(outcome.errors, "left out"));
    assert_says(run(split, 1, "report --store store --include nowhere profiles"),
                "nowhere: no source file");
    /* Of sources here and elsewhere, those here are shown, and a line says so. */
    struct command here =
        covsplit_command(sources, "report", "--root", ".", "--format", "lcov", "--store", NULL);
    text_list_add(&here.arguments, path_join(split, "store"));
    text_list_add(&here.arguments, path_join(split, "profiles"));
    outcome = command_run(&here);
    ck_assert(outcome_exited(&outcome, 0));
    ck_assert_uint_lt(text_count(outcome.output, "SF:"), text_count(all, "SF:"));
    ck_assert(strstr(outcome.output, "SF:unit1.cc\n") != NULL); /* relative to the root */
    ck_assert_uint_eq(text_count(outcome.output, "SF:/"), 0);
    assert_says(outcome, "'--include /' shows all");

    ck_assert_str_eq(
        output(split,
               text_format("report --store store --format lcov profiles -- %s/unit1.cc", sources)),
        one);
    const char *moved =
        output(split, text_format("report --store store --format lcov --path-map %s=/src profiles",
                                  sources));
    ck_assert_uint_eq(text_count(moved, "SF:/src/"), text_count(outcome.output, "SF:"));
    moved =
        output(split, text_format("report --store store --format json --path-map %s=/src profiles",
                                  sources));
    ck_assert(strstr(moved, "\"/src/unit1.cc\"") != NULL && strstr(moved, sources) == NULL);
    moved = output(
        split, text_format("report --store store --format lcov --path-map %s=. profiles", sources));
    ck_assert(strstr(moved, "SF:unit1.cc\n") != NULL);
    /* The same from a union with these paths. */
    run(split, 0,
        text_format("export --union --store store -o union.a --path-map %s=/src", sources));
    run(split, 0, "merge --store store -o union.profdata profiles");
    ck_assert_uint_eq(
        text_count(run_or_abort(split, versioned_tool("llvm-cov", "19"), "export", "-format=lcov",
                                "-instr-profile=union.profdata", "union.a", NULL),
                   "SF:/src/unit"),
        text_count(outcome.output, "SF:unit"));
    run(split, 2, text_format("export --store store --debug-dir x --path-map %s=/src", sources));

    /* Pages are made of sources in another place; of those that are nowhere, one is named. */
    run_or_abort(split, "cp", "-r", sources, "moved", NULL);
    outcome = run(split, 0,
                  text_format("report --store store --html moved-html --path-map %s=%s/moved "
                              "profiles",
                              sources, split));
    ck_assert_ptr_null(strstr(outcome.errors, "--path-map"));
    ck_assert_ptr_null(strstr(outcome.errors, "?["));
    run_or_abort(split, "sh", "-c", "test -n \"$(find moved-html -name unit1.cc.html)\"", NULL);
    outcome = run(
        split, 0,
        text_format("report --store store --html none --path-map %s=/nowhere profiles", sources));
    ck_assert_uint_eq(text_count(outcome.errors, "/nowhere"), 1);
    assert_says(outcome, "--path-map FROM=TO");
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

START_TEST(test_summary)
{
    char *split = path_join(sample, "split");
    run(split, 0, "report --store store --include / --format lcov -o lines profiles");
    run(split, 0, "report --store store --include / --summary -o summary profiles");
    check(split, "summary lines summary");
    /* On a terminal there are bars and colours, but where they are not wanted. */
    static const char *const environments[] = {"TERM=xterm", "TERM=dumb", "TERM=xterm NO_COLOR=1"};
    for (size_t i = 0; i < 6; i++) {
        const char *shown = run_or_abort(
            split, "sh", "-c",
            text_format("env -u NO_COLOR %s script -qec '%s report --store store --include / %s "
                        "profiles' /dev/null",
                        environments[i % 3], covsplit_path(), i < 3 ? "--summary" : ""),
            NULL);
        ck_assert_msg((strstr(shown, "\033[") != NULL) == (i % 3 == 0), "%zu: %s", i, shown);
        ck_assert(strstr(shown, "unit1.cc") != NULL);
        ck_assert(i != 0 || strstr(shown, "##") != NULL);
    }
}
END_TEST

/* Of two runs, one of which does less; and of a build of other sources. */
START_TEST(test_baseline)
{
    char *directory = path_join(scratch, text_format("baseline-%d", (int)getpid()));
    static const char before[] = "#include <stdlib.h>\n"
                                 "static int first(int n)\n{\n    return n + 1;\n}\n"
                                 "static int second(int n)\n{\n    if (n > 7)\n"
                                 "        return 3;\n    return n * 2;\n}\n"
                                 "int main(int count, char **words)\n{\n"
                                 "    return count > 2 ? second(atoi(words[1])) & 0\n"
                                 "                     : first(count) & 0;\n}\n";
    directory_create(directory);
    directory_create(path_join(directory, "before"));
    file_write_text(path_join(directory, "before/a.c"), before);
    file_write_text(path_join(directory, "before/gone.c"), "int gone(void)\n{\n return 1;\n}\n");
    run_or_abort(directory, "sh", "-c",
                 "cp -r before after; mv after/gone.c after/new.c; "
                 "sed -i '2i static int added(int n)\\n{\\n    return n;\\n}\\n"
                 "int unused(int n)\\n{\\n    return n;\\n}\\n' after/a.c; "
                 "sed -i 's/first(count)/added(first(count))/; s/return 3/return 4/' after/a.c; "
                 "for i in before after; do (cd $i && clang-19 -fprofile-instr-generate "
                 "-fcoverage-mapping -Wl,--build-id *.c -o app); done",
                 NULL);
    run(directory, 0, "split --store store before/app after/app");
    run_or_abort(directory, "sh", "-c",
                 "LLVM_PROFILE_FILE=one.profraw before/app 9 9; "
                 "LLVM_PROFILE_FILE=two.profraw before/app; "
                 "LLVM_PROFILE_FILE=three.profraw after/app",
                 NULL);
    const char *same = output(directory, "report --store store --baseline one.profraw one.profraw");
    ck_assert_uint_eq(text_count(same, "\n"), 1);
    const char *less = output(directory, "report --store store --baseline one.profraw two.profraw");
    assert_contains(less, "; functions now covered: a.c:first; "
                          "functions not covered any more: a.c:second\n");
    for (size_t i = 0; i < 2; i++) { /* of the same build, and of another one */
        const char *after = i == 0 ? "two" : "three";
        const char *words = text_format(
            "report --store store %s",
            i == 0 ? ""
                   : text_format("--path-map %s/after=%s/src --path-map %s/before=%s/src",
                                 directory, directory, directory, directory));
        run(directory, 0, text_format("%s --format lcov -o lines1 one.profraw", words));
        run(directory, 0, text_format("%s --format lcov -o lines2 %s.profraw", words, after));
        run(directory, 0,
            text_format("%s --baseline one.profraw -o found %s.profraw", words, after));
        check(directory, "baseline lines1 lines2 found");
    }
    assert_contains((const char *)file_read(path_join(directory, "found")).data,
                    "; new functions, covered: a.c:added; new functions, not covered: unused\n");
    run(directory, 0,
        "report --store store --baseline one.profraw --fail-under lines=1 two.profraw");
    assert_says(run(directory, 1,
                    "report --store store --baseline one.profraw --fail-under lines=99 "
                    "two.profraw"),
                "wants 99%");
    run(directory, 1, "report --store store --baseline nowhere two.profraw");
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
    static const char *const wrong[] = {"--fail-under lines",
                                        "--fail-under lines=x",
                                        "--fail-under line=1",
                                        "--fail-under lines=101",
                                        "--path-map nothing",
                                        "--html out --format lcov",
                                        "--open",
                                        "--summary --html x",
                                        "--ignore everything",
                                        "--baseline x --html y"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        run(split, 2, text_format("report --store store %s profiles", wrong[i]));
}
END_TEST

/* ---- what is missing ---- */

/* Compares tracefiles in which a function may be in the form of another build. */
static void assert_same_files(const char *found, const char *wanted)
{
    struct text_list left = text_list_of_lines(found), right = text_list_of_lines(wanted);
    size_t files = 0;
    ck_assert_uint_eq(text_count(found, "SF:"), text_count(wanted, "SF:"));
    for (size_t i = 0; i < right.count; i++) {
        if (strncmp(right.items[i], "SF:", 3) == 0) {
            bool is_there = false;
            for (size_t k = 0; k < left.count && !is_there; k++) {
                is_there = strcmp(left.items[k], right.items[i]) == 0;
            }
            ck_assert_msg(is_there, "%s", right.items[i]);
            files++;
        }
    }
    ck_assert_uint_gt(files, 2);
}

START_TEST(test_missing)
{
    char *split = path_join(sample, "split");
    run_or_abort(split, "sh", "-c",
                 "cp -r store part && ls part/.build-id/*/*.covsplit | head -1 | xargs rm", NULL);
    assert_says(run(split, 1, "report --store part profiles"), "no sidecar for its UUID");
    struct outcome outcome = run(split, 0, "report --store part --ignore missing profiles");
    assert_says(outcome, "the report lacks the image");
    ck_assert(strstr(outcome.output, "TOTAL") != NULL);
    static const char *const formats[] = {
        "", "--summary", "--format json", "--format summary", "--format cobertura", "--html left"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        outcome = run(split, 0,
                      text_format("report --store part --ignore missing %s profiles", formats[i]));
        if (strstr(formats[i], "html") != NULL) {
            outcome.output =
                text_format("%s", run_or_abort(split, "grep", "-rh", "left out", "left", NULL));
        } else if (strstr(formats[i], "json") != NULL ||
                   strstr(formats[i], "summary") == formats[i] + 9) {
            file_write_text(path_join(split, "json"), outcome.output);
            run_or_abort(split, "python3", "-m", "json.tool", "json", NULL);
        }
        assert_contains(outcome.output, "left out, such as profiles/");
    }
    assert_says(run(split, 1, "report --store store " APP), "no profile is named");
    file_write_text(path_join(split, "bad.profraw"), "not a profile");
    assert_says(run(split, 1, "report --store store --ignore missing profiles bad.profraw"),
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

    /* Two builds in one store: each has its report, and both have one. */
    struct command again = command_words(split, "./out");
    text_list_add(&again.environment, "LLVM_PROFILE_FILE=other/%m.profraw");
    command_run_or_abort(&again);
    run(split, 0, "merge --store store -o both.profdata profiles other");
    assert_equal(output(split, "report --store store --include / --format lcov profiles"), without,
                 "beside another build");
    const char *both =
        output(split, "report --store store --include / --format lcov profiles other");
    struct command cov = command_words(
        split, "llvm-cov-19 export -format=lcov -instr-profile=both.profdata ../unsplit/" APP
               " -object ../unsplit/" LIBRARY " -object ../unsplit/" PLUGIN " -object");
    text_list_add(&cov.arguments, path_join(directory, APP));
    assert_same_files(both, command_run_or_abort(&cov));
}
END_TEST

/* ---- a cargo workspace ---- */

/* `covsplit test -- cargo test` of two crates whose test programs were split. An inline function
 * that a program does not use is a record without counters there, which llvm-cov leaves out. */
START_TEST(test_cargo)
{
    struct command version = command_words(NULL, "sh -c");
    text_list_add(&version.arguments, "rustc -vV | sed -n 's/LLVM version: \\([0-9]*\\).*/\\1/p'; "
                                      "cargo --version >/dev/null");
    const char *llvm = strtok(command_run(&version).output, "\n");
    if (llvm == NULL || atoi(llvm) != 22) {
        return; /* not here, or without LLVM's tools of this version */
    }
    char *directory = path_join(scratch, text_format("cargo-%d", (int)getpid()));
    static const char *const crates[] = {"one", "two"};
    directory_create(directory);
    file_write_text(path_join(directory, "Cargo.toml"),
                    "[workspace]\nmembers = ['one', 'two']\nresolver = '2'\n");
    for (size_t i = 0; i < 2; i++) {
        run_or_abort(directory, "mkdir", "-p", text_format("%s/src", crates[i]), NULL);
        file_write_text(path_join(directory, text_format("%s/Cargo.toml", crates[i])),
                        text_format("[package]\nname = '%s'\nversion = '0.1.0'\n"
                                    "edition = '2021'\n[dependencies]\n%s",
                                    crates[i], i == 0 ? "" : "one = { path = '../one' }\n"));
        file_write_text(path_join(directory, text_format("%s/src/lib.rs", crates[i])),
                        text_format("pub fn f%zu(n: u32) -> u32 {\n    if n > 3 { n } else { 2 * n "
                                    "}\n}\n#[inline(always)]\npub fn inlined(n: u32) -> u32 {\n"
                                    "    if n > 3 { n } else { 0 }\n}\n"
                                    "#[test]\nfn works() {\n    assert_eq!(%s, 2);\n}\n",
                                    i, i == 0 ? "f0(1)" : "f1(one::f0(5)) - 3"));
    }
    run_or_abort(directory, "mkdir", "one/tests", NULL);
    file_write_text(path_join(directory, "one/tests/inlined.rs"),
                    "#[test]\nfn works() {\n    assert_eq!(one::inlined(4), 4);\n}\n");
    static const char environment[] = "export RUSTFLAGS='-C instrument-coverage' "
                                      "CARGO_TARGET_DIR=$PWD/target CARGO_NET_OFFLINE=true; ";
    run_or_abort(directory, "sh", "-c",
                 text_format("%s LLVM_PROFILE_FILE=/dev/null cargo test --no-run 2>/dev/null && "
                             "mkdir original && find target/debug/deps -type f -executable ! "
                             "-name '*.so' -exec cp {} original \\;",
                             environment),
                 NULL);
    run_or_abort(
        directory, "sh", "-c",
        text_format("cd target/debug/deps && for i in $(ls ../../../original); do %s split "
                    "--store ../../../store $i || exit 1; done",
                    covsplit_path()),
        NULL);
    run_or_abort(
        directory, "sh", "-c",
        text_format("%s exec %s test --store store --include / --format lcov -o lines --fail-under "
                    "lines=1 --llvm-cov llvm-cov-22 --llvm-profdata llvm-profdata-22 -- cargo test",
                    environment, covsplit_path()),
        NULL);
    const char *wanted = run_or_abort(
        directory, "sh", "-c",
        "for i in original/*; do LLVM_PROFILE_FILE=full/%m.profraw $i >/dev/null || exit 1; "
        "words=\"$words${words:+ -object }$i\"; done; "
        "llvm-profdata-22 merge -o full.profdata full/* && "
        "llvm-cov-22 export -format=lcov -instr-profile=full.profdata $words",
        NULL);
    assert_equal((const char *)file_read(path_join(directory, "lines")).data, wanted, "cargo");
    ck_assert_uint_eq(text_count(wanted, "/src/lib.rs\n"), 2);
}
END_TEST

/* ---- covsplit test ---- */

/* What runs tests: several at a time, in other directories, with a part of the environment. */
START_TEST(test_runners)
{
    char *split = path_join(sample, "split");
    const char *app = path_join(split, APP);
    run_or_abort(split, "mkdir", "-p", "suite/elsewhere", NULL);
    file_write_text(path_join(split, "suite/CMakeLists.txt"),
                    text_format("cmake_minimum_required(VERSION 3.16)\nproject(suite NONE)\n"
                                "enable_testing()\nforeach(i RANGE 5)\nadd_test(NAME t${i} "
                                "COMMAND %s)\nendforeach()\n",
                                app));
    file_write_text(path_join(split, "suite/Makefile"),
                    text_format("check: 1 2 3 4 5 6\n1 2 3 4 5 6:\n\tcd elsewhere && env -u HOME "
                                "-u LOGNAME %s >&2\n",
                                app));
    file_write_text(path_join(split, "suite/test_app.py"),
                    text_format("import os, subprocess, unittest\nclass Test(unittest.TestCase):\n"
                                "  def test(self):\n    for i in range(6):\n"
                                "      subprocess.run(['%s'], cwd='/', check=True, stdout=2)\n",
                                app));
    run_or_abort(split, "cmake", "-S", "suite", "-B", "suite/build", NULL);
    static const char *const runners[] = {"ctest -j3 --test-dir suite/build",
                                          "make -j3 -C suite check",
                                          "python3 -m unittest suite/test_app.py"};
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++) {
        struct command command =
            covsplit_command(split, "test", "--store", "store", "--format", "lcov", "-o", "lines",
                             "--include", "/", "--", NULL);
        text_list_add_words(&command.arguments, runners[i]);
        text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", split);
        command_run_or_abort(&command);
        ck_assert_msg(text_count((const char *)file_read(path_join(split, "lines")).data,
                                 "FNDA:6,main\n") == 1,
                      "%s", runners[i]);
    }
    /* A signal is passed on. */
    struct command command =
        covsplit_command(split, "test", "--store", "store", "--", "sh", "-c",
                         "trap 'exit 5' TERM; kill -TERM $PPID; sleep 9 & wait", NULL);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 5), "%s", outcome_describe(&command, &outcome));
    /* A state sums up. */
    command = covsplit_command(split, "test", "--store", "store", "--into", "sums", "--format",
                               "lcov", "-o", "lines", "--", "./" APP, NULL);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", split);
    command_run_or_abort(&command);
    command_run_or_abort(&command);
    ck_assert_uint_eq(
        text_count((const char *)file_read(path_join(split, "lines")).data, "FNDA:2,main\n"), 1);
    run(split, 2, "test --store store --into sums --profiles x -- true");
}
END_TEST

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
    ck_assert_str_eq(outcome.errors, "covsplit: error: sh: ended by signal 9 (Killed) before any "
                                     "program wrote a profile; run it by itself to see why\n");
    *script = "sh -c 'kill -6 $$'; exit $?";
    outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 134));
    assert_says(outcome, "sh: returned 134 (a signal: Aborted), and no program wrote a profile: ");
    *script = "exit 3";
    outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 3));
    assert_says(outcome, "sh: returned 3, and no program wrote a profile: ");
    /* If there are profiles, the signal says enough. */
    *script = "./" APP " >&2; kill -9 $$";
    outcome = command_run(&command);
    ck_assert_int_eq(outcome.signal, SIGKILL);
    ck_assert_str_eq(outcome.output, "");
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: "), 0);
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
    ck_assert_uint_eq(
        text_count(run(split, 127, "test --store store -- ./nowhere").errors, "covsplit: "), 1);
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
    suite_tests(all, test_inputs, test_selection, test_cobertura, test_summary, test_baseline,
                test_limits, test_missing, test_one_program, test_cargo, test_command,
                test_runners);
    return suite_main("report", all);
}
