/*
 * Runs the thermostat through a morning, and sends the profile of that over a serial line, in
 * pieces of a few bytes: there is no file system, and no room for a whole profile.
 */
#include <stdbool.h>
#include <stddef.h>

#include "board.h"
#include "covsplit-device.h"
#include "thermostat.h"

#ifndef STREAM_FLAGS
#define STREAM_FLAGS 0
#endif

static const char *const commands[] = {"auto", "target 21.5", "band 0.8", "target 99", "coool"};
static const unsigned codes[] = {1500, 1600, 1900, 2100, 2300, 2500, 2500, 8, 2400};

static struct thermostat thermostat = {.target = 180};
static struct covsplit_device stream;

static void say(const char *text)
{
    size_t size = 0;

    while (text[size] != '\0')
        size++;
    board_send(LINE_USER, text, size);
}

static void run(void)
{
    char line[80];

    thermostat_start(&thermostat);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (!thermostat_command(&thermostat, commands[i]))
            say("not understood\n");
    }
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        thermostat_read(&thermostat, codes[i]);
        board_send(LINE_USER, line, thermostat_describe(&thermostat, line, sizeof line));
    }
}

static bool send_profile(void)
{
    char piece[16];
    size_t size;

    if (covsplit_device_start(&stream, STREAM_FLAGS) != 0)
        return false;
    while ((size = covsplit_device_fill(&stream, piece, sizeof piece)) != 0)
        board_send(LINE_PROFILE, piece, size);
    return true;
}

int main(void)
{
    board_open(LINE_USER);
    board_open(LINE_PROFILE);
    run();
    return send_profile() ? 0 : 1;
}
