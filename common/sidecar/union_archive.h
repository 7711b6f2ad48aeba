/*
 * The form of a union's archive, for the files that write and read it. Only these include this.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_UNION_ARCHIVE_H
#define COVSPLIT_COMMON_SIDECAR_UNION_ARCHIVE_H

#include <inttypes.h>

#include "common/sidecar/union.h"

#define UNION_MAGIC      "!<arch>\n"
#define UNION_MAGIC_SIZE 8

/* The header of a member: ar_name, ar_date, ar_uid, ar_gid, ar_mode, ar_size, ar_fmag. In place of
 * a name it has "#1/" and the size of the name after it, which is part of the member's size. */
#define UNION_HEADER_SIZE  60
#define UNION_NAME_FOLLOWS "#1/"
#define UNION_HEADER_END   "`\n"
#define UNION_HEADER_PRINTED                                                                       \
    UNION_NAME_FOLLOWS "%-13zu0           0     0     100644  %-10" PRIu64 UNION_HEADER_END
#define UNION_SIZE_MAX UINT64_C(9999999999)

/* A header begins at a multiple of 8, or behind the magic. */
#define UNION_ALIGNMENT      8

#define UNION_UUID_DIGITS    8
#define UNION_IMAGE_NAME_MAX 200
#define UNION_NAME_MAX       (UNION_IMAGE_NAME_MAX + 1 + UNION_UUID_DIGITS + UNION_ALIGNMENT)

#endif
