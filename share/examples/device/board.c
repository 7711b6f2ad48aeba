/*
 * The board mps2-an385 (Arm MPS2 with a Cortex-M3), as QEMU emulates it. Another board needs
 * another file like this one, and other regions in device.ld.
 */
#include "board.h"

#include <stdint.h>

/* The UART of Arm's Cortex-M System Design Kit. */
struct uart {
    volatile uint32_t data;
    volatile uint32_t state;
    volatile uint32_t control;
    volatile uint32_t interrupt;
    volatile uint32_t divider;
};

#define UART_STATE_FULL     1u
#define UART_CONTROL_SEND   1u
#define UART_DIVIDER_LOWEST 16u

/* Arm's semihosting: requests to a debugger, or to the emulator. */
#define SEMIHOSTING_EXIT_EXTENDED        0x20
#define SEMIHOSTING_REASON_APPLICATION   0x20026u

static struct uart *uart_of(enum line line)
{
    return (struct uart *)(line == LINE_USER ? 0x40004000u : 0x40005000u);
}

void board_open(enum line line)
{
    uart_of(line)->divider = UART_DIVIDER_LOWEST;
    uart_of(line)->control = UART_CONTROL_SEND;
}

void board_send(enum line line, const void *bytes, size_t size)
{
    struct uart *uart = uart_of(line);

    for (size_t i = 0; i < size; i++) {
        while ((uart->state & UART_STATE_FULL) != 0)
            ;
        uart->data = ((const uint8_t *)bytes)[i];
    }
}

void board_stop(int status)
{
    uint32_t reason[2] = {SEMIHOSTING_REASON_APPLICATION, (uint32_t)status};
    register uint32_t operation __asm__("r0") = SEMIHOSTING_EXIT_EXTENDED;
    register uint32_t *parameter __asm__("r1") = reason;

    __asm__ volatile("bkpt 0xab" : : "r"(operation), "r"(parameter) : "memory");
    for (;;)
        ;
}
