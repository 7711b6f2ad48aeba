/*
 * Where in a module the profile runtime has its data, and which raw profiles it writes.
 *
 * The module's file on disk says it in its section headers and symbols, before and after a split.
 * The sidecar of a split image says it too, unless data or names stayed in the image. Neither is
 * believed by its name: its UUID is the one in the module's memory, or the file is known to be the
 * one that is mapped.
 *
 * All addresses are those in the file.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_COVERAGE_H
#define COVSPLIT_SPLIT_SNAPSHOT_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/llvm/section.h"
#include "common/llvm/tripwire.h"
#include "common/sidecar/sidecar.h"

/* A section in memory. If the image has none of the kind, the address is 0 too. */
struct coverage_section {
    uint64_t address;
    uint64_t size; /* in bytes, as the runtime computes it */
};

struct coverage {
    struct coverage_section sections[SECTION_KIND_MAX + 1]; /* counters, bitmap, data, names */
    uint64_t raw_version;                                   /* 0: not known */
    bool is_complete; /* all sections are known; false for a sidecar of an image that kept some */
    /* Variables that hold the distance from counters and bitmap to where the program counts in
     * fact, if it does so elsewhere (runtime counter relocation). 0: there is none. */
    uint64_t counter_bias;
    uint64_t bitmap_bias;
    bool knows_biases; /* false without a symbol table */
    bool has_vtables;  /* there are sections for the profiling of virtual tables */
    /* The names section in memory, if it is a tripwire that the sidecar tells. Its size is 0
     * otherwise. */
    uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    size_t tripwire_size;
    bool has_stub; /* the stub record is all that is left of the data, and starts with stub_id */
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
};

/* By the module's file. *coverage has no counters if the file has none. False if the file is no ELF
 * image that covsplit can read. */
bool coverage_of_file(const struct input *file, struct coverage *coverage, struct error *error);

/* By the sidecar. False if it is for no ELF image, or none with counters. */
bool coverage_of_sidecar(const struct sidecar *sidecar, struct coverage *coverage,
                         struct error *error);

#endif
