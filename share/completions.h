/*
 * Completions for shells, from the table of subcommands.
 */
#ifndef COVSPLIT_SHARE_COMPLETIONS_H
#define COVSPLIT_SHARE_COMPLETIONS_H

#include <stdio.h>

#include "split/cli/dispatch.h"

void print_bash_completion(const struct command_table *table, FILE *stream);
void print_zsh_completion(const struct command_table *table, FILE *stream);
void print_fish_completion(const struct command_table *table, FILE *stream);

#endif
