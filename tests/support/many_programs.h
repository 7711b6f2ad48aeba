/*
 * The programs of one project, for what is done with many images: small drivers
 * (tests/fixtures/drivers), each linked statically with LevelDB, SQLite or RE2. So all of one kind
 * have most of their functions in common.
 *
 * Most have a source of their own. Of each kind, some are compiled from a common source, with
 * another number of the program each time.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_MANY_PROGRAMS_H
#define COVSPLIT_TESTS_SUPPORT_MANY_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>

#define MANY_PROGRAMS 40

/* The name of a program by its number, usually below MANY_PROGRAMS: "leveldb_00". LevelDB, SQLite
 * and RE2 take turns. Never freed. */
const char *many_programs_name(size_t number);

/* Whether the program has a source of its own, in a file of its name. */
bool many_programs_has_source(size_t number);

/* Compiles a program and links it into `directory`, which must exist, under its name. The libraries
 * are built first if needed, which takes minutes for RE2. */
void many_programs_build(const char *clang, size_t number, const char *directory);

#endif
