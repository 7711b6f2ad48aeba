/*
 * From the words of a command line to the subcommand that they name.
 *
 * A name of two words, "store gc", is an action of a group, "store"; a group is there as soon as it
 * has an action. `help` and --help, for the whole, for a group and for a subcommand, print what the
 * table says.
 */
#ifndef COVSPLIT_SPLIT_CLI_DISPATCH_H
#define COVSPLIT_SPLIT_CLI_DISPATCH_H

#include <stddef.h>

#include "split/cli/options.h"

/* What the list of commands says at one of them. */
struct command_note {
    const char *command;
    const char *text;
};

struct command_table {
    const struct command *commands; /* in the order of the list */
    size_t count;
    const struct command_note *headings; /* of the first command below each, or of a group */
    size_t heading_count;
    const struct command_note *examples; /* command lines */
    size_t example_count;
};

/* Runs what the command line says, with the program's name as argv[0]. Returns an enum
 * exit_status. */
int dispatch(const struct command_table *table, int argc, char **argv);

#endif
