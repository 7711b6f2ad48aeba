/*
 * Fuzz target: each encoder of the codec. What it makes of anything, its decoder turns into the
 * same again, or else the encoder refuses. Inputs: codec_input.h.
 */
#include "common/base/inflate.h"
#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/names/names.h"
#include "common/codec/packed_units/packed_unit.h"
#include "tests/fuzz/codec_input.h"
#include "tests/fuzz/decoders.h"
#include "tests/fuzz/support.h"

/* ---- transforms ---- */

/* Packs a section, and unpacks it again. */
static void encode_and_compare(const struct codec_run *run, const struct transform *transform,
                               struct bytes section)
{
    const struct codec_options options = {.level = 1, .threads = 1};
    struct encoded made = {.size = section.size, .name = "input", .what = "the section"};
    FREED_BY(buffer_free) struct buffer encoded = {0}, again = {0};
    struct error error = {0};
    bool fits;

    FUZZ_EXPECT(
        codec_encode(transform, &run->context, section, &options, "input", &encoded, &fits, &error),
        "%s", error.message);
    made.bytes = buffer_view(&encoded);
    if (fits) {
        FUZZ_EXPECT(codec_decode(transform, &run->context, &made, &again, &error), "%s",
                    error.message);
        FUZZ_EXPECT(bytes_equal(section, buffer_view(&again)),
                    "what was encoded is decoded otherwise");
    }
}

static void run_section(struct codec_run *run, size_t number)
{
    codec_input_take_sections(run, codec_transforms[number].transform, 1, true);
    encode_and_compare(run, codec_transforms[number].transform, parts_get(&run->parts, 0));
}

/* Linked mapping, with the ordinary mapping that is made of it. */
static void run_linked(struct codec_run *run, size_t number)
{
    const struct mapping_sections linked = {parts_get(&run->parts, 0), parts_get(&run->parts, 1)};
    FREED_BY(buffer_free) struct buffer covmap = {0}, covfun = {0};
    struct error error = {0};

    (void)number;
    if (unpack_mapping(&linked, run->context.big_endian, CODEC_MEMORY_LIMIT, "input", &covmap,
                       &covfun, &error)) {
        run->context.covmap = buffer_view(&covmap);
        run->context.covfun = buffer_view(&covfun);
        encode_and_compare(run, &linked_covmap_transform, linked.covmap);
    }
}

static void run_blocks(struct codec_run *run, size_t number)
{
    (void)number;
    codec_input_take_sections(run, &mapping_transform, 1, true);
    run->context.block_size = 1 + run->size % 512;
    encode_and_compare(run, &mapping_blocks_transform, parts_get(&run->parts, 0));
}

/* ---- names ---- */

static void run_token_text(struct codec_run *run, size_t number)
{
    FREED_BY(buffer_free) struct buffer text = {0}, codes = {0}, dictionary = {0};
    FREED_BY(names_free) struct names names = {0};

    codec_copy(parts_get(&run->parts, 0), &text);
    if (text.size != 0) {
        text.data[text.size - 1] = NAME_SEPARATOR;
        if (token_text_encode(buffer_view(&text), (enum token_rule)number, &codes, &dictionary) ==
            RESULT_OK)
            FUZZ_EXPECT(token_text_decode(buffer_view(&codes), buffer_view(&dictionary), text.size,
                                          &names) == RESULT_OK &&
                            bytes_equal(buffer_view(&text), buffer_view(&names.text)),
                        "a text of tokens that does not come back");
    }
}

/* ---- zlib streams ---- */

static void check_inflates(const struct buffer *stream, struct bytes text)
{
    FREED_BY(buffer_free) struct buffer again = {0};

    FUZZ_EXPECT(inflate_exactly(buffer_view(stream), text.size, &again) == RESULT_OK &&
                    bytes_equal(text, buffer_view(&again)),
                "a zlib stream that does not inflate to its text");
}

static void run_quick(struct codec_run *run, size_t number)
{
    struct bytes text = parts_get(&run->parts, 0);
    FREED_BY(buffer_free) struct buffer stream = {0};

    (void)number;
    FUZZ_EXPECT(quick_compress(text, &stream) == RESULT_OK, "a text that cannot be compressed");
    check_inflates(&stream, text);
}

static void run_recompress(struct codec_run *run, size_t number)
{
    struct bytes text = parts_get(&run->parts, 0);
    enum zlib_form level = number == 0 ? ZLIB_FORM_DEFAULT : ZLIB_FORM_BEST, found;
    FREED_BY(buffer_free) struct buffer stream = {0};

    if (recompress(text, level, run->size, &stream) == RESULT_OK) {
        FUZZ_EXPECT(stream.size <= run->size, "a zlib stream larger than its limit");
        FUZZ_EXPECT(recompress_form(buffer_view(&stream), &found) && found == level,
                    "a zlib stream of another level");
        check_inflates(&stream, text);
    }
}

/* ---- the target ---- */

static const struct codec_kind kinds[ENCODERS_KINDS] = {
    [ENCODERS_SECTION] = {run_section, 0},
    {run_section, 1},
    {run_section, 2},
    {run_section, 3},
    {run_section, 4},
    {run_section, 5},
    [ENCODERS_BLOCKS] = {run_blocks, 0},
    [ENCODERS_LINKED] = {run_linked, 0},
    [ENCODERS_TOKENS_OF_NAMES] = {run_token_text, TOKENS_OF_NAMES},
    [ENCODERS_TOKENS_OF_WORDS] = {run_token_text, TOKENS_OF_WORDS},
    [ENCODERS_QUICK] = {run_quick, 0},
    [ENCODERS_RECOMPRESS] = {run_recompress, 0},
    [ENCODERS_RECOMPRESS_BEST] = {run_recompress, 1},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    codec_input_run(kinds, ENCODERS_KINDS, (struct bytes){data, size});
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct random_state random = random_start(seed);
    FREED_BY(buffer_free) struct buffer room = {0};
    struct parts parts;

    parts_read(&parts, (struct bytes){data, size}, CODEC_FIXED);
    if (random_below(&random, 16) == 0)
        codec_input_mutate(&parts, ENCODERS_KINDS, &random);
    else
        parts_mutate(&parts, 1, &random, &room);
    size = parts_write(&parts, data, size, most);
    return size;
}
