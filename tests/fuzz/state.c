/*
 * Fuzz target: the state of an incremental merge, its matrices of tests, and unions.
 *
 * An input: 4 bytes, the first of which says what it is, and parts (parts.h).
 *
 * A state: the file covsplit-state, a sidecar, and files of images and batches, which get the names
 * that are in them. It is refused with a reason; or what is read has the same counts before and
 * after it is folded. Matrices: two of them. A union: its bytes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/zstd.h"
#include "common/sidecar/object.h"
#include "common/sidecar/union.h"
#include "common/state/internal.h"
#include "common/state/reached.h"
#include "common/state/state.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/reader_api.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/support.h"

#define FIXED 4

enum kind { KIND_STATE, KIND_MATRICES, KIND_UNION, KINDS };

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

/* Decodes everything. */
static bool verify(struct reached_table *table, struct error *error)
{
    const uint8_t *tests;
    bool done = true;

    for (uint64_t i = 0; done && i < table->function_count; i += REACHED_BLOCK)
        done = reached_find(table, i, &tests, error);
    return done;
}

/* What a state has, to compare it. */
struct counts {
    size_t images;
    uint64_t profiles;
    uint64_t tests;
};

static bool count_sum(void *context, struct profile_sum *sum, const char *name, struct error *error)
{
    struct counts *counts = context;
    struct reached_table table;
    bool done = reached_open(&table, buffer_view(&sum->tests), name, MEMORY_LIMIT, error) &&
                verify(&table, error);

    counts->images++;
    counts->profiles += sum->profile_count;
    counts->tests += done ? table.test_count : 0;
    reached_close(&table);
    return done;
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
    own->tests = sum->tests;
    sum->tests = (struct buffer){0};
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

static void expect_counts(const struct counts *counts, size_t images, uint64_t profiles,
                          uint64_t tests)
{
    FUZZ_EXPECT(counts->images == images && counts->profiles == profiles && counts->tests == tests,
                "%zu images, %" PRIu64 " profiles, %" PRIu64 " tests became %zu, %" PRIu64
                ", %" PRIu64,
                images, profiles, tests, counts->images, counts->profiles, counts->tests);
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
    expect_counts(&after, before.images, before.profiles, before.tests);
    if (before.images == 0 || before.images > FILES_MAX ||
        before.profiles > UINT64_MAX / 4) /* the numbers of profiles may be any */
        return;
    if (!add_itself(path, &error) || !count_all(path, STATE_READ, &after, &error)) {
        fuzz_expect_reason(&error);
        return;
    }
    expect_counts(&after, before.images, 2 * before.profiles, before.tests);
    FUZZ_EXPECT(count_all(path, STATE_WRITE, &after, &error), "%s", error.message);
    expect_counts(&after, before.images, 2 * before.profiles, before.tests);
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

/* ---- matrices ---- */

/* Whether a test reaches a function, by the name of the test. */
static bool is_reached(struct reached_table *table, uint64_t function, const char *test)
{
    struct error error;
    const uint8_t *tests;

    FUZZ_EXPECT(reached_find(table, function, &tests, &error), "%s", error.message);
    for (size_t i = 0; i < table->test_count; i++) {
        if (strcmp(table->tests[i], test) == 0)
            return bit_set_has(tests, i);
    }
    return false;
}

/* What either has, both together have. */
static void check_union(struct reached_table *one, struct reached_table *both)
{
    for (uint64_t i = 0; i < one->function_count && i < 16; i++) {
        for (size_t k = 0; k < one->test_count && k < 16; k++)
            FUZZ_EXPECT(!is_reached(one, i, one->tests[k]) || is_reached(both, i, one->tests[k]),
                        "a test is lost");
    }
}

static void run_matrices(const struct parts *parts)
{
    struct reached_table tables[3] = {{0}};
    struct buffer united = {0};
    struct error error = {0};
    bool done = true;

    for (size_t i = 0; i < 2; i++)
        done = reached_open(&tables[i], parts_get(parts, i), "input", MEMORY_LIMIT, &error) &&
               verify(&tables[i], &error) && done;
    if (!done)
        fuzz_expect_reason(&error);
    else if (tables[0].test_count != 0 && tables[1].test_count != 0 &&
             tables[0].function_count == tables[1].function_count) {
        FUZZ_EXPECT(
            reached_merge(&tables[0], &tables[1], &united, &error) &&
                reached_open(&tables[2], buffer_view(&united), "both", 4 * MEMORY_LIMIT, &error) &&
                verify(&tables[2], &error),
            "%s", error.message);
        check_union(&tables[0], &tables[2]);
        check_union(&tables[1], &tables[2]);
        buffer_free(&united);
    }
    buffer_free(&united);
    if (done) {
        FUZZ_EXPECT(
            buffer_append(&united, parts_get(parts, 0).data, (size_t)parts_get(parts, 0).size),
            "no memory for the target");
        if (!reached_unite(&united, parts_get(parts, 1), "input", &error))
            fuzz_expect_reason(&error);
    }
    for (size_t i = 0; i < 3; i++)
        reached_close(&tables[i]);
    buffer_free(&united);
}

/* ---- unions ---- */

static void run_union(const struct parts *parts)
{
    struct bytes bytes = parts_get(parts, 0), rest;
    struct union_member_view member;
    struct object_facts facts;
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
        if (found && !object_read(member.object, "member", &facts, &error))
            fuzz_expect_reason(&error);
    }
    if (!object_read(bytes, "input", &facts, &error))
        fuzz_expect_reason(&error);
}

/* ---- the target ---- */

static void (*const kinds[KINDS])(const struct parts *parts) = {run_state, run_matrices, run_union};

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

/* Writes a matrix once more, with its frames opened, changed, and compressed again. */
static void mutate_matrix(struct bytes encoded, struct random_state *random, struct buffer *made)
{
    struct buffer content = {0}, changed = {0}, frame = {0};
    uint64_t sizes[2];
    struct packed stored = {.name = "input", .what = "names"};
    struct error error;
    uint64_t functions_count;

    if (encoded.size < 40)
        return;
    functions_count = load_u64(encoded.data, false);
    sizes[0] = load_u64(encoded.data + 16, false);
    sizes[1] = load_u64(encoded.data + 24, false);
    /* Matrices with one block, as all seeds have. */
    if (functions_count == 0 || functions_count > REACHED_BLOCK || sizes[0] > MEMORY_LIMIT ||
        !bytes_slice(encoded, 40, sizes[1], &stored.bytes))
        return;
    stored.size = sizes[0];
    if (codec_decompress(&stored, &content, &error)) {
        part_mutate(buffer_view(&content), random, &changed);
        if (changed.size != 0 &&
            codec_compress_once(buffer_view(&changed), 1, false, "input", &frame, &error) &&
            buffer_append(made, encoded.data, 40) && buffer_append(made, frame.data, frame.size) &&
            buffer_append(made, encoded.data + 40 + sizes[1],
                          (size_t)(encoded.size - 40 - sizes[1]))) {
            store_u64(made->data + 16, changed.size, false);
            store_u64(made->data + 24, frame.size, false);
        }
    }
    buffer_free(&content);
    buffer_free(&changed);
    buffer_free(&frame);
}

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
    if (kind == KIND_MATRICES && parts.count != 0 && random_below(&random, 2) == 0) {
        size_t index = random_below(&random, parts.count);

        mutate_matrix(parts.part[index], &random, &room);
        if (room.size != 0)
            parts.part[index] = buffer_view(&room);
    } else {
        parts_mutate(&parts, 1, &random, &room);
    }
    size = parts_write(&parts, data, size, most);
    buffer_free(&room);
    if (kind == KIND_STATE && random_below(&random, 8) != 0)
        digests_heal(data, size, read_input);
    return size;
}
