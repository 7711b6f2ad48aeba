/*
 * A module of a target, as its memory shows it: an ELF file that is loaded, with its segments and
 * its UUID. The file on disk has no say in this: it may be another build by now.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_MODULE_H
#define COVSPLIT_SPLIT_SNAPSHOT_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "split/snapshot/elf_header.h"
#include "split/snapshot/memory.h"

struct module {
    const struct memory_module *listed;
    const char *name; /* in messages: its path, or "the module at 0x..." */
    char name_text[48];
    struct elf_header header;
    struct elf_segment *loads; /* its PT_LOAD segments */
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
    MODULE_HIDDEN,  /* its ELF header, program headers or notes are not in the target */
    MODULE_FAILED,  /* with an error */
};

/* Reads a module from memory. Free with module_free in any case. */
enum module_state module_read(struct memory *memory, const struct memory_module *listed,
                              struct module *module, struct error *error);
void module_free(struct module *module);

/* For a hidden module, of which the target only tells the UUID: by its file, or by what else is
 * known of it, which is `load` as its only segment. *module is as module_read left it. */
bool module_from_file(struct module *module, struct bytes file, struct error *error);
bool module_from_facts(struct module *module, const struct elf_header *header, uint64_t bias,
                       const struct elf_segment *load, struct error *error);

/* True if all of a range of addresses of the file is in its loaded segments. */
bool module_has_range(const struct module *module, uint64_t address, uint64_t size);

/* An address of the file in memory. */
uint64_t module_address(const struct module *module, uint64_t address);

/* The UUID (GNU build ID) of an ELF file; its size is 0 if it has none. */
struct uuid elf_file_uuid(struct bytes file);

#endif
