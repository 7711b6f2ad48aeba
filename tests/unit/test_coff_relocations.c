/*
 * Base relocation tables: who is told of, what is taken out, and tables that are damaged. Linkers
 * seldom make relocations into the sections that a split removes, so a table is made by hand.
 */
#include <stdlib.h>
#include <string.h>

#include "formats/coff/coff.h"
#include "tests/support/suite.h"

#define BASE          UINT64_C(0x140000000)
#define DATA_RVA      0x1000u
#define DATA_SIZE     0x3000u
#define TABLE_RVA     0x5000u
#define TABLE_OFFSET  DATA_SIZE
#define FILE_SIZE     (DATA_SIZE + 0x200u)
#define DIR64(offset) (uint16_t)(10u << 12 | (offset))

struct table {
    uint8_t file[FILE_SIZE];
    uint32_t size;
    struct coff_section sections[2];
    struct coff_image image;
};

static void add_block(struct table *table, uint32_t page, const uint16_t *entries, size_t count)
{
    uint8_t *at = table->file + TABLE_OFFSET + table->size;
    uint32_t size = (uint32_t)(8 + count * 2);

    store_u32(at, page, false);
    store_u32(at + 4, size, false);
    for (size_t i = 0; i < count; i++)
        store_u16(at + 8 + i * 2, entries[i], false);
    table->size += size;
}

/* Three pages of data: two, three and one relocations. The words hold their own distances. */
static struct table *make_table(void)
{
    static const uint16_t first[] = {DIR64(0x10), DIR64(0x20)};
    static const uint16_t second[] = {DIR64(0x0), DIR64(0x800), DIR64(0xff8), 0};
    static const uint16_t third[] = {DIR64(0x100), 0};
    struct table *table = calloc(1, sizeof(*table));

    ck_assert(table != NULL);
    add_block(table, DATA_RVA, first, 2);
    add_block(table, DATA_RVA + 0x1000, second, 4);
    add_block(table, DATA_RVA + 0x2000, third, 2);
    for (uint32_t i = 0; i < DATA_SIZE; i += 8)
        store_u64(table->file + i, BASE + i, false);
    table->sections[0] = (struct coff_section){.name = ".data",
                                               .address = BASE + DATA_RVA,
                                               .VirtualAddress = DATA_RVA,
                                               .VirtualSize = DATA_SIZE,
                                               .SizeOfRawData = DATA_SIZE};
    table->sections[1] = (struct coff_section){.name = ".reloc",
                                               .address = BASE + TABLE_RVA,
                                               .VirtualAddress = TABLE_RVA,
                                               .VirtualSize = 0x200,
                                               .SizeOfRawData = 0x200,
                                               .PointerToRawData = TABLE_OFFSET};
    table->image = (struct coff_image){.file = {table->file, FILE_SIZE},
                                       .path = "image",
                                       .pointer_size = 8,
                                       .image_base = BASE,
                                       .sections = table->sections,
                                       .section_count = 2};
    table->image.directories[DIRECTORY_BASE_RELOCATION] =
        (struct coff_directory){TABLE_RVA, table->size};
    return table;
}

struct seen {
    uint64_t offsets[16]; /* of the data section */
    size_t count;
};

/* Takes all relocations; the reason why not. */
static const char *take_all(const struct table *table, struct seen *seen)
{
    struct coff_relocations relocations = coff_relocations_open(&table->image);
    struct coff_relocation relocation;

    while (coff_relocations_next(&relocations, &relocation)) {
        ck_assert_uint_eq(relocation.target, relocation.address - DATA_RVA);
        seen->offsets[seen->count++] = relocation.target - BASE;
    }
    return relocations.reason;
}

static void assert_seen(const struct table *table, const uint64_t *offsets, size_t count)
{
    struct seen seen = {.count = 0};

    ck_assert_ptr_null(take_all(table, &seen));
    ck_assert_uint_eq(seen.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(seen.offsets[i], offsets[i]);
}

/* Takes relocations out of the table itself. */
static void remove_range(struct table *table, uint64_t offset, uint64_t size)
{
    struct coff_range range = {BASE + DATA_RVA + offset, size};
    struct edit_script edits;
    struct error error;
    const char *reason;
    uint32_t new_size;

    edit_script_init(&edits, FILE_SIZE);
    ck_assert(coff_relocations_remove(&table->image, &range, 1, &edits, &new_size, &reason));
    ck_assert(edit_script_finish(&edits, "image", &error));
    for (size_t i = 0; i < edits.count; i++) {
        ck_assert_uint_eq(edits.edits[i].old_size, edits.edits[i].new_size);
        ck_assert_uint_ge(edits.edits[i].offset, TABLE_OFFSET);
        memcpy(table->file + edits.edits[i].offset, edit_new_bytes(&edits, &edits.edits[i]).data,
               (size_t)edits.edits[i].new_size);
    }
    edit_script_free(&edits);
    table->image.directories[DIRECTORY_BASE_RELOCATION].size = new_size;
    ck_assert(bytes_all_zero((struct bytes){table->file + TABLE_OFFSET + new_size,
                                            FILE_SIZE - TABLE_OFFSET - new_size}));
}

START_TEST(test_each)
{
    static const uint64_t all[] = {0x10, 0x20, 0x1000, 0x1800, 0x1ff8, 0x2100};
    FREED_BY(drop_memory) struct table *table = make_table();

    assert_seen(table, all, 6);
}
END_TEST

/* A block whose relocations all go, goes too. */
START_TEST(test_whole_block)
{
    static const uint64_t left[] = {0x10, 0x20, 0x2100};
    FREED_BY(drop_memory) struct table *table = make_table();

    remove_range(table, 0x1000, 0x1000);
    assert_seen(table, left, 3);
    ck_assert_uint_eq(table->image.directories[DIRECTORY_BASE_RELOCATION].size, 12 + 12);
}
END_TEST

/* Blocks stay aligned to 4 bytes. */
START_TEST(test_part_of_block)
{
    static const uint64_t left[] = {0x10, 0x20, 0x1000, 0x2100};
    FREED_BY(drop_memory) struct table *table = make_table();

    remove_range(table, 0x1008, 0xff8);
    assert_seen(table, left, 4);
    ck_assert_uint_eq(table->image.directories[DIRECTORY_BASE_RELOCATION].size, 12 + 12 + 12);
}
END_TEST

START_TEST(test_nothing_inside)
{
    FREED_BY(drop_memory) struct table *table = make_table();
    uint8_t before[FILE_SIZE];

    memcpy(before, table->file, FILE_SIZE);
    remove_range(table, 0x2108, 0x100);
    ck_assert(memcmp(before, table->file, FILE_SIZE) == 0);
}
END_TEST

START_TEST(test_all_go)
{
    FREED_BY(drop_memory) struct table *table = make_table();

    remove_range(table, 0, DATA_SIZE);
    assert_seen(table, NULL, 0);
}
END_TEST

static void assert_unreadable(const struct table *table)
{
    struct seen seen = {.count = 0};

    ck_assert_ptr_nonnull(take_all(table, &seen));
}

START_TEST(test_damaged)
{
    static const uint32_t sizes[] = {0, 4, 7, 11, 0x2000, UINT32_MAX};
    FREED_BY(drop_memory) struct table *table = make_table();

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        store_u32(table->file + TABLE_OFFSET + 4, sizes[i], false);
        assert_unreadable(table);
    }
    free(table);
    /* A kind that is not known, and an address outside of the image. */
    table = make_table();
    store_u16(table->file + TABLE_OFFSET + 8, 5u << 12, false);
    assert_unreadable(table);
    free(table);
    table = make_table();
    store_u32(table->file + TABLE_OFFSET, 0x100000, false);
    assert_unreadable(table);
    free(table);
    /* An image without a table that says it cannot be moved may have addresses anywhere. */
    table = make_table();
    table->image.characteristics = IMAGE_FILE_RELOCS_STRIPPED;
    assert_unreadable(table);
}
END_TEST

/* What would need more room than it has: each block is padded to a multiple of 4 bytes, as linkers
 * do it, and then they are larger than before. And a table that ends in a block of no size. */
START_TEST(test_no_room)
{
    static const uint16_t entry[] = {DIR64(0x10)};
    const struct coff_range range = {BASE + DATA_RVA + 0x1000, 0x1000};
    FREED_BY(drop_memory) struct table *table = make_table();
    FREED_BY(edit_script_free) struct edit_script edits;
    const char *reason = NULL;
    uint32_t size;

    edit_script_init(&edits, FILE_SIZE);
    table->image.directories[DIRECTORY_BASE_RELOCATION].size += 8;
    ck_assert(!coff_relocations_remove(&table->image, &range, 1, &edits, &size, &reason));
    ck_assert_str_eq(reason, "its base relocations cannot be rewritten");
    table->size = 0;
    for (unsigned i = 0; i < 7; i++)
        add_block(table, i == 3 ? DATA_RVA + 0x1000 : DATA_RVA, entry, 1);
    table->image.directories[DIRECTORY_BASE_RELOCATION].size = table->size;
    ck_assert(!coff_relocations_remove(&table->image, &range, 1, &edits, &size, &reason));
    ck_assert_str_eq(reason, "its base relocations cannot be rewritten");
    ck_assert_uint_eq(edits.count, 0);
    /* One less, and they fit. */
    table->size -= 10;
    table->image.directories[DIRECTORY_BASE_RELOCATION].size = table->size;
    ck_assert(coff_relocations_remove(&table->image, &range, 1, &edits, &size, &reason));
    ck_assert_uint_eq(size, table->size);
}
END_TEST

/* Relocations past the end of .data, of 32 bits, and of 64 bits in an image of 32. */
START_TEST(test_words)
{
    FREED_BY(drop_memory) struct table *table = make_table();
    struct seen seen = {.count = 0};

    store_u16(table->file + TABLE_OFFSET + 8, 3u << 12 | 0x18, false);
    ck_assert_ptr_null(take_all(table, &seen));
    ck_assert_uint_eq(seen.offsets[0], 0x18);
    table->image.pointer_size = 4;
    assert_unreadable(table);
    table->image.pointer_size = 8;
    table->image.directories[DIRECTORY_BASE_RELOCATION].rva = 0x100000;
    assert_unreadable(table);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_each, test_whole_block, test_part_of_block, test_nothing_inside,
                test_all_go, test_damaged, test_no_room, test_words);
    return suite_main("coff_relocations", all);
}
