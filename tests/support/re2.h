/*
 * RE2 with Abseil, compiled for the benchmarks: a large C++ library, and a program that uses it.
 *
 * The sources are those that tests/fetch.sh has put into COVSPLIT_TEST_CACHE.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_RE2_H
#define COVSPLIT_TESTS_SUPPORT_RE2_H

#define RE2_LIBRARY "libre2.so"
#define RE2_PROGRAM "program"

/* The directory with both of them, made by this clang and lld. The first call takes minutes. Never
 * freed. */
const char *re2_images(const char *clang);

#endif
