/*
 * Lists of names that have many names in common. Each name is stored once, and the lists as codes
 * ("Lists of names" in docs/format.md).
 *
 * A header brings the same names in the same order everywhere, so the expected name is the one that
 * followed the previous name before. Names that are in the current list already are skipped, since
 * a function that is emitted where it is first used occurs in a list only once.
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
    NAME_NUMBERED = 2,
};

#define NAME_SKIPPED_MAX 16

#define NAME_WIDTH_MIN   2
#define NAME_WIDTH_MAX   4

/* The state of writer and reader. */
struct name_list_state {
    uint32_t *lists;     /* of each name: the last list that contained it */
    uint64_t new_number; /* the number that a new name will get */
    uint32_t list;       /* the current list, counted from 1 */
    uint64_t next;       /* the number after the previous name's */
};

/* ---- writing ---- */

/* Initialize with the two buffers and zeros; free with name_list_writer_free. */
struct name_list_writer {
    struct buffer *codes;
    struct buffer *numbers; /* of NAME_WIDTH_MAX bytes each until name_list_writer_finish */
    struct names names;     /* the distinct names */
    struct name_list_state state;
    size_t capacity; /* of state.lists */
};

void name_list_writer_free(struct name_list_writer *writer);

void name_list_writer_start_list(struct name_list_writer *writer);
/* False if out of memory. */
bool name_list_writer_put(struct name_list_writer *writer, struct bytes name);

/* For lists of other things, whose distinct ones the caller numbers: the number that is expected,
 * and to put one. A new one must have the number state.new_number. */
uint64_t name_list_writer_expected(const struct name_list_writer *writer);
bool name_list_writer_put_number(struct name_list_writer *writer, uint64_t number);

/* Narrows the numbers to the least *width, in bytes, that suffices for all names. False if none
 * does. */
bool name_list_writer_finish(struct name_list_writer *writer, unsigned *width);

/* ---- reading ---- */

struct name_list_reader {
    struct bytes codes;   /* those not yet read */
    struct bytes numbers; /* likewise */
    unsigned width;       /* of the numbers, in bytes */
    uint64_t count;       /* of distinct names */
    struct name_list_state state;
};

/* False if out of memory. Free with name_list_reader_free, even after a failure. */
bool name_list_reader_start(struct name_list_reader *reader, size_t count, struct bytes codes,
                            struct bytes numbers);
void name_list_reader_free(struct name_list_reader *reader);

/* Reads the width off the front of *from. False if it is not a valid one. */
bool name_list_reader_take_width(struct name_list_reader *reader, struct bytes *from);

void name_list_reader_start_list(struct name_list_reader *reader);
/* Reads the number of the list's next name. False if there is none, or if no name has it. */
bool name_list_reader_take(struct name_list_reader *reader, uint64_t *number);

/* True if everything has been read. */
bool name_list_reader_at_end(const struct name_list_reader *reader);

#endif
