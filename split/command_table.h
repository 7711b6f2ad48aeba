/*
 * All subcommands with their options: the command line, the manual pages and the shell completions
 * are made from these.
 */
#ifndef COVSPLIT_SPLIT_COMMAND_TABLE_H
#define COVSPLIT_SPLIT_COMMAND_TABLE_H

#include "split/cli/dispatch.h"

extern const struct command_table command_table;

#endif
