/*
 * All subcommands with their options: what the command line, the manual pages and the completions
 * of shells are made from.
 */
#ifndef COVSPLIT_SPLIT_COMMAND_TABLE_H
#define COVSPLIT_SPLIT_COMMAND_TABLE_H

#include "split/cli/dispatch.h"

extern const struct command_table command_table;

#endif
