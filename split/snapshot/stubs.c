/*
 * Searching for stub records: see stubs.h.
 *
 * A stub is recognized by its form: there is nothing in it but the UUID, and counters, and perhaps
 * a bitmap, that lie in memory that may be written to. The records of an image that was not split
 * can have this form too; where several follow each other, they are that.
 */
#include "split/snapshot/stubs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/numbers.h"
#include "common/llvm/profile.h"
#include "split/snapshot/module.h"

#define PIECE_SIZE ((size_t)256 << 10)
#define ALIGNMENT  8

/* The first field of a record: of one that is no stub, the beginning of the MD5 of a name. */
#define NAME_REF_SIZE 8

/* No process has as many libraries. */
#define MODULES_MAX 4096

/* A version for each layout of records there is. */
static const unsigned versions[] = {7, 8, 9, 10, 11};
#define VERSION_COUNT (sizeof(versions) / sizeof(*versions))

struct search {
    struct memory *memory;
    const struct address_ranges *writable;
    struct address_ranges known; /* of the modules listed so far */
    bool big_endian;
    size_t pointer_size;
    struct profile_record_layout layouts[VERSION_COUNT];
    uint64_t end; /* of the last record found */
    size_t last;  /* the module that was added for it */
    bool has_last;
    int count; /* of modules that were added */
};

static bool is_writable(const struct search *search, uint64_t address, uint64_t size)
{
    uint64_t offset, run;

    /* Counters may be in segments that follow each other, as a split leaves them. */
    while (address_ranges_find(search->writable, address, &offset, &run)) {
        if (run >= size)
            return true;
        address += run;
        size -= run;
    }
    return false;
}

/* Takes a distance or address out of the record, leaving zeros. */
static uint64_t take_pointer(const struct search *search,
                             const struct profile_record_layout *layout, uint8_t *record,
                             size_t offset, uint64_t address)
{
    uint64_t value =
        load_number(record + offset, (unsigned)search->pointer_size, search->big_endian);

    memset(record + offset, 0, search->pointer_size);
    if (layout->relative)
        value += address;
    return search->pointer_size == 4 ? value & UINT32_MAX : value;
}

static uint32_t take_count(const struct search *search, uint8_t *record, size_t offset)
{
    uint32_t value = load_u32(record + offset, search->big_endian);

    memset(record + offset, 0, sizeof(value));
    return value;
}

/* Whether a stub record of this layout is at the address. */
static bool is_stub(const struct search *search, const struct profile_record_layout *layout,
                    const uint8_t *bytes, uint64_t address)
{
    struct bytes rest = {NULL, layout->record_size - PROFILE_STUB_ID_SIZE};
    uint8_t record[PROFILE_RECORD_SIZE_MAX];
    uint64_t counters, bitmap = 0;
    uint32_t counter_count, bitmap_size = 0;

    memcpy(record, bytes, layout->record_size);
    rest.data = record + PROFILE_STUB_ID_SIZE;
    counters = take_pointer(search, layout, record, layout->counter_ptr, address);
    counter_count = take_count(search, record, layout->num_counters);
    if (layout->bitmap_ptr != 0) {
        bitmap_size = take_count(search, record, layout->num_bitmap_bytes);
        if (bitmap_size != 0)
            bitmap = take_pointer(search, layout, record, layout->bitmap_ptr, address);
    }
    return counter_count != 0 && bytes_all_zero(rest) && counters != address &&
           is_writable(search, counters, counter_count) &&
           (bitmap_size == 0 || is_writable(search, bitmap, bitmap_size));
}

/* The size of the record at the address, if it may be a stub; otherwise 0. */
static size_t measure(const struct search *search, const uint8_t *bytes, size_t size,
                      uint64_t address)
{
    uint64_t first;

    memcpy(&first, bytes, sizeof(first));
    if (first == 0)
        return 0;
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        const struct profile_record_layout *layout = &search->layouts[i];

        if (layout->record_size <= size && is_stub(search, layout, bytes, address))
            return layout->record_size;
    }
    return 0;
}

/* Whether the bytes are not those of a digest, as far as one can tell. There is hardly ever a 0 in
 * a digest, nor an address. (Eight bytes are too few to tell: they may be a stack protector's.) */
static bool is_doubtful(const struct search *search, const uint8_t *bytes, size_t size)
{
    unsigned zeros = 0;

    for (size_t i = 0; i < size; i++)
        zeros += bytes[i] == 0;
    for (size_t i = 0; i < size; i += search->pointer_size) {
        if (is_writable(search,
                        load_number(bytes + i, (unsigned)search->pointer_size, search->big_endian),
                        1))
            return true;
    }
    return zeros > size / 8;
}

static bool add(struct search *search, const uint8_t *bytes, uint64_t address, size_t size,
                struct error *error)
{
    struct memory *memory = search->memory;
    struct memory_module *module;

    if (search->has_last && search->end == address) {
        module = &memory->modules[search->last];
        module->uuid.size = 0;
        module->is_doubtful = is_doubtful(search, bytes, NAME_REF_SIZE);
    } else {
        if (search->count++ == MODULES_MAX)
            return error_set(error,
                             "%s: has more than %d modules without headers; it is damaged, or its "
                             "program was not split",
                             memory->name, MODULES_MAX);
        if (!memory_add_module(memory, "", address, error))
            return false;
        search->last = memory->module_count - 1;
        search->has_last = true;
        module = &memory->modules[search->last];
        module->is_stub = true;
        module->is_doubtful = is_doubtful(search, bytes, PROFILE_STUB_ID_SIZE);
        module->uuid.size = PROFILE_STUB_ID_SIZE;
        memcpy(module->uuid.bytes, bytes, PROFILE_STUB_ID_SIZE);
    }
    search->end = address + size;
    return true;
}

static bool search_piece(struct search *search, const uint8_t *bytes, size_t size, uint64_t address,
                         struct error *error)
{
    for (size_t i = 0; i + ALIGNMENT <= size;) {
        size_t record = measure(search, bytes + i, size - i, address + i);

        if (record != 0 && !add(search, bytes + i, address + i, record, error))
            return false;
        i += record != 0 ? align_up(record, ALIGNMENT) : ALIGNMENT;
    }
    return true;
}

/* Searches a range piece by piece, which overlap by a record. */
static bool search_range(struct search *search, uint64_t address, uint64_t size, uint8_t *buffer,
                         struct error *error)
{
    uint64_t end = address + size;

    address = align_up(address, ALIGNMENT);
    while (address < end) {
        uint64_t offset, run, left = end - address;
        size_t piece = (size_t)(left < PIECE_SIZE ? left : PIECE_SIZE), got;

        if (address_ranges_find(&search->known, address, &offset, &run)) {
            address += run;
            continue;
        }
        piece = run < piece ? (size_t)run : piece;
        if (!search->memory->operations->read(search->memory, address, buffer, piece, &got, error))
            return false;
        if (got == 0)
            return true;
        if (!search_piece(search, buffer, got, address, error))
            return false;
        address +=
            got > PROFILE_RECORD_SIZE_MAX && got < left ? got - PROFILE_RECORD_SIZE_MAX : got;
        if (search->has_last && search->end > address)
            address = search->end;
        address = align_up(address, ALIGNMENT);
    }
    return true;
}

/* Lists the memory of the modules that are known. */
static bool list_known(struct search *search, struct error *error)
{
    struct memory *memory = search->memory;

    for (size_t i = 0; i < memory->module_count; i++) {
        struct module module;
        enum module_state state = module_read(memory, &memory->modules[i], &module, error);
        bool done = state != MODULE_FAILED;

        for (size_t j = 0; done && state == MODULE_READ && j < module.load_count; j++) {
            struct address_range range = {module_address(&module, module.loads[j].address),
                                          module.loads[j].memory_size, 0};

            done = address_ranges_add(&search->known, &range) ||
                   error_out_of_memory(error, memory->name, sizeof(range));
        }
        module_free(&module);
        if (!done)
            return false;
    }
    address_ranges_sort(&search->known);
    return true;
}

bool stubs_find(struct memory *memory, const struct address_ranges *writable,
                const struct elf_header *header, struct error *error)
{
    struct search search = {.memory = memory,
                            .writable = writable,
                            .big_endian = header->big_endian,
                            .pointer_size = header->wide ? 8 : 4};
    uint8_t *buffer = malloc(PIECE_SIZE);
    bool done = buffer != NULL || error_out_of_memory(error, memory->name, PIECE_SIZE);

    for (size_t i = 0; i < VERSION_COUNT; i++)
        profile_record_layout(versions[i], search.pointer_size, &search.layouts[i]);
    done = done && list_known(&search, error);
    for (size_t i = 0; done && i < writable->count; i++)
        done = search_range(&search, writable->items[i].address, writable->items[i].size, buffer,
                            error);
    address_ranges_free(&search.known);
    free(buffer);
    return done;
}
