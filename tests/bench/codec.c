/*
 * A benchmark, run by hand: how small sidecars are, and what making them costs.
 *
 * Of each image, the four sections that a split takes out are compressed as others would compress
 * them, and the image is split. Then the processor time of a split on one thread, with and without
 * the proof that the image comes back, is set against that of llvm-objcopy taking out the coverage
 * mapping plus zstd -9 of the four sections.
 *
 * Usage: bench_codec [CLANG...]      (14 19 22: RE2 with Abseil, LevelDB, SQLite)
 *        bench_codec IMAGE...        (paths with a slash)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define SQLITE_SOURCE COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3"
#define REPEAT        5
#define LLVM_OBJCOPY  "llvm-objcopy-19"

static const char *const sections[] = {"__llvm_covmap", "__llvm_covfun", "__llvm_prf_names",
                                       "__llvm_prf_data"};

/* Runs a command line of words; ends the benchmark where it fails. */
static struct outcome run(const char *words)
{
    struct command command = {.timeout_seconds = 600};
    struct outcome outcome;

    text_list_add_words(&command.arguments, words);
    outcome = command_run(&command);
    if (!outcome_exited(&outcome, 0)) {
        fputs(outcome_describe(&command, &outcome), stderr);
        exit(EXIT_FAILURE);
    }
    command_free(&command);
    return outcome;
}

/* The least processor time of some runs: what disturbs one only makes it longer. */
static double seconds_of(const char *words, long *peak_kib)
{
    double best = 0;

    for (int i = 0; i < REPEAT; i++) {
        struct outcome outcome = run(words);

        if (i == 0 || outcome.processor_seconds < best)
            best = outcome.processor_seconds;
        *peak_kib = outcome.peak_resident_kib;
        outcome_free(&outcome);
    }
    return best;
}

/* Puts the four sections behind each other into a file. */
static void extract(const char *image, const char *scratch, const char *together)
{
    FILE *out = fopen(together, "wb");

    for (size_t i = 0; out != NULL && i < sizeof(sections) / sizeof(sections[0]); i++) {
        const char *part = path_join(scratch, "section");
        struct outcome outcome =
            run(text_format(LLVM_OBJCOPY " -O binary --only-section=%s --set-section-flags "
                                         "%s=alloc %s %s",
                            sections[i], sections[i], image, part));
        struct contents contents = file_read(part);

        if (fwrite(contents.data, 1, contents.size, out) != contents.size)
            exit(EXIT_FAILURE);
        contents_free(&contents);
        outcome_free(&outcome);
    }
    if (out == NULL || fclose(out) != 0)
        exit(EXIT_FAILURE);
}

/* How much the command prints. */
static uint64_t compressed_size(const char *words)
{
    struct outcome outcome = run(words);
    uint64_t size = outcome.output_size;

    outcome_free(&outcome);
    return size;
}

static uint64_t sidecar_size(const char *image, const char *scratch, const char *options)
{
    const char *sidecar = path_join(scratch, "sidecar");
    struct outcome outcome =
        run(text_format("%s split %s -o %s --sidecar %s %s", covsplit_path(), options,
                        path_join(scratch, "stripped"), sidecar, image));

    outcome_free(&outcome);
    return file_size(sidecar);
}

struct times {
    double seconds;
    long peak_kib;
};

static struct times time_split(const char *image, const char *scratch, const char *options)
{
    struct times times;

    times.seconds = seconds_of(text_format("%s split -j1 %s -o %s --sidecar %s %s", covsplit_path(),
                                           options, path_join(scratch, "stripped"),
                                           path_join(scratch, "sidecar"), image),
                               &times.peak_kib);
    return times;
}

static void measure(const char *label, const char *image, const char *scratch)
{
    const char *together = path_join(scratch, "together");
    struct times exact, inexact;
    double others;
    long ignored;

    extract(image, scratch, together);
    printf("| %s | %" PRIu64, label, file_size(together));
    printf(" | %" PRIu64, compressed_size(text_format("zstd -q -3 -c %s", together)));
    printf(" | %" PRIu64, compressed_size(text_format("zstd -q -19 --long=27 -c %s", together)));
    printf(" | %" PRIu64, compressed_size(text_format("xz -9e -c %s", together)));
    printf(" | %" PRIu64, sidecar_size(image, scratch, "--portable"));
    printf(" | %" PRIu64, sidecar_size(image, scratch, "--level=9"));
    printf(" | %" PRIu64, sidecar_size(image, scratch, "--level=19"));
    printf(" | %" PRIu64 " |", sidecar_size(image, scratch, "--no-exact"));
    exact = time_split(image, scratch, "");
    inexact = time_split(image, scratch, "--no-exact");
    others = seconds_of(text_format(LLVM_OBJCOPY " -R __llvm_covmap -R __llvm_covfun %s %s", image,
                                    path_join(scratch, "stripped")),
                        &ignored) +
             seconds_of(text_format("zstd -q -f --single-thread -9 %s", together), &ignored);
    printf(" %.3f | %.3f | %.3f | %ld |\n", exact.seconds, inexact.seconds, others, exact.peak_kib);
    fflush(stdout);
}

/* The images that one compiler makes. */
static void measure_clang(const char *clang, const char *scratch)
{
    struct command command = {.directory = scratch, .timeout_seconds = 600};

    measure(text_format("RE2 and Abseil, clang %s", clang),
            path_join(re2_images(clang), RE2_LIBRARY), scratch);
    leveldb_link(clang, "lld", leveldb_objects(clang), scratch, "db_bench", LEVELDB_DB_BENCH);
    measure(text_format("LevelDB, clang %s", clang), path_join(scratch, LEVELDB_LIBRARY), scratch);
    measure(text_format("db_bench, clang %s", clang), path_join(scratch, "db_bench"), scratch);
    text_list_add(&command.arguments, versioned_tool("clang", clang));
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE
                        " -w -O1 -fuse-ld=lld -Wl,--build-id=sha1 -I" SQLITE_SOURCE
                        " " SQLITE_SOURCE "/sqlite3.c " COVSPLIT_FIXTURE_DIRECTORY
                        "/sqlite_driver.c -lm -o sqlite");
    command_run_or_abort(&command);
    command_free(&command);
    measure(text_format("SQLite, clang %s", clang), path_join(scratch, "sqlite"), scratch);
}

int main(int argument_count, char **arguments)
{
    static char *const usual[] = {NULL, "14", "19", "22"};
    char *scratch = scratch_create("codec");

    if (argument_count < 2) {
        argument_count = sizeof(usual) / sizeof(usual[0]);
        arguments = (char **)(uintptr_t)usual;
    }
    puts("| image | sections | zstd -3 | zstd -19 --long=27 | xz -9e | --portable | sidecar | "
         "--level 19 | --no-exact | split, s | --no-exact, s | objcopy and zstd -9, s | peak, KiB "
         "|");
    puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (int i = 1; i < argument_count; i++) {
        const char *slash = strrchr(arguments[i], '/');

        if (slash != NULL)
            measure(slash + 1, arguments[i], scratch);
        else
            measure_clang(arguments[i], scratch);
    }
    scratch_remove(scratch);
    return EXIT_SUCCESS;
}
