/*
 * Lists of names that have many names in common: each name once, and the lists as codes ("Lists of
 * names" in docs/format.md).
 *
 * Headers bring the same names in the same order, so the name behind the one before is expected
 * mostly. A function that is emitted where it is used, though, comes only if it is not in this list
 * yet: those that are, are skipped. And where a list leaves what was expected, as for such
 * functions, it may resume just there.
 */
#ifndef COVSPLIT_COMMON_CODEC_NAME_LISTS_H
#define COVSPLIT_COMMON_CODEC_NAME_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/llvm/names.h"

/* Stored in sidecars. */
enum name_list_code {
    NAME_EXPECTED = 0,
    NAME_NEW = 1,
    NAME_RESUMED = 2,
    NAME_NUMBERED = 3,
};

#define NAME_SKIPPED_MAX 16

#define NAME_WIDTH_MIN   2
#define NAME_WIDTH_MAX   4

/* What both sides know. */
struct name_list_state {
    uint32_t *lists; /* of each name: the list that it came in last */
    uint64_t new_number;
    uint32_t list;    /* counted from 1 */
    uint64_t next;    /* behind the name before */
    uint64_t resumed; /* UINT64_MAX: none */
};

/* ---- writing ---- */

/* Starts with its two buffers; free with name_list_writer_free. */
struct name_list_writer {
    struct buffer *codes;
    struct buffer *numbers; /* numbers of NAME_WIDTH_MAX bytes, up to name_list_writer_finish */
    struct names names;     /* the distinct ones */
    struct name_list_state state;
    size_t capacity; /* of state.lists */
};

void name_list_writer_free(struct name_list_writer *writer);

void name_list_writer_start_list(struct name_list_writer *writer);
/* False if out of memory. */
bool name_list_writer_put(struct name_list_writer *writer, struct bytes name);

/* Brings the numbers to the least width that there is for so many names. False: there is none. */
bool name_list_writer_finish(struct name_list_writer *writer, unsigned *width);

/* ---- reading ---- */

struct name_list_reader {
    struct bytes codes;   /* those that are left */
    struct bytes numbers; /* likewise */
    unsigned width;
    uint64_t count; /* names */
    struct name_list_state state;
};

/* False if out of memory. Free with name_list_reader_free, even after a failure. */
bool name_list_reader_start(struct name_list_reader *reader, size_t count, struct bytes codes,
                            struct bytes numbers);
void name_list_reader_free(struct name_list_reader *reader);

/* Takes the width. False: there is none such. */
bool name_list_reader_take_width(struct name_list_reader *reader, struct bytes *from);

void name_list_reader_start_list(struct name_list_reader *reader);
/* The next name's number. False if there is none, or none of a name. */
bool name_list_reader_take(struct name_list_reader *reader, uint64_t *number);

/* Whether nothing is left. */
bool name_list_reader_at_end(const struct name_list_reader *reader);

#endif
