/*
 * Fuzz target: cores, from which snapshots take profiles.
 *
 * An input: 4 bytes, and parts (parts.h): the dump, the file of its modules, and a sidecar.
 * Whatever a dump says, no other file is opened.
 *
 * A dump is refused with a reason; or of each of its modules something is found out, and a profile
 * that is taken is one that the library reads.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/file.h"
#include "split/cli/find_sidecar.h"
#include "split/cli/options.h"
#include "split/snapshot/snapshot.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/reader_api.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/support.h"

DEFINE_DROP(drop_profile, covsplit_profile, covsplit_profile_close)

#define FIXED 4

enum part { PART_DUMP, PART_FILE, PART_SIDECAR, PARTS };

#define MODULES_MOST 16
#define MEMORY_LIMIT ((uint64_t)2 << 20)
#define BLOCK_MOST   ((size_t)96 << 20)
#define ALL_MOST     ((size_t)2 << 30)

static struct bytes module_file;

/* In place of the target's own operation: the file is always the same one. */
static bool open_file(struct target *memory, const struct memory_module *module, struct input *file,
                      bool *is_same, struct error *error)
{
    struct buffer copied = {0};

    (void)memory;
    *is_same = false;
    if (module_file.size == 0)
        return error_set(error, "%s: there is no such file; copy it", module->path);
    FUZZ_EXPECT(buffer_append(&copied, module_file.data, (size_t)module_file.size),
                "no memory for the target");
    return input_from_buffer(file, &copied, "module", error);
}

static void check_taken(const struct taken *taken)
{
    struct fuzz_collection written = {.limit = ALL_MOST};
    struct error error = {0};
    covsplit_error *refusal = NULL;
    FREED_BY(drop_profile) covsplit_profile *profile;

    FUZZ_EXPECT(profile_write(&taken->profile, fuzz_collect, &written, &error), "%s",
                error.message);
    profile =
        covsplit_profile_open_memory(written.bytes.data, written.bytes.size, "taken", &refusal);
    FUZZ_EXPECT(profile != NULL, "a profile that was taken cannot be read: %s",
                covsplit_error_message(refusal));
    buffer_free(&written.bytes);
}

static void check_modules(struct target *memory, const struct sidecar_places *places)
{
    for (size_t i = 0; i < memory->module_count && i < MODULES_MOST; i++) {
        FREED_BY(module_free) struct module module;
        FREED_BY(taken_free) struct taken taken = {0};
        struct error error = {0};
        enum finding finding =
            examine_module(memory, &memory->modules[i], places, &module, &taken, &error);

        if (finding == FINDING_PROFILE)
            check_taken(&taken);
        else if (finding == FINDING_UNKNOWN || finding == FINDING_FAILED)
            fuzz_expect_reason(&error);
    }
}

static void run(const struct parts *parts)
{
    char sidecar[SCRATCH_PATH_SIZE];
    struct option_use use = {OPTION_SIDECAR, sidecar};
    const struct command command = {.name = "snapshot"};
    struct parsed_options options = {
        .command = &command,
        .values = {[OPTION_SIDECAR] = {.given = true, .text = sidecar},
                   [OPTION_THREADS] = {.given = true, .number = 1},
                   [OPTION_MEMORY_LIMIT] = {.given = true, .number = MEMORY_LIMIT}},
        .uses = &use,
        .use_count = 1};
    struct sidecar_places places;
    struct memory_operations operations;
    char path[API_PATH_SIZE];
    int file = api_file(parts_get(parts, PART_DUMP), path);
    struct error error = {0};
    struct target *memory;

    scratch_path(sidecar, "sidecar");
    scratch_write("sidecar", parts_get(parts, PART_SIDECAR));
    sidecar_places_open(&places, &options, NULL);
    memory = core_open(path, &error);
    if (memory == NULL) {
        fuzz_expect_reason(&error);
    } else {
        module_file = parts_get(parts, PART_FILE);
        operations = *memory->operations;
        operations.open_file = open_file;
        memory->operations = &operations;
        check_modules(memory, &places);
        memory_close(memory);
    }
    sidecar_places_close(&places);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    allocations_start();
    run(&parts);
    allocations_check(BLOCK_MOST, ALL_MOST);
    return 0;
}

/* ---- mutations ---- */

/* The part of small dumps with headers, notes and tables. */
#define FRONT 2048

/* Changes a number of 1 to 8 bytes in front, or anywhere. */
static void mutate_dump(struct bytes dump, struct random_state *random, struct buffer *made)
{
    static const uint64_t edges[] = {0, 1, UINT64_MAX, INT64_MAX, UINT32_MAX, 4096, UINT64_MAX - 7};
    size_t size = (size_t)1 << random_below(random, 4), at;
    uint8_t number[8];
    uint64_t value;
    bool big = random_below(random, 8) == 0;

    FUZZ_EXPECT(buffer_append(made, dump.data, (size_t)dump.size), "no memory for the target");
    if (dump.size < 8)
        return;
    at = random_below(random,
                      dump.size < FRONT || random_below(random, 4) == 0 ? dump.size - 7 : FRONT);
    at = at / size * size;
    memcpy(number, made->data + at, 8);
    value = load_u64(number, big);
    value = random_below(random, 3) == 0
                ? edges[random_below(random, sizeof(edges) / sizeof(edges[0]))]
                : value + random_below(random, 65) - 32;
    store_u64(number, value, big);
    memcpy(made->data + at, number + (big ? 8 - size : 0), size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    FREED_BY(buffer_free) struct buffer room = {0};
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    while (parts.count < PARTS)
        parts.part[parts.count++] = (struct bytes){0};
    switch (random_below(&random, 8)) {
    case 0:
        parts_mutate(&parts, PARTS, &random, &room);
        break;
    case 1:
        part_mutate(parts.part[PART_DUMP], &random, &room);
        parts.part[PART_DUMP] = buffer_view(&room);
        break;
    case 2:
        mutate_dump(parts.part[PART_FILE], &random, &room);
        parts.part[PART_FILE] = buffer_view(&room);
        break;
    default:
        mutate_dump(parts.part[PART_DUMP], &random, &room);
        parts.part[PART_DUMP] = buffer_view(&room);
        break;
    }
    size = parts_write(&parts, data, size, most);
    return size;
}
