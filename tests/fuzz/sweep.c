/*
 * The main function of a fuzz target without an engine: damages each seed in many ways, which
 * depend on numbers alone, and runs the target on the results. An engine goes deeper, but takes
 * hours; this takes seconds, and is for every build.
 *
 * Usage: PROGRAM ROUNDS DIRECTORY      of each seed in the directory, this many damaged ones
 *
 * What goes wrong aborts; the damaged input is then in a file `failed-input`.
 */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/windows.h"
#include "tests/support/random.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* What the target runs on. */
static uint8_t *input;
static size_t input_size;

/* How much a damaged input may be longer than its seed. */
#define GROWTH 64

/* In place of the engine's own mutation: another byte somewhere, one more, or an earlier end. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    static struct random_state random;
    size_t place = (size_t)random_below(&random, size + 1);
    uint64_t kind = random_below(&random, 8);
    uint8_t byte = (uint8_t)(1 + random_below(&random, UINT8_MAX));

    if (place == size || kind == 0) {
        if (size == max_size)
            return size;
        memmove(data + place + 1, data + place, size - place);
        data[place] = byte;
        return size + 1;
    }
    if (kind == 1)
        return place;
    data[place] ^= byte;
    return size;
}

static void keep_input(int number)
{
    FILE *file = fopen("failed-input", "wb");

    (void)number;
    if (file != NULL) {
        fwrite(input, 1, input_size, file);
        fclose(file);
    }
}

static uint8_t *read_seed(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *seed;

    FUZZ_EXPECT(file != NULL && fseek(file, 0, SEEK_END) == 0, "%s: cannot be read", path);
    *size = (size_t)ftell(file);
    seed = malloc(*size);
    rewind(file);
    FUZZ_EXPECT(*size != 0 && seed != NULL && fread(seed, 1, *size, file) == *size,
                "%s: cannot be read", path);
    fclose(file);
    return seed;
}

/* Each input gets memory of just its size, so that a sanitizer sees what is read behind its end. */
static void sweep(const char *path, unsigned long rounds)
{
    size_t size;
    uint8_t *seed = read_seed(path, &size), *damaged = malloc(size + GROWTH);

    FUZZ_EXPECT(damaged != NULL, "no memory for the test");
    for (unsigned long i = 0; i < rounds; i++) {
        memcpy(damaged, seed, size);
        input_size = LLVMFuzzerCustomMutator(damaged, size, size + GROWTH, (unsigned)i);
        input = malloc(input_size + (input_size == 0));
        FUZZ_EXPECT(input != NULL, "no memory for the test");
        memcpy(input, damaged, input_size);
        LLVMFuzzerTestOneInput(input, input_size);
        free(input);
    }
    free(seed);
    free(damaged);
}

int main(int word_count, char **words)
{
    unsigned long rounds, seeds = 0;
    struct dirent **names;
    int count;

    FUZZ_EXPECT(word_count == 3, "usage: %s ROUNDS DIRECTORY", words[0]);
    signal(SIGABRT, keep_input);
    rounds = strtoul(words[1], NULL, 10);
    count = scandir(words[2], &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];

        if (names[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", words[2], names[i]->d_name);
            sweep(path, rounds);
            seeds++;
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    printf("%lu seeds, %lu inputs\n", seeds, seeds * rounds);
    return seeds == 0 || rounds == 0;
}
