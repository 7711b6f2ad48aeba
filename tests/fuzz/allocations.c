/*
 * Counting what is allocated: see allocations.h.
 */
#include "tests/fuzz/allocations.h"

#include "tests/fuzz/support.h"

static struct {
    size_t largest, all;
} counted;

/* Called by ASan for each allocation. */
void __sanitizer_malloc_hook(const volatile void *block, size_t size);
void __sanitizer_malloc_hook(const volatile void *block, size_t size)
{
    (void)block;
    counted.all += size;
    if (size > counted.largest)
        counted.largest = size;
}

void allocations_start(void)
{
    counted.largest = 0;
    counted.all = 0;
}

void allocations_check(size_t most, size_t all)
{
    FUZZ_EXPECT(counted.largest <= most, "allocated %zu bytes in one block, more than %zu",
                counted.largest, most);
    FUZZ_EXPECT(counted.all <= all, "allocated %zu bytes in all, more than %zu", counted.all, all);
}
