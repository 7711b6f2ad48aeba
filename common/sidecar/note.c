/*
 * Encoding and decoding the notes of a sidecar: see sidecar/note.h, which gives every layout.
 */
#include "common/sidecar/note.h"

#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_SIZE            4
#define IMAGE_SIZE             80 /* without the text; likewise KEPT_SIZE */
#define REMOVED_SIZE           32
#define KEPT_SIZE              16
#define INVERSE_SIZE           24
#define REMOVED_FLAG_COPY      1u
#define IMAGE_FLAG_STUB        1u
#define IMAGE_FLAG_PLACEHOLDER 2u
#define IMAGE_FLAG_INEXACT     4u
/* ---- encoding ---- */

static bool append_own(struct buffer *encoded, bool big_endian, enum sidecar_note_type type,
                       const uint8_t *description, size_t size)
{
    return elf_note_append(encoded, big_endian, SIDECAR_NOTE_OWNER, type,
                           (struct bytes){description, size});
}

/* Appends a note whose description consists of fixed fields and a text. */
static bool append_with_text(struct buffer *encoded, bool big_endian, enum sidecar_note_type type,
                             const uint8_t *fields, size_t size, const char *text)
{
    struct buffer description = {0};
    bool done = buffer_append(&description, fields, size) &&
                buffer_append(&description, text, strlen(text)) &&
                append_own(encoded, big_endian, type, description.data, description.size);

    buffer_free(&description);
    return done;
}

static void store_digest(uint8_t *to, const struct digest *digest)
{
    memcpy(to, digest->bytes, DIGEST_SIZE);
}

static bool append_format(struct buffer *encoded, bool big, const struct sidecar_notes *notes)
{
    uint8_t fields[FORMAT_SIZE];

    store_u32(fields, notes->format_version, big);
    return append_own(encoded, big, SIDECAR_NOTE_FORMAT, fields, sizeof(fields));
}

static bool append_image(struct buffer *encoded, bool big, const struct sidecar_notes *notes)
{
    const struct sidecar_facts *facts = &notes->facts;
    uint8_t fields[IMAGE_SIZE] = {0};

    store_u32(fields, facts->format, big);
    store_u32(fields + 4, facts->machine, big);
    store_u32(fields + 8, (uint32_t)facts->pointer_size, big);
    store_u32(fields + 12, facts->uuid_source, big);
    store_u32(fields + 16,
              (facts->has_stub ? IMAGE_FLAG_STUB : 0) |
                  (facts->is_placeholder ? IMAGE_FLAG_PLACEHOLDER : 0) |
                  (facts->is_inexact ? IMAGE_FLAG_INEXACT : 0),
              big);
    store_u64(fields + 24, facts->raw_version, big);
    store_u64(fields + 32, facts->original_size, big);
    store_digest(fields + 40, &facts->original_digest);
    store_u64(fields + 56, facts->stripped_size, big);
    store_digest(fields + 64, &facts->stripped_digest);
    return append_with_text(encoded, big, SIDECAR_NOTE_IMAGE, fields, sizeof(fields),
                            notes->image_name);
}

static bool append_removed(struct buffer *encoded, bool big, const struct sidecar_notes *notes)
{
    for (uint32_t kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const struct sidecar_note_content *removed = &notes->removed[kind];
        uint8_t fields[REMOVED_SIZE] = {0};

        if (!removed->present)
            continue;
        store_u32(fields, kind, big);
        store_u32(fields + 4, removed->copied ? REMOVED_FLAG_COPY : 0, big);
        store_u64(fields + 8, removed->size, big);
        store_digest(fields + 16, &removed->digest);
        if (!append_own(encoded, big, SIDECAR_NOTE_REMOVED, fields, sizeof(fields)))
            return false;
    }
    return true;
}

static bool append_kept(struct buffer *encoded, bool big, const struct sidecar_notes *notes)
{
    for (size_t i = 0; i < notes->kept_count; i++) {
        const struct kept_section *kept = &notes->kept[i];
        uint8_t fields[KEPT_SIZE] = {0};

        store_u32(fields, kept->kind, big);
        store_u64(fields + 8, kept->size, big);
        if (!append_with_text(encoded, big, SIDECAR_NOTE_KEPT, fields, sizeof(fields),
                              kept->reason))
            return false;
    }
    return true;
}

static bool append_inverse(struct buffer *encoded, bool big, const struct sidecar_notes *notes)
{
    uint8_t fields[INVERSE_SIZE];

    store_u64(fields, notes->inverse.size, big);
    store_digest(fields + 8, &notes->inverse.digest);
    return append_own(encoded, big, SIDECAR_NOTE_INVERSE, fields, sizeof(fields));
}

bool sidecar_notes_encode(const struct sidecar_notes *notes, const char *name,
                          struct buffer *encoded, struct error *error)
{
    static const uint8_t no_seal[DIGEST_SIZE];
    struct bytes records = {notes->facts.records.bytes, DIGEST_SIZE};
    bool big = notes->facts.elf_data == ELFDATA2MSB;

    return (append_format(encoded, big, notes) && append_image(encoded, big, notes) &&
            (!notes->facts.has_stub || append_own(encoded, big, SIDECAR_NOTE_STUB,
                                                  notes->facts.stub_id, PROFILE_STUB_ID_SIZE)) &&
            (bytes_all_zero(records) ||
             append_own(encoded, big, SIDECAR_NOTE_RECORDS, records.data, DIGEST_SIZE)) &&
            append_removed(encoded, big, notes) && append_kept(encoded, big, notes) &&
            append_inverse(encoded, big, notes) &&
            append_own(encoded, big, SIDECAR_NOTE_SEAL, no_seal, sizeof(no_seal))) ||
           error_out_of_memory(error, name, encoded->size);
}

/* ---- decoding ---- */

#define SEEN(type) (1u << ((type)-SIDECAR_NOTE_FORMAT))

struct decoder {
    struct sidecar_notes *notes;
    bool big;
    unsigned seen; /* mask of SEEN: the types that may occur only once */
    const char *name;
    struct error *error;
};

static bool refuse(const struct decoder *decoder, const char *what)
{
    return error_set(decoder->error, "%s: the sidecar's notes are damaged (%s); get an intact copy",
                     decoder->name, what);
}

/* The rest of a description as a new string; NULL with a message if it is not a text. */
static char *take_text(const struct decoder *decoder, struct bytes description, uint64_t offset)
{
    const uint8_t *start = description.data + offset;
    size_t size = (size_t)(description.size - offset);
    char *text;

    if (size != 0 && memchr(start, '\0', size) != NULL) {
        refuse(decoder, "a text contains a NUL");
        return NULL;
    }
    text = malloc(size + 1);
    if (text == NULL) {
        error_out_of_memory(decoder->error, decoder->name, size + 1);
        return NULL;
    }
    if (size != 0)
        memcpy(text, start, size);
    text[size] = '\0';
    return text;
}

static void load_digest(struct digest *digest, const uint8_t *from)
{
    memcpy(digest->bytes, from, DIGEST_SIZE);
}

static bool take_format(struct decoder *decoder, struct bytes description)
{
    uint32_t version;

    if (description.size != FORMAT_SIZE)
        return refuse(decoder, "the format version has a wrong size");
    version = load_u32(description.data, decoder->big);
    if (version < SIDECAR_FORMAT_VERSION || version > SIDECAR_FORMAT_VERSION_LINKED)
        return error_set(decoder->error,
                         "%s: sidecar of format version %" PRIu32
                         "; this covsplit reads %d to %d; use a newer covsplit",
                         decoder->name, version, SIDECAR_FORMAT_VERSION,
                         SIDECAR_FORMAT_VERSION_LINKED);
    decoder->notes->format_version = version;
    return true;
}

static bool take_image(struct decoder *decoder, struct bytes description)
{
    struct sidecar_facts *facts = &decoder->notes->facts;
    const uint8_t *fields = description.data;
    uint32_t format, machine, source, flags;

    if (description.size < IMAGE_SIZE)
        return refuse(decoder, "the image's note is too short");
    format = load_u32(fields, decoder->big);
    machine = load_u32(fields + 4, decoder->big);
    facts->pointer_size = load_u32(fields + 8, decoder->big);
    source = load_u32(fields + 12, decoder->big);
    if (format < IMAGE_ELF || format > IMAGE_COFF || machine > UINT16_MAX ||
        (facts->pointer_size != 4 && facts->pointer_size != 8) || source < UUID_FROM_BUILD_ID ||
        source > UUID_FROM_DIGEST)
        return refuse(decoder, "the image's note holds an unknown number");
    facts->format = (enum image_format)format;
    facts->machine = (uint16_t)machine;
    facts->uuid_source = (enum uuid_source)source;
    flags = load_u32(fields + 16, decoder->big);
    facts->has_stub = (flags & IMAGE_FLAG_STUB) != 0;
    facts->is_placeholder = (flags & IMAGE_FLAG_PLACEHOLDER) != 0;
    facts->is_inexact = (flags & IMAGE_FLAG_INEXACT) != 0;
    facts->raw_version = load_u64(fields + 24, decoder->big);
    facts->original_size = load_u64(fields + 32, decoder->big);
    load_digest(&facts->original_digest, fields + 40);
    facts->stripped_size = load_u64(fields + 56, decoder->big);
    load_digest(&facts->stripped_digest, fields + 64);
    decoder->notes->image_name = take_text(decoder, description, IMAGE_SIZE);
    return decoder->notes->image_name != NULL;
}

static bool take_removed(struct decoder *decoder, struct bytes description)
{
    struct sidecar_note_content *removed;
    uint32_t kind;

    if (description.size != REMOVED_SIZE)
        return refuse(decoder, "the note of a section has a wrong size");
    kind = load_u32(description.data, decoder->big);
    if (kind == 0 || kind > SECTION_KIND_MAX || (SECTION_BIT(kind) & SECTION_STORED) == 0)
        return refuse(decoder, "the note of a section names no section");
    removed = &decoder->notes->removed[kind];
    if (removed->present)
        return refuse(decoder, "a section has two notes");
    removed->present = true;
    removed->copied = (load_u32(description.data + 4, decoder->big) & REMOVED_FLAG_COPY) != 0;
    removed->size = load_u64(description.data + 8, decoder->big);
    load_digest(&removed->digest, description.data + 16);
    return true;
}

static bool take_kept(struct decoder *decoder, struct bytes description)
{
    struct sidecar_notes *notes = decoder->notes;
    struct kept_section *kept = &notes->kept[notes->kept_count];
    uint32_t kind;

    if (description.size < KEPT_SIZE || notes->kept_count == SECTION_KIND_MAX)
        return refuse(decoder, "the note of a kept section has a wrong size or is one too many");
    kind = load_u32(description.data, decoder->big);
    if (kind == 0 || kind > SECTION_KIND_MAX)
        return refuse(decoder, "the note of a kept section names no section");
    kept->kind = (enum section_kind)kind;
    kept->size = load_u64(description.data + 8, decoder->big);
    kept->reason = take_text(decoder, description, KEPT_SIZE);
    if (kept->reason == NULL)
        return false;
    notes->kept_count++;
    return true;
}

static bool take_inverse(struct decoder *decoder, struct bytes description)
{
    struct sidecar_note_content *inverse = &decoder->notes->inverse;

    if (description.size != INVERSE_SIZE)
        return refuse(decoder, "the note of the edit script has a wrong size");
    inverse->present = true;
    inverse->size = load_u64(description.data, decoder->big);
    load_digest(&inverse->digest, description.data + 8);
    return true;
}

static bool take_stub(struct decoder *decoder, struct bytes description)
{
    struct sidecar_notes *notes = decoder->notes;

    if (description.size != sizeof(notes->facts.stub_id))
        return refuse(decoder, "the note of the stub record has a wrong size");
    memcpy(notes->facts.stub_id, description.data, sizeof(notes->facts.stub_id));
    notes->has_stub_id = true;
    return true;
}

static bool take_records(struct decoder *decoder, struct bytes description)
{
    if (description.size != DIGEST_SIZE)
        return refuse(decoder, "the note of the data records has a wrong size");
    load_digest(&decoder->notes->facts.records, description.data);
    return true;
}

static bool take_seal(struct decoder *decoder, struct bytes description, uint64_t offset)
{
    if (description.size != DIGEST_SIZE)
        return refuse(decoder, "the seal has a wrong size");
    load_digest(&decoder->notes->seal, description.data);
    decoder->notes->seal_offset = offset;
    return true;
}

static bool take_note(struct decoder *decoder, const struct elf_note *note)
{
    const struct bytes description = note->description;
    const uint32_t type = note->type;
    bool only_once = type == SIDECAR_NOTE_FORMAT || type == SIDECAR_NOTE_IMAGE ||
                     type == SIDECAR_NOTE_INVERSE || type == SIDECAR_NOTE_SEAL ||
                     type == SIDECAR_NOTE_STUB || type == SIDECAR_NOTE_RECORDS;

    if (only_once && (decoder->seen & SEEN(type)) != 0)
        return refuse(decoder, "a note occurs twice");
    if (only_once)
        decoder->seen |= SEEN(type);
    switch (type) {
    case SIDECAR_NOTE_FORMAT:
        return take_format(decoder, description);
    case SIDECAR_NOTE_IMAGE:
        return take_image(decoder, description);
    case SIDECAR_NOTE_REMOVED:
        return take_removed(decoder, description);
    case SIDECAR_NOTE_KEPT:
        return take_kept(decoder, description);
    case SIDECAR_NOTE_INVERSE:
        return take_inverse(decoder, description);
    case SIDECAR_NOTE_STUB:
        return take_stub(decoder, description);
    case SIDECAR_NOTE_RECORDS:
        return take_records(decoder, description);
    case SIDECAR_NOTE_SEAL:
        return take_seal(decoder, description, note->description_offset);
    default:
        return true;
    }
}

bool sidecar_notes_recognize(const struct elf_note_list *list)
{
    size_t offset = 0;
    struct elf_note note;

    return elf_note_next(list, &offset, &note) && elf_note_is_of(&note, SIDECAR_NOTE_OWNER) &&
           note.type == SIDECAR_NOTE_FORMAT;
}

static bool take_notes(struct decoder *decoder, const struct elf_note_list *list)
{
    const unsigned needed = SEEN(SIDECAR_NOTE_FORMAT) | SEEN(SIDECAR_NOTE_IMAGE) |
                            SEEN(SIDECAR_NOTE_INVERSE) | SEEN(SIDECAR_NOTE_SEAL);
    size_t offset = 0;
    struct elf_note note;

    while (offset < list->bytes.size) {
        if (!elf_note_next(list, &offset, &note))
            return refuse(decoder, "a note extends past their end");
        if (elf_note_is_of(&note, SIDECAR_NOTE_OWNER) && !take_note(decoder, &note))
            return false;
    }
    if ((decoder->seen & needed) != needed)
        return refuse(decoder, "one is missing");
    return true;
}

bool sidecar_notes_decode(const struct elf_note_list *list, const char *name,
                          struct sidecar_notes *notes, struct error *error)
{
    struct decoder decoder = {
        .notes = notes, .big = list->big_endian, .name = name, .error = error};

    *notes = (struct sidecar_notes){0};
    if (!sidecar_notes_recognize(list))
        return refuse(&decoder, "they do not start with the format version");
    if (!take_notes(&decoder, list)) {
        sidecar_notes_free(notes);
        return false;
    }
    return true;
}

void sidecar_notes_free(struct sidecar_notes *notes)
{
    free(notes->image_name);
    for (size_t i = 0; i < notes->kept_count; i++)
        free((char *)(uintptr_t)notes->kept[i].reason);
    *notes = (struct sidecar_notes){0};
}
