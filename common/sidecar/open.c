/*
 * Reading a sidecar: see sidecar.h.
 *
 * The elf_reader does not outlive sidecar_open; what it found is copied.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/file.h"

bool sidecar_recognize(struct bytes bytes)
{
    struct elf_reader file;
    struct elf_note_list notes;

    return elf_reader_open(&file, bytes) && elf_reader_notes(&file, SIDECAR_NOTE_SECTION, &notes) &&
           sidecar_notes_recognize(&notes);
}

/* How much of the file is read for the UUID, whose note is in the first few hundred bytes. */
#define FRONT_SIZE 4096

bool sidecar_peek(const char *path, struct uuid *uuid, struct error *error)
{
    struct buffer front = {0};
    bool done = file_read_front(&front, path, FRONT_SIZE, error) &&
                (elf_front_build_id(buffer_view(&front), uuid) ||
                 error_set(error, "%s: not a sidecar, or damaged beyond recognition", path));

    buffer_free(&front);
    return done;
}

/* ---- opening ---- */

static bool damaged(const struct sidecar *sidecar, const char *how, struct error *error)
{
    return error_set(error, "%s: the sidecar is damaged (%s); get an intact copy", sidecar->name,
                     how);
}

/* Adds the bytes [from, to) of the file, with zeros in place of the seal. */
static void add_to_seal(struct digest_stream *digest, const struct elf_reader *file, uint64_t from,
                        uint64_t to, uint64_t seal)
{
    static const uint8_t zeros[DIGEST_SIZE];
    struct bytes before, behind;

    if (range_within(seal, DIGEST_SIZE, from, to - from) &&
        bytes_slice(file->elf.bytes, from, seal - from, &before) &&
        bytes_slice(file->elf.bytes, seal + DIGEST_SIZE, to - seal - DIGEST_SIZE, &behind)) {
        digest_stream_add(digest, before);
        digest_stream_add(digest, (struct bytes){zeros, DIGEST_SIZE});
        digest_stream_add(digest, behind);
    } else if (bytes_slice(file->elf.bytes, from, to - from, &before)) {
        digest_stream_add(digest, before);
    }
}

/* The limit for everything that is not compressed: far more than notes, headers and section names
 * need. A sparse file can have any size, and reading it takes time in proportion to that. */
#define SEALED_SIZE_MAX (UINT64_C(16) << 20)

static bool is_compressed(const Elf64_Shdr *header)
{
    return header->sh_type != SHT_NOBITS && (header->sh_flags & SHF_COMPRESSED) != 0;
}

/* Sections must be in the order of their offsets and not overlap; otherwise the seal could cover
 * some bytes twice or not at all. */
static bool can_be_sealed(const struct elf_reader *file)
{
    uint64_t position = 0, compressed = 0;

    for (size_t i = 1; i < file->section_count; i++) {
        const Elf64_Shdr *header = &file->sections[i].header;

        if (header->sh_type == SHT_NOBITS)
            continue;
        if (header->sh_offset < position)
            return false;
        position = header->sh_offset + header->sh_size;
        if (!is_compressed(header))
            continue;
        if (header->sh_size < ELF_SIZE(file->elf.wide, Chdr))
            return false;
        compressed += header->sh_size;
    }
    return file->elf.bytes.size - compressed <= SEALED_SIZE_MAX;
}

/* Adds everything that is not compressed. */
static void add_all_to_seal(struct digest_stream *digest, const struct elf_reader *file,
                            uint64_t seal)
{
    uint64_t sealed = 0;

    for (size_t i = 1; i < file->section_count; i++) {
        const Elf64_Shdr *header = &file->sections[i].header;

        if (!is_compressed(header))
            continue;
        add_to_seal(digest, file, sealed, header->sh_offset + ELF_SIZE(file->elf.wide, Chdr), seal);
        sealed = header->sh_offset + header->sh_size;
    }
    add_to_seal(digest, file, sealed, file->elf.bytes.size, seal);
}

static bool check_seal(struct sidecar *sidecar, const struct elf_reader *file, struct error *error)
{
    const struct elf_reader_section *notes = elf_reader_find(file, SIDECAR_NOTE_SECTION);
    uint64_t offset = notes->header.sh_offset + sidecar->notes.seal_offset;
    bool is_sealed = can_be_sealed(file);
    struct digest_stream *digest = is_sealed ? digest_stream_new() : NULL;
    struct digest seal;

    if (is_sealed && digest == NULL)
        return error_out_of_memory(error, sidecar->name, file->elf.bytes.size);
    if (is_sealed) {
        add_all_to_seal(digest, file, offset);
        seal = digest_stream_finish(digest);
        digest_stream_free(digest);
    }
    return (is_sealed && digest_equal(&seal, &sidecar->notes.seal)) ||
           damaged(sidecar, "its seal does not match: it was changed after it was written", error);
}

static bool read_notes(struct sidecar *sidecar, const struct elf_reader *file, struct error *error)
{
    struct sidecar_facts *facts = &sidecar->notes.facts;
    struct elf_note_list notes;

    if (!elf_reader_notes(file, SIDECAR_NOTE_SECTION, &notes) || !sidecar_notes_recognize(&notes))
        return error_set(error,
                         "%s: not a sidecar, or damaged beyond recognition; give the .covsplit "
                         "file that the split wrote",
                         sidecar->name);
    if (!sidecar_notes_decode(&notes, sidecar->name, &sidecar->notes, error) ||
        !check_seal(sidecar, file, error))
        return false;
    facts->elf_class = file->elf.header.e_ident[EI_CLASS];
    facts->elf_data = file->elf.header.e_ident[EI_DATA];
    facts->elf_type = file->elf.header.e_type;
    if ((facts->elf_type != ET_EXEC && facts->elf_type != ET_DYN) ||
        facts->machine != file->elf.header.e_machine)
        return damaged(sidecar, "its ELF header does not agree with its notes", error);
    return true;
}

static bool read_uuid(struct sidecar *sidecar, const struct elf_reader *file, struct error *error)
{
    struct sidecar_facts *facts = &sidecar->notes.facts;

    if (!elf_reader_build_id(file, &facts->uuid))
        return damaged(sidecar, "it has no UUID", error);
    /* As earlier versions wrote it. */
    if (!sidecar->notes.has_stub_id)
        memcpy(facts->stub_id, facts->uuid.bytes,
               facts->uuid.size < sizeof(facts->stub_id) ? facts->uuid.size
                                                         : sizeof(facts->stub_id));
    return true;
}

/* Determines how the content is stored. A section without a kind is always plain zstd. */
static bool read_form(const struct sidecar *sidecar, uint32_t type, struct sidecar_content *content,
                      struct error *error)
{
    enum section_kind kind;

    if (type == ELFCOMPRESS_ZSTD)
        return true;
    if (section_kind_of_name(content->packed.what, &kind))
        content->transform = transform_of(type, kind);
    return content->transform != NULL ||
           error_set(error,
                     "%s: %s is stored in a form (ch_type 0x%" PRIx32
                     ") that this version of covsplit does not read; split the image again, or use "
                     "the covsplit that wrote it",
                     sidecar->name, content->packed.what, type);
}

/* Reads the description of a content from a compressed section and its note. *alignment may be
 * NULL. */
static bool read_content(struct sidecar *sidecar, const struct elf_reader *file,
                         const struct elf_reader_section *section,
                         const struct sidecar_note_content *note, struct sidecar_content *content,
                         uint64_t *alignment, struct error *error)
{
    Elf64_Chdr header;

    if (section->header.sh_type != SHT_PROGBITS ||
        (section->header.sh_flags & SHF_COMPRESSED) == 0 ||
        !elf_reader_compression_header(file, section->stored, &header, &content->packed.bytes))
        return damaged(sidecar, "a section is not compressed", error);
    if (!read_form(sidecar, header.ch_type, content, error))
        return false;
    if (!note->present || note->size != header.ch_size)
        return damaged(sidecar, "the size of a section is not the one in its note", error);
    if (header.ch_addralign != 0 && !is_power_of_two(header.ch_addralign))
        return damaged(sidecar, "a section has an impossible alignment", error);
    content->packed.size = note->size;
    content->digest = note->digest;
    *alignment = header.ch_addralign;
    return true;
}

static bool read_section(struct sidecar *sidecar, const struct elf_reader *file,
                         const struct elf_reader_section *section, enum section_kind kind,
                         struct error *error)
{
    struct sidecar_section *out = &sidecar->sections[sidecar->section_count];
    struct sidecar_content *content = &sidecar->contents[sidecar->section_count];

    if (elf_reader_find(file, section->name) == NULL)
        return damaged(sidecar, "a section occurs twice", error);
    *out = (struct sidecar_section){
        .kind = kind, .name = section_kind_name(kind), .address = section->header.sh_addr};
    content->packed.name = sidecar->name;
    content->packed.what = out->name;
    sidecar->section_count++;
    if ((SECTION_BIT(kind) & SECTION_STORED) != 0) {
        const struct sidecar_note_content *note = &sidecar->notes.removed[kind];

        if (!read_content(sidecar, file, section, note, content, &out->alignment, error))
            return false;
        out->has_content = true;
        out->copied = note->copied;
        out->size = content->packed.size;
        out->stored_size = section->stored.size;
        out->digest = content->digest;
        return true;
    }
    out->size = section->header.sh_size;
    out->alignment = section->header.sh_addralign;
    return section->header.sh_type == SHT_NOBITS ||
           damaged(sidecar, "a section that stays in the image has contents", error);
}

static bool read_all_sections(struct sidecar *sidecar, const struct elf_reader *file,
                              struct error *error)
{
    const struct elf_reader_section *inverse = elf_reader_find(file, SIDECAR_INVERSE_SECTION);
    uint64_t alignment;
    unsigned found = 0;

    for (size_t i = 1; i < file->section_count; i++) {
        enum section_kind kind;

        if (!section_kind_of_name(file->sections[i].name, &kind))
            continue;
        if (!read_section(sidecar, file, &file->sections[i], kind, error))
            return false;
        found |= SECTION_BIT(kind);
    }
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        if (sidecar->notes.removed[kind].present && (found & SECTION_BIT(kind)) == 0)
            return damaged(sidecar, "a section that its notes list is missing", error);
    }
    if (inverse == NULL)
        return damaged(sidecar, "it has no inverse edit script", error);
    sidecar->inverse.packed.name = sidecar->name;
    sidecar->inverse.packed.what = "the inverse edit script";
    return read_content(sidecar, file, inverse, &sidecar->notes.inverse, &sidecar->inverse,
                        &alignment, error);
}

/* The stub of image and profiles tells the sections as they were linked: by it a seal that was made
 * anew for other sections is seen. */
static bool check_stub_id(const struct sidecar *sidecar, struct error *error)
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;
    const struct sidecar_notes *notes = &sidecar->notes;
    const struct sidecar_facts *facts = &notes->facts;
    uint8_t expected[PROFILE_STUB_ID_SIZE];
    struct digest digests[STUB_KIND_COUNT];

    if (!facts->has_stub || !notes->has_stub_id || facts->is_inexact ||
        notes->removed[SECTION_LINKED_COVMAP].present)
        return true;
    for (size_t i = 0; i < STUB_KIND_COUNT; i++) {
        if (!notes->removed[kinds[i]].present)
            return true;
        digests[i] = notes->removed[kinds[i]].digest;
    }
    facts_make_stub_id(expected, &facts->uuid, digests);
    return memcmp(expected, facts->stub_id, sizeof(expected)) == 0 ||
           damaged(sidecar, "its sections or its UUID are not those that its image's stub tells",
                   error);
}

struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error)
{
    struct sidecar *sidecar = calloc(1, sizeof(*sidecar));
    struct elf_reader *file = malloc(sizeof(*file));
    bool done = false;

    if (sidecar != NULL) {
        sidecar->name = strdup(name);
        sidecar->references = calloc(1, sizeof(*sidecar->references));
        sidecar->threads = 1;
        sidecar->memory_limit = memory_limit_for(bytes.size);
    }
    if (sidecar == NULL || sidecar->name == NULL || sidecar->references == NULL || file == NULL) {
        error_out_of_memory(error, name, sizeof(*sidecar) + sizeof(*file));
    } else {
        elf_reader_open(file, bytes); /* if that fails, read_notes finds none and reports it */
        done = read_notes(sidecar, file, error) && read_uuid(sidecar, file, error) &&
               read_all_sections(sidecar, file, error) && check_stub_id(sidecar, error);
    }
    free(file);
    if (!done) {
        sidecar_close(sidecar);
        return NULL;
    }
    return sidecar;
}

/* Takes ownership of the input, even on failure. */
static struct sidecar *open_input(struct input *input, const char *name, struct error *error)
{
    struct sidecar *sidecar = sidecar_open(input->bytes, name, error);

    input_close_descriptor(input);
    if (sidecar == NULL)
        input_close(input);
    else
        sidecar->input = *input;
    return sidecar;
}

struct sidecar *sidecar_read(const char *path, struct error *error)
{
    struct input input;

    return input_read(&input, path, error) ? open_input(&input, path, error) : NULL;
}

struct sidecar *sidecar_read_descriptor(int fd, const char *name, struct error *error)
{
    struct input input;

    return input_read_descriptor(&input, fd, name, error) ? open_input(&input, name, error) : NULL;
}

void sidecar_help_restore(struct sidecar *sidecar, unsigned threads,
                          const struct proved_sections *proved)
{
    /* Limited since each thread holds a block in memory. */
    sidecar->threads = threads < PARALLEL_THREADS_MAX ? threads : PARALLEL_THREADS_MAX;
    sidecar->proved = proved;
}

void sidecar_limit_memory(struct sidecar *sidecar, uint64_t limit)
{
    if (limit != 0)
        sidecar->memory_limit = limit;
}

uint64_t sidecar_memory_limit(const struct sidecar *sidecar)
{
    return sidecar->memory_limit;
}

void sidecar_close(struct sidecar *sidecar)
{
    struct names *known;

    if (sidecar == NULL)
        return;
    known = sidecar->references == NULL ? NULL : atomic_load(&sidecar->references->known);
    if (known != NULL)
        names_free(known);
    free(known);
    free(sidecar->references);
    sidecar_notes_free(&sidecar->notes);
    input_close(&sidecar->input);
    free(sidecar->name);
    free(sidecar);
}

/* ---- properties ---- */

const struct sidecar_facts *sidecar_facts(const struct sidecar *sidecar)
{
    return &sidecar->notes.facts;
}

const char *sidecar_name(const struct sidecar *sidecar)
{
    return sidecar->name;
}

const char *sidecar_image_name(const struct sidecar *sidecar)
{
    return sidecar->notes.image_name;
}

uint32_t sidecar_format_version(const struct sidecar *sidecar)
{
    return sidecar->notes.format_version;
}

bool sidecar_is_real(const struct sidecar *sidecar, struct error *error)
{
    return !sidecar_facts(sidecar)->is_placeholder ||
           error_set(error,
                     "%s: a placeholder: stands in for the sidecar of an image that had been split "
                     "before, and holds nothing of it; give the sidecar of the first split",
                     sidecar_name(sidecar));
}

bool sidecar_holds_nothing(const struct sidecar *sidecar)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar_section(sidecar, i)->stored_size != 0)
            return false;
    }
    return true;
}

size_t sidecar_section_count(const struct sidecar *sidecar)
{
    return sidecar->section_count;
}

const struct sidecar_section *sidecar_section(const struct sidecar *sidecar, size_t index)
{
    return &sidecar->sections[index];
}

const struct sidecar_section *sidecar_find(const struct sidecar *sidecar, enum section_kind kind)
{
    for (size_t i = 0; i < sidecar->section_count; i++) {
        if (sidecar->sections[i].kind == kind)
            return &sidecar->sections[i];
    }
    return NULL;
}

size_t sidecar_kept_count(const struct sidecar *sidecar)
{
    return sidecar->notes.kept_count;
}

const struct kept_section *sidecar_kept(const struct sidecar *sidecar, size_t index)
{
    return &sidecar->notes.kept[index];
}
