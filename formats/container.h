/*
 * Containers: the images in a file, as a list of slices.
 *
 * A universal file (<mach-o/fat.h>) holds several Mach-O images, one for each machine; each of them
 * is a slice. Any other file is a container with one slice, the whole file. So code that works on
 * images loops over the slices and need not ask which kind of file it has.
 *
 * The header of a universal file says where each slice is in the file. lipo and linkers all lay the
 * slices out in the same way: in the order of the header, each at the next multiple of its
 * alignment, with zeros in between. Only such files are accepted, because their layout can be made
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
    /* The slice as an input of its own; messages name it FILE.ARCH. Its bytes are a view of the
     * file's input, which must outlive it. */
    struct input input;
};

struct container {
    bool is_universal;
    bool is_64;          /* the table has 64-bit offsets and sizes */
    struct bytes header; /* header and table of slices, a view of the file; empty if thin */
    struct slice slices[SLICES_MAX];
    size_t count;
};

bool container_is_universal(struct bytes bytes);

/* Reads and checks the table of a universal file; treats any other file as one slice. Call
 * container_close afterwards, also after a failure. */
bool container_open(struct container *container, const struct input *file, struct error *error);
void container_close(struct container *container);

/* Assigns new offsets to the slices after their sizes have changed. `name` is for messages. */
bool container_lay_out(struct container *container, const char *name, struct error *error);

/* Writes the slice with that index: as many bytes as its `size` says. */
typedef bool (*slice_writer)(void *context, size_t index, struct error *error);

/* Writes the whole container in its current layout: header and padding go to `sink`, and `writer`
 * is called for each slice when its turn comes. */
bool container_write(const struct container *container, const char *name, bytes_sink sink,
                     void *sink_context, slice_writer writer, void *writer_context,
                     struct error *error);

#endif
