/*
 * A benchmark, run by hand: llvm-cov over many images of one project, named one by one, against the
 * one file that `covsplit export --union` makes of their sidecars.
 *
 * The programs are those of tests/support/real_programs.h: first those of three libraries, then
 * those of RE2 alone. llvm-cov reads the whole mapping of each object, and drops what it has seen;
 * a union has each function once. The row with one image of each library shows the time that
 * llvm-cov needs for the functions themselves. The ways are run in turn, so that other load on the
 * machine affects all of them alike.
 *
 * Usage: bench_union [CLANG [COUNT]]      (19 40)
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/cost.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define TURNS 5

static const char *clang_version = "19";
static size_t program_count = MANY_PROGRAMS;
static char *scratch;

/* Which programs. */
static const struct subject {
    const char *name;
    size_t first, step; /* numbers */
    size_t kinds;       /* of libraries */
} subjects[] = {
    {"of LevelDB, SQLite and RE2", 0, 1, 3},
    {"of RE2", 2, 3, 1},
};

static const struct subject *subject;

/* What llvm-cov is given. */
static const struct source {
    const char *name;
    const char *directory; /* of the images; NULL: the union */
    bool fewest;           /* only one image of each library: another report */
} sources[] = {
    {"the unsplit images", "original", false},
    {"exported objects", "objects", false},
    {"the union", NULL, false},
    {"one unsplit image of each library", "original", true},
};

static const char *const commands[] = {"report", "show", "export -format=lcov",
                                       "export -skip-expansions"};

#define SOURCE_COUNT  (sizeof sources / sizeof *sources)
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

/* ---- the files ---- */

static size_t number_of(size_t index)
{
    return subject->first + index * subject->step;
}

static const char *name_of(size_t index)
{
    return many_programs_name(number_of(index));
}

static void make_program(size_t index)
{
    const char *name = name_of(index);
    struct command command = command_words(scratch, "original/%s", name);
    many_programs_build(clang_version, number_of(index), path_join(scratch, "original"));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=raw/%s.profraw", name);
    command_run_or_abort(&command);
    run_or_abort(scratch, covsplit_path(), "split", "--sidecar",
                 text_format("sidecars/%s.covsplit", name), "-o", text_format("split/%s", name),
                 text_format("original/%s", name), NULL);
    run_or_abort(scratch, covsplit_path(), "export", "--sidecar",
                 text_format("sidecars/%s.covsplit", name), "-o", text_format("objects/%s", name),
                 NULL);
}

static void make_files(void)
{
    static const char *const directories[] = {"original", "split", "sidecars", "objects"};
    scratch = scratch_create("bench-union");
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        directory_create(path_join(scratch, directories[i]));
    }
    for (size_t i = 0; i < program_count; i++) {
        make_program(i);
    }
    run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "merge", "raw", "-o",
                 "all.profdata", NULL);
}

static struct cost make_union(void)
{
    struct command command = covsplit_command(scratch, "export", "--union", "-o", "all.a", NULL);
    struct cost best = {.wall_seconds = 0};
    for (size_t i = 0; i < program_count; i++) {
        text_list_add_format(&command.arguments, "sidecars/%s.covsplit", name_of(i));
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        cost_keep_best(&best, cost_of(&command));
    }
    return best;
}

/* ---- sizes ---- */

static unsigned long long size_of_all(const char *directory, const char *suffix)
{
    unsigned long long size = 0;
    for (size_t i = 0; i < program_count; i++) {
        size += file_size(text_format("%s/%s/%s%s", scratch, directory, name_of(i), suffix));
    }
    return size;
}

static void print_sizes(void)
{
    printf("| %zu programs %s, clang %s | bytes |\n| --- | ---: |\n", program_count, subject->name,
           clang_version);
    printf("| unsplit images | %llu |\n", size_of_all("original", ""));
    printf("| objects of `covsplit export` | %llu |\n", size_of_all("objects", ""));
    printf("| sidecars | %llu |\n", size_of_all("sidecars", ".covsplit"));
    printf("| union | %llu |\n\n", (unsigned long long)file_size(path_join(scratch, "all.a")));
}

/* ---- costs ---- */

static struct cost run_tool(const char *words, const struct source *source)
{
    struct command command = {.directory = scratch, .timeout_seconds = 1800};
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.arguments, "-instr-profile=all.profdata");
    size_t count = source->fewest ? subject->kinds : program_count;
    for (size_t i = 0; source->directory != NULL && i < count; i++) {
        text_list_add_format(&command.arguments, "%s%s/%s",
                             i == 0 ? "" : "-object=", source->directory, name_of(i));
    }
    if (source->directory == NULL) {
        text_list_add(&command.arguments, "all.a");
    }
    struct cost cost = cost_of(&command);
    command_free(&command);
    return cost;
}

static void print_row(const char *name, const struct cost *cost, const struct cost *base)
{
    printf("| %s | %.2f | %.2f | %.0f | %.2f | %.2f |\n", name, cost->wall_seconds,
           cost->processor_seconds, (double)cost->peak_kib / 1024,
           cost->wall_seconds / base->wall_seconds,
           (double)cost->peak_kib / (double)base->peak_kib);
}

static void measure_command(const char *words)
{
    struct cost best[SOURCE_COUNT] = {{.wall_seconds = 0}};
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < SOURCE_COUNT; i++) {
            cost_keep_best(&best[i], run_tool(words, &sources[i]));
        }
    }
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        print_row(text_format("`llvm-cov %s`, %s", words, sources[i].name), &best[i], &best[0]);
    }
}

static void measure(void)
{
    make_files();
    struct cost own = make_union();
    print_sizes();
    printf("| | seconds | processor seconds | memory, MiB | seconds, ratio | memory, ratio |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: |\n");
    print_row("`covsplit export --union`", &own, &own);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        measure_command(commands[i]);
    }
    printf("\n");
    scratch_remove(scratch);
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) {
        clang_version = arguments[1];
    }
    if (argument_count > 2) {
        program_count = strtoul(arguments[2], NULL, 10);
    }
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        subject = &subjects[i];
        measure();
    }
    return EXIT_SUCCESS;
}
