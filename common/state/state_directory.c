/*
 * The directory of a state: see state_directory.h.
 */
#include "common/state/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/output.h"

/* The contents of covsplit-state: this, the version, a space, the number of the state in
 * hexadecimal digits, and the end of the line. */
#define TITLE         "covsplit state "
#define STATE_VERSION 1
#define CONTENTS_MAX  128

/* ---- names ---- */

static int digit(char character)
{
    if (character >= '0' && character <= '9')
        return character - '0';
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

static bool parse_bytes(const char *text, size_t length, uint8_t *bytes, size_t size)
{
    if (length != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

bool state_parse_name(const char *text, size_t length, struct digest *name)
{
    return parse_bytes(text, length, name->bytes, DIGEST_SIZE);
}

char *state_file_path(const struct state *state, const char *folder, const struct digest *name,
                      const char *suffix, struct error *error)
{
    char text[DIGEST_HEX_MAX], *path;

    if (asprintf(&path, "%s/%s/%s%s", state->path, folder, digest_format(name, text), suffix) >= 0)
        return path;
    error_out_of_memory(error, state->path, sizeof(text));
    return NULL;
}

static char *folder_path(const char *path, const char *folder, struct error *error)
{
    char *joined;

    if (asprintf(&joined, "%s/%s", path, folder) >= 0)
        return joined;
    error_out_of_memory(error, path, strlen(path));
    return NULL;
}

static bool is_finished(const char *name)
{
    struct digest parsed;

    return state_parse_name(name, strlen(name), &parsed);
}

static bool list_folder(const struct state *state, const char *folder, bool (*filter)(const char *),
                        struct directory_names *names, struct error *error)
{
    char *path = folder_path(state->path, folder, error);
    bool done;

    *names = (struct directory_names){0};
    done = path != NULL && directory_names_read(path, filter, names, error);
    free(path);
    return done;
}

bool state_list(const struct state *state, const char *folder, struct directory_names *names,
                struct error *error)
{
    return list_folder(state, folder, is_finished, names, error);
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
    char *file = folder_path(state->path, STATE_FILE_NAME, error);
    struct stat opened, now;
    bool is = file != NULL && fstat(state->lock_fd, &opened) == 0 && stat(file, &now) == 0;
    bool is_known = is || errno == ENOENT || errno == ENOTDIR;

    is = is && file_is_same(&opened, &now);
    if (file != NULL && !is_known)
        error_set_errno(error, errno, "%s: cannot be read", state->path);
    else if (file != NULL && !is)
        error_set(error, "%s: the state was removed or replaced while it was used; merge again",
                  state->path);
    free(file);
    return is;
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
    char *path = folder_path(state->path, folder, error);
    bool done = path != NULL && state_sync_directory(path, error);

    free(path);
    return done;
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

/* Removes the .open file of a batch, unless that is alive. The lock is held while the name goes: a
 * batch that is just starting finds its file without a name then (batch.c). */
static void remove_dead(const char *path, bool *is_dead)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    *is_dead = fd < 0 ? errno == ENOENT : state_lock_file(fd, F_WRLCK, false) == 0;
    if (fd < 0)
        return;
    if (*is_dead)
        unlink(path);
    close(fd);
}

/* An output that got a temporary name has that until it is committed, which needs the lock, or is
 * that of a batch that is being prepared. */
static bool remove_leftover(const struct state *state, const char *folder, const char *name,
                            struct error *error)
{
    size_t temporary = file_temporary_final_length(name);
    struct digest nonce;
    bool is_dead = true;
    char *path;

    if (!state_parse_name(name + (temporary != 0),
                          temporary != 0 ? temporary : open_name_length(name), &nonce))
        return true;
    if (strcmp(folder, STATE_BATCHES) == 0) {
        path = state_file_path(state, folder, &nonce, STATE_OPEN, error);
        if (path == NULL)
            return false;
        remove_dead(path, &is_dead);
        free(path);
    }
    if (temporary == 0 || !is_dead)
        return true;
    if (asprintf(&path, "%s/%s/%s", state->path, folder, name) < 0)
        return error_out_of_memory(error, state->path, strlen(name));
    unlink(path);
    free(path);
    return true;
}

bool state_remove_leftovers(const struct state *state, struct error *error)
{
    static const char *const folders[] = {STATE_IMAGES, STATE_BATCHES};
    bool done = true;

    for (size_t i = 0; done && i < sizeof(folders) / sizeof(folders[0]); i++) {
        struct directory_names names;

        done = list_folder(state, folders[i], is_leftover, &names, error);
        for (size_t j = 0; done && j < names.count; j++)
            done = remove_leftover(state, folders[i], names.items[j], error);
        directory_names_free(&names);
    }
    return done;
}

/* ---- a new state ---- */

/* False also if it exists already, and is a directory. */
static bool make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno == EEXIST && path_is_directory(path))
        return true;
    if (errno == EEXIST)
        return error_set(error, "%s: not a directory; a state is one: name a new directory", path);
    return error_set_errno(error, errno, "%s: cannot be created", path);
}

static bool make_folder(const char *path, const char *folder, struct error *error)
{
    char *joined = folder_path(path, folder, error);
    bool done = joined != NULL && make_directory(joined, error);

    free(joined);
    return done;
}

/* Whether the name is of something else than a state that another process is creating. */
static bool is_strange(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, STATE_IMAGES) != 0 &&
           strcmp(name, STATE_BATCHES) != 0 && strcmp(name, STATE_FILE_NAME) != 0 &&
           file_temporary_final_length(name) == 0;
}

static bool check_empty(const char *path, struct error *error)
{
    struct directory_names names;
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
static bool create(const char *path, struct error *error)
{
    char *file = folder_path(path, STATE_FILE_NAME, error);
    char parent[PATH_MAX];
    bool done = file != NULL;

    if (done && file_is_missing(file, 0))
        done = make_directory(path, error) && check_empty(path, error) &&
               make_folder(path, STATE_IMAGES, error) && make_folder(path, STATE_BATCHES, error) &&
               (path_directory(path, parent) ||
                error_set_errno(error, errno, "%s: cannot be created", path)) &&
               state_sync_directory(parent, error) && write_title(path, file, error);
    free(file);
    return done;
}

/* ---- states ---- */

bool state_is(const char *path)
{
    struct error ignored;
    char *file = folder_path(path, STATE_FILE_NAME, &ignored);
    struct stat status;
    bool is = file != NULL && stat(file, &status) == 0;

    free(file);
    return is;
}

static bool parse_title(struct state *state, const char *contents, struct error *error)
{
    size_t title = strlen(TITLE);
    unsigned version = 0;
    int length = 0;

    if (strncmp(contents, TITLE, title) == 0)
        sscanf(contents + title, "%9u %n", &version, &length);
    if (length != 0 && version != STATE_VERSION)
        return error_set(error,
                         "%s: a state of version %u; this covsplit knows %d: use the version of "
                         "covsplit that made it",
                         state->path, version, STATE_VERSION);
    if (length == 0 || contents[strlen(contents) - 1] != '\n' ||
        !parse_bytes(contents + title + length, strlen(contents + title + length) - 1, state->id,
                     STATE_ID_SIZE))
        return error_set(error,
                         "%s: its file '" STATE_FILE_NAME "' is damaged; restore it from a copy",
                         state->path);
    return true;
}

static bool read_title(struct state *state, const char *file, struct error *error)
{
    char contents[CONTENTS_MAX] = "";
    struct buffer front = {0};

    if (!path_is_directory(state->path))
        return error_set(error, "%s: not a directory; a state is one: name a state", state->path);
    if (file_is_missing(file, 0))
        return error_set(error,
                         "%s: not a state: it has no file '" STATE_FILE_NAME "'; name a directory "
                         "that `covsplit merge --into` has made",
                         state->path);
    if (!file_read_front(&front, file, sizeof(contents) - 1, error)) {
        buffer_free(&front);
        return false;
    }
    if (front.size != 0)
        memcpy(contents, front.data, front.size);
    buffer_free(&front);
    return parse_title(state, contents[0] == '\0' ? "\n" : contents, error);
}

/* For writing the descriptor is not open for reading too: the handlers of signals take such files
 * for outputs. */
static bool open_lock(struct state *state, const char *file, struct error *error)
{
    int flags = (state->access == STATE_READ ? O_RDONLY : O_WRONLY) | O_CLOEXEC;

    state->lock_fd = file_open_as_it_is(file, flags);
    return state->lock_fd >= 0 || error_set_errno(error, errno, "%s: cannot be %s", state->path,
                                                  state->access == STATE_READ ? "read" : "written");
}

static bool open_all(struct state *state, struct error *error)
{
    char *file = NULL;
    bool done = (state->access != STATE_CREATE || create(state->path, error)) &&
                (file = folder_path(state->path, STATE_FILE_NAME, error)) != NULL &&
                read_title(state, file, error) && open_lock(state, file, error);

    free(file);
    return done;
}

bool state_open(struct state **opened, const char *path, enum state_access access,
                uint64_t memory_limit, struct error *error)
{
    struct state *state = calloc(1, sizeof(*state));

    *opened = NULL;
    if (state == NULL)
        return error_out_of_memory(error, path, sizeof(*state));
    *state = (struct state){
        .path = strdup(path), .access = access, .memory_limit = memory_limit, .lock_fd = -1};
    if (state->path == NULL ? !error_out_of_memory(error, path, strlen(path))
                            : !open_all(state, error)) {
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
    free(state->path);
    free(state);
}
