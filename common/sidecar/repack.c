/*
 * Repacking sidecars: see repack.h.
 *
 * A sidecar has all that a split gives to write.h: the facts, the sections and the inverse edit
 * script. So writing that again gives the bytes of the split. The image is not needed for the
 * proof: if the facts and all contents are the same, joining gives what it gave before.
 */
#include "common/sidecar/repack.h"

#include "common/sidecar/content.h"

/* What is written, taken out of a sidecar. */
struct unpacked {
    struct sidecar_section_source sections[SECTION_KIND_MAX];
    struct buffer contents[SECTION_KIND_MAX]; /* of the section of the same index */
    struct buffer inverse;
};

/* ---- looking ---- */

bool sidecar_is_compact(const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->contents[i].transform != NULL)
            return true;
    }
    return false;
}

static bool is_same_section(const struct sidecar_section *a, const struct sidecar_section *b)
{
    return a->kind == b->kind && a->address == b->address && a->alignment == b->alignment &&
           a->size == b->size && a->has_content == b->has_content && a->copied == b->copied &&
           (!a->has_content || digest_equal(&a->digest, &b->digest));
}

static bool are_same_facts(const struct sidecar_facts *a, const struct sidecar_facts *b)
{
    return a->format == b->format && a->elf_class == b->elf_class && a->elf_data == b->elf_data &&
           a->elf_type == b->elf_type && a->machine == b->machine &&
           a->pointer_size == b->pointer_size && a->raw_version == b->raw_version &&
           uuid_equal(&a->uuid, &b->uuid) && a->uuid_source == b->uuid_source &&
           a->original_size == b->original_size && a->stripped_size == b->stripped_size &&
           digest_equal(&a->original_digest, &b->original_digest) &&
           digest_equal(&a->stripped_digest, &b->stripped_digest) && a->has_stub == b->has_stub &&
           a->is_placeholder == b->is_placeholder && a->is_inexact == b->is_inexact;
}

bool sidecar_holds_same(const struct sidecar *one, const struct sidecar *other)
{
    if (!are_same_facts(sidecar_facts(one), sidecar_facts(other)) ||
        one->section_count != other->section_count ||
        one->inverse.packed.size != other->inverse.packed.size ||
        !digest_equal(&one->inverse.digest, &other->inverse.digest))
        return false;
    for (size_t i = 0; i < one->section_count; i++) {
        if (!is_same_section(&one->sections[i], &other->sections[i]))
            return false;
    }
    return true;
}

/* ---- unpacking ---- */

static bool unpack(struct unpacked *unpacked, const struct sidecar *sidecar, struct error *error)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        const struct sidecar_section *section = &sidecar->sections[i];
        struct buffer *content = &unpacked->contents[i];

        if (section->has_content && !sidecar_read_section(sidecar, section, content, error))
            return false;
        unpacked->sections[i] = (struct sidecar_section_source){
            .kind = section->kind,
            .address = section->address,
            .alignment = section->alignment,
            .size = section->size,
            .content = buffer_view(content),
            .copied = section->copied,
        };
    }
    return content_load(sidecar, &sidecar->inverse, &unpacked->inverse, error);
}

static void unpacked_free(struct unpacked *unpacked)
{
    for (size_t i = 0; i < SECTION_KIND_MAX; i++)
        buffer_free(&unpacked->contents[i]);
    buffer_free(&unpacked->inverse);
}

/* ---- packing ---- */

static bool check(const struct sidecar *sidecar, struct sidecar *written, unsigned threads,
                  const struct proved_sections *proved, struct error *error)
{
    sidecar_limit_memory(written, UINT64_MAX); /* what is in it has been in memory */
    sidecar_help_restore(written, threads, proved);
    if (!sidecar_holds_same(sidecar, written))
        return error_set(error, "%s: does not come out as it was; it stays as it is",
                         sidecar->name);
    return sidecar_verify(written, error);
}

static bool check_output(const struct sidecar *sidecar, struct output *output, unsigned threads,
                         const struct proved_sections *proved, struct error *error)
{
    struct input input = {.fd = -1};
    struct sidecar *written = NULL;
    bool done = output_map(output, &input, error);

    if (done)
        written = sidecar_open(input.bytes, output->path, error);
    done = written != NULL && check(sidecar, written, threads, proved, error);
    sidecar_close(written);
    input_close(&input);
    return done;
}

bool sidecar_repack(const struct sidecar *sidecar, const struct sidecar_write_options *options,
                    struct output *output, struct error *error)
{
    struct unpacked unpacked = {.inverse = {0}};
    struct sidecar_source source = {
        .facts = *sidecar_facts(sidecar),
        .image_name = sidecar_image_name(sidecar),
        .sections = unpacked.sections,
        .section_count = sidecar->section_count,
        .kept = sidecar->notes.kept,
        .kept_count = sidecar->notes.kept_count,
    };
    struct sidecar_write_options proving = *options;
    struct proved_sections proved = {0};
    bool done = unpack(&unpacked, sidecar, error);

    proving.proved = &proved;
    source.inverse = buffer_view(&unpacked.inverse);
    done = done && sidecar_write(&source, &proving, output, error) &&
           check_output(sidecar, output, options->threads, &proved, error);
    unpacked_free(&unpacked);
    return done;
}
