/*
 * Files that are written.
 *
 * An output is written to a file without a name (or, where the file system has none, under a
 * temporary one) in the directory of the final path, and gets that path by one rename: it appears
 * whole or not at all, whatever kills the process.
 */
#ifndef COVSPLIT_COMMON_BASE_OUTPUT_H
#define COVSPLIT_COMMON_BASE_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/error.h"
#include "common/base/file.h"

/* Outputs have temporary names ".NAME.covsplit-XXXXXX", with the NAME (its first 200 characters)
 * that they are to get, where they must have a name. The length of NAME, which starts at name + 1;
 * 0 where `name` is not of this form. No output gets such a name for good: output_create refuses
 * it. So a file that has one may always go, and who ends the process (cli/signals.h) needs to
 * know no more.
 *
 * An output without a name gets a temporary one that cannot be seen from its descriptor. As long as
 * it has, and while it is decided that it stays, its descriptor has a lock on the file
 * (F_OFD_SETLKW), and no signal is handled in the thread: others must wait for the lock first. */
size_t file_temporary_final_length(const char *name);

enum output_result {
    OUTPUT_WRITTEN,   /* the path has new contents */
    OUTPUT_UNCHANGED, /* the path had just these bytes (and mode) and was not touched */
    OUTPUT_OVERTAKEN, /* a failure in place: what is there is not what was read, and stays */
    /* A failure in place, where the file has several names: it has some of the new bytes. */
    OUTPUT_HALF_WRITTEN,
    /* Of output_try_commit alone; nothing has changed: */
    OUTPUT_NAME_TAKEN,   /* there is something at the path */
    OUTPUT_NO_DIRECTORY, /* its directory is not there any more */
};

struct output {
    char *path;      /* as given, for messages */
    char *target;    /* the final path: `path`, or what it leads to (see output_create) */
    char *temporary; /* a name that must be unlinked on failure; NULL while the file has none */
    int fd;
    mode_t mode;
    bool in_place;
    bool is_other_form;
    bool is_synced; /* all of it is on the disk */
    struct stat replaced; /* what is at the path, where in_place is set: when it was read */
    uint64_t size;        /* bytes written so far, those in `pending` included */
    struct buffer pending;
};

struct output_options {
    /* Permission bits of the result, exactly (not reduced by the umask). Set-user-ID and the like
     * are only taken in place: elsewhere the file may get another owner. */
    mode_t mode;
    /* For an edit in place, what is replaced; NULL: none is meant. As `strip` behaves: the owner
     * stays if the caller may set it; a symbolic link stays and what it leads to is replaced; where
     * the file has more names (hard links), all of them see the new contents. The latter means to
     * write over the old file, which is the one case that is not atomic. A file that is not what
     * was read any more when its turn comes, or another one, stays as it is. */
    const struct input *in_place;
    /* In place, the output says the same as what it replaces, in another form. So it gets the time
     * of modification of that, and other names of the file may go on with the old form: it is
     * always atomic. Where the file system can swap two names, what others put at the path, or
     * remove from it, even in the last moment, is not undone. */
    bool is_other_form;
    /* The output never gets its path: others read it through the descriptor. It has no name then on
     * any file system. */
    bool is_nameless;
};

/* Starts an output at path. Fails where path is something else than a regular file, or a name that
 * is still free, in a directory that can be written. */
bool output_create(struct output *output, const char *path, const struct output_options *options,
                   struct error *error);

/* Appends. Large views go to the file directly, small ones are gathered. */
bool output_write(struct output *output, struct bytes view, struct error *error);
bool output_write_zeros(struct output *output, uint64_t size, struct error *error);

/* The same as a bytes_sink, for which the output is the context. */
bool output_sink(void *output, struct bytes part, struct error *error);

/* Writes out what is gathered, and maps what was written: the caller can read it back and check it
 * before it is committed. The input is closed with input_close, and must be before the output is.
 */
bool output_map(struct output *output, struct input *input, struct error *error);

/* Writes out what is gathered, and flushes: from here on another process may write to the file. */
bool output_lend(struct output *output, struct error *error);
/* Takes the file back, as large as it is now. */
bool output_take_back(struct output *output, struct error *error);

/* Has the system begin to bring to the disk what was written so far, while there is other work: the
 * output_sync that follows then takes less time. */
void output_start_sync(const struct output *output);

/* Writes out what is gathered and has it on the disk, ready for output_commit. */
bool output_sync(struct output *output, struct error *error);

/* False where what is replaced in place has changed since it was read, or is another file by now:
 * for who has to know before output_commit, which looks again. */
bool output_can_replace(const struct output *output, struct error *error);

/* Gives the output its path, unless the file there is the same already. Calls output_sync first.
 * The output is finished after this, whatever the result, and *result is set also by a failure. */
bool output_commit(struct output *output, enum output_result *result, struct error *error);

/* The same for a directory that many write to and clean up at once, also over a network. Without
 * `replace` the output gets its path only where nothing has it: of all that try at the same time
 * one succeeds (link(2); there is no moment between looking and writing). The output is finished
 * unless the result is OUTPUT_NAME_TAKEN or OUTPUT_NO_DIRECTORY: then it is still whole, and can be
 * tried again or discarded. */
bool output_try_commit(struct output *output, bool replace, enum output_result *result,
                       struct error *error);

/* Throws the output away, if it was not committed. Safe on a zeroed or finished output. */
void output_discard(struct output *output);

#endif
