/*
 * LLVM's tools of several releases: which ones are found and where, and profiles of several LLVM
 * versions in one report or merge. What comes out is compared with what LLVM's tools make of the
 * unsplit images: each release's llvm-profdata of its own profiles, and the newest of the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define HAND_MADE COVSPLIT_FIXTURE_DIRECTORY "/../support/hand_made_profiles.py"

static char *scratch;

static const char *const clangs[] = {"14", "16", "19", "22"};

#define CLANG_COUNT (sizeof clangs / sizeof *clangs)

/* Runs covsplit with more environment (words; NULL: none). */
static struct outcome run_with(const char *environment, int exit_code, const char *words)
{
    struct command command = covsplit_words(scratch, words);
    struct outcome outcome;
    text_list_add_words(&command.environment, environment != NULL ? environment : "");
    outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, exit_code), "%s", outcome_describe(&command, &outcome));
    return outcome;
}

/* ---- programs ---- */

static void write_source(const char *name, const char *text)
{
    file_write_text(path_join(scratch, name), text);
}

/* The image `app14`, whose functions have names of their own, as linked and in split/; and the
 * profiles of both, full/app14.profraw and light/app14.profraw. */
static void add_image(const char *image)
{
    struct command split =
        covsplit_words(scratch, text_format("split --store store -o split/%s %s", image, image));
    command_run_or_abort(&split);
    for (size_t i = 0; i < 2; i++) {
        const char *directory = i == 0 ? "." : "split";
        struct command command = command_words(scratch, "%s/%s", directory, image);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s.profraw",
                             i == 0 ? "full" : "light", image);
        command_run_or_abort(&command);
    }
}

static void add_program(const char *clang)
{
    const char *image = text_format("app%s", clang), *source = text_format("%s.cc", image);
    write_source(source, text_format("template <class T> static T bigger%s(T a, T b)\n{\n"
                                     "    if (a > b)\n        return a;\n    return b;\n}\n"
                                     "int unused%s(int n)\n{\n    return n > 0 ? n : 1;\n}\n"
                                     "int main(int argc, char **)\n{\n"
                                     "    return bigger%s(argc, 0) - bigger%s(1L, 0L);\n}\n",
                                     clang, clang, clang, clang));
    run_or_abort(scratch, versioned_tool("clang++", clang), "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-Wl,--build-id", "-o", image, path_join(scratch, source),
                 NULL);
    add_image(image);
}

/* The release of the LLVM that is in rustc; NULL: there is no rustc, or none of LLVM's tools for
 * it. */
static const char *rust_release(void)
{
    const char *release = rust_llvm_release();
    for (size_t i = 0; release != NULL && i < CLANG_COUNT; i++) {
        if (strcmp(release, clangs[i]) == 0) {
            return clangs[i];
        }
    }
    return NULL;
}

/* ---- several versions ---- */

#define LCOV "export -format=lcov"

/* "app14 -object app22" */
static const char *objects_of(const char *const *images, size_t count)
{
    const char *objects = images[0];
    for (size_t i = 1; i < count; i++) {
        objects = text_format("%s -object %s", objects, images[i]);
    }
    return objects;
}

static const char *cover(const char *release, const char *verb, const char *objects,
                         const char *profile)
{
    struct command command =
        command_words(scratch, "%s %s %s -instr-profile=%s", versioned_tool("llvm-cov", release),
                      verb, objects, profile);
    return command_run_or_abort(&command);
}

/* What LLVM's tools make of the unsplit images, the newest of the rest. */
static const char *expect(const char *const *releases, const char *const *images, size_t count,
                          const char *verb)
{
    const char *newest = releases[count - 1], *inputs = "";
    for (size_t i = 0; i < count; i++) {
        struct command merge =
            command_words(scratch, "%s merge -o %s.profdata full/%s.profraw",
                          versioned_tool("llvm-profdata", releases[i]), images[i], images[i]);
        command_run_or_abort(&merge);
        inputs = text_format("%s %s.profdata", inputs, images[i]);
    }
    struct command merge = command_words(scratch, "%s merge -o expected.profdata%s",
                                         versioned_tool("llvm-profdata", newest), inputs);
    command_run_or_abort(&merge);
    return cover(newest, verb, objects_of(images, count), "expected.profdata");
}

static void assert_same_reports(const char *const *releases, const char *const *images,
                                size_t count)
{
    const char *expected = expect(releases, images, count, LCOV), *newest = releases[count - 1];
    const char *light = "", *full = "";
    ck_assert_uint_gt(strlen(expected), 200);
    for (size_t i = 0; i < count; i++) {
        light = text_format("%s light/%s.profraw", light, images[i]);
        full = text_format("%s full/%s.profraw %s", full, images[i], images[i]);
    }
    const char *operands[] = {light, full};
    for (size_t i = 0; i < 2; i++) {
        struct outcome found =
            run_with(NULL, 0,
                     text_format("report --store store --include / --format lcov --llvm-cov %s%s",
                                 versioned_tool("llvm-cov", newest), operands[i]));
        ck_assert_msg(strcmp(found.output, expected) == 0, "%s\nis not:\n%s\n%s", found.output,
                      expected, found.errors);
    }
    run_with(NULL, 0, text_format("merge --store store -o found.profdata%s", light));
    ck_assert_str_eq(cover(newest, LCOV, objects_of(images, count), "found.profdata"), expected);
}

/* Pairs of neighbours, the two at the ends, and all: of one raw version or of two. */
START_TEST(test_versions)
{
    static const struct {
        const char *releases[CLANG_COUNT], *images[CLANG_COUNT];
        size_t count;
    } rows[] = {{{"14", "22"}, {"app14", "app22"}, 2},
                {{"14", "16"}, {"app14", "app16"}, 2},
                {{"16", "19"}, {"app16", "app19"}, 2},
                {{"19", "22"}, {"app19", "app22"}, 2},
                {{"14", "16", "19", "22"}, {"app14", "app16", "app19", "app22"}, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rounds_have((unsigned)i, 4)) {
            continue;
        }
        assert_same_reports(rows[i].releases, rows[i].images, rows[i].count);
    }
}
END_TEST

START_TEST(test_rust)
{
    const char *release = rust_release();
    if (release == NULL) {
        printf("no rustc here whose LLVM has tools: not tested with it\n");
        return;
    }
    write_source("rusty.rs", "fn half(n: usize) -> usize {\n    if n > 3 { n / 2 } else { 0 }\n}\n"
                             "fn main() {\n    println!(\"{}\", half(std::env::args().len()));\n"
                             "}\n");
    run_or_abort(scratch, "rustc", "-C", "instrument-coverage", "-C", "link-arg=-Wl,--build-id",
                 path_join(scratch, "rusty.rs"), NULL);
    add_image("rusty");
    assert_same_reports((const char *[]){"14", release}, (const char *[]){"app14", "rusty"}, 2);
}
END_TEST

/* `test`, and files for each image. */
START_TEST(test_commands)
{
    struct command command =
        covsplit_words(scratch, "test --store store --format lcov -o lines -- sh -c");
    text_list_add(&command.arguments, "split/app14 && split/app22 && split/app19");
    command_run_or_abort(&command);
    const char *lines = (const char *)file_read(path_join(scratch, "lines")).data;
    ck_assert_uint_eq(text_count(lines, "FNDA:3,main\n"), 3);

    run_with(NULL, 0,
             "merge --store store --per-image each -o all.profdata light/app14.profraw "
             "light/app22.profraw light/app16.profraw");
    ck_assert_uint_eq(directory_list(path_join(scratch, "each")).count, 3);
    /* An indexed profile of a newer LLVM beside a raw one of an older. */
    const char *expected =
        expect((const char *[]){"14", "22"}, (const char *[]){"app14", "app22"}, 2, LCOV);
    struct outcome found = run_with(NULL, 0,
                                    "report --store store --include / --format lcov "
                                    "app22.profdata light/app14.profraw");
    ck_assert_str_eq(found.output, expected);
}
END_TEST

/* The program that is given reads what it can. */
START_TEST(test_given_program)
{
    static const char *const given[] = {"llvm-profdata-14", "llvm-profdata-16", "llvm-profdata-19",
                                        "llvm-profdata-22"};
    const char *releases[] = {"14", "22"}, *images[] = {"app14", "app22"};
    const char *expected = expect(releases, images, 2, "report");
    for (size_t i = 0; i < CLANG_COUNT; i++) {
        if (!rounds_have((unsigned)i, 3)) {
            continue;
        }
        /* The llvm-cov of the one that has put them together. */
        const char *words = text_format("report --store store --include / --llvm-profdata %s "
                                        "light/app14.profraw light/app22.profraw",
                                        given[i]);
        assert_contains(run_with(NULL, 0, words).output, "app22.cc");
        ck_assert_str_eq(run_with("LLVM_COV=llvm-cov-22", 0, words).output, expected);
    }
}
END_TEST

/* ---- where they are ---- */

/* A program that answers as the real one, and notes what it was run for. */
static void add_tool(const char *directory, const char *name, const char *real)
{
    char *path = text_format("%s/%s/%s", scratch, directory, name);
    run_or_abort(scratch, "mkdir", "-p", directory, NULL);
    file_write_text(path, text_format("#!/bin/sh\necho \"%s/%s $1\" >> '%s/ran'\nexec %s \"$@\"\n",
                                      directory, name, scratch, real));
    ck_assert_int_eq(chmod(path, 0755), 0);
}

/* Makes a report by the tools that the environment leads to, which must be those. */
static void assert_runs(const char *environment, const char *image, const char *profdata,
                        const char *cov)
{
    unlink(path_join(scratch, "ran"));
    file_write_text(path_join(scratch, "ran"), "");
    run_with(environment, 0,
             text_format("report --store store --include / light/%s.profraw", image));
    const char *ran = (const char *)file_read(path_join(scratch, "ran")).data;
    ck_assert_msg(strstr(ran, text_format("%s merge\n", profdata)) != NULL, "%s", ran);
    ck_assert_msg(strstr(ran, text_format("%s report\n", cov)) != NULL, "%s", ran);
}

/* Directories with the tools of one release only. llvm-profdata 14 and 16 do not tell theirs. */
START_TEST(test_directories)
{
    for (size_t i = 0; i < CLANG_COUNT; i++) {
        if (!rounds_have((unsigned)i, 2)) {
            continue;
        }
        const char *directory = text_format("/usr/lib/llvm-%s/bin", clangs[i]);
        const char *image = text_format("app%s", clangs[i]);
        const char *bin = text_format("bin%s", clangs[i]);
        const char *profdata = text_format("%s/llvm-profdata", directory);
        const char *cov = text_format("%s/llvm-cov", directory);
        struct outcome outcome =
            run_with(text_format("PATH=%s", directory), 0,
                     text_format("report --store store --include / light/%s.profraw", image));
        ck_assert_str_eq(outcome.errors, "");
        /* In PATH, after tools that do not read it. */
        add_tool(bin, "llvm-profdata", profdata);
        add_tool(bin, "llvm-cov", cov);
        assert_runs(text_format("PATH=/usr/lib/llvm-%s/bin:%s/%s:/usr/bin:/bin",
                                i < 2 ? "22" : "14", scratch, bin),
                    image, text_format("%s/llvm-profdata", bin), text_format("%s/llvm-cov", bin));
        /* Elsewhere, and under a name with a version. */
        assert_runs(text_format("COVSPLIT_LLVM_BIN=/nowhere:%s/%s", scratch, bin), image,
                    text_format("%s/llvm-profdata", bin), text_format("%s/llvm-cov", bin));
        const char *versioned = text_format("versioned%s", clangs[i]);
        add_tool(versioned, versioned_tool("llvm-profdata", clangs[i]), profdata);
        add_tool(versioned, versioned_tool("llvm-cov", clangs[i]), cov);
        assert_runs(text_format("COVSPLIT_LLVM_BIN=%s/%s", scratch, versioned), image,
                    text_format("%s/llvm-profdata-%s", versioned, clangs[i]),
                    text_format("%s/llvm-cov-%s", versioned, clangs[i]));
    }
}
END_TEST

/* llvm-profdata 14 and 16 without a program beside them that tells the release. */
START_TEST(test_tried)
{
    for (size_t i = 0; i < 2; i++) {
        const char *bin = text_format("alone%s", clangs[i]);
        add_tool(bin, "llvm-profdata", versioned_tool("/usr/bin/llvm-profdata", clangs[i]));
        add_tool("cov", "llvm-cov", versioned_tool("/usr/bin/llvm-cov", clangs[i]));
        unlink(path_join(scratch, "ran"));
        run_with(
            text_format("COVSPLIT_LLVM_BIN=%s/%s LLVM_COV=%s/cov/llvm-cov", scratch, bin, scratch),
            0, text_format("report --store store --include / light/app%s.profraw", clangs[i]));
        assert_contains((const char *)file_read(path_join(scratch, "ran")).data,
                        text_format("%s/llvm-profdata merge\n", bin));
    }
}
END_TEST

/* The toolchains of rustup: of a version that nothing else here reads. */
START_TEST(test_rustup)
{
    const char *bin = "rustup/toolchains/stable/lib/rustlib/this-machine/bin";
    const char *tool = text_format("%s/%s/llvm-profdata", scratch, bin);
    run_or_abort(scratch, "mkdir", "-p", bin, "made", NULL);
    run_or_abort(scratch, "python3", HAND_MADE, "9", "made", NULL);
    file_write_text(tool, "#!/bin/sh\ntest \"$1\" = --version || exit 7\n"
                          "echo 'LLVM version 18.1.7-rust-1.80.1-stable'\n");
    ck_assert_int_eq(chmod(tool, 0755), 0);
    assert_contains(run_with(text_format("RUSTUP_HOME=%s/rustup", scratch), 1,
                             "merge -o no.profdata made/little-64.profraw")
                        .errors,
                    text_format("%s merge' failed", tool));
    assert_contains(run_with(text_format("HOME=%s RUSTUP_HOME=", scratch), 1,
                             "merge -o no.profdata made/little-64.profraw")
                        .errors,
                    "reads raw profiles of version 9 (LLVM 18 does)");
}
END_TEST

/* If no program reads one version, the error tells which profiles are of which. */
START_TEST(test_unreadable)
{
    run_or_abort(scratch, "mkdir", "-p", "made", NULL);
    run_or_abort(scratch, "python3", HAND_MADE, "9", "made", NULL);
    const char *said = run_with("RUSTUP_HOME=/nowhere", 1,
                                "merge --store store -o no.profdata light/app14.profraw "
                                "light/app19.profraw made/little-64.profraw")
                           .errors;
    assert_contains(said, "reads raw profiles of version 9 (LLVM 18 does)");
    assert_contains(said, "light/app14.profraw (image 'app14') is of version 8, "
                          "made/little-64.profraw is of version 9, "
                          "light/app19.profraw (image 'app19') is of version 10; install one");
    ck_assert_uint_eq(text_count(said, "covsplit: "), 1);
    ck_assert(!file_exists(path_join(scratch, "no.profdata")));
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("llvm-versions");
    directory_create(path_join(scratch, "split"));
    directory_create(path_join(scratch, "full"));
    directory_create(path_join(scratch, "light"));
    for (size_t i = 0; i < CLANG_COUNT; i++) {
        add_program(clangs[i]);
    }
}

int main(void)
{
    TCase *all = suite_case("all", 300, prepare);
    suite_tests(all, test_versions, test_rust, test_commands, test_given_program, test_directories,
                test_tried, test_rustup, test_unreadable);
    return suite_main("LLVM versions", all);
}
