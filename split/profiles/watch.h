/*
 * Consuming the profiles of directories as they appear: `covsplit merge --into --watch`.
 *
 * The kernel's events (inotify) only tell where to look: a directory in which something happened is
 * searched a moment later, so that profiles that come together are one batch. If the queue of
 * events overflows, all directories are searched. So nothing depends on the order or number of
 * events.
 *
 * Profiles that others have open, and files that are not complete, are tried again after a while,
 * because there is not always an event: none tells that a mapped file was unmapped. If there are
 * more directories than can be watched, all are searched from time to time.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_WATCH_H
#define COVSPLIT_SPLIT_PROFILES_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"
#include "split/cli/path_list.h"
#include "split/profiles/consume.h"

/* Consumes what is in and below the directories, until the consumer's stop is wanted; then commits
 * what it has. */
bool watch_directories(struct consumer *consumer, const struct path_list *roots,
                       struct error *error);

#endif
