/*
 * Manual pages in the language of man(7), from the table of subcommands.
 */
#ifndef COVSPLIT_SHARE_MANUAL_H
#define COVSPLIT_SHARE_MANUAL_H

#include <stdbool.h>

#include "split/cli/dispatch.h"

/* Writes covsplit.1 and covsplit-NAME.1 for each subcommand (with '-' for the blank in "store gc")
 * into the directory. The sections that only people can write are in `examples`, as NAME.roff for
 * NAME.1. False with errno where a file cannot be read or written. */
bool manual_write(const struct command_table *table, const char *directory, const char *examples);

#endif
