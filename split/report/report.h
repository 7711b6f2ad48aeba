/*
 * What `covsplit report` and `covsplit test` share.
 */
#ifndef COVSPLIT_SPLIT_REPORT_REPORT_H
#define COVSPLIT_SPLIT_REPORT_REPORT_H

#include "split/cli/options.h"

/* Reports errors of the command line that parsing cannot find. Returns an enum exit_status. */
int report_check_usage(const struct parsed_options *options);

#endif
