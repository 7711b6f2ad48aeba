/*
 * The files of images and batches: see docs/format.md.
 *
 * Both are a header and a sequence of records, of which the last has a digest of all before it. A
 * file is written once, from front to back. When it is opened, the digest is checked, and a list of
 * the records is made; their contents are read when they are needed, one at a time.
 */
#ifndef COVSPLIT_COMMON_STATE_STATE_FILE_H
#define COVSPLIT_COMMON_STATE_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/output.h"

#define STATE_FILE_MAGIC   "covstate"
#define STATE_FILE_VERSION 1

enum state_file_kind {
    STATE_FILE_IMAGE = 1,
    STATE_FILE_BATCH = 2,
};

/* The numbers are part of the format. */
enum state_record_tag {
    STATE_RECORD_PART = 1,    /* starts a part: identity, and a 64-bit number of profiles */
    STATE_RECORD_PROFILE = 2, /* the sum: a raw profile; of byte coverage, plane 0 */
    STATE_RECORD_PLANE = 3,   /* the counters of the next plane */
    STATE_RECORD_TESTS = 4,   /* reached.h */
    STATE_RECORD_FOLDED = 5,  /* of an image: nonces of the batches that were added */
    STATE_RECORD_CLAIM = 6,   /* of a batch: the path of a claim */
    STATE_RECORD_END = 7,     /* the digest */
};

#define STATE_PART_RECORD_SIZE (DIGEST_SIZE + sizeof(uint64_t))

/* ---- writing ---- */

struct state_writer {
    struct output output;
    struct digest_stream *digest;
};

/* Starts a file. The name is the identity or the nonce that its file name has. */
bool state_writer_start(struct state_writer *writer, const char *path, enum state_file_kind kind,
                        const struct digest *name, struct error *error);
bool state_writer_put(struct state_writer *writer, enum state_record_tag tag, struct bytes content,
                      struct error *error);

/* Adds the last record, syncs the file to the disk, and reads it again to check it, since the
 * profiles that it counts may be deleted. Then writer->output can be committed. */
bool state_writer_end(struct state_writer *writer, struct error *error);

/* Discards what was not committed. Safe to call on a writer that is all zeros or ended. */
void state_writer_free(struct state_writer *writer);

/* ---- reading ---- */

struct state_record {
    enum state_record_tag tag;
    uint64_t offset; /* of the content */
    uint64_t size;
};

struct state_file {
    char *path;
    struct digest name;
    struct state_record *records; /* without the last one; in an order that is allowed */
    size_t count, capacity;
};

/* Checks the file and lists its records. Keeps no descriptor. The error's number is ENOENT if there
 * is no such file. */
bool state_file_open(struct state_file *file, const char *path, enum state_file_kind kind,
                     const struct digest *name, struct error *error);
void state_file_close(struct state_file *file); /* also one that is all zeros */

/* Reads the content of a record, replacing that of the buffer. */
bool state_file_read(const struct state_file *file, size_t record, uint64_t limit,
                     struct buffer *content, struct error *error);

/* Sets the error for a file that is not what it should be. Returns false. */
bool state_file_damaged(const char *path, const char *what, struct error *error);

#endif
