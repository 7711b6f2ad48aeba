/*
 * Programs for Darwin, built on the fly by clang and ld64.lld, with the profile runtime of
 * tests/fixtures/darwin and no other library.
 *
 * A program is tests/fixtures/darwin/program.c and two generated sources (program.h), as one image.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_DARWIN_PROGRAM_H
#define COVSPLIT_TESTS_SUPPORT_DARWIN_PROGRAM_H

#include <stdbool.h>

#include "tests/support/program.h"

enum darwin_kind {
    DARWIN_EXECUTABLE,
    DARWIN_LIBRARY,
    DARWIN_BUNDLE,
};

struct darwin_program {
    const char *clang;        /* "19" */
    const char *architecture; /* "arm64" or "x86_64" */
    enum darwin_kind kind;
    enum language language;
    bool opcodes;                /* fixups as opcodes; else chained fixups */
    bool late_section;           /* more data after that of the profile */
    bool early_fixup;            /* a pointer before the data, in the section of counters */
    const char *instrumentation; /* NULL: INSTRUMENT_COVERAGE */
    /* For the second source; NULL: as for the others. */
    const char *second_instrumentation;
    const char *link_options; /* NULL: none */
    unsigned functions;       /* in each generated source; 0: PROGRAM_FUNCTIONS */
};

/* Compiles and links the program into `directory` under the name. Aborts the Check test if a tool
 * fails. */
void darwin_program_build(const struct darwin_program *program, const char *directory,
                          const char *name);

/* "clang-19 arm64 executable C chained": for messages. Never freed. */
const char *darwin_program_describe(const struct darwin_program *program);

/* A command line that starts with tests/support/darwin_loader.c; more words can be added. */
struct command darwin_loader_command(const char *directory);

#endif
