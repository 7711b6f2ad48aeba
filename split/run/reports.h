/*
 * The messages that `covsplit run` has printed, so that each is printed once for each file in a
 * whole process tree. All threads share them.
 */
#ifndef COVSPLIT_SPLIT_RUN_REPORTS_H
#define COVSPLIT_SPLIT_RUN_REPORTS_H

#include <stdbool.h>
#include <sys/stat.h>

struct run_reports;

/* NULL if out of memory. Free with run_reports_free (NULL is allowed). */
struct run_reports *run_reports_new(void);
void run_reports_free(struct run_reports *reports);

/* True the first time that it is called for this file and message. After too many reports they are
 * no longer remembered, and the result is always true. */
bool run_reports_is_new(struct run_reports *reports, const struct stat *file, const char *message);

#endif
