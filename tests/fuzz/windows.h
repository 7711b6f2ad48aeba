/*
 * A mutator for files with tables: headers, symbols, relocations, sections.
 *
 * Engines change bytes anywhere, but most of an image is code and names. Here a part of the file is
 * chosen first, small or large alike, then a field in it, which gets a value that fields go wrong
 * with, or that another field has.
 */
#ifndef COVSPLIT_TESTS_FUZZ_WINDOWS_H
#define COVSPLIT_TESTS_FUZZ_WINDOWS_H

#include "tests/fuzz/support.h"

#define FUZZ_WINDOWS_MAX 96

/* The parts of a file; those that are not inside it are left out. */
struct fuzz_windows {
    uint64_t file_size;
    bool big_endian;
    struct {
        uint64_t offset, size;
    } parts[FUZZ_WINDOWS_MAX];
    size_t count;
};

void fuzz_windows_add(struct fuzz_windows *windows, uint64_t offset, uint64_t size);

/* Finds the parts; the file may be anything. */
typedef void (*fuzz_window_finder)(struct bytes file, struct fuzz_windows *windows);

void fuzz_elf_windows(struct bytes file, struct fuzz_windows *windows);
void fuzz_coff_windows(struct bytes file, struct fuzz_windows *windows);
void fuzz_macho_windows(struct bytes file, struct fuzz_windows *windows);

/* For LLVMFuzzerCustomMutator: in half of all cases, the engine's own mutation instead. */
size_t fuzz_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                   fuzz_window_finder find);

/* What engines call to mutate, if the target has it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

#endif
