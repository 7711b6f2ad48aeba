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
#include <stdint.h>

#include "tests/support/process.h"
#include "tests/support/target.h"

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

/* Whether names and data of a static image stay by chance: the split says so of a number, and that
 * is one of a character in a table of the C library, as far from zero as the names are from the
 * start of the image. Where the names come to lie there is up to the versions of library and
 * linker. */
bool names_stay_by_chance(const struct program *program, const char *image, const char *errors);

/* Runs directory/NAME, which writes its profile to NAME.profraw. */
struct outcome program_run(const char *directory, const char *name);

/* "pie", "static-pie". */
const char *program_kind(const struct program *program);

/* "clang-19 lld pie C -O2 -fcoverage-mcdc": for messages. Never freed. */
const char *program_describe(const struct program *program);

/* The name of a tool of an LLVM version: ("llvm-strip", "19") -> "llvm-strip-19". Never freed. */
const char *versioned_tool(const char *tool, const char *version);

/* The release of the LLVM that is in rustc ("22"); NULL: there is no rustc. Never freed. */
const char *rust_llvm_release(void);

/* ---- a program before and after a split ----
 *
 * For the suites that compare what is made from their profiles: original/ and split/ in a scratch
 * directory, with the sidecars in store/. */

struct application {
    char *scratch; /* its commands run here, so names of files are relative to it */
    struct text_list images;
    const char *emulator; /* the words that run the images; empty: this machine runs them */
};

/* Builds the program and splits its images with the options (words; NULL: none), of which
 * `--sidecar` puts the sidecar of the only image elsewhere. If `assert_said`
 * is not NULL, it is given what each split writes to standard error. Aborts the Check test if
 * anything fails. */
struct application application_build(const struct program *program, const char *label,
                                     const char *options, void (*assert_said)(const char *errors));

/* Runs the program in a directory, with the number of the run as its argument; `profile` is the
 * value of LLVM_PROFILE_FILE. */
void application_run_once(const struct application *application, const char *images, unsigned run,
                          const char *profile);

/* The profiles in a directory, sorted by the size of their counters, so that those of the original
 * images and those of the split ones have the same order, although their names differ if they
 * contain %m. What LLVM writes depends a little on the order of its inputs. */
struct text_list application_profiles(const struct application *application, const char *directory);

/* ---- many translation units ----
 *
 * A C++ program whose units share inline functions, like real programs: each unit has the same
 * names and the same coverage mapping. */

#define MANY_UNITS 8

struct many_units {
    const char *clang;   /* "19" */
    const char *options; /* words, for compiling and linking; NULL: none */
    bool shared;         /* all units but the main one are in MANY_UNITS_LIBRARY */
};

#define MANY_UNITS_PROGRAM "app"
#define MANY_UNITS_LIBRARY "libunits.so"

/* Writes the sources into `directory`: main.cc, and unit0.cc and so on. */
void many_units_write(const char *directory);

/* Writes the sources into `directory` and links the program there. Aborts the Check test if a tool
 * fails. */
void many_units_build(const struct many_units *program, const char *directory);

#endif
