/*
 * A C++ program with many translation units that share inline functions, like real programs: each
 * unit has the same names and the same coverage mapping.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_MANY_UNITS_H
#define COVSPLIT_TESTS_SUPPORT_MANY_UNITS_H

#include <stdbool.h>

#define MANY_UNITS 8

struct many_units {
    const char *clang;   /* "19" */
    const char *options; /* words, for compiling and linking; NULL: none */
    bool shared;         /* all units but the main one are in MANY_UNITS_LIBRARY */
};

#define MANY_UNITS_PROGRAM "app"
#define MANY_UNITS_LIBRARY "libunits.so"

/* Writes the sources into `directory`: main.cc, and unit0.cc and so on. */
void many_units_write(const char *directory);

/* Writes the sources into `directory` and links the program there. Aborts the Check test if a tool
 * fails. */
void many_units_build(const struct many_units *program, const char *directory);

#endif
