/*
 * Restoring the original from a sidecar and the stripped image: see sidecar.h.
 *
 * The inverse edit script says what to copy from the stripped image and what to take from the
 * sections, each in ascending order. So everything is processed as streams, and the memory needed
 * does not depend on the size of the image, only on that of the largest section in a compact form,
 * and of the symbol tables, if symbols went (edit/symbols.h); the records that these need are
 * listed while their section passes.
 */
#include "common/base/memory_limit.h"
#include "common/edit/edit.h"
#include "common/edit/symbols.h"
#include "common/elf_file/elf_file.h"
#include "common/sidecar/sidecar.h"

/* Bytes of the stripped image that go to the sink at a time, and of a mapped one that stay in
 * memory. */
#define PIECE_SIZE ((size_t)1 << 20)

/* *inverse reads what was appended to *encoded. */
static bool load_inverse(const struct sidecar *sidecar, struct buffer *encoded,
                         struct inverse *inverse, struct error *error)
{
    if (!sidecar_read_section(sidecar, &sidecar->inverse, encoded, error))
        return false;
    *inverse =
        inverse_open(buffer_view(encoded), sidecar->facts.stripped_size,
                     sidecar->facts.original_size, sidecar->sections, sidecar->section_count);
    return true;
}

struct restorer {
    const struct sidecar *sidecar;
    const struct input *stripped;
    bytes_sink sink;
    void *context;
    struct digest_stream digest; /* of the output so far */
    struct section_stream *streams[SECTION_KIND_MAX + 1];
    const struct section *covfun; /* with the records of symbols; NULL: no symbols went */
    struct record_list records;
    struct buffer tables; /* the symbol tables, once they are made */
    struct error *error;
};

static bool produce(void *context, struct bytes piece, struct error *error)
{
    struct restorer *restorer = context;

    if (piece.size == 0)
        return true;
    digest_stream_add(&restorer->digest, piece);
    return restorer->sink == NULL || restorer->sink(restorer->context, piece, error);
}

/* Produces a part of the stripped image, and releases its pages after use. */
static bool produce_stripped(struct restorer *restorer, uint64_t offset, uint64_t size)
{
    while (size != 0) {
        uint64_t part = size < PIECE_SIZE ? size : PIECE_SIZE;
        struct bytes piece;

        if (!bytes_slice(restorer->stripped->bytes, offset, part, &piece) ||
            !produce(restorer, piece, restorer->error))
            return false;
        input_release_pages(restorer->stripped, offset, part);
        offset += part;
        size -= part;
    }
    return true;
}

/* A bytes_sink: adds to the list of records. */
static bool list_records(void *context, struct bytes piece, struct error *error)
{
    struct restorer *restorer = context;

    return record_list_add(&restorer->records, piece) ||
           error_out_of_memory(error, restorer->sidecar->name, restorer->covfun->size);
}

static bool produce_records(void *context, struct bytes piece, struct error *error)
{
    return list_records(context, piece, error) && produce(context, piece, error);
}

/* Produces a part of a section. Its stream is opened at its first use and closed after its last
 * byte, because a stream needs a few MiB and sections are mostly used one after the other. */
static bool produce_section(struct restorer *restorer, const struct inverse_step *step)
{
    const struct section *section =
        sidecar_find(restorer->sidecar, (enum section_kind)step->source);
    struct section_stream **stream = &restorer->streams[step->source];
    bool is_listed = section == restorer->covfun && restorer->records.added == step->source_offset;

    if (*stream == NULL)
        *stream = section_stream_open(restorer->sidecar, section, restorer->error);
    /* inverse_next has checked the order. */
    if (*stream == NULL || !section_stream_pass(*stream, step->source_offset, step->insert,
                                                is_listed ? produce_records : produce, restorer))
        return false;
    if (step->source_offset + step->insert == section->size) {
        section_stream_close(*stream);
        *stream = NULL;
    }
    return true;
}

/* Starts the list of the records that symbols tell of, which takes less memory than these. */
static bool start_records(struct restorer *restorer)
{
    const struct sidecar *sidecar = restorer->sidecar;

    restorer->covfun = sidecar_find(sidecar, SECTION_LINKED_COVFUN);
    if (restorer->covfun == NULL)
        restorer->covfun = sidecar_find(sidecar, SECTION_COVFUN);
    record_list_start(&restorer->records, restorer->covfun == NULL ? 0 : restorer->covfun->size,
                      sidecar->facts.elf_data == ELFDATA2MSB);
    return memory_limit_allows(sidecar->memory_limit, restorer->records.size, sidecar->name,
                               "the section of the records", restorer->error);
}

/* Reads the records, if they have not all passed. */
static bool complete_records(struct restorer *restorer)
{
    if (restorer->records.added == restorer->records.size)
        return true;
    record_list_free(&restorer->records);
    return start_records(restorer) &&
           sidecar_stream_section(restorer->sidecar, restorer->covfun, list_records, restorer,
                                  restorer->error);
}

/* Produces a part of the symbol tables, which are made at its first use. */
static bool produce_tables(struct restorer *restorer, const struct inverse *inverse,
                           const struct inverse_step *step)
{
    const struct sidecar *sidecar = restorer->sidecar;
    const struct sidecar_facts *facts = &sidecar->facts;
    struct bytes part;
    bool done = true;

    if (restorer->tables.size == 0)
        done = complete_records(restorer) &&
               symbol_recipe_apply(inverse->recipe, elf_form_of(facts->elf_class, facts->elf_data),
                                   restorer->stripped->bytes, &restorer->records,
                                   sidecar->memory_limit, sidecar->name, &restorer->tables,
                                   restorer->error);
    return done &&
           bytes_slice(buffer_view(&restorer->tables), step->source_offset, step->insert, &part) &&
           produce(restorer, part, restorer->error);
}

static bool run_inverse(struct restorer *restorer)
{
    const struct sidecar *sidecar = restorer->sidecar;
    struct buffer encoded = {0};
    struct inverse inverse;
    struct inverse_step step;
    uint64_t position = 0;
    bool done = load_inverse(sidecar, &encoded, &inverse, restorer->error);

    done = done && (inverse.recipe.size == 0 || start_records(restorer));
    while (done && inverse_next(&inverse, &step)) {
        done = produce_stripped(restorer, position, step.keep);
        position += step.keep + step.drop;
        if (done && step.insert != 0)
            done = step.source == 0 ? produce(restorer, step.literals, restorer->error)
                   : step.source == INVERSE_TABLES ? produce_tables(restorer, &inverse, &step)
                                                   : produce_section(restorer, &step);
    }
    done = done && inverse_finish(&inverse, sidecar->name, restorer->error) &&
           produce_stripped(restorer, position, restorer->stripped->bytes.size - position);
    buffer_free(&encoded);
    return done;
}

bool sidecar_check_stripped(const struct sidecar *sidecar, const struct input *stripped,
                            bool *is_other, struct error *error)
{
    const struct sidecar_facts *facts = &sidecar->facts;
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX], uuid_text[UUID_HEX_MAX];
    struct digest found;

    *is_other = false;
    if (!sidecar_is_real(sidecar, error))
        return false;
    if (!input_digest(stripped, &found, error))
        return false;
    if (stripped->bytes.size == facts->stripped_size &&
        digest_equal(&found, &facts->stripped_digest))
        return true;
    *is_other = true;
    return error_set(error,
                     "%s: not the stripped image that %s belongs to: its digest is %s, but that of "
                     "the image of UUID %s is %s; give the image as the split wrote it, or its own "
                     "sidecar",
                     stripped->path, sidecar->name, digest_format(&found, found_text),
                     uuid_format(&facts->uuid, uuid_text),
                     digest_format(&facts->stripped_digest, wanted_text));
}

bool sidecar_restore(const struct sidecar *sidecar, const struct input *stripped, bytes_sink sink,
                     void *context, struct error *error)
{
    struct restorer restorer = {
        .sidecar = sidecar, .stripped = stripped, .sink = sink, .context = context, .error = error};
    const struct digest *wanted = &sidecar->facts.original_digest;
    char found_text[DIGEST_HEX_MAX], wanted_text[DIGEST_HEX_MAX];
    struct digest found;
    bool is_other, done;

    if (!sidecar_check_stripped(sidecar, stripped, &is_other, error))
        return false;
    digest_stream_start(&restorer.digest);
    done = run_inverse(&restorer);
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++)
        section_stream_close(restorer.streams[kind]);
    record_list_free(&restorer.records);
    buffer_free(&restorer.tables);
    if (done) {
        found = digest_stream_finish(&restorer.digest);
        done = digest_equal(&found, wanted) ||
               error_set(error,
                         "%s: the restored image has the digest %s, not that of the original, %s; "
                         "the sidecar is damaged, get an intact copy",
                         sidecar->name, digest_format(&found, found_text),
                         digest_format(wanted, wanted_text));
    }
    return done;
}

bool sidecar_verify(const struct sidecar *sidecar, struct error *error)
{
    struct buffer encoded = {0};
    struct inverse inverse;
    struct inverse_step step;
    bool done = true;

    for (size_t i = 0; done && i < sidecar->section_count; i++)
        done = sidecar->sections[i].form == 0 ||
               sidecar_stream_section(sidecar, &sidecar->sections[i], NULL, NULL, error);
    done = done && load_inverse(sidecar, &encoded, &inverse, error);
    while (done && inverse_next(&inverse, &step))
        ;
    done = done && inverse_finish(&inverse, sidecar->name, error);
    buffer_free(&encoded);
    return done;
}
