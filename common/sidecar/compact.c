/*
 * The compact codec in a sidecar: see sidecar/compact.h.
 *
 * Names come first, then data, which needs them, then the coverage mapping, which needs both. When
 * a section is read, only what it needs is decoded with it; of the names that is their text alone,
 * so that no zlib stream is ever made again for another section's sake.
 */
#include "common/sidecar/compact.h"

#include <stdlib.h>

#include "common/codec/names/chunks.h"
#include "common/llvm/names.h"

/* Those that others need first. */
static const enum section_kind order[] = {SECTION_NAMES,   SECTION_COVNAMES, SECTION_DATA,
                                          SECTION_COVDATA, SECTION_COVMAP,   SECTION_COVFUN};

#define ORDER_COUNT (sizeof(order) / sizeof(order[0]))

static struct transform_context context_of(const struct sidecar_facts *facts, unsigned threads,
                                           struct memo *memo)
{
    return (struct transform_context){.big_endian = facts->elf_data == ELFDATA2MSB,
                                      .pointer_size = (unsigned)facts->pointer_size,
                                      .raw_version = facts->raw_version,
                                      .threads = threads,
                                      .memo = memo};
}

static bool is_names(enum section_kind kind)
{
    return kind == SECTION_NAMES || kind == SECTION_COVNAMES;
}

/* ---- writing ---- */

static const struct sidecar_section_source *find_source(const struct sidecar_source *source,
                                                        enum section_kind kind)
{
    for (size_t i = 0; i < source->section_count; i++) {
        if (source->sections[i].kind == kind)
            return &source->sections[i];
    }
    return NULL;
}

/* Takes the names from their packed form, as a reader will. The first section of names counts. */
static bool take_names(struct sidecar_compact *compact, enum section_kind kind, uint64_t size,
                       struct transform_context *context, struct names *names, const char *name,
                       struct error *error)
{
    if (context->names != NULL)
        return true;
    if (!names_decode(context, buffer_view(&compact->sections[kind].packed), size, name,
                      section_kind_name(kind), names, NULL, error))
        return false;
    context->names = names;
    context->sources.names = digest_of(buffer_view(&compact->sections[kind].packed));
    return names_index(names, context->threads) ||
           error_out_of_memory(error, name, names->text.size);
}

static bool encode_section(struct sidecar_compact *compact,
                           const struct sidecar_section_source *section,
                           const struct codec_options *codec, struct transform_context *context,
                           struct names *names, const char *name, struct error *error)
{
    const struct transform *transform =
        transform_for(section->kind, section->content.size > context->block_size);
    bool fits;

    if (section->kind == SECTION_DATA) {
        context->data = section->content;
        context->sources.data = digest_of(section->content);
    }
    if (transform == NULL)
        return true;
    if (!codec_encode(transform, context, section->content, codec, name,
                      &compact->sections[section->kind].packed, &fits, error))
        return false;
    if (!fits)
        return true;
    compact->sections[section->kind].transform = transform;
    return !is_names(section->kind) ||
           take_names(compact, section->kind, section->content.size, context, names, name, error);
}

bool sidecar_compact_encode(struct sidecar_compact *compact, const struct sidecar_source *source,
                            const struct sidecar_write_options *options, const char *name,
                            struct error *error)
{
    struct transform_context context = context_of(&source->facts, options->threads, options->memo);
    struct codec_options codec = {.level = options->level, .threads = options->threads};
    struct names names = {0};
    bool done = true;

    context.block_size = options->block_size != 0 ? options->block_size : TRANSFORM_BLOCK_SIZE;
    for (size_t i = 0; done && i < ORDER_COUNT; i++) {
        const struct sidecar_section_source *section = find_source(source, order[i]);

        if (section != NULL && section->content.size != 0)
            done = encode_section(compact, section, &codec, &context, &names, name, error);
    }
    names_free(&names);
    return done;
}

void sidecar_compact_free(struct sidecar_compact *compact)
{
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++)
        buffer_free(&compact->sections[kind].packed);
}

/* ---- reading ---- */

static const struct sidecar_content *content_of_kind(const struct sidecar *sidecar,
                                                     enum section_kind kind)
{
    const struct sidecar_section *section = sidecar_find(sidecar, kind);

    return section == NULL || !section->has_content
               ? NULL
               : &sidecar->contents[section - sidecar->sections];
}

/* The section whose names the others need; NULL: there is none. */
static const struct sidecar_content *names_content(const struct sidecar *sidecar)
{
    const struct sidecar_content *content = content_of_kind(sidecar, SECTION_NAMES);

    if (content == NULL || content->transform == NULL)
        content = content_of_kind(sidecar, SECTION_COVNAMES);
    return content == NULL || content->transform == NULL ? NULL : content;
}

void sidecar_references_free(struct sidecar_references *references)
{
    struct names *known;

    if (references == NULL)
        return;
    known = atomic_load(&references->known);
    if (known != NULL)
        names_free(known);
    free(known);
    free(references);
}

/* Keeps the NameRefs of the names that others need, which they are taken from. */
static bool keep_references(const struct sidecar *sidecar, struct names *names, struct error *error)
{
    struct names *kept, *known = atomic_load(&sidecar->references->known);

    if (known != NULL)
        return true;
    kept = calloc(1, sizeof(*kept));
    if (kept == NULL || !names_hash(names, sidecar->threads)) {
        free(kept);
        return error_out_of_memory(error, sidecar->name, names->text.size);
    }
    kept->references = names->references;
    kept->count = names->count;
    names->references = NULL;
    /* Another thread may have been faster. */
    if (!atomic_compare_exchange_strong(&sidecar->references->known, &known, kept)) {
        names_free(kept);
        free(kept);
    }
    return true;
}

/* The names that others need, without their text. */
static bool load_names(const struct sidecar *sidecar, struct transform_context *context,
                       struct error *error)
{
    const struct sidecar_content *content = names_content(sidecar);
    struct names names;
    bool done = true;

    if (content == NULL)
        return true;
    if (atomic_load(&sidecar->references->known) == NULL) {
        done = names_decode(context, content->frame, content->size, sidecar->name, content->what,
                            &names, NULL, error) &&
               keep_references(sidecar, &names, error);
        names_free(&names);
    }
    context->names = atomic_load(&sidecar->references->known);
    return done;
}

static bool load_data(const struct sidecar *sidecar, struct transform_context *context,
                      struct buffer *data, struct error *error)
{
    const struct sidecar_content *content = content_of_kind(sidecar, SECTION_DATA);
    bool done;

    if (content == NULL)
        return true;
    /* What needs data has the names already that data needs. */
    if (content->transform != NULL && context->names != NULL)
        done = codec_decode(content->transform, context, content->frame, content->size,
                            sidecar->name, content->what, data, error) &&
               sidecar_content_check(sidecar, content, buffer_view(data), error);
    else
        done = sidecar_content_load(sidecar, content, data, error);
    if (!done)
        return false;
    context->data = buffer_view(data);
    return true;
}

static struct transform_context reader_context(const struct sidecar *sidecar)
{
    const struct sidecar_content *names = names_content(sidecar);
    const struct sidecar_content *data = content_of_kind(sidecar, SECTION_DATA);
    struct transform_context context =
        context_of(&sidecar->notes.facts, sidecar->threads, sidecar->memo);

    context.memory_limit = sidecar->memory_limit;
    if (context.memo != NULL && names != NULL)
        context.sources.names = digest_of(names->frame);
    /* Of what load_data loads, this is checked. */
    if (data != NULL)
        context.sources.data = data->digest;
    return context;
}

bool sidecar_compact_reader_open(struct sidecar_compact_reader *reader,
                                 const struct sidecar *sidecar,
                                 const struct sidecar_content *content, struct error *error)
{
    *reader = (struct sidecar_compact_reader){.context = reader_context(sidecar)};
    return (!content->transform->needs_names || load_names(sidecar, &reader->context, error)) &&
           (!content->transform->needs_data ||
            load_data(sidecar, &reader->context, &reader->data, error));
}

void sidecar_compact_reader_free(struct sidecar_compact_reader *reader)
{
    buffer_free(&reader->data);
}

/* What the memo knows needs no names. *found is false where it does not. */
static bool recall(const struct sidecar *sidecar, const struct sidecar_content *content,
                   struct buffer *loaded, bool *found, struct error *error)
{
    struct transform_context context = reader_context(sidecar);
    struct buffer data = {0};
    bool done = (!content->transform->needs_data || load_data(sidecar, &context, &data, error)) &&
                codec_recall(content->transform, &context, content->frame, content->size,
                             sidecar->name, content->what, loaded, found, error);

    buffer_free(&data);
    return done;
}

static bool decode(const struct sidecar *sidecar, const struct sidecar_content *content,
                   struct buffer *loaded, struct error *error)
{
    struct sidecar_compact_reader reader;
    bool done = sidecar_compact_reader_open(&reader, sidecar, content, error) &&
                codec_decode(content->transform, &reader.context, content->frame, content->size,
                             sidecar->name, content->what, loaded, error);

    sidecar_compact_reader_free(&reader);
    return done;
}

bool sidecar_compact_load(const struct sidecar *sidecar, const struct sidecar_content *content,
                          struct buffer *loaded, struct error *error)
{
    bool found = false;

    if (sidecar->memo != NULL && !recall(sidecar, content, loaded, &found, error))
        return false;
    return found || decode(sidecar, content, loaded, error);
}

/* *taken is false where that does not give all names, or an empty one, which is none. */
static bool take_distinct(const struct sidecar *sidecar, const struct sidecar_content *content,
                          bool for_others, struct names *set, bool *taken, struct error *error)
{
    const struct transform_context context = {.memory_limit = sidecar->memory_limit};
    struct names names;
    bool done = names_decode(&context, content->frame, content->size, sidecar->name, content->what,
                             &names, taken, error);

    if (done && for_others && content == names_content(sidecar))
        done = keep_references(sidecar, &names, error);
    for (size_t i = 0; *taken && i < names.count; i++)
        *taken = names_get(&names, i).size != 0;
    if (done && *taken) {
        *set = names;
        names = (struct names){0};
    }
    names_free(&names);
    return done;
}

bool sidecar_read_names(const struct sidecar *sidecar, const struct sidecar_section *section,
                        bool for_others, struct names *set, struct error *error)
{
    const struct sidecar_content *content = content_of_kind(sidecar, section->kind);
    struct buffer loaded = {0};
    bool taken = false;
    bool done = content == NULL || content->transform == NULL ||
                take_distinct(sidecar, content, for_others, set, &taken, error);

    if (done && !taken)
        done = sidecar_read_section(sidecar, section, &loaded, error) &&
               names_add_section(set, buffer_view(&loaded), sidecar->memory_limit, sidecar->name,
                                 error);
    buffer_free(&loaded);
    return done;
}
