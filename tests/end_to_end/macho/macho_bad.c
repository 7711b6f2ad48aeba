/*
 * Damaged Mach-O images: thousands of mutations where a parser believes what it reads, and cuts.
 *
 * Whatever comes in, covsplit ends by itself with 0 or 1, soon and in little memory. With 1 it has
 * said why, in one line, and written nothing. With 0 what it wrote is right: a damaged image that
 * could be split is joined to the same damaged image again.
 *
 * Usage: macho_bad files      cuts, and images that are wrong in one known way
 *        macho_bad mutations FIRST COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/random.h"

#define PEAK_RESIDENT_KIB (1024 * 1024)
#define FUNCTIONS         60
#define CUT_STEP          991

static const struct darwin_program programs[] = {
    {.clang = "22", .architecture = "x86_64", .functions = FUNCTIONS, .late_section = true},
    {.clang = "22", .architecture = "x86_64", .functions = FUNCTIONS, .opcodes = true},
    {.clang = "22", .architecture = "arm64", .functions = FUNCTIONS},
};

#define PROGRAM_COUNT (sizeof programs / sizeof *programs)

/* The last one is a universal image of two others. */
#define IMAGE_COUNT     (PROGRAM_COUNT + 1)
#define UNIVERSAL_IMAGE PROGRAM_COUNT
#define FAT_TABLE_END   48

static char *scratch;
static struct contents images[IMAGE_COUNT];
static void prepare(void)
{
    scratch = scratch_create("macho-bad");
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        char *directory = path_join(scratch, text_format("%zu", i));
        directory_create(directory);
        darwin_program_build(&programs[i], directory, "image");
        images[i] = file_read(path_join(directory, "image"));
    }
    run_or_abort(scratch, "llvm-lipo-22", "-create", "0/image", "2/image", "-output", "universal",
                 NULL);
    images[UNIVERSAL_IMAGE] = file_read(path_join(scratch, "universal"));
}

/* Runs covsplit with words of a text; -1 where it did not end as every run must. */
static int run_words(const char *directory, const char *words, struct verdict *verdict)
{
    struct command command = hostile_command(directory, words);
    struct outcome outcome = command_run(&command);
    int result = outcome.exit_code;
    if (outcome.timed_out || outcome.processor_seconds > HOSTILE_PROCESSOR_SECONDS ||
        outcome.signal != 0 || (result != 0 && result != 1)) {
        verdict_fail(verdict, "a crash or a hang %.2000s", outcome_describe(&command, &outcome));
        result = -1;
    } else if (outcome.peak_resident_kib > PEAK_RESIDENT_KIB && !covsplit_is_sanitized()) {
        verdict_fail(verdict, "%ld KiB of memory", outcome.peak_resident_kib);
        result = -1;
    } else if (result == 1 && !covsplit_refused(&command, &outcome, verdict)) {
        result = -1;
    }
    outcome_free(&outcome);
    command_free(&command);
    return result;
}

/* What is left of a run goes: a file may be missing, and so may the store. */
static void clear(const char *directory)
{
    static const char *const names[] = {"out", "joined", "store"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(directory, names[i]);
        if (i == 2 && file_exists(path)) {
            directory_remove(path);
        }
        unlink(path);
        free(path);
    }
}

static bool check_bad_image(const char *directory, const struct contents *image,
                            struct verdict *verdict)
{
    char *input = path_join(directory, "input");
    char *output = path_join(directory, "out");
    char *joined = path_join(directory, "joined");
    file_write(input, image->data, image->size);
    int result = run_words(directory, "split -j1 -o out --store store input", verdict);
    bool good = result >= 0;
    if (result == 1) {
        good = !file_exists(output) || verdict_fail(verdict, "refused, but written");
    } else if (result == 0) {
        /* Without a sidecar there was nothing to take out. */
        good = !file_exists(path_join(directory, "store")) ? files_equal(input, output, verdict)
               : run_words(directory, "join --store store -o joined out", verdict) == 0
                   ? files_equal(input, joined, verdict)
                   : verdict_fail(verdict, "it was split, but cannot be joined");
        /* What was split must be understood again, and passed on. */
        good = good &&
               (run_words(directory, "show out", verdict) >= 0 || verdict_fail(verdict, "show"));
    }
    clear(directory);
    free(input);
    free(output);
    free(joined);
    return good;
}

/* ---- mutations ---- */

/* Where the image is damaged: mostly in the load commands and in __LINKEDIT, which starts about
 * there. */
static size_t choose_place(struct random_state *random, const struct contents *image)
{
    uint32_t commands_size;
    if (image == &images[UNIVERSAL_IMAGE]) {
        return random_below(random, random_below(random, 2) == 0 ? FAT_TABLE_END : image->size - 8);
    }
    memcpy(&commands_size, image->data + 20, sizeof commands_size);
    switch (random_below(random, 10)) {
    case 0:
        return random_below(random, image->size - 8);
    case 1:
    case 2:
    case 3:
        return image->size - 8 - random_below(random, image->size / 4);
    case 4:
        return image->size - 8 - random_below(random, 1500);
    default:
        return random_below(random, 32 + commands_size) & ~(size_t)3;
    }
}

static uint64_t choose_value(struct random_state *random, uint64_t old, uint64_t size)
{
    const uint64_t values[] = {
        0,
        UINT64_MAX,
        old + 1,
        old - 1,
        old ^ UINT64_C(1) << random_below(random, 64),
        old ^ UINT64_C(1) << random_below(random, 16),
        size,
        random_next(random),
        random_below(random, size),
        old + 4096,
        old - 16384,
        0x80000000,
    };
    return values[random_below(random, sizeof values / sizeof *values)];
}

static struct contents mutate(const struct contents *image, unsigned long seed)
{
    struct random_state random = random_start(seed);
    struct contents damaged = {malloc(image->size), image->size};
    memcpy(damaged.data, image->data, image->size);
    for (uint64_t left = 1 + random_below(&random, 3); left > 0; left--) {
        size_t place = choose_place(&random, image);
        size_t width = (size_t)1 << random_below(&random, 4);
        uint64_t value = 0;
        memcpy(&value, damaged.data + place, width);
        value = choose_value(&random, value, image->size);
        memcpy(damaged.data + place, &value, width);
    }
    return damaged;
}

START_TEST(test_mutations)
{
    char *directory = path_join(scratch, "test");
    directory_create(directory);
    for (unsigned long seed = hostile_first(_i); seed < hostile_end(_i); seed++) {
        struct verdict verdict = {0};
        hostile_fork_most(seed);
        struct contents damaged = mutate(&images[seed % IMAGE_COUNT], seed);
        check_bad_image(directory, &damaged, &verdict);
        verdict_assert(&verdict, text_format("seed %lu", seed));
        contents_free(&damaged);
    }
    directory_remove(directory);
}
END_TEST

/* ---- cuts ---- */

START_TEST(test_cuts)
{
    char *directory = path_join(scratch, "test");
    const struct contents *image = &images[_i];
    directory_create(directory);
    for (size_t size = 0; size < image->size;
         size += (size < 4096 ? 61 : CUT_STEP) * rounds_step()) {
        struct verdict verdict = {0};
        struct contents cut = {image->data, size};
        check_bad_image(directory, &cut, &verdict);
        verdict_assert(&verdict, text_format("%zu bytes of image %d", size, _i));
    }
    directory_remove(directory);
}
END_TEST

/* ---- images that are wrong in one way ---- */

#define NCMDS            16
#define SIZEOFCMDS       20
#define COMMANDS         32 /* behind the header */
#define LC_SEGMENT_64    0x19
#define LC_SYMTAB        0x2
#define LC_UUID          0x1b
#define SEGMENT_NAME     8
#define SEGMENT_VMADDR   24
#define SEGMENT_FILEOFF  40
#define SEGMENT_FILESIZE 48
#define SEGMENT_NSECTS   64
#define SECTION_OFFSET   (72 + 48) /* of the first section, in a segment's command */

/* The first load command of that kind; of segments, the one of that name. */
static uint8_t *find_command(struct contents *image, uint32_t kind, const char *segment)
{
    uint32_t count, cmd, size;
    uint8_t *command = image->data + COMMANDS;
    memcpy(&count, image->data + NCMDS, sizeof count);
    for (uint32_t i = 0; i < count; i++, command += size) {
        memcpy(&cmd, command, sizeof cmd);
        memcpy(&size, command + 4, sizeof size);
        if (cmd == kind &&
            (segment == NULL || strcmp((const char *)command + SEGMENT_NAME, segment) == 0)) {
            return command;
        }
    }
    ck_abort_msg("no load command 0x%x", kind);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    memcpy(to, &value, sizeof value);
}

static void no_commands(struct contents *image)
{
    put_u32(image->data + NCMDS, 0);
}

static void many_commands(struct contents *image)
{
    put_u32(image->data + NCMDS, UINT32_MAX);
}

static void large_commands(struct contents *image)
{
    put_u32(image->data + SIZEOFCMDS, UINT32_MAX - 31);
}

static void empty_command(struct contents *image)
{
    put_u32(find_command(image, LC_UUID, NULL) + 4, 0);
}

static void endless_command(struct contents *image)
{
    put_u32(find_command(image, LC_UUID, NULL) + 4, UINT32_MAX - 7);
}

static void short_command(struct contents *image)
{
    put_u32(find_command(image, LC_SYMTAB, NULL) + 4, 16);
}

static void unknown_command(struct contents *image)
{
    put_u32(find_command(image, LC_UUID, NULL), 0x7777);
}

static void many_sections(struct contents *image)
{
    put_u32(find_command(image, LC_SEGMENT_64, "__DATA") + SEGMENT_NSECTS, 0x03333334);
}

static void overlapping_files(struct contents *image)
{
    uint8_t *data = find_command(image, LC_SEGMENT_64, "__DATA");
    memcpy(data + SEGMENT_FILEOFF,
           find_command(image, LC_SEGMENT_64, "__LINKEDIT") + SEGMENT_FILEOFF, 8);
}

static void overlapping_addresses(struct contents *image)
{
    uint8_t *data = find_command(image, LC_SEGMENT_64, "__DATA");
    memcpy(data + SEGMENT_VMADDR, find_command(image, LC_SEGMENT_64, "__TEXT") + SEGMENT_VMADDR, 8);
}

static void past_the_end(struct contents *image)
{
    put_u32(find_command(image, LC_SEGMENT_64, "__LINKEDIT") + SEGMENT_FILESIZE + 4, 1);
}

static void overlapping_sections(struct contents *image)
{
    uint8_t *data = find_command(image, LC_SEGMENT_64, "__DATA");
    memcpy(data + SECTION_OFFSET + 80, data + SECTION_OFFSET, 4);
}

static void symbols_past_the_end(struct contents *image)
{
    put_u32(find_command(image, LC_SYMTAB, NULL) + 12, UINT32_MAX);
}

static void symbols_in_data(struct contents *image)
{
    uint8_t *data = find_command(image, LC_SEGMENT_64, "__DATA");
    memcpy(find_command(image, LC_SYMTAB, NULL) + 8, data + SEGMENT_FILEOFF, 4);
}

static const struct hostile {
    const char *what;
    void (*change)(struct contents *image);
} hostiles[] = {
    {"no load commands", no_commands},
    {"more load commands than fit", many_commands},
    {"load commands larger than the file", large_commands},
    {"a load command of no size", empty_command},
    {"a load command that does not end", endless_command},
    {"a load command shorter than its fields", short_command},
    {"a load command that nobody knows", unknown_command},
    {"more sections than fit their segment's command", many_sections},
    {"segments that overlap in the file", overlapping_files},
    {"segments that overlap in memory", overlapping_addresses},
    {"a segment past the end of the file", past_the_end},
    {"sections that overlap in the file", overlapping_sections},
    {"symbols past the end of the file", symbols_past_the_end},
    {"symbols in another segment", symbols_in_data},
};

/* Each is refused. */
START_TEST(test_hostile)
{
    const struct hostile *hostile = &hostiles[_i];
    char *directory = path_join(scratch, text_format("hostile%d", _i));
    directory_create(directory);
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        struct verdict verdict = {0};
        struct contents bad = {malloc(images[i].size), images[i].size};
        memcpy(bad.data, images[i].data, bad.size);
        hostile->change(&bad);
        check_bad_image(directory, &bad, &verdict);
        file_write(path_join(directory, "input"), bad.data, bad.size);
        if (run_words(directory, "split -o out --sidecar side input", &verdict) == 0) {
            verdict_fail(&verdict, "it was taken");
        }
        verdict_assert(&verdict, text_format("%s, image %zu", hostile->what, i));
        contents_free(&bad);
    }
    directory_remove(directory);
}
END_TEST

int main(int argument_count, char **arguments)
{
    hostile_in_memory();
    TCase *test_case = suite_case("bad", 1500, prepare);
    if (argument_count == 4 && strcmp(arguments[1], "mutations") == 0) {
        hostile_seeds(arguments[2], arguments[3]);
        suite_loops(test_case, hostile_tests(), test_mutations);
    } else if (argument_count == 2 && strcmp(arguments[1], "files") == 0) {
        suite_loops(test_case, IMAGE_COUNT, test_cuts);
        suite_loops(test_case, sizeof hostiles / sizeof *hostiles, test_hostile);
    } else {
        return suite_usage(arguments[0], "files | mutations FIRST COUNT");
    }
    return suite_main("bad Mach-O images", test_case);
}
