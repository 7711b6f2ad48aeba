/*
 * A benchmark, run by hand: llvm-cov report from the unsplit images, from exported objects, and by
 * `covsplit run` from the stripped images; and `covsplit report` of forty programs.
 *
 * RE2 with Abseil, a large C++ library of many translation units, and LevelDB: in such images each
 * unit brings the names of all inline functions that it uses, and llvm-cov inflates and hashes them
 * all; an exported object has each name once. `covsplit run` makes its objects while llvm-cov
 * waits. The three are run in turn, so that whatever else the machine does hits all of them.
 *
 * The forty are of three libraries (tests/support/real_programs.h). Without `covsplit report`,
 * their profiles are merged by `covsplit merge`, and llvm-cov gets the forty unsplit programs by
 * -object, which it reads one after the other.
 *
 * Usage: bench_report [CLANG [forty]]      (19)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/cost.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define TURNS   15
#define PROGRAM "program"

/* Turns for the forty programs, which take longer. */
#define FORTY_TURNS 5

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

/* ---- forty programs ---- */

static void make_forty(void)
{
    static const char *const directories[] = {"original", "split"};
    scratch = scratch_create("bench-report-forty");
    for (size_t i = 0; i < 2; i++) {
        directory_create(path_join(scratch, directories[i]));
    }
    for (size_t i = 0; i < MANY_PROGRAMS; i++) {
        const char *name = many_programs_name(i);
        struct command command = command_words(scratch, "split/%s", name);
        many_programs_build(clang_version, i, path_join(scratch, "original"));
        run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o",
                     text_format("split/%s", name), text_format("original/%s", name), NULL);
        text_list_add(&command.environment, "LLVM_PROFILE_FILE=raw/%m.profraw");
        command_run_or_abort(&command);
    }
}

static struct command tool(const char *name)
{
    struct command command = {.directory = scratch, .timeout_seconds = 1800};
    text_list_add(&command.arguments, versioned_tool(name, clang_version));
    return command;
}

/* Both commands as one: what they cost together, and the peak of either. */
static struct cost sum_of(struct cost a, struct cost b)
{
    return (struct cost){a.processor_seconds + b.processor_seconds, a.wall_seconds + b.wall_seconds,
                         a.peak_kib > b.peak_kib ? a.peak_kib : b.peak_kib};
}

static void measure_forty(void)
{
    static const struct {
        const char *theirs, *ours;
    } forms[] = {{"report", ""}, {"export -format=lcov", "--format lcov"}};
    make_forty();
    struct command merge =
        covsplit_command(scratch, "merge", "--store", "store", "-o", "all.profdata", "raw",
                         "--llvm-profdata", versioned_tool("llvm-profdata", clang_version), NULL);
    for (size_t form = 0; form < 2; form++) {
        struct source sources[] = {{.name = "merge, and llvm-cov with forty -object"},
                                   {.name = "covsplit report"}};
        struct command cov = tool("llvm-cov"), report = covsplit_command(scratch, "report", NULL);
        text_list_add_words(&cov.arguments, forms[form].theirs);
        text_list_add(&cov.arguments, "-instr-profile=all.profdata");
        for (size_t i = 0; i < MANY_PROGRAMS; i++) {
            text_list_add_words(&cov.arguments, i == 0 ? "" : "-object");
            text_list_add_format(&cov.arguments, "original/%s", many_programs_name(i));
        }
        text_list_add_words(&report.arguments, "--store store --include / raw --llvm-cov");
        text_list_add(&report.arguments, versioned_tool("llvm-cov", clang_version));
        text_list_add(&report.arguments, "--llvm-profdata");
        text_list_add(&report.arguments, versioned_tool("llvm-profdata", clang_version));
        text_list_add_words(&report.arguments, forms[form].ours);
        for (size_t turn = 0; turn < FORTY_TURNS; turn++) {
            struct cost merged = cost_of(&merge);
            cost_keep_best(&sources[0].best, sum_of(merged, cost_of(&cov)));
            cost_keep_best(&sources[1].best, cost_of(&report));
        }
        printf("%d programs, llvm-cov-%s %s: the best of %d turns\n", MANY_PROGRAMS, clang_version,
               forms[form].theirs, FORTY_TURNS);
        print_sources(sources, 2);
    }
    scratch_remove(scratch);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) {
        clang_version = arguments[1];
    }
    for (size_t i = 0; argument_count < 3 && i < sizeof subjects / sizeof *subjects; i++) {
        measure(&subjects[i]);
    }
    measure_forty();
    return EXIT_SUCCESS;
}
