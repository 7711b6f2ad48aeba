/*
 * The things that the files of this folder share: the directory of a state, the files in it
 * (docs/format.md), and the names of claims.
 *
 * The files of images and batches are a header and a sequence of records, of which the last has a
 * digest of all before it. A file is written once, from front to back. When it is opened, the
 * digest is checked, and a list of the records is made; their contents are read when they are
 * needed, one at a time.
 */
#ifndef COVSPLIT_COMMON_STATE_INTERNAL_H
#define COVSPLIT_COMMON_STATE_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/array.h"
#include "common/base/digest.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/state/state.h"

/* ---- the directory (state.c) ---- */

#define STATE_IMAGES  "images"
#define STATE_BATCHES "batches"
#define STATE_OPEN    ".open" /* the suffix of the file of a batch that is prepared */

/* A nonce starts with the number of its state, so that claims of another state are recognized. */
#define STATE_ID_SIZE 8

struct state {
    char path[PATH_MAX]; /* leaves room for all names in it */
    enum state_access access;
    uint64_t memory_limit;
    uint8_t id[STATE_ID_SIZE];
    int lock_fd;              /* covsplit-state */
    struct digest gone_batch; /* a batch that is known to be gone, also after a power failure */
};

/* "STATE/FOLDER/NAME" and a suffix. */
void state_file_path(const struct state *state, const char *folder, const struct digest *name,
                     const char *suffix, char path[PATH_MAX]);

/* The names of a folder that are those of images or of committed batches. */
bool state_list(const struct state *state, const char *folder, struct directory_names *names,
                struct error *error);

/* The number that such a name stands for. False for other names. */
bool state_parse_name(const char *text, size_t length, struct digest *name);

/* Removes unfinished outputs, and the .open files of dead batches. Only with the lock. */
bool state_remove_leftovers(const struct state *state, struct error *error);

/* Syncs a directory to the disk, as far as its file system can do that. */
bool state_sync_directory(const char *path, struct error *error);
bool state_sync_folder(const struct state *state, const char *folder, struct error *error);

/* False if another state, or none, is at the path of this one by now. */
bool state_is_in_place(const struct state *state, struct error *error);

/* The lock of the state: shared by those who read, exclusive for those who change it. Waits. Fails
 * if the state is not in its place: then others have the lock of another file. */
bool state_lock(const struct state *state, struct error *error);
void state_unlock(const struct state *state);

/* Locks a whole file, which must be open for writing if `type` is F_WRLCK. Returns 0 or an errno
 * value; without `waits`, EAGAIN or EACCES if another process has the lock. */
int state_lock_file(int fd, short type, bool waits);

/* ---- files (state_file.c) ---- */

#define STATE_FILE_MAGIC   "covstate"
#define STATE_FILE_VERSION 2

enum state_file_kind {
    STATE_FILE_IMAGE = 1,
    STATE_FILE_BATCH = 2,
};

/* The numbers are part of the format. A sum is stored as the raw profile that it is; with byte
 * coverage that is plane 0, and for the other planes only the counters follow (profile_sum.h). */
enum state_record_tag {
    STATE_RECORD_PART = 1,    /* starts a sum: identity, and a 64-bit number of profiles */
    STATE_RECORD_PROFILE = 2, /* a raw profile */
    STATE_RECORD_PLANE = 3,   /* the counters of the next plane */
    STATE_RECORD_FOLDED = 4,  /* of an image: nonces of the batches that were added */
    STATE_RECORD_CLAIM = 5,   /* of a batch: the path of a claim */
    STATE_RECORD_END = 6,     /* the digest */
};

#define STATE_PART_RECORD_SIZE (DIGEST_SIZE + sizeof(uint64_t))

struct state_writer {
    struct output output;
    struct digest_stream digest;
};

/* Starts a file. The name is the identity or the nonce that its file name has. */
bool state_writer_start(struct state_writer *writer, const char *path, enum state_file_kind kind,
                        const struct digest *name, struct error *error);
bool state_writer_put(struct state_writer *writer, enum state_record_tag tag, struct bytes content,
                      struct error *error);

/* Appends the records of a sum. */
bool state_writer_put_sum(struct state_writer *writer, struct profile_sum *sum,
                          struct error *error);

/* Adds the last record, syncs the file to the disk, and reads it again to check it, since the
 * profiles that it counts may be deleted. Then writer->output can be committed. */
bool state_writer_end(struct state_writer *writer, struct error *error);

/* Discards what was not committed. Safe to call on a writer that is all zeros or ended. */
void state_writer_free(struct state_writer *writer);

struct state_record {
    enum state_record_tag tag;
    uint64_t offset; /* of the content */
    uint64_t size;
};

struct state_file {
    char path[PATH_MAX];
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

/* The identity and the number of profiles in a record that starts a sum. */
bool state_file_read_head(const struct state_file *file, size_t record, struct digest *identity,
                          uint64_t *profile_count, struct error *error);

/* Adds the sum that begins with this record. The limit is that of each record. */
bool state_file_add_sum(const struct state_file *file, size_t record, uint64_t limit,
                        struct profile_sum *sum, struct error *error);

/* Sets the error for a file that is not what it should be. Returns false. */
bool state_file_damaged(const char *path, const char *what, struct error *error);

/* ---- claims (batch.c) ---- */

/* The length of the claimed name, and the nonce of the batch; 0 if the name is not that of a claim.
 */
size_t claim_parse(const char *name, struct digest *nonce);

/* A claim as a batch lists it. Device and inode tell its directory from another one that has the
 * same path later. */
struct listed_claim {
    uint64_t device, inode; /* of the directory */
    char *path;             /* absolute */
};

/* Reads the record of a claim; the path is in the arena. */
bool claim_read(const struct state_file *batch, size_t record, struct arena *arena,
                struct listed_claim *claim, struct error *error);

#endif
