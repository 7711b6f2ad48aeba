/*
 * Objects and archives of them: packed, or kept with a reason. What is packed has the same coverage
 * mapping, byte for byte, and is not packed a second time.
 *
 * The mapping of both objects is found by readers that the product does not use: libelf, and a few
 * lines for COFF.
 */
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/codec/packed_units/unpack.h"
#include "common/llvm/coverage.h"
#include "formats/object/archive.h"
#include "formats/object/object.h"
#include "tests/fuzz/support.h"
#include "tests/fuzz/windows.h"

/* What an archive may grow by: paddings, and the numbers in its index. */
#define GROWTH_MAX (UINT64_C(1) << 16)

/* ---- the mapping of an object ---- */

/* The contents of all its sections of these kinds, as a linker puts them behind each other. */
struct object_mapping {
    struct buffer covmap, covfun;
    bool big_endian;
};

static void append(struct buffer *to, const void *data, size_t size)
{
    uint64_t padding = align_up(to->size, COVERAGE_ALIGNMENT) - to->size;

    FUZZ_EXPECT(buffer_append_zeros(to, padding) && buffer_append(to, data, size),
                "no memory for the target");
}

static void find_in_elf(struct bytes object, struct object_mapping *mapping)
{
    Elf *elf;
    Elf_Scn *section = NULL;
    GElf_Ehdr header;
    size_t names;

    elf_version(EV_CURRENT);
    elf = elf_memory((char *)(uintptr_t)object.data, object.size);
    FUZZ_EXPECT(elf != NULL && gelf_getehdr(elf, &header) != NULL &&
                    elf_getshdrstrndx(elf, &names) == 0,
                "libelf cannot read the object: %s", elf_errmsg(-1));
    mapping->big_endian = header.e_ident[EI_DATA] == ELFDATA2MSB;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr shdr;
        const char *name =
            gelf_getshdr(section, &shdr) == NULL ? NULL : elf_strptr(elf, names, shdr.sh_name);
        Elf_Data *data = elf_rawdata(section, NULL);

        if (name == NULL || data == NULL || data->d_buf == NULL)
            continue;
        if (strcmp(name, "__llvm_covmap") == 0)
            append(&mapping->covmap, data->d_buf, data->d_size);
        else if (strcmp(name, "__llvm_covfun") == 0)
            append(&mapping->covfun, data->d_buf, data->d_size);
    }
    elf_end(elf);
}

/* Offsets in the headers of an object, or of a /bigobj, and in that of a section. */
#define COFF_HEADER_SIZE  20
#define COFF_SECTIONS     2
#define COFF_SYMBOLS      8
#define COFF_SYMBOL_SIZE  18
#define BIG_HEADER_SIZE   56
#define BIG_SECTIONS      44
#define BIG_SYMBOLS       48
#define BIG_SYMBOL_SIZE   20
#define SECTION_SIZE      40
#define SECTION_DATA_SIZE 16
#define SECTION_DATA      20
#define SHORT_NAME_SIZE   8

/* Whether a section's name, without what is behind '$', is this one. */
static bool has_name(struct bytes strings, const uint8_t *header, const char *wanted)
{
    char text[SHORT_NAME_SIZE + 1] = {0};
    const char *name = text;

    memcpy(text, header, SHORT_NAME_SIZE);
    if (text[0] == '/') {
        uint64_t offset = strtoul(text + 1, NULL, 10);

        if (offset >= strings.size)
            return false;
        name = (const char *)strings.data + offset; /* the table ends with a NUL: it was accepted */
    }
    return strncmp(name, wanted, strlen(wanted)) == 0 &&
           (name[strlen(wanted)] == '\0' || name[strlen(wanted)] == '$');
}

static void find_in_coff(struct bytes object, struct object_mapping *mapping)
{
    const uint8_t *at = object.data;
    bool big = load_u16(at, false) == 0;
    uint64_t count = big ? load_u32(at + BIG_SECTIONS, false) : load_u16(at + COFF_SECTIONS, false);
    uint64_t symbols = load_u32(at + (big ? BIG_SYMBOLS : COFF_SYMBOLS), false);
    uint64_t symbol_count = load_u32(at + (big ? BIG_SYMBOLS : COFF_SYMBOLS) + 4, false);
    uint64_t place = symbols + symbol_count * (big ? BIG_SYMBOL_SIZE : COFF_SYMBOL_SIZE);
    struct bytes strings = {0}, headers, content;

    if (symbols != 0)
        bytes_slice(object, place, object.size - place, &strings);
    FUZZ_EXPECT(bytes_slice(object, big ? BIG_HEADER_SIZE : COFF_HEADER_SIZE, count * SECTION_SIZE,
                            &headers),
                "an object with section headers beyond its end was packed");
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *header = headers.data + i * SECTION_SIZE;
        bool is_covmap = has_name(strings, header, ".lcovmap");

        if ((is_covmap || has_name(strings, header, ".lcovfun")) &&
            bytes_slice(object, load_u32(header + SECTION_DATA, false),
                        load_u32(header + SECTION_DATA_SIZE, false), &content))
            append(is_covmap ? &mapping->covmap : &mapping->covfun, content.data,
                   (size_t)content.size);
    }
}

static struct object_mapping mapping_of(struct bytes object)
{
    struct object_mapping mapping = {.big_endian = false};

    if (object.size > SELFMAG && memcmp(object.data, ELFMAG, SELFMAG) == 0)
        find_in_elf(object, &mapping);
    else
        find_in_coff(object, &mapping);
    append(&mapping.covmap, NULL, 0);
    append(&mapping.covfun, NULL, 0);
    return mapping;
}

/* ---- promises ---- */

static void expect_same_mapping(struct bytes object, struct bytes packed)
{
    struct object_mapping before = mapping_of(object), after = mapping_of(packed);
    struct mapping_sections linked = {buffer_view(&after.covmap), buffer_view(&after.covfun)};
    struct object_mapping made = {.big_endian = false};
    struct error error;

    FUZZ_EXPECT(unpack_mapping(&linked, after.big_endian, memory_limit_for(packed.size), "object",
                               &made.covmap, &made.covfun, &error),
                "what was packed cannot be unpacked: %s", error.message);
    append(&made.covmap, NULL, 0);
    append(&made.covfun, NULL, 0);
    FUZZ_EXPECT(bytes_equal(buffer_view(&before.covmap), buffer_view(&made.covmap)),
                "packing has changed the units");
    FUZZ_EXPECT(bytes_equal(buffer_view(&before.covfun), buffer_view(&made.covfun)),
                "packing has changed the records");
    buffer_free(&before.covmap);
    buffer_free(&before.covfun);
    buffer_free(&after.covmap);
    buffer_free(&after.covfun);
    buffer_free(&made.covmap);
    buffer_free(&made.covfun);
}

static struct object_packing pack(struct bytes object)
{
    struct object_packing packing = {.outcome = OBJECT_NOT_ONE};
    struct error error;

    FUZZ_EXPECT(object_pack(object, "object", &packing, &error), "%s", error.message);
    FUZZ_EXPECT((packing.outcome == OBJECT_KEPT) == (packing.reason[0] != '\0'),
                "an object is kept without a reason, or there is a reason for another outcome");
    FUZZ_EXPECT((packing.outcome == OBJECT_PACKED) == (packing.contents.size != 0),
                "an object is packed without contents, or there are contents of another outcome");
    return packing;
}

/* Returns what was made of it. */
static struct object_packing try_object(struct bytes object)
{
    struct object_packing packing = pack(object), again;

    if (packing.outcome != OBJECT_PACKED)
        return packing;
    expect_same_mapping(object, buffer_view(&packing.contents));
    again = pack(buffer_view(&packing.contents));
    FUZZ_EXPECT(again.outcome == OBJECT_NO_COVERAGE, "a packed object is not known as one: %s",
                again.reason);
    object_packing_free(&again);
    return packing;
}

/* ---- archives ---- */

/* Packs the members, as `covsplit pack` does. The contents are to be freed. */
static struct object_packing *pack_members(struct archive *archive)
{
    struct object_packing *packings = calloc(archive->count + 1, sizeof(*packings));

    FUZZ_EXPECT(packings != NULL, "no memory for the target");
    for (size_t i = 0; i < archive->count; i++) {
        struct archive_member *member = &archive->members[i];

        if (member->role != ARCHIVE_FILE || !member->has_contents)
            continue;
        packings[i] = try_object(member->contents);
        member->has_changed = packings[i].outcome == OBJECT_PACKED;
        member->has_no_records = member->has_changed || packings[i].outcome == OBJECT_NO_COVERAGE;
        member->new_contents = buffer_view(&packings[i].contents);
    }
    return packings;
}

static void expect_same_members(const struct archive *before, const struct archive *after)
{
    FUZZ_EXPECT(before->count == after->count && before->is_thin == after->is_thin,
                "an archive has another number of members");
    for (size_t i = 0; i < before->count; i++) {
        const struct archive_member *a = &before->members[i], *b = &after->members[i];

        FUZZ_EXPECT(a->role == b->role && bytes_equal(a->name, b->name),
                    "a member has become another");
        if (a->role == ARCHIVE_FILE)
            FUZZ_EXPECT(bytes_equal(a->has_changed ? a->new_contents : a->contents, b->contents),
                        "a member has other contents");
    }
}

static bool is_unknown(const struct archive *archive)
{
    for (size_t i = 0; i < archive->count; i++) {
        if (archive->members[i].role == ARCHIVE_UNKNOWN)
            return true;
    }
    return false;
}

static void free_members(struct object_packing *packings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        object_packing_free(&packings[i]);
    free(packings);
}

static void rewrite_archive(struct archive *archive)
{
    struct fuzz_collection written = {.limit = 2 * archive->bytes.size + GROWTH_MAX};
    struct object_packing *packings = pack_members(archive), *again;
    struct archive second = {.count = 0};
    struct error error;

    if (!archive_write(archive, fuzz_collect, &written, &error)) {
        fuzz_expect_reason(&error);
    } else {
        FUZZ_EXPECT(archive_read(&second, buffer_view(&written.bytes), "archive", &error),
                    "an archive that was written cannot be read: %s", error.message);
        expect_same_members(archive, &second);
        again = pack_members(&second);
        for (size_t i = 0; i < second.count; i++)
            FUZZ_EXPECT(!second.members[i].has_changed, "a member is packed a second time");
        FUZZ_EXPECT(!archive_index_changes(&second), "the index changes a second time");
        free_members(again, second.count);
    }
    archive_free(&second);
    free_members(packings, archive->count);
    buffer_free(&written.bytes);
}

static void try_archive(struct bytes bytes)
{
    struct archive archive = {.count = 0};
    struct error error;

    if (!archive_read(&archive, bytes, "archive", &error))
        fuzz_expect_reason(&error);
    else if (!is_unknown(&archive))
        rewrite_archive(&archive);
    archive_free(&archive);
}

static void find_windows(struct bytes object, struct fuzz_windows *windows)
{
    fuzz_elf_windows(object, windows);
    if (windows->count == 0 && !archive_recognize(object))
        fuzz_coff_windows(object, windows);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate(data, size, max_size, seed, find_windows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};

    if (archive_recognize(bytes)) {
        try_archive(bytes);
    } else {
        struct object_packing packing = try_object(bytes);
        bool is_object = packing.outcome != OBJECT_NOT_ONE;

        object_packing_free(&packing);
        return is_object ? 0 : -1;
    }
    return 0;
}
