/*
 * The profiles of profile_farm.h.
 */
#include "tests/support/profile_farm.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

static struct farm_image make_image(const char *directory, size_t number, unsigned functions)
{
    const char *prefix = text_format("image%zu", number);
    source_generate(text_format("%s/%s.c", directory, prefix), LANGUAGE_C, prefix, functions);
    file_write_text(text_format("%s/%s-main.c", directory, prefix),
                    text_format("long %s_run(long seed);\n"
                                "int main(void) { %s_run(1); return 0; }\n",
                                prefix, prefix));
    run_or_abort(directory, "clang-19", "-O1", "-w", "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-o", prefix, text_format("%s.c", prefix),
                 text_format("%s-main.c", prefix), NULL);
    struct outcome outcome = program_run(directory, prefix);
    ck_assert(outcome_exited(&outcome, 0));
    outcome_free(&outcome);
    struct raw_profile profile;
    struct verdict verdict = {0};
    raw_profile_read(text_format("%s/%s.profraw", directory, prefix), &profile, &verdict);
    verdict_assert(&verdict, prefix);
    return (struct farm_image){
        .profile = profile.file,
        .counters_offset = (size_t)(profile.counters.data - profile.file.data),
        .counter_count = profile.counters.size / sizeof(uint64_t),
    };
}

struct farm farm_create(const char *directory, size_t images, unsigned functions)
{
    struct farm farm = {.images = calloc(images, sizeof *farm.images), .image_count = images};
    directory_create(directory);
    for (size_t i = 0; i < images; i++) {
        farm.images[i] = make_image(directory, i, functions);
        farm.images[i].first = farm.counter_count;
        farm.counter_count += farm.images[i].counter_count;
    }
    return farm;
}

uint64_t *farm_sums_create(const struct farm *farm)
{
    uint64_t *sums = mmap(NULL, farm->counter_count * sizeof *sums, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sums, MAP_FAILED);
    return sums;
}

void farm_sums_free(const struct farm *farm, uint64_t *sums)
{
    munmap(sums, farm->counter_count * sizeof *sums);
}

/* Small numbers, so that no sum is too large, and some zeros. */
#define COUNT_LIMIT 1000

void farm_write(const struct farm *farm, struct random_state *random, const char *path,
                uint64_t *sums)
{
    const struct farm_image *image = &farm->images[random_below(random, farm->image_count)];
    struct contents made = {malloc(image->profile.size), image->profile.size};
    memcpy(made.data, image->profile.data, made.size);
    for (size_t i = 0; i < image->counter_count; i++) {
        uint64_t count = random_below(random, COUNT_LIMIT);
        count = count % 3 == 0 ? 0 : count;
        memcpy(made.data + image->counters_offset + i * sizeof count, &count, sizeof count);
        __atomic_fetch_add(&sums[image->first + i], count, __ATOMIC_RELAXED);
    }
    file_write(path, made.data, made.size);
    contents_free(&made);
}

/* Where the image's profile is in a file of several; NULL: it is not. What comes before its
 * counters is the same in all of them. */
static const uint8_t *find_counters(const struct contents *file, const struct farm_image *image)
{
    const uint8_t *found =
        memmem(file->data, file->size, image->profile.data, image->counters_offset);
    return found == NULL ? NULL : found + image->counters_offset;
}

void farm_assert_sums(const struct farm *farm, const char *directory, const char *state,
                      const uint64_t *sums, const char *label)
{
    covsplit_assert(0, directory, "merge", state, "-o", "farm-sums.profraw", NULL);
    struct contents file = file_read(path_join(directory, "farm-sums.profraw"));
    for (size_t i = 0; i < farm->image_count; i++) {
        const struct farm_image *image = &farm->images[i];
        const uint8_t *counters = find_counters(&file, image);
        for (size_t j = 0; j < image->counter_count; j++) {
            uint64_t have = 0, expected = sums[image->first + j];
            if (counters != NULL) {
                memcpy(&have, counters + j * sizeof have, sizeof have);
            }
            ck_assert_msg(have == expected, "%s: image %zu, counter %zu: %llu, not %llu", label, i,
                          j, (unsigned long long)have, (unsigned long long)expected);
        }
    }
    contents_free(&file);
}
