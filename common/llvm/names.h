/*
 * Function names: a table of distinct ones, by number, by text and by NameRef.
 *
 * The section __llvm_prf_names is a run of chunks, one a translation unit, with zero bytes allowed
 * between: the size of the names and the size of their zlib stream as unsigned LEB128 numbers (the
 * latter 0: stored as they are), then that. The names in a chunk are separated by bytes 1 (LLVM's
 * InstrProf.h, "getInstrProfNameSeparator"). Inline functions come in the chunk of each translation
 * unit that has them, so that of all names in a large C++ image only one in twenty is a new one.
 *
 * Names have numbers in the order in which they come first. A NameRef is the first eight bytes of
 * the MD5 digest of a name, as a little-endian number.
 */
#ifndef COVSPLIT_COMMON_LLVM_NAMES_H
#define COVSPLIT_COMMON_LLVM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/intern_table.h"
#include "common/base/result.h"

#define NAME_SEPARATOR '\1'

/* ---- chunks ---- */

/* A chunk, as it is in the section. */
struct name_chunk {
    uint64_t size; /* of the names, as the chunk claims it */
    bool compressed;
    struct bytes content; /* a zlib stream, or the names */
};

/* Takes the chunk off the front of *section, which must not begin with zero bytes between chunks.
 * False, with *section untouched, if there is no whole one. */
bool name_chunk_take(struct bytes *section, struct name_chunk *chunk);

/* ---- the table ---- */

/* Initialize to {0}; free with names_free. Whoever needs only NameRefs may drop all but them and the
 * count. */
struct names {
    struct buffer text;  /* each name with a NAME_SEPARATOR behind it */
    struct buffer chunk; /* the one that was inflated last */
    uint64_t *ends;      /* of each name in the text: where its separator is */
    size_t count, capacity;
    uint64_t *references;             /* NameRefs; NULL until names_hash */
    struct intern_table by_text;      /* by a hash of each name that was added its number */
    struct intern_table by_reference; /* empty until names_index */
};

void names_free(struct names *names);

static inline struct bytes names_get(const struct names *names, size_t number)
{
    uint64_t start = number == 0 ? 0 : names->ends[number - 1] + 1;

    return (struct bytes){names->text.data + start, names->ends[number] - start};
}

/* Adds a name unless it is there; *number is its number. False if out of memory. */
bool names_add(struct names *names, struct bytes name, uint64_t *number);

/* Adds the names of a section, without empty ones. At most `limit` bytes are held at a time
 * (memory_limit.h); 0: as the section's size has it. `file` is for messages. */
bool names_add_section(struct names *names, struct bytes section, uint64_t limit, const char *file,
                       struct error *error);

/* Makes a table of distinct names, to which none is added, of their text, which it takes over.
 * Unfit if the last one has no separator. To be freed also after a failure. */
enum result names_take_text(struct names *names, struct buffer *text);

/* Appends a section with all names in one chunk, as they are: LLVM's tools read it faster than the
 * compressed chunks that it stands for. Without names it is empty. False if out of memory. */
bool names_encode(const struct names *names, struct buffer *section);

/* Finds out the NameRefs, unless they are there. False if out of memory. */
bool names_hash(struct names *names, unsigned threads);

/* The same, and makes a table of them. */
bool names_index(struct names *names, unsigned threads);

/* ---- looking names up ---- */

/* Reads a section into a table that is indexed, whose names have a NUL behind them instead. To be
 * freed also after a failure. */
bool names_read(struct names *names, struct bytes section, const char *file, struct error *error);

/* The first name with that NameRef, as long-lived as the table; NULL if there is none. */
const char *names_find(const struct names *names, uint64_t reference);

#endif
