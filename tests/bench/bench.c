/*
 * A benchmark of split, on an image of 1 GiB: SQLite with noise behind it.
 *
 * Usage: bench [DIRECTORY]      (needs 4 GiB there; default: $TMPDIR or /tmp)
 *
 * What is measured against is what one would do by hand with the usual tools: llvm-objcopy removes
 * the coverage mapping, which is all that can be removed that way, and zstd -9 compresses all the
 * sections that covsplit takes out. Absolute numbers say little on a shared machine; the ratios
 * come from one run, the best of several repetitions each.
 *
 * Exits with 1 where the split's peak memory is above 64 MiB plus twice the size of what it
 * removed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/random.h"

#define SQLITE_SOURCE   COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3"
#define FILLER_SIZE     (UINT64_C(1) << 30)
#define FILLER_BLOCK    (UINT64_C(1) << 20)
#define REPETITIONS     3
#define RUN_SECONDS     600
#define MEBIBYTE        1048576.0
#define PEAK_ALLOWANCE  64.0 /* MiB */
#define CLANG           "19"
#define SECTION_PATTERN "section-%zu"

static const char *const removable[] = {
    "__llvm_covmap",
    "__llvm_covfun",
    "__llvm_prf_names",
    "__llvm_prf_data",
};

#define REMOVABLE_COUNT (sizeof removable / sizeof *removable)

/* Noise: no hole, and nothing to compress. */
static void write_filler(const char *path)
{
    struct random_state random = random_start(1);
    uint64_t *block = malloc(FILLER_BLOCK);
    FILE *file = fopen(path, "wb");
    if (block == NULL || file == NULL) {
        abort();
    }
    for (uint64_t written = 0; written < FILLER_SIZE; written += FILLER_BLOCK) {
        for (size_t i = 0; i < FILLER_BLOCK / sizeof *block; i++) {
            block[i] = random_next(&random);
        }
        if (fwrite(block, 1, FILLER_BLOCK, file) != FILLER_BLOCK) {
            abort();
        }
    }
    if (fclose(file) != 0) {
        abort();
    }
    free(block);
}

static void build_image(const char *directory)
{
    write_filler(path_join(directory, "filler"));
    file_write_text(path_join(directory, "filler.s"), ".section .rodata.filler,\"a\",@progbits\n"
                                                      ".globl filler\nfiller:\n"
                                                      ".incbin \"filler\"\n"
                                                      ".section .note.GNU-stack,\"\",@progbits\n");
    struct command command = {.directory = directory, .timeout_seconds = RUN_SECONDS};
    text_list_add(&command.arguments, "clang-" CLANG);
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE
                        " -w -O1 -fuse-ld=lld -Wl,--build-id=sha1 "
                        "-I" SQLITE_SOURCE " " SQLITE_SOURCE
                        "/sqlite3.c " COVSPLIT_FIXTURE_DIRECTORY "/sqlite_driver.c filler.s "
                        "-lm -o image");
    command_run_or_abort(&command);
    command_free(&command);
}

/* Writes each section to a file of its own; returns the sum of their sizes. This process must not
 * read the image itself: the kernel counts the memory of the process that starts a command as the
 * command's own. */
static uint64_t write_sections(const char *directory)
{
    struct command command = {.directory = directory, .timeout_seconds = RUN_SECONDS};
    text_list_add(&command.arguments, "llvm-objcopy-" CLANG);
    for (size_t i = 0; i < REMOVABLE_COUNT; i++) {
        text_list_add_format(&command.arguments, "--dump-section=%s=" SECTION_PATTERN, removable[i],
                             i);
    }
    text_list_add_words(&command.arguments, "image /dev/null");
    command_run_or_abort(&command);
    command_free(&command);
    uint64_t sum = 0;
    for (size_t i = 0; i < REMOVABLE_COUNT; i++) {
        char *name = text_format(SECTION_PATTERN, i);
        char *path = path_join(directory, name);
        sum += file_size(path);
        free(path);
        free(name);
    }
    return sum;
}

struct cost {
    double wall_seconds;
    double processor_seconds;
    double peak_mebibytes;
};

/* The best of the repetitions, for each number by itself. */
static struct cost measure(const struct command *command)
{
    struct cost best = {0};
    for (int i = 0; i < REPETITIONS; i++) {
        struct outcome outcome = command_run(command);
        if (!outcome_exited(&outcome, 0)) {
            fprintf(stderr, "%s\n", outcome_describe(command, &outcome));
            exit(EXIT_FAILURE);
        }
        double peak = (double)outcome.peak_resident_kib * 1024 / MEBIBYTE;
        if (i == 0 || outcome.wall_seconds < best.wall_seconds) {
            best.wall_seconds = outcome.wall_seconds;
        }
        if (i == 0 || outcome.processor_seconds < best.processor_seconds) {
            best.processor_seconds = outcome.processor_seconds;
        }
        if (i == 0 || peak < best.peak_mebibytes) {
            best.peak_mebibytes = peak;
        }
        outcome_free(&outcome);
    }
    return best;
}

static struct cost measure_words(const char *directory, const char *words)
{
    struct command command = {.directory = directory, .timeout_seconds = RUN_SECONDS};
    text_list_add_words(&command.arguments, words);
    struct cost cost = measure(&command);
    command_free(&command);
    return cost;
}

static struct cost measure_split(const char *directory, const char *words)
{
    struct command command = covsplit_command(directory, "split", NULL);
    command.timeout_seconds = RUN_SECONDS;
    text_list_add_words(&command.arguments, words);
    struct cost cost = measure(&command);
    command_free(&command);
    return cost;
}

static void print_cost(const char *label, struct cost cost)
{
    printf("%-44s %8.2f s %8.2f s %9.1f MiB\n", label, cost.wall_seconds, cost.processor_seconds,
           cost.peak_mebibytes);
}

static uint64_t compressed_size(const char *directory)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < REMOVABLE_COUNT; i++) {
        char *name = text_format(SECTION_PATTERN ".zst", i);
        char *path = path_join(directory, name);
        sum += file_size(path);
        free(path);
        free(name);
    }
    return sum;
}

static int report(const char *directory, uint64_t removed)
{
    printf("%-44s %10s %10s %13s\n", "", "wall", "processor", "peak memory");
    struct cost objcopy = measure_words(
        directory, "llvm-objcopy-" CLANG
                   " --remove-section=__llvm_covmap --remove-section=__llvm_covfun image by-hand");
    print_cost("llvm-objcopy, coverage mapping", objcopy);
    struct cost zstd =
        measure_words(directory, "zstd -9 -q -f section-0 section-1 section-2 section-3");
    print_cost("zstd -9, the four sections", zstd);
    struct cost split = measure_split(directory, "-o stripped --sidecar sidecar image");
    print_cost("covsplit split", split);
    struct cost join = measure_words(
        directory, text_format("%s join --sidecar sidecar -o joined stripped", covsplit_path()));
    print_cost("covsplit join", join);

    printf("\nsplit to llvm-objcopy + zstd: wall %.2f, processor %.2f, peak memory %.2f\n",
           split.wall_seconds / (objcopy.wall_seconds + zstd.wall_seconds),
           split.processor_seconds / (objcopy.processor_seconds + zstd.processor_seconds),
           split.peak_mebibytes / objcopy.peak_mebibytes);
    printf("sidecar to zstd files: %.2f\n",
           (double)file_size(path_join(directory, "sidecar")) / (double)compressed_size(directory));

    double limit = PEAK_ALLOWANCE + 2 * (double)removed / MEBIBYTE;
    printf("peak memory of split: %.1f MiB, at most %.1f\n", split.peak_mebibytes, limit);
    if (split.peak_mebibytes > limit) {
        printf("too much memory\n");
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argument_count, char **arguments)
{
    if (argument_count > 1) {
        setenv("TMPDIR", arguments[1], 1);
    }
    char *directory = scratch_create("bench");
    build_image(directory);
    uint64_t removed = write_sections(directory);
    printf("image %.1f MiB, of which %.2f MiB can be removed\n\n",
           (double)file_size(path_join(directory, "image")) / MEBIBYTE, (double)removed / MEBIBYTE);
    int result = report(directory, removed);
    run_or_abort(directory, "cmp", "image", "joined", NULL);
    scratch_remove(directory);
    return result;
}
