/*
 * Universal images: several Mach-O images, for different machines, in one file (<mach-o/fat.h>).
 *
 * A header says where each image, a slice, is in the file. lipo and linkers lay the slices out in
 * one way: in the order of the header, each at the next multiple of its alignment, with zeros
 * between. Only such files are taken, since the layout of the original can then be made again.
 */
#ifndef COVSPLIT_FORMATS_CONTAINER_H
#define COVSPLIT_FORMATS_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

#define UNIVERSAL_SLICES_MAX 16
#define UNIVERSAL_NAME_MAX   32

struct universal_slice {
    char name[UNIVERSAL_NAME_MAX]; /* of the architecture: "arm64" */
    uint64_t offset;               /* in the file */
    uint64_t size;
    uint64_t alignment; /* in bytes */
};

struct universal {
    struct bytes header; /* with the table of slices */
    bool is_64;          /* the table's numbers are */
    struct universal_slice slices[UNIVERSAL_SLICES_MAX];
    size_t count;
};

bool universal_recognize(struct bytes bytes);

/* Reads and checks the table. `name` is for messages. */
bool universal_read(struct bytes bytes, const char *name, struct universal *universal,
                    struct error *error);

/* Gives the slices, whose sizes have changed, their new offsets. False where those do not fit the
 * table. */
bool universal_lay_out(struct universal *universal);

/* Appends the header with the slices' offsets and sizes. */
bool universal_append_header(const struct universal *universal, struct buffer *header);

#endif
