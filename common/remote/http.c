/*
 * GET requests by libcurl: see http.h.
 *
 * Redirects are followed here rather than by libcurl, which would send our headers along to any
 * host.
 */
#include "common/remote/http.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool http_read_number(const char *name, long fallback, long *number, struct error *error)
{
    const char *text = getenv(name);
    char *end;

    *number = fallback;
    if (text == NULL || text[0] == '\0')
        return true;
    *number = strtol(text, &end, 10);
    return (*end == '\0' && *number >= 0 && *number <= INT_MAX) ||
           error_set(error, "%s: %s: not a number of seconds; give a decimal number", name, text);
}

#ifdef COVSPLIT_WITH_CURL

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <strings.h>
#include <time.h>

#include "common/base/array.h"
#include "common/base/file.h"

#define TRIES           4
#define FIRST_PAUSE     200 /* milliseconds; each further one is three times as long */
#define RETRY_AFTER_MAX 10  /* seconds that a server may ask us to wait */
#define REDIRECTS_MAX   8
#define CONNECTIONS_MAX 8
#define TIMEOUT_DEFAULT 90   /* seconds, as debuginfod's client has */
#define SPEED_MIN       1024 /* bytes a second */
/* So many seconds after both time-outs, to connect and to send, libcurl has forgotten a transfer,
 * as 7.88 does when memory runs out while it connects: then there are no time-outs either. */
#define FORGOTTEN_SECONDS 10
#define OTHER_BODY_MAX    65536
#define HEADERS_SIZE_MAX  65536
#define POLL_MILLISECONDS 1000

#define OTHER_STORE       "or give another store"

/* ---- the library ---- */

/* clang-format off */
#define FUNCTIONS(F)                                                                               \
    F(global_init) F(easy_init) F(easy_cleanup) F(easy_setopt) F(easy_getinfo) F(easy_strerror)    \
    F(multi_init) F(multi_cleanup) F(multi_setopt) F(multi_add_handle) F(multi_remove_handle)      \
    F(multi_perform) F(multi_poll) F(multi_info_read) F(slist_append) F(slist_free_all)
/* clang-format on */

static struct {
    pthread_once_t once;
    bool is_there;
#define DECLARE(name) __typeof__(curl_##name) *name;
    FUNCTIONS(DECLARE)
} curl = {.once = PTHREAD_ONCE_INIT};

static void load_library(void)
{
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    curl.is_there = library != NULL;
#define FIND(name)                                                                                 \
    curl.is_there = curl.is_there && (*(void **)&curl.name = dlsym(library, "curl_" #name)) != NULL;
    FUNCTIONS(FIND)
    curl.is_there = curl.is_there && curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* ---- connections ---- */

struct http {
    CURLM *multi;
    struct curl_slist *headers;
    const char *certificate, *authorities; /* of the environment; may be NULL */
    long timeout;                          /* seconds */
    time_t heard;                          /* when the last byte came, in seconds() */
};

static time_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* One request, while it is carried out. */
struct transfer {
    struct http *http;
    struct http_request *request;
    CURL *easy;
    char *url; /* what is asked now: the request's, or where that led */
    unsigned redirects;
    uint64_t received; /* bytes of the body */
    bool has_begun, is_too_large;
    bool is_unfinished; /* to be tried again */
    long pause;         /* milliseconds that the server asks for */
    char reason[CURL_ERROR_SIZE];
};

/* Adds the lines of the file. */
static bool read_headers(struct http *http, const char *path, struct error *error)
{
    struct buffer text = {0};
    char *rest, *line;
    bool done = file_read_into(&text, path, HEADERS_SIZE_MAX, error);

    buffer_append(&text, "", 1);
    if (done && text.failed)
        done = error_out_of_memory(error, path, text.size);
    rest = (char *)text.data;
    for (size_t number = 1; done && (line = strsep(&rest, "\n")) != NULL; number++) {
        size_t length = strcspn(line, "\r"), name = strcspn(line, ": \t\r");
        struct curl_slist *longer;

        line[length] = '\0';
        if (line[0] == '\0' || line[0] == '#')
            continue;
        if (name == 0 || line[name] != ':') {
            done = error_set(error, "%s:%zu: not a header; write 'Name: value'", path, number);
            continue;
        }
        longer = curl.slist_append(http->headers, line);
        if (longer == NULL)
            done = error_out_of_memory(error, path, length);
        else
            http->headers = longer;
    }
    buffer_free(&text);
    return done;
}

/* NULL for an empty variable, too. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value == NULL || value[0] == '\0' ? NULL : value;
}

struct http *http_open(struct error *error)
{
    const char *headers = variable("COVSPLIT_HTTP_HEADERS");
    struct http *http;

    pthread_once(&curl.once, load_library);
    if (!curl.is_there) {
        error_set(error, "libcurl.so.4: cannot be loaded, and stores at URLs need it; install it "
                         "(Debian: libcurl4)");
        return NULL;
    }
    http = calloc(1, sizeof(*http));
    if (http == NULL || (http->multi = curl.multi_init()) == NULL) {
        error_out_of_memory(error, "a connection", sizeof(*http));
    } else if (http_read_number("COVSPLIT_HTTP_TIMEOUT", TIMEOUT_DEFAULT, &http->timeout, error) &&
               (headers == NULL || read_headers(http, headers, error))) {
        /* libcurl counts milliseconds; 0 is without end. */
        if (http->timeout == 0 || http->timeout > INT_MAX / 1000)
            http->timeout = INT_MAX / 1000;
        http->certificate = variable("COVSPLIT_HTTP_CERTIFICATE");
        http->authorities = variable("CURL_CA_BUNDLE");
        if (http->authorities == NULL)
            http->authorities = variable("SSL_CERT_FILE");
        curl.multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS_MAX);
        curl.multi_setopt(http->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, 2L * CONNECTIONS_MAX);
        return http;
    }
    http_close(http);
    return NULL;
}

/* ---- SIGPIPE ---- */

/* Writing to a connection that is gone, for TLS, raises it. What libcurl does about that, to ignore
 * it for the whole process and undo that later, cannot be done by several threads: it is left
 * ignored, or kills. So it is blocked in this thread. */
struct without_pipe {
    sigset_t before;
    bool was_pending;
};

static struct without_pipe block_pipe(void)
{
    struct without_pipe blocked;
    sigset_t pipe;

    sigpending(&pipe);
    blocked.was_pending = sigismember(&pipe, SIGPIPE) == 1;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &blocked.before);
    return blocked;
}

static void unblock_pipe(const struct without_pipe *blocked)
{
    const struct timespec at_once = {0, 0};
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!blocked->was_pending)
        sigtimedwait(&pipe, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &blocked->before, NULL);
}

void http_close(struct http *http)
{
    struct without_pipe blocked;

    if (http == NULL)
        return;
    blocked = block_pipe();
    if (http->multi != NULL)
        curl.multi_cleanup(http->multi);
    unblock_pipe(&blocked);
    curl.slist_free_all(http->headers);
    free(http);
}

/* ---- a transfer ---- */

/* A libcurl callback, which returns 0 to stop. Of what is no success, the body is only read to keep
 * the connection. */
static size_t receive(char *data, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    struct http_request *request = transfer->request;
    const struct bytes part = {(const uint8_t *)data, size * count};
    long status = 0;

    curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->received += part.size;
    transfer->http->heard = seconds();
    if (status != 200)
        return transfer->received <= OTHER_BODY_MAX ? part.size : 0;
    if (transfer->received > request->most) {
        transfer->is_too_large = true;
        return 0;
    }
    if ((!transfer->has_begun && !request->begin(request->context, &request->error)) ||
        !request->receive(request->context, part, &request->error)) {
        request->result = HTTP_UNKEPT;
        return 0;
    }
    transfer->has_begun = true;
    return part.size;
}

/* The length of "https://host:port". */
static size_t origin_length(const char *url)
{
    const char *host = strstr(url, "://");

    return host == NULL ? strlen(url) : (size_t)(host + 3 - url) + strcspn(host + 3, "/?#");
}

static bool has_same_origin(const char *a, const char *b)
{
    size_t length = origin_length(a);

    return length == origin_length(b) && strncasecmp(a, b, length) == 0;
}

/* Starts the transfer, at the beginning or where it was redirected to. */
static bool start(struct transfer *transfer)
{
    const struct http *http = transfer->http;
    CURL *easy = curl.easy_init();
    CURLcode failed = CURLE_OK;

    transfer->easy = easy;
    transfer->received = 0;
    transfer->reason[0] = '\0';
    if (easy == NULL)
        return false;
#define SET(option, value)                                                                         \
    failed = failed != CURLE_OK ? failed : curl.easy_setopt(easy, option, value)
    SET(CURLOPT_URL, transfer->url);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_ERRORBUFFER, transfer->reason);
    SET(CURLOPT_WRITEFUNCTION, receive);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)transfer->request->most);
    /* Sidecars are compressed. If it is sent compressed once more all the same, it is decoded. */
    SET(CURLOPT_ACCEPT_ENCODING, "identity");
    SET(CURLOPT_USERAGENT, "covsplit/" COVSPLIT_VERSION);
    SET(CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    SET(CURLOPT_CONNECTTIMEOUT, http->timeout);
    SET(CURLOPT_LOW_SPEED_TIME, http->timeout);
    SET(CURLOPT_LOW_SPEED_LIMIT, (long)SPEED_MIN);
    if (strncasecmp(transfer->url, "https", 5) == 0) /* of HTTP/2: one connection for all */
        SET(CURLOPT_PIPEWAIT, 1L);
    if (has_same_origin(transfer->url, transfer->request->url)) {
        SET(CURLOPT_HTTPHEADER, http->headers);
        if (http->certificate != NULL)
            SET(CURLOPT_SSLCERT, http->certificate);
    }
    if (http->authorities != NULL)
        SET(CURLOPT_CAINFO, http->authorities);
    return failed == CURLE_OK && curl.multi_add_handle(http->multi, easy) == CURLM_OK;
}

static void stop(struct transfer *transfer)
{
    if (transfer->easy == NULL)
        return;
    curl.multi_remove_handle(transfer->http->multi, transfer->easy);
    curl.easy_cleanup(transfer->easy);
    transfer->easy = NULL;
}

static void out_of_memory(struct transfer *transfer)
{
    error_out_of_memory(&transfer->request->error, transfer->request->url, sizeof(*transfer));
    transfer->request->result = HTTP_UNKEPT;
}

/* Goes on where the server points to. False if that is not allowed. */
static bool redirect(struct transfer *transfer)
{
    char *url = NULL;

    curl.easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &url);
    if (url == NULL || ++transfer->redirects > REDIRECTS_MAX ||
        !(strncasecmp(url, "https://", 8) == 0 ||
          (strncasecmp(url, "http://", 7) == 0 && strncasecmp(transfer->url, "http://", 7) == 0)))
        return false;
    url = strdup(url);
    stop(transfer);
    free(transfer->url);
    transfer->url = url;
    if (url == NULL || !start(transfer))
        out_of_memory(transfer);
    return true;
}

/* ---- what became of it ---- */

/* Sets the request's error, and whether to try again. */
static void judge_status(struct transfer *transfer, long status, unsigned tries)
{
    struct http_request *request = transfer->request;
    const char *advice = "see to the URL";
    curl_off_t wait = 0;

    request->result = HTTP_FAULTY;
    if (status == 429 || status >= 500) {
        request->result = HTTP_DOWN;
        transfer->is_unfinished = tries < TRIES;
        curl.easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &wait);
        transfer->pause = (long)(wait > RETRY_AFTER_MAX ? RETRY_AFTER_MAX : wait) * 1000;
        advice = "try again later";
    } else if (status == 401) {
        advice = "give what it asks for in ~/.netrc, or in a file for COVSPLIT_HTTP_HEADERS";
    } else if (status == 403) { /* as S3 says of what is not there */
        advice = "give what it asks for in ~/.netrc, or in a file for COVSPLIT_HTTP_HEADERS (of a "
                 "bucket: let readers list it)";
    }
    error_set(
        &request->error, "%.600s: the server answers %ld%s; %s, " OTHER_STORE, request->url, status,
        status / 100 == 3 ? " and leads in a circle, or elsewhere than to the web" : "", advice);
}

static void judge_failure(struct transfer *transfer, CURLcode code, unsigned tries)
{
    struct http_request *request = transfer->request;

    /* What broke off may be this file's. */
    request->result =
        transfer->has_begun && code != CURLE_OPERATION_TIMEDOUT ? HTTP_FAULTY : HTTP_DOWN;
    transfer->is_unfinished = tries < TRIES && code != CURLE_OPERATION_TIMEDOUT &&
                              code != CURLE_PEER_FAILED_VERIFICATION &&
                              code != CURLE_SSL_CERTPROBLEM && code != CURLE_SSL_CACERT_BADFILE &&
                              code != CURLE_URL_MALFORMAT;
    error_set(&request->error, "%.600s: cannot be fetched: %.200s; try again later, " OTHER_STORE,
              request->url,
              transfer->reason[0] != '\0' ? transfer->reason : curl.easy_strerror(code));
}

static void finish(struct transfer *transfer, CURLcode code, unsigned tries)
{
    struct http_request *request = transfer->request;
    long status = 0;

    curl.easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->result == HTTP_UNKEPT)
        return;
    /* A header that is too long is out of memory, too, says libcurl 7: that is no fault of the
     * machine. */
    if (transfer->is_too_large || (code == CURLE_FILESIZE_EXCEEDED && status == 200)) {
        request->result = HTTP_FAULTY;
        error_set(&request->error,
                  "%.600s: has more than %llu bytes; raise the limit (--memory-limit) if the "
                  "server is to be trusted",
                  request->url, (unsigned long long)request->most);
    } else if (code != CURLE_OK &&
               (status == 200 || (code != CURLE_WRITE_ERROR && code != CURLE_FILESIZE_EXCEEDED))) {
        judge_failure(transfer, code, tries);
    } else if (status == 404 || status == 410) {
        request->result = HTTP_ABSENT;
    } else if (status != 200) {
        judge_status(transfer, status, tries);
    } else if (!transfer->has_begun && !request->begin(request->context, &request->error)) {
        request->result = HTTP_UNKEPT; /* an empty body */
    } else {
        request->result = HTTP_RECEIVED;
    }
}

/* ---- all of them ---- */

/* Carries out the transfers that are not finished, once. */
static void run(struct http *http, struct transfer *transfers, size_t count, unsigned tries)
{
    int running = 1, left;
    CURLMsg *message;

    for (size_t i = 0; i < count; i++) {
        struct transfer *transfer = &transfers[i];

        if (!transfer->is_unfinished)
            continue;
        transfer->is_unfinished = transfer->has_begun = transfer->is_too_large = false;
        transfer->pause = transfer->redirects = 0;
        free(transfer->url);
        transfer->url = strdup(transfer->request->url);
        if (transfer->url == NULL || !start(transfer))
            out_of_memory(transfer);
    }
    http->heard = seconds();
    while (running != 0 && seconds() - http->heard <= 2 * http->timeout + FORGOTTEN_SECONDS &&
           curl.multi_perform(http->multi, &running) == CURLM_OK) {
        while ((message = curl.multi_info_read(http->multi, &left)) != NULL) {
            struct transfer *transfer = NULL;
            CURLcode code = message->data.result;
            long status = 0;

            curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
            curl.easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
            if (code == CURLE_OK && status / 100 == 3 && redirect(transfer)) {
                running = 1;
                continue;
            }
            finish(transfer, code, tries);
            stop(transfer);
            http->heard = seconds();
        }
        if (running != 0)
            curl.multi_poll(http->multi, NULL, 0, POLL_MILLISECONDS, NULL);
    }
    for (size_t i = 0; i < count; i++)
        stop(&transfers[i]);
}

static void get_all(struct http *http, struct transfer *transfers, size_t count)
{
    long pause = FIRST_PAUSE, longest;
    struct timespec left;
    bool goes_on;

    for (unsigned tries = 1; tries <= TRIES; tries++) {
        run(http, transfers, count, tries);
        goes_on = false;
        longest = pause;
        for (size_t i = 0; i < count; i++) {
            goes_on |= transfers[i].is_unfinished;
            if (transfers[i].pause > longest)
                longest = transfers[i].pause;
        }
        if (!goes_on)
            return;
        left = (struct timespec){longest / 1000, longest % 1000 * 1000000};
        while (nanosleep(&left, &left) != 0 && errno == EINTR)
            continue;
        pause *= 3;
    }
}

void http_get(struct http *http, struct http_request *const *requests, size_t count)
{
    struct transfer *transfers = calloc(count + 1, sizeof(*transfers));
    struct without_pipe blocked;

    for (size_t i = 0; i < count; i++) {
        requests[i]->result = transfers == NULL ? HTTP_UNKEPT : HTTP_DOWN;
        error_out_of_memory(&requests[i]->error, requests[i]->url, sizeof(*transfers));
        if (transfers != NULL)
            transfers[i] =
                (struct transfer){.http = http, .request = requests[i], .is_unfinished = true};
    }
    if (transfers == NULL)
        return;
    blocked = block_pipe();
    get_all(http, transfers, count);
    unblock_pipe(&blocked);
    for (size_t i = 0; i < count; i++)
        free(transfers[i].url);
    free(transfers);
}

#else

struct http *http_open(struct error *error)
{
    error_set(error,
              "libcurl: stores at URLs need it, and this covsplit was built without it; give "
              "the directory of a store");
    return NULL;
}

/* Not called, since nothing was opened. */
void http_close(struct http *http)
{
    (void)http;
}

void http_get(struct http *http, struct http_request *const *requests, size_t count)
{
    (void)http;
    (void)requests;
    (void)count;
}

#endif
