/*
 * Sidecars that must not be lost: whatever is split again, into whatever place, the one file that
 * has an image's sections stays where it is.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 100

static struct sample sample;

static void prepare(void)
{
    sample = sample_create("safety", SAMPLE_FUNCTIONS);
    sample_split(&sample);
}

/* Runs covsplit with the words of a text; returns standard error. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

static void assert_same(const char *directory, const char *name, const char *other)
{
    files_assert_equal(path_join(directory, name), other, name);
}

static void assert_joins(const char *directory, const char *words)
{
    run(directory, 0, words);
    assert_same(directory, "joined", sample.image);
}

/* strip tools drop the empty sections by which a stripped image is known. */
START_TEST(test_mark_removed_by_strip)
{
    static const char *const tools[] = {"llvm-strip-19", "eu-strip", "strip"};
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    run(directory, 0, "split --sections covmap,covfun app");
    file_copy(path_join(directory, "app.covsplit"), path_join(directory, "kept"));
    run_or_abort(directory, tools[_i], "app", NULL);
    struct command command = covsplit_command(directory, "split", "app", NULL);
    struct outcome outcome = command_run(&command);
    /* Refused, or known as split: either way the sidecar stays. */
    ck_assert_msg(outcome_exited(&outcome, 1) || strstr(outcome.errors, "split already") != NULL,
                  "%s", outcome_describe(&command, &outcome));
    assert_same(directory, "app.covsplit", path_join(directory, "kept"));
}
END_TEST

START_TEST(test_damaged_sidecar_is_kept)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    run(directory, 0, "split app");
    run_or_abort(directory, "truncate", "-s", "-1", "app.covsplit", NULL);
    file_copy(path_join(directory, "app.covsplit"), path_join(directory, "kept"));
    run(directory, 0, "split app");
    assert_same(directory, "app.covsplit", path_join(directory, "kept"));
}
END_TEST

/* A rebuilt image is an original: its sidecar takes the place of the old one. */
START_TEST(test_rebuilt_image_replaces)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    file_write_text(path_join(directory, "app.covsplit"), "what an interrupted copy left");
    run(directory, 0, "split app");
    assert_joins(directory, "join -o joined app");
}
END_TEST

/* However they are spelled, sidecar and image are two files. */
START_TEST(test_sidecar_is_the_output)
{
    static const char *const words[] = {
        "split -o ./x --sidecar x app",   "split -o app.covsplit app",
        "split -o d/y --sidecar e/y app", "split --sidecar ./app app",
        "split --sidecar link app",       "split --sidecar d/../app app",
    };
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    directory_create(path_join(directory, "d"));
    ck_assert_int_eq(symlink("d", path_join(directory, "e")), 0);
    ck_assert_int_eq(symlink("app", path_join(directory, "link")), 0);
    run(directory, 1, words[_i]);
    assert_same(directory, "app", sample.image);
    ck_assert(!file_exists(path_join(directory, "x")));
    ck_assert(!file_exists(path_join(directory, "d/y")));
}
END_TEST

START_TEST(test_store_keeps_the_fuller_sidecar)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    run(directory, 0, "split --store store -o full app");
    run(directory, 1, "split --store store --sections covmap -o part app");
    ck_assert(!file_exists(path_join(directory, "part")));
    run(directory, 0, "split --store store -o again app");
    assert_joins(directory, "join --store store -o joined full");
}
END_TEST

/* A stripped image says nothing of its sections: it must not take its original's place. */
START_TEST(test_stripped_image_into_a_store)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    file_copy(sample.stripped, path_join(directory, "stripped"));
    run(directory, 0, "split --store store -o copy stripped");
    run(directory, 1, "join --store store -o joined copy");
    run(directory, 0, "split --store store -o out app");
    assert_joins(directory, "join --store store -o joined copy");
}
END_TEST

START_TEST(test_placeholder)
{
    char *directory = sample_directory(&sample);
    sample_copy(&sample, directory, "app");
    file_copy(sample.stripped, path_join(directory, "stripped"));
    run(directory, 0, "split --sidecar side -o copy stripped");
    ck_assert(file_exists(path_join(directory, "side")));
    const char *errors = run(directory, 1, "join --sidecar side -o joined copy");
    ck_assert_msg(strstr(errors, "split before") != NULL, "%s", errors);
    ck_assert(!file_exists(path_join(directory, "joined")));
    /* The real one takes its place. */
    run(directory, 0, "split --sidecar side -o out app");
    assert_joins(directory, "join --sidecar side -o joined copy");
}
END_TEST

/* A UUID that only the sidecar knows would never be found in a store. */
START_TEST(test_store_needs_a_uuid)
{
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "main.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, "clang-22", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=none", "main.c", "-o", "app", NULL);
    run(directory, 1, "split --store store --sections names -o out app");
    run(directory, 0, "split --store store -o out app");
    run(directory, 0, "join --store store -o joined out");
    assert_same(directory, "joined", path_join(directory, "app"));
}
END_TEST

/* A section that is empty in an original is no sign of a split. */
START_TEST(test_empty_section_in_an_original)
{
    char *directory = sample_directory(&sample);
    file_write_text(path_join(directory, "main.c"), "int main(void) { return 0; }\n");
    file_write_text(path_join(directory, "empty.s"), ".section __llvm_covmap,\"\",@progbits\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fuse-ld=lld", "main.c",
                 "empty.s", "-o", "app", NULL);
    const char *errors = run(directory, 0, "split -o out app");
    ck_assert_msg(strstr(errors, "split already") == NULL, "%s", errors);
}
END_TEST

/* Another owner must not get the rights of the old one. */
START_TEST(test_privileges)
{
    char *directory = sample_directory(&sample);
    char *image = sample_copy(&sample, directory, "app");
    ck_assert_int_eq(chmod(image, 06755), 0);
    run(directory, 0, "split -o out app");
    ck_assert_uint_eq(file_status(path_join(directory, "out")).st_mode & 07777, 0755);
    run(directory, 0, "split app");
    ck_assert_uint_eq(file_status(image).st_mode & 07777, 06755);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("safety", 120, prepare);
    suite_loops(test_case, 3, test_mark_removed_by_strip);
    suite_tests(test_case, test_damaged_sidecar_is_kept, test_rebuilt_image_replaces);
    suite_loops(test_case, 6, test_sidecar_is_the_output);
    suite_tests(test_case, test_store_keeps_the_fuller_sidecar, test_stripped_image_into_a_store,
                test_placeholder, test_store_needs_a_uuid, test_empty_section_in_an_original,
                test_privileges);
    return suite_main("sidecar safety", test_case);
}
