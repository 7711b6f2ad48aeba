/*
 * Consuming the profiles of directories as they appear: `covsplit merge --into --watch`.
 *
 * What the kernel tells of the directories (inotify) only says where to look: a directory in which
 * something happened is looked through again, a moment later, so that profiles that come together
 * are one batch. When it has told too much to remember, all are looked through. So nothing depends
 * on the order or the number of what is told.
 *
 * Profiles that others have open, and files that are not whole, are looked at again after a while,
 * since not all ends are told: a mapped file is closed in silence. If there are more directories
 * than can be watched, all are looked through from time to time.
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
