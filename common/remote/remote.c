/*
 * Stores at URLs: see remote.h.
 */
#include "common/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/remote/http.h"
#include "common/sidecar/delta.h"
#include "common/sidecar/sidecar.h"

#define MISSING_SECONDS 600
#define FAULT_SECONDS   60
#define ERRANDS_MAX     64 /* at a time: each has an open file */
/* Of a debuginfod's URLs. */
#define DEBUGINFOD_END     "/buildid"
#define DEBUGINFOD_SECTION "/section/.covsplit"

/* What could not be fetched, and is not asked for again by those who search next. */
struct fault {
    struct uuid uuid;
    time_t until;
    struct error error;
};

struct remote {
    char *url;   /* without '/' at its end */
    char *cache; /* NULL: there is no place for one */
    uint64_t most;
    long missing_seconds;
    atomic_flag has_warned[REMOTE_IS_UNPROVEN + 1];
    pthread_mutex_t lock; /* of what follows, and while something is fetched */
    char *temporary;      /* where files are kept since the cache could not be written; or NULL */
    struct http *http;    /* NULL: nothing was asked yet */
    struct fault down;    /* the server's own: it is not asked for anything; no UUID */
    struct fault *faults;
    size_t fault_count, fault_capacity;
};

/* A file that is being fetched: a sidecar, or the base of one. */
struct errand {
    struct http_request request;
    char *url, *path;
    const struct uuid *uuid; /* of a sidecar */
    struct output output;
};

/* ---- URLs ---- */

static bool check_url(const char *url, struct error *error)
{
    const char *host = strstr(url, "://") + 3;
    size_t length = strcspn(host, "/");

    if (memchr(host, '@', length) != NULL)
        return error_set(error,
                         "%.*s...: a URL with a password; give that in ~/.netrc, or in a file for "
                         "COVSPLIT_HTTP_HEADERS",
                         (int)(host - url), url);
    return (length != 0 && url[strcspn(url, "?# \t\r\n\"<>")] == '\0') ||
           error_set(error, "%s: not the URL of a directory; give https://HOST/PATH", url);
}

/* The URL as the name of a directory: percent-encoded, as a parameter of another URL would be. */
static char *encode(struct arena *memory, const char *url)
{
    static const char digits[] = "0123456789ABCDEF";
    char *text = arena_array(memory, strlen(url) + 1, 3), *to = text;

    if (text == NULL)
        return NULL;
    for (; *url != '\0'; url++) {
        unsigned char byte = (unsigned char)*url;

        if (byte > ' ' && byte < 0x7f && strchr("%/:", byte) == NULL) {
            *to++ = *url;
            continue;
        }
        *to++ = '%';
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    *to = '\0';
    return text;
}

/* The directory of the cache as a new string; NULL if there is no place for it, or no memory. */
static char *cache_of(const char *url)
{
    const char *given = getenv("COVSPLIT_CACHE"), *user = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME"), *name;
    struct arena memory = {0};
    char *path = NULL;

    name = encode(&memory, url);
    if (name != NULL && given != NULL && given[0] != '\0')
        path = arena_text(&memory, "%s/%s", given, name);
    else if (name != NULL && user != NULL && user[0] == '/')
        path = arena_text(&memory, "%s/covsplit/%s", user, name);
    else if (name != NULL && home != NULL && home[0] == '/')
        path = arena_text(&memory, "%s/.cache/covsplit/%s", home, name);
    path = path == NULL ? NULL : strdup(path);
    arena_free(&memory);
    return path;
}

struct remote *remote_open(const char *url, uint64_t most, struct error *error)
{
    struct remote *remote;
    long seconds;

    if (!check_url(url, error) ||
        !http_read_number("COVSPLIT_CACHE_MISSING", MISSING_SECONDS, &seconds, error))
        return NULL;
    remote = calloc(1, sizeof(*remote));
    if (remote == NULL || (remote->url = strdup(url)) == NULL) {
        free(remote);
        error_out_of_memory(error, url, sizeof(*remote));
        return NULL;
    }
    for (size_t i = strlen(url); remote->url[i - 1] == '/'; i--)
        remote->url[i - 1] = '\0';
    remote->cache = cache_of(remote->url);
    remote->most = most;
    remote->missing_seconds = seconds;
    pthread_mutex_init(&remote->lock, NULL);
    return remote;
}

/* ---- what is kept for the time being ---- */

#define TEMPORARY_COUNT 64

/* The temporary directories of this process, for when it ends by a signal. */
static _Atomic(char *) temporaries[TEMPORARY_COUNT];

/* As Linux gives those of a directory. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t kind;
    char name[];
};

/* Removes the directory and what is in it. For signal handlers, too, in which readdir is not
 * allowed. */
static void remove_directory(int parent, const char *path)
{
    const struct entry *entry;
    _Alignas(struct entry) char entries[2048] = {0};
    int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    long size;

    while (fd >= 0 && (size = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0) {
        for (long at = 0; at < size; at += entry->size) {
            entry = (const struct entry *)(const void *)(entries + at);
            if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0 &&
                unlinkat(fd, entry->name, 0) != 0)
                remove_directory(fd, entry->name);
        }
    }
    if (fd >= 0)
        close(fd);
    unlinkat(parent, path, AT_REMOVEDIR);
}

void remote_remove_temporary(void)
{
    for (size_t i = 0; i < TEMPORARY_COUNT; i++) {
        const char *path = temporaries[i];

        if (path != NULL)
            remove_directory(AT_FDCWD, path);
    }
}

/* Puts the one in the place of the other. */
static void note_temporary(char *before, char *after)
{
    for (size_t i = 0; i < TEMPORARY_COUNT; i++) {
        char *expected = before;

        if (atomic_compare_exchange_strong(&temporaries[i], &expected, after))
            return;
    }
}

void remote_close(struct remote *remote)
{
    if (remote == NULL)
        return;
    if (remote->temporary != NULL) {
        remove_directory(AT_FDCWD, remote->temporary);
        note_temporary(remote->temporary, NULL);
    }
    http_close(remote->http);
    pthread_mutex_destroy(&remote->lock);
    free(remote->faults);
    free(remote->temporary);
    free(remote->cache);
    free(remote->url);
    free(remote);
}

/* ---- the cache ---- */

/* Has files kept in a temporary directory from now on. */
static bool make_temporary(struct remote *remote, struct error *error)
{
    const char *parent = getenv("TMPDIR");
    char *path;

    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    if (asprintf(&path, "%s/covsplit-XXXXXX", parent) < 0)
        return error_out_of_memory(error, remote->url, strlen(parent));
    remote->temporary = mkdtemp(path);
    if (remote->temporary != NULL) {
        note_temporary(NULL, path);
        return true;
    }
    error_set_errno(error, errno,
                    "%s: what is fetched can be kept neither there nor in COVSPLIT_CACHE", parent);
    free(path);
    return false;
}

/* Whether the sidecar is one, and its base is there, too. */
static bool is_whole(const char *path, struct error *error)
{
    struct sidecar *sidecar = sidecar_map(path, error);
    bool is_delta = sidecar != NULL && sidecar->base.is_needed;
    char *base = is_delta ? delta_base_path(path, &sidecar->base.digest) : NULL;
    bool whole = sidecar != NULL && (!is_delta || (base != NULL && !file_is_missing(base, 0)) ||
                                     error_set(error, "%s: its base is gone", path));

    free(base);
    sidecar_close(sidecar);
    return whole;
}

/* Like store_find in a directory, except that a file which is cut short, was never one of ours, has
 * lost its base, or may not be read, is not there. */
static bool find_in(const char *directory, const struct uuid *uuid, struct store_match *match,
                    struct error *error)
{
    struct store_match found = {0};

    if (directory == NULL || match->path != NULL)
        return true;
    if (!store_find(directory, uuid, STORE_EXACT, &found, error))
        return false;
    if (found.path != NULL && !is_whole(found.path, error) &&
        (error->number == 0 || error->number == EACCES || error->number == ENOENT)) {
        free(found.path);
        return true;
    }
    *match = found;
    return true;
}

static bool find_kept(const struct remote *remote, const struct uuid *uuid,
                      struct store_match *match, struct error *error)
{
    return find_in(remote->cache, uuid, match, error) &&
           find_in(remote->temporary, uuid, match, error);
}

static bool has(const struct remote *remote, const struct uuid *uuid)
{
    struct store_match match = {0};
    struct error ignored;
    bool is_there;

    find_kept(remote, uuid, &match, &ignored);
    is_there = match.path != NULL;
    free(match.path);
    return is_there;
}

/* ---- what is known not to be there ---- */

static bool is_missing(const struct remote *remote, const char *sidecar)
{
    struct stat status;
    char *path;
    bool is_known;

    if (asprintf(&path, "%s" STORE_MISSING_SUFFIX, sidecar) < 0)
        return false;
    is_known = stat(path, &status) == 0 && status.st_mtime <= time(NULL) &&
               time(NULL) - status.st_mtime < remote->missing_seconds;
    free(path);
    return is_known;
}

/* An empty file, which is as old as the answer. Without it the server is asked again. */
static void note_missing(const struct remote *remote, const char *sidecar, bool is_it)
{
    const struct output_options options = {.mode = file_new_mode(), .needs_no_sync = true};
    struct output output = {.fd = -1};
    enum output_result result;
    struct error ignored;
    char *path;

    if (asprintf(&path, "%s" STORE_MISSING_SUFFIX, sidecar) < 0)
        return;
    unlink(path);
    if (is_it && remote->missing_seconds != 0 &&
        store_output_create(&output, path, &options, &ignored))
        store_output_commit(&output, true, &result, &ignored);
    output_discard(&output);
    free(path);
}

/* ---- what failed ---- */

/* A fault of this UUID, or of the server, that is not too old; or NULL. */
static const struct error *known_fault(const struct remote *remote, const struct uuid *uuid)
{
    time_t now = time(NULL);

    if (remote->down.until > now)
        return &remote->down.error;
    for (size_t i = 0; i < remote->fault_count; i++) {
        if (remote->faults[i].until > now && uuid_equal(&remote->faults[i].uuid, uuid))
            return &remote->faults[i].error;
    }
    return NULL;
}

/* Of faults of the machine, the next one to search tries again. */
static void note_fault(struct remote *remote, const struct uuid *uuid, const struct error *error)
{
    if (!error_is_of_system(error) &&
        ARRAY_ROOM_FOR_ONE(remote->faults, remote->fault_capacity, remote->fault_count))
        remote->faults[remote->fault_count++] =
            (struct fault){*uuid, time(NULL) + FAULT_SECONDS, *error};
}

/* ---- errands ---- */

/* Starts the file in the cache, once more after a body that broke off. */
static bool begin_file(void *context, struct error *error)
{
    const struct output_options options = {.mode = file_new_mode()};
    struct errand *errand = context;

    output_discard(&errand->output);
    return store_output_create(&errand->output, errand->path, &options, error);
}

static bool receive_file(void *context, struct bytes part, struct error *error)
{
    struct errand *errand = context;

    return output_write(&errand->output, part, error);
}

/* The URL of what has this path below the directory: a sidecar with this UUID, or if that is NULL,
 * a base. NULL if out of memory. */
static char *url_of(const struct remote *remote, const char *directory, const char *path,
                    const struct uuid *uuid)
{
    const char *end = strrchr(remote->url, '/');
    char hex[UUID_HEX_MAX], *url;
    int length;

    if (uuid != NULL && strcmp(end, DEBUGINFOD_END) == 0)
        length = asprintf(&url, "%s/%s" DEBUGINFOD_SECTION, remote->url, uuid_format(uuid, hex));
    else if (uuid != NULL)
        length = asprintf(&url, "%s/%s", remote->url, path + strlen(directory) + 1);
    else /* the path of a base is a real one, and need not begin with the directory */
        length =
            asprintf(&url, "%s/.build-id/" DELTA_BASES_NAME "%s", remote->url, strrchr(path, '/'));
    return length < 0 ? NULL : url;
}

/* Prepares the errand for a file at this path below the directory, which it takes over. */
static bool plan(const struct remote *remote, struct errand *errand, const char *directory,
                 char *path, const struct uuid *uuid, struct error *error)
{
    *errand = (struct errand){.path = path, .uuid = uuid, .output = {.fd = -1}};
    if (path == NULL || (errand->url = url_of(remote, directory, path, uuid)) == NULL) {
        return error_out_of_memory(error, remote->url, sizeof(*errand));
    }
    errand->request = (struct http_request){errand->url, remote->most, begin_file,     receive_file,
                                            errand,      HTTP_ABSENT,  {.message = ""}};
    return true;
}

static void free_errand(struct errand *errand)
{
    output_discard(&errand->output);
    free(errand->path);
    free(errand->url);
}

static void go(struct remote *remote, struct errand *errands, size_t count)
{
    struct http_request *requests[ERRANDS_MAX] = {NULL};

    for (size_t i = 0; i < count; i++)
        requests[i] = &errands[i].request;
    http_get(remote->http, requests, count);
    for (size_t i = 0; i < count; i++) {
        if (requests[i]->result == HTTP_DOWN)
            remote->down =
                (struct fault){.until = time(NULL) + FAULT_SECONDS, .error = requests[i]->error};
    }
}

/* Gives the file its name in the cache, in place of what cannot be used. */
static void keep(struct errand *errand)
{
    enum output_result result;

    if (!store_output_commit(&errand->output, true, &result, &errand->request.error))
        errand->request.result = HTTP_UNKEPT;
}

/* ---- fetching ---- */

/* Makes sure that the base of a sidecar is in the cache. What is wrong with it is remembered by its
 * digest, since it is the base of many. */
static void fetch_base(struct remote *remote, const char *directory, struct http_request *sidecar,
                       char *path, const struct digest *digest)
{
    struct input input = {.fd = -1};
    struct errand base = {0};
    struct uuid name = {.size = sizeof(digest->bytes)};
    const struct error *fault;
    struct digest found;
    struct stat status;

    memcpy(name.bytes, digest->bytes, name.size);
    fault = known_fault(remote, &name);
    if (path != NULL && stat(path, &status) == 0) {
        free(path);
        return;
    }
    if (fault != NULL) {
        sidecar->result = HTTP_FAULTY;
        sidecar->error = *fault;
        free(path);
        return;
    }
    sidecar->result = HTTP_UNKEPT;
    if (plan(remote, &base, directory, path, NULL, &sidecar->error)) {
        go(remote, &base, 1);
        if (base.request.result == HTTP_RECEIVED &&
            output_map(&base.output, &input, &base.request.error)) {
            found = digest_of(input.bytes);
            if (digest_equal(&found, digest))
                keep(&base);
            else
                base.request.result = HTTP_ABSENT;
        } else if (base.request.result == HTTP_RECEIVED) {
            base.request.result = HTTP_UNKEPT;
        }
        input_close(&input);
        sidecar->result = base.request.result;
        sidecar->error = base.request.error;
        if (base.request.result == HTTP_ABSENT) {
            sidecar->result = HTTP_FAULTY;
            error_set(&sidecar->error,
                      "%.500s: not there, or not the base that it was, and %.400s is a delta to "
                      "it; put the base back, or copy the sidecar there once more",
                      base.url, sidecar->url);
        }
        if (sidecar->result == HTTP_FAULTY)
            note_fault(remote, &name, &sidecar->error);
    }
    free_errand(&base);
}

/* Checks what was received for a sidecar, and gives it its name. */
static void check_and_keep(struct remote *remote, const char *directory, struct errand *errand)
{
    struct http_request *request = &errand->request;
    struct input input = {.fd = -1};
    struct sidecar *sidecar = NULL;
    char hex[UUID_HEX_MAX];
    bool is_mapped = output_map(&errand->output, &input, &request->error);

    if (is_mapped)
        sidecar = sidecar_open(input.bytes, errand->url, &request->error);
    if (sidecar == NULL) {
        request->result =
            !is_mapped || error_is_of_system(&request->error) ? HTTP_UNKEPT : HTTP_FAULTY;
    } else if (!uuid_equal(&sidecar->facts.uuid, errand->uuid)) {
        request->result = HTTP_FAULTY;
        error_set(&request->error,
                  "%s: is the sidecar of UUID %s; put that where it belongs, or give another "
                  "store",
                  errand->url, uuid_format(&sidecar->facts.uuid, hex));
    } else if (sidecar->base.is_needed) {
        fetch_base(remote, directory, request, delta_base_path(errand->path, &sidecar->base.digest),
                   &sidecar->base.digest);
    }
    sidecar_close(sidecar);
    input_close(&input);
    if (request->result == HTTP_RECEIVED)
        keep(errand);
}

/* Fetches up to ERRANDS_MAX sidecars. *again is set if the cache could not be written, whose place
 * is taken then; *first is the first fault. */
static bool fetch_some(struct remote *remote, const struct uuid *uuids, size_t count, bool *again,
                       struct error *first, struct error *error)
{
    const char *directory = remote->temporary != NULL ? remote->temporary : remote->cache;
    struct errand *errands = calloc(count + 1, sizeof(*errands));
    size_t errand_count = 0;
    bool done =
        errands != NULL || error_out_of_memory(error, remote->url, count * sizeof(*errands));

    *again = directory == NULL;
    for (size_t i = 0; done && !*again && i < count; i++) {
        struct errand *errand = &errands[errand_count];
        const struct error *fault = known_fault(remote, &uuids[i]);
        bool is_known_missing;

        if (has(remote, &uuids[i]))
            continue;
        done = plan(remote, errand, directory, store_path(directory, &uuids[i]), &uuids[i], error);
        is_known_missing = done && is_missing(remote, errand->path);
        if (done && !is_known_missing && fault == NULL) {
            errand_count++;
            continue;
        }
        if (done && !is_known_missing)
            *first = *fault;
        free_errand(errand);
    }
    if (done && errand_count != 0 && remote->http == NULL)
        done = (remote->http = http_open(error)) != NULL;
    if (done && errand_count != 0)
        go(remote, errands, errand_count);
    for (size_t i = 0; i < errand_count; i++) {
        struct http_request *request = &errands[i].request;

        if (done && request->result == HTTP_RECEIVED)
            check_and_keep(remote, directory, &errands[i]);
        if (done && (request->result == HTTP_ABSENT || request->result == HTTP_RECEIVED))
            note_missing(remote, errands[i].path, request->result == HTTP_ABSENT);
        else if (done && request->result == HTTP_UNKEPT && remote->temporary == NULL &&
                 !error_is_of_memory(&request->error))
            *again = true;
        else if (done) {
            note_fault(remote, errands[i].uuid, &request->error);
            if (first->message[0] == '\0' || error_is_of_system(&request->error))
                *first = request->error;
        }
        free_errand(&errands[i]);
    }
    free(errands);
    return done && (!*again || make_temporary(remote, error));
}

/* With the lock. */
static bool fetch_all(struct remote *remote, const struct uuid *uuids, size_t count,
                      struct error *error)
{
    struct error first = {0};
    bool done = true, again;

    for (size_t i = 0; done && i < count; i += again ? 0 : ERRANDS_MAX)
        done = fetch_some(remote, uuids + i, count - i < ERRANDS_MAX ? count - i : ERRANDS_MAX,
                          &again, &first, error);
    if (done && first.message[0] != '\0')
        *error = first;
    return done && first.message[0] == '\0';
}

bool remote_fetch(struct remote *remote, const struct uuid *uuids, size_t count,
                  struct error *error)
{
    bool done;

    pthread_mutex_lock(&remote->lock);
    done = fetch_all(remote, uuids, count, error);
    pthread_mutex_unlock(&remote->lock);
    return done;
}

bool remote_find(struct remote *remote, const struct uuid *uuid, struct store_match *match,
                 struct error *error)
{
    bool done;

    pthread_mutex_lock(&remote->lock);
    done = fetch_all(remote, uuid, 1, error) && find_kept(remote, uuid, match, error);
    pthread_mutex_unlock(&remote->lock);
    return done;
}

bool remote_has(struct remote *remote, const struct uuid *uuid)
{
    bool is_there;

    pthread_mutex_lock(&remote->lock);
    is_there = has(remote, uuid);
    pthread_mutex_unlock(&remote->lock);
    return is_there;
}

bool remote_is_first_warning(struct remote *remote, enum remote_warning warning)
{
    return !atomic_flag_test_and_set(&remote->has_warned[warning]);
}
