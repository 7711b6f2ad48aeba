/*
 * Opening sidecars: see sidecar.h.
 *
 * The seal covers everything but the compressed contents, which have digests of their own, so what
 * is read here is what was written, unless somebody made the seal anew. Nothing relies on that:
 * each number is checked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/cursor.h"
#include "common/base/memory_limit.h"
#include "common/codec/codec.h"
#include "common/codec/zstd.h"
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

static bool file_damaged(const struct opening *opening, const char *how)
{
    return sidecar_damaged(opening->sidecar, how, opening->error);
}

/* ---- the note ---- */

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
    struct coder fields;

    if (!find_note(&opening->file, &opening->notes, &note))
        return error_set(opening->error,
                         "%s: not a sidecar, or damaged beyond recognition; give the .covsplit "
                         "file that the split wrote",
                         sidecar->name);
    fields =
        (struct coder){.from = cursor_open(note.description, opening->notes.big_endian, false)};
    sidecar->format_version = cursor_u32(&fields.from);
    if (sidecar->format_version != SIDECAR_FORMAT_VERSION && !fields.from.bad)
        return error_set(opening->error,
                         "%s: sidecar of format version %" PRIu32
                         "; this covsplit reads version %d; %s",
                         sidecar->name, sidecar->format_version, SIDECAR_FORMAT_VERSION,
                         sidecar->format_version > SIDECAR_FORMAT_VERSION
                             ? "use a newer covsplit"
                             : "split the image again, or use the covsplit that wrote it");
    opening->seal_offset = note.description_offset + sizeof(uint32_t);
    code_bytes(&fields, opening->seal.bytes, DIGEST_SIZE);
    return sidecar_code_note(sidecar, &fields, opening->error);
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

/* Makes the seal of a file, of which the seal has its place at this offset. It covers everything
 * else but the compressed contents, which have digests of their own. False if a section is where
 * none may be, or if there is far more to seal than sidecars have. */
static bool make_seal(const struct elf_reader *file, uint64_t place, struct digest *seal)
{
    uint64_t sealed = 0;
    struct digest_stream digest;

    if (!can_be_sealed(file))
        return false;
    digest_stream_start(&digest);
    for (size_t i = 1; i < file->section_count; i++) {
        const Elf64_Shdr *header = &file->sections[i].header;

        if (!is_compressed(header))
            continue;
        add_to_seal(&digest, file, sealed, header->sh_offset + ELF_SIZE(file->elf.wide, Chdr),
                    place);
        sealed = header->sh_offset + header->sh_size;
    }
    add_to_seal(&digest, file, sealed, file->elf.bytes.size, place);
    *seal = digest_stream_finish(&digest);
    return true;
}

static bool check_seal(const struct opening *opening)
{
    const struct elf_reader *file = &opening->file;
    uint64_t notes = (uint64_t)(opening->notes.bytes.data - file->elf.bytes.data);
    struct digest found;

    return (make_seal(file, notes + opening->seal_offset, &found) &&
            digest_equal(&found, &opening->seal)) ||
           file_damaged(opening, "its seal does not match: it was changed after it was written");
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
        return file_damaged(opening, "its ELF header is not that of an image");
    if (!elf_reader_build_id(file, &facts->uuid))
        return file_damaged(opening, "it has no UUID");
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
           file_damaged(opening, "a section is not that of a delta");
}

/* Reads the compressed section of this name into `section`, which has what the note tells of it. */
static bool read_stored(const struct opening *opening, const char *name, struct section *section)
{
    const struct elf_reader_section *from = elf_reader_find(&opening->file, name);
    Elf64_Chdr header;

    if (from == NULL)
        return file_damaged(opening, "a section that its note lists is missing, or occurs twice");
    if (from->header.sh_type != SHT_PROGBITS || !is_compressed(&from->header) ||
        !elf_reader_compression_header(&opening->file, from->stored, &header, &section->content))
        return file_damaged(opening, "a section is not compressed");
    if (opening->sidecar->base.is_needed != (header.ch_type == SIDECAR_DELTA_TYPE))
        return file_damaged(opening, "only a delta has sections of one");
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
        return file_damaged(opening, "a section has an impossible alignment");
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

        if (section_is_stored(section) && !read_stored(opening, section->name, section))
            return false;
    }
    sidecar->inverse.name = "the inverse edit script";
    return read_stored(opening, SIDECAR_INVERSE_SECTION, &sidecar->inverse);
}

/* The stub of image and profiles tells the sections as they were linked: by it a seal that was made
 * anew for other sections is seen. */
static bool check_stub_id(const struct opening *opening)
{
    const struct sidecar *sidecar = opening->sidecar;
    bool are_all;

    return !sidecar->facts.has_stub || sidecar_find(sidecar, SECTION_LINKED_COVMAP) != NULL ||
           sidecar_stub_agrees(sidecar, &are_all) || !are_all ||
           file_damaged(opening,
                        "its sections or its UUID are not those that its image's stub tells");
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

char *delta_base_path(const char *path, const struct digest *base)
{
    char directory[PATH_MAX], root[PATH_MAX], hex[DIGEST_HEX_MAX];
    char *real = realpath(path, NULL), *result = NULL;

    /* The path of a link does not lead to the store, nor does that of a directory. */
    if (!path_directory(real != NULL ? real : path, directory)) {
        free(real);
        return NULL;
    }
    if (real == NULL)
        real = realpath(directory, NULL);
    else
        memcpy(real, directory, strlen(directory) + 1);
    if (path_directory(real != NULL ? real : directory, root) &&
        asprintf(&result, "%s/" DELTA_BASES_NAME "/%s" DELTA_BASE_SUFFIX, root,
                 digest_format(base, hex)) < 0)
        result = NULL;
    free(real);
    return result;
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
    struct sidecar_cache *cache = arena_allocate(&memory, sizeof(*cache));
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
                                        .cache = cache,
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

struct sidecar *sidecar_map(const char *path, struct error *error)
{
    struct input input;

    return input_open(&input, path, error) ? open_input(&input, path, error) : NULL;
}

struct sidecar *sidecar_read_back(struct output *output, struct error *error)
{
    struct input input = {.fd = -1};
    struct sidecar *sidecar =
        output_map(output, &input, error) ? open_input(&input, output->path, error) : NULL;

    if (sidecar != NULL)
        sidecar_limit_memory(sidecar, UINT64_MAX);
    return sidecar;
}

struct sidecar *sidecar_read_descriptor(int fd, const char *name, struct error *error)
{
    struct input input;

    return input_read_descriptor(&input, fd, name, error) ? open_input(&input, name, error) : NULL;
}

void sidecar_bases_free(struct sidecar_bases *bases)
{
    sidecar_close(bases->base);
    zlib_memo_free(&bases->memo.streams);
    bases->base = NULL;
}

void sidecar_drop_cached(const struct sidecar *sidecar)
{
    struct names *names = atomic_load(&sidecar->cache->names);

    for (unsigned kind = 0; kind <= SECTION_KIND_MAX; kind++) {
        struct cached_section *cached = &sidecar->cache->sections[kind];

        atomic_store(&cached->known, 0);
        buffer_free(&cached->own);
        buffer_free(&cached->flat);
        for (unsigned k = 0; k < 2; k++) {
            codec_prefix_free(cached->prefixes[k]);
            cached->prefixes[k] = NULL;
        }
        buffer_free(&cached->part);
    }
    if (names != NULL)
        buffer_free(&names->text);
}

void sidecar_close(struct sidecar *sidecar)
{
    struct names *names;
    struct arena memory;

    if (sidecar == NULL)
        return;
    sidecar_drop_cached(sidecar);
    names = atomic_load(&sidecar->cache->names);
    if (names != NULL)
        names_free(names);
    free(names);
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

void sidecar_limit_memory(struct sidecar *sidecar, uint64_t limit)
{
    if (limit != 0)
        sidecar->memory_limit = limit;
    if (limit > sidecar->work_limit)
        sidecar->work_limit = limit;
}
