/*
 * Programs for the tests: how one is described, and how it is compiled.
 *
 * A program is a hand-written main (tests/fixtures) and two generated sources with hundreds of
 * functions, so that names and data cover whole pages. As one image they are linked together; as
 * a shared library plus main program the second source becomes the library, which has its own copy
 * of the profile runtime.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_PROGRAM_H
#define COVSPLIT_TESTS_SUPPORT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/process.h"
#include "tests/support/target.h"
#include "tests/support/text.h"

enum link_kind {
    LINK_PIE,
    LINK_NO_PIE,
    LINK_SHARED, /* a shared library and a PIE main program */
    LINK_STATIC,
    LINK_STATIC_PIE,
};

enum language {
    LANGUAGE_C,
    LANGUAGE_CXX,
};

#define INSTRUMENT_COVERAGE "-fprofile-instr-generate -fcoverage-mapping"

/* Options are words separated by blanks; NULL: none. */
struct program {
    const char *clang;           /* "19" */
    const char *linker;          /* for -fuse-ld */
    const struct target *target; /* NULL: this machine */
    enum link_kind kind;
    enum language language;
    const char *optimization;
    const char *instrumentation; /* NULL: INSTRUMENT_COVERAGE */
    const char *compile_options;
    const char *link_options;
    const char *build_id; /* the value of -Wl,--build-id=; NULL: sha1 */
    unsigned functions;   /* in each generated source; 0: PROGRAM_FUNCTIONS */
    unsigned
        raw_version;    /* the version of its profiles. Above 10, which no packaged compiler writes
                           yet, it is made with rewritten records and the tests' own runtime (only with
                           clang 19 and 22, and %m in names of profiles); 0: the compiler's */
    unsigned wave_size; /* with raw_version: its records are those of a GPU's code */
};

/* Enough functions that names and data each contain a whole page, wherever they begin (the matrix
 * asserts it): records have 48 bytes or more, and names take about as many when compressed. */
#define PROGRAM_FUNCTIONS 180
#define PROGRAM_NAME      "program"
#define PROGRAM_LIBRARY   "libsecond.so"

/* Writes a C source that defines `long PREFIX_run(long seed)` and `functions` functions, or a C++
 * source that defines half as many, with others that these need. */
void source_generate(const char *path, enum language language, const char *prefix,
                     unsigned functions);

/* Compiles and links the program into `directory` as PROGRAM_NAME, with PROGRAM_LIBRARY beside it
 * if it is shared. Aborts the Check test if a tool fails. */
void program_build(const struct program *program, const char *directory);

/* Compiles a test's own main program, with a generated first source of so many functions, into
 * `directory` as "app". */
void program_build_own(const struct program *program, const char *main_source,
                       const char *directory);

/* The two steps of program_build: SOURCE to OBJECT, and INPUTS (words, for the linker, as KIND) to
 * OUTPUT, all in the directory. */
void program_compile(const struct program *program, const char *directory, const char *source,
                     const char *object);
void program_link(const struct program *program, const char *directory, const char *kind,
                  const char *inputs, const char *output);

/* Gives the records in LLVM IR (BEFORE) the layout of raw version 11 (AFTER), both in the
 * directory. `wave_size` is as above. */
void program_rewrite(const char *directory, const char *before, const char *after,
                     unsigned wave_size);

/* Runs directory/NAME, which writes its profile to NAME.profraw. */
struct outcome program_run(const char *directory, const char *name);

/* "pie", "static-pie". */
const char *program_kind(const struct program *program);

/* "clang-19 lld pie C -O2 -fcoverage-mcdc": for messages. Never freed. */
const char *program_describe(const struct program *program);

/* The name of a tool of an LLVM version: ("llvm-strip", "19") -> "llvm-strip-19". Never freed. */
const char *versioned_tool(const char *tool, const char *version);

#endif
