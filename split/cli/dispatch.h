/*
 * Finds and runs the subcommand that the words of a command line name.
 *
 * A name of two words, like "store gc", is an action of a group ("store"). A group exists as soon
 * as it has an action. `help` and --help, for the whole command, a group or a subcommand, print
 * what the table says.
 */
#ifndef COVSPLIT_SPLIT_CLI_DISPATCH_H
#define COVSPLIT_SPLIT_CLI_DISPATCH_H

#include "split/cli/options.h"

/* All subcommands with their options, in the order of the list, and one without a name: the command
 * line, the manual pages and the shell completions are made from these (split/command_table.c). */
extern const struct command commands[];

/* Runs the command line, of which argv[0] is the program's name. Returns an enum exit_status. */
int dispatch(int argc, char **argv);

#endif
