/*
 * What the modules of a state share: its directory, its lock, and the names in it.
 */
#ifndef COVSPLIT_COMMON_STATE_STATE_DIRECTORY_H
#define COVSPLIT_COMMON_STATE_STATE_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/digest.h"
#include "common/base/directory.h"
#include "common/base/error.h"
#include "common/state/state.h"

#define STATE_FILE_NAME "covsplit-state"
#define STATE_IMAGES    "images"
#define STATE_BATCHES   "batches"
#define STATE_OPEN      ".open" /* the suffix of the file of a batch that is prepared */

/* A nonce starts with the number of its state, so that claims of another state are recognized. */
#define STATE_ID_SIZE 8

struct state {
    char *path;
    enum state_access access;
    uint64_t memory_limit;
    uint8_t id[STATE_ID_SIZE];
    int lock_fd;              /* covsplit-state */
    struct digest gone_batch; /* a batch that is known to be gone, also after a power failure */
};

/* "STATE/FOLDER/NAME" and a suffix, to be freed. NULL with an error if out of memory. */
char *state_file_path(const struct state *state, const char *folder, const struct digest *name,
                      const char *suffix, struct error *error);

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

#endif
