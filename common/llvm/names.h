/*
 * Function names: a table of distinct names, which can be found by number, text and NameRef.
 *
 * The section __llvm_prf_names is a sequence of chunks, one for each translation unit, with zero
 * bytes allowed between them. A chunk consists of the size of the names and the size of their zlib
 * stream, as unsigned LEB128 numbers, and then that stream; if its size is 0, the names follow
 * uncompressed. The names in a chunk are separated by bytes 1 (LLVM's InstrProf.h,
 * "getInstrProfNameSeparator"). An inline function is in the chunk of each translation unit that
 * uses it, so in a large C++ image only one name in twenty is distinct.
 *
 * Names are numbered in the order of their first occurrence. A NameRef is the first eight bytes of
 * the MD5 digest of a name, as a little-endian number.
 */
#ifndef COVSPLIT_COMMON_LLVM_NAMES_H
#define COVSPLIT_COMMON_LLVM_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/error.h"

#define NAME_SEPARATOR '\1'

/* ---- chunks ---- */

/* A chunk, as it is in the section. */
struct name_chunk {
    uint64_t size; /* the declared size of the names, in bytes */
    bool compressed;
    struct bytes content; /* a zlib stream, or the names */
};

/* Takes the chunk off the front of *section, which must not begin with the zero bytes between
 * chunks. If there is no complete chunk, returns false and leaves *section unchanged. */
bool name_chunk_take(struct bytes *section, struct name_chunk *chunk);

/* ---- the table ---- */

/* Initialize to {0}; free with names_free. If only the NameRefs are needed, everything but
 * `references` and `count` may be dropped. */
struct names {
    struct buffer text;  /* the names, each followed by a NAME_SEPARATOR */
    struct buffer chunk; /* the chunk that was inflated last */
    uint64_t *ends;      /* for each name, the offset of its separator in the text */
    size_t count, capacity;
    uint64_t *references;             /* NameRefs; NULL until names_hash */
    struct intern_table by_text;      /* the number of each name by its hash */
    struct intern_table by_reference; /* empty until names_index */
};

void names_free(struct names *names);

static inline struct bytes names_get(const struct names *names, size_t number)
{
    uint64_t start = number == 0 ? 0 : names->ends[number - 1] + 1;

    return (struct bytes){names->text.data + start, names->ends[number] - start};
}

/* Adds a name, unless it is in the table already; *number is its number. False if out of memory. */
bool names_add(struct names *names, struct bytes name, uint64_t *number);

/* Adds the names of a section except for empty ones. At most `limit` bytes are held at a time; if
 * 0, the limit follows from the section's size (memory_limit.h). `file` is for messages. */
bool names_add_section(struct names *names, struct bytes section, uint64_t limit, const char *file,
                       struct error *error);

/* Makes a table from a text of distinct names, and takes ownership of the text. No names can be
 * added to the table. Unfit if the last name has no separator. Free it even after a failure. */
enum result names_take_text(struct names *names, struct buffer *text);

/* Appends a section with all names in one uncompressed chunk, which LLVM's tools read faster than
 * the original chunks. If there are no names, the section is empty. False if out of memory. */
bool names_encode(const struct names *names, struct buffer *section);

/* Computes the NameRefs, unless that has been done. False if out of memory. */
bool names_hash(struct names *names, unsigned threads);

/* The same, and makes an index by NameRef. */
bool names_index(struct names *names, unsigned threads);

/* ---- looking names up ---- */

/* Reads a section into an indexed table whose names are followed by NUL instead of the separator.
 * Free it even after a failure. */
bool names_read(struct names *names, struct bytes section, const char *file, struct error *error);

/* The first name with this NameRef, valid as long as the table; NULL if there is none. */
const char *names_find(const struct names *names, uint64_t reference);

#endif
