/*
 * LevelDB, compiled for the tests: a shared library, and programs that use it.
 *
 * The sources are those that tests/fetch.sh has put into COVSPLIT_TEST_CACHE. If anything fails,
 * the Check test is aborted.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_LEVELDB_H
#define COVSPLIT_TESTS_SUPPORT_LEVELDB_H

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

#endif
