/*
 * What `covsplit run` has reported already, so that each file is reported once for a whole process
 * tree. All threads share it.
 */
#ifndef COVSPLIT_SPLIT_RUN_REPORTS_H
#define COVSPLIT_SPLIT_RUN_REPORTS_H

#include <stdbool.h>
#include <sys/stat.h>

struct run_reports;

/* NULL where there is no memory. Freed with run_reports_free (NULL allowed). */
struct run_reports *run_reports_new(void);
void run_reports_free(struct run_reports *reports);

/* True the first time that this is said of the file. Always true once there are so many reports
 * that no more are kept. */
bool run_reports_is_new(struct run_reports *reports, const struct stat *file, const char *message);

#endif
