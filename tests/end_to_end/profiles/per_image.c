/*
 * covsplit merge --per-image: each file is what llvm-profdata makes of the profiles of the unsplit
 * image alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define RUNS 3

static char *scratch;

static void run(const char *words)
{
    run_or_abort(scratch, "sh", "-c", words, NULL);
}

/* Links NAME of NAME.c and library.c. */
static void link_program(const char *name, const char *options)
{
    struct command command = command_words(
        scratch, "clang-19 " INSTRUMENT_COVERAGE " %s %s.c library.c -o %s", options, name, name);
    command_run_or_abort(&command);
}

/* Splits a program; runs both images RUNS times, into NAME-1.profraw and light/NAME-1.profraw. */
static void run_both(const char *name)
{
    covsplit_run_words(scratch, 0, text_format("split --store store -o %s.split %s", name, name));
    for (unsigned i = 1; i <= RUNS; i++) {
        run(text_format("LLVM_PROFILE_FILE=%s-%u.profraw ./%s %u; "
                        "LLVM_PROFILE_FILE=light/%s-%u.profraw ./%s.split %u; true",
                        name, i, name, i, name, i, name, i));
    }
    run(text_format("llvm-profdata-19 merge -num-threads=1 -o %s.profdata %s-*.profraw", name,
                    name));
}

static void prepare(void)
{
    static const char *const names[] = {"one", "two", "bare"};
    scratch = scratch_create("per-image");
    directory_create(path_join(scratch, "light"));
    file_write_text(path_join(scratch, "library.c"),
                    "int shared(int x) { return x > 2 ? x : 2; }\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        file_write_text(text_format("%s/%s.c", scratch, names[i]),
                        text_format("int shared(int);\nint %s(int x) { return x ? x : 4; }\n"
                                    "int main(int count, char **words) {\n"
                                    "  for (int i = 0; i < words[1][0]; i++) count += %s(i);\n"
                                    "  return shared(count) == 0;\n}\n",
                                    names[i], names[i]));
        link_program(names[i],
                     strcmp(names[i], "bare") == 0 ? "-Wl,--build-id=none" : "-Wl,--build-id=sha1");
        run_both(names[i]);
    }
}

/* Runs `covsplit merge --store store WORDS`, with LLVM 19's tool unless another is named. */
static struct outcome merge(const char *words, int exit_code)
{
    struct command command = covsplit_command(scratch, "merge", "--store", "store", NULL);
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.environment, "LLVM_PROFDATA=llvm-profdata-19");
    return command_expect(&command, exit_code);
}

/* The UUID under which the store has the image. */
static const char *uuid_of(const char *image)
{
    const char *list =
        run_or_abort(scratch, covsplit_path(), "store", "list", "store", image, NULL);
    const char *line = strchr(list, '\n') + 1;
    return text_format("%.*s", (int)strcspn(line, " "), line);
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(scratch, name), path_join(scratch, other), name);
}

/* The files of a directory that the last merge made, and nothing else. */
static void assert_files(const char *directory, size_t count)
{
    struct text_list names = directory_list(path_join(scratch, directory));
    ck_assert_msg(names.count == count, "%s: %zu files", directory, names.count);
}

START_TEST(test_equal)
{
    static const char *const names[] = {"one", "two", "bare"};
    merge("--per-image images -o all.profdata light", 0);
    assert_files("images", 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_same(text_format("%s.profdata", names[i]),
                    text_format("images/%s.profdata", uuid_of(names[i])));
    }
    merge("-o alone.profdata light", 0);
    assert_same("all.profdata", "alone.profdata");
    /* Through a state, in two steps. */
    merge("--into state light/one-1.profraw light/two-1.profraw light/two-2.profraw", 0);
    merge("--into state light/one-2.profraw light/one-3.profraw light/two-3.profraw", 0);
    merge("--per-image images2 -o all2.profdata state light/bare-1.profraw light/bare-2.profraw "
          "light/bare-3.profraw",
          0);
    assert_files("images2", 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_same(text_format("%s.profdata", names[i]),
                    text_format("images2/%s.profdata", uuid_of(names[i])));
    }
    /* Without functions that never ran. */
    merge("--sparse --per-image sparse -o all3.profdata light", 0);
    run("llvm-profdata-19 merge -num-threads=1 -sparse -o expected.profdata one-*.profraw");
    assert_same("expected.profdata", text_format("sparse/%s.profdata", uuid_of("one")));
}
END_TEST

/* Full profiles: with a build ID, and without one. Beside light ones, they have the same file. */
START_TEST(test_full_profiles)
{
    merge("--per-image full -o all.profdata one-1.profraw one-2.profraw one-3.profraw "
          "bare-1.profraw bare-2.profraw bare-3.profraw",
          0);
    struct text_list names = directory_list(path_join(scratch, "full"));
    ck_assert_uint_eq(names.count, 2);
    assert_same("one.profdata", text_format("full/%s.profdata", uuid_of("one")));
    const char *other = names.items[1];
    ck_assert_msg(strncmp(other, "no-uuid-", 8) == 0 && strlen(other) == 8 + 32 + 9, "%s", other);
    assert_same("bare.profdata", text_format("full/%s", other));
    merge("--per-image both -o all.profdata one-1.profraw light/one-2.profraw light/one-3.profraw",
          0);
    assert_files("both", 1);
    run("llvm-profdata-19 merge -num-threads=1 -o expected.profdata one-1.profraw "
        "one-2.profraw one-3.profraw");
    run(text_format("llvm-profdata-19 show --all-functions --counts expected.profdata >expected; "
                    "llvm-profdata-19 show --all-functions --counts both/%s.profdata >found",
                    uuid_of("one")));
    assert_same("expected", "found");
}
END_TEST

/* Two images of one UUID. */
START_TEST(test_one_uuid)
{
    static const char *const names[] = {"one", "two"};
    for (size_t i = 0; i < 2; i++) {
        link_program(names[i], "-Wl,--build-id=0x0102030405060708090a0b0c0d0e0f10");
        run(text_format("LLVM_PROFILE_FILE=same-%s.profraw ./%s 1; true", names[i], names[i]));
    }
    merge("--per-image same -o all.profdata same-one.profraw same-two.profraw", 0);
    assert_files("same", 1);
    run("llvm-profdata-19 merge -num-threads=1 -o expected.profdata same-one.profraw "
        "same-two.profraw");
    assert_same("expected.profdata", "same/0102030405060708090a0b0c0d0e0f10.profdata");
    assert_same("all.profdata", "same/0102030405060708090a0b0c0d0e0f10.profdata");
}
END_TEST

/* The files are of the output's format. */
START_TEST(test_raw)
{
    merge("--per-image raw -o all.profraw light", 0);
    assert_files("raw", 3);
    merge("-o one.profraw light/one-1.profraw light/one-2.profraw light/one-3.profraw", 0);
    assert_same("one.profraw", text_format("raw/%s.profraw", uuid_of("one")));
    /* What is in the directory is never read, also if it is below one that is. */
    directory_create(path_join(scratch, "light/images"));
    merge("--per-image light/images -o all2.profraw light", 0);
    merge("--per-image light/images -o all2.profraw light", 0);
    assert_same("all.profraw", "all2.profraw");
    assert_contains(merge("--per-image light -o all3.profraw light", 1).errors,
                    "error: light: is to be read, ");
    directory_remove(path_join(scratch, "light/images"));
}
END_TEST

/* A file whose bytes would be the same is not touched. */
START_TEST(test_unchanged)
{
    merge("--per-image kept -o all.profdata light", 0);
    const char *one = path_join(scratch, text_format("kept/%s.profdata", uuid_of("one")));
    const char *two = path_join(scratch, text_format("kept/%s.profdata", uuid_of("two")));
    struct stat one_before = file_status(one), two_before = file_status(two);
    merge("--per-image kept -o all.profdata light light/two-1.profraw", 0);
    struct stat one_now = file_status(one), two_now = file_status(two);
    ck_assert_uint_eq(one_before.st_ino, one_now.st_ino);
    ck_assert_int_eq(one_before.st_ctim.tv_nsec, one_now.st_ctim.tv_nsec);
    ck_assert_uint_ne(two_before.st_ino, two_now.st_ino);
}
END_TEST

/* Nothing appears unless everything can be made. */
START_TEST(test_failures)
{
    const char *tool = path_join(scratch, "once");
    file_write_text(tool, "#!/bin/sh\n"
                          "case \"$1\" in merge) echo >>calls ;; esac\n"
                          "test $(wc -l <calls) -lt 3 && exec llvm-profdata-19 \"$@\"\n"
                          "echo no more >&2; exit 1\n");
    ck_assert_int_eq(chmod(tool, 0755), 0);
    const char *errors =
        merge("--llvm-profdata ./once --per-image none -o none.profdata light", 1).errors;
    assert_contains(errors, "no more");
    assert_files("none", 0);
    ck_assert(!file_exists(path_join(scratch, "none.profdata")));
    errors = merge("--per-image none -o missing/none.profdata light", 1).errors;
    assert_contains(errors, "error: missing/none.profdata: ");
    assert_files("none", 0);
    file_write_text(path_join(scratch, "file"), "");
    errors = merge("--per-image file -o none.profdata light", 1).errors;
    assert_contains(errors, "error: file: cannot be created");
    errors =
        merge(text_format("--per-image none -o none/%s.profdata light", uuid_of("two")), 1).errors;
    assert_contains(errors, "give another --output");
    assert_files("none", 0);
    merge("--per-image none --into state2 light", 2);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("all", 300, prepare);
    suite_tests(test_case, test_equal, test_full_profiles, test_one_uuid, test_raw, test_unchanged,
                test_failures);
    return suite_main("a profile for each image", test_case);
}
