/*
 * The code that all targets of snapshots share: see snapshot.h.
 */
#include "split/snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "split/cli/memory.h"

/* Memory is copied in pieces, so that a false size allocates no more than there is memory for. */
#define PIECE_SIZE (UINT64_C(1) << 20)

/* The kernel's mark behind a path that no longer exists. */
#define DELETED " (deleted)"

/* ---- modules ---- */

struct memory_module *memory_add_module(struct target *memory, const char *path, uint64_t base)
{
    struct memory_module *module;
    size_t length = strlen(path), mark = strlen(DELETED);

    COMMAND_ROOM_FOR_ONE(memory->modules, memory->module_capacity, memory->module_count);
    module = &memory->modules[memory->module_count++];
    *module = (struct memory_module){.path = command_copy(path), .base = base};
    if (length > mark && strcmp(path + length - mark, DELETED) == 0)
        module->path[length - mark] = '\0';
    return module;
}

static int compare_modules(const void *a, const void *b)
{
    const struct memory_module *first = a, *second = b;

    if (first->is_stub != second->is_stub)
        return first->is_stub ? 1 : -1;
    return first->base < second->base ? -1 : first->base > second->base;
}

void memory_sort_modules(struct target *memory)
{
    if (memory->module_count != 0)
        qsort(memory->modules, memory->module_count, sizeof(*memory->modules), compare_modules);
}

void memory_close(struct target *memory)
{
    if (memory == NULL)
        return;
    memory->operations->close(memory);
    for (size_t i = 0; i < memory->module_count; i++)
        free(memory->modules[i].path);
    free(memory->modules);
    free(memory->name);
    free(memory);
}

/* ---- reading ---- */

bool memory_read(struct target *memory, uint64_t address, void *to, size_t size)
{
    uint8_t *next = to;
    size_t got = 1;

    while (size != 0 && got != 0) {
        got = memory->operations->read(memory, address, next, size);
        next += got;
        address += got;
        size -= got;
    }
    return size == 0;
}

bool memory_has_profile(struct target *memory, uint64_t address)
{
    uint8_t magic[sizeof(uint64_t)];

    return memory_read(memory, address, magic, sizeof(magic)) &&
           profile_recognize((struct bytes){magic, sizeof(magic)});
}

bool memory_copy(struct target *memory, uint64_t address, uint64_t size, struct buffer *buffer)
{
    size_t got = 1;

    buffer->size = 0;
    while (buffer->size < size && got != 0) {
        uint64_t left = size - buffer->size;
        size_t piece = (size_t)(left < PIECE_SIZE ? left : PIECE_SIZE);

        exit_unless_allocated(buffer_reserve(buffer, piece), size);
        got = memory->operations->read(memory, address + buffer->size, buffer->data + buffer->size,
                                       piece);
        buffer->size += got;
    }
    return buffer->size == size;
}

/* ---- ranges, sorted by address, so that a search halves them ---- */

void address_ranges_add(struct address_ranges *ranges, uint64_t address, uint64_t size,
                        uint64_t offset)
{
    uint64_t room = UINT64_MAX - address;

    if (size == 0)
        return;
    COMMAND_ROOM_FOR_ONE(ranges->items, ranges->capacity, ranges->count);
    ranges->items[ranges->count++] =
        (struct address_range){address, size < room ? size : room, offset};
}

/* By address; of those at one address the longest first. */
static int compare_ranges(const void *a, const void *b)
{
    const struct address_range *one = a, *other = b;

    if (one->address != other->address)
        return one->address < other->address ? -1 : 1;
    if (one->size != other->size)
        return one->size > other->size ? -1 : 1;
    return one->offset < other->offset ? -1 : one->offset > other->offset;
}

void address_ranges_sort(struct address_ranges *ranges)
{
    uint64_t end = 0;
    size_t kept = 0;

    if (ranges->count != 0)
        qsort(ranges->items, ranges->count, sizeof(*ranges->items), compare_ranges);
    for (size_t i = 0; i < ranges->count; i++) {
        struct address_range range = ranges->items[i];
        uint64_t known = range.address < end ? end - range.address : 0;

        if (known >= range.size)
            continue;
        range.address += known;
        range.offset += known;
        range.size -= known;
        end = range.address + range.size;
        ranges->items[kept++] = range;
    }
    ranges->count = kept;
}

bool address_ranges_find(const struct address_ranges *ranges, uint64_t address, uint64_t *offset,
                         uint64_t *size)
{
    size_t next = array_count_up_to(ranges->items, ranges->count, sizeof(*ranges->items), address);

    if (next != 0) {
        const struct address_range *range = &ranges->items[next - 1];
        uint64_t inside = address - range->address;

        if (inside < range->size) {
            *offset = range->offset + inside;
            *size = range->size - inside;
            return true;
        }
    }
    *size = (next < ranges->count ? ranges->items[next].address : UINT64_MAX) - address;
    return false;
}
