/*
 * Finding the subcommand to run, the help, and --version: see dispatch.h.
 */
#include "split/cli/dispatch.h"

#include <libdeflate.h>
#include <limits.h>
#include <nettle/version.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#ifdef COVSPLIT_WITH_LIEF
#include <LIEF/version.h>
#endif

#include "split/cli/message.h"
#include "split/cli/table.h"

/* ---- help ---- */

/* True if the command is an action of the group ("store gc" of "store"). */
static bool is_in_group(const struct command *command, const char *group)
{
    size_t length = strlen(group);

    return strncmp(command->name, group, length) == 0 && command->name[length] == ' ';
}

/* All commands under their headings, or those of a group, each in the same columns. */
static void print_commands(const struct command *commands, const char *group)
{
    int width = 0;

    printf(group == NULL ? "Usage: covsplit COMMAND [OPTION...] ARGUMENT...\n"
                           "Splits coverage data off instrumented images, and puts it back.\n"
                         : "Usage: covsplit %s ACTION [OPTION...] ARGUMENT...\n\nActions:\n",
           group);
    for (const struct command *command = commands; command->name != NULL; command++) {
        int length = (int)strlen(command->name);

        width = length > width ? length : width;
    }
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (group != NULL && !is_in_group(command, group))
            continue;
        if (command->heading != NULL)
            printf("\n%s:\n", command->heading);
        printf("  %-*s  %s\n", width, command->name, command->summary);
        if (command->example != NULL)
            printf("      %s\n", command->example);
    }
    printf(group == NULL
               ? "\n'covsplit COMMAND --help' or 'covsplit help COMMAND' describes a command,\n"
                 "'covsplit --version' prints the versions of covsplit and its libraries.\n"
               : "\n'covsplit %s ACTION --help' describes an action.\n",
           group);
}

/* Libraries are asked for their version at run time, as they may be newer than their headers were.
 * Those that cannot tell are reported with the version of their headers. */
static int print_version(void)
{
    unsigned xxhash = XXH_versionNumber();

    puts("covsplit " COVSPLIT_VERSION);
    printf("zstd %s, xxHash %u.%u.%u, libdeflate %s, nettle %d.%d", ZSTD_versionString(),
           xxhash / 10000, xxhash / 100 % 100, xxhash % 100, LIBDEFLATE_VERSION_STRING,
           nettle_version_major(), nettle_version_minor());
#ifdef COVSPLIT_WITH_LIEF
    printf(", LIEF %.*s", (int)strcspn(LIEF_VERSION, "-"), LIEF_VERSION);
#endif
    putchar('\n');
    return STATUS_DONE;
}

/* ---- dispatch ---- */

static int report_unknown(const struct command *commands, const char *group, const char *word)
{
    struct suggestion suggestion = {.word = word, .length = strlen(word)};
    char last[NAME_MAX + 1] = "", known[NAME_MAX + 1];

    for (const struct command *command = commands; command->name != NULL; command++) {
        const char *name = command->name;

        if (group != NULL && !is_in_group(command, group))
            continue;
        if (group != NULL)
            name += strlen(group) + 1;
        snprintf(known, sizeof(known), "%.*s", (int)strcspn(name, " "), name);
        if (strcmp(known, last) != 0) /* a group is one word */
            suggestion_add(&suggestion, "", known);
        memcpy(last, known, sizeof(last));
    }
    return message_usage(group, "unknown %s '%s'%.900s", group == NULL ? "command" : "action", word,
                         suggestion_text(&suggestion));
}

static int run_command(const struct command *command, int count, char **arguments)
{
    struct parsed_options options;
    struct error error;
    int status = STATUS_DONE;

    switch (parse_options(command, count, arguments, &options, &error)) {
    case PARSE_DONE:
        status = command->run(&options);
        parsed_options_free(&options);
        break;
    case PARSE_HELP:
        print_command_help(command, stdout);
        break;
    case PARSE_WRONG:
        status = message_usage(command->name, "%s", error.message);
        break;
    }
    return status;
}

/* Finds what the words name, after taking off those that name a group; describes it, or runs it
 * with the words that follow. */
static int run_or_describe(const struct command *commands, const char *group, bool describes,
                           int count, char **words)
{
    const struct command *command = commands;
    size_t skipped = group == NULL ? 0 : strlen(group) + 1;

    if (count == 0 && !describes)
        return message_usage(group, "no %s given", group == NULL ? "command" : "action");
    if (count == 0 ||
        (!describes && (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0))) {
        print_commands(commands, group);
        return STATUS_DONE;
    }
    if (!describes && words[0][0] == '-')
        return message_usage(group, "unknown option '%s'", words[0]);
    for (const struct command *action = commands; group == NULL && action->name != NULL; action++) {
        if (is_in_group(action, words[0]))
            return run_or_describe(commands, words[0], describes, count - 1, words + 1);
    }
    if (describes && count > 1)
        return message_usage(NULL, "'%s' is one operand too many", words[1]);
    while (command->name != NULL && ((group != NULL && !is_in_group(command, group)) ||
                                     strcmp(command->name + skipped, words[0]) != 0))
        command++;
    if (command->name == NULL)
        return report_unknown(commands, group, words[0]);
    if (!describes)
        return run_command(command, count - 1, words + 1);
    print_command_help(command, stdout);
    return STATUS_DONE;
}

int dispatch(const struct command *commands, int argc, char **argv)
{
    bool describes = argc > 1 && strcmp(argv[1], "help") == 0;
    int taken = argc > 0 ? 1 + describes : 0;

    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return print_version();
    return run_or_describe(commands, NULL, describes, argc - taken, argv + taken);
}
