/*
 * What runs first: the vector table, and the function that fills RAM and calls main. It is compiled
 * without coverage: before it has cleared the counters, nothing may count.
 */
#include <stddef.h>
#include <stdint.h>

#include "board.h"

int main(void);

/* Defined by device.ld; only their addresses mean something. */
extern uint32_t stack_top[], data_load[], data_start[], data_end[], zeroed_start[], zeroed_end[];

static void fail(void)
{
    board_stop(2);
}

void reset(void)
{
    const uint32_t *from = data_load;

    for (uint32_t *to = data_start; to < data_end; to++)
        *to = *from++;
    for (uint32_t *to = zeroed_start; to < zeroed_end; to++)
        *to = 0;
    board_stop(main());
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stack_top,
    reset,
    [2 ... 15] = fail,
};

/* Compilers call these two, also in code without a C library. */
void *memcpy(void *to, const void *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

void *memset(void *to, int value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)value;
    return to;
}
