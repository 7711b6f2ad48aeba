/*
 * Stores at URLs: see remote.h.
 */
#include "common/store/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/sidecar/delta.h"
#include "common/sidecar/sidecar.h"
#include "common/store/http.h"

#define MISSING_SUFFIX  ".missing"
#define MISSING_SECONDS 600
#define FAULT_SECONDS   60
/* Each has an open file. */
#define ERRANDS_MAX 64

/* A UUID that could not be fetched. */
struct fault {
    struct uuid uuid;
    time_t until;
    struct error error;
};

struct remote {
    char *url;       /* without '/' at its end */
    char *cache;     /* NULL if it cannot be written, or if there is no place for one */
    char *temporary; /* what takes its place; or NULL */
    uint64_t most;
    time_t missing_seconds;
    pthread_mutex_t lock; /* of what follows, and while something is fetched */
    struct http *http;    /* NULL: nothing was asked yet */
    struct fault down;    /* the server; no UUID */
    struct fault *faults;
    size_t fault_count, fault_capacity;
    bool has_warned;
    char *read_only; /* the cache, once it is known that it cannot be written */
};

/* A file that is being fetched: a sidecar, or the base of some. */
struct errand {
    struct http_request request;
    char *url, *path;
    const struct uuid *uuid; /* NULL for a base */
    struct digest digest;    /* of a base; or of the one that a sidecar needs */
    bool needs_base, is_kept;
    struct output output;
};

/* ---- URLs ---- */

bool remote_is_url(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

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
    const char *missing = getenv("COVSPLIT_CACHE_MISSING");
    long seconds = MISSING_SECONDS;
    struct remote *remote;
    char *end;

    if (!check_url(url, error))
        return NULL;
    if (missing != NULL && missing[0] != '\0') {
        seconds = strtol(missing, &end, 10);
        if (*end != '\0' || seconds < 0) {
            error_set(error, "COVSPLIT_CACHE_MISSING: %s: not a number of seconds; give 0 or more",
                      missing);
            return NULL;
        }
    }
    remote = calloc(1, sizeof(*remote));
    if (remote != NULL && (remote->url = strdup(url)) != NULL) {
        for (size_t i = strlen(url); remote->url[i - 1] == '/'; i--)
            remote->url[i - 1] = '\0';
        remote->cache = cache_of(remote->url);
        remote->most = most;
        remote->missing_seconds = seconds;
        pthread_mutex_init(&remote->lock, NULL);
        return remote;
    }
    free(remote);
    error_out_of_memory(error, url, sizeof(*remote));
    return NULL;
}

/* For nftw. */
static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void remote_close(struct remote *remote)
{
    if (remote == NULL)
        return;
    if (remote->temporary != NULL)
        nftw(remote->temporary, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    http_close(remote->http);
    pthread_mutex_destroy(&remote->lock);
    free(remote->faults);
    free(remote->temporary);
    free(remote->read_only);
    free(remote->cache);
    free(remote->url);
    free(remote);
}

/* ---- the cache ---- */

/* The directory that is written; NULL with an error if there is none. */
static const char *place(struct remote *remote, struct error *error)
{
    const char *parent = getenv("TMPDIR");
    char *path;

    if (remote->cache != NULL || remote->temporary != NULL)
        return remote->cache != NULL ? remote->cache : remote->temporary;
    if (parent == NULL || parent[0] != '/')
        parent = "/tmp";
    if (asprintf(&path, "%s/covsplit-XXXXXX", parent) < 0) {
        error_out_of_memory(error, remote->url, strlen(parent));
        return NULL;
    }
    if (mkdtemp(path) != NULL)
        return remote->temporary = path;
    error_set_errno(error, errno,
                    "%s: has no room for what is fetched, nor has COVSPLIT_CACHE; make some", path);
    free(path);
    return NULL;
}

/* Gives the cache up, which cannot be written. False if its place is taken already. */
static bool give_up_cache(struct remote *remote)
{
    if (remote->cache == NULL)
        return false;
    remote->read_only = remote->cache;
    remote->cache = NULL;
    return true;
}

/* Like store_find in a directory, except that a file which is cut short, or was never one of ours,
 * is not there. */
static bool find_in(const char *directory, const struct uuid *uuid, struct store_match *match,
                    struct error *error)
{
    struct store_match found = {0};
    struct uuid kept;

    if (directory == NULL || match->path != NULL)
        return true;
    if (!store_find(directory, uuid, STORE_EXACT, &found, error))
        return false;
    if (found.path != NULL && !sidecar_peek(found.path, &kept, error) &&
        !error_is_of_system(error)) {
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
           find_in(remote->temporary, uuid, match, error) &&
           find_in(remote->read_only, uuid, match, error);
}

static bool has(const struct remote *remote, const struct uuid *uuid)
{
    struct store_match match = {0};
    struct error ignored;

    find_kept(remote, uuid, &match, &ignored);
    free(match.path);
    return match.path != NULL;
}

/* ---- what is known not to be there ---- */

static bool is_missing(const struct remote *remote, const char *sidecar)
{
    struct stat status;
    char *path;
    bool is_known;

    if (asprintf(&path, "%s" MISSING_SUFFIX, sidecar) < 0)
        return false;
    is_known = stat(path, &status) == 0 && status.st_mtime <= time(NULL) &&
               time(NULL) - status.st_mtime < remote->missing_seconds;
    free(path);
    return is_known;
}

/* An empty file, which is as old as the answer. Without it the server is asked again. */
static void note_missing(const struct remote *remote, const char *sidecar)
{
    const struct output_options options = {.mode = file_new_mode(), .needs_no_sync = true};
    struct output output = {.fd = -1};
    enum output_result result;
    struct error ignored;
    char *path;

    if (remote->missing_seconds == 0 || asprintf(&path, "%s" MISSING_SUFFIX, sidecar) < 0)
        return;
    unlink(path);
    if (store_output_create(&output, path, &options, &ignored))
        store_output_commit(&output, true, &result, &ignored);
    output_discard(&output);
    free(path);
}

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

static void note_fault(struct remote *remote, const struct uuid *uuid, const struct error *error)
{
    const struct fault fault = {*uuid, time(NULL) + FAULT_SECONDS, *error};

    if (!error_is_of_system(error) &&
        ARRAY_ROOM_FOR_ONE(remote->faults, remote->fault_capacity, remote->fault_count))
        remote->faults[remote->fault_count++] = fault;
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

/* Fills in an errand: `path` is below the directory of the store. */
static bool plan(const struct remote *remote, struct errand *errand, const char *directory,
                 char *path, struct error *error)
{
    errand->path = path;
    errand->output.fd = -1;
    if (path == NULL ||
        asprintf(&errand->url, "%s/%s", remote->url, path + strlen(directory) + 1) < 0) {
        errand->url = NULL;
        return error_out_of_memory(error, remote->url, sizeof(*errand));
    }
    errand->request = (struct http_request){
        .url = errand->url,
        .most = remote->most,
        .begin = begin_file,
        .receive = receive_file,
        .context = errand,
    };
    return true;
}

static void free_errands(struct errand *errands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        output_discard(&errands[i].output);
        free(errands[i].path);
        free(errands[i].url);
    }
    free(errands);
}

/* Carries out the errands. */
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

/* Sets the errand's error: that of the request, which may have been received. */
static bool fail(struct errand *errand, const char *what, const char *why)
{
    struct http_request *request = &errand->request;

    request->result = HTTP_FAULTY;
    return error_set(&request->error,
                     "%.500s: %s%.350s; see to what the server sends, or give another store",
                     errand->url, what, why);
}

/* Checks what was received for a sidecar, and whether it needs a base. */
static bool check_sidecar(struct errand *errand)
{
    struct error *error = &errand->request.error, why;
    struct input input = {.fd = -1};
    struct sidecar *sidecar = NULL;
    char hex[UUID_HEX_MAX];
    bool done = false;

    if (!output_map(&errand->output, &input, error)) {
        errand->request.result = HTTP_UNKEPT;
        return false;
    }
    sidecar = sidecar_open(input.bytes, errand->url, &why);
    if (sidecar == NULL && error_is_of_system(&why)) {
        errand->request.result = HTTP_UNKEPT;
        *error = why;
    } else if (sidecar == NULL) {
        /* The reason begins with the URL, too. */
        bool is_named = strncmp(why.message, errand->url, strlen(errand->url)) == 0;

        fail(errand, "no sidecar was received", why.message + (is_named ? strlen(errand->url) : 0));
    } else if (!uuid_equal(&sidecar->facts.uuid, errand->uuid)) {
        fail(errand, "is the sidecar of UUID ", uuid_format(&sidecar->facts.uuid, hex));
    } else {
        done = true;
        errand->needs_base = sidecar->base.is_needed;
        errand->digest = sidecar->base.digest;
    }
    sidecar_close(sidecar);
    input_close(&input);
    return done;
}

static bool check_base(struct errand *errand)
{
    struct input input = {.fd = -1};
    struct digest found;

    if (!output_map(&errand->output, &input, &errand->request.error)) {
        errand->request.result = HTTP_UNKEPT;
        return false;
    }
    found = digest_of(input.bytes);
    input_close(&input);
    return digest_equal(&found, &errand->digest) ||
           fail(errand, "not the base that its name says", "");
}

/* Gives the file its name in the cache, in place of what cannot be used. */
static void keep(struct errand *errand)
{
    enum output_result result;

    errand->is_kept = store_output_commit(&errand->output, true, &result, &errand->request.error);
    if (!errand->is_kept)
        errand->request.result = HTTP_UNKEPT;
}

/* ---- fetching ---- */

/* Fetches the bases that sidecars need and the cache lacks. A sidecar without its base is a fault.
 */
static bool fetch_bases(struct remote *remote, const char *directory, struct errand *sidecars,
                        size_t count, struct error *error)
{
    struct errand *bases = calloc(count + 1, sizeof(*bases));
    size_t base_count = 0;
    bool done = bases != NULL || error_out_of_memory(error, remote->url, count * sizeof(*bases));

    for (size_t i = 0; done && i < count; i++) {
        char *path;
        size_t k = 0;

        if (sidecars[i].request.result != HTTP_RECEIVED || !sidecars[i].needs_base)
            continue;
        path = delta_base_path(sidecars[i].path, &sidecars[i].digest);
        while (k < base_count && !digest_equal(&bases[k].digest, &sidecars[i].digest))
            k++;
        if (path != NULL && (k < base_count || !file_is_missing(path, 0))) {
            free(path);
            continue;
        }
        done = plan(remote, &bases[base_count], directory, path, error);
        bases[base_count++].digest = sidecars[i].digest;
    }
    if (done && base_count != 0)
        go(remote, bases, base_count);
    for (size_t k = 0; done && k < base_count; k++) {
        struct http_request *base = &bases[k].request;

        if (base->result == HTTP_RECEIVED && check_base(&bases[k]))
            keep(&bases[k]);
        if (base->result == HTTP_ABSENT)
            fail(&bases[k], "not there, and deltas need it", "");
        for (size_t i = 0; !bases[k].is_kept && i < count; i++) {
            if (sidecars[i].needs_base && digest_equal(&sidecars[i].digest, &bases[k].digest)) {
                sidecars[i].request.result = base->result;
                sidecars[i].request.error = base->error;
            }
        }
    }
    free_errands(bases, base_count);
    return done;
}

/* What became of the errand: keeps its sidecar, or notes why there is none. *again is set if the
 * cache could not be written, whose place is taken then. */
static void settle(struct remote *remote, struct errand *errand, bool *again, struct error *first)
{
    struct http_request *request = &errand->request;
    char *missing;

    if (request->result == HTTP_RECEIVED)
        keep(errand);
    if (request->result == HTTP_UNKEPT && !error_is_of_memory(&request->error) &&
        (*again || give_up_cache(remote))) {
        *again = true;
        return;
    }
    if (errand->is_kept && asprintf(&missing, "%s" MISSING_SUFFIX, errand->path) >= 0) {
        unlink(missing);
        free(missing);
    } else if (request->result == HTTP_ABSENT) {
        note_missing(remote, errand->path);
    } else if (!errand->is_kept) {
        note_fault(remote, errand->uuid, &request->error);
        if (first->message[0] == '\0' || error_is_of_system(&request->error))
            *first = request->error;
    }
}

/* The same for up to ERRANDS_MAX UUIDs. *again is set if the cache could not be written: its place
 * is taken then. */
static bool fetch_some(struct remote *remote, const struct uuid *uuids, size_t count, bool *again,
                       struct error *first, struct error *error)
{
    const char *directory = place(remote, error);
    struct errand *errands = calloc(count + 1, sizeof(*errands));
    size_t errand_count = 0;
    bool done = directory != NULL;

    *again = false;
    if (done && errands == NULL)
        done = error_out_of_memory(error, remote->url, count * sizeof(*errands));
    for (size_t i = 0; done && i < count; i++) {
        const struct error *fault = known_fault(remote, &uuids[i]);
        char *path;

        if (has(remote, &uuids[i]))
            continue;
        if (fault != NULL && first->message[0] == '\0')
            *first = *fault;
        path = store_path(directory, &uuids[i]);
        if (fault != NULL || (path != NULL && is_missing(remote, path))) {
            free(path);
            continue;
        }
        done = plan(remote, &errands[errand_count], directory, path, error);
        errands[errand_count++].uuid = &uuids[i];
    }
    if (done && errand_count != 0 && remote->http == NULL)
        done = (remote->http = http_open(error)) != NULL;
    if (done && errand_count != 0)
        go(remote, errands, errand_count);
    for (size_t i = 0; done && i < errand_count; i++) {
        if (errands[i].request.result == HTTP_RECEIVED)
            check_sidecar(&errands[i]);
    }
    done = done && fetch_bases(remote, directory, errands, errand_count, error);
    for (size_t i = 0; done && i < errand_count; i++)
        settle(remote, &errands[i], again, first);
    free_errands(errands, errands == NULL ? 0 : errand_count);
    return done;
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

bool remote_is_first_warning(struct remote *remote)
{
    bool is_first;

    pthread_mutex_lock(&remote->lock);
    is_first = !remote->has_warned;
    remote->has_warned = true;
    pthread_mutex_unlock(&remote->lock);
    return is_first;
}
