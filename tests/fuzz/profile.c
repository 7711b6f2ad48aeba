/*
 * Fuzz target: raw profiles of all versions, their sums, and their correlation with a sidecar.
 *
 * An input: 4 bytes, and parts (parts.h): a file of profiles, another one, a sidecar, and plain
 * counters for a dump.
 *
 * A file is refused with a reason. Or each profile in it correlates to one that needs no sidecar
 * and has the same counters, or that is refused; and what is added twice has twice the counters.
 */
#include <stdlib.h>
#include <string.h>

#include "common/llvm/profile.h"
#include "common/llvm/profile_reader.h"
#include "common/llvm/profile_sum.h"
#include "common/sidecar/correlate.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/digests.h"
#include "tests/fuzz/parts.h"
#include "tests/fuzz/reader_api.h"
#include "tests/fuzz/support.h"

DEFINE_DROP(drop_opened_sidecar, covsplit_sidecar, covsplit_sidecar_close)
DEFINE_DROP(drop_profile, covsplit_profile, covsplit_profile_close)

#define FIXED 4

enum part { PART_FILE, PART_OTHER, PART_SIDECAR, PART_COUNTERS, PARTS };

#define MEMORY_LIMIT ((uint64_t)2 << 20)

/* A sparse profile of a few bytes may expand to 64 MiB, and is then copied. */
#define BLOCK_MOST ((size_t)160 << 20)
#define ALL_MOST   ((size_t)4 << 30)

/* How many profiles of a file, and counters of a profile, are looked at. */
#define PROFILES_MOST 8
#define COUNTERS_MOST 4096

/* ---- one profile ---- */

static void expect_same_counters(const covsplit_profile *a, const covsplit_profile *b)
{
    uint64_t count = covsplit_profile_counter_count(a);

    FUZZ_EXPECT(count == covsplit_profile_counter_count(b), "another number of counters");
    for (uint64_t i = 0; i < count && i < COUNTERS_MOST; i++)
        FUZZ_EXPECT(covsplit_profile_counter(a, i) == covsplit_profile_counter(b, i),
                    "counter %llu has changed", (unsigned long long)i);
}

static void check_correlation(const covsplit_profile *profile, covsplit_sidecar *sidecar)
{
    struct api_taken taken = {.limit = ALL_MOST};
    covsplit_error *error = NULL;
    covsplit_profile *full;

    if (covsplit_profile_correlate(profile, sidecar, api_take, &taken, &error)) {
        full = covsplit_profile_open_memory(taken.bytes.data, taken.bytes.size, "full", &error);
        FUZZ_EXPECT(full != NULL, "what is correlated cannot be read: %s",
                    covsplit_error_message(error));
        FUZZ_EXPECT(!covsplit_profile_needs_sidecar(full), "what is correlated needs a sidecar");
        expect_same_counters(profile, full);
        covsplit_profile_close(full);
    } else {
        api_refused(error);
    }
    buffer_free(&taken.bytes);
}

static void check_profile(const covsplit_profile *profile, covsplit_sidecar *sidecar)
{
    uint8_t uuid[64];
    covsplit_error *error = NULL;

    covsplit_profile_raw_version(profile);
    covsplit_profile_uuid(profile, uuid, sizeof(uuid));
    if (sidecar != NULL && !covsplit_profile_check(profile, sidecar, &error))
        api_refused(error);
    check_correlation(profile, covsplit_profile_needs_sidecar(profile) ? sidecar : NULL);
    if (sidecar != NULL)
        check_correlation(profile, sidecar);
}

/* ---- sums ---- */

/* Adds the profiles of the file `times` times. Returns how many could be added. */
static size_t add_file(covsplit_merger *merger, struct bytes file, unsigned times)
{
    covsplit_error *error = NULL;
    size_t added = 0;

    for (unsigned i = 0; i < times; i++) {
        FREED_BY(drop_profile)
        covsplit_profile *profile =
            covsplit_profile_open_memory(file.data, file.size, "input", NULL);
        bool found = profile != NULL;

        for (size_t k = 0; found && k < PROFILES_MOST; k++) {
            if (covsplit_merger_add(merger, profile, &error))
                added++;
            else
                api_refused(error);
            error = NULL;
            if (!covsplit_profile_next(profile, &found, NULL))
                break;
        }
    }
    return added;
}

/* The sum of `times` times the file, and once the other. False if there is none. */
static bool add_up(struct bytes file, unsigned times, struct bytes other, covsplit_sidecar *sidecar,
                   struct buffer *sum)
{
    struct api_taken taken = {.limit = ALL_MOST};
    covsplit_error *error = NULL;
    covsplit_merger *merger = covsplit_merger_new(NULL, &error);
    bool done;

    if (sidecar != NULL && !covsplit_merger_add_sidecar(merger, sidecar, &error)) {
        api_refused(error);
        error = NULL;
    }
    done = add_file(merger, file, times) + add_file(merger, other, 1) != 0;
    if (!covsplit_merger_finish(merger, api_take, &taken, &error)) {
        done = false;
        api_refused(error);
    }
    covsplit_merger_free(merger);
    *sum = taken.bytes;
    return done;
}

/* False if the sum has counters that llvm-profdata does not take in one profile: it is several. */
static bool expect_double(const covsplit_profile *once, const covsplit_profile *twice)
{
    uint64_t count = covsplit_profile_counter_count(once);
    bool bytes = (covsplit_profile_raw_version(once) & PROFILE_VARIANT_BYTE_COVERAGE) != 0;

    FUZZ_EXPECT(count == covsplit_profile_counter_count(twice), "sums of different sizes");
    for (uint64_t i = 0; !bytes && i < count; i++) {
        if (covsplit_profile_counter(once, i) > PROFILE_COUNTER_MAX / 2)
            return false;
    }
    for (uint64_t i = 0; i < count && i < COUNTERS_MOST; i++) {
        uint64_t one = covsplit_profile_counter(once, i), two = covsplit_profile_counter(twice, i);

        FUZZ_EXPECT(two == (bytes ? one : 2 * one), "counter %llu is %llu, and twice that %llu",
                    (unsigned long long)i, (unsigned long long)one, (unsigned long long)two);
    }
    return true;
}

static void check_sums(struct bytes file, struct bytes other, covsplit_sidecar *sidecar)
{
    struct buffer sums[3] = {{0}};
    bool found = true;

    if (add_up(file, 1, (struct bytes){0}, sidecar, &sums[0])) {
        covsplit_profile *once, *twice;

        FUZZ_EXPECT(add_up(file, 2, (struct bytes){0}, sidecar, &sums[1]),
                    "a second profile is refused");
        once = covsplit_profile_open_memory(sums[0].data, sums[0].size, "once", NULL);
        twice = covsplit_profile_open_memory(sums[1].data, sums[1].size, "twice", NULL);
        FUZZ_EXPECT(once != NULL && twice != NULL, "a sum cannot be read");
        while (found) {
            bool also = false;

            FUZZ_EXPECT(!covsplit_profile_needs_sidecar(once), "a sum needs a sidecar");
            if (!expect_double(once, twice))
                break;
            FUZZ_EXPECT(covsplit_profile_next(once, &found, NULL) &&
                            covsplit_profile_next(twice, &also, NULL) && found == also,
                        "sums of different numbers of profiles");
        }
        covsplit_profile_close(once);
        covsplit_profile_close(twice);
    }
    if (other.size != 0)
        add_up(file, 1, other, sidecar, &sums[2]);
    for (size_t i = 0; i < 3; i++)
        buffer_free(&sums[i]);
}

/* ---- dumps ---- */

/* Writes the profile of a dump of counters, which may be of any size. */
static bool make_dump(struct bytes sidecar_bytes, struct bytes counters, struct buffer *profile,
                      struct error *error)
{
    struct sidecar *sidecar = sidecar_open(sidecar_bytes, "sidecar", error);
    struct fuzz_collection made = {.limit = ALL_MOST};
    FREED_BY(profile_sidecar_close) struct profile_sidecar opened = {.sidecar = sidecar};
    FREED_BY(buffer_free) struct buffer whole = {0}, bitmap = {0};
    struct dump dump = {0};
    bool done = false;

    if (sidecar == NULL)
        return false;
    sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    if (profile_sidecar_load(&opened, error) && opened.counters_size <= MEMORY_LIMIT &&
        opened.bitmap_size <= MEMORY_LIMIT &&
        buffer_append_zeros(&whole, (size_t)opened.counters_size) &&
        buffer_append_zeros(&bitmap, (size_t)opened.bitmap_size)) {
        if (counters.size > whole.size)
            counters.size = whole.size;
        if (counters.size != 0)
            memcpy(whole.data, counters.data, (size_t)counters.size);
        dump.counters = buffer_view(&whole);
        dump.bitmap = buffer_view(&bitmap);
        done = dump_make(&dump, &opened, "dump", error) &&
               profile_write(&dump.profile, fuzz_collect, &made, error);
        dump_free(&dump);
    }
    *profile = made.bytes;
    return done;
}

/* The profile of a dump is one that correlates. */
static void check_dump(struct bytes sidecar_bytes, struct bytes counters, covsplit_sidecar *sidecar)
{
    FREED_BY(buffer_free) struct buffer made = {0};
    struct error error = {0};
    covsplit_profile *profile;

    if (make_dump(sidecar_bytes, counters, &made, &error)) {
        profile = covsplit_profile_open_memory(made.data, made.size, "dump", NULL);
        FUZZ_EXPECT(profile != NULL, "the profile of a dump cannot be read");
        check_profile(profile, sidecar);
        covsplit_profile_close(profile);
    }
}

/* ---- the target ---- */

static void check_file(struct bytes file, covsplit_sidecar *sidecar)
{
    covsplit_error *error = NULL;
    FREED_BY(drop_profile)
    covsplit_profile *profile = covsplit_profile_open_memory(file.data, file.size, "input", &error);
    bool found = profile != NULL;

    if (profile == NULL)
        api_refused(error);
    for (size_t i = 0; found && i < PROFILES_MOST; i++) {
        check_profile(profile, sidecar);
        error = NULL;
        if (!covsplit_profile_next(profile, &found, &error)) {
            api_refused(error);
            break;
        }
    }
}

static void run(const struct parts *parts)
{
    struct bytes file = parts_get(parts, PART_FILE), bytes = parts_get(parts, PART_SIDECAR);
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar =
        covsplit_sidecar_open_memory(bytes.data, bytes.size, "sidecar", NULL);

    if (sidecar != NULL)
        covsplit_sidecar_limit_memory(sidecar, MEMORY_LIMIT);
    check_file(file, sidecar);
    check_sums(file, parts_get(parts, PART_OTHER), sidecar);
    if (sidecar != NULL)
        check_dump(bytes, parts_get(parts, PART_COUNTERS), sidecar);
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

/* The records of a profile in another layout. */
static void convert_records(const struct profile *from, const struct profile_source *to,
                            struct buffer *records)
{
    struct profile_record_layout layout;
    size_t old_size = from->layout.record_size, count;
    bool old_big = from->big_endian, big = to->big_endian;

    if (!profile_record_layout(to->raw_version, to->pointer_size, &layout) || old_size == 0)
        return;
    count = (size_t)from->data.size / old_size;
    FUZZ_EXPECT(buffer_append_zeros(records, count * layout.record_size), "no memory");
    for (size_t i = 0; i < count; i++) {
        const uint8_t *old = from->data.data + i * old_size;
        uint8_t *now = records->data + i * layout.record_size;
        uint64_t pointer = from->layout.pointer_size == 4
                               ? load_u32(old + from->layout.counter_ptr, old_big)
                               : load_u64(old + from->layout.counter_ptr, old_big);

        store_u64(now, load_u64(old, old_big), big);
        store_u64(now + 8, load_u64(old + 8, old_big), big);
        pointer += i * (old_size - layout.record_size);
        if (layout.pointer_size == 4)
            store_u32(now + layout.counter_ptr, (uint32_t)pointer, big);
        else
            store_u64(now + layout.counter_ptr, pointer, big);
        store_u32(now + layout.num_counters, load_u32(old + from->layout.num_counters, old_big),
                  big);
    }
}

/* Writes the first profile of the file again, of another version, pointer size or byte order. */
static void convert(struct bytes file, struct random_state *random, struct buffer *made)
{
    struct profile_reader reader = {.file = file, .name = "input"};
    struct fuzz_collection written = {.limit = ALL_MOST};
    struct buffer records = {0};
    struct error error;
    struct profile from, to;
    struct profile_source source;

    if (profile_reader_first(&reader, &from, &error)) {
        source = (struct profile_source){
            .raw_version = 7 + random_below(random, 5),
            .pointer_size = random_below(random, 2) == 0 ? 4 : 8,
            .big_endian = random_below(random, 2) == 0,
            .counters = {from.header.counters_delta, from.counters},
            .bitmap = {from.header.bitmap_delta, from.bitmap},
            .names = {from.header.names_delta, from.names},
        };
        if (random_below(random, 4) == 0)
            source.raw_version |= PROFILE_VARIANT_BYTE_COVERAGE;
        convert_records(&from, &source, &records);
        source.data.bytes = buffer_view(&records);
        if (profile_compose(&to, &source))
            profile_write(&to, fuzz_collect, &written, &error);
    }
    profile_reader_free(&reader);
    buffer_free(&records);
    *made = written.bytes;
}

/* Changes one of the words that a profile mostly consists of. */
static void mutate_word(struct bytes file, struct random_state *random, struct buffer *made)
{
    static const uint64_t edges[] = {0, 1, 7, 8, UINT64_MAX, UINT64_MAX - 2, (uint64_t)1 << 63};
    size_t words = (size_t)file.size / 8, at;
    bool big = random_below(random, 8) == 0;
    uint64_t word;

    FUZZ_EXPECT(buffer_append(made, file.data, (size_t)file.size), "no memory for the target");
    if (words == 0)
        return;
    at = 8 * (random_below(random, 2) == 0 ? random_below(random, words)
                                           : random_below(random, words < 40 ? words : 40));
    word = load_u64(made->data + at, big);
    switch (random_below(random, 4)) {
    case 0:
        word = edges[random_below(random, sizeof(edges) / sizeof(edges[0]))];
        break;
    case 1:
        word += random_below(random, 33) - 16;
        break;
    case 2:
        word ^= UINT64_C(1) << random_below(random, 64);
        break;
    default:
        word = load_u64(made->data + 8 * random_below(random, words), big);
        break;
    }
    store_u64(made->data + at, word, big);
}

static void mutate_file(struct parts *parts, struct random_state *random, struct buffer *made)
{
    struct bytes file = parts->part[PART_FILE];
    struct error error;

    switch (random_below(random, 10)) {
    case 0:
        convert(file, random, made);
        break;
    case 1:
        make_dump(parts->part[PART_SIDECAR], parts->part[PART_COUNTERS], made, &error);
        break;
    case 2:
        parts->part[PART_FILE] = parts->part[PART_OTHER];
        parts->part[PART_OTHER] = file;
        return;
    case 3: /* two profiles in one file */
        FUZZ_EXPECT(buffer_append(made, file.data, (size_t)file.size) &&
                        buffer_append_zeros(made, profile_padding(file.size)) &&
                        buffer_append(made, parts->part[PART_OTHER].data,
                                      (size_t)parts->part[PART_OTHER].size),
                    "no memory for the target");
        break;
    case 4:
    case 5:
        part_mutate(file, random, made);
        break;
    default:
        mutate_word(file, random, made);
        break;
    }
    if (made->size != 0)
        parts->part[PART_FILE] = buffer_view(made);
}

/* Reads everything that has a digest. */
static void read_input(const uint8_t *data, size_t size)
{
    struct parts parts;
    struct bytes bytes;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    bytes = parts_get(&parts, PART_SIDECAR);
    sidecar = covsplit_sidecar_open_memory(bytes.data, bytes.size, "sidecar", NULL);
    if (sidecar != NULL) {
        covsplit_sidecar_limit_memory(sidecar, MEMORY_LIMIT);
        covsplit_sidecar_verify(sidecar, NULL);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    struct buffer room = {0};
    struct parts parts;
    bool of_file = random_below(&random, 4) != 0;

    parts_read(&parts, (struct bytes){data, size}, FIXED);
    while (parts.count < PARTS)
        parts.part[parts.count++] = (struct bytes){0};
    if (of_file)
        mutate_file(&parts, &random, &room);
    else
        parts_mutate(&parts, PARTS, &random, &room);
    size = parts_write(&parts, data, size, most);
    buffer_free(&room);
    if (!of_file)
        digests_heal(data, size, read_input);
    return size;
}
