/*
 * Profiles of LevelDB as a shared library, from 20 runs: what covsplit merges must be what
 * llvm-profdata merges from the profiles of the unsplit images, to the byte, and llvm-cov must
 * report the same.
 *
 * The driver does the same in every run, so the unsplit and the split images are each run 20 times.
 * db_bench starts threads, and no two runs count the same: there the split images' profiles get the
 * counters of the unsplit images' profiles put in, run by run, by the tests' own reader of
 * profiles.
 *
 * Usage: profiles_leveldb CLANG LINKER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"
#include "tests/support/real_programs.h"

#define RUNS   20
#define IMAGES 2

static const char *clang_version;
static const char *linker_name;

/* Runs the program in `images`; *profiles gets the two profiles of each run, the smaller first. */
static void run_all(const char *scratch, const char *images, const char *words,
                    struct text_list *profiles)
{
    for (unsigned run = 0; run < RUNS; run++) {
        struct command command = {.directory = text_format("%s/work", scratch)};
        char *directory = text_format("%s/%s-%02u", scratch, images, run);
        directory_remove(command.directory);
        directory_create(command.directory);
        directory_create(directory);
        text_list_add_format(&command.arguments, "%s/%s/program", scratch, images);
        text_list_add_words(&command.arguments, words);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%%m.profraw", directory);
        command_run_or_abort(&command);
        command_free(&command);

        struct text_list names = directory_list(directory);
        ck_assert_uint_eq(names.count, IMAGES);
        char *paths[IMAGES] = {path_join(directory, names.items[0]),
                               path_join(directory, names.items[1])};
        struct verdict verdict = {0};
        struct raw_profile first, second;
        ck_assert(raw_profile_read(paths[0], &first, &verdict));
        ck_assert(raw_profile_read(paths[1], &second, &verdict));
        bool in_order = first.counters.size < second.counters.size;
        text_list_add(profiles, paths[!in_order]);
        text_list_add(profiles, paths[in_order]);
        raw_profile_free(&first);
        raw_profile_free(&second);
    }
}

/* The counters of each unsplit image's profile into that of the split image. */
static void put_counters(const struct text_list *original, const struct text_list *split)
{
    for (size_t i = 0; i < original->count; i++) {
        struct verdict verdict = {0};
        struct raw_profile from, to;
        ck_assert(raw_profile_read(original->items[i], &from, &verdict));
        ck_assert(raw_profile_read(split->items[i], &to, &verdict));
        ck_assert_uint_eq(from.counters.size, to.counters.size);
        ck_assert_uint_lt(to.file.size * 2, from.file.size);
        memcpy(to.file.data + (to.counters.data - to.file.data), from.counters.data,
               from.counters.size);
        file_write(split->items[i], to.file.data, to.file.size);
        raw_profile_free(&from);
        raw_profile_free(&to);
    }
}

static void merge(const char *scratch, const char *tool, const char *words, const char *output,
                  const struct text_list *profiles)
{
    struct command command = {.directory = scratch};
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.arguments, output);
    text_list_add_all(&command.arguments, (const char *const *)profiles->items);
    text_list_add_format(&command.environment, "LLVM_PROFDATA=%s",
                         versioned_tool("llvm-profdata", clang_version));
    command_run_or_abort(&command);
}

static const char *show(const char *scratch, const char *profile)
{
    return run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "show",
                        "--all-functions", "--counts", profile, NULL);
}

static const char *cov(const char *scratch, const char *subcommand, const char *profile)
{
    return run_or_abort(scratch, versioned_tool("llvm-cov", clang_version), subcommand,
                        text_format("-instr-profile=%s", profile), "original/program", "-object",
                        "original/" LEVELDB_LIBRARY, NULL);
}

static void check_merge(const char *scratch, const struct text_list *original,
                        const struct text_list *split)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    struct verdict verdict = {0};
    merge(scratch, profdata, "merge -num-threads=1 -o", "expected.profdata", original);
    merge(scratch, covsplit_path(), "merge --store store -o", "merged.profdata", split);
    ck_assert_str_eq(show(scratch, "expected.profdata"), show(scratch, "merged.profdata"));
    files_equal(path_join(scratch, "expected.profdata"), path_join(scratch, "merged.profdata"),
                &verdict);
    verdict_assert(&verdict, "all runs, merged");
    const char *report = cov(scratch, "report", "expected.profdata");
    ck_assert_ptr_nonnull(strstr(report, "TOTAL"));
    ck_assert_str_eq(report, cov(scratch, "report", "merged.profdata"));
    ck_assert_str_eq(cov(scratch, "export", "expected.profdata"),
                     cov(scratch, "export", "merged.profdata"));
    merge(scratch, profdata, "merge -num-threads=1 -sparse -o", "expected-sparse.profdata",
          original);
    merge(scratch, covsplit_path(), "merge --sparse --store store -o", "merged-sparse.profdata",
          split);
    files_assert_equal(path_join(scratch, "expected-sparse.profdata"),
                       path_join(scratch, "merged-sparse.profdata"), "all runs, sparse");
}

static void check_program(const char *objects_directory, const char *objects, const char *words,
                          bool same_every_time)
{
    char *scratch = scratch_create("profiles-leveldb");
    char *original_images = path_join(scratch, "original");
    struct text_list original = {0}, split = {0};
    directory_create(original_images);
    directory_create(path_join(scratch, "split"));
    leveldb_link(clang_version, linker_name, objects_directory, original_images, "program",
                 objects);
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o", "split/program",
                 "original/program", NULL);
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o",
                 "split/" LEVELDB_LIBRARY, "original/" LEVELDB_LIBRARY, NULL);
    run_all(scratch, "original", words, &original);
    run_all(scratch, "split", words, &split);
    if (!same_every_time) {
        put_counters(&original, &split);
    }
    check_merge(scratch, &original, &split);
}

START_TEST(test_leveldb)
{
    const char *objects = leveldb_objects(clang_version);
    check_program(objects, LEVELDB_DRIVER, "", true);
    check_program(objects, LEVELDB_DB_BENCH,
                  "--db=database --num=2000 --benchmarks=fillseq,readseq,readrandom", false);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *test_case = suite_case("LevelDB", 1500, NULL);
    tcase_add_test(test_case, test_leveldb);
    return suite_main(text_format("LevelDB profiles clang-%s %s", clang_version, linker_name),
                      test_case);
}
