/*
 * A benchmark, run by hand: llvm-cov report from the unsplit images, from exported objects, and by
 * `covsplit run` from the stripped images.
 *
 * RE2 with Abseil, a large C++ library of many translation units, and LevelDB: in such images each
 * unit brings the names of all inline functions that it uses, and llvm-cov inflates and hashes them
 * all; an exported object has each name once. `covsplit run` makes its objects while llvm-cov
 * waits. The three are run in turn, so that whatever else the machine does hits all of them.
 *
 * Usage: bench_report [CLANG]      (19)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/cost.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define TURNS   15
#define PROGRAM "program"

static const char *clang_version = "19";
static char *scratch;

struct subject {
    const char *name;
    const char *library;
    const char *arguments; /* of the program */
    void (*build)(const struct subject *subject, const char *directory);
};

static void build_re2(const struct subject *subject, const char *directory)
{
    const char *images = re2_images(clang_version);
    file_copy(path_join(images, PROGRAM), path_join(directory, PROGRAM));
    file_copy(path_join(images, subject->library), path_join(directory, subject->library));
}

static void build_leveldb(const struct subject *subject, const char *directory)
{
    (void)subject;
    leveldb_link(clang_version, "lld", leveldb_objects(clang_version), directory, PROGRAM,
                 LEVELDB_DB_BENCH);
}

static const struct subject subjects[] = {
    {"RE2 with Abseil", RE2_LIBRARY, "", build_re2},
    {"LevelDB", LEVELDB_LIBRARY, "--db=database --num=2000 --benchmarks=fillseq,readseq,readrandom",
     build_leveldb},
};

/* What the reports are taken from. */
struct source {
    const char *name;
    const char *directory;
    const char *runner;
    struct cost best;
};

static void split_image(const char *image)
{
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o",
                 path_join("split", image), path_join("original", image), NULL);
    run_or_abort(scratch, covsplit_path(), "split", "--sidecar", "sidecar", "-o", "again",
                 path_join("original", image), NULL);
    run_or_abort(scratch, covsplit_path(), "export", "--sidecar", "sidecar", "-o",
                 path_join("objects", image), NULL);
}

static void make_profile(const struct subject *subject)
{
    struct command command = {.directory = scratch};
    text_list_add(&command.arguments, "original/" PROGRAM);
    text_list_add_words(&command.arguments, subject->arguments);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=raw/%m.profraw");
    command_run_or_abort(&command);
    command_free(&command);
    run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "merge", "raw", "-o",
                 "app.profdata", NULL);
}

static void take_report(const struct subject *subject, struct source *source)
{
    struct command command = {.directory = path_join(scratch, source->directory)};
    if (source->runner != NULL) {
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, source->runner);
    }
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments,
                        "report -instr-profile=../app.profdata " PROGRAM " -object");
    text_list_add(&command.arguments, subject->library);
    cost_keep_best(&source->best, cost_of(&command));
    command_free(&command);
}

static void print_sources(const struct source *sources, size_t count)
{
    printf("  %-36s %9s %9s %9s %9s %9s\n", "llvm-cov report from", "CPU s", "wall s", "peak MiB",
           "CPU", "wall");
    for (size_t i = 0; i < count; i++) {
        const struct cost *best = &sources[i].best;
        printf("  %-36s %9.4f %9.4f %9.1f %9.2f %9.2f\n", sources[i].name, best->processor_seconds,
               best->wall_seconds, (double)best->peak_kib / 1024,
               best->processor_seconds / sources[0].best.processor_seconds,
               best->wall_seconds / sources[0].best.wall_seconds);
    }
    printf("\n");
}

static void measure(const struct subject *subject)
{
    struct source sources[] = {
        {"the unsplit images", "original", NULL, {.wall_seconds = 0}},
        {"exported objects", "objects", NULL, {.wall_seconds = 0}},
        {"the stripped images, by run", "split", "run --store ../store --", {.wall_seconds = 0}},
    };
    const size_t count = sizeof sources / sizeof *sources;
    scratch = scratch_create("bench-report");
    for (size_t i = 0; i < count; i++) {
        directory_create(path_join(scratch, sources[i].directory));
    }
    subject->build(subject, path_join(scratch, "original"));
    split_image(PROGRAM);
    split_image(subject->library);
    make_profile(subject);
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < count; i++) {
            take_report(subject, &sources[i]);
        }
    }
    printf("%s, clang-%s: the best of %d turns; the last two columns as ratios\n", subject->name,
           clang_version, TURNS);
    print_sources(sources, count);
    scratch_remove(scratch);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) {
        clang_version = arguments[1];
    }
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        measure(&subjects[i]);
    }
    return EXIT_SUCCESS;
}
