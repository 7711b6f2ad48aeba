/*
 * A benchmark, run by hand: covsplit merge against llvm-profdata merge.
 *
 * LevelDB's db_bench with its library, SQLite, and a generated C++ program of 20,000 functions,
 * which is the size of a large application, are run as they were and split. From those profiles as
 * many are made as are asked for, and merged side by side: the unsplit images' by llvm-profdata,
 * the split images' by covsplit. Then it says where covsplit's time goes: reading, adding and
 * correlating, or llvm-profdata at the end, which cannot take less than it needs for one profile an
 * image.
 *
 * Usage: bench_merge [CLANG [COUNT...]]      (19; 10 100 1000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/cost.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define RUNS         5
#define REPEAT       3
#define LONG_SECONDS 5

static const char *clang_version = "19";
static char *scratch;

/* A program whose profiles are merged. */
struct subject {
    const char *name;
    const char *arguments;
    const char *library; /* beside the program; NULL: none */
    int exit_code;
    void (*build)(const char *directory);
};

static void build_leveldb(const char *directory)
{
    leveldb_link(clang_version, "bfd", leveldb_objects(clang_version), directory, "program",
                 LEVELDB_DB_BENCH);
}

static void build_sqlite(const char *directory)
{
    const char *source = COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3";
    struct command command = {.directory = directory, .timeout_seconds = 600};
    text_list_add(&command.arguments, versioned_tool("clang", clang_version));
    text_list_add_words(&command.arguments,
                        INSTRUMENT_COVERAGE " -w -O1 -DSQLITE_OMIT_LOAD_EXTENSION "
                                            "-DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_MATH_FUNCTIONS "
                                            "-Wl,--build-id=sha1 -o program");
    text_list_add_format(&command.arguments, "-I%s", source);
    text_list_add_format(&command.arguments, "%s/sqlite3.c", source);
    text_list_add(&command.arguments, COVSPLIT_FIXTURE_DIRECTORY "/sqlite_driver.c");
    text_list_add(&command.arguments, "-lm");
    command_run_or_abort(&command);
    command_free(&command);
}

static void build_generated(const char *directory)
{
    struct program program = {.clang = clang_version,
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_CXX,
                              .optimization = "-O0",
                              .functions = 10000};
    program_build(&program, directory);
}

static const struct subject subjects[] = {
    {"LevelDB", "--db=database --num=2000 --benchmarks=fillseq,readseq,readrandom", LEVELDB_LIBRARY,
     0, build_leveldb},
    {"SQLite", "", NULL, 0, build_sqlite},
    {"20,000 functions", "", NULL, 3, build_generated},
};

/* ---- profiles ---- */

static void run_program(const struct subject *subject, const char *images, unsigned run)
{
    struct command command = {.directory = path_join(scratch, "work")};
    directory_remove(command.directory);
    directory_create(command.directory);
    text_list_add_format(&command.arguments, "%s/%s/program", scratch, images);
    text_list_add_words(&command.arguments, subject->arguments);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/run-%s-%u/%%m.profraw",
                         scratch, images, run);
    struct outcome outcome = command_run(&command);
    if (!outcome_exited(&outcome, subject->exit_code)) {
        fprintf(stderr, "%s\n", outcome_describe(&command, &outcome));
        exit(EXIT_FAILURE);
    }
    outcome_free(&outcome);
    command_free(&command);
}

static void split_image(const char *image)
{
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o",
                 path_join("split", image), path_join("original", image), NULL);
}

static void prepare(const struct subject *subject)
{
    directory_create(path_join(scratch, "original"));
    directory_create(path_join(scratch, "split"));
    subject->build(path_join(scratch, "original"));
    split_image("program");
    if (subject->library != NULL) {
        split_image(subject->library);
    }
    for (unsigned run = 0; run < RUNS; run++) {
        run_program(subject, "original", run);
        run_program(subject, "split", run);
    }
}

/* So many profiles of `images`, in a directory: more names of those of the runs, so that the disk
 * has no part in what is measured. */
static char *make_profiles(const char *images, unsigned long count)
{
    char *directory = text_format("%s/profiles-%s-%lu", scratch, images, count);
    unsigned long next = 0;
    directory_create(directory);
    for (unsigned long made = 0; made < count;) {
        char *run = text_format("%s/run-%s-%lu", scratch, images, next++ % RUNS);
        struct text_list names = directory_list(run);
        for (size_t i = 0; i < names.count && made < count; i++, made++) {
            char *name = text_format("%s/%05lu.profraw", directory, made);
            if (link(path_join(run, names.items[i]), name) != 0) {
                file_copy(path_join(run, names.items[i]), name);
            }
            free(name);
        }
        text_list_free(&names);
        free(run);
    }
    return directory;
}

static double mebibytes(const char *directory)
{
    struct text_list names = directory_list(directory);
    uint64_t size = 0;
    for (size_t i = 0; i < names.count; i++) {
        size += file_size(path_join(directory, names.items[i]));
    }
    text_list_free(&names);
    return (double)size / (1024 * 1024);
}

/* ---- measuring ---- */

/* Long ones are not repeated. */
static struct cost measure(const char *tool, const char *words)
{
    struct command command = {.directory = scratch, .timeout_seconds = 600};
    struct cost best = {0};
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, words);
    text_list_add_format(&command.environment, "LLVM_PROFDATA=llvm-profdata-%s", clang_version);
    for (unsigned i = 0; i < REPEAT && best.wall_seconds < LONG_SECONDS; i++) {
        cost_keep_best(&best, cost_of(&command));
    }
    command_free(&command);
    return best;
}

static void print_cost(const char *label, struct cost cost)
{
    printf("  %-44s %9.4f %9.4f %9.1f\n", label, cost.processor_seconds, cost.wall_seconds,
           (double)cost.peak_kib / 1024);
}

static void compare(unsigned long count)
{
    char *original = make_profiles("original", count);
    char *split = make_profiles("split", count);
    const char *profdata = text_format("llvm-profdata-%s", clang_version);
    printf("%lu profiles: %.1f MiB, split %.1f MiB\n", count, mebibytes(original),
           mebibytes(split));
    printf("  %-44s %9s %9s %9s\n", "", "CPU s", "wall s", "peak MiB");
    struct cost llvm =
        measure(profdata, text_format("merge -o llvm-%lu.profdata %s", count, original));
    struct cost ours = measure(
        covsplit_path(), text_format("merge --store store -o ours-%lu.profdata %s", count, split));
    struct cost raw = measure(
        covsplit_path(), text_format("merge --store store -o ours-%lu.profraw %s", count, split));
    struct cost last =
        measure(profdata, text_format("merge -o last-%lu.profdata ours-%lu.profraw", count, count));
    struct cost full =
        measure(covsplit_path(),
                text_format("merge --store store -o full-%lu.profdata %s", count, original));
    print_cost("llvm-profdata merge", llvm);
    print_cost("covsplit merge", ours);
    print_cost("  of it: reading, adding, correlating", raw);
    print_cost("  of it: llvm-profdata on the sums", last);
    print_cost("covsplit merge of the unsplit profiles", full);
    printf("  llvm-profdata / covsplit: %.1f times the CPU, %.1f times the wall time, %.1f times "
           "the memory\n\n",
           llvm.processor_seconds / ours.processor_seconds, llvm.wall_seconds / ours.wall_seconds,
           (double)llvm.peak_kib / (double)ours.peak_kib);
    fflush(stdout);
    directory_remove(original);
    directory_remove(split);
}

int main(int argument_count, char **arguments)
{
    static const unsigned long counts[] = {10, 100, 1000};
    if (argument_count > 1) {
        clang_version = arguments[1];
    }
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        scratch = scratch_create("bench-merge");
        prepare(&subjects[i]);
        printf("%s, clang-%s\n\n", subjects[i].name, clang_version);
        for (int j = 2; j < argument_count; j++) {
            compare(strtoul(arguments[j], NULL, 10));
        }
        for (size_t j = 0; argument_count <= 2 && j < sizeof counts / sizeof *counts; j++) {
            compare(counts[j]);
        }
        scratch_remove(scratch);
    }
    return EXIT_SUCCESS;
}
