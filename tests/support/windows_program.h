/*
 * Windows programs for the tests: how one is described, and how it is compiled and run.
 *
 * The sources are those of program.h, with the profile runtime of tests/fixtures/windows. With
 * clang and lld-link there is no C library, since none is packaged; mingw-w64 has one.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_WINDOWS_PROGRAM_H
#define COVSPLIT_TESTS_SUPPORT_WINDOWS_PROGRAM_H

#include <stdbool.h>

#include "tests/support/program.h"

enum windows_target {
    WINDOWS_MSVC_X86_64,
    WINDOWS_MSVC_ARM64,
    WINDOWS_MSVC_I686,
    WINDOWS_MINGW_BFD, /* x86-64 */
    WINDOWS_MINGW_LLD, /* x86-64 */
};

/* Options are words separated by blanks; NULL: none. */
struct windows_program {
    const char *clang; /* "19" */
    enum windows_target target;
    enum language language;
    bool library;                /* the second source is a DLL */
    const char *instrumentation; /* NULL: INSTRUMENT_COVERAGE */
    const char *runtime_options; /* for the compiler */
    const char *link_options;
    unsigned functions;   /* in each generated source; 0: WINDOWS_FUNCTIONS */
    unsigned raw_version; /* of its profiles, if not the compiler's: see program.h */
};

#define WINDOWS_FUNCTIONS 120
#define WINDOWS_PROGRAM   "program.exe"
#define WINDOWS_LIBRARY   "second.dll"
/* What a program without a DLL is linked from, beside the runtime. */
#define WINDOWS_OBJECTS "main.o first.o second.o"

bool windows_target_is_msvc(enum windows_target target);

/* The name of the linker, for messages. */
const char *windows_target_linker(enum windows_target target);
const char *windows_target_processor(enum windows_target target);

/* Compiles and links the program into `directory` as WINDOWS_PROGRAM, with WINDOWS_LIBRARY beside
 * it if it has one; lld-link also makes map files: program.exe.map. Aborts the Check test if a tool
 * fails. */
void windows_program_build(const struct windows_program *program, const char *directory);

/* For messages. Never freed. */
const char *windows_program_describe(const struct windows_program *program);

/* ---- wine, which has a settings directory of its own in the cache ---- */

/* Call these before and after all tests of a suite. */
void wine_start(void);
void wine_stop(void);

/* Runs WINDOWS_PROGRAM in the directory with that number as its argument. It writes its profiles to
 * runNUMBER-MODULE.profraw there. */
struct command wine_command(const char *directory, unsigned number);

#endif
