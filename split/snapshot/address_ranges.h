/*
 * Which parts of a process's memory are in a file, and where.
 *
 * Tables of real cores have some ten thousands of entries, one for each mapping, in any order.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_ADDRESS_RANGES_H
#define COVSPLIT_SPLIT_SNAPSHOT_ADDRESS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address_range {
    uint64_t address; /* first: see array_count_up_to */
    uint64_t size;
    uint64_t offset; /* in the file */
};

/* Initialize to {0}; free with address_ranges_free. */
struct address_ranges {
    struct address_range *items;
    size_t count, capacity;
};

/* Adds a range. What lies beyond the end of the address space is left out. False if out of memory.
 */
bool address_ranges_add(struct address_ranges *ranges, const struct address_range *range);

/* Sorts the ranges and makes them disjoint: where two overlap, the one that begins first stays
 * whole. To be called once, after the last range was added. */
void address_ranges_sort(struct address_ranges *ranges);

/* Finds the bytes at an address: *offset is where they are in the file, *size how many follow in
 * the same range. False if there are none; *size is then the distance to the next range, or to the
 * end of the address space. */
bool address_ranges_find(const struct address_ranges *ranges, uint64_t address, uint64_t *offset,
                         uint64_t *size);

void address_ranges_free(struct address_ranges *ranges);

#endif
