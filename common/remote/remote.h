/*
 * Stores at URLs, each with its cache.
 *
 * Any web server, bucket or CDN serves a store that was copied there: a sidecar is
 * GET URL/.build-id/ab/cdef....covsplit, and the base of a delta GET URL/.build-id/bases/HEX.base.
 * There are no lists. A URL that ends in "/buildid" is that of a debuginfod, which has the sidecar
 * as a section of the separate debug file: GET URL/UUID/section/.covsplit.
 *
 * What was fetched is kept in a directory, which is a store like any other: everyone else reads
 * sidecars from there. Each URL has a directory of its own, since nothing that one server says may
 * stand for another. A sidecar stays, since its UUID and its proof name its content; what the
 * server does not have is remembered for some time. What was received gets its name once it is
 * known to be a sidecar of this UUID, or the base with this digest; whether it fits a profile or an
 * image is tested by whoever searches, as for any other.
 *
 *   COVSPLIT_CACHE          the directory with these directories; else $XDG_CACHE_HOME/covsplit, or
 *                           ~/.cache/covsplit. One that cannot be written is read, and the rest is
 * kept in a temporary directory. COVSPLIT_CACHE_MISSING  for so many seconds the server is not
 * asked again for what it does not have (600)
 */
#ifndef COVSPLIT_COMMON_REMOTE_REMOTE_H
#define COVSPLIT_COMMON_REMOTE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/uuid.h"
#include "common/store/store.h"

struct remote;

/* Opens the store at the URL, which is copied; asks nothing yet. Files may have `most` bytes. NULL
 * with an error if the URL cannot be used. Close it with remote_close, which removes what was kept
 * for the time being. Any number of threads can use it. */
struct remote *remote_open(const char *url, uint64_t most, struct error *error);
void remote_close(struct remote *remote); /* NULL is allowed */

/* Removes what remotes have kept for the time being, when the process ends without closing them.
 * May be called in a signal handler. */
void remote_remove_temporary(void);

/* Makes sure that the cache has the sidecars of these UUIDs, and their bases, unless the server
 * lacks them. False with the first fault if it could not be asked for some, or sent something else;
 * the others are fetched. A fault is remembered for a minute, like what the server lacks. */
bool remote_fetch(struct remote *remote, const struct uuid *uuids, size_t count,
                  struct error *error);

/* Like store_find for a whole UUID, after remote_fetch. */
bool remote_find(struct remote *remote, const struct uuid *uuid, struct store_match *match,
                 struct error *error);

/* Like store_find in the cache alone. */
bool remote_has(struct remote *remote, const struct uuid *uuid);

/* Of what a store at a URL is warned once. */
enum remote_warning { REMOTE_FAILS, REMOTE_IS_UNPROVEN };

/* True the first time. */
bool remote_is_first_warning(struct remote *remote, enum remote_warning warning);

#endif
