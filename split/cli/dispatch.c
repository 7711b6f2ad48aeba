/*
 * Finding the subcommand to run, and the help: see dispatch.h.
 */
#include "split/cli/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "split/cli/message.h"
#include "split/cli/table.h"

/* ---- help ---- */

static int out_of_memory(void)
{
    struct error error;

    error_set(&error, "no memory for the text; free some and run again");
    message_error(&error);
    return STATUS_FAILED;
}

/* Whether the command is an action of the group ("store gc" of "store"). */
static bool is_in_group(const struct command *command, const char *group)
{
    size_t length = strlen(group);

    return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

/* A table of the commands, or with a group those in it. */
static bool print_commands(const struct command_table *table, const char *group)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *lines = table_new(columns, 2, 2);
    bool printed;

    if (lines == NULL)
        return false;
    for (size_t i = 0; i < table->count; i++) {
        if (group != NULL && !is_in_group(&table->commands[i], group))
            continue;
        table_cell(lines, "%s", table->commands[i].name);
        table_cell(lines, "%s", table->commands[i].summary);
    }
    printed = table_print(lines, stdout);
    table_free(lines);
    return printed;
}

static int print_help(const struct command_table *table)
{
    bool printed;

    printf("Usage: covsplit COMMAND [OPTION...] ARGUMENT...\n"
           "Splits coverage data off instrumented images, and puts it back.\n"
           "\n"
           "Commands:\n");
    printed = print_commands(table, NULL);
    printf("\n"
           "'covsplit COMMAND --help' or 'covsplit help COMMAND' describes a command,\n"
           "'covsplit --version' prints the version.\n");
    return printed ? STATUS_DONE : out_of_memory();
}

static int print_help_of_group(const struct command_table *table, const char *group)
{
    bool printed;

    printf("Usage: covsplit %s ACTION [OPTION...] ARGUMENT...\n"
           "\n"
           "Actions:\n",
           group);
    printed = print_commands(table, group);
    printf("\n'covsplit %s ACTION --help' describes an action.\n", group);
    return printed ? STATUS_DONE : out_of_memory();
}

static int print_help_of(const struct command *command)
{
    return print_command_help(command, stdout) ? STATUS_DONE : out_of_memory();
}

static int print_version(void)
{
    puts("covsplit " COVSPLIT_VERSION);
    return STATUS_DONE;
}

/* ---- dispatch ---- */

static const struct command *find_command(const struct command_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->commands[i].name, name) == 0)
            return &table->commands[i];
    }
    return NULL;
}

static bool is_group(const struct command_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (is_in_group(&table->commands[i], name))
            return true;
    }
    return false;
}

static const struct command *find_action(const struct command_table *table, const char *group,
                                         const char *action)
{
    for (size_t i = 0; i < table->count; i++) {
        if (is_in_group(&table->commands[i], group) &&
            strcmp(table->commands[i].name + strlen(group) + 1, action) == 0)
            return &table->commands[i];
    }
    return NULL;
}

static int run_command(const struct command *command, int count, char **arguments)
{
    struct parsed_options options;
    struct error error;
    int status = STATUS_USAGE;

    switch (parse_options(command, count, arguments, &options, &error)) {
    case PARSE_DONE:
        status = command->run(&options);
        parsed_options_free(&options);
        break;
    case PARSE_HELP:
        status = print_help_of(command);
        break;
    case PARSE_WRONG:
        message_usage(command->name, "%s", error.message);
        break;
    case PARSE_FAILED:
        message_error(&error);
        status = STATUS_FAILED;
        break;
    }
    return status;
}

static bool is_help_option(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* `covsplit GROUP ACTION ...` */
static int run_group(const struct command_table *table, const char *group, int count,
                     char **arguments)
{
    const struct command *command;

    if (count == 0)
        return message_usage(group, "no action given");
    if (is_help_option(arguments[0]))
        return print_help_of_group(table, group);
    if (arguments[0][0] == '-')
        return message_usage(group, "unknown option '%s'", arguments[0]);
    command = find_action(table, group, arguments[0]);
    if (command == NULL)
        return message_usage(group, "unknown action '%s'", arguments[0]);
    return run_command(command, count - 1, arguments + 1);
}

/* `covsplit help GROUP [ACTION]` */
static int run_help_of_group(const struct command_table *table, const char *group, int count,
                             char **arguments)
{
    const struct command *command;

    if (count == 0)
        return print_help_of_group(table, group);
    if (count > 1)
        return message_usage(NULL, "'%s' is one operand too many", arguments[1]);
    command = find_action(table, group, arguments[0]);
    if (command == NULL)
        return message_usage(group, "unknown action '%s'", arguments[0]);
    return print_help_of(command);
}

/* `covsplit help [COMMAND]` */
static int run_help(const struct command_table *table, int count, char **arguments)
{
    const struct command *command;

    if (count == 0)
        return print_help(table);
    if (is_group(table, arguments[0]))
        return run_help_of_group(table, arguments[0], count - 1, arguments + 1);
    if (count > 1)
        return message_usage(NULL, "'%s' is one operand too many", arguments[1]);
    command = find_command(table, arguments[0]);
    if (command == NULL)
        return message_usage(NULL, "unknown command '%s'", arguments[0]);
    return print_help_of(command);
}

int dispatch(const struct command_table *table, int argc, char **argv)
{
    const struct command *command;

    if (argc < 2)
        return message_usage(NULL, "no command given");
    if (is_help_option(argv[1]))
        return print_help(table);
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "help") == 0)
        return run_help(table, argc - 2, argv + 2);
    if (argv[1][0] == '-')
        return message_usage(NULL, "unknown option '%s'", argv[1]);
    if (is_group(table, argv[1]))
        return run_group(table, argv[1], argc - 2, argv + 2);
    command = find_command(table, argv[1]);
    if (command == NULL)
        return message_usage(NULL, "unknown command '%s'", argv[1]);
    return run_command(command, argc - 2, argv + 2);
}
