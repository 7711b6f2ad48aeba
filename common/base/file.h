/*
 * Files, their paths, and inputs, which are mapped read-only and seen through a bounds-checked
 * view. What is written is in output.h.
 */
#ifndef COVSPLIT_COMMON_BASE_FILE_H
#define COVSPLIT_COMMON_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* True where there is a file at `path`, and it is the one that `status` is of. */
bool file_is(const char *path, const struct stat *status);

/* True where there is nothing at the path. What cannot be looked at may be there. `flags` are those
 * of fstatat(2): AT_SYMLINK_NOFOLLOW for a link that leads nowhere to count as something. */
bool file_is_missing(const char *path, int flags);

/* The permission bits of a new file: 0666 without those of the umask. */
mode_t file_new_mode(void);

/* open(2), for reading, of what is really there. Under `covsplit run` the function open gives
 * converted files, and whoever reads sidecars, images and profiles as such must not get those. */
int file_open_as_it_is(const char *path, int flags);

/* ---- inputs ---- */

struct input {
    char *path; /* as the user gave it, for messages */
    /* Called with the bytes that input_release_pages gives back: how far the work has come. NULL:
     * nobody wants to know. */
    void (*released)(void *context, uint64_t size);
    void *released_context;
    int fd;
    struct stat status;
    struct bytes bytes; /* the whole file; unless it was read, the pages are the kernel's */
};

/* Maps a regular file. An empty file gives an empty view. On failure nothing is left open. */
bool input_open(struct input *input, const char *path, struct error *error);

/* The same for a descriptor, which stays the caller's. `name` stands for the file in messages. */
bool input_open_descriptor(struct input *input, int fd, const char *name, struct error *error);

/* The same with a copy of the file in memory, for who must go on whatever others do to the file:
 * looking at a mapped file that is cut short raises SIGBUS. What the file has holes for takes no
 * memory, and no time. Fails where the file changes meanwhile. A descriptor's position is moved,
 * and put back. */
bool input_read(struct input *input, const char *path, struct error *error);
bool input_read_descriptor(struct input *input, int fd, const char *name, struct error *error);

/* Reads a whole regular file into the buffer, over what it held: for files that are looked at once,
 * one after the other, where reading into memory that is there costs less than mapping. A file that
 * grows meanwhile is read up to the size it had. Fails where it has more than `limit` bytes
 * (memory_limit.h). */
bool file_read_into(struct buffer *buffer, const char *path, uint64_t limit, struct error *error);

/* The same for its first bytes, up to `most` of them. */
bool file_read_front(struct buffer *buffer, const char *path, size_t most, struct error *error);

/* Gives back the pages of [offset, offset + size), which have been used and are not needed soon:
 * the resident size then stays bounded however large the file is. Reading them again works. */
void input_release_pages(const struct input *input, uint64_t offset, uint64_t size);

/* False where the file has another size or modification time than when it was opened. A result
 * computed meanwhile is worth nothing. */
bool input_unchanged(const struct input *input, struct error *error);

/* Whether two looks at a file saw the same size and the same modification time. */
bool file_has_same_contents(const struct stat *before, const struct stat *now);

/* The error of whoever finds that a file does not stay as it is. Returns false. */
bool file_report_change(const char *path, struct error *error);

/* After something made of the mapped file `path` could not be written: where that is because pages
 * of it are gone (EFAULT), the error becomes that it has changed. Returns false. */
bool file_blame(const char *path, struct error *error);

/* Closes the descriptor; the view stays. For inputs that are open in any number. */
void input_close_descriptor(struct input *input);

/* Safe on a zeroed or already closed input. */
void input_close(struct input *input);

/* ---- paths ---- */

/* The directory that the path is in, "." where it names none. False where that is longer than any
 * that the system takes, with ENAMETOOLONG for errno. */
bool path_directory(const char *path, char directory[PATH_MAX]);

/* True where both paths name one file, or would if they existed: the same file behind any links, or
 * the same name in the same directory. */
bool paths_meet(const char *a, const char *b);

#endif
