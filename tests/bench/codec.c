/*
 * A benchmark, run by hand: how small sidecars are, and what making them costs.
 *
 * Of each image given, the four sections that a split takes out are compressed as others would
 * compress them, and the image is split. Then the processor time of a split on one thread is set
 * against that of llvm-objcopy taking out the coverage mapping plus zstd -9 of the four sections.
 *
 * Usage: bench_codec IMAGE...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/file_system.h"
#include "tests/support/process.h"

#define REPEAT       5
#define LLVM_OBJCOPY "llvm-objcopy-19"

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

static void measure(const char *image, const char *scratch)
{
    const char *together = path_join(scratch, "together");
    const char *slash = strrchr(image, '/');
    double split, others;
    long peak, ignored;

    extract(image, scratch, together);
    printf("| %s | %" PRIu64, slash == NULL ? image : slash + 1, file_size(together));
    printf(" | %" PRIu64, compressed_size(text_format("zstd -q -3 -c %s", together)));
    printf(" | %" PRIu64, compressed_size(text_format("zstd -q -19 --long=27 -c %s", together)));
    printf(" | %" PRIu64, compressed_size(text_format("xz -9e -c %s", together)));
    printf(" | %" PRIu64, sidecar_size(image, scratch, "--portable"));
    printf(" | %" PRIu64, sidecar_size(image, scratch, "--level=9"));
    printf(" | %" PRIu64 " |", sidecar_size(image, scratch, "--level=19"));
    split = seconds_of(text_format("%s split -j1 -o %s --sidecar %s %s", covsplit_path(),
                                   path_join(scratch, "stripped"), path_join(scratch, "sidecar"),
                                   image),
                       &peak);
    others = seconds_of(text_format(LLVM_OBJCOPY " -R __llvm_covmap -R __llvm_covfun %s %s", image,
                                    path_join(scratch, "stripped")),
                        &ignored) +
             seconds_of(text_format("zstd -q -f --single-thread -9 %s", together), &ignored);
    printf(" %.3f | %.3f | %ld |\n", split, others, peak);
    fflush(stdout);
}

int main(int argument_count, char **arguments)
{
    char *scratch = scratch_create("codec");

    if (argument_count < 2) {
        fprintf(stderr, "usage: %s IMAGE...\n", arguments[0]);
        return EXIT_FAILURE;
    }
    puts("| image | sections | zstd -3 | zstd -19 --long=27 | xz -9e | --portable | sidecar | "
         "--level 19 | split, s | objcopy and zstd -9, s | peak, KiB |");
    puts("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (int i = 1; i < argument_count; i++)
        measure(arguments[i], scratch);
    scratch_remove(scratch);
    return EXIT_SUCCESS;
}
