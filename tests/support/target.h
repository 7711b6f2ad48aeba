/*
 * The machines, other than this one, that the tests build for and run in an emulator: what
 * compiles, links and runs a program for each.
 *
 * Their profile runtimes are those that tests/fetch-runtimes.sh has put into COVSPLIT_TEST_CACHE;
 * the C libraries, GNU ld and the emulators are Debian's.
 */
#ifndef COVSPLIT_TESTS_SUPPORT_TARGET_H
#define COVSPLIT_TESTS_SUPPORT_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/file_system.h"

struct target {
    const char *name;         /* covsplit's name of the machine */
    const char *triple;       /* also the name of the C library's directory and of GNU ld */
    const char *architecture; /* Debian's name, for its runtime; NULL: the tests' own */
    const char *emulator;
    bool is_freestanding;    /* there is no C library, and so no loader of shared libraries */
    const char *all_options; /* words for compiling everything; NULL: none */
    const char *options[2];  /* words for compiling kinds of code, used in turn; NULL: none */
    /* The LLVM versions for which there is a runtime (words), by the linker that can link it. NULL:
     * none. */
    const char *bfd_clangs;
    const char *lld_clangs;
    const char *lld_fixed_options; /* words for images at a fixed address; NULL: none */
    size_t page_size;              /* the smallest that a kernel for it uses; 0: 4 KiB */
    size_t address_unit; /* the alignment of the addresses that its code can form; 0: any address */
    /* Linkers align segments to larger pages than these, unless told otherwise. */
    bool has_large_pages;
    /* Its runtimes are built without locks, and say so whenever they merge into a file: only one
     * process at a time can. */
    bool lacks_locks;
    /* In the emulator, forked children never end. */
    bool cannot_fork;
};

extern const struct target target_table[];
extern const size_t target_count;

/* NULL if there is none of that name. */
const struct target *target_find(const char *name);

/* The page size in bytes, and the words that tell it to linkers; never freed. */
size_t target_page_size(const struct target *target);
const char *target_page_option(const struct target *target);

/* Whether programs for the target can be compiled by this LLVM version and linked by this linker,
 * "bfd" or "lld". */
bool target_has_tools(const struct target *target, const char *clang, const char *linker);

/* Adds the words with which clang compiles for the target, and those with which it links with the
 * runtime of its version. */
void target_add_compile_words(const struct target *target, struct text_list *words);
void target_add_link_words(const struct target *target, const char *clang, const char *linker,
                           struct text_list *words);

/* Compiles the tests' own runtime, and what replaces a C library, into a directory, and returns the
 * objects to link; "" if the target uses others. */
const char *target_build_runtime(const struct target *target, const char *clang,
                                 const char *directory);

/* The words that go before a program's name to run it. Never freed. */
const char *target_emulator(const struct target *target);

#endif
