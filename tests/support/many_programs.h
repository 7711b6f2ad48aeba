/*
 * The programs of one project, for what is done with many images: small drivers
 * (tests/fixtures/drivers), each linked statically with LevelDB, SQLite or RE2. So all of one kind
 * have most of their functions in common.
 *
 * Most have a source of their own. Of each kind some are compiled from the same one, which says
 * something else for each of them.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_MANY_PROGRAMS_H
#define COVSPLIT_TESTS_SUPPORT_MANY_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>

#define MANY_PROGRAMS 40

/* "leveldb_00": of a number, usually below MANY_PROGRAMS. Every third is of LevelDB, of SQLite, of
 * RE2. Never freed. */
const char *many_programs_name(size_t number);

/* Whether the program has a source of its own, in a file of its name. */
bool many_programs_has_source(size_t number);

/* Compiles one and links it into `directory`, which must exist, under its name. The libraries are
 * made first, if no one has yet; that takes minutes for RE2. */
void many_programs_build(const char *clang, size_t number, const char *directory);

#endif
