/*
 * Fuzz target: the state of an incremental merge, and unions.
 *
 * An input: 4 bytes, the first of which says what it is, and parts (parts.h).
 *
 * A state: the file covsplit-state, a sidecar, and files of images and batches, which get the names
 * that are in them. It is refused with a reason; or what is read has the same counts before and
 * after it is folded. A union: its bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sidecar/exported.h"
#include "common/sidecar/union.h"
#include "common/state/internal.h"
#include "common/state/state.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/reader_api.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/support.h"

#define FIXED 4

enum kind { KIND_STATE, KIND_UNION, KINDS };

enum part {
    PART_TITLE,
    PART_SIDECAR,
    PART_FILES,
};

#define FILES_MAX    8
#define MEMORY_LIMIT ((uint64_t)2 << 20)
#define BLOCK_MOST   ((size_t)96 << 20)
#define ALL_MOST     ((size_t)2 << 30)

/* Of a file: magic, version, kind, name. */
#define FILE_KIND   12
#define FILE_NAME   16
#define FILE_HEADER 32

/* ---- states ---- */

/* Puts a file where its header says that it belongs. */
static void place_file(struct bytes file)
{
    char name[16 + 2 * DIGEST_SIZE] = "batches/";
    uint8_t header[FILE_HEADER] = {0};
    size_t length;

    memcpy(header, file.data, file.size < FILE_HEADER ? (size_t)file.size : FILE_HEADER);
    if (load_u32(header + FILE_KIND, false) == STATE_FILE_IMAGE)
        strcpy(name, "images/");
    length = strlen(name);
    for (size_t i = 0; i < DIGEST_SIZE; i++)
        snprintf(name + length + 2 * i, 3, "%02x", header[FILE_NAME + i]);
    scratch_write(name, file);
}

static void place_state(const struct parts *parts)
{
    static bool has_directories;

    if (!has_directories) {
        scratch_make_directory("images");
        scratch_make_directory("batches");
        has_directories = true;
    }
    scratch_empty("");
    scratch_empty("images");
    scratch_empty("batches");
    scratch_write("covsplit-state", parts_get(parts, PART_TITLE));
    for (size_t i = PART_FILES; i < parts->count && i < PART_FILES + FILES_MAX; i++) {
        if (parts->part[i].size != 0)
            place_file(parts->part[i]);
    }
}

/* Reads the state as a program does that has the library. */
static void read_by_library(const char *path, covsplit_sidecar *sidecar)
{
    struct api_taken taken = {.limit = ALL_MOST};
    covsplit_error *error = NULL;
    covsplit_state *state = covsplit_state_open(path, &error);
    covsplit_merger *merger = covsplit_merger_new(NULL, NULL);

    if (state == NULL) {
        api_refused(error);
        covsplit_merger_free(merger);
        return;
    }
    if (sidecar != NULL)
        covsplit_merger_add_sidecar(merger, sidecar, NULL);
    if (!covsplit_merger_add_state(merger, state, &error) ||
        !covsplit_merger_finish(merger, api_take, &taken, &error))
        api_refused(error);
    covsplit_merger_free(merger);
    covsplit_state_close(state);
    buffer_free(&taken.bytes);
}

/* What a state has, to compare it. */
struct counts {
    size_t images;
    uint64_t profiles;
};

static bool count_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct counts *counts = context;

    (void)name;
    (void)error;
    counts->images++;
    counts->profiles += sum->profile_count;
    return true;
}

static bool count_all(const char *path, enum state_access access, struct counts *counts,
                      struct error *error)
{
    struct state *state;
    bool done;

    *counts = (struct counts){0};
    if (!state_open(&state, path, access, MEMORY_LIMIT, error))
        return false;
    done = (access == STATE_READ || state_fold(state, error)) &&
           state_read(state, count_sum, counts, error);
    state_close(state);
    return done;
}

/* The sums of a state, taken out of it. */
struct sums_taken {
    struct profile_sum *sums[FILES_MAX];
    size_t count;
};

static bool take_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct sums_taken *taken = context;
    struct profile_sum *own;

    (void)name;
    if (taken->count == FILES_MAX)
        return true;
    own = profile_sum_new(&sum->identity, error);
    FUZZ_EXPECT(own != NULL && profile_sum_add_sum(own, sum, error), "no memory for the target");
    taken->sums[taken->count++] = own;
    return true;
}

/* Adds all that the state has to it once more, as a batch. */
static bool add_itself(const char *path, struct error *error)
{
    struct sums_taken taken = {.count = 0};
    struct state_batch *batch = NULL;
    struct state *state;
    bool done;

    if (!state_open(&state, path, STATE_WRITE, MEMORY_LIMIT, error))
        return false;
    done = state_read(state, take_sum, &taken, error) && state_batch_start(state, &batch, error);
    for (size_t i = 0; done && i < taken.count; i++)
        done = state_batch_add(batch, taken.sums[i], error);
    done = done && state_batch_commit(batch, error);
    state_batch_free(batch);
    state_close(state);
    for (size_t i = 0; i < taken.count; i++)
        profile_sum_free(taken.sums[i]);
    return done;
}

static void expect_counts(const struct counts *counts, size_t images, uint64_t profiles)
{
    FUZZ_EXPECT(counts->images == images && counts->profiles == profiles,
                "%zu images, %" PRIu64 " profiles became %zu, %" PRIu64, images, profiles,
                counts->images, counts->profiles);
}

/* A state that can be read has the same counts when it is folded, and twice as many profiles when
 * all of it is added again, before and after that is folded. */
static void check_counts(const char *path)
{
    struct counts before, after;
    struct error error = {0};

    if (!count_all(path, STATE_READ, &before, &error) ||
        !count_all(path, STATE_WRITE, &after, &error)) {
        fuzz_expect_reason(&error);
        return;
    }
    expect_counts(&after, before.images, before.profiles);
    if (before.images == 0 || before.images > FILES_MAX ||
        before.profiles > UINT64_MAX / 4) /* the numbers of profiles may be any */
        return;
    if (!add_itself(path, &error) || !count_all(path, STATE_READ, &after, &error)) {
        fuzz_expect_reason(&error);
        return;
    }
    expect_counts(&after, before.images, 2 * before.profiles);
    FUZZ_EXPECT(count_all(path, STATE_WRITE, &after, &error), "%s", error.message);
    expect_counts(&after, before.images, 2 * before.profiles);
}

static void run_state(const struct parts *parts)
{
    struct bytes bytes = parts_get(parts, PART_SIDECAR);
    covsplit_sidecar *sidecar =
        covsplit_sidecar_open_memory(bytes.data, bytes.size, "sidecar", NULL);
    char path[SCRATCH_PATH_SIZE];

    if (sidecar != NULL)
        covsplit_sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    place_state(parts);
    scratch_path(path, "");
    read_by_library(path, sidecar);
    check_counts(path);
    covsplit_sidecar_close(sidecar);
}

/* ---- unions ---- */

static void run_union(const struct parts *parts)
{
    struct bytes bytes = parts_get(parts, 0), rest;
    struct union_member_view member;
    struct export_facts facts;
    struct error error = {0};
    bool found = true;

    union_may_begin(bytes);
    covsplit_is_union(bytes.data, bytes.size);
    if (!union_open(bytes, "input", &rest, &error)) {
        fuzz_expect_reason(&error);
        rest = (struct bytes){0};
    }
    while (rest.size != 0 && found) {
        uint64_t left = rest.size;

        if (!union_next(&rest, "input", &member, &found, &error)) {
            fuzz_expect_reason(&error);
            break;
        }
        FUZZ_EXPECT(!found || rest.size < left, "a member without bytes");
        if (found && !export_read(member.object, "member", &facts, &error))
            fuzz_expect_reason(&error);
    }
    if (!export_read(bytes, "input", &facts, &error))
        fuzz_expect_reason(&error);
}

/* ---- the target ---- */

static void (*const kinds[KINDS])(const struct parts *parts) = {run_state, run_union};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    allocations_start();
    kinds[parts.fixed[0] % KINDS](&parts);
    allocations_check(BLOCK_MOST, ALL_MOST);
    return 0;
}

/* ---- mutations ---- */

/* Reads everything that has a digest. */
static void read_input(const uint8_t *data, size_t size)
{
    struct counts counts;
    struct parts parts;
    char path[SCRATCH_PATH_SIZE];
    struct error error;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    place_state(&parts);
    scratch_path(path, "");
    count_all(path, STATE_READ, &counts, &error);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    struct buffer room = {0};
    struct parts parts;
    size_t kind;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    kind = parts.fixed[0] % KINDS;
    if (random_below(&random, 64) == 0)
        parts.fixed[0] = (uint8_t)random_below(&random, KINDS);
    parts_mutate(&parts, 1, &random, &room);
    size = parts_write(&parts, data, size, most);
    buffer_free(&room);
    if (kind == KIND_STATE && random_below(&random, 8) != 0)
        digests_heal(data, size, read_input);
    return size;
}
