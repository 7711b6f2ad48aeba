/*
 * Profiles and sidecars that do not belong together: two builds under one UUID, or two splits of
 * one image. Every command that puts them together either takes the right sidecar, or says that it
 * has none.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define ID_BY_HAND "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567"

static const char *const pairs = COVSPLIT_FIXTURE_DIRECTORY "/../support/pairs.py";
static const char *clang;
static char *scratch;

/* ---- what is built ---- */

/* Builds DIRECTORY/app.c, with so many empty lines in front, as NAME. */
static void build(const char *name, unsigned lines, const char *options)
{
    char *path = path_join(scratch, "app.c");
    static const char empty[] = "\n\n\n\n";
    file_write_text(path,
                    text_format("%.*sstatic int less(int n)\n{\n    return n > 1 ? n : 1;\n}\n"
                                "int main(int count, char **words)\n{\n"
                                "    return words == 0 || less(count) == 0;\n}\n",
                                (int)lines, empty));
    run_or_abort(scratch, "sh", "-c",
                 "exec $0 -fprofile-instr-generate -fcoverage-mapping -no-pie $2 app.c -o $1",
                 versioned_tool("clang", clang), name, options, NULL);
}

/* Splits NAME to OUTPUT, with side/OUTPUT.covsplit, and runs that, which writes OUTPUT.profraw. */
static void split_and_run(const char *name, const char *output, const char *options)
{
    covsplit_run_words(
        scratch, 0,
        text_format("split %s -o %s --sidecar side/%s.covsplit %s", options, output, output, name));
    run_or_abort(scratch, "env", text_format("LLVM_PROFILE_FILE=%s.profraw", output),
                 text_format("./%s", output), NULL);
}

/* ---- the commands ---- */

static const char *const makers[] = {"correlate -o made",
                                     "merge -o made.profraw",
                                     "merge -o made.profdata",
                                     "merge --into state",
                                     "merge --explain -o made.profdata",
                                     "report --include / --format lcov"};

#define MAKER_COUNT (sizeof makers / sizeof *makers)

static void assert_says(const char *said, const char *part, const char *words)
{
    ck_assert_msg(strstr(said, part) != NULL, "%s does not say '%s': %s", words, part, said);
}

static void expect_refused(const char *sidecars, const char *profile, const char *said)
{
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        const char *words = text_format("%s %s %s.profraw", makers[i], sidecars, profile);
        assert_says(covsplit_run_words(scratch, 1, words).errors, said, words);
    }
    /* llvm-profdata gets the profile itself then, and refuses that. */
    const char *words = text_format("run %s -- %s merge -o made.profdata %s.profraw", sidecars,
                                    versioned_tool("llvm-profdata", clang), profile);
    assert_says(covsplit_run_words(scratch, 1, words).errors, said, words);
}

static void expect_taken(const char *sidecars, const char *profile)
{
    covsplit_run_words(scratch, 0,
                       text_format("correlate -o %s.full --sidecar side/%s.covsplit %s.profraw",
                                   profile, profile, profile));
    for (size_t i = 0; i < MAKER_COUNT; i++) {
        covsplit_run_words(scratch, 0,
                           text_format("%s %s %s.profraw", makers[i], sidecars, profile));
    }
    files_assert_equal(path_join(scratch, "made"),
                       path_join(scratch, text_format("%s.full", profile)), sidecars);
    covsplit_run_words(scratch, 0,
                       text_format("run %s -- cmp %s.profraw %s.full", sidecars, profile, profile));
}

/* ---- the tests ---- */

/* One image, split in several ways: each way's profile goes with its own sidecar only. */
START_TEST(test_splits)
{
    static const struct {
        const char *name, *options;
    } ways[] = {{"whole", ""},
                {"mapping", "--sections covmap,covfun"},
                {"names", "--sections names,covmap,covfun"}};
    build("app", 0, "-Wl,--build-id=sha1");
    for (size_t i = 0; i < 3; i++) {
        split_and_run("app", ways[i].name, ways[i].options);
    }
    expect_refused("--sidecar side/mapping.covsplit", "whole", "its image lacks its names");
    expect_refused("--sidecar side/names.covsplit", "whole", "its image lacks its records");
    expect_refused("--sidecar side/mapping.covsplit", "names", "its image lacks its names");
    expect_refused("--sidecar side/whole.covsplit", "names", "its image has its records");
    expect_taken("--sidecar side/mapping.covsplit --sidecar side/whole.covsplit", "whole");
    expect_taken("--sidecar side/names.covsplit --sidecar side/whole.covsplit", "whole");
    expect_taken("--sidecar side", "whole");
    expect_taken("--sidecar side", "names");
    /* A store that was split to again has another sidecar than that beside it. */
    covsplit_run_words(scratch, 0, "split --store store -o again app");
    covsplit_run_words(scratch, 0,
                       "split --sections covmap,covfun --replace --store store -o again2 app");
    expect_refused("--sidecar store", "whole", "its image lacks its names");
}
END_TEST

/* A single function: its record looks like a stub where it stayed. */
START_TEST(test_one_function)
{
    file_write_text(path_join(scratch, "one.c"), "int main(void)\n{\n    return 0;\n}\n");
    run_or_abort(scratch, versioned_tool("clang", clang), "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-Wl,--build-id=sha1", "one.c", "-o", "one", NULL);
    split_and_run("one", "one-names", "--sections names,covmap,covfun");
    split_and_run("one", "one-whole", "");
    expect_taken("--sidecar side/one-names.covsplit --sidecar side/one-whole.covsplit",
                 "one-names");
    expect_taken("--sidecar side/one-names.covsplit --sidecar side/one-whole.covsplit",
                 "one-whole");
    expect_refused("--sidecar side/one-names.covsplit", "one-whole", "its image lacks its records");
}
END_TEST

/* Two builds with the same functions, one of them two lines lower. */
START_TEST(test_moved_lines)
{
    static const char *const options[] = {"", "--sections names,covmap,covfun"};
    build("a", 0, ID_BY_HAND);
    build("b", 2, ID_BY_HAND);
    split_and_run("a", "a.out", options[_i]);
    split_and_run("b", "b.out", options[_i]);
    expect_refused("--sidecar side/a.out.covsplit", "b.out", "other functions");
    expect_taken("--sidecar side/a.out.covsplit --sidecar side/b.out.covsplit", "a.out");
    expect_taken("--sidecar side/a.out.covsplit --sidecar side/b.out.covsplit", "b.out");
}
END_TEST

/* Full profiles of such builds are the same files: nothing tells whose mapping is right. */
START_TEST(test_full_profiles)
{
    build("a", 0, ID_BY_HAND);
    build("b", 2, ID_BY_HAND);
    split_and_run("a", "a.out", "--sections covmap,covfun");
    split_and_run("b", "b.out", "--sections covmap,covfun");
    files_assert_equal(path_join(scratch, "a.out.profraw"), path_join(scratch, "b.out.profraw"),
                       "the builds");
    const char *words =
        "report --include / --sidecar side/a.out.covsplit --sidecar side/b.out.covsplit "
        "b.out.profraw";
    assert_says(covsplit_run_words(scratch, 1, words).errors, "fits as well as", words);
    covsplit_run_words(scratch, 0,
                       "report --include / --sidecar side/b.out.covsplit b.out.profraw");
}
END_TEST

/* A byte more or less anywhere is an error, or what follows is as it was. */
START_TEST(test_other_bytes)
{
    static const char *const ways[] = {"whole", "mapping", "names"};
    const char *way = ways[_i];
    build("app", 0, "-Wl,--build-id=sha1");
    split_and_run("app", way,
                  _i == 0   ? ""
                  : _i == 1 ? "--sections covmap,covfun"
                            : "--sections names,covmap,covfun");
    run_or_abort(scratch, "python3", COVSPLIT_FIXTURE_DIRECTORY "/../support/other_bytes.py",
                 covsplit_path(), scratch, clang, way, text_format("%u", rounds_step()), NULL);
}
END_TEST

/* ---- all pairs ---- */

/* A part of all pairs: each day two of 5600, in the campaign 20 of 1400. */
START_TEST(test_pairs)
{
    const char *said =
        run_or_abort(scratch, "python3", pairs, covsplit_path(), scratch, clang,
                     text_format("%d", _i), rounds_are_all() ? "1400" : "5600", NULL);
    printf("clang-%s, part %d: %s", clang, _i, said);
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create(text_format("pairs-%s", clang));
    directory_create(path_join(scratch, "side")); /* where nothing finds it that is not named */
}

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang);
    TCase *test_case = suite_case("all", 600, NULL);
    tcase_add_checked_fixture(test_case, prepare, NULL);
    suite_tests(test_case, test_splits, test_one_function, test_full_profiles);
    suite_loops(test_case, 2, test_moved_lines);
    suite_loops(test_case, 3, test_other_bytes);
    suite_loops(test_case, rounds(20), test_pairs);
    return suite_main("pairs", test_case);
}
