/*
 * The facts of a sidecar: their layout in the note, and what follows from them: see sidecar.h.
 */
#include <elf.h>
#include <stdlib.h>

#include "common/sidecar/sidecar.h"

/* ---- the note ---- */

/* Flags of a section that is stored. */
#define NOTE_SECTION_COPY 1u

struct note {
    struct sidecar *sidecar;
    struct coder *coder;
    struct error *error;
};

static bool note_damaged(const struct note *note, const char *how)
{
    return error_set(note->error, "%s: the sidecar's notes are damaged (%s); get an intact copy",
                     note->sidecar->name, how);
}

static void code_digest(const struct note *note, struct digest *digest)
{
    code_bytes(note->coder, digest->bytes, DIGEST_SIZE);
}

/* A text and its size in front; false if it is no text. */
static bool code_text(const struct note *note, const char **text)
{
    struct coder *coder = note->coder;
    uint64_t size = code_uleb128(coder, coder->to != NULL ? strlen(*text) : 0);
    struct bytes bytes;

    if (coder->to != NULL) {
        buffer_append(coder->to, *text, (size_t)size);
        return true;
    }
    bytes = cursor_bytes(&coder->from, size);
    if (bytes.size != 0 && memchr(bytes.data, '\0', (size_t)bytes.size) != NULL)
        return note_damaged(note, "a text contains a NUL");
    *text = arena_copy(&note->sidecar->memory, bytes);
    return *text != NULL || error_out_of_memory(note->error, note->sidecar->name, bytes.size + 1);
}

/* What is told of image and sidecar. */
static bool code_facts(const struct note *note)
{
    struct coder *coder = note->coder;
    struct sidecar_facts *facts = &note->sidecar->facts;
    struct sidecar_base *base = &note->sidecar->base;
    bool has_records = !bytes_all_zero((struct bytes){facts->records.bytes, DIGEST_SIZE});
    bool *const flags[] = {&facts->has_stub, &facts->is_placeholder, &has_records, &base->is_needed,
                           &facts->is_assumed}; /* the lowest bit first */
    uint64_t bits = 0, format, source;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        bits |= (uint64_t)*flags[i] << i;
    bits = code_uleb128(coder, bits);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        *flags[i] = (bits >> i & 1) != 0;
    format = code_uleb128(coder, facts->format);
    source = code_uleb128(coder, facts->uuid_source);
    if (format < IMAGE_ELF || format > IMAGE_COFF || source < UUID_FROM_BUILD_ID ||
        source > UUID_FROM_DIGEST)
        return note_damaged(note, "they hold an unknown number");
    facts->format = (enum image_format)format;
    facts->uuid_source = (enum uuid_source)source;
    facts->raw_version = code_uleb128(coder, facts->raw_version);
    facts->original_size = code_uleb128(coder, facts->original_size);
    code_digest(note, &facts->original_digest);
    facts->stripped_size = code_uleb128(coder, facts->stripped_size);
    code_digest(note, &facts->stripped_digest);
    if (facts->has_stub)
        code_bytes(coder, facts->stub_id, PROFILE_STUB_ID_SIZE);
    if (has_records)
        code_digest(note, &facts->records);
    facts->record_change = code_uleb128(coder, facts->record_change);
    if (base->is_needed) {
        code_digest(note, &base->digest);
        base->size = code_uleb128(coder, base->size);
        base->whole_size = code_uleb128(coder, base->whole_size);
    }
    return code_text(note, &note->sidecar->image_name);
}

/* The sections, of which those with contents get the rest from the file's, and the digest of the
 * inverse script. */
static bool code_sections(const struct note *note)
{
    struct coder *coder = note->coder;
    struct sidecar *sidecar = note->sidecar;
    uint64_t count = code_uleb128(coder, sidecar->section_count);

    if (count > SECTION_KIND_MAX)
        return note_damaged(note, "there are too many sections");
    sidecar->section_count = 0;
    while (sidecar->section_count < count) {
        struct section *section = &sidecar->sections[sidecar->section_count];
        uint64_t kind = code_uleb128(coder, section->kind);

        if (kind == 0 || kind > SECTION_KIND_MAX ||
            sidecar_find(sidecar, (enum section_kind)kind) != NULL)
            return note_damaged(note, "a section is unknown, or occurs twice");
        section->kind = (enum section_kind)kind;
        section->name = section_kind_name(section->kind);
        if (section_is_stored(section)) {
            uint64_t flags =
                code_uleb128(coder, section->fate == FATE_COPIED ? NOTE_SECTION_COPY : 0);

            section->fate = (flags & NOTE_SECTION_COPY) != 0 ? FATE_COPIED : FATE_REMOVED;
            code_digest(note, &section->digest);
        } else {
            section->address = code_uleb128(coder, section->address);
            section->size = code_uleb128(coder, section->size);
            section->alignment = code_uleb128(coder, section->alignment);
        }
        sidecar->section_count++;
    }
    code_digest(note, &sidecar->inverse.digest);
    return true;
}

static bool code_kept(const struct note *note)
{
    struct sidecar *sidecar = note->sidecar;
    uint64_t count = code_uleb128(note->coder, sidecar->kept_count);

    if (count > SECTION_KIND_MAX)
        return note_damaged(note, "too many sections were kept");
    sidecar->kept_count = (size_t)count;
    for (size_t i = 0; i < count; i++) {
        struct section *kept = &sidecar->kept[i];
        uint64_t kind = code_uleb128(note->coder, kept->kind);

        if (kind == 0 || kind > SECTION_KIND_MAX)
            return note_damaged(note, "a section that was kept is unknown");
        kept->kind = (enum section_kind)kind;
        kept->size = code_uleb128(note->coder, kept->size);
        if (!code_text(note, &kept->reason))
            return false;
    }
    return true;
}

bool sidecar_code_note(struct sidecar *sidecar, struct coder *coder, struct error *error)
{
    const struct note note = {sidecar, coder, error};

    return code_facts(&note) && code_sections(&note) && code_kept(&note) &&
           (coder->to != NULL || cursor_finished(&coder->from) ||
            note_damaged(&note, "a note has a wrong size"));
}

/* ---- properties ---- */

const char *image_format_name(enum image_format format)
{
    static const char *const names[] = {"unknown", "ELF", "Mach-O", "COFF"};

    return names[format <= IMAGE_COFF ? format : 0];
}

const char *uuid_source_name(enum uuid_source source)
{
    static const char *const names[] = {"unknown", "build ID", "--uuid", "digest of the image"};

    return names[source <= UUID_FROM_DIGEST ? source : 0];
}

const char *uuid_link_advice(enum image_format format)
{
    switch (format) {
    case IMAGE_MACHO:
        return "with -random_uuid, and not -no_uuid";
    case IMAGE_COFF:
        return "with /build-id or /debug (mingw-w64: --build-id)";
    default:
        return "with --build-id=sha1";
    }
}

static struct digest digest_of_digests(const struct digest sections[STUB_KIND_COUNT])
{
    return digest_of(
        (struct bytes){(const uint8_t *)sections, STUB_KIND_COUNT * sizeof(*sections)});
}

void facts_make_stub_id(uint8_t stub_id[PROFILE_STUB_ID_SIZE], const struct uuid *uuid,
                        const struct digest sections[STUB_KIND_COUNT])
{
    struct digest all = digest_of_digests(sections);

    uuid_stub(uuid, stub_id);
    memcpy(stub_id + UUID_STUB_SIZE, all.bytes, PROFILE_STUB_ID_SIZE - UUID_STUB_SIZE);
}

uint64_t facts_make_record_change(const struct digest sections[STUB_KIND_COUNT])
{
    struct digest all = digest_of_digests(sections);
    uint64_t change = load_u64(all.bytes, true);

    return change != 0 ? change : 1;
}

bool sidecar_damaged(const struct sidecar *sidecar, const char *how, struct error *error)
{
    return error_set(error, "%s: the sidecar is damaged (%s); get an intact copy", sidecar->name,
                     how);
}

bool sidecar_stub_agrees(const struct sidecar *sidecar, bool *are_all)
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;
    const struct sidecar_facts *facts = &sidecar->facts;
    uint8_t expected[PROFILE_STUB_ID_SIZE];
    struct digest digests[STUB_KIND_COUNT];

    *are_all = true;
    for (size_t i = 0; i < STUB_KIND_COUNT; i++) {
        const struct section *section = sidecar_find(sidecar, kinds[i]);

        digests[i] = section != NULL ? section->digest : digest_of((struct bytes){NULL, 0});
        *are_all = *are_all && section != NULL;
    }
    facts_make_stub_id(expected, &facts->uuid, digests);
    return memcmp(expected, facts->stub_id, sizeof(expected)) == 0;
}

bool sidecar_is_real(const struct sidecar *sidecar, struct error *error)
{
    return !sidecar->facts.is_placeholder ||
           error_set(error,
                     "%s: a placeholder: stands in for the sidecar of an image that had been split "
                     "before, and holds nothing of it; give the sidecar of the first split",
                     sidecar->name);
}

bool sidecar_holds_nothing(const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].stored_size != 0)
            return false;
    }
    return true;
}

enum sidecar_mapping sidecar_mapping(const struct sidecar *sidecar)
{
    const unsigned mapping = SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_COVFUN);
    const unsigned names = SECTION_BIT(SECTION_NAMES) | SECTION_BIT(SECTION_COVNAMES);
    unsigned here = 0, kept = 0;

    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].size != 0)
            here |= SECTION_BIT(sidecar->sections[i].kind);
    }
    for (size_t i = 0; i < sidecar->kept_count; i++)
        kept |= SECTION_BIT(sidecar->kept[i].kind);
    if ((here & mapping) == mapping && (here & names) != 0)
        return MAPPING_IS_THERE;
    return (here & mapping) == mapping || ((kept & ~here) & mapping) != 0 ||
                   sidecar->facts.is_placeholder
               ? MAPPING_IS_APART
               : MAPPING_IS_ABSENT;
}

bool sidecar_report_no_mapping(const struct sidecar *sidecar, struct error *error)
{
    return error_set(error,
                     "%s: the image has no coverage mapping; compile it with -fcoverage-mapping",
                     sidecar->name);
}

bool sidecar_is_compact(const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].form != 0 && sidecar->sections[i].form != ELFCOMPRESS_ZSTD)
            return true;
    }
    return false;
}

bool sidecar_holds_same(const struct sidecar *one, const struct sidecar *other)
{
    const struct sidecar_facts *a = &one->facts, *b = &other->facts;

    if (a->format != b->format || a->elf_class != b->elf_class || a->elf_data != b->elf_data ||
        a->elf_type != b->elf_type || a->machine != b->machine ||
        a->pointer_size != b->pointer_size || a->raw_version != b->raw_version ||
        !uuid_equal(&a->uuid, &b->uuid) || a->uuid_source != b->uuid_source ||
        a->original_size != b->original_size || a->stripped_size != b->stripped_size ||
        !digest_equal(&a->original_digest, &b->original_digest) ||
        !digest_equal(&a->stripped_digest, &b->stripped_digest) || a->has_stub != b->has_stub ||
        a->is_placeholder != b->is_placeholder || one->section_count != other->section_count ||
        one->inverse.size != other->inverse.size ||
        !digest_equal(&one->inverse.digest, &other->inverse.digest))
        return false;
    for (size_t i = 0; i < one->section_count; i++) {
        const struct section *left = &one->sections[i], *right = &other->sections[i];

        if (left->kind != right->kind || left->fate != right->fate ||
            left->address != right->address || left->alignment != right->alignment ||
            left->size != right->size || !digest_equal(&left->digest, &right->digest))
            return false;
    }
    return true;
}

bool sidecar_agrees(const struct sidecar *one, const struct sidecar *other)
{
    if (digest_equal(&one->facts.original_digest, &other->facts.original_digest))
        return true;
    for (size_t i = 0; i < one->section_count; i++) {
        const struct section *mine = &one->sections[i];
        const struct section *theirs = sidecar_find(other, mine->kind);

        if (theirs == NULL || mine->size != theirs->size ||
            !digest_equal(&mine->digest, &theirs->digest))
            return false;
    }
    return one->section_count == other->section_count;
}

const struct section *sidecar_find(const struct sidecar *sidecar, enum section_kind kind)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].kind == kind)
            return &sidecar->sections[i];
    }
    return NULL;
}
