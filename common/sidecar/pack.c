/*
 * Packing sections: see pack.h.
 *
 * Names come first, then data, which needs them, then the coverage mapping, which needs both, then
 * the linked one, which needs that.
 */
#include "common/sidecar/pack.h"

#include <elf.h>

#include "common/codec/names/names.h"
#include "common/sidecar/sidecar.h"

/* Sections that others depend on come first. */
static const enum section_kind order[] = {
    SECTION_NAMES,  SECTION_COVNAMES, SECTION_DATA,          SECTION_COVDATA,
    SECTION_COVMAP, SECTION_COVFUN,   SECTION_LINKED_COVMAP, SECTION_LINKED_COVFUN};

#define ORDER_COUNT (sizeof(order) / sizeof(order[0]))

static bool is_names(enum section_kind kind)
{
    return kind == SECTION_NAMES || kind == SECTION_COVNAMES;
}

static const struct sidecar_section_source *find_source(const struct sidecar_source *source,
                                                        enum section_kind kind)
{
    for (size_t i = 0; i < source->section_count; i++) {
        if (source->sections[i].kind == kind)
            return &source->sections[i];
    }
    return NULL;
}

/* Reads the names from their packed form, as a reader will. Only the first names section counts. */
static bool take_names(struct sidecar_packed *packed, enum section_kind kind, uint64_t size,
                       struct transform_context *context, struct names *names, const char *name,
                       struct error *error)
{
    const struct packed stored = {.bytes = buffer_view(&packed->sections[kind].packed),
                                  .size = size,
                                  .name = name,
                                  .what = section_kind_name(kind)};

    if (context->names != NULL)
        return true;
    if (!names_decode(context, &stored, names, NULL, error))
        return false;
    context->names = names;
    return names_index(names, context->threads) ||
           error_out_of_memory(error, name, names->text.size);
}

/* Has the sections that are encoded after this one use it. */
static void take_section(const struct sidecar_section_source *section,
                         struct transform_context *context)
{
    const struct {
        enum section_kind kind;
        struct bytes *content;
    } used[] = {
        {SECTION_DATA, &context->data},
        {SECTION_COVMAP, &context->covmap},
        {SECTION_COVFUN, &context->covfun},
    };

    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        if (section->kind == used[i].kind)
            *used[i].content = section->content;
    }
}

static bool encode_section(struct sidecar_packed *packed,
                           const struct sidecar_section_source *section,
                           const struct codec_options *codec, struct transform_context *context,
                           struct names *names, const char *name, struct error *error)
{
    const struct transform *transform =
        transform_for(section->kind, section->content.size > context->block_size);
    bool fits;

    take_section(section, context);
    if (transform == NULL)
        return true;
    if (!codec_encode(transform, context, section->content, codec, name,
                      &packed->sections[section->kind].packed, &fits, error))
        return false;
    if (!fits)
        return true;
    packed->sections[section->kind].transform = transform;
    return !is_names(section->kind) ||
           take_names(packed, section->kind, section->content.size, context, names, name, error);
}

bool sidecar_pack(struct sidecar_packed *packed, const struct sidecar_source *source,
                  const struct sidecar_write_options *options, const char *name,
                  struct error *error)
{
    struct transform_context context = {
        .big_endian = source->facts.elf_data == ELFDATA2MSB,
        .pointer_size = (unsigned)source->facts.pointer_size,
        .raw_version = source->facts.raw_version,
        .block_size = options->block_size != 0 ? options->block_size : TRANSFORM_BLOCK_SIZE,
        .threads = options->threads,
    };
    struct codec_options codec = {.level = options->level, .threads = options->threads};
    struct names names = {0};
    bool done = true;

    for (size_t i = 0; done && i < ORDER_COUNT; i++) {
        const struct sidecar_section_source *section = find_source(source, order[i]);

        if (section != NULL && section->content.size != 0)
            done = encode_section(packed, section, &codec, &context, &names, name, error);
        if (done && section != NULL && options->proved != NULL &&
            packed->sections[order[i]].transform != NULL)
            options->proved->kinds[order[i]] = (struct proved_section){
                digest_of(buffer_view(&packed->sections[order[i]].packed)), section->content};
    }
    names_free(&names);
    return done;
}

void sidecar_packed_free(struct sidecar_packed *packed)
{
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&packed->sections[kind].packed);
}
