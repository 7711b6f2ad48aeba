/*
 * Dumps that can only be read from front to back: from a pipe, or compressed by zstd as
 * systemd-coredump does.
 *
 * Such a dump is copied to a temporary file without a name, of which only those parts are written
 * that a snapshot can need: a core of gigabytes, most of which is heap, takes as little room as the
 * images that were mapped in it. What is left out appears in the copy's program headers as memory
 * that is not in the core.
 */
#ifndef COVSPLIT_SPLIT_SNAPSHOT_SPOOL_H
#define COVSPLIT_SPLIT_SNAPSHOT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/bytes.h"
#include "common/base/error.h"

/* If the first bytes of a file are those of a compressed one that only another program can
 * decompress, sets the error that says how to do that. Returns false then. */
bool spool_check_format(struct bytes front, const char *path, struct error *error);

/* Copies what follows from the descriptor's position, decompressing it if its first bytes are those
 * of zstd. Returns the descriptor of the temporary file, -1 with an error. `path` is the dump's
 * name in messages. A dump that ends early is no error: the copy ends there too. */
int spool_copy(int fd, const char *path, struct error *error);

#endif
