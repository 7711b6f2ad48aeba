/*
 * What the files that write and read objects share. Only these include this header.
 */
#ifndef COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H
#define COVSPLIT_COMMON_SIDECAR_OBJECT_FILE_H

#include "common/sidecar/note.h"
#include "common/sidecar/object.h"

/* Different from the note types in sidecars, so that an object is not taken for a sidecar. */
#define OBJECT_NOTE_TYPE 0x1010
#define OBJECT_NOTE_SIZE 32 /* without the text */

/* Coverage that takes the place of the sidecar's own, for a member of a union: covmap and names,
 * which the object takes over, and covfun, which the function writes. All other sections are left
 * out. */
struct object_coverage {
    struct buffer covmap;
    struct buffer names;
    enum section_kind names_kind; /* SECTION_NAMES or SECTION_COVNAMES */
    uint64_t covfun_size;
    bool (*write_covfun)(const void *records, bytes_sink sink, void *context, struct error *error);
    const void *records;
};

/* An object that is laid out and can be written. `coverage` may be NULL, and must outlive it, as
 * the sidecar must. NULL with an error; all further errors are reported in *error too. */
struct object_writer *object_writer_new(const struct sidecar *sidecar,
                                        struct object_coverage *coverage, struct error *error);
/* A multiple of 8. */
uint64_t object_writer_size(const struct object_writer *writer);
bool object_writer_write(struct object_writer *writer, bytes_sink sink, void *context);
/* NULL is allowed. */
void object_writer_free(struct object_writer *writer);

#endif
