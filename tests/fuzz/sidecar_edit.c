/*
 * Changing sidecars: see sidecar_edit.h.
 */
#include "tests/fuzz/sidecar_edit.h"

#include <elf.h>
#include <string.h>

#include "common/codec/zstd.h"
#include "common/elf_file/elf_file.h"
#include "common/sidecar/sidecar.h"

/* gABI, "Section Compression"; older versions of libelf do not define it. */
#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define INVERSE ".covsplit.inverse"

/* In the note, behind version and seal: flags, the format, the source of the UUID, the raw version,
 * and the size, the digest and the stripped size of the image. */
#define NOTE_FRONT      20
#define NOTE_NUMBERS    7
#define NOTE_SIZE       4
#define NOTE_DIGEST     5
#define NOTE_SIZE_AFTER 6

/* No contents that a mutator works on are larger. */
#define CONTENT_MAX (1u << 20)

/* Where a number is in the headers of each class, and how wide it is. */
struct place {
    size_t offset, width;
};

struct places {
    struct place section_table; /* e_shoff */
    size_t section_header;      /* the size of one */
    struct place offset, size;  /* in a section header */
    struct place content_size;  /* in a compression header */
};

static const struct places places_of[2] = {
    {{32, 4}, sizeof(Elf32_Shdr), {16, 4}, {20, 4}, {4, 4}},
    {{40, 8}, sizeof(Elf64_Shdr), {24, 8}, {32, 8}, {8, 8}},
};

static void store(uint8_t *to, struct place place, uint64_t value, bool big_endian)
{
    if (place.width == 4)
        store_u32(to + place.offset, (uint32_t)value, big_endian);
    else
        store_u64(to + place.offset, value, big_endian);
}

static bool is_big_endian(const struct elf_reader *file)
{
    return file->elf.big_endian;
}

const char *sidecar_edit_name(struct bytes sidecar, size_t index)
{
    struct elf_reader file;

    if (!elf_reader_open(&file, sidecar))
        return NULL;
    for (size_t i = 1; i < file.section_count; i++) {
        if ((file.sections[i].header.sh_flags & SHF_COMPRESSED) != 0 && index-- == 0)
            return file.sections[i].name;
    }
    return NULL;
}

/* ---- reading ---- */

/* A part that is a zstd frame, which no other part is needed for. */
static bool read_frame(struct bytes sidecar, const char *name, struct buffer *content)
{
    const struct elf_reader_section *section;
    struct elf_reader file;
    struct encoded frame = {.name = "sidecar", .what = name};
    struct error error;
    Elf64_Chdr header;

    if (!elf_reader_open(&file, sidecar) || (section = elf_reader_find(&file, name)) == NULL ||
        !elf_reader_compression_header(&file, section->stored, &header, &frame.bytes) ||
        header.ch_size > CONTENT_MAX)
        return false;
    frame.size = header.ch_size;
    return codec_decompress(&frame, content, &error);
}

bool sidecar_edit_read(struct bytes sidecar, const char *name, struct buffer *content)
{
    struct error error = {0};
    const struct section *section;
    enum section_kind kind;
    struct sidecar *opened;
    bool done;

    if (!section_kind_of_name(name, &kind))
        return read_frame(sidecar, name, content);
    opened = sidecar_open(sidecar, "sidecar", &error);
    section = opened == NULL ? NULL : sidecar_find(opened, kind);
    done = section != NULL && section->size <= CONTENT_MAX &&
           sidecar_read_section(opened, section, content, &error);
    sidecar_close(opened);
    return done;
}

/* ---- writing ---- */

/* Replaces `old_size` bytes at `offset`, and moves the sections behind them, which stay aligned. */
static bool replace_stored(struct buffer *sidecar, const struct elf_reader *file, size_t index,
                           struct bytes stored)
{
    const struct places *places = &places_of[file->elf.wide];
    const Elf64_Shdr *old = &file->sections[index].header;
    uint64_t end = old->sh_offset + old->sh_size;
    uint64_t padding = (old->sh_size - stored.size) % 8;
    uint64_t by = stored.size + padding - old->sh_size; /* modulo 2^64, a multiple of 8 */
    struct buffer made = {0};
    bool big = is_big_endian(file);
    uint8_t *headers;

    if (file->elf.header.e_shoff < end ||
        !buffer_append(&made, sidecar->data, (size_t)old->sh_offset) ||
        !buffer_append(&made, stored.data, (size_t)stored.size) ||
        !buffer_append_zeros(&made, (size_t)padding) ||
        !buffer_append(&made, sidecar->data + end, sidecar->size - (size_t)end)) {
        buffer_free(&made);
        return false;
    }
    store(made.data, places->section_table, file->elf.header.e_shoff + by, big);
    headers = made.data + (size_t)(file->elf.header.e_shoff + by);
    for (size_t i = 1; i < file->section_count; i++) {
        if (file->sections[i].header.sh_offset >= end)
            store(headers + i * places->section_header, places->offset,
                  file->sections[i].header.sh_offset + by, big);
    }
    store(headers + index * places->section_header, places->size, stored.size, big);
    buffer_free(sidecar);
    *sidecar = made;
    return true;
}

static size_t find_index(const struct elf_reader *file, const char *name)
{
    for (size_t i = 1; i < file->section_count; i++) {
        if (strcmp(file->sections[i].name, name) == 0)
            return i;
    }
    return 0;
}

bool sidecar_edit_write(struct buffer *sidecar, const char *name, struct bytes content)
{
    struct elf_reader file;
    struct buffer stored = {0};
    struct error error;
    size_t index, header_size;
    bool done;

    if (!elf_reader_open(&file, buffer_view(sidecar)) || (index = find_index(&file, name)) == 0)
        return false;
    header_size = ELF_SIZE(file.elf.wide, Chdr);
    if (file.sections[index].stored.size < header_size)
        return false;
    done = buffer_append(&stored, file.sections[index].stored.data, header_size) &&
           codec_compress_once(content, 1, false, "sidecar", &stored, &error);
    if (done) {
        store_u32(stored.data, ELFCOMPRESS_ZSTD, is_big_endian(&file));
        store(stored.data, places_of[file.elf.wide].content_size, content.size,
              is_big_endian(&file));
        done = replace_stored(sidecar, &file, index, buffer_view(&stored));
    }
    buffer_free(&stored);
    return done;
}

/* What the script makes of a stripped image of this size. */
static bool measure(struct bytes script, uint64_t stripped_size, uint64_t *size)
{
    uint64_t count, literals, number[4], offset;

    *size = stripped_size;
    if (!bytes_take_uleb128(&script, &count) || !bytes_take_uleb128(&script, &literals))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        for (size_t part = 0; part < 4; part++) {
            if (!bytes_take_uleb128(&script, &number[part]))
                return false;
        }
        if (number[3] != 0 && !bytes_take_uleb128(&script, &offset))
            return false;
        *size += number[2] - number[1];
    }
    return true;
}

/* The description of the note of owner "covsplit". */
static uint8_t *find_note(struct buffer *sidecar, size_t *size)
{
    struct elf_reader file;
    struct elf_note_list list;
    struct elf_note note;
    size_t offset = 0;

    if (!elf_reader_open(&file, buffer_view(sidecar)) ||
        !elf_reader_notes(&file, ELF_BUILD_ID_SECTION, &list))
        return NULL;
    while (elf_note_next(&list, &offset, &note)) {
        if (note.type == SIDECAR_NOTE_TYPE) {
            *size = (size_t)note.description.size;
            return sidecar->data + (note.description.data - sidecar->data);
        }
    }
    return NULL;
}

/* Puts a number in place of another, with as many bytes, if it fits into them. */
static void put_number(uint8_t *at, size_t width, uint64_t value)
{
    if (width * 7 < 64 && value >> (width * 7) != 0)
        return;
    for (size_t i = 0; i < width; i++, value >>= 7)
        at[i] = (uint8_t)((value & 0x7f) | (i + 1 < width ? 0x80 : 0));
}

void sidecar_edit_fit_image(struct buffer *sidecar, uint64_t stripped_size)
{
    struct buffer script = {0};
    struct bytes rest;
    uint64_t size, number;
    uint8_t *places[NOTE_NUMBERS], *note;
    size_t note_size = 0;

    note = find_note(sidecar, &note_size);
    if (note == NULL || note_size < NOTE_FRONT)
        return;
    rest = (struct bytes){note + NOTE_FRONT, note_size - NOTE_FRONT};
    for (size_t i = 0; i < NOTE_NUMBERS; i++) {
        places[i] = note + (note_size - (size_t)rest.size);
        if (!(i == NOTE_DIGEST ? bytes_slice(rest, 16, rest.size - 16, &rest)
                               : bytes_take_uleb128(&rest, &number)))
            return;
    }
    if (read_frame(buffer_view(sidecar), INVERSE, &script) &&
        measure(buffer_view(&script), stripped_size, &size))
        put_number(places[NOTE_SIZE], (size_t)(places[NOTE_DIGEST] - places[NOTE_SIZE]), size);
    put_number(places[NOTE_SIZE_AFTER], (size_t)(rest.data - places[NOTE_SIZE_AFTER]),
               stripped_size);
    buffer_free(&script);
}
