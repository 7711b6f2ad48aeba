/*
 * What the targets of the codec share: see codec_input.h.
 */
#include "tests/fuzz/codec_input.h"

#include "common/llvm/profile.h"
#include "tests/fuzz/allocations.h"
#include "tests/fuzz/support.h"

/* What may be allocated in one block, and in all. Compressors have tables, and each list begins
 * with a little room; the rest is in proportion to the input, or to the size that it declares. */
#define BLOCK_BESIDES  ((size_t)4 << 20)
#define BLOCK_PER_BYTE 4096
#define ALL_BESIDES    ((size_t)24 << 20)
#define ALL_PER_BYTE   ((size_t)1 << 15)
#define PER_SIZE       64

/* What decoders may append beyond the size before they notice: the sizes in front of a chunk; a
 * mapping, each region of which is counted as the fewest bytes that one can have; or a record that
 * is in another section of the input, before its size is compared. */
#define OVERSHOOT       64
#define OVERSHOOT_TIMES 16

const struct codec_transform codec_transforms[CODEC_TRANSFORMS] = {
    {&names_transform, 7, 0},    {&data_transform, 10, 9},         {&filenames_transform, 5, 4},
    {&mapping_transform, 62, 8}, {&linked_covmap_transform, 7, 6}, {&mapping_transform, 62, 8},
};

/* Inputs are small and many, so what ASan remembers of each allocation is most of the time. A
 * finding can be run again with more. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "malloc_context_size=1:quarantine_size_mb=4:detect_stack_use_after_return=0";
}

/* The image of which the sections are. */
static struct transform_context shape(uint8_t bits)
{
    static const uint64_t raw_versions[] = {10, 8, 7, 9, 11, 10 | PROFILE_VARIANT_BYTE_COVERAGE,
                                            0,  12};

    return (struct transform_context){.big_endian = (bits & 1) != 0,
                                      .pointer_size = (bits & 2) != 0 ? 4 : 8,
                                      .raw_version = raw_versions[bits >> 2 & 7],
                                      .block_size = TRANSFORM_BLOCK_SIZE,
                                      .memory_limit = CODEC_MEMORY_LIMIT,
                                      .threads = 1};
}

void codec_input_start(struct codec_run *run)
{
    const uint8_t *fixed = run->parts.fixed;

    run->context = shape(fixed[1]);
    run->size = (uint64_t)fixed[2] | (uint64_t)fixed[3] << 8 | (uint64_t)fixed[4] << 16;
    run->names = (struct names){0};
    run->input_size = 0;
    for (size_t i = 0; i < run->parts.count; i++)
        run->input_size += run->parts.part[i].size;
}

void codec_input_run(const struct codec_kind *kinds, size_t count, struct bytes input)
{
    const struct codec_kind *kind;
    struct codec_run run;

    parts_read(&run.parts, input, CODEC_FIXED);
    codec_input_start(&run);
    kind = &kinds[run.parts.fixed[0] % count];
    allocations_start();
    kind->run(&run, kind->number);
    names_free(&run.names);
    allocations_check(
        BLOCK_BESIDES + PER_SIZE * (size_t)run.size + BLOCK_PER_BYTE * (size_t)input.size,
        ALL_BESIDES + PER_SIZE * (size_t)run.size + ALL_PER_BYTE * (size_t)input.size);
}

void codec_copy(struct bytes from, struct buffer *to)
{
    FUZZ_EXPECT(from.size == 0 || buffer_append(to, from.data, (size_t)from.size),
                "no memory for the target");
}

void codec_input_take_sections(struct codec_run *run, const struct transform *transform,
                               size_t from, bool for_writing)
{
    struct buffer text = {0};

    if (transform->needs_names) {
        codec_copy(parts_get(&run->parts, from), &text);
        if (text.size != 0 && names_take_text(&run->names, &text) == RESULT_OK &&
            (for_writing ? names_index : names_hash)(&run->names, 1))
            run->context.names = &run->names;
        buffer_free(&text);
    }
    run->context.data = parts_get(&run->parts, from + 1);
    run->context.covmap = parts_get(&run->parts, from + 2);
    run->context.covfun = parts_get(&run->parts, from + 3);
}

enum result codec_decode_streams(const struct codec_run *run,
                                 const struct codec_transform *transform, struct buffer *section)
{
    struct streams streams = {.count = transform->streams};
    uint64_t most = OVERSHOOT_TIMES * (run->size + run->input_size) + OVERSHOOT;
    enum result result;

    for (size_t i = 0; i < transform->streams; i++)
        codec_copy(parts_get(&run->parts, i), &streams.stream[i]);
    result = transform->transform->decode(&run->context, &streams, run->size, section);
    streams_free(&streams);
    FUZZ_EXPECT(result != RESULT_NO_MEMORY, "decoding ran out of memory");
    if (result == RESULT_OK)
        most = run->size + OVERSHOOT;
    FUZZ_EXPECT(section->size <= most, "a section of %zu bytes, more than %llu", section->size,
                (unsigned long long)run->size);
    return result;
}

void codec_input_mutate(struct parts *parts, size_t kinds, struct random_state *random)
{
    switch (random_below(random, 4)) {
    case 0:
        parts->fixed[1] ^= (uint8_t)(1u << random_below(random, 5));
        break;
    case 1:
        parts->fixed[0] = (uint8_t)random_below(random, kinds);
        break;
    case 2:
        parts->fixed[2] = (uint8_t)(parts->fixed[2] + random_below(random, 17) - 8);
        break;
    default:
        mutate_bytes(parts->fixed + 2, 3, 3);
        break;
    }
}
