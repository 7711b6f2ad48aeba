/*
 * Summing profiles: see profile_sum.h.
 *
 * The counters are divided into stripes with a lock each. Each thread goes through all stripes,
 * starting at a different one, so that many threads can add to one sum, and no thread needs a sum
 * of its own.
 *
 * The loops are simple, over arrays in memory. Compilers vectorize them, or at least make code
 * whose speed is limited only by memory.
 */
#include "common/llvm/profile_sum.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/names.h"

/* llvm-profdata's limit: 2^64 - 1 and 2^64 - 2 have a special meaning, "hot" and "warm". */
#define COUNT_MAX    (UINT64_MAX - 2)

#define STRIPE_SIZE  ((uint64_t)256 << 10)
#define PLANES_MAX   64

#define NOT_EXECUTED 0xff

struct sum_stripe {
    pthread_mutex_t lock;
    bool limited; /* something has been added, so no counter exceeds the limit */
};

/* Plane 0 starts as a copy of the counters, so that the sum's `counters` can be used to output any
 * plane. Planes are never removed. */
struct sum_planes {
    pthread_mutex_t lock;
    uint8_t *items[PLANES_MAX];
    unsigned count;
};

/* ---- identity ---- */

static void add_number(struct digest_stream *digest, uint64_t number)
{
    uint8_t bytes[sizeof(number)];

    store_u64(bytes, number, false);
    digest_stream_add(digest, (struct bytes){bytes, sizeof(bytes)});
}

/* On Windows distances have 32 bits, whatever the size of the field: the upper half is 0 in records
 * and header. No section of counters is larger, so these bits are enough elsewhere, too, unless the
 * profile is damaged: *is_sound tells. */
static uint64_t counters_offset(const struct profile *profile, uint64_t index, bool *is_sound)
{
    const struct profile_record_layout *layout = &profile->layout;
    const uint8_t *pointer = profile->data.data + index * layout->record_size + layout->counter_ptr;
    uint64_t position = layout->relative ? index * layout->record_size : 0;
    uint64_t counters = profile->is_64_bit ? load_u64(pointer, profile->big_endian)
                                           : load_u32(pointer, profile->big_endian);
    uint64_t delta = profile->header.counters_delta, offset = counters - delta + position;

    *is_sound = !profile->is_64_bit || (counters | delta) <= UINT32_MAX || offset <= UINT32_MAX;
    return offset & UINT32_MAX;
}

struct profile_function profile_get_function(const struct profile *profile, uint64_t index)
{
    const struct profile_record_layout *layout = &profile->layout;
    const uint8_t *record = profile->data.data + index * layout->record_size;
    bool is_sound;

    return (struct profile_function){
        .name_ref = load_u64(record, profile->big_endian),
        .hash = load_u64(record + sizeof(uint64_t), profile->big_endian),
        .offset = counters_offset(profile, index, &is_sound),
        .counter_count = load_u32(record + layout->num_counters, profile->big_endian),
    };
}

struct digest profile_identity(const struct profile *profile)
{
    const struct profile_header *header = &profile->header;
    const uint64_t numbers[] = {
        header->magic,        header->version,          header->num_data,
        profile->big_endian,  profile->lightweight, /* or its stub was changed, and that is found
                                                       out of each group */
        header->num_counters, header->num_bitmap_bytes, profile->binary_ids.size,
        header->names_size,   header->num_vtables,      header->vnames_size,
    };
    struct digest_stream digest;

    digest_stream_start(&digest);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        add_number(&digest, numbers[i]);
    digest_stream_add(&digest, profile->binary_ids);
    /* All of the records but addresses in memory. */
    for (uint64_t i = 0; i < header->num_data; i++) {
        struct profile_function function = profile_get_function(profile, i);
        bool is_sound;

        digest_stream_add(&digest,
                          (struct bytes){profile->data.data + i * profile->layout.record_size,
                                         2 * sizeof(uint64_t)});
        /* What is damaged is refused by itself, whatever was added before. */
        counters_offset(profile, i, &is_sound);
        add_number(&digest, is_sound ? function.offset : UINT64_MAX);
        add_number(&digest, function.counter_count);
    }
    digest_stream_add(&digest, profile->names);
    return digest_stream_finish(&digest);
}

bool profile_can_be_summed(const struct profile *profile)
{
    return profile->value_data.size == 0 &&
           (profile->header.version & PROFILE_VARIANT_TEMPORAL) == 0;
}

/* Older versions are read by tools that take any counter. */
#define VERSION_COUNTERS_CHECKED 9

/* The highest byte alone tells of almost all counters that they are small enough. */
bool profile_check_counters(const struct profile *profile, const char *name, struct error *error)
{
    struct bytes counters = profile_whole_counters(profile);
    size_t high = profile->big_endian ? 0 : sizeof(uint64_t) - 1;

    /* Without records it is not known where counters begin: see counter_skew. */
    if (profile->version < VERSION_COUNTERS_CHECKED || profile->header.num_data == 0 ||
        profile_counter_size(profile->header.version) != sizeof(uint64_t))
        return true;
    for (uint64_t i = 0; i < counters.size; i += sizeof(uint64_t)) {
        uint64_t count =
            counters.data[i + high] == 0 ? 0 : load_u64(counters.data + i, profile->big_endian);

        if (count > PROFILE_COUNTER_MAX)
            return error_set(error,
                             "%s: damaged: counter %" PRIu64 " is %" PRIu64
                             ", and llvm-profdata takes none above 2^56; run the program again",
                             name, i / sizeof(uint64_t), count);
    }
    return true;
}

static bool is_out_of_place(const char *name, uint64_t index, struct error *error)
{
    return error_set(error,
                     "%s: damaged: its record %" PRIu64 " is of no function that it has a name "
                     "and counters of; " PROFILE_CUT_REMEDY,
                     name, index);
}

bool profile_check_places(const struct profile *profile, const char *name, struct error *error)
{
    uint64_t counter_size = profile_counter_size(profile->header.version);
    uint64_t counters_size = profile_whole_counters(profile).size;

    for (uint64_t i = 0; i < profile_function_count(profile); i++) {
        struct profile_function function = profile_get_function(profile, i);
        bool is_sound;

        counters_offset(profile, i, &is_sound);
        if (!is_sound || function.counter_count == 0 ||
            !range_within(function.offset - profile->counter_skew,
                          function.counter_count * counter_size, 0, counters_size))
            return is_out_of_place(name, i, error);
    }
    return true;
}

bool profile_check_functions(const struct profile *profile, const char *name, struct error *error)
{
    struct names names = {0};
    bool done = profile_check_places(profile, name, error) &&
                names_read(&names, profile->names, name, error);

    for (uint64_t i = 0; done && i < profile_function_count(profile); i++) {
        if (names_find(&names, profile_get_function(profile, i).name_ref) == NULL)
            done = is_out_of_place(name, i, error);
    }
    names_free(&names);
    return done;
}

/* ---- the sum ---- */

static bool no_memory(const struct profile_sum *sum, struct error *error)
{
    return error_out_of_memory(error, "the sum of the profiles", sum->profile.size);
}

struct profile_sum *profile_sum_new(const struct digest *identity, struct error *error)
{
    struct profile_sum *sum = calloc(1, sizeof(*sum));

    if (sum == NULL)
        error_out_of_memory(error, "the sum of the profiles", sizeof(*sum));
    else
        sum->identity = *identity;
    return sum;
}

static void drop_counters(struct profile_sum *sum)
{
    for (unsigned i = 0; sum->planes != NULL && i < sum->planes->count; i++)
        free(sum->planes->items[i]);
    if (sum->planes != NULL)
        pthread_mutex_destroy(&sum->planes->lock);
    for (uint64_t i = 0; sum->stripes != NULL && i < sum->stripe_count; i++)
        pthread_mutex_destroy(&sum->stripes[i].lock);
    free(sum->planes);
    free(sum->stripes);
    free(sum->bytes);
    sum->planes = NULL;
    sum->stripes = NULL;
    sum->bytes = NULL;
    sum->size = 0;
}

void profile_sum_free(struct profile_sum *sum)
{
    if (sum == NULL)
        return;
    drop_counters(sum);
    free(sum);
}

static bool append_part(void *context, struct bytes part, struct error *error)
{
    struct profile_sum *sum = context;

    (void)error;
    memcpy(sum->bytes + sum->size, part.data, (size_t)part.size);
    sum->size += part.size;
    return true;
}

static uint8_t executed_or_not(uint8_t counter)
{
    return counter == 0 ? 0 : NOT_EXECUTED;
}

/* Makes sure that there is a plane; in a new one nothing is executed. If another thread needs a new
 * plane at the same time, it is the same one. */
static bool need_plane(const struct profile_sum *sum, unsigned plane)
{
    struct sum_planes *planes = sum->planes;
    size_t size = (size_t)sum->profile.counters.size;
    bool there;

    pthread_mutex_lock(&planes->lock);
    there = plane < planes->count;
    if (!there && planes->count < PLANES_MAX) {
        uint8_t *bytes = malloc(size + 1);

        there = bytes != NULL;
        if (there) {
            memset(bytes, NOT_EXECUTED, size);
            planes->items[planes->count++] = bytes;
        }
    }
    pthread_mutex_unlock(&planes->lock);
    return there;
}

/* The counters become those of the profile, which is copied except for value data. */
static bool start_counters(struct profile_sum *sum, const struct profile *first,
                           struct error *error)
{
    struct profile source = *first;
    struct bytes counters;

    source.value_data.size = 0;
    profile_set_padding(&source);
    source.size = profile_written_size(&source);
    sum->profile.size = source.size;
    sum->bytes = malloc((size_t)source.size);
    if (sum->bytes == NULL)
        return no_memory(sum, error);
    if (!profile_write(&source, append_part, sum, error) ||
        !profile_parse((struct bytes){sum->bytes, sum->size}, 0, "the sum of the profiles",
                       &sum->profile, error))
        return false;
    counters = profile_whole_counters(&sum->profile);
    sum->counters = sum->bytes + (counters.data - sum->bytes);
    sum->counters_size = counters.size;
    sum->bitmap = sum->bytes + (sum->profile.bitmap.data - sum->bytes);
    sum->stripe_count = sum->counters_size / STRIPE_SIZE + 1;
    sum->stripes = calloc((size_t)sum->stripe_count, sizeof(*sum->stripes));
    if (sum->stripes == NULL)
        return no_memory(sum, error);
    for (uint64_t i = 0; i < sum->stripe_count; i++)
        pthread_mutex_init(&sum->stripes[i].lock, NULL);
    if ((sum->profile.header.version & PROFILE_VARIANT_BYTE_COVERAGE) == 0)
        return true;
    sum->planes = calloc(1, sizeof(*sum->planes));
    if (sum->planes == NULL)
        return no_memory(sum, error);
    pthread_mutex_init(&sum->planes->lock, NULL);
    if (!need_plane(sum, 0))
        return no_memory(sum, error);
    for (uint64_t i = 0; i < first->counters.size; i++)
        sum->planes->items[0][i] = executed_or_not(first->counters.data[i]);
    return true;
}

/* ---- adding ---- */

/* Most of a program does not run, so most counters are zero. They are checked in runs of this
 * length, and runs of zeros are skipped. */
#define RUN_LENGTH 8

static void add_counts(const struct profile_sum *sum, struct sum_stripe *stripe, uint64_t offset,
                       const uint8_t *from, uint64_t size)
{
    bool big_endian = sum->profile.big_endian;
    uint8_t *to = sum->counters + offset;
    uint64_t at = 0, end;

    /* Counters of the first profile that exceed the limit are limited as soon as anything is added,
     * even zero, as llvm-profdata does it. This is a separate pass since adding skips zeros. */
    for (uint64_t i = 0; !stripe->limited && i < size; i += sizeof(uint64_t)) {
        if (load_u64(to + i, big_endian) > COUNT_MAX)
            store_u64(to + i, COUNT_MAX, big_endian);
    }
    stripe->limited = true;
    while (at < size) {
        uint64_t run[RUN_LENGTH] = {1}, any = 0;

        if (size - at >= sizeof(run))
            memcpy(run, from + at, sizeof(run));
        for (size_t i = 0; i < RUN_LENGTH; i++)
            any |= run[i];
        end = size - at < sizeof(run) ? size : at + sizeof(run);
        if (any == 0)
            at = end;
        for (; at < end; at += sizeof(uint64_t)) {
            uint64_t before = load_u64(to + at, big_endian);
            uint64_t after = before + load_u64(from + at, big_endian);

            store_u64(to + at, after < before || after > COUNT_MAX ? COUNT_MAX : after, big_endian);
        }
    }
}

/* Adds the bits in `carry` to a plane; in both, a byte 0 stands for a bit that is set. Afterwards
 * `carry` holds what must be added to the next plane; false if that is nothing. */
static bool add_to_plane(uint8_t *plane, uint8_t *carry, uint64_t size)
{
    uint8_t all = NOT_EXECUTED;

    for (uint64_t i = 0; i < size; i++) {
        uint8_t next = plane[i] | carry[i];

        plane[i] = (uint8_t) ~(plane[i] ^ carry[i]);
        carry[i] = next;
        all &= next;
    }
    return all != NOT_EXECUTED;
}

static bool add_coverage(const struct profile_sum *sum, unsigned plane, uint64_t offset,
                         const uint8_t *from, uint64_t size)
{
    uint8_t carry[4096];

    while (size != 0) {
        uint64_t part = size < sizeof(carry) ? size : sizeof(carry);
        unsigned next = plane;

        for (uint64_t i = 0; i < part; i++)
            carry[i] = executed_or_not(from[i]);
        do {
            if (!need_plane(sum, next))
                return false;
        } while (add_to_plane(sum->planes->items[next++] + offset, carry, part));
        offset += part;
        from += part;
        size -= part;
    }
    return true;
}

static bool add_stripe(struct profile_sum *sum, unsigned plane, uint64_t stripe,
                       const uint8_t *counters)
{
    uint64_t offset = stripe * STRIPE_SIZE;
    uint64_t left = sum->counters_size - offset;
    uint64_t size = left < STRIPE_SIZE ? left : STRIPE_SIZE;
    bool added = true;

    pthread_mutex_lock(&sum->stripes[stripe].lock);
    if (sum->planes != NULL)
        added = add_coverage(sum, plane, offset, counters + offset, size);
    else
        add_counts(sum, &sum->stripes[stripe], offset, counters + offset, size);
    pthread_mutex_unlock(&sum->stripes[stripe].lock);
    return added;
}

/* Both are protected by the lock of the last stripe. */
static void add_bitmap_and_count(struct profile_sum *sum, const uint8_t *bitmap, uint64_t count)
{
    pthread_mutex_t *lock = &sum->stripes[sum->stripe_count - 1].lock;

    pthread_mutex_lock(lock);
    for (uint64_t i = 0; i < sum->profile.bitmap.size; i++)
        sum->bitmap[i] |= bitmap[i];
    if (!add_fits(sum->profile_count, count, &sum->profile_count))
        sum->profile_count = UINT64_MAX;
    pthread_mutex_unlock(lock);
}

bool profile_sum_add(struct profile_sum *sum, const struct profile *more, unsigned share,
                     unsigned shares, struct error *error)
{
    uint64_t first = sum->stripe_count / shares * share;

    if (!profile_sum_has_counters(sum)) {
        sum->profile_count++;
        if (!profile_can_be_summed(more) || start_counters(sum, more, error))
            return true;
        /* Threads that do not know of it yet must not add to a part of them. */
        drop_counters(sum);
        return false;
    }
    for (uint64_t i = 0; i < sum->stripe_count; i++) {
        if (!add_stripe(sum, 0, (first + i) % sum->stripe_count, profile_whole_counters(more).data))
            return no_memory(sum, error);
    }
    add_bitmap_and_count(sum, more->bitmap.data, 1);
    return true;
}

bool profile_sum_add_plane(struct profile_sum *sum, unsigned plane, struct bytes counters,
                           struct error *error)
{
    for (uint64_t i = 0; i < sum->stripe_count; i++) {
        if (!add_stripe(sum, plane, i, counters.data))
            return no_memory(sum, error);
    }
    return true;
}

bool profile_sum_add_sum(struct profile_sum *sum, struct profile_sum *more, struct error *error)
{
    if (!profile_sum_has_counters(sum)) {
        *sum = *more;
        *more = (struct profile_sum){.identity = sum->identity};
        return true;
    }
    for (unsigned plane = 0; plane < profile_sum_plane_count(more); plane++) {
        struct bytes counters = {more->planes == NULL ? more->counters : more->planes->items[plane],
                                 more->counters_size};

        if (!profile_sum_add_plane(sum, plane, counters, error))
            return false;
    }
    add_bitmap_and_count(sum, more->bitmap, more->profile_count);
    return true;
}

/* ---- what is taken from one profile ---- */

struct adoption {
    struct profile_sum *sum;
    uint64_t position;
};

/* Overwrites a part of the sum, unless it is the counters or the bitmap. Each part is at the same
 * offset in both. */
static bool adopt_part(void *context, struct bytes part, struct error *error)
{
    struct adoption *adoption = context;
    uint8_t *to = adoption->sum->bytes + adoption->position;

    (void)error;
    if (to + adoption->sum->profile.counter_skew != adoption->sum->counters &&
        to != adoption->sum->bitmap)
        memcpy(to, part.data, (size_t)part.size);
    adoption->position += part.size;
    return true;
}

void profile_sum_adopt(struct profile_sum *sum, const struct profile *profile)
{
    struct profile source = *profile;
    struct adoption adoption = {.sum = sum};
    struct error none;

    source.value_data.size = 0;
    profile_set_padding(&source);
    if (profile_written_size(&source) == sum->size) {
        profile_write(&source, adopt_part, &adoption, &none);
        sum->profile.header = source.header;
    }
}

/* ---- the result ---- */

const struct profile *profile_sum_combined(struct profile_sum *sum)
{
    for (unsigned plane = 0; sum->planes != NULL && plane < sum->planes->count; plane++) {
        const uint8_t *from = sum->planes->items[plane];

        for (uint64_t i = 0; i < sum->profile.counters.size; i++)
            sum->counters[i] = (uint8_t)((plane == 0 ? NOT_EXECUTED : sum->counters[i]) & from[i]);
    }
    return &sum->profile;
}

unsigned profile_sum_plane_count(const struct profile_sum *sum)
{
    return sum->planes == NULL ? 1 : sum->planes->count;
}

struct bytes profile_sum_plane(struct profile_sum *sum, unsigned plane)
{
    if (sum->planes != NULL)
        memcpy(sum->counters, sum->planes->items[plane], (size_t)sum->profile.counters.size);
    return (struct bytes){sum->bytes, sum->size};
}

/* ---- the parts that llvm-profdata reads ---- */

static uint64_t largest_counter(const struct profile_sum *sum)
{
    uint64_t largest = 0;

    for (uint64_t i = 0; i < sum->counters_size; i += sizeof(uint64_t)) {
        uint64_t count = load_u64(sum->counters + i, sum->profile.big_endian);

        largest = count > largest ? count : largest;
    }
    return largest;
}

/* The share of part `index` in a count. Of a saturated one, the parts make up 2^64. */
static uint64_t part_of(uint64_t count, uint64_t index, bool with_weights)
{
    uint64_t before = index * PROFILE_COUNTER_MAX, rest;

    if (with_weights && index == 1)
        return count / PROFILE_COUNTER_MAX;
    if (count == COUNT_MAX)
        return PROFILE_COUNTER_MAX;
    if (with_weights)
        return count % PROFILE_COUNTER_MAX;
    rest = count > before ? count - before : 0;
    return rest < PROFILE_COUNTER_MAX ? rest : PROFILE_COUNTER_MAX;
}

static bool visit_parts(struct profile_sum *sum, uint64_t largest, bool with_weights,
                        profile_sum_visitor visit, void *context, struct error *error)
{
    uint64_t count = with_weights ? 2 : (largest - 1) / PROFILE_COUNTER_MAX + 1;
    struct profile profile = sum->profile;
    struct bytes whole = sum->profile.counters;
    uint8_t *copy = malloc((size_t)whole.size), *counters;
    bool big_endian = sum->profile.big_endian, done = true;

    if (copy == NULL)
        return no_memory(sum, error);
    memcpy(copy, whole.data, (size_t)whole.size);
    profile.counters.data = copy;
    counters = copy + (sum->counters - whole.data);
    for (uint64_t part = 0; done && part < count; part++) {
        for (uint64_t i = 0; i < sum->counters_size; i += sizeof(uint64_t))
            store_u64(counters + i,
                      part_of(load_u64(sum->counters + i, big_endian), part, with_weights),
                      big_endian);
        done = visit(context, &profile, with_weights && part == 1 ? PROFILE_COUNTER_MAX : 1, error);
    }
    free(copy);
    return done;
}

/* Only the first profile, as long as it is the only one, may have a counter above COUNT_MAX, which
 * must reach llvm-profdata as it is. */
bool profile_sum_visit(struct profile_sum *sum, bool with_weights, profile_sum_visitor visit,
                       void *context, struct error *error)
{
    uint64_t largest = sum->planes != NULL ? 0 : largest_counter(sum);

    if (largest > PROFILE_COUNTER_MAX && largest <= COUNT_MAX)
        return visit_parts(sum, largest, with_weights, visit, context, error);
    if (!with_weights || sum->planes == NULL)
        return visit(context, profile_sum_combined(sum), 1, error);
    for (unsigned plane = 0; plane < sum->planes->count; plane++) {
        profile_sum_plane(sum, plane);
        if (!visit(context, &sum->profile, UINT64_C(1) << plane, error))
            return false;
    }
    return true;
}
