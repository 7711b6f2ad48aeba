/*
 * Lists of names that have many names in common: each name once, and the lists as numbers.
 *
 * Of a list every name is a number of W bytes, low byte first: 0 for the first name that has not
 * come yet in any list; else the name's number less that of the name before in the list (of the
 * first: less 0), and plus 1 where that is not negative, modulo 2^8W. Headers bring the same names
 * in the same order, so differences repeat where numbers would not.
 */
#ifndef COVSPLIT_COMMON_COMPACT_MEMBERS_H
#define COVSPLIT_COMMON_COMPACT_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "common/compact/name_table.h"
#include "common/compact/number_table.h"

#define MEMBER_WIDTH_MIN 2
#define MEMBER_WIDTH_MAX 4

/* ---- writing ---- */

struct member_writer {
    struct buffer *text;    /* of the distinct names: as a name_table wants it */
    struct buffer *members; /* of MEMBER_WIDTH_MAX bytes, up to member_writer_finish */
    struct number_table numbers;
    uint64_t before;
};

/* False: no memory. Freed with member_writer_free, also after a failure. */
bool member_writer_start(struct member_writer *writer, struct buffer *text, struct buffer *members);
void member_writer_free(struct member_writer *writer);

void member_writer_start_list(struct member_writer *writer);
/* False: no memory. */
bool member_writer_put(struct member_writer *writer, struct bytes name);

/* Brings the members to the least width that there is for so many names. False: there is none. */
bool member_writer_finish(struct member_writer *writer, unsigned *width);

/* ---- reading ---- */

/* Reads one list; several may be read at the same time. */
struct member_reader {
    const struct name_table *names;
    struct bytes members; /* those that are left */
    unsigned width;       /* MEMBER_WIDTH_MIN to MEMBER_WIDTH_MAX */
    uint64_t new_number;  /* of the first name that has not come in lists before */
    uint64_t before;
};

/* The next name's number. False where there is none, or none of a name. */
bool member_reader_take(struct member_reader *reader, uint64_t *number);

#endif
