/*
 * Opening sidecars: see sidecar.h.
 *
 * The seal covers everything but the compressed contents, which have digests of their own, so what
 * is read here is what was written, unless somebody made the seal anew. Nothing relies on that:
 * each number is checked.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/base/parallel.h"
#include "common/codec/codec.h"
#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/llvm/tripwire.h"
#include "common/sidecar/delta.h"
#include "common/sidecar/sidecar.h"

/* A sidecar that is being opened. */
struct opening {
    struct sidecar *sidecar;
    struct elf_reader file;
    struct elf_note_list notes;
    struct digest seal;
    uint64_t seal_offset; /* in the notes */
    struct error *error;
};

static bool damaged(const struct opening *opening, const char *how)
{
    return error_set(opening->error, "%s: the sidecar is damaged (%s); get an intact copy",
                     opening->sidecar->name, how);
}

/* ---- notes ---- */

static bool bad_notes(const struct opening *opening, const char *how)
{
    return error_set(opening->error, "%s: the sidecar's notes are damaged (%s); get an intact copy",
                     opening->sidecar->name, how);
}

static struct digest take_digest(struct cursor *fields)
{
    struct bytes bytes = cursor_bytes(fields, DIGEST_SIZE);
    struct digest digest = {{0}};

    if (bytes.size != 0)
        memcpy(digest.bytes, bytes.data, DIGEST_SIZE);
    return digest;
}

/* A text and its size in front; NULL with an error if it is no text. */
static const char *take_text(const struct opening *opening, struct cursor *fields)
{
    struct bytes bytes = cursor_bytes(fields, cursor_uleb128(fields));
    const char *text = NULL;

    if (bytes.size != 0 && memchr(bytes.data, '\0', (size_t)bytes.size) != NULL) {
        bad_notes(opening, "a text contains a NUL");
        return NULL;
    }
    text = arena_copy(&opening->sidecar->memory, bytes);
    if (text == NULL)
        error_out_of_memory(opening->error, opening->sidecar->name, bytes.size + 1);
    return text;
}

/* Takes what is said of image and sidecar. */
static bool take_facts(struct opening *opening, struct cursor *fields)
{
    struct sidecar *sidecar = opening->sidecar;
    struct sidecar_facts *facts = &sidecar->facts;
    uint64_t flags = cursor_uleb128(fields), format = cursor_uleb128(fields);
    uint64_t source = cursor_uleb128(fields);
    struct bytes stub;

    if (format < IMAGE_ELF || format > IMAGE_COFF || source < UUID_FROM_BUILD_ID ||
        source > UUID_FROM_DIGEST)
        return bad_notes(opening, "they hold an unknown number");
    facts->format = (enum image_format)format;
    facts->uuid_source = (enum uuid_source)source;
    facts->has_stub = (flags & NOTE_STUB) != 0;
    facts->is_placeholder = (flags & NOTE_PLACEHOLDER) != 0;
    facts->is_assumed = (flags & NOTE_ASSUMED) != 0;
    facts->raw_version = cursor_uleb128(fields);
    facts->original_size = cursor_uleb128(fields);
    facts->original_digest = take_digest(fields);
    facts->stripped_size = cursor_uleb128(fields);
    facts->stripped_digest = take_digest(fields);
    if (facts->has_stub) {
        stub = cursor_bytes(fields, PROFILE_STUB_ID_SIZE);
        if (stub.size != 0)
            memcpy(facts->stub_id, stub.data, PROFILE_STUB_ID_SIZE);
    }
    if ((flags & NOTE_RECORDS) != 0)
        facts->records = take_digest(fields);
    facts->record_change = cursor_uleb128(fields);
    sidecar->base.is_needed = (flags & NOTE_DELTA) != 0;
    if (sidecar->base.is_needed) {
        sidecar->base.digest = take_digest(fields);
        sidecar->base.size = cursor_uleb128(fields);
        sidecar->base.whole_size = cursor_uleb128(fields);
    }
    sidecar->image_name = take_text(opening, fields);
    return sidecar->image_name != NULL;
}

/* Takes the sections, of which those with contents get the rest from the file's, and the digest of
 * the inverse script. */
static bool take_sections(struct opening *opening, struct cursor *fields)
{
    struct sidecar *sidecar = opening->sidecar;
    uint64_t count = cursor_uleb128(fields);

    if (count > SECTION_KIND_MAX)
        return bad_notes(opening, "there are too many sections");
    for (uint64_t i = 0; i < count; i++) {
        struct section *section = &sidecar->sections[sidecar->section_count];
        uint64_t kind = cursor_uleb128(fields);

        if (kind == 0 || kind > SECTION_KIND_MAX ||
            sidecar_find(sidecar, (enum section_kind)kind) != NULL)
            return bad_notes(opening, "a section is unknown, or occurs twice");
        *section = (struct section){.kind = (enum section_kind)kind,
                                    .name = section_kind_name((enum section_kind)kind)};
        if ((SECTION_BIT(kind) & SECTION_STORED) != 0) {
            section->fate =
                (cursor_uleb128(fields) & NOTE_SECTION_COPY) != 0 ? FATE_COPIED : FATE_REMOVED;
            section->digest = take_digest(fields);
        } else {
            section->address = cursor_uleb128(fields);
            section->size = cursor_uleb128(fields);
            section->alignment = cursor_uleb128(fields);
        }
        sidecar->section_count++;
    }
    sidecar->inverse.digest = take_digest(fields);
    return true;
}

static bool take_kept(struct opening *opening, struct cursor *fields)
{
    struct sidecar *sidecar = opening->sidecar;
    uint64_t count = cursor_uleb128(fields);

    if (count > SECTION_KIND_MAX)
        return bad_notes(opening, "too many sections were kept");
    for (uint64_t i = 0; i < count; i++) {
        struct section *kept = &sidecar->kept[sidecar->kept_count++];
        uint64_t kind = cursor_uleb128(fields);

        if (kind == 0 || kind > SECTION_KIND_MAX)
            return bad_notes(opening, "a section that was kept is unknown");
        kept->kind = (enum section_kind)kind;
        kept->size = cursor_uleb128(fields);
        kept->reason = take_text(opening, fields);
        if (kept->reason == NULL)
            return false;
    }
    return true;
}

/* Finds the note, which starts with the version, as in sidecars of every format version. */
static bool find_note(const struct elf_reader *file, struct elf_note_list *notes,
                      struct elf_note *note)
{
    size_t offset = 0;

    if (!elf_reader_notes(file, ELF_BUILD_ID_SECTION, notes))
        return false;
    while (elf_note_next(notes, &offset, note)) {
        if (note->type == SIDECAR_NOTE_TYPE && elf_note_is_of(note, SIDECAR_NOTE_OWNER))
            return true;
    }
    return false;
}

static bool read_note(struct opening *opening)
{
    struct sidecar *sidecar = opening->sidecar;
    struct elf_note note;
    struct cursor fields;

    if (!find_note(&opening->file, &opening->notes, &note))
        return error_set(opening->error,
                         "%s: not a sidecar, or damaged beyond recognition; give the .covsplit "
                         "file that the split wrote",
                         sidecar->name);
    fields = cursor_open(note.description, opening->notes.big_endian, false);
    sidecar->format_version = cursor_u32(&fields);
    if (sidecar->format_version != SIDECAR_FORMAT_VERSION && !fields.bad)
        return error_set(opening->error,
                         "%s: sidecar of format version %" PRIu32
                         "; this covsplit reads version %d; %s",
                         sidecar->name, sidecar->format_version, SIDECAR_FORMAT_VERSION,
                         sidecar->format_version > SIDECAR_FORMAT_VERSION
                             ? "use a newer covsplit"
                             : "split the image again, or use the covsplit that wrote it");
    opening->seal_offset = note.description_offset + sizeof(uint32_t);
    opening->seal = take_digest(&fields);
    return take_facts(opening, &fields) && take_sections(opening, &fields) &&
           take_kept(opening, &fields) &&
           (cursor_finished(&fields) || bad_notes(opening, "a note has a wrong size"));
}

bool sidecar_recognize(struct bytes bytes)
{
    struct elf_reader file;
    struct elf_note_list notes;
    struct elf_note note;

    return elf_reader_open(&file, bytes) && find_note(&file, &notes, &note);
}

/* ---- the seal ---- */

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

static bool check_seal(const struct opening *opening)
{
    const struct elf_reader *file = &opening->file;
    uint64_t seal =
        (uint64_t)(opening->notes.bytes.data - file->elf.bytes.data) + opening->seal_offset;
    uint64_t sealed = 0;
    struct digest_stream digest;
    struct digest found;

    if (!can_be_sealed(file))
        return damaged(opening, "its seal does not match: it was changed after it was written");
    digest_stream_start(&digest);
    for (size_t i = 1; i < file->section_count; i++) {
        const Elf64_Shdr *header = &file->sections[i].header;

        if (!is_compressed(header))
            continue;
        add_to_seal(&digest, file, sealed, header->sh_offset + ELF_SIZE(file->elf.wide, Chdr),
                    seal);
        sealed = header->sh_offset + header->sh_size;
    }
    add_to_seal(&digest, file, sealed, file->elf.bytes.size, seal);
    found = digest_stream_finish(&digest);
    return digest_equal(&found, &opening->seal) ||
           damaged(opening, "its seal does not match: it was changed after it was written");
}

/* ---- headers and sections ---- */

static bool read_headers(struct opening *opening)
{
    const struct elf_reader *file = &opening->file;
    struct sidecar_facts *facts = &opening->sidecar->facts;

    facts->elf_class = file->elf.header.e_ident[EI_CLASS];
    facts->elf_data = file->elf.header.e_ident[EI_DATA];
    facts->elf_type = file->elf.header.e_type;
    facts->machine = file->elf.header.e_machine;
    facts->pointer_size = file->elf.wide ? 8 : 4;
    if (facts->elf_type != ET_EXEC && facts->elf_type != ET_DYN)
        return damaged(opening, "its ELF header is not that of an image");
    if (!elf_reader_build_id(file, &facts->uuid))
        return damaged(opening, "it has no UUID");
    return true;
}

/* Reads how a section of a delta is stored; *form is the one that it has in a whole sidecar.
 */
static bool read_part(const struct opening *opening, struct section *section, uint32_t *form)
{
    struct sidecar_part *part = &opening->sidecar->parts[section->kind];
    struct cursor cursor = cursor_open(section->content, false, false);
    uint64_t type = cursor_uleb128(&cursor), is_of_streams = cursor_uleb128(&cursor);

    part->size = cursor_uleb128(&cursor);
    part->frame = cursor_rest(&cursor);
    part->is_of_streams = is_of_streams != 0;
    *form = (uint32_t)type;
    return (!cursor.bad && type <= UINT32_MAX && is_of_streams <= 1 &&
            (is_of_streams ? type != ELFCOMPRESS_ZSTD : part->size == section->size)) ||
           damaged(opening, "a section is not that of a delta");
}

/* Reads the compressed section of this name into `section`, which has what the note tells of it. */
static bool read_stored(const struct opening *opening, const char *name, struct section *section)
{
    const struct elf_reader_section *from = elf_reader_find(&opening->file, name);
    Elf64_Chdr header;

    if (from == NULL)
        return damaged(opening, "a section that its note lists is missing, or occurs twice");
    if (from->header.sh_type != SHT_PROGBITS || !is_compressed(&from->header) ||
        !elf_reader_compression_header(&opening->file, from->stored, &header, &section->content))
        return damaged(opening, "a section is not compressed");
    if (opening->sidecar->base.is_needed != (header.ch_type == SIDECAR_DELTA_TYPE))
        return damaged(opening, "only a delta has sections of one");
    section->size = header.ch_size;
    if (opening->sidecar->base.is_needed && !read_part(opening, section, &header.ch_type))
        return false;
    if (header.ch_type != ELFCOMPRESS_ZSTD && transform_of(header.ch_type, section->kind) == NULL)
        return error_set(
            opening->error,
            "%s: %s is stored in a form (ch_type 0x%" PRIx32
            ") that this version of covsplit does not read; split the image again, or use "
            "the covsplit that wrote it",
            opening->sidecar->name, section->name, header.ch_type);
    if (header.ch_addralign != 0 && !is_power_of_two(header.ch_addralign))
        return damaged(opening, "a section has an impossible alignment");
    section->address = from->header.sh_addr;
    section->form = header.ch_type;
    section->stored_size = from->stored.size;
    section->alignment = header.ch_addralign;
    return true;
}

static bool read_sections(const struct opening *opening)
{
    struct sidecar *sidecar = opening->sidecar;

    for (size_t i = 0; i < sidecar->section_count; i++) {
        struct section *section = &sidecar->sections[i];

        if ((SECTION_BIT(section->kind) & SECTION_STORED) != 0 &&
            !read_stored(opening, section->name, section))
            return false;
    }
    sidecar->inverse.name = "the inverse edit script";
    return read_stored(opening, SIDECAR_INVERSE_SECTION, &sidecar->inverse);
}

/* The stub of image and profiles tells the sections as they were linked: by it a seal that was made
 * anew for other sections is seen. */
static bool check_stub_id(const struct opening *opening)
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;
    const struct sidecar *sidecar = opening->sidecar;
    const struct sidecar_facts *facts = &sidecar->facts;
    uint8_t expected[PROFILE_STUB_ID_SIZE];
    struct digest digests[STUB_KIND_COUNT];

    if (!facts->has_stub || sidecar_find(sidecar, SECTION_LINKED_COVMAP) != NULL)
        return true;
    for (size_t i = 0; i < STUB_KIND_COUNT; i++) {
        const struct section *section = sidecar_find(sidecar, kinds[i]);

        if (section == NULL)
            return true;
        digests[i] = section->digest;
    }
    facts_make_stub_id(expected, &facts->uuid, digests);
    return memcmp(expected, facts->stub_id, sizeof(expected)) == 0 ||
           damaged(opening, "its sections or its UUID are not those that its image's stub tells");
}

/* ---- opening ---- */

/* Adds up what is to be decoded: the sections, and for a delta what its frames hold. */
static void add_claims(struct sidecar *sidecar)
{
    for (size_t i = 0; i <= sidecar->section_count; i++) {
        const struct section *section =
            i < sidecar->section_count ? &sidecar->sections[i] : &sidecar->inverse;
        uint64_t part = sidecar->parts[section->kind].size;

        if (section->form != 0 && (!add_fits(sidecar->claimed, section->size, &sidecar->claimed) ||
                                   !add_fits(sidecar->claimed, part, &sidecar->claimed)))
            sidecar->claimed = UINT64_MAX;
    }
}

/* The limits of a delta are in proportion to its base, too, if there is such a file. */
static void limit_by_base(struct sidecar *sidecar, uint64_t size)
{
    char *path =
        sidecar->base.is_needed ? delta_base_path(sidecar->name, &sidecar->base.digest) : NULL;
    struct stat status;

    if (path != NULL && stat(path, &status) == 0 && status.st_size > 0 &&
        add_fits((uint64_t)status.st_size, size, &size)) {
        sidecar->memory_limit = memory_limit_for(size);
        sidecar->work_limit = work_limit_for(size);
    }
    free(path);
}

struct sidecar *sidecar_open(struct bytes bytes, const char *name, struct error *error)
{
    struct arena memory = {0};
    struct opening opening = {.sidecar = arena_allocate(&memory, sizeof(struct sidecar)),
                              .error = error};
    struct sidecar_references *references = arena_allocate(&memory, sizeof(*references));
    struct sidecar_bases *bases = arena_allocate(&memory, sizeof(*bases));
    const char *copy = arena_text(&memory, "%s", name);

    if (memory.failed) {
        arena_free(&memory);
        error_out_of_memory(error, name, sizeof(*opening.sidecar));
        return NULL;
    }
    pthread_mutex_init(&bases->lock, NULL);
    *opening.sidecar = (struct sidecar){.name = copy,
                                        .bases = bases,
                                        .memory_limit = memory_limit_for(bytes.size),
                                        .work_limit = work_limit_for(bytes.size),
                                        .threads = 1,
                                        .references = references,
                                        .own_bases = bases,
                                        .memory = memory};
    elf_reader_open(&opening.file, bytes); /* if that fails, read_note finds none */
    if (read_note(&opening) && check_seal(&opening) && read_headers(&opening) &&
        read_sections(&opening) && check_stub_id(&opening)) {
        add_claims(opening.sidecar);
        limit_by_base(opening.sidecar, bytes.size);
        return opening.sidecar;
    }
    sidecar_close(opening.sidecar);
    return NULL;
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

void sidecar_drop_cached(const struct sidecar *sidecar)
{
    atomic_store(&sidecar->references->restored, 0);
    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++) {
        buffer_free(&sidecar->references->contents[kind]);
        buffer_free(&sidecar->references->parts[kind]);
    }
    buffer_free(&sidecar->references->names);
}

void sidecar_close(struct sidecar *sidecar)
{
    struct names *known;
    struct arena memory;

    if (sidecar == NULL)
        return;
    known = atomic_load(&sidecar->references->known);
    if (known != NULL)
        names_free(known);
    free(known);
    sidecar_drop_cached(sidecar);
    sidecar_bases_free(sidecar->own_bases);
    pthread_mutex_destroy(&sidecar->own_bases->lock);
    input_close(&sidecar->input);
    memory = sidecar->memory;
    arena_free(&memory);
}

/* Bytes of the file that are read for the UUID, whose note is in the first few hundred. */
#define FRONT_SIZE 4096

bool sidecar_peek(const char *path, struct uuid *uuid, struct error *error)
{
    struct buffer front = {0};
    bool done = file_read_front(&front, path, FRONT_SIZE, error) &&
                (elf_file_build_id(buffer_view(&front), uuid) ||
                 error_set(error, "%s: not a sidecar, or damaged beyond recognition", path));

    buffer_free(&front);
    return done;
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
    if (limit > sidecar->work_limit)
        sidecar->work_limit = limit;
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

/* True unless the stub tells that the image was linked with mapping that is not here. Sidecars of
 * earlier builds have no KEPT note about that. */
static bool stub_knows_all(const struct sidecar *sidecar)
{
    static const enum section_kind kinds[STUB_KIND_COUNT] = STUB_KINDS;
    const struct sidecar_facts *facts = &sidecar->facts;
    uint8_t expected[PROFILE_STUB_ID_SIZE];
    struct digest digests[STUB_KIND_COUNT];

    for (size_t i = 0; i < STUB_KIND_COUNT; i++) {
        const struct section *section = sidecar_find(sidecar, kinds[i]);

        digests[i] = section != NULL ? section->digest : digest_of((struct bytes){NULL, 0});
    }
    facts_make_stub_id(expected, &facts->uuid, digests);
    return !facts->has_stub || sidecar_find(sidecar, SECTION_NAMES) == NULL ||
           memcmp(expected, facts->stub_id, sizeof(expected)) == 0;
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
                   sidecar->facts.is_placeholder || !stub_knows_all(sidecar)
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
