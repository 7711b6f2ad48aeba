/*
 * The steps of `covsplit snapshot`, from a module of a target (memory.h) to its profile:
 *
 *   module_read        what the module is, as its memory shows it
 *   take_profile       the profile that the runtime would write
 *   examine_module     both, with the file or the sidecar that says where the runtime has its data
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_SNAPSHOT_H
#define COVSPLIT_SPLIT_SNAPSHOT_SNAPSHOT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/uuid.h"
#include "common/llvm/profile.h"
#include "common/llvm/section.h"
#include "common/llvm/tripwire.h"
#include "common/sidecar/sidecar.h"
#include "split/cli/find_sidecar.h"
#include "split/snapshot/memory.h"

/* ---- modules ---- */

/* An ELF file that is loaded, with its segments and its UUID. The file on disk has no say in this:
 * it may be another build by now. */
struct module {
    const struct memory_module *listed;
    const char *name; /* in messages: its path, or "the module at 0x..." */
    char name_text[48];
    bool wide, big_endian;
    bool is_fixed;     /* ET_EXEC */
    Elf64_Phdr *loads; /* its PT_LOAD segments */
    size_t load_count;
    uint64_t bias;    /* address in memory - address in the file, modulo 2^64 */
    struct uuid uuid; /* the GNU build ID in memory; size 0: none */
    /* Its file was written to after the process had started. If it was loaded before that, its
     * memory is no longer what was loaded. */
    bool is_newer;
};

enum module_state {
    MODULE_READ,
    MODULE_IS_NONE, /* something else is mapped: not an ELF file, or one that is not loaded */
    MODULE_HIDDEN,  /* its ELF header, program headers or notes are missing in the target */
};

/* Reads a module from memory. Free with module_free in any case. */
enum module_state module_read(struct memory *memory, const struct memory_module *listed,
                              struct module *module);
void module_free(struct module *module);

/* True if all of a range of addresses of the file is in its loaded segments. */
bool module_has_range(const struct module *module, uint64_t address, uint64_t size);

/* An address of the file in memory. */
uint64_t module_address(const struct module *module, uint64_t address);

/* Traces of coverage in the memory of a module of which neither the file nor the sidecar is at
 * hand: what a split leaves, and what the profile runtime has among its constants. */
struct traces {
    bool is_split;    /* a tripwire or a stub record is in it */
    bool has_runtime; /* a message of compiler-rt's profile runtime is in it */
    bool is_whole;    /* all of the module is in the target */
    struct uuid uuid; /* of the tripwire; size 0 if that has none, or only a part of it */
};

struct traces traces_find(struct memory *memory, const struct module *module);

/* ---- coverage ---- */

/* The places of the profile runtime's data in a module, and the raw profiles that it writes. */
struct coverage {
    /* Counters, bitmap, data and names: addresses, and sizes as the runtime computes them. All
     * zeros if the image has none of the kind. */
    struct section sections[SECTION_KIND_MAX + 1];
    uint64_t raw_version; /* 0: not known */
    bool is_complete; /* all sections are known; false for a sidecar of an image that kept some */
    /* Variables that hold the distance from counters and bitmap to where the program counts in
     * fact, if it does so elsewhere (runtime counter relocation). 0: there is none. */
    uint64_t counter_bias, bitmap_bias;
    bool knows_biases; /* false without a symbol table */
    bool has_vtables;  /* there are sections for the profiling of virtual tables */
    /* The names section in memory, if it is a tripwire that the sidecar tells. Its size is 0
     * otherwise. */
    uint8_t tripwire[TRIPWIRE_SIZE_MAX];
    size_t tripwire_size;
    bool has_stub; /* the stub record is all that is left of the data, and starts with stub_id */
    uint8_t stub_id[PROFILE_STUB_ID_SIZE];
};

/* ---- profiles ---- */

/* A profile, which points into the buffers. Initialize to {0}. */
struct taken {
    struct profile profile;
    struct buffer binary_ids, data, counters, bitmap, names, values;
};

/* Takes the profile that the module's runtime would write at this moment, byte for byte, unless the
 * memory has failed. `file` is the module's, or NULL: names that are not in the target come from
 * there. Free with taken_free in any case. */
bool take_profile(struct memory *memory, const struct module *module,
                  const struct coverage *coverage, const struct input *file, struct taken *taken,
                  struct error *error);
void taken_free(struct taken *taken);

/* ---- all of it ---- */

enum finding {
    FINDING_PROFILE,     /* it has coverage, and its profile was taken */
    FINDING_NO_COVERAGE, /* it has none */
    FINDING_NO_MODULE,   /* it is no loaded ELF file */
    FINDING_UNKNOWN,     /* nothing is known of it: the error says what is missing */
    FINDING_FAILED,      /* the error says why */
};

/* Finds out of a module whether it has coverage, and takes its profile. Free *module and *taken in
 * any case; *taken must be {0} at first. */
enum finding examine_module(struct memory *memory, const struct memory_module *listed,
                            const struct sidecar_places *places, struct module *module,
                            struct taken *taken, struct error *error);

#endif
