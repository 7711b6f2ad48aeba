/*
 * The broker of `covsplit run`: answers the questions of the preload modules in the programs that
 * the command runs (run/preload_protocol.h).
 *
 * It expects hostile clients. Processes of other users are rejected when they connect. A client
 * that never reads its answer delays nobody, and so does one that never asks; only if hundreds of
 * the same user's clients do so, others may wait for some seconds. A question has a bounded size.
 * Memory is bounded by the cache, the open sidecars (sidecars.c), and the files being
 * converted, of which there are at most SLOTS_MAX, and all of these are limited
 * (base/memory_limit.h).
 */
#ifndef COVSPLIT_SPLIT_RUN_BROKER_H
#define COVSPLIT_SPLIT_RUN_BROKER_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/options.h"

struct broker;

/* Opens the socket. Clients can connect from then on, but wait until the broker is started. The
 * options must outlive it. NULL with an error. */
struct broker *broker_open(const struct parsed_options *options, struct error *error);

/* The value of PRELOAD_ENVIRONMENT for the clients. Valid as long as the broker. */
const char *broker_address(const struct broker *broker);

/* Starts to answer, in threads that inherit the signal mask. Raises this process's limit of
 * descriptors and makes it ignore SIGPIPE, so the command should be started before. */
bool broker_start(struct broker *broker, struct error *error);

/* Ends the threads, even in the middle of a conversion, and frees everything. NULL is allowed. */
void broker_close(struct broker *broker);

#endif
