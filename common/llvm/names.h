/*
 * Function names by their NameRef: the names of __llvm_prf_names (name_set.h), hashed and sorted.
 */
#ifndef COVSPLIT_COMMON_LLVM_NAMES_H
#define COVSPLIT_COMMON_LLVM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* The names of a section, to be looked up by their NameRef. */
struct names {
    struct buffer text; /* all names, each with a NUL behind it */
    struct name_entry *entries;
    size_t count;
};

/* Reads a section; `file` is for messages. Of names with one NameRef the first is kept. Freed with
 * names_free, also after a failure. */
bool names_read(struct names *names, struct bytes section, const char *file, struct error *error);
void names_free(struct names *names);

/* The name with that NameRef, NUL-terminated, as long-lived as `names`; NULL where there is none.
 */
const char *names_find(const struct names *names, uint64_t reference);

#endif
