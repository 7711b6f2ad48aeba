/*
 * A thermostat: what the example's image does. Lines from the user set it, readings of a
 * sensor drive it.
 */
#ifndef THERMOSTAT_H
#define THERMOSTAT_H

#include <stdbool.h>
#include <stddef.h>

enum mode {
    MODE_OFF,
    MODE_HEAT,
    MODE_COOL,
    MODE_AUTOMATIC,
};

enum output {
    OUTPUT_NONE,
    OUTPUT_HEATER,
    OUTPUT_COOLER,
};

/* Temperatures are in tenths of a degree. */
struct thermostat {
    enum mode mode;
    enum output output;
    int target;
    int band; /* nothing is switched within this distance from the target */
    int filtered;
    bool has_reading;
    bool is_broken; /* the sensor */
    unsigned switches;
};

void thermostat_start(struct thermostat *thermostat);

/* "heat", "target 21.5": false if it cannot be understood. */
bool thermostat_command(struct thermostat *thermostat, const char *line);

/* Takes a reading of the sensor: a code of 12 bits. */
void thermostat_read(struct thermostat *thermostat, unsigned code);

/* Writes a line on the state, at most `size` characters; returns how many. */
size_t thermostat_describe(const struct thermostat *thermostat, char *text, size_t size);

#endif
