/*
 * The broker of `covsplit run`: answers the preload modules in the programs that the command runs
 * (run/preload_protocol.h).
 *
 * It is built for hostile clients: processes of other users are turned away when they connect; one
 * that says nothing, or does not listen, keeps nobody waiting, but for some seconds where hundreds
 * of its own user's do; a question has a bounded size. Its memory is bounded by the cache
 * (conversion_cache.h), the sidecars that are open (run/sidecars.h), and the files that are being
 * converted, at most one a thread; what each may take is limited (base/memory_limit.h).
 */
#ifndef COVSPLIT_SPLIT_RUN_BROKER_H
#define COVSPLIT_SPLIT_RUN_BROKER_H

#include <stdbool.h>

#include "common/base/error.h"
#include "split/cli/options.h"

struct broker;

/* Opens the socket, so that clients can connect; they wait until the broker is started. The options
 * must outlive it. NULL with an error. */
struct broker *broker_open(const struct parsed_options *options, struct error *error);

/* What PRELOAD_ENVIRONMENT must be for the clients. Lives as long as the broker. */
const char *broker_address(const struct broker *broker);

/* Starts the threads that answer, which inherit the signal mask. Raises this process's limit of
 * descriptors, and lets it ignore SIGPIPE: the command should be started before. */
bool broker_start(struct broker *broker, struct error *error);

/* Ends the threads, in the middle of conversions too, and frees all. NULL is allowed. */
void broker_close(struct broker *broker);

#endif
