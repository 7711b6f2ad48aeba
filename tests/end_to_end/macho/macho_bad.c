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

#define FUNCTIONS 60
#define CUT_STEP  991

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

/* As hostile_split does, but with a store, as the slices of a universal image need. */
static bool check_bad_image(const char *directory, const struct contents *image, int *exit_code,
                            struct verdict *verdict)
{
    char *output = path_join(directory, "out"), *store = path_join(directory, "store");
    char *input = path_join(directory, "input");
    int join_exit = 0, show_exit;
    directory_remove(directory);
    directory_create(directory);
    file_write(input, image->data, image->size);
    bool good =
        hostile_run(directory, "split -j1 -o out --store store input", exit_code, verdict) &&
        hostile_holds(directory, "input", image, verdict);
    if (good && *exit_code == 1) {
        good = !file_exists(output) || verdict_fail(verdict, "refused, but written");
    } else if (good && !file_exists(store)) { /* there was nothing to take out */
        good = hostile_holds(directory, "out", image, verdict);
    } else if (good) {
        good = hostile_run(directory, "join --store store -o joined out", &join_exit, verdict) &&
               (join_exit == 0 || verdict_fail(verdict, "it was split, but cannot be joined")) &&
               hostile_holds(directory, "joined", image, verdict);
    }
    /* What was split must be understood again, and passed on. */
    good = good && (*exit_code == 1 || hostile_run(directory, "show out", &show_exit, verdict));
    free(store);
    free(output);
    free(input);
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

static struct contents mutate(unsigned long seed, char **description)
{
    const struct contents *image = &images[seed % IMAGE_COUNT];
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
    *description = text_format("seed %lu", seed);
    return damaged;
}

START_TEST(test_mutations)
{
    hostile_run_seeds(_i, path_join(scratch, "test"), mutate, check_bad_image, false);
}
END_TEST

/* ---- cuts ---- */

START_TEST(test_cuts)
{
    char *directory = path_join(scratch, "test");
    const struct contents *image = &images[_i];
    int exit_code;
    for (size_t size = 0; size < image->size;
         size += (size < 4096 ? 61 : CUT_STEP) * rounds_step()) {
        struct verdict verdict = {0};
        struct contents cut = {image->data, size};
        check_bad_image(directory, &cut, &exit_code, &verdict);
        verdict_assert(&verdict, text_format("%zu bytes of image %d", size, _i));
    }
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
    int exit_code;
    for (size_t i = 0; i < PROGRAM_COUNT; i++) {
        struct verdict verdict = {0};
        struct contents bad = {malloc(images[i].size), images[i].size};
        memcpy(bad.data, images[i].data, bad.size);
        hostile->change(&bad);
        check_bad_image(directory, &bad, &exit_code, &verdict);
        if (exit_code == 0 ||
            (hostile_run(directory, "split -o out --sidecar side input", &exit_code, &verdict) &&
             exit_code == 0)) {
            verdict_fail(&verdict, "it was taken");
        }
        verdict_assert(&verdict, text_format("%s, image %zu", hostile->what, i));
        contents_free(&bad);
    }
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
