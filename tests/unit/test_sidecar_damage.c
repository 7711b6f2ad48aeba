/*
 * Sidecars that are damaged or hostile: no byte may change unnoticed, nothing may be read outside
 * the file, and no size in it may be believed.
 *
 * Most damage fails at the seal. So that the checks behind it are tried as well, there is a second
 * round in which the seal is put right again, by code of its own that follows docs/format.md.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/elf_file/elf_file.h"
#include "common/llvm/names.h"
#include "common/sidecar/exported.h"
#include "common/sidecar/sidecar.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"
#include "tests/unit/sidecar_sample.h"

/* ---- the layout of an intact file, found without the code under test ---- */

/* The three numbers, and the owner with its padding. */
#define NOTE_HEADER_SIZE 24

struct layout {
    uint64_t section_headers;
    unsigned count;
    uint64_t note; /* offset of the description of the note of owner "covsplit" */
    uint32_t note_size;
    uint64_t contents[16]; /* offsets of the compressed sections, in order */
    uint64_t content_sizes[16];
    unsigned content_count;
};

/* For the first sample shape: ELFCLASS64, little-endian. */
static Elf64_Shdr section_header(const struct buffer *file, uint64_t offset)
{
    const uint8_t *at = file->data + offset;

    return (Elf64_Shdr){.sh_type = load_u32(at + 4, false),
                        .sh_flags = load_u64(at + 8, false),
                        .sh_offset = load_u64(at + 24, false),
                        .sh_size = load_u64(at + 32, false)};
}

static struct layout layout_of(const struct buffer *file)
{
    struct layout layout = {.section_headers = load_u64(file->data + 40, false),
                            .count = load_u16(file->data + 60, false)};

    for (unsigned i = 1; i < layout.count; i++) {
        Elf64_Shdr header = section_header(file, layout.section_headers + i * sizeof(Elf64_Shdr));
        if (i == 1) {
            const uint64_t uuid_size = sizeof(SAMPLE_UUID) / 2;

            ck_assert_uint_eq(header.sh_type, SHT_NOTE);
            layout.note = header.sh_offset + 16 + uuid_size + NOTE_HEADER_SIZE;
            ck_assert_uint_eq(load_u32(file->data + layout.note - 16, false), 0x1001);
            layout.note_size = load_u32(file->data + layout.note - 20, false);
        }
        if ((header.sh_flags & SHF_COMPRESSED) == 0)
            continue;
        layout.contents[layout.content_count] = header.sh_offset;
        layout.content_sizes[layout.content_count++] = header.sh_size;
    }
    return layout;
}

static void reseal(struct buffer *file, const struct layout *layout)
{
    FREED_BY(buffer_free) struct buffer sealed = {0};
    uint8_t *seal = file->data + layout->note + sizeof(uint32_t);
    uint64_t position = 0;
    struct digest digest;

    memset(seal, 0, DIGEST_SIZE);
    for (unsigned i = 0; i < layout->content_count; i++) {
        ck_assert(buffer_append(&sealed, file->data + position,
                                (size_t)(layout->contents[i] + sizeof(Elf64_Chdr) - position)));
        position = layout->contents[i] + layout->content_sizes[i];
    }
    ck_assert(buffer_append(&sealed, file->data + position, file->size - (size_t)position));
    digest = digest_of(buffer_view(&sealed));
    memcpy(seal, digest.bytes, DIGEST_SIZE);
}

/* The sidecar of the first sample. */
static struct buffer intact_file(void)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);

    return sample_write(&sample->source, 9, 1);
}

static const char *refusal(const struct buffer *file)
{
    static struct error error;
    struct sidecar *sidecar;

    error = (struct error){0};
    sidecar = sidecar_open(buffer_view(file), "bad", &error);
    ck_assert_ptr_null(sidecar);
    ck_assert_ptr_nonnull(strstr(error.message, "bad: "));
    return error.message;
}

/* Everything that can be done with bytes that may be a sidecar. True where all of it went well. */
static bool try_everything(const struct sample *sample, struct bytes file)
{
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sidecar_open(file, "damaged", &error);
    bool good = sidecar != NULL && sidecar_verify(sidecar, &error), exported;

    ck_assert(good == (error.message[0] == '\0'));
    sidecar_recognize(file);
    if (sidecar != NULL) {
        bool restored = sample_restores(sample, sidecar);
        ck_assert(!good || restored);
        for (size_t i = 0; i < sidecar->section_count; i++) {
            FREED_BY(buffer_free) struct buffer content = {0};
            sidecar_read_section(sidecar, &sidecar->sections[i], &content, &error);
        }
        if (good)
            ck_assert(sample_agrees(sample, sidecar));
        exported = export_write(sidecar, sample_ignore, NULL, &error);
        ck_assert(!good || exported);
    }
    return good;
}

/* ---- damage ---- */

/* What is not noticed (bits of a zstd frame that say nothing) must not change a thing. */
START_TEST(test_every_byte)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);
    const uint8_t flips[] = {0x01, 0x80, 0xff};
    size_t harmless = 0;

    ck_assert(try_everything(sample, buffer_view(&file)));
    for (size_t i = 0; i < file.size; i += rounds_step()) {
        for (size_t j = 0; j < sizeof(flips); j++) {
            file.data[i] ^= flips[j];
            harmless += try_everything(sample, buffer_view(&file));
            file.data[i] ^= flips[j];
        }
    }
    ck_assert_uint_le(harmless, 3 * 5); /* some bits of frame headers */
}
END_TEST

/* Names, of which nothing else in the sidecar tells. */
static void put_names(struct buffer *section, uint64_t seed, bool compressed)
{
    struct random_state random = random_start(seed);
    char names[1024];
    size_t size = 0;

    for (unsigned i = 0; i < 40; i++)
        size += (size_t)snprintf(names + size, sizeof(names) - size, "%s_Z%u%x", i == 0 ? "" : "\1",
                                 i, (unsigned)random_below(&random, UINT32_MAX));
    name_chunk_put(section, names, compressed);
}

static bool read_names(const struct buffer *file, struct names *names)
{
    struct error error;
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sidecar_open(buffer_view(file), "bad", &error);

    return sidecar != NULL &&
           sidecar_read_names(sidecar, sidecar_find(sidecar, SECTION_NAMES), names, &error);
}

/* Names that are read without the rest of their section are not under its digest. */
START_TEST(test_every_byte_of_names)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer section = {0}, file;
    struct names good = {0}, found = {0};

    put_names(&section, 1, true);
    put_names(&section, 2, _i == 0);
    for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
        if (sample->sections[i].kind == SECTION_NAMES) {
            sample->sections[i].content = buffer_view(&section);
            sample->sections[i].size = section.size;
        }
    }
    file = sample_write_compact(&sample->source);
    ck_assert(read_names(&file, &good));
    ck_assert_uint_eq(good.count, 80);
    for (size_t i = 0; i < file.size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            file.data[i] ^= (uint8_t)(1u << bit);
            if (read_names(&file, &found))
                ck_assert_msg(bytes_equal(buffer_view(&found.text), buffer_view(&good.text)),
                              "byte %zu, bit %u", i, bit);
            names_free(&found);
            file.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    names_free(&good);
}
END_TEST

START_TEST(test_every_truncation)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);

    for (size_t size = 0; size < file.size; size++) {
        /* A copy of just this size, so that reading behind it is noticed. */
        FREED_BY(buffer_free) struct buffer part = {0};
        ck_assert(buffer_append(&part, file.data, size));
        if (size != 0) {
            uint8_t *exact = realloc(part.data, size);
            ck_assert_ptr_nonnull(exact);
            part.data = exact;
        }
        refusal(&part);
        ck_assert(!try_everything(sample, buffer_view(&part)));
    }
    ck_assert(buffer_append_zeros(&file, 1));
    refusal(&file);
}
END_TEST

START_TEST(test_hostile_elf_headers)
{
    static const struct {
        unsigned offset, size;
        uint64_t value;
    } cases[] = {
        {40, 8, 0},      {40, 8, UINT64_MAX}, {40, 8, UINT64_MAX - 63},
        {40, 8, 1},      {58, 2, 0},          {58, 2, 63},
        {58, 2, 65},     {60, 2, 0},          {60, 2, 0xffff},
        {60, 2, 0xfeff}, {60, 2, 65},         {62, 2, 0},
        {62, 2, 0xffff}, {62, 2, 0xfff1},     {4, 1, 0},
        {4, 1, 1},       {4, 1, 3},           {5, 1, 0},
        {5, 1, 2},       {6, 1, 0},           {6, 1, 2},
        {16, 2, ET_REL}, {16, 2, ET_CORE},
    };
    FREED_BY(buffer_free) struct buffer file = intact_file();
    const struct layout layout = layout_of(&file);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FREED_BY(buffer_free) struct buffer damaged = {0};
        uint8_t number[8];

        ck_assert(buffer_append(&damaged, file.data, file.size));
        store_u64(number, cases[i].value, false);
        memcpy(damaged.data + cases[i].offset, number, cases[i].size);
        reseal(&damaged, &layout);
        refusal(&damaged);
    }
}
END_TEST

/* ---- versions ---- */

START_TEST(test_other_format_is_refused)
{
    FREED_BY(buffer_free) struct buffer file = intact_file();
    const struct layout layout = layout_of(&file);

    store_u32(file.data + layout.note, 6, false);
    ck_assert(sidecar_recognize(buffer_view(&file)));
    ck_assert_str_eq(refusal(&file), "bad: sidecar of format version 6; this covsplit reads "
                                     "version 5; use a newer covsplit");
    store_u32(file.data + layout.note, 4, false);
    ck_assert_str_eq(refusal(&file),
                     "bad: sidecar of format version 4; this covsplit reads version 5; split the "
                     "image again, or use the covsplit that wrote it");
}
END_TEST

/* A section in a form of a later version, all else being in order. */
START_TEST(test_unknown_form_is_refused)
{
    FREED_BY(buffer_free) struct buffer file = intact_file();
    const struct layout layout = layout_of(&file);

    store_u32(file.data + layout.contents[0], 0x6c7603ff, false);
    reseal(&file, &layout);
    ck_assert_str_eq(refusal(&file),
                     "bad: __llvm_covmap is stored in a form (ch_type 0x6c7603ff) that this "
                     "version of covsplit does not read; split the image again, or use the "
                     "covsplit that wrote it");
}
END_TEST

/* All else being in order, a note that is cut short, or too long, is refused, and so is another one
 * in its place. */
START_TEST(test_cut_note)
{
    FREED_BY(buffer_free) struct buffer file = intact_file();
    const struct layout layout = layout_of(&file);
    uint8_t *size = file.data + layout.note - 20;

    for (uint32_t i = 0; i < align_up(layout.note_size, 4) + 8; i++) {
        if (i == layout.note_size)
            continue;
        store_u32(size, i, false);
        if (i >= sizeof(uint32_t) + DIGEST_SIZE)
            reseal(&file, &layout);
        refusal(&file);
    }
    store_u32(size, layout.note_size, false);
    reseal(&file, &layout);
    sidecar_close(sample_open(&file));
    store_u32(size + 4, 0x1fff, false);
    reseal(&file, &layout);
    ck_assert_ptr_nonnull(strstr(refusal(&file), "not a sidecar"));
}
END_TEST

/* Digests and seal are right, but image and profiles have another stub than these sections make. */
START_TEST(test_sections_of_another_image)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    struct buffer good = sample_write(&sample->source, 9, 1);
    struct sidecar *sidecar = sample_open(&good);

    memcpy(sample->source.facts.stub_id, sidecar->facts.stub_id, PROFILE_STUB_ID_SIZE);
    sidecar_close(sidecar);
    buffer_free(&good);

    for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
        struct bytes content = sample->sections[i].content;
        struct buffer other = {0}, file;

        if (content.size == 0)
            continue;
        ck_assert(buffer_append(&other, content.data, (size_t)content.size));
        other.data[other.size / 2] ^= 1;
        sample->sections[i].content = buffer_view(&other);
        file = sample_write(&sample->source, 9, 1);
        ck_assert_str_eq(refusal(&file),
                         "bad: the sidecar is damaged (its sections or its UUID are "
                         "not those that its image's stub tells); get an intact "
                         "copy");
        sample->sections[i].content = content;
        buffer_free(&file);
        buffer_free(&other);
    }
}
END_TEST

START_TEST(test_no_sidecar)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);

    ck_assert(!sidecar_recognize((struct bytes){0}));
    ck_assert(!sidecar_recognize(buffer_view(&sample->original)));
    ck_assert_ptr_nonnull(strstr(refusal(&sample->original), "not a sidecar"));
}
END_TEST

/* ---- sizes ---- */

/* A frame of five bytes that claims, like its section, to hold 1 TiB. */
START_TEST(test_claimed_terabyte)
{
    const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xc0, 17 << 3, 0, 0, 0,
                             0,    0,    1,    0,    0,    0x2b,    0, 0, 'a'};
    const uint64_t claimed = UINT64_C(1) << 40;
    const struct rlimit limit = {UINT64_C(8) << 30, UINT64_C(8) << 30};
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1), content = {0};
    const struct layout layout = layout_of(&file);
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    struct error error = {0};

    store_u64(file.data + layout.contents[0] + 8, claimed, false);
    memcpy(file.data + layout.contents[0] + sizeof(Elf64_Chdr), frame, sizeof(frame));
    reseal(&file, &layout);
    if (!IS_SANITIZED) /* whose shadow is larger than any limit */
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    sidecar = sample_open(&file);
    ck_assert_uint_eq(sidecar->sections[0].size, claimed);
    ck_assert(!sidecar_read_section(sidecar, &sidecar->sections[0], &content, &error));
    ck_assert_uint_le(content.capacity, 4 << 20);
    ck_assert(!sidecar_verify(sidecar, &error));
    ck_assert(!sample_restores(sample, sidecar));
}
END_TEST

/* Many zeros in a small file are refused where they would be held; where that is allowed, they take
 * what they are, and no more. */
START_TEST(test_many_zeros)
{
    const size_t size = ((size_t)200 << 20) + 1;
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    uint8_t *zeros = calloc(1, size);
    FREED_BY(buffer_free) struct buffer file, content = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    struct error error = {0};

    ck_assert_ptr_nonnull(zeros);
    sample->sections[1].size = size;
    sample->sections[1].content = (struct bytes){zeros, size};
    file = sample_write(&sample->source, 1, 2);
    free(zeros);
    ck_assert_uint_le(file.size, 100000);
    sidecar = sample_open(&file);
    ck_assert(
        !sidecar_read_section(sidecar, sidecar_find(sidecar, SECTION_COVFUN), &content, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "--memory-limit"));
    ck_assert_ptr_null(content.data);
    ck_assert(sidecar_verify(sidecar, &error));
    sidecar_limit_memory(sidecar, size);
    ck_assert_msg(
        sidecar_read_section(sidecar, sidecar_find(sidecar, SECTION_COVFUN), &content, &error),
        "%s", error.message);
    ck_assert_uint_eq(content.size, size);
    ck_assert_uint_eq(content.capacity, size);
    ck_assert(bytes_all_zero(buffer_view(&content)));
    ck_assert(sidecar_verify(sidecar, &error));
}
END_TEST

/* Many segments that are all the same notes take no longer than these. */
START_TEST(test_overlapping_notes)
{
    const size_t count = 60000, notes = (size_t)8 << 20;
    const size_t start = sizeof(Elf64_Ehdr) + count * sizeof(Elf64_Phdr);
    const Elf64_Ehdr ehdr = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_phoff = sizeof(ehdr),
                             .e_ehsize = sizeof(ehdr),
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = (Elf64_Half)count};
    const Elf64_Phdr phdr = {.p_type = PT_NOTE, .p_offset = start, .p_filesz = notes};
    FREED_BY(buffer_free) struct buffer file = {0};
    struct uuid uuid;

    buffer_append(&file, &ehdr, sizeof(ehdr));
    for (size_t i = 0; i < count; i++)
        buffer_append(&file, &phdr, sizeof(phdr));
    ck_assert(buffer_append_zeros(&file, notes));
    ck_assert(!elf_file_build_id(buffer_view(&file), &uuid));
}
END_TEST

int main(void)
{
    TCase *damage = suite_case("damage", 300, NULL);
    suite_loops(damage, SAMPLE_SHAPES, test_every_byte);
    suite_loops(damage, 2, test_every_byte_of_names);
    suite_loops(damage, SAMPLE_SHAPES, test_every_truncation);
    suite_tests(damage, test_overlapping_notes, test_hostile_elf_headers);
    TCase *versions = tcase_create("versions");
    suite_tests(versions, test_other_format_is_refused, test_unknown_form_is_refused, test_cut_note,
                test_sections_of_another_image, test_no_sidecar);
    TCase *sizes = suite_case("sizes", 120, NULL);
    suite_tests(sizes, test_claimed_terabyte, test_many_zeros);
    return suite_main("sidecar damage", damage, versions, sizes);
}
