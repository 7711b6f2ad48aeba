/*
 * Runs the thermostat through a morning, and then sends the profile of that.
 */
#include <stddef.h>

#include "board.h"
#include "profile.h"
#include "thermostat.h"

static const char *const commands[] = {"auto", "target 21.5", "band 0.8", "target 99", "coool"};
static const unsigned codes[] = {1500, 1600, 1900, 2100, 2300, 2500, 2500, 8, 2400};

static struct thermostat thermostat = {.target = 180};

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

int main(void)
{
    board_open(LINE_USER);
    run();
    return profile_send() ? 0 : 1;
}
