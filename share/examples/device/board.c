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
#define SEMIHOSTING_OPEN          0x01u
#define SEMIHOSTING_CLOSE         0x02u
#define SEMIHOSTING_WRITE         0x05u
#define SEMIHOSTING_EXIT_EXTENDED 0x20u
#define MODE_WRITE_BINARY         5u
#define REASON_APPLICATION        0x20026u

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

static uint32_t request(uint32_t operation, const uint32_t *parameters)
{
    register uint32_t result __asm__("r0") = operation;
    register const uint32_t *block __asm__("r1") = parameters;

    __asm__ volatile("bkpt 0xab" : "+r"(result) : "r"(block) : "memory");
    return result;
}

static uint32_t address_of(const void *object)
{
    return (uint32_t)(uintptr_t)object;
}

void board_write_file(const char *name, const void *bytes, size_t size)
{
    uint32_t name_size = 0, file;

    while (name[name_size] != '\0')
        name_size++;
    file = request(SEMIHOSTING_OPEN, (uint32_t[]){address_of(name), MODE_WRITE_BINARY, name_size});
    request(SEMIHOSTING_WRITE, (uint32_t[]){file, address_of(bytes), size});
    request(SEMIHOSTING_CLOSE, &file);
}

void board_stop(int status)
{
    request(SEMIHOSTING_EXIT_EXTENDED, (uint32_t[]){REASON_APPLICATION, (uint32_t)status});
    for (;;)
        ;
}
