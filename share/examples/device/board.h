/*
 * The board: two serial lines, and requests to the debugger.
 */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>

/* The serial line that the device's users see, and the one that profiles go out on. */
enum line {
    LINE_USER,
    LINE_PROFILE,
};

void board_open(enum line line);
void board_send(enum line line, const void *bytes, size_t size);

/* Writes a file on the machine of the debugger or emulator. */
void board_write_file(const char *name, const void *bytes, size_t size);

/* Ends the emulator with this exit status. */
void board_stop(int status) __attribute__((noreturn));

#endif
