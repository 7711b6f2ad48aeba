/*
 * GET requests over HTTP and HTTPS, by libcurl.
 *
 * The library is loaded when the first connection is opened, so that programs which use no URL
 * neither need nor load it. Many requests run at the same time over a few connections, which are
 * kept for the next ones.
 *
 * What fails for a moment (status 429 and 5xx, a connection that breaks or is refused) is tried
 * four times in all, with growing pauses, which is safe for GET. A server that is silent is given
 * up.
 *
 * The environment decides, as with other programs that use libcurl: proxies (https_proxy, ...) and
 * ~/.netrc; and besides
 *
 *   COVSPLIT_HTTP_HEADERS      a file with "Name: value" lines; '#' begins a comment. They are sent
 * with each request, but not to where a redirect leads, if that is another host.
 *   COVSPLIT_HTTP_CERTIFICATE  a client certificate with its key, in PEM
 *   COVSPLIT_HTTP_TIMEOUT      give a server up after so many seconds with less than 1 KiB each
 * (90) CURL_CA_BUNDLE, SSL_CERT_FILE   certificates to trust, in place of the system's
 */
#ifndef COVSPLIT_COMMON_REMOTE_HTTP_H
#define COVSPLIT_COMMON_REMOTE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

enum http_result {
    HTTP_RECEIVED,
    HTTP_ABSENT, /* 404 or 410: the server works, and does not have it */
    HTTP_FAULTY, /* only this request: another status, too many bytes, or a part of the body */
    HTTP_DOWN,   /* the server, or the way to it; other requests would fail in the same way */
    HTTP_UNKEPT, /* the receiver failed: see `error` */
};

struct http_request {
    const char *url;
    uint64_t most; /* the largest size of the body, decoded, in bytes */
    /* Called when a body begins, that of a further try, too: what was received before is void. */
    bool (*begin)(void *context, struct error *error);
    bytes_sink receive; /* gets the body */
    void *context;
    /* Set by http_get. */
    enum http_result result;
    struct error error; /* unless it was received or is absent */
};

/* Reads the environment's variable of that name, a number of seconds; `fallback` if it is not set.
 */
bool http_read_number(const char *name, long fallback, long *number, struct error *error);

struct http;

/* NULL with an error if libcurl is not there, or if the environment is wrong. The caller closes it
 * with http_close. For one thread at a time. */
struct http *http_open(struct error *error);
void http_close(struct http *http); /* NULL is allowed */

/* Carries out all requests, and sets their results. */
void http_get(struct http *http, struct http_request *const *requests, size_t count);

#endif
