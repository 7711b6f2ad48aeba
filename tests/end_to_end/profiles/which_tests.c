/*
 * Which tests reach which functions: what `merge --into STATE --by` records and `show --tests`
 * prints is compared with what llvm-profdata prints for the profiles of each test alone; in any
 * order, by many writers, and with processes killed.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/mutation.h"
#include "tests/support/program.h"

static const char *clang_version, *linker_name;

/* What each test runs: both programs, by their arguments. */
static const struct {
    const char *name;
    const char *one;
    const char *two; /* NULL: not run */
} tests[] = {
    {"box", "box", NULL},       {"deep/er", "box helper", "x"}, {"helper", "a b c helper", NULL},
    {"nothing", "", ""},        {"parts", "a part", "x y"},     {"real", "real both", NULL},
    {"zz", "both helper", "x"},
};

#define TEST_COUNT (sizeof(tests) / sizeof(tests[0]))

static const char *scratch;

/* ---- programs and profiles ---- */

static void build(const char *name, const char *options)
{
    const char *source = text_format("%s/which_tests/%s.cc", COVSPLIT_FIXTURE_DIRECTORY, name);
    struct command command = {.directory = scratch};

    text_list_add_words(&command.arguments,
                        text_format("clang++-%s -fuse-ld=%s -O0 -Wl,--build-id %s -o %s %s",
                                    clang_version, linker_name, INSTRUMENT_COVERAGE, name,
                                    options));
    text_list_add(&command.arguments, source);
    command_run_or_abort(&command);
    covsplit_run_words(scratch, 0, text_format("split --store store -o %s.split %s", name, name));
}

/* Runs a program into DIRECTORY/TEST/. */
static void run_program(const char *program, const char *words, const char *directory,
                        const char *test)
{
    struct command command = command_words(scratch, "%s/%s", scratch, program);

    text_list_add_words(&command.arguments, words);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s/%%p.profraw", directory,
                         test);
    command_expect(&command, 0);
}

/* `ending` is "" for the original programs. */
static void run_test(size_t test, const char *ending, const char *directory)
{
    run_program(text_format("one%s", ending), tests[test].one, directory, tests[test].name);
    if (tests[test].two != NULL)
        run_program(text_format("two%s", ending), tests[test].two, directory, tests[test].name);
}

static void make_programs(const char *label, const char *options)
{
    scratch = scratch_create(label);
    build("one", options);
    build("two", options);
}

static void make_profiles(const char *ending, const char *directory)
{
    for (size_t i = 0; i < TEST_COUNT; i++)
        run_test(i, ending, directory);
}

static struct outcome run_words(int exit_code, const char *words)
{
    return covsplit_run_words(scratch, exit_code, words);
}

static void say(const char *words, const char *part)
{
    assert_contains(run_words(1, words).errors, part);
}

/* ---- as llvm-profdata has it ---- */

static const char *profdata_show(const char *option, const char *profile)
{
    return run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "show", option,
                        profile, NULL);
}

/* The names in a list with all that llvm-profdata says of each function. */
static struct text_list list_functions(const char *profile)
{
    struct text_list lines = text_list_of_lines(profdata_show("--all-functions", profile));
    struct text_list names = {0};

    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.items[i];
        size_t length = strlen(line);

        if (strncmp(line, "  ", 2) == 0 && line[2] != ' ' && line[length - 1] == ':')
            text_list_add_format(&names, "%.*s", (int)(length - 3), line + 2);
    }
    ck_assert_uint_gt(names.count, 10);
    return names;
}

static struct text_list list_covered(const char *directory, size_t test)
{
    const char *output = text_format("covered-%zu.profdata", test);

    run_words(0, text_format("merge --store store --llvm-profdata %s -o %s %s/%s",
                             versioned_tool("llvm-profdata", clang_version), output, directory,
                             tests[test].name));
    return text_list_of_lines(profdata_show("--covered", output));
}

/* What `show --tests` must print of all functions. */
static const char *expected_output(const struct text_list *functions,
                                   const struct text_list *covered)
{
    char *text = "";

    for (size_t i = 0; i < functions->count; i++) {
        size_t count = 0;
        char *list = "";

        for (size_t test = 0; test < TEST_COUNT; test++) {
            if (text_list_contains(&covered[test], functions->items[i])) {
                list = text_format("%s  %s\n", list, tests[test].name);
                count++;
            }
        }
        if (count == 0)
            text = text_format("%s%s: no test reaches it, of %zu\n", text, functions->items[i],
                               TEST_COUNT);
        else
            text = text_format("%s%s: reached by %zu of %zu tests\n%s", text, functions->items[i],
                               count, TEST_COUNT, list);
    }
    return text;
}

/* What is printed, less the images. */
static const char *shown_output(const struct text_list *functions, const char *state)
{
    struct command command = covsplit_command(scratch, "show", "--store", "store", state, NULL);
    struct text_list lines;
    char *text = "";

    for (size_t i = 0; i < functions->count; i++)
        text_list_add_format(&command.arguments, "--tests=%s", functions->items[i]);
    lines = text_list_of_lines(command_expect(&command, 0).output);
    for (size_t i = 0; i < lines.count; i++) {
        char *line = lines.items[i], *images;

        if (strncmp(line, "  ", 2) == 0 && (images = strstr(line + 2, "  ")) != NULL)
            *images = '\0';
        text = text_format("%s%s\n", text, line);
    }
    return text;
}

static const struct {
    const char *label;
    unsigned since; /* the first clang */
    const char *options;
} kinds[] = {
    {"plain", 14, ""},
    {"mcdc", 19, "-fcoverage-mcdc"},
    {"bytes", 19, "-mllvm -enable-single-byte-coverage=true"},
    {"binary", 19, "-mllvm -profile-correlate=binary"},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* With lightweight profiles, with full ones, and with a mixture. */
START_TEST(test_as_llvm)
{
    bool is_binary = strcmp(kinds[_i].label, "binary") == 0;
    struct text_list covered[TEST_COUNT], functions;
    const char *expected;

    if (atoi(clang_version) < (int)kinds[_i].since)
        return;
    make_programs(kinds[_i].label, kinds[_i].options);
    make_profiles(".split", "light");
    make_profiles("", "full");
    for (size_t i = 0; i < TEST_COUNT; i++)
        covered[i] = list_covered("light", i);
    run_words(0, text_format("merge --store store --llvm-profdata %s -o all.profdata light",
                             versioned_tool("llvm-profdata", clang_version)));
    functions = list_functions("all.profdata");
    expected = expected_output(&functions, covered);
    run_words(0, "merge --store store --into light-state --by-path light");
    ck_assert_str_eq(shown_output(&functions, "light-state"), expected);
    run_words(0, "merge --store store --into full-state --by-path full");
    ck_assert_str_eq(shown_output(&functions, "full-state"), expected);
    run_words(0, "merge --store store --into mixed --by-path light");
    run_words(0, "merge --store store --into mixed --by-path full");
    ck_assert_str_eq(shown_output(&functions, "mixed"), expected);
    /* Full profiles have their names with them. */
    if (!is_binary) {
        run_words(0, "merge --into alone --by-path full");
        assert_contains(run_words(0, "show --tests never_called alone").output,
                        "never_called: no test reaches it, of 7\n");
    }
}
END_TEST

/* ---- orders and writers ---- */

/* Less the sizes of files, which list the batches that were added last. */
static const char *describe(const char *state)
{
    struct text_list lines =
        text_list_of_lines(run_words(0, text_format("show --json --store store %s", state)).output);
    char *text = "";

    for (size_t i = 0; i < lines.count; i++) {
        if (strstr(lines.items[i], "\"size\": ") == NULL &&
            strstr(lines.items[i], "\"file\": ") == NULL)
            text = text_format("%s%s\n", text, lines.items[i]);
    }
    return text;
}

static const char *tell_helper(const char *state)
{
    return run_words(0, text_format("show --store store --tests one.cc:_ZL6helperi "
                                    "--tests _Z7in_bothi %s",
                                    state))
        .output;
}

static void assert_same_state(const char *state, const char *other)
{
    ck_assert_str_eq(describe(state), describe(other));
    ck_assert_str_eq(tell_helper(state), tell_helper(other));
}

START_TEST(test_orders)
{
    struct command writers[TEST_COUNT];
    struct outcome outcomes[TEST_COUNT];

    make_programs("orders", "");
    make_profiles(".split", "light");
    run_words(0, "merge --store store --into whole --by-path light");
    for (size_t i = TEST_COUNT; i-- > 0;)
        run_words(0, text_format("merge --store store --into backwards --by %s light/%s",
                                 tests[i].name, tests[i].name));
    assert_same_state("whole", "backwards");
    for (size_t i = 0; i < TEST_COUNT; i++)
        writers[i] = covsplit_words(scratch, text_format("merge --store store --into together "
                                                         "--by %s light/%s",
                                                         tests[i].name, tests[i].name));
    commands_run_together(writers, TEST_COUNT, outcomes);
    for (size_t i = 0; i < TEST_COUNT; i++)
        ck_assert_msg(outcome_exited(&outcomes[i], 0), "%s", outcomes[i].errors);
    assert_same_state("whole", "together");
    /* A state into another one, with its tests; and two halves. */
    run_words(0, "merge --store store --into copy whole");
    assert_same_state("whole", "copy");
    run_words(0, "merge --store store --into half --by half light/box light/deep");
    run_words(0, "merge --store store --into half copy");
    assert_contains(run_words(0, "show --store store half").output,
                    "state of a merge: 14 profiles of 2 images, 8 tests\n");
}
END_TEST

/* Profiles that are deleted as they count. */
START_TEST(test_consumed)
{
    make_programs("consumed", "");
    make_profiles(".split", "light");
    make_profiles(".split", "again");
    run_or_abort(scratch, "cp", "-r", "light", "kept", NULL);
    run_words(0, "merge --store store --into whole --by-path kept");
    run_words(0, "merge --store store --into eaten --consume --by-path light");
    assert_same_state("whole", "eaten");
    run_or_abort(scratch, "sh", "-c", "test -z \"$(find light -type f)\"", NULL);
    /* By one name, and one that is directly there. */
    run_words(0, "merge --store store --into named --consume --by all again/box again/zz");
    run_or_abort(scratch, "sh", "-c", "mv again/real/*.profraw again/right-here.profraw", NULL);
    run_words(0, "merge --store store --into named --consume --by-path again");
    assert_contains(run_words(0, "show --store store --tests main named").output,
                    "main: reached by 6 of 6 tests\n  all         one, two\n");
    assert_contains(run_words(0, "show --store store --tests main named").output,
                    "\n  right-here  one\n");
    run_or_abort(scratch, "sh", "-c", "test -z \"$(find again -type f)\"", NULL);
}
END_TEST

/* A test that was run several times is one test. */
START_TEST(test_one_name)
{
    make_programs("one-name", "");
    run_program("one.split", "box", "first", "t");
    run_program("one.split", "a part", "second", "t");
    run_words(0, "merge --store store --into state --by t first");
    run_words(0, "merge --store store --into state --by t second/t");
    assert_contains(run_words(0, "show --store store state").output,
                    "state of a merge: 2 profiles of 1 image, 1 test\n");
    ck_assert_str_eq(
        run_words(0, "show --store store --tests last_part_only --tests _ZN6shapes3BoxC2Ei state")
            .output,
        "last_part_only: reached by 1 of 1 test\n  t\n"
        "_ZN6shapes3BoxC2Ei: reached by 1 of 1 test\n  t\n");
}
END_TEST

/* What only profiles reach that belong to no test is not said to be reached by nothing. */
START_TEST(test_no_test)
{
    make_programs("no-test", "");
    run_program("one.split", "box", "first", "t");
    run_program("one.split", "a part", "second", "t");
    run_words(0, "merge --store store --into state --by t first");
    run_words(0, "merge --store store --into state second");
    ck_assert_str_eq(
        run_words(0, "show --store store --tests last_part_only --tests never_called state").output,
        "last_part_only: no test reaches it, of 1; profiles that belong to no test do\n"
        "never_called: no test reaches it, of 1\n");
    assert_contains(run_words(0, "show --json --store store --tests last_part_only state").output,
                    "\"reached\": true");
    assert_contains(run_words(0, "show --json --store store --tests never_called state").output,
                    "\"reached\": false");
}
END_TEST

/* ---- names of tests ---- */

START_TEST(test_names_by_path)
{
    static const char *const rows[][2] = {
        /* profile, and what the tests are called if "in" is added */
        {"in/a.profraw", "a"},       {"in/b.profraw.zst.profraw", "b.profraw.zst"},
        {"in/.profraw", ".profraw"}, {"in/c", "c"},
        {"in/d/1.profraw", "d"},     {"in/d/2.profraw", "d"},
        {"in/e/f/3.profraw", "e/f"}, {"in/g h/\"i\"\n/4.profraw", "g h/\"i\"\n"},
    };
    struct outcome outcome;

    make_programs("by-path", "");
    run_program("two.split", "", ".", "p");
    run_or_abort(scratch, "sh", "-c",
                 "mv p/*.profraw one.profraw; mkdir -p in/d in/e/f \"in/g h/\\\"i\\\"\n\"", NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        file_copy(path_join(scratch, "one.profraw"), path_join(scratch, rows[i][0]));
    run_words(0, "merge --store store --into state --by-path in/");
    outcome = run_words(0, "show --store store --tests main state");
    ck_assert_str_eq(outcome.output, "main: reached by 7 of 7 tests\n  .profraw\n  a\n"
                                     "  b.profraw.zst\n  c\n  d\n  e/f\n  g h/\"i\"?\n");
    outcome = run_words(0, "show --json --store store --tests main state");
    assert_contains(outcome.output, "\"g h/\\\"i\\\"\\u000a\"");
    /* A file that is itself named. */
    run_words(0, "merge --store store --into files --by-path in/a.profraw in/d/1.profraw");
    ck_assert_str_eq(run_words(0, "show --store store --tests main files").output,
                     "main: reached by 2 of 2 tests\n  1\n  a\n");
}
END_TEST

START_TEST(test_names)
{
    static const char *const names[] = {"%s%n", "-x", "\t", "/", "\xff", "a\nb", "é"};
    struct outcome outcome;

    make_programs("names", "");
    run_program("two.split", "", ".", "p");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct command command =
            covsplit_command(scratch, "merge", "--store", "store", "--into", "state", NULL);

        text_list_add_format(&command.arguments, "--by=%s", names[i]);
        text_list_add(&command.arguments, "p");
        command_expect(&command, 0);
    }
    outcome = run_words(0, "show --store store --tests main state");
    assert_contains(outcome.output, "main: reached by 7 of 7 tests\n");
    assert_contains(outcome.output, "  %s%n\n  -x\n  /\n  a?b\n");
    outcome = run_words(0, "show --json --store store state");
    assert_contains(outcome.output, "\"a\\u000ab\"");
    assert_contains(outcome.output, "\"\xef\xbf\xbd\"");

    say(text_format("merge --store store --into state --by %s p",
                    text_replace(text_format("%*s", 4097, ""), " ", "n")),
        "the name of a test has 4097 bytes");
    ck_assert_int_eq(
        covsplit_run(scratch, "merge", "--into", "state", "--by", "", "p", NULL).exit_code, 2);
    ck_assert_int_eq(
        covsplit_run(scratch, "merge", "--into", "s", "--by", "x", "--by-path", "p", NULL)
            .exit_code,
        2);
    assert_contains(run_words(2, "merge -o x.profdata --by x p").errors, "are for '--into'");
    assert_contains(run_words(2, "merge -o x.profdata --by-path p").errors, "are for '--into'");
    say("merge --store store --into state --by-path -", "has no path to name a test by");
}
END_TEST

/* ---- names of functions ---- */

START_TEST(test_functions)
{
    static const struct {
        const char *words;
        const char *said; /* on standard output, or with status 1 as an error */
        int status;
    } rows[] = {
        {"main", "main: reached by 7 of 7 tests\n  box      one\n  deep/er  one, two\n", 0},
        {"never_called", "never_called: no test reaches it, of 7\n", 0},
        {"one.cc:_ZL6helperi", "one.cc:_ZL6helperi: reached by 3 of 7 tests\n", 0},
        {"_ZL6helperi",
         "_ZL6helperi: 2 functions have this name; give one of these: one.cc:_ZL6helperi, "
         "two.cc:_ZL6helperi\n",
         1},
        /* One in each program, which are the same demangled. */
        {"helper", "helper: reached by 4 of 7 tests\n", 0},
        {"last_part_only", "last_part_only: reached by 1 of 7 tests\n  parts\n", 0},
        {"shapes::Box::area(int)",
         "shapes::Box::area(int): no function has this name; give it as llvm-profdata or llvm-cov "
         "show it\n",
         1},
        {"shapes::Box::area(int)const", "no function has this name", 1},
        {"shapes::Box::area",
         "2 functions have this name; give one of these: "
         "_ZNK6shapes3Box4areaEd, _ZNK6shapes3Box4areaEi\n",
         1},
        {"shapes::Box::twice<int>", "shapes::Box::twice<int>: reached by 2 of 7 tests\n", 0},
        {"shapes::Box::Box", "shapes::Box::Box: reached by 3 of 7 tests\n", 0},
        {"shapes::Box::~Box", "shapes::Box::~Box: reached by 3 of 7 tests\n", 0},
        {"in_both(int)",
         "in_both(int): reached by 4 of 7 tests\n"
         "  deep/er  two\n  parts    two\n  real     one\n  zz       one, two\n",
         0},
        {"in_bot", "in_bot: no function has this name", 1},
        {"Box", "no function has this name", 1},
        {"", "", 2},
    };

    make_programs("functions", "");
    make_profiles(".split", "light");
    run_words(0, "merge --store store --into state --by-path light");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct command command =
            covsplit_command(scratch, "show", "--store", "store", "state", NULL);
        struct outcome outcome;

        text_list_add_format(&command.arguments, "--tests=%s", rows[i].words);
        outcome = command_expect(&command, rows[i].status);
        assert_contains(rows[i].status == 0 ? outcome.output : outcome.errors, rows[i].said);
        ck_assert(rows[i].status == 0 || outcome.output_size == 0);
    }
}
END_TEST

START_TEST(test_questions)
{
    struct command command;

    make_programs("questions", "");
    make_profiles(".split", "light");
    run_words(0, "merge --store store --into state --by-path light");
    /* Several functions, one of which is not there; JSON is whole all the same. */
    command = covsplit_words(scratch, "show --json --store store --tests main --tests nowhere "
                                      "--tests never_called state");
    struct outcome outcome = command_expect(&command, 1);
    assert_contains(outcome.errors, "covsplit: error: nowhere: no function has this name");
    file_write(path_join(scratch, "out.json"), outcome.output, outcome.output_size);
    run_or_abort(scratch, "python3", "-c",
                 "import json\n"
                 "main, never = json.load(open('out.json'))\n"
                 "assert main['file'] == 'state' and main['names'] == ['main'], main\n"
                 "assert main['test_count'] == 7 and len(main['tests']) == 7, main\n"
                 "assert sorted(i['image_name'] for i in main['images']) == ['one', 'two'], main\n"
                 "assert all(len(i['uuid']) >= 16 for i in main['images']), main\n"
                 "assert {len(i['tests']) for i in main['images']} == {4, 7}, main\n"
                 "assert never['tests'] == [] and never['test_count'] == 7, never\n"
                 "assert len(never['images']) == 1 and never['images'][0]['tests'] == [], never\n",
                 NULL);
    /* Without a demangler there are still the names in profiles. */
    run_or_abort(scratch, "mkdir", "nothing", NULL);
    command = covsplit_words(scratch, "show --store store --tests shapes::Box::Box state");
    text_list_add(&command.environment, "PATH=nothing");
    command.arguments.items[0] = (char *)covsplit_path();
    assert_contains(command_expect(&command, 1).errors, "install llvm-cxxfilt or c++filt");
    /* Where sidecars are, and are not. */
    run_words(0, "show --sidecar store --tests main state");
    say("show --tests main state", "state/images/");
    assert_contains(run_words(0, "show state").output, "state of a merge: 11 profiles of 2 images");
    run_words(0, "merge --store store --into none light");
    say("show --store store --tests main none",
        "none: has no tests; add profiles to it with 'covsplit merge --into none --by NAME'");
    say("show --store store --tests main light", "light: ");
    say("show --store store --tests main missing", "missing: ");
    assert_contains(run_words(2, "show --tests main --map state").errors, "--map");
    assert_contains(run_words(2, "show --sidecar store one").errors, "'--sidecar' is for");
    /* Profiles without a test, beside those with one. */
    run_words(0, "merge --store store --into state light/box");
    assert_contains(run_words(0, "show --store store --tests main state").output, "7 of 7 tests");
    assert_contains(run_words(0, "show state").output, "state of a merge: 12 profiles");
}
END_TEST

/* ---- what goes wrong ---- */

/* Each run is killed at some moment: a profile counts with its test, or is as if it had not been
 * read. What is consumed counts at the end. */
START_TEST(test_kills)
{
    unsigned count = rounds(200);
    struct outcome outcome;

    make_programs("kills", "");
    run_program("two.split", "", ".", "p");
    run_or_abort(scratch, "sh", "-c", "mkdir eaten; cp p/*.profraw one.profraw", NULL);
    run_words(0, "merge --store store --into state --by first p");
    for (unsigned i = 0; i < count; i++) {
        const char *words =
            i % 2 == 0 ? text_format("--by kept-%u p", i) : "--consume --by-path eaten";
        struct command command =
            covsplit_words(scratch, text_format("merge --store store --into state %s", words));

        file_copy(path_join(scratch, "one.profraw"),
                  path_join(scratch, text_format("eaten/t%u.profraw", i)));
        command_kill_after(&command, 0.0002 * (i % 100));
    }
    run_words(0, "merge --store store --into state --by last p");
    run_words(0, "merge --store store --into state --consume --by-path eaten");
    run_or_abort(scratch, "sh", "-c", "test -z \"$(find eaten -type f)\"", NULL);
    outcome = run_words(0, "show --json --store store state");
    file_write(path_join(scratch, "out.json"), outcome.output, outcome.output_size);
    run_or_abort(scratch, "python3", "-c",
                 text_format("import json\n"
                             "state, = json.load(open('out.json'))\n"
                             "tests = state['tests']\n"
                             "assert state['profile_count'] == len(tests) >= 2, state\n"
                             "assert all(t['function_count'] == 1 for t in tests), tests\n"
                             "assert sum(t['name'].startswith('t') for t in tests) == %u, tests\n",
                             count),
                 NULL);
}
END_TEST

/* The only file of an image. */
static char *image_file(const char *state)
{
    char *images = path_join(scratch, text_format("%s/images", state));

    return path_join(images, directory_list(images).items[0]);
}

START_TEST(test_damage)
{
    unsigned count = rounds(500), refused = 0;
    struct contents good;
    const char *path, *expected;

    make_programs("damage", "");
    run_program("one.split", "box", ".", "p");
    run_words(0, "merge --store store --into state --by test p");
    expected = run_words(0, "show --store store --tests main state").output;
    path = image_file("state");
    good = file_read(path);
    for (unsigned seed = 0; seed < count; seed++) {
        char *description;
        struct contents bad = mutate_bytes(&good, seed, &description);
        struct command command = hostile_command(scratch, "show --store store --tests main state");
        struct outcome outcome;
        struct verdict verdict = {0};

        file_write(path, bad.data, bad.size);
        outcome = command_run(&command);
        if (outcome.exit_code == 0) {
            ck_assert_msg(strcmp(outcome.output, expected) == 0, "%s", description);
        } else {
            covsplit_refused(&command, &outcome, &verdict);
            verdict_assert(&verdict, description);
            refused++;
        }
        outcome_free(&outcome);
        command_free(&command);
        contents_free(&bad);
        free(description);
    }
    ck_assert_uint_gt(refused, count / 2);
}
END_TEST

int main(int argument_count, char **arguments)
{
    TCase *all = suite_case("all", 600, NULL);

    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    suite_loops(all, KINDS, test_as_llvm);
    suite_tests(all, test_orders, test_consumed, test_one_name, test_no_test, test_names_by_path,
                test_names, test_functions, test_questions, test_kills, test_damage);
    hostile_fork(true);
    return suite_main(text_format("which tests clang-%s %s", clang_version, linker_name), all);
}
