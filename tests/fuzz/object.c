/*
 * Objects and archives of them: packed, or kept with a reason. What is packed has the same coverage
 * mapping, byte for byte, and is not packed a second time.
 *
 * The mapping of both objects is found by a reader that the product does not use: libelf.
 */
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/codec/packed_units/packed_unit.h"
#include "common/llvm/coverage.h"
#include "formats/object/packing.h"
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

static struct object_mapping mapping_of(struct bytes object)
{
    struct object_mapping mapping = {.big_endian = false};

    find_in_elf(object, &mapping);
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
    FREED_BY(archive_free) struct archive second = {.count = 0};
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
    free_members(packings, archive->count);
    buffer_free(&written.bytes);
}

static void try_archive(struct bytes bytes)
{
    FREED_BY(archive_free) struct archive archive = {.count = 0};
    struct error error;

    if (!archive_read(&archive, bytes, "archive", &error))
        fuzz_expect_reason(&error);
    else if (!is_unknown(&archive))
        rewrite_archive(&archive);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate(data, size, max_size, seed, fuzz_elf_windows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};

    if (archive_recognize(bytes)) {
        try_archive(bytes);
    } else {
        FREED_BY(object_packing_free) struct object_packing packing = try_object(bytes);
        bool is_object = packing.outcome != OBJECT_NOT_ONE;

        return is_object ? 0 : -1;
    }
    return 0;
}
