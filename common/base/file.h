/*
 * Files, paths, and inputs. An input is a file mapped read-only and accessed through a
 * bounds-checked view. For files that are written, see output.h.
 */
#ifndef COVSPLIT_COMMON_BASE_FILE_H
#define COVSPLIT_COMMON_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/digest.h"
#include "common/base/error.h"

/* ---- which file it is, and whether it has changed ---- */

/* True if both describe the same file. */
bool file_is_same(const struct stat *a, const struct stat *b);

/* True if size and modification time are the same in both. */
bool file_has_same_contents(const struct stat *before, const struct stat *now);

/* True if both describe the same file and nothing has changed between them, not even its mode or
 * the number of its links. */
bool file_is_untouched(const struct stat *before, const struct stat *now);

/* Fails if the file at `path` is not the one that `before` describes, or has changed since. `name`
 * is for messages. */
bool file_check_untouched(const char *path, const struct stat *before, const char *name,
                          struct error *error);

/* True if the file at `path` exists and is the file that `status` describes. */
bool file_is(const char *path, const struct stat *status);

/* The state of a path before another program may write it. */
struct file_before {
    bool exists;
    struct stat status;
};

struct file_before file_look_before(const char *path);

/* *written: whether a regular file is there, and is not the one, or not as it was, before. *now
 * gets its status. Returns false if that cannot be found out. */
bool file_was_written(const struct file_before *before, const char *path, struct stat *now,
                      bool *written, struct error *error);

/* True if the path is that of a directory, or of a link to one. */
bool path_is_directory(const char *path);

/* True if nothing exists at the path; false if that cannot be determined. `flags` are those of
 * fstatat(2): with AT_SYMLINK_NOFOLLOW a dangling symbolic link counts as existing. */
bool file_is_missing(const char *path, int flags);

/* The permission bits of a new file: 0666 minus the umask. */
mode_t file_new_mode(void);

/* Like open(2) for reading, but opens the real file. Under `covsplit run`, open() is intercepted
 * and returns converted files, which code that reads sidecars, images and profiles must not get. */
int file_open_as_it_is(const char *path, int flags);

/* ---- inputs ---- */

struct input {
    char *path; /* as the user gave it, for messages */
    /* Called with the number of bytes that input_release_pages has released, to show progress. May
     * be NULL. */
    void (*released)(void *context, uint64_t size);
    void *released_context;
    int fd;
    struct stat status;
    struct bytes bytes; /* the whole file: mapped, or after input_read a copy */
    struct buffer held; /* these bytes, if they come from a buffer; else empty */
};

/* Maps a regular file. The view of an empty file is empty. On failure nothing is left open. */
bool input_open(struct input *input, const char *path, struct error *error);

/* The same for a descriptor, which the caller keeps. `name` is the file's name in messages. */
bool input_open_descriptor(struct input *input, int fd, const char *name, struct error *error);

/* The same, but copies the file into memory. Needed if other processes may truncate the file, since
 * accessing a mapped file beyond its new end raises SIGBUS. Holes in the file take no memory and no
 * time. Fails if the file changes meanwhile. A descriptor's position is moved and then restored. */
bool input_read(struct input *input, const char *path, struct error *error);
bool input_read_descriptor(struct input *input, int fd, const char *name, struct error *error);

/* Makes an input of the buffer, and takes that over if it succeeds; fd is -1. */
bool input_from_buffer(struct input *input, struct buffer *buffer, const char *name,
                       struct error *error);

/* An input over bytes that stay the caller's: it must not be closed. */
static inline struct input input_of_bytes(struct bytes bytes, const char *name)
{
    return (struct input){.path = (char *)(uintptr_t)name,
                          .fd = -1,
                          .bytes = bytes,
                          .held = {.data = (uint8_t *)(uintptr_t)bytes.data}};
}

/* Reads a whole regular file into the buffer, replacing its contents. For many files that are read
 * once each: reusing one buffer is cheaper than mapping every file. A file that grows meanwhile is
 * read up to its old size. Fails if the file has more than `limit` bytes (memory_limit.h). */
bool file_read_into(struct buffer *buffer, const char *path, uint64_t limit, struct error *error);

/* Reads only the first bytes of the file, at most `most` of them. */
bool file_read_front(struct buffer *buffer, const char *path, size_t most, struct error *error);

/* Reads bytes that are inside the file, without moving the descriptor's position. */
bool file_read_at(int fd, const char *path, uint64_t offset, void *to, size_t size,
                  struct error *error);

/* Releases the memory of the pages in [offset, offset + size) after use, so that the resident size
 * stays bounded however large the file is. They can still be read again. */
void input_release_pages(const struct input *input, uint64_t offset, uint64_t size);

/* The same for bytes that may be elsewhere, where nothing is released, without telling anyone. */
void input_drop_pages(const struct input *input, struct bytes part);

/* The digest of bytes. Pages of the input are dropped after use; it may be NULL. */
struct digest input_digest_of(const struct input *input, struct bytes part);

/* Returns false if the file's size or modification time has changed since it was opened. Anything
 * computed from it must be discarded then. */
bool input_unchanged(const struct input *input, struct error *error);

/* For a file that is to be replaced: keeps others who call this from replacing it too, until the
 * input is closed. Fails at once if another has called it, or if the path has another file or other
 * contents by now. File systems without locks let all pass. */
bool input_hold(const struct input *input, struct error *error);

/* Sets the error for a file that changed while it was being read. Returns false. */
bool file_report_change(const char *path, struct error *error);

/* To be called when writing from the mapped file `path` failed. If the error is EFAULT, pages of
 * the mapping are gone, and the error is replaced by one that says that the file has changed.
 * Returns false. */
bool report_if_truncated(const char *path, struct error *error);

/* Closes the descriptor but keeps the view, so that any number of inputs can be open. */
void input_close_descriptor(struct input *input);

/* Safe to call on an input that is all zeros or already closed. */
void input_close(struct input *input);

/* ---- paths ---- */

/* The directory part of the path, "." if it has none. If that is longer than the system allows,
 * returns false and sets errno to ENAMETOOLONG. */
bool path_directory(const char *path, char directory[PATH_MAX]);

/* The part behind the last slash: the whole path if it has none. */
const char *path_file_name(const char *path);

/* Makes the names in a directory durable, as far as its file system can do that. Returns false with
 * errno set if it fails. */
bool directory_sync(const char *path);

/* Makes the name at the path durable, the same way; not if its directory may be written to but not
 * read, which cannot be opened. */
bool path_sync_name(const char *path);

/* True if both paths name the same file, even through links, or would if it existed: that is, if
 * they have the same name in the same directory. */
bool paths_refer_to_same_file(const char *a, const char *b);

/* ---- directories ---- */

/* Names, sorted as text. */
struct directory_names {
    char **items;
    size_t count;
    size_t capacity;
};

/* Reads the names for which the filter returns true; without a filter (NULL), all but "." and "..".
 * All of them, or it fails: if the disk fails halfway, the directory must not appear to have fewer.
 * On failure the error's number is the errno value, ENOENT if the directory does not exist. Free
 * with directory_names_free, even after a failure. */
bool directory_names_read(const char *path, bool (*filter)(const char *name),
                          struct directory_names *names, struct error *error);
void directory_names_free(struct directory_names *names);

/* Makes the directory, unless there is one. */
bool directory_make(const char *path, struct error *error);

#endif
