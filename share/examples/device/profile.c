/*
 * Sends the profile in pieces of a few bytes: there is no file system, and no room for all of it.
 * Compiled without coverage, so that sending does not count.
 */
#include "profile.h"

#include "board.h"
#include "covsplit-device.h"

/* Set to COVSPLIT_DEVICE_SPARSE by `make SPARSE=1`. */
#ifndef STREAM_FLAGS
#define STREAM_FLAGS 0
#endif

bool profile_send(void)
{
    struct covsplit_device stream;
    char piece[16];
    size_t size;

    if (covsplit_device_start(&stream, STREAM_FLAGS) != COVSPLIT_DEVICE_OK)
        return false;
    board_open(LINE_PROFILE);
    while ((size = covsplit_device_fill(&stream, piece, sizeof piece)) != 0)
        board_send(LINE_PROFILE, piece, size);
    return true;
}
