/*
 * Modules of which a target has no ELF header: found by the stub records that splits leave.
 *
 * qemu writes no list of files into a core, and leaves out segments of code, where GNU ld puts the
 * header. The data of a split image is there though, and its stub record has the beginning of the
 * UUID: with the sidecar, that says everything.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_STUBS_H
#define COVSPLIT_SPLIT_SNAPSHOT_STUBS_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/snapshot/address_ranges.h"
#include "split/snapshot/elf_header.h"
#include "split/snapshot/memory.h"

/* Searches memory that may be written to, but for that of the modules listed so far, and adds what
 * it finds as further modules. The header is one of the target's class and byte order. */
bool stubs_find(struct memory *memory, const struct address_ranges *writable,
                const struct elf_header *header, struct error *error);

#endif
