/*
 * What a file has of images: a container of slices.
 *
 * A universal image (<mach-o/fat.h>) has several Mach-O images, for different machines, each of
 * them a slice. Any other file is a container of one slice, which is the whole file, so that
 * whoever works on images goes through the slices and never asks which of the two it is.
 *
 * The header of a universal image says where each slice is in the file. lipo and linkers lay the
 * slices out in one way: in the order of the header, each at the next multiple of its alignment,
 * with zeros between. Only such files are taken, since the layout of the original can then be made
 * again.
 */
#ifndef COVSPLIT_FORMATS_CONTAINER_H
#define COVSPLIT_FORMATS_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"

#define SLICES_MAX     16
#define SLICE_NAME_MAX 32

struct slice {
    char name[SLICE_NAME_MAX]; /* of the architecture: "arm64"; "" in a file that is one slice */
    uint64_t offset;           /* in the file */
    uint64_t size;
    uint64_t alignment; /* in bytes */
    /* The slice as an input of its own, which messages call FILE.ARCH. It views the file's, which
     * must outlive it. */
    struct input input;
};

struct container {
    bool is_universal;
    bool is_64;          /* the table's numbers are */
    struct bytes header; /* with the table of slices; a view of the file; empty in a thin image */
    struct slice slices[SLICES_MAX];
    size_t count;
};

bool container_is_universal(struct bytes bytes);

/* Reads and checks the table of a universal image; takes anything else as one slice. Closed with
 * container_close, also after a failure. */
bool container_open(struct container *container, const struct input *file, struct error *error);
void container_close(struct container *container);

/* Gives the slices, whose sizes have changed, their new offsets. `name` is for messages. */
bool container_lay_out(struct container *container, const char *name, struct error *error);

/* Writes the slice of that index, `size` bytes. */
typedef bool (*slice_writer)(void *context, size_t index, struct error *error);

/* Writes the container as it is laid out: header and zeros to the sink, and each slice, when its
 * turn comes, by the writer. */
bool container_write(const struct container *container, const char *name, bytes_sink sink,
                     void *sink_context, slice_writer writer, void *writer_context,
                     struct error *error);

#endif
