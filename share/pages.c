/*
 * Makes the manual pages and the completions of shells from the table of subcommands, so that they
 * and --help cannot tell different stories. A program of the build; it is not installed.
 *
 * Usage: pages man DIRECTORY EXAMPLES    covsplit.1 and a page for each subcommand; EXAMPLES is a
 *                                        directory with the text of their last sections, NAME.roff
 *        pages bash|zsh|fish FILE        a completion
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "share/completions.h"
#include "share/manual.h"
#include "split/command_table.h"

static int fail(const char *path)
{
    perror(path);
    return EXIT_FAILURE;
}

static int write_completion(void (*print)(const struct command_table *table, FILE *stream),
                            const char *path)
{
    FILE *stream = fopen(path, "w");

    if (stream == NULL)
        return fail(path);
    print(&command_table, stream);
    return fclose(stream) == 0 ? EXIT_SUCCESS : fail(path);
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "man") == 0)
        return manual_write(&command_table, words[2], words[3]) ? EXIT_SUCCESS : fail(words[2]);
    if (count == 3 && strcmp(words[1], "bash") == 0)
        return write_completion(print_bash_completion, words[2]);
    if (count == 3 && strcmp(words[1], "zsh") == 0)
        return write_completion(print_zsh_completion, words[2]);
    if (count == 3 && strcmp(words[1], "fish") == 0)
        return write_completion(print_fish_completion, words[2]);
    fprintf(stderr, "usage: pages man DIRECTORY EXAMPLES | pages bash|zsh|fish FILE\n");
    return EXIT_FAILURE;
}
