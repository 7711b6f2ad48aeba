/*
 * Lists of names that have many names in common: each name once, and the lists as numbers.
 *
 * Names are numbered in the order in which they come first in any list. Headers bring the same
 * names in the same order, so the one behind the name before is expected mostly. A function that
 * is emitted where it is used, though, comes only if it has not come in this list: those that have
 * are passed over. And where a list leaves what was expected, as for such functions, it may come
 * back to just that.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAME_LISTS_H
#define COVSPLIT_COMMON_CODEC_NAME_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/names.h"

/* Of each name of a list one byte tells which one it is. Stored in sidecars. */
enum member_kind {
    /* The one behind the name before in the list (at first: name 0); but of those from there on
     * that have come in this list, MEMBER_PASSED_MAX at most are passed over. Where that one has
     * not come in any list, it is the next new one. */
    MEMBER_EXPECTED,
    MEMBER_NEW, /* the first that has not come in any list */
    /* The last one that was expected where the kind was another, and that had come in some list but
     * not in this one; it has not come in this list since. */
    MEMBER_LEFT,
    MEMBER_OTHER, /* it is told by its number: bytes of the width at hand, low byte first */
};

#define MEMBER_PASSED_MAX 16

#define MEMBER_WIDTH_MIN  2
#define MEMBER_WIDTH_MAX  4

/* What both sides know. */
struct member_state {
    uint32_t *lists; /* of each name: the list that it came in last */
    uint64_t new_number;
    uint32_t list; /* counted from 1 */
    uint64_t next; /* behind the name before */
    uint64_t left; /* UINT64_MAX: none */
};

/* ---- writing ---- */

/* Starts with its two buffers; freed with member_writer_free. */
struct member_writer {
    struct buffer *kinds;  /* a byte for each member */
    struct buffer *others; /* numbers of MEMBER_WIDTH_MAX bytes, up to member_writer_finish */
    struct names names;    /* the distinct ones */
    struct member_state state;
    size_t capacity; /* of state.lists */
};

void member_writer_free(struct member_writer *writer);

void member_writer_start_list(struct member_writer *writer);
/* False: no memory. */
bool member_writer_put(struct member_writer *writer, struct bytes name);

/* Brings the numbers to the least width that there is for so many names. False: there is none. */
bool member_writer_finish(struct member_writer *writer, unsigned *width);

/* ---- reading ---- */

struct member_reader {
    struct bytes kinds;  /* those that are left */
    struct bytes others; /* likewise */
    unsigned width;
    uint64_t count; /* names */
    struct member_state state;
};

/* False: no memory. Freed with member_reader_free, also after a failure. */
bool member_reader_start(struct member_reader *reader, size_t count, struct bytes kinds,
                         struct bytes others);
void member_reader_free(struct member_reader *reader);

/* Takes the width that the writer told. False: there is none such. */
bool member_reader_take_width(struct member_reader *reader, struct bytes *from);

void member_reader_start_list(struct member_reader *reader);
/* The next name's number. False where there is none, or none of a name. */
bool member_reader_take(struct member_reader *reader, uint64_t *number);

/* Whether nothing is left. */
bool member_reader_at_end(const struct member_reader *reader);

#endif
