/*
 * Makes seeds for the targets `decoders` and `encoders` of what sidecars hold.
 *
 * Usage: fuzz_codec_seeds DIRECTORY PREFIX SIDECAR
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/codec.h"
#include "common/codec/deflate/deflate.h"
#include "common/codec/names/names.h"
#include "common/llvm/coverage.h"
#include "common/sidecar/sidecar.h"
#include "tests/fuzz/codec_input.h"
#include "tests/fuzz/decoders.h"
#include "tests/support/freed.h"

DEFINE_DROP(drop_sidecar, struct sidecar, sidecar_close)

/* What the sections of a sidecar are, by the numbers of the transforms. */
struct contents {
    struct buffer section[CODEC_TRANSFORMS];
    struct buffer names; /* the text of the distinct ones */
    struct names indexed;
    struct transform_context context;
    uint8_t shape;
};

struct seeds {
    const char *directory, *prefix;
    struct contents contents;
    unsigned number;
};

static void stop(const char *what)
{
    fprintf(stderr, "fuzz_codec_seeds: %s\n", what);
    exit(1);
}

static void need(bool done)
{
    if (!done)
        stop("out of memory, or a damaged sidecar");
}

/* ---- writing seeds ---- */

static void write_seed(struct seeds *seeds, const char *target, const struct parts *parts)
{
    static uint8_t bytes[1 << 20];
    size_t size = parts_write(parts, bytes, 0, sizeof(bytes));
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s/%s-%u", seeds->directory, target, seeds->prefix,
             seeds->number++);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        stop(path);
}

static struct parts start(const struct seeds *seeds, unsigned kind, uint64_t size)
{
    return (struct parts){.fixed = {(uint8_t)kind, seeds->contents.shape, (uint8_t)size,
                                    (uint8_t)(size >> 8), (uint8_t)(size >> 16)},
                          .fixed_size = CODEC_FIXED};
}

static void add(struct parts *parts, struct bytes part)
{
    if (parts->count < PARTS_MAX)
        parts->part[parts->count++] = part;
}

/* Adds the sections that the transform may use. */
static void add_sections(struct parts *parts, const struct contents *contents,
                         const struct transform *transform)
{
    if (transform->needs_names || transform->needs_mapping)
        add(parts, transform->needs_names ? buffer_view(&contents->names) : (struct bytes){0});
    if (transform->needs_data || transform->needs_mapping)
        add(parts, transform->needs_data ? buffer_view(&contents->section[1]) : (struct bytes){0});
    if (transform->needs_mapping) {
        add(parts, buffer_view(&contents->section[2]));
        add(parts, buffer_view(&contents->section[3]));
    }
}

static void write_parts(struct seeds *seeds, const char *target, unsigned kind, uint64_t size,
                        struct bytes first, struct bytes second)
{
    struct parts parts = start(seeds, kind, size);

    add(&parts, first);
    add(&parts, second);
    write_seed(seeds, target, &parts);
}

/* ---- seeds of transforms ---- */

static void write_encoded(struct seeds *seeds, unsigned kind, const struct transform *transform,
                          struct bytes section)
{
    const struct codec_options options = {.level = 3, .threads = 1};
    struct parts parts = start(seeds, kind, section.size);
    FREED_BY(buffer_free) struct buffer encoded = {0};
    struct error error;
    bool fits;

    need(codec_encode(transform, &seeds->contents.context, section, &options, "seed", &encoded,
                      &fits, &error));
    if (fits) {
        add(&parts, buffer_view(&encoded));
        add_sections(&parts, &seeds->contents,
                     transform->block != NULL ? transform->block : transform);
        write_seed(seeds, "decoders", &parts);
        if (transform == &names_transform) {
            parts.fixed[0] = DECODERS_NAMES_ALONE;
            write_seed(seeds, "decoders", &parts);
        }
    }
}

static void write_transform(struct seeds *seeds, unsigned number)
{
    const struct transform *transform = codec_transforms[number].transform;
    struct bytes section = buffer_view(&seeds->contents.section[number]);
    struct parts of_streams = start(seeds, DECODERS_STREAMS + number, section.size);
    struct parts of_section = start(seeds, ENCODERS_SECTION + number, 0);
    struct streams streams = {0};

    add(&of_section, section);
    add_sections(&of_section, &seeds->contents, transform);
    write_seed(seeds, "encoders", &of_section);
    if (transform->encode(&seeds->contents.context, section, &streams) == RESULT_OK) {
        for (size_t i = 0; i < streams.count; i++)
            add(&of_streams, buffer_view(&streams.stream[i]));
        add_sections(&of_streams, &seeds->contents, transform);
        write_seed(seeds, "decoders", &of_streams);
    }
    streams_free(&streams);
    write_encoded(seeds, DECODERS_ENCODED + number, transform, section);
}

static void write_blocks(struct seeds *seeds)
{
    struct bytes section = buffer_view(&seeds->contents.section[3]);
    struct parts parts = start(seeds, ENCODERS_BLOCKS, 200);

    seeds->contents.context.block_size = 200;
    add(&parts, section);
    add_sections(&parts, &seeds->contents, &mapping_transform);
    write_seed(seeds, "encoders", &parts);
    write_encoded(seeds, DECODERS_ENCODED_BLOCKS, &mapping_blocks_transform, section);
}

/* ---- other seeds ---- */

static void write_names(struct seeds *seeds)
{
    struct bytes text = buffer_view(&seeds->contents.names), none = {0};
    FREED_BY(buffer_free) struct buffer codes = {0}, dictionary = {0}, stream = {0};

    for (unsigned i = 0; i < 2; i++) {
        write_parts(seeds, "encoders", ENCODERS_TOKENS_OF_NAMES + i, 0, text, none);
        codes.size = dictionary.size = 0;
        if (token_text_encode(text, (enum token_rule)i, &codes, &dictionary) == RESULT_OK)
            write_parts(seeds, "decoders", DECODERS_TOKEN_TEXT, text.size, buffer_view(&codes),
                        buffer_view(&dictionary));
    }
    for (unsigned kind = ENCODERS_QUICK; kind < ENCODERS_KINDS; kind++)
        write_parts(seeds, "encoders", kind, text.size, text, none);
    need(recompress(text, ZLIB_FORM_DEFAULT, UINT64_MAX, &stream) == RESULT_OK);
    write_parts(seeds, "decoders", DECODERS_INFLATE, text.size, buffer_view(&stream), none);
    write_parts(seeds, "decoders", DECODERS_NAME_CHUNKS, 0,
                buffer_view(&seeds->contents.section[0]), none);
}

static void write_mapping(struct seeds *seeds)
{
    struct bytes covmap = buffer_view(&seeds->contents.section[2]);
    struct bytes rest = buffer_view(&seeds->contents.section[3]), none = {0};
    struct covfun_record record;

    write_parts(seeds, "decoders", DECODERS_UNITS, 0, covmap, rest);
    while (covfun_take(&rest, seeds->contents.context.big_endian, &record))
        write_parts(seeds, "decoders", DECODERS_MAPPING, 0, record.mapping, none);
}

static void write_linked(struct seeds *seeds)
{
    struct bytes covmap = buffer_view(&seeds->contents.section[4]);
    struct bytes covfun = buffer_view(&seeds->contents.section[5]), none = {0};

    write_parts(seeds, "decoders", DECODERS_UNPACK, 0, covmap, covfun);
    write_parts(seeds, "decoders", DECODERS_PACKED_UNIT, 0, covmap, none);
    write_parts(seeds, "encoders", ENCODERS_LINKED, 0, covmap, covfun);
}

/* ---- reading ---- */

static bool read_kind(const struct sidecar *sidecar, enum section_kind kind, struct buffer *to)
{
    const struct section *section = sidecar_find(sidecar, kind);
    struct error error = {0};

    if (section == NULL)
        return false;
    if (!sidecar_read_section(sidecar, section, to, &error))
        stop(error.message);
    return true;
}

static void read_contents(const struct sidecar *sidecar, struct contents *contents)
{
    static const enum section_kind kinds[CODEC_TRANSFORMS][2] = {
        {SECTION_NAMES, SECTION_COVNAMES}, {SECTION_DATA, SECTION_COVDATA},
        {SECTION_COVMAP, SECTION_COVMAP},  {SECTION_COVFUN, SECTION_COVFUN},
        {SECTION_LINKED_COVMAP, 0},        {SECTION_LINKED_COVFUN, 0},
    };
    const struct sidecar_facts *facts = &sidecar->facts;
    struct error error = {0};
    struct buffer text = {0};
    struct names names = {0};

    for (size_t i = 0; i < CODEC_TRANSFORMS; i++) {
        if (!read_kind(sidecar, kinds[i][0], &contents->section[i]))
            read_kind(sidecar, kinds[i][1], &contents->section[i]);
    }
    need(names_add_section(&names, buffer_view(&contents->section[0]), 0, "seed", &error));
    codec_copy(buffer_view(&names.text), &contents->names);
    codec_copy(buffer_view(&names.text), &text);
    names_free(&names);
    need(names_take_text(&contents->indexed, &text) == RESULT_OK &&
         names_index(&contents->indexed, 1));
    contents->context = (struct transform_context){
        .big_endian = facts->elf_data == ELFDATA2MSB,
        .pointer_size = (unsigned)facts->pointer_size,
        .raw_version = facts->raw_version,
        .names = &contents->indexed,
        .data = buffer_view(&contents->section[1]),
        .covmap = buffer_view(&contents->section[2]),
        .covfun = buffer_view(&contents->section[3]),
        .block_size = TRANSFORM_BLOCK_SIZE,
        .threads = 1,
    };
}

static void free_contents(struct contents *contents)
{
    for (size_t i = 0; i < CODEC_TRANSFORMS; i++)
        buffer_free(&contents->section[i]);
    buffer_free(&contents->names);
    names_free(&contents->indexed);
}

/* The bits by which inputs tell the image (codec_input.c). */
static uint8_t shape_of(const struct transform_context *context)
{
    static const uint8_t versions[] = {[7] = 2, [8] = 1, [9] = 3, [10] = 0, [11] = 4};
    unsigned version = (unsigned)(context->raw_version & 0xff);

    return (uint8_t)((context->big_endian ? 1 : 0) | (context->pointer_size == 4 ? 2 : 0) |
                     (version >= 7 && version <= 11 ? versions[version] << 2 : 0));
}

int main(int argument_count, char **arguments)
{
    struct seeds seeds = {0};
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;

    if (argument_count != 4)
        stop("DIRECTORY PREFIX SIDECAR");
    seeds.directory = arguments[1];
    seeds.prefix = arguments[2];
    sidecar = sidecar_read(arguments[3], &error);
    if (sidecar == NULL)
        stop(error.message);
    read_contents(sidecar, &seeds.contents);
    seeds.contents.shape = shape_of(&seeds.contents.context);
    for (unsigned i = 0; i < CODEC_TRANSFORMS; i++) {
        if (seeds.contents.section[i].size != 0)
            write_transform(&seeds, i);
    }
    write_blocks(&seeds);
    write_names(&seeds);
    write_mapping(&seeds);
    if (seeds.contents.section[4].size != 0)
        write_linked(&seeds);
    free_contents(&seeds.contents);
    return 0;
}
