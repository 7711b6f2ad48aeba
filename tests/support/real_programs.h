/*
 * Real programs, compiled for the tests from the sources that tests/fetch.sh has put into
 * COVSPLIT_TEST_CACHE. If anything fails, the Check test is aborted.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_REAL_PROGRAMS_H
#define COVSPLIT_TESTS_SUPPORT_REAL_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>

/* ---- LevelDB: a shared library, and programs that use it ---- */

#define LEVELDB_LIBRARY "libleveldb.so"
/* Objects for leveldb_link: of the deterministic driver in tests/fixtures, and of db_bench, which
 * starts threads. */
#define LEVELDB_DRIVER   "leveldb_driver.o"
#define LEVELDB_DB_BENCH "db_bench.o histogram.o testutil.o"

/* The directory with the objects that this clang makes, for all linkers. If they are not there yet,
 * they are compiled, and kept in COVSPLIT_TEST_CACHE. Nothing in the directory may be changed.
 * Never freed. */
const char *leveldb_objects(const char *clang);

/* Links the library and one program of these objects into `directory`. */
void leveldb_link(const char *clang, const char *linker, const char *objects_directory,
                  const char *directory, const char *program, const char *objects);

/* ---- RE2 with Abseil: a large C++ library, and a program that uses it ---- */

#define RE2_LIBRARY "libre2.so"
#define RE2_PROGRAM "program"

/* The directory with both of them, made by this clang and lld. The first call takes minutes. Never
 * freed. */
const char *re2_images(const char *clang);

/* ---- the programs of one project ----
 *
 * For what is done with many images: small drivers (tests/fixtures/drivers), each linked statically
 * with LevelDB, SQLite or RE2. So all of one kind have most of their functions in common. Most have
 * a source of their own. Of each kind, some are compiled from a common source, with another number
 * of the program each time. */

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
