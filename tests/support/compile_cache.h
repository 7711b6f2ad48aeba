/*
 * What takes long to compile, kept in COVSPLIT_TEST_CACHE for all suites and builds.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H
#define COVSPLIT_TESTS_SUPPORT_COMPILE_CACHE_H

/* Fills a new directory. */
typedef void (*cache_maker)(const char *directory, const char *clang);

/* The directory of that label which this clang's results are in. Where there is none yet, it is
 * made. `inputs` is a text that is another one whenever the results would be: options, the contents
 * of sources that may change. Nothing is to be changed in the directory. Never freed. Whatever goes
 * wrong aborts the Check test. */
const char *cache_directory(const char *label, const char *clang, const char *inputs,
                            cache_maker make);

#endif
