/*
 * Function names: reading __llvm_prf_names.
 *
 * The section is a run of chunks, one a translation unit, with zero bytes allowed between: the size
 * of the names and the size of their zlib stream as unsigned LEB128 numbers (the latter 0: stored
 * as they are), then that. The names in a chunk are separated by bytes 1 (LLVM's InstrProf.h,
 * "getInstrProfNameSeparator").
 */
#ifndef COVSPLIT_COMMON_NAMES_H
#define COVSPLIT_COMMON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/error.h"

/* The names of a section, to be looked up by their NameRef. */
struct names {
    struct buffer text; /* all names, each with a NUL behind it */
    struct name_entry *entries;
    size_t count;
};

/* Reads a section; `file` is for messages. Names that come several times are kept once. Freed with
 * names_free, also after a failure. */
bool names_read(struct names *names, struct bytes section, const char *file, struct error *error);
void names_free(struct names *names);

/* The name with that NameRef, NUL-terminated, as long-lived as `names`; NULL where there is none.
 */
const char *names_find(const struct names *names, uint64_t reference);

#endif
