/*
 * Writing files.
 *
 * An output is written to an unnamed file in the directory of the final path, or to one with a
 * temporary name if the file system does not support unnamed files. It gets its final path by one
 * rename, so it appears whole or not at all, even if the process is killed.
 */
#ifndef COVSPLIT_COMMON_BASE_OUTPUT_H
#define COVSPLIT_COMMON_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"

/* Temporary names have the form ".NAME.covsplit-XXXXXX", where NAME is the final file name (its
 * first 200 characters). Returns the length of NAME, which starts at name + 1, or 0 if `name` is
 * not of this form. output_create refuses such names as final ones, so a file with such a name can
 * always be removed; the signal handler (cli/child.h) relies on that.
 *
 * An unnamed output also gets a temporary name shortly before the rename, which cannot be found out
 * from its descriptor. During that time, and while it is decided that the file stays, the
 * descriptor holds a lock on the file (F_OFD_SETLKW), and the thread handles no signals. Other
 * threads must wait for the lock before they remove the file. */
size_t file_temporary_final_length(const char *name);

enum output_result {
    OUTPUT_WRITTEN,   /* the path has new contents */
    OUTPUT_UNCHANGED, /* the file already had these bytes (and mode) and was not touched */
    OUTPUT_OVERTAKEN, /* failed in place: the file is not the one that was read; it stays */
    /* Overwriting a file that has several names failed halfway: it has some of the new bytes. */
    OUTPUT_HALF_WRITTEN,
    /* Failed: the path has the new contents, but a power failure may bring back what was there.
     * Whatever the new contents need must stay. */
    OUTPUT_NOT_SYNCED,
    /* Only from output_try_commit; nothing has changed: */
    OUTPUT_NAME_TAKEN,   /* the path exists */
    OUTPUT_NO_DIRECTORY, /* the directory has been removed */
};

#define PERMISSION_BITS 07777

struct output {
    char *path;      /* as given, for messages */
    char *target;    /* the final path: `path`, or the target of that symbolic link */
    char *temporary; /* a name that must be unlinked on failure; NULL while there is none */
    int fd;
    mode_t mode;
    bool in_place;
    struct error *unkept; /* see output_options; may be NULL */
    bool is_other_form;   /* see output_options */
    bool needs_no_sync;   /* see output_options */
    bool is_synced;       /* everything written so far is on the disk */
    struct stat replaced; /* if in_place: the status of the old file when it was read */
    uint64_t size;        /* bytes written so far, including those in `pending` */
    struct buffer pending;
};

struct output_options {
    /* Permission bits of the result, regardless of the umask. Set-user-ID and similar bits are only
     * set for an edit in place, since otherwise the file may have another owner. */
    mode_t mode;
    /* The file to replace, for an edit in place; otherwise NULL. The owner and the extended
     * attributes (capabilities, access lists, the user's own) are kept if the caller is allowed to
     * set them; of a symbolic link, the target is replaced; if the
     * file has several names (hard links), all of them get the new contents. For the last, the old
     * file has to be overwritten, which is the only case that is not atomic. If the file has
     * changed since it was read, or is another one by now, it is left alone; that is checked right
     * before the rename. */
    const struct input *in_place;
    /* For an edit in place, may be NULL: after a commit, the message says what of these could not
     * be kept; it is "" if nothing was lost. Must outlive the output. */
    struct error *unkept;
    /* For an edit in place that only changes the form, not the meaning. The output gets the
     * modification time of the file that it replaces. It always replaces the file by a rename, so
     * other names (hard links) keep the old form. */
    bool is_other_form;
    /* Do not wait for the disk, as compilers do not: for a file that is made again if power fails.
     * The file still appears whole or not at all if the process is killed. */
    bool needs_no_sync;
    /* The output never gets its path; it is read through the descriptor. It then has no name on any
     * file system. */
    bool is_nameless;
};

/* Starts an output. `path` must be a regular file, or not exist, and its directory must be
 * writable.
 */
bool output_create(struct output *output, const char *path, const struct output_options *options,
                   struct error *error);

/* Starts an output that is in memory, and is only read through the descriptor. `name` is for
 * messages. Discard it. */
bool output_create_in_memory(struct output *output, const char *name, struct error *error);

/* Appends. Large views are written directly, small ones are buffered. */
bool output_write(struct output *output, struct bytes view, struct error *error);

/* A bytes_sink that appends to an output; the context is the output. */
bool output_sink(void *output, struct bytes part, struct error *error);

/* Writes out what is buffered and maps the file, so that the caller can check it before it is
 * committed. Close the input with input_close before the output is finished. */
bool output_map(struct output *output, struct input *input, struct error *error);

/* Writes out what is buffered. From then on another process may write to the file. */
bool output_lend(struct output *output, struct error *error);
/* Continues after output_lend, with the size that the file has now. */
bool output_take_back(struct output *output, struct error *error);

/* Starts writing the data to disk in the background, so that output_sync takes less time later. */
void output_start_sync(const struct output *output);

/* Writes out what is buffered and syncs the file to disk, ready for output_commit. */
bool output_sync(struct output *output, struct error *error);

/* Returns false if the file to be replaced in place has changed since it was read, or is another
 * file by now. For callers that need to know before output_commit, which checks again. */
bool output_can_replace(const struct output *output, struct error *error);

/* Calls output_sync, then gives the output its path, unless the file there is identical already.
 * Afterwards the output is finished, even on failure; *result is set in any case. */
bool output_commit(struct output *output, enum output_result *result, struct error *error);

/* The same for a directory that many processes write to and clean up at the same time, even over a
 * network. Without `replace` the output gets its path only if that does not exist; if several
 * processes try at once, exactly one succeeds (by link(2), which checks and creates in one step).
 * The output is finished afterwards, unless the result is OUTPUT_NAME_TAKEN or OUTPUT_NO_DIRECTORY:
 * then it is still whole, and the caller can try again or discard it. */
bool output_try_commit(struct output *output, bool replace, enum output_result *result,
                       struct error *error);

/* Discards the output if it was not committed. Safe to call on an output that is all zeros or
 * finished. */
void output_discard(struct output *output);

#endif
