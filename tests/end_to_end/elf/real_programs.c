/*
 * Real programs: SQLite as one executable, LevelDB as a shared library with two programs.
 *
 * Usage: real_programs sqlite CLANG LINKER OPTIMIZATION [MACHINE]
 *        real_programs leveldb CLANG
 * The sources are those that tests/fetch.sh has put into COVSPLIT_TEST_CACHE.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"
#include "tests/support/trial.h"

#define SQLITE_SOURCE     COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3"
#define DB_BENCH_PERMILLE 20

/* Of the size with --portable. */
#define SQLITE_PERMILLE  350
#define LEVELDB_PERMILLE 320

static const char *clang_version;
static const char *linker_name;
static const char *optimization;
static const struct target *target; /* NULL: this machine */

static void compile(const char *directory, const char *source, const char *object)
{
    struct command command =
        command_words(directory,
                      "clang-%s %s " INSTRUMENT_COVERAGE " -w -I%s -DSQLITE_OMIT_LOAD_EXTENSION "
                      "-DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_MATH_FUNCTIONS -c %s -o %s",
                      clang_version, optimization, SQLITE_SOURCE, source, object);
    command.timeout_seconds = 600;
    if (target != NULL) {
        target_add_compile_words(target, &command.arguments);
    }
    command_run_or_abort(&command);
    command_free(&command);
}

static void build_sqlite(const char *directory)
{
    struct command command = command_words(directory,
                                           "clang-%s " INSTRUMENT_COVERAGE
                                           " -Wl,--build-id=sha1 sqlite3.o driver.o -lm -o sqlite",
                                           clang_version);
    compile(directory, SQLITE_SOURCE "/sqlite3.c", "sqlite3.o");
    compile(directory, COVSPLIT_FIXTURE_DIRECTORY "/sqlite_driver.c", "driver.o");
    if (target != NULL) {
        target_add_link_words(target, clang_version, linker_name, &command.arguments);
    } else {
        text_list_add_format(&command.arguments, "-fuse-ld=%s", linker_name);
    }
    command_run_or_abort(&command);
    command_free(&command);
}

/* What llvm-cov reports for an image and the profile of an unsplit run. */
static const char *coverage_report(const struct trial *trial, const char *image,
                                   const char *indexed)
{
    return run_or_abort(trial->scratch, versioned_tool("llvm-cov", trial->clang), "report", image,
                        text_format("-instr-profile=%s", indexed), NULL);
}

/* The joined image stands for the original in LLVM's own tools. */
static void check_report(const struct trial *trial)
{
    const char *raw = path_join(trial->scratch, "report.profraw");
    const char *indexed = path_join(trial->scratch, "report.profdata");
    struct command run = {.directory = path_join(trial->scratch, "work")};
    directory_remove(run.directory);
    directory_create(run.directory);
    text_list_add_format(&run.arguments, "%s/%s", trial->original, trial->images.items[0]);
    text_list_add_format(&run.environment, "LLVM_PROFILE_FILE=%s", raw);
    command_run_or_abort(&run);
    run_or_abort(NULL, versioned_tool("llvm-profdata", trial->clang), "merge", raw, "-o", indexed,
                 NULL);
    const char *image = trial->images.items[trial->images.count - 1];
    const char *original = coverage_report(trial, path_join(trial->original, image), indexed);
    const char *joined = coverage_report(trial, path_join(trial->scratch, "joined"), indexed);
    ck_assert_ptr_nonnull(strstr(original, "TOTAL"));
    ck_assert_str_eq(original, joined);
}

static uint64_t sidecar_size(const struct trial *trial, const char *option)
{
    const char *image = trial->images.items[trial->images.count - 1];
    const char *sidecar = path_join(trial->scratch, "size.covsplit");

    run_or_abort(trial->original, covsplit_path(), "split", option, "-o",
                 path_join(trial->scratch, "size.stripped"), "--sidecar", sidecar, image, NULL);
    return file_size(sidecar);
}

/* The compact forms are worth their while: in thousandths of what zstd alone makes at most. */
static void check_compact_size(const struct trial *trial, uint64_t permille_max)
{
    uint64_t compact = sidecar_size(trial, "--verbose");
    uint64_t portable = sidecar_size(trial, "--portable");

    ck_assert_msg(compact * 1000 <= portable * permille_max,
                  "the sidecar has %" PRIu64 " bytes, with --portable %" PRIu64, compact, portable);
}

static void check_trial(struct trial *trial, const char *function, const char *label)
{
    struct verdict verdict = {0};
    if (trial_check_all(trial, &verdict) && trial_check_strip_tools(trial, &verdict)) {
        trial_check_debugger(trial, function, &verdict);
    }
    verdict_assert(&verdict, label);
}

static struct trial sqlite_trial(void)
{
    struct trial trial = trial_create("sqlite");
    trial.clang = clang_version;
    text_list_add(&trial.images, "sqlite");
    build_sqlite(trial.original);
    if (target != NULL) {
        trial.emulator = target_emulator(target);
        trial.address_unit = target->address_unit;
    }
    return trial;
}

START_TEST(test_sqlite)
{
    struct trial trial = sqlite_trial();
    check_trial(&trial, "sqlite3_exec", "SQLite");
    check_compact_size(&trial, SQLITE_PERMILLE);
    check_report(&trial);
}
END_TEST

static uint64_t profile_size(const struct trial *trial, const char *directory)
{
    const char *path = path_join(trial->scratch, directory);
    return file_size(path_join(path, directory_list(path).items[0]));
}

START_TEST(test_emulated_sqlite)
{
    struct trial trial = sqlite_trial();
    struct verdict verdict = {0};
    if (trial_check_all(&trial, &verdict)) {
        trial_check_report(&trial, &verdict);
    }
    verdict_assert(&verdict, target->name);
    uint64_t before = file_size(path_join(trial.original, "sqlite"));
    uint64_t after = file_size(path_join(trial.stripped, "sqlite"));
    uint64_t full = profile_size(&trial, "profiles-original-1");
    uint64_t light = profile_size(&trial, "profiles-stripped-1");
    printf("SQLite, %s: image %" PRIu64 " -> %" PRIu64 " bytes, raw profile %" PRIu64 " -> %" PRIu64
           ", sidecar %" PRIu64 "\n%s",
           target->name, before, after, full, light, sidecar_size(&trial, "--verbose"),
           trial.messages);
    ck_assert_uint_lt(after * 4, before * 3);
    ck_assert_uint_lt(light * 3, full * 2);
}
END_TEST

static void check_leveldb(const char *objects, const char *linker)
{
    struct trial driver = trial_create("leveldb");
    driver.clang = clang_version;
    text_list_add(&driver.images, "driver");
    text_list_add(&driver.images, LEVELDB_LIBRARY);
    leveldb_link(clang_version, linker, objects, driver.original, "driver", LEVELDB_DRIVER);
    check_trial(&driver, "main", text_format("LevelDB driver, %s", linker));
    check_compact_size(&driver, LEVELDB_PERMILLE);
    check_report(&driver);

    /* db_bench starts threads: what they count while they wait for each other differs a little from
     * run to run, and so do the times that it prints. */
    struct trial bench = trial_create("db_bench");
    bench.clang = clang_version;
    bench.differing_permille = DB_BENCH_PERMILLE;
    text_list_add(&bench.images, "db_bench");
    text_list_add(&bench.images, LEVELDB_LIBRARY);
    text_list_add(&bench.split_options, "--portable");
    text_list_add_words(&bench.arguments,
                        "--db=database --num=2000 --benchmarks=fillseq,readseq,readrandom");
    leveldb_link(clang_version, linker, objects, bench.original, "db_bench", LEVELDB_DB_BENCH);
    check_trial(&bench, "main", text_format("db_bench, %s", linker));
}

START_TEST(test_leveldb)
{
    const char *objects = leveldb_objects(clang_version);
    check_leveldb(objects, "bfd");
    check_leveldb(objects, "lld");
}
END_TEST

int main(int argument_count, char **arguments)
{
    TCase *test_case = suite_case("real programs", 1500, NULL);
    if (argument_count >= 5 && strcmp(arguments[1], "sqlite") == 0) {
        clang_version = arguments[2];
        linker_name = arguments[3];
        optimization = arguments[4];
        target = argument_count == 6 ? target_find(arguments[5]) : NULL;
        tcase_add_test(test_case, target != NULL ? test_emulated_sqlite : test_sqlite);
    } else if (argument_count == 3 && strcmp(arguments[1], "leveldb") == 0) {
        clang_version = arguments[2];
        tcase_add_test(test_case, test_leveldb);
    } else {
        return suite_usage(arguments[0],
                           "sqlite CLANG LINKER OPTIMIZATION [MACHINE] | leveldb CLANG");
    }
    return suite_main("real programs", test_case);
}
