/*
 * The directory of a state, its lock, and the names in it: see internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"
#include "common/state/internal.h"

#define STATE_FILE_NAME "covsplit-state"

/* The contents of covsplit-state: this, the version, a space, the number of the state in
 * hexadecimal digits, and the end of the line. */
#define TITLE         "covsplit state "
#define STATE_VERSION 2
#define CONTENTS_MAX  128

/* ---- names ---- */

bool state_parse_name(const char *text, size_t length, struct digest *name)
{
    return hex_parse(text, length, name->bytes, DIGEST_SIZE);
}

/* The room for names behind the path of a state. */
#define NAMES_MAX (NAME_MAX + 16)

/* "STATE/NAME". */
static void path_in(const char *state, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%.*s/%.*s", PATH_MAX - NAMES_MAX, state, NAMES_MAX - 2, name);
}

void state_file_path(const struct state *state, const char *folder, const struct digest *name,
                     const char *suffix, char path[PATH_MAX])
{
    char text[DIGEST_HEX_MAX];

    snprintf(path, PATH_MAX, "%.*s/%s/%s%s", PATH_MAX - NAMES_MAX, state->path, folder,
             digest_format(name, text), suffix);
}

static bool is_finished(const char *name)
{
    struct digest parsed;

    return state_parse_name(name, strlen(name), &parsed);
}

bool state_list(const struct state *state, const char *folder, struct directory_names *names,
                struct error *error)
{
    char path[PATH_MAX];

    path_in(state->path, folder, path);
    return directory_names_read(path, is_finished, names, error);
}

/* ---- locks ---- */

int state_lock_file(int fd, short type, bool waits)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
    int result;

    do
        result = fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

bool state_is_in_place(const struct state *state, struct error *error)
{
    struct stat opened, now;
    char file[PATH_MAX];

    path_in(state->path, STATE_FILE_NAME, file);
    if (fstat(state->lock_fd, &opened) == 0 && stat(file, &now) == 0) {
        if (file_is_same(&opened, &now))
            return true;
    } else if (errno != ENOENT && errno != ENOTDIR) {
        return error_set_errno(error, errno, "%s: cannot be read", state->path);
    }
    return error_set(error, "%s: the state was removed or replaced while it was used; merge again",
                     state->path);
}

bool state_lock(const struct state *state, struct error *error)
{
    int failure =
        state_lock_file(state->lock_fd, state->access == STATE_READ ? F_RDLCK : F_WRLCK, true);

    if (failure != 0)
        return error_set_errno(
            error, failure, "%s: cannot be locked; use a directory on a local disk", state->path);
    if (state_is_in_place(state, error))
        return true;
    state_unlock(state);
    return false;
}

void state_unlock(const struct state *state)
{
    state_lock_file(state->lock_fd, F_UNLCK, true);
}

/* ---- directories on the disk ---- */

bool state_sync_directory(const char *path, struct error *error)
{
    return directory_sync(path) ||
           error_set_errno(error, errno, "%s: cannot be written to the disk", path);
}

bool state_sync_folder(const struct state *state, const char *folder, struct error *error)
{
    char path[PATH_MAX];

    path_in(state->path, folder, path);
    return state_sync_directory(path, error);
}

/* ---- what killed processes left ---- */

static size_t open_name_length(const char *name)
{
    size_t length = strlen(name), suffix = strlen(STATE_OPEN);

    return length > suffix && strcmp(name + length - suffix, STATE_OPEN) == 0 ? length - suffix : 0;
}

static bool is_leftover(const char *name)
{
    return file_temporary_final_length(name) != 0 || open_name_length(name) != 0;
}

/* Removes the .open file of a batch, unless that is alive; false if it is. The lock is held while
 * the name goes: a batch that is just starting finds its file without a name then (batch.c). */
static bool remove_dead(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_dead = fd < 0 ? errno == ENOENT : state_lock_file(fd, F_WRLCK, false) == 0;

    if (fd < 0)
        return is_dead;
    if (is_dead)
        unlink(path);
    close(fd);
    return is_dead;
}

/* An output that got a temporary name has that until it is committed, which needs the lock, or is
 * that of a batch that is being prepared. */
static void remove_leftover(const struct state *state, const char *folder, const char *name)
{
    size_t temporary = file_temporary_final_length(name);
    char path[PATH_MAX], in_folder[NAME_MAX + 16];
    struct digest nonce;
    bool is_dead = true;

    if (!state_parse_name(name + (temporary != 0),
                          temporary != 0 ? temporary : open_name_length(name), &nonce))
        return;
    if (strcmp(folder, STATE_BATCHES) == 0) {
        state_file_path(state, folder, &nonce, STATE_OPEN, path);
        is_dead = remove_dead(path);
    }
    if (temporary != 0 && is_dead) {
        snprintf(in_folder, sizeof(in_folder), "%s/%s", folder, name);
        path_in(state->path, in_folder, path);
        unlink(path);
    }
}

bool state_remove_leftovers(const struct state *state, struct error *error)
{
    static const char *const folders[] = {STATE_IMAGES, STATE_BATCHES};
    bool done = true;

    for (size_t i = 0; done && i < sizeof(folders) / sizeof(folders[0]); i++) {
        struct directory_names names = {0};
        char path[PATH_MAX];

        path_in(state->path, folders[i], path);
        done = directory_names_read(path, is_leftover, &names, error);
        for (size_t j = 0; done && j < names.count; j++)
            remove_leftover(state, folders[i], names.items[j]);
        directory_names_free(&names);
    }
    return done;
}

/* ---- a new state ---- */

static bool make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && path_is_directory(path)))
        return true;
    if (errno == EEXIST)
        return error_set(error, "%s: not a directory; a state is one: name a new directory", path);
    return error_set_errno(error, errno, "%s: cannot be created", path);
}

static bool make_folder(const char *path, const char *folder, struct error *error)
{
    char joined[PATH_MAX];

    path_in(path, folder, joined);
    return make_directory(joined, error);
}

/* True for the name of something else than a state that another process is creating. */
static bool is_strange(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, STATE_IMAGES) != 0 &&
           strcmp(name, STATE_BATCHES) != 0 && strcmp(name, STATE_FILE_NAME) != 0 &&
           file_temporary_final_length(name) == 0;
}

static bool check_empty(const char *path, struct error *error)
{
    struct directory_names names = {0};
    bool done = directory_names_read(path, is_strange, &names, error);

    if (done && names.count != 0)
        done = error_set(error,
                         "%s: not a state, but a directory with other files ('%s'); name a "
                         "new directory",
                         path, names.items[0]);
    directory_names_free(&names);
    return done;
}

static bool write_title(const char *path, const char *file, struct error *error)
{
    struct output_options options = {.mode = file_new_mode()};
    char contents[CONTENTS_MAX];
    enum output_result result;
    struct output output;
    uint64_t id;
    int length;

    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        return error_set_errno(error, errno, "%s: no random number for it", path);
    length = snprintf(contents, sizeof(contents), TITLE "%d %016llx\n", STATE_VERSION,
                      (unsigned long long)id);
    if (!output_create(&output, file, &options, error))
        return false;
    if (!output_write(&output, (struct bytes){(uint8_t *)contents, (uint64_t)length}, error) ||
        !output_try_commit(&output, false, &result, error)) {
        output_discard(&output);
        return false;
    }
    output_discard(&output); /* if another process was faster */
    return result != OUTPUT_NO_DIRECTORY ||
           error_set(error, "%s: was removed while it was being created; try again", path);
}

/* The file covsplit-state is made last: a directory that has it is a whole state, which survives a
 * power failure. */
static bool create(const char *path, const char *file, struct error *error)
{
    char parent[PATH_MAX];

    if (!file_is_missing(file, 0))
        return true;
    return make_directory(path, error) && check_empty(path, error) &&
           make_folder(path, STATE_IMAGES, error) && make_folder(path, STATE_BATCHES, error) &&
           (path_directory(path, parent) ||
            error_set_errno(error, errno, "%s: cannot be created", path)) &&
           state_sync_directory(parent, error) && write_title(path, file, error);
}

/* ---- states ---- */

bool state_is(const char *path)
{
    char file[PATH_MAX];
    struct stat status;

    if (strlen(path) > PATH_MAX - NAMES_MAX)
        return false;
    path_in(path, STATE_FILE_NAME, file);
    return stat(file, &status) == 0;
}

static bool read_title(struct state *state, const char *file, struct error *error)
{
    size_t title = strlen(TITLE);
    char contents[CONTENTS_MAX] = "";
    struct buffer front = {0};
    unsigned version = 0;
    int length = 0;
    bool done;

    if (!path_is_directory(state->path))
        return error_set(error, "%s: not a directory; a state is one: name a state", state->path);
    if (file_is_missing(file, 0))
        return error_set(error,
                         "%s: not a state: it has no file '" STATE_FILE_NAME "'; name a directory "
                         "that `covsplit merge --into` has made",
                         state->path);
    done = file_read_front(&front, file, sizeof(contents) - 1, error);
    if (done && front.size != 0)
        memcpy(contents, front.data, front.size);
    buffer_free(&front);
    if (!done)
        return false;
    if (strncmp(contents, TITLE, title) == 0)
        sscanf(contents + title, "%9u %n", &version, &length);
    if (length != 0 && version != STATE_VERSION)
        return error_set(error,
                         "%s: a state of version %u; this covsplit knows %d: use the version of "
                         "covsplit that made it",
                         state->path, version, STATE_VERSION);
    if (length == 0 || contents[strlen(contents) - 1] != '\n' ||
        !hex_parse(contents + title + length, strlen(contents + title + length) - 1, state->id,
                   STATE_ID_SIZE))
        return error_set(error,
                         "%s: its file '" STATE_FILE_NAME "' is damaged; restore it from a copy",
                         state->path);
    return true;
}

/* For writing, the descriptor of the lock is not open for reading too: the handlers of signals take
 * such files for outputs. */
static bool open_all(struct state *state, const char *path, struct error *error)
{
    bool is_read = state->access == STATE_READ;
    char file[PATH_MAX];

    if (strlen(path) > PATH_MAX - NAMES_MAX)
        return error_set_errno(error, ENAMETOOLONG, "%.700s: cannot be used", path);
    strcpy(state->path, path);
    path_in(path, STATE_FILE_NAME, file);
    if ((state->access == STATE_CREATE && !create(path, file, error)) ||
        !read_title(state, file, error))
        return false;
    state->lock_fd = file_open_as_it_is(file, (is_read ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    return state->lock_fd >= 0 ||
           error_set_errno(error, errno, "%s: cannot be %s", path, is_read ? "read" : "written");
}

bool state_open(struct state **opened, const char *path, enum state_access access,
                uint64_t memory_limit, struct error *error)
{
    struct state *state = calloc(1, sizeof(*state));

    *opened = NULL;
    if (state == NULL)
        return error_out_of_memory(error, path, sizeof(*state));
    *state = (struct state){.access = access, .memory_limit = memory_limit, .lock_fd = -1};
    if (!open_all(state, path, error)) {
        state_close(state);
        return false;
    }
    *opened = state;
    return true;
}

const char *state_path(const struct state *state)
{
    return state->path;
}

void state_close(struct state *state)
{
    if (state == NULL)
        return;
    if (state->lock_fd >= 0)
        close(state->lock_fd);
    free(state);
}
