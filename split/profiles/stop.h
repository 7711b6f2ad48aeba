/*
 * Signals that end a long run in an orderly way: what was begun is finished first.
 */
#ifndef COVSPLIT_SPLIT_PROFILES_STOP_H
#define COVSPLIT_SPLIT_PROFILES_STOP_H

#include <signal.h>
#include <stdbool.h>

#include "common/base/error.h"

struct stop {
    int fd;           /* readable when a signal has come */
    int signal;       /* which one; 0: none yet */
    sigset_t blocked; /* those that were blocked before */
};

/* From now on, SIGINT, SIGTERM and SIGHUP are only noted, unless they are ignored. To be called
 * before threads are started. */
bool stop_start(struct stop *stop, struct error *error);

/* Whether one has come. */
bool stop_wanted(struct stop *stop);

/* Ends that. The signals have their usual effect again, but those that were noted do not come
 * again. */
void stop_end(struct stop *stop);

#endif
