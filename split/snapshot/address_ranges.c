/*
 * The table of address_ranges.h: sorted by address, so that a search halves it.
 */
#include "split/snapshot/address_ranges.h"

#include <stdlib.h>

#include "common/base/array.h"

bool address_ranges_add(struct address_ranges *ranges, const struct address_range *range)
{
    uint64_t room = UINT64_MAX - range->address;

    if (range->size == 0)
        return true;
    if (!ARRAY_ROOM_FOR_ONE(ranges->items, ranges->capacity, ranges->count))
        return false;
    ranges->items[ranges->count] = *range;
    if (range->size > room)
        ranges->items[ranges->count].size = room;
    ranges->count++;
    return true;
}

/* By address; of those at one address the longest first. */
static int compare(const void *a, const void *b)
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
        qsort(ranges->items, ranges->count, sizeof(*ranges->items), compare);
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

void address_ranges_free(struct address_ranges *ranges)
{
    free(ranges->items);
    *ranges = (struct address_ranges){0};
}
