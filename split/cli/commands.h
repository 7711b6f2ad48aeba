/*
 * The functions of the subcommands. Their command lines are described in command_table.c, and have
 * been checked before a function runs.
 *
 * Each returns an enum exit_status (message.h), after printing its own errors.
 */
#ifndef COVSPLIT_SPLIT_CLI_COMMANDS_H
#define COVSPLIT_SPLIT_CLI_COMMANDS_H

#include "split/cli/options.h"

/* All of them with their options, in the order of the list, and one without a name: the command
 * line, the manual pages and the shell completions are made from these. */
extern const struct command commands[];

int command_compile(const struct parsed_options *options);
int command_correlate(const struct parsed_options *options);
int command_export(const struct parsed_options *options);
int command_join(const struct parsed_options *options);
int command_link(const struct parsed_options *options);
int command_merge(const struct parsed_options *options);
int command_pack(const struct parsed_options *options);
int command_report(const struct parsed_options *options);
int command_repack(const struct parsed_options *options);
int command_run(const struct parsed_options *options);
int command_show(const struct parsed_options *options);
int command_snapshot(const struct parsed_options *options);
int command_split(const struct parsed_options *options);
int command_store_add(const struct parsed_options *options);
int command_store_check(const struct parsed_options *options);
int command_store_copy(const struct parsed_options *options);
int command_store_gc(const struct parsed_options *options);
int command_store_list(const struct parsed_options *options);
int command_store_delta(const struct parsed_options *options);
int command_store_undelta(const struct parsed_options *options);
int command_test(const struct parsed_options *options);
int command_verify(const struct parsed_options *options);

#endif
