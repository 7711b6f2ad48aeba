/*
 * Fuzz target: each decoder of the codec alone, without zstd before it and digests after it, which
 * no mutation would get through. Inputs: codec_input.h.
 *
 * Whatever the input holds, it is refused, or decodes to what was declared, twice to the same, in
 * memory in proportion to the input.
 */
#include <string.h>

#include "common/base/inflate.h"
#include "common/codec/codec.h"
#include "common/codec/names/names.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/llvm/profile_reader.h"
#include "common/llvm/tripwire.h"
#include "tests/fuzz/codec_input.h"
#include "tests/fuzz/decoders.h"
#include "tests/fuzz/support.h"

/* ---- transforms ---- */

static void run_streams(struct codec_run *run, size_t number)
{
    const struct codec_transform *transform = &codec_transforms[number];
    FREED_BY(buffer_free) struct buffer section = {0}, again = {0};

    codec_input_take_sections(run, transform->transform, transform->streams, false);
    if (codec_decode_streams(run, transform, &section) == RESULT_OK && section.size == run->size)
        FUZZ_EXPECT(codec_decode_streams(run, transform, &again) == RESULT_OK &&
                        bytes_equal(buffer_view(&section), buffer_view(&again)),
                    "the same streams decode otherwise the second time");
}

/* Streams as they are stored: some compressed, with their sizes. */
static void run_encoded(struct codec_run *run, size_t number)
{
    const struct transform *transform =
        number == CODEC_TRANSFORMS ? &mapping_blocks_transform : codec_transforms[number].transform;
    struct encoded encoded = {parts_get(&run->parts, 0), run->size, "input", "the section"};
    FREED_BY(buffer_free) struct buffer section = {0};
    struct error error = {0};

    codec_input_take_sections(run, transform->block != NULL ? transform->block : transform, 1,
                              false);
    if (codec_decode(transform, &run->context, &encoded, &section, &error))
        FUZZ_EXPECT(section.size == run->size, "a section not of its size");
    else
        fuzz_expect_reason(&error);
}

/* ---- names ---- */

static void run_names_alone(struct codec_run *run, size_t number)
{
    struct encoded encoded = {parts_get(&run->parts, 0), run->size, "input", "the section"};
    struct error error = {0};
    FREED_BY(names_free) struct names names;
    bool are_all;

    (void)number;
    if (names_decode(&run->context, &encoded, &names, &are_all, &error)) {
        for (size_t i = 0; i < names.count; i++)
            FUZZ_EXPECT(names_get(&names, i).size < names.text.size,
                        "a name longer than all names");
    }
}

static void run_token_text(struct codec_run *run, size_t number)
{
    FREED_BY(names_free) struct names names = {0};

    (void)number;
    if (token_text_decode(parts_get(&run->parts, 0), parts_get(&run->parts, 1), run->size,
                          &names) == RESULT_OK)
        FUZZ_EXPECT(names.text.size <= run->size, "a text larger than its limit");
}

static void run_name_chunks(struct codec_run *run, size_t number)
{
    FREED_BY(names_free) struct names names = {0}, again = {0};
    FREED_BY(buffer_free) struct buffer section = {0};
    struct error error = {0};

    (void)number;
    if (names_add_section(&names, parts_get(&run->parts, 0), CODEC_MEMORY_LIMIT, "input", &error)) {
        FUZZ_EXPECT(names_hash(&names, 1) && names_encode(&names, &section) &&
                        names_add_section(&again, buffer_view(&section), CODEC_MEMORY_LIMIT,
                                          "again", &error),
                    "%s", error.message);
        FUZZ_EXPECT(bytes_equal(buffer_view(&names.text), buffer_view(&again.text)),
                    "names that do not come back");
    }
}

/* ---- zlib streams ---- */

static void run_inflate(struct codec_run *run, size_t number)
{
    FREED_BY(buffer_free) struct buffer text = {0};

    (void)number;
    if (inflate_exactly(parts_get(&run->parts, 0), run->size, &text) == RESULT_OK)
        FUZZ_EXPECT(text.size == run->size, "a text not of its size");
}

/* ---- coverage mapping ---- */

/* A mapping that is parsed is written as it was, but for its table of expressions. */
static void run_mapping(struct codec_run *run, size_t number)
{
    struct bytes bytes = parts_get(&run->parts, 0);
    FREED_BY(mapping_free) struct mapping mapping = {0};
    FREED_BY(buffer_free) struct buffer files = {0}, regions = {0};

    (void)number;
    if (mapping_read(&mapping, bytes) == RESULT_OK) {
        FUZZ_EXPECT(mapping_write_files(&mapping, &files) &&
                        mapping_write_regions(&mapping, &regions) &&
                        files.size + regions.size <= bytes.size,
                    "a mapping that grows");
        FUZZ_EXPECT(
            memcmp(files.data, bytes.data, files.size) == 0 &&
                (regions.size == 0 ||
                 memcmp(regions.data, bytes.data + bytes.size - regions.size, regions.size) == 0),
            "a mapping that is written otherwise");
    }
}

static void run_units(struct codec_run *run, size_t number)
{
    struct bytes covmap = parts_get(&run->parts, 0), covfun = parts_get(&run->parts, 1);
    bool big_endian = run->context.big_endian, is_dummy;
    FREED_BY(covmap_names_free) struct covmap_names names = {0};
    struct covmap_unit unit;
    struct covfun_record record;
    struct covfun_files files;

    (void)number;
    while (covmap_take(&covmap, big_endian, &unit))
        covmap_names_read(&names, unit.filenames, CODEC_MEMORY_LIMIT);
    while (covfun_take(&covfun, big_endian, &record)) {
        if (covfun_read_files(&record, &files))
            FUZZ_EXPECT(files.rest.size <= record.mapping.size, "files larger than their mapping");
        covfun_tell_dummy(&record, &is_dummy);
    }
}

/* A packed unit that is read and written again is read as the same. */
static void run_packed_unit(struct codec_run *run, size_t number)
{
    struct bytes section = parts_get(&run->parts, 0), packed;
    bool big_endian = run->context.big_endian;
    FREED_BY(packed_unit_free) struct packed_unit unit = {0}, second = {0};
    FREED_BY(buffer_free) struct buffer written = {0}, again = {0};

    (void)number;
    while (packed_unit_take(&section, big_endian, &packed)) {
        written.size = 0;
        again.size = 0;
        if (packed_unit_read(&unit, packed, big_endian, CODEC_MEMORY_LIMIT) != RESULT_OK)
            continue;
        FUZZ_EXPECT(packed_unit_write(&unit, big_endian, &written) == RESULT_OK &&
                        packed_unit_read(&second, buffer_view(&written), big_endian,
                                         CODEC_MEMORY_LIMIT) == RESULT_OK &&
                        packed_unit_write(&second, big_endian, &again) == RESULT_OK &&
                        bytes_equal(buffer_view(&written), buffer_view(&again)),
                    "a packed unit that does not come back");
    }
}

static void run_unpack(struct codec_run *run, size_t number)
{
    const struct mapping_sections linked = {parts_get(&run->parts, 0), parts_get(&run->parts, 1)};
    FREED_BY(buffer_free) struct buffer covmap = {0}, covfun = {0};
    struct error error = {0};

    (void)number;
    if (unpack_mapping(&linked, run->context.big_endian, CODEC_MEMORY_LIMIT, "input", &covmap,
                       &covfun, &error)) {
        FUZZ_EXPECT(!unpack_is_needed(buffer_view(&covmap), run->context.big_endian),
                    "a mapping that is still packed");
    } else {
        fuzz_expect_reason(&error);
    }
}

/* ---- other small forms ---- */

static void run_sparse(struct codec_run *run, size_t number)
{
    FREED_BY(profile_reader_free)
    struct profile_reader reader = {
        .file = parts_get(&run->parts, 0), .name = "input", .limit = CODEC_MEMORY_LIMIT};
    struct profile profile;
    struct error error = {0};

    (void)number;
    if (profile_reader_first(&reader, &profile, &error) && reader.is_sparse)
        FUZZ_EXPECT(reader.stored_size <= reader.file.size - reader.offset &&
                        reader.expanded.size >= profile.size,
                    "a sparse profile not of its size");
}

static void run_tripwire(struct codec_run *run, size_t number)
{
    struct uuid uuid;
    bool is_prefix;

    (void)number;
    tripwire_read_uuid(parts_get(&run->parts, 0), &uuid, &is_prefix);
    tripwire_recognize_mapping(parts_get(&run->parts, 0), run->context.big_endian);
}

/* ---- the target ---- */

static const struct codec_kind kinds[DECODERS_KINDS] = {
    [DECODERS_STREAMS] = {run_streams, 0},
    {run_streams, 1},
    {run_streams, 2},
    {run_streams, 3},
    {run_streams, 4},
    {run_streams, 5},
    [DECODERS_ENCODED] = {run_encoded, 0},
    {run_encoded, 1},
    {run_encoded, 2},
    {run_encoded, 3},
    {run_encoded, 4},
    {run_encoded, 5},
    [DECODERS_ENCODED_BLOCKS] = {run_encoded, CODEC_TRANSFORMS},
    [DECODERS_NAMES_ALONE] = {run_names_alone, 0},
    [DECODERS_TOKEN_TEXT] = {run_token_text, 0},
    [DECODERS_NAME_CHUNKS] = {run_name_chunks, 0},
    [DECODERS_INFLATE] = {run_inflate, 0},
    [DECODERS_MAPPING] = {run_mapping, 0},
    [DECODERS_UNITS] = {run_units, 0},
    [DECODERS_PACKED_UNIT] = {run_packed_unit, 0},
    [DECODERS_UNPACK] = {run_unpack, 0},
    [DECODERS_SPARSE] = {run_sparse, 0},
    [DECODERS_TRIPWIRE] = {run_tripwire, 0},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    codec_input_run(kinds, DECODERS_KINDS, (struct bytes){data, size});
    return 0;
}

/* ---- mutations ---- */

/* Declares the size that the streams decode to, so that they may be accepted. */
static void fit_size(struct codec_run *run, const struct codec_transform *transform)
{
    FREED_BY(buffer_free) struct buffer section = {0};
    uint64_t size;

    codec_input_start(run);
    codec_input_take_sections(run, transform->transform, transform->streams, false);
    run->size = UINT16_MAX;
    codec_decode_streams(run, transform, &section);
    size = section.size;
    if (transform->rest != 0 && size != run->size)
        size += parts_get(&run->parts, transform->rest).size;
    run->parts.fixed[2] = (uint8_t)size;
    run->parts.fixed[3] = (uint8_t)(size >> 8);
    run->parts.fixed[4] = (uint8_t)(size >> 16);
    names_free(&run->names);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    FREED_BY(buffer_free) struct buffer room = {0};
    struct codec_run run;
    size_t kind;

    parts_read(&run.parts, (struct bytes){data, size}, CODEC_FIXED);
    if (random_below(&random, 16) == 0)
        codec_input_mutate(&run.parts, DECODERS_KINDS, &random);
    else
        parts_mutate(&run.parts, 1, &random, &room);
    kind = run.parts.fixed[0] % DECODERS_KINDS;
    if (kinds[kind].run == run_streams && random_below(&random, 4) == 0)
        fit_size(&run, &codec_transforms[kinds[kind].number]);
    size = parts_write(&run.parts, data, size, most);
    return size;
}
