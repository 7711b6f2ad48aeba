/*
 * Projects of CMake that use the installed package, for the suites that build some.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_CMAKE_PROJECT_H
#define COVSPLIT_TESTS_SUPPORT_CMAKE_PROJECT_H

#include "tests/support/process.h"

struct cmake_generator {
    const char *name;
    const char *configuration; /* "" but with a generator of several: a directory of the build */
};

/* Installs this build of covsplit, and moves it: the package must work wherever its directory is.
 * Returns its directory, whose name has a blank. */
char *cmake_install_package(const char *build, const char *scratch);

/* Configures the project with clang-22 and the package below `prefix`. The options end with NULL;
 * they are not split into words. */
struct outcome cmake_configure(const char *source, const char *build, const char *prefix,
                               const char *generator, ...) __attribute__((sentinel));
struct outcome cmake_build(const char *build, const char *configuration, const char *words);
struct outcome cmake_install(const char *build, const char *configuration, const char *prefix);

/* Fails the Check test unless it succeeded, without a warning of CMake's or covsplit's. Returns
 * what was printed. */
const char *cmake_assert_smooth(const struct outcome *outcome);

#endif
