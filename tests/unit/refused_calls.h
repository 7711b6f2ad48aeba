/*
 * Makes one call of the C library fail: of those that files are read and written with, and that
 * allocate memory. In a suite that is linked with refused_calls.c, its functions replace them
 * (--wrap), for the code under test and for the test itself.
 */
#ifndef COVSPLIT_TESTS_UNIT_REFUSED_CALLS_H
#define COVSPLIT_TESTS_UNIT_REFUSED_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALLS_ALL SIZE_MAX

/* How many calls are granted before one is refused; then it is CALLS_ALL again. */
extern size_t calls_granted;

/* What errno says then. */
extern int calls_errno;

/* The name of the one that was refused; NULL if none was. */
extern const char *calls_refused;

/* The file system has neither unnamed files nor locks. */
extern bool calls_are_poor;

/* Called before each call, with its name, unless it is NULL. */
extern void (*calls_watch)(const char *name);

#endif
