/*
 * Manual pages and completions say of each subcommand just what its --help says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"

#define PAGES COVSPLIT_GENERATED_DIRECTORY "/man1"

/* What `covsplit help` lists: "split", "store gc". */
static struct text_list commands;

static const char *help_of(const char *words)
{
    struct outcome outcome = covsplit_run_words(NULL, 0, words);
    return outcome.output;
}

/* The names in the first of two columns; examples are further to the right. */
static struct text_list names_in(const char *text)
{
    struct text_list names = {0};
    for (const char *line = text; line[0] != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, "  ", 2) == 0 && line[2] != ' ') {
            const char *end = strstr(line + 2, "  ");
            text_list_add_format(&names, "%.*s", (int)(end - line - 2), line + 2);
        }
    }
    return names;
}

struct option {
    char letter; /* '\0': none */
    char name[40];
    char argument[20]; /* "": none */
};

#define OPTIONS_MAX 40

/* "-o, --output OUT", "    --replace" */
static size_t options_of(const char *command, struct option options[OPTIONS_MAX])
{
    const char *line = strstr(help_of(text_format("help %s", command)), "\nOptions:\n");
    size_t count = 0;
    ck_assert(line != NULL);
    for (line += strlen("\nOptions:\n"); *line != '\0'; line = strchr(line, '\n') + 1) {
        struct option *option = &options[count++];
        const char *dashes = strstr(line, "--");
        *option = (struct option){.letter = line[2] == '-' ? line[3] : '\0'};
        ck_assert_int_ge(sscanf(dashes, "--%39[a-z-]%19[ A-Z,]", option->name, option->argument),
                         1);
        /* The blank in front of it, and those behind. */
        memmove(option->argument, option->argument + 1, sizeof option->argument - 1);
        option->argument[strcspn(option->argument, " ")] = '\0';
    }
    return count;
}

static void prepare(void)
{
    commands = names_in(help_of("help"));
    ck_assert_uint_ge(commands.count, 10);
}

/* ---- manual pages ---- */

static char *page_of(const char *command)
{
    char *path = text_format("%s/covsplit-%s.1", PAGES, command);
    for (char *at = path + strlen(PAGES); *at != '\0'; at++) {
        *at = *at == ' ' ? '-' : *at;
    }
    return path;
}

static const char *text_of(const char *path)
{
    struct contents contents = file_read(path);
    return text_format("%.*s", (int)contents.size, (const char *)contents.data);
}

/* As the page writes it: every '-' is one that can be copied. */
static const char *with_dashes(const char *text)
{
    const char *result = "";
    for (; *text != '\0'; text++) {
        result = *text == '-' ? text_format("%s\\-", result) : text_format("%s%c", result, *text);
    }
    return result;
}

/* All options with their arguments, and no others; a section for each question that users have. */
static void check_page(const char *command)
{
    static const char *const sections[] = {"NAME",    "SYNOPSIS",    "DESCRIPTION",
                                           "OPTIONS", "EXIT STATUS", "ENVIRONMENT",
                                           "FILES",   "EXAMPLES",    "SEE ALSO"};
    const char *page = text_of(page_of(command));
    struct option options[OPTIONS_MAX];
    size_t count = options_of(command, options);
    for (size_t i = 0; i < count; i++) {
        const char *letter =
            options[i].letter == '\0' ? "" : text_format("\\-%c\\fR, \\fB", options[i].letter);
        const char *argument =
            options[i].argument[0] == '\0' ? "" : text_format(" \\fI%s\\fR", options[i].argument);
        const char *entry =
            text_format(".TP\n\\fB%s%s\\fR%s\n", letter,
                        with_dashes(text_format("--%s", options[i].name)), argument);
        ck_assert_msg(strstr(page, entry) != NULL, "%s: no %s", command, entry);
    }
    const char *own = strstr(page, "\n.SH OPTIONS\n");
    const char *end = strstr(page, "\n.SH EXIT STATUS\n");
    ck_assert_msg(own != NULL && end != NULL, "%s", page);
    ck_assert_uint_eq(text_count(text_format("%.*s", (int)(end - own), own), "\n.TP\n"), count);
    /* In this order, and none of them empty. */
    const char *from = page;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        from = strstr(from, text_format("\n.SH %s\n", sections[i]));
        ck_assert_msg(from != NULL, "%s: no %s", command, sections[i]);
        from += strlen("\n.SH ") + strlen(sections[i]);
        ck_assert_msg(strncmp(from, "\n.SH ", 5) != 0 && from[1] != '\0', "%s: empty %s", command,
                      sections[i]);
    }
}

/* Each variable that help speaks of, and the one that all messages obey. */
static void check_environment(const char *command)
{
    static const char *const variables[] = {"NO_COLOR", "COVSPLIT_STORE", "LLVM_PROFDATA"};
    const char *help = help_of(text_format("help %s", command));
    const char *page = text_of(page_of(command));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *environment = strstr(page, "\n.SH ENVIRONMENT\n");
        ck_assert_msg((strstr(help, variables[i]) == NULL && i != 0) ||
                          (environment != NULL &&
                           strstr(environment, text_format("\n.B %s\n", variables[i])) != NULL),
                      "%s: no %s", command, variables[i]);
    }
}

START_TEST(test_pages)
{
    for (size_t i = 0; i < commands.count; i++) {
        check_page(commands.items[i]);
        check_environment(commands.items[i]);
    }
}
END_TEST

/* A page for each command and one for all, which names them, and none of what is no more. */
START_TEST(test_all_pages)
{
    struct text_list files = directory_list(PAGES);
    const char *overview = text_of(PAGES "/covsplit.1");
    ck_assert_uint_eq(files.count, commands.count + 1);
    for (size_t i = 0; i < commands.count; i++) {
        const char *name = strrchr(page_of(commands.items[i]), '/') + 1;
        const char *entry =
            text_format(".BR %.*s (1)\n", (int)strlen(with_dashes(name)) - 2, with_dashes(name));
        ck_assert_msg(strstr(overview, entry) != NULL, "no %s", entry);
    }
    for (size_t i = 0; i < files.count; i++) {
        struct command command = {0};
        text_list_add_words(&command.arguments, "groff -man -ww -z -Tutf8");
        text_list_add(&command.arguments, path_join(PAGES, files.items[i]));
        struct outcome outcome = command_run(&command);
        ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s: %s",
                      files.items[i], outcome_describe(&command, &outcome));
        outcome_free(&outcome);
        command_free(&command);
    }
}
END_TEST

/* ---- completions ---- */

/* What a shell offers for the line, one a line: from a script that gets the words. */
struct shell {
    const char *name;
    const char *script;
};

/* zsh's own functions for completion need a terminal; what they are asked for is looked at. */
static const struct shell shells[] = {
    {"bash", "source " COVSPLIT_GENERATED_DIRECTORY "/covsplit\n"
             "COMP_WORDS=(covsplit \"$@\"); COMP_CWORD=$#; _covsplit\n"
             "printf '%s\\n' \"${COMPREPLY[@]}\""},
    {"zsh", "_arguments() { print -l -- \"$@\" | sed -e '/^-s$/d' -e 's/^([^)]*)//' -e 's/\\[.*//' "
            "-e '/^\\*/d'; }\n"
            "_describe() { print -l -- ${(P)2}; }\n"
            "words=(covsplit \"$@\"); CURRENT=$#words\n"
            "source " COVSPLIT_GENERATED_DIRECTORY "/_covsplit"},
    {"fish", "source " COVSPLIT_GENERATED_DIRECTORY "/covsplit.fish\n"
             "complete -C \"covsplit $argv\" | string replace -r '\\t.*' ''"},
};

static struct text_list complete(const struct shell *shell, const char *words)
{
    struct command command = {0};
    text_list_add(&command.arguments, shell->name);
    text_list_add(&command.arguments, "-c");
    text_list_add(&command.arguments, shell->script);
    if (strcmp(shell->name, "fish") != 0) {
        text_list_add(&command.arguments, shell->name);
    }
    text_list_add_words(&command.arguments, words);
    struct text_list offers = text_list_of_lines(command_run_or_abort(&command));
    return offers;
}

static bool offers(const struct text_list *list, const char *word)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], word) == 0) {
            return true;
        }
    }
    return false;
}

/* Just the options of the command. */
START_TEST(test_completed_options)
{
    const struct shell *shell = &shells[_i];
    for (size_t i = 0; i < commands.count; i++) {
        struct option options[OPTIONS_MAX];
        size_t count = options_of(commands.items[i], options), expected = count;
        /* fish offers letters only behind a single dash. */
        struct text_list list =
            complete(shell, text_format("%s %s", commands.items[i],
                                        strcmp(shell->name, "fish") == 0 ? "--" : "-"));
        for (size_t j = 0; j < count; j++) {
            ck_assert_msg(offers(&list, text_format("--%s", options[j].name)), "%s, %s: no --%s",
                          shell->name, commands.items[i], options[j].name);
            if (options[j].letter != '\0' && strcmp(shell->name, "fish") != 0) {
                ck_assert_msg(offers(&list, text_format("-%c", options[j].letter)),
                              "%s, %s: no -%c", shell->name, commands.items[i], options[j].letter);
                expected++;
            }
        }
        ck_assert_msg(list.count == expected, "%s, %s: %zu options, and %zu are offered",
                      shell->name, commands.items[i], expected, list.count);
        text_list_free(&list);
    }
}
END_TEST

/* The first word of a command line, and the second one of a group's. */
START_TEST(test_completed_commands)
{
    const struct shell *shell = &shells[_i];
    const char *empty = strcmp(shell->name, "fish") == 0 ? "" : "s";
    struct text_list first = complete(shell, empty);
    struct text_list action = complete(shell, "store c");
    for (size_t i = 0; i < commands.count; i++) {
        const char *name = commands.items[i], *blank = strchr(name, ' ');
        const char *word = blank == NULL ? name : text_format("%.*s", (int)(blank - name), name);
        if (name[0] == 's') {
            ck_assert_msg(offers(&first, word), "%s: no %s", shell->name, word);
        }
        if (blank != NULL && blank[1] == 'c') {
            ck_assert_msg(offers(&action, blank + 1), "%s: no %s", shell->name, name);
        }
    }
    ck_assert(!offers(&first, "gc"));
}
END_TEST

/* Options that take one of a few words. */
START_TEST(test_completed_values)
{
    static const char *const modes[] = {"any", "all"};
    if (strcmp(shells[_i].name, "zsh") == 0) {
        const char *text = text_of(COVSPLIT_GENERATED_DIRECTORY "/_covsplit");
        ck_assert_ptr_nonnull(strstr(text, ":MODE:(any all)'"));
        ck_assert_ptr_nonnull(
            strstr(text, ":LIST:(covmap covfun names data covnames covdata zeros)'"));
        return;
    }
    struct text_list list = complete(&shells[_i], "merge --failure-mode a");
    ck_assert_uint_eq(list.count, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_msg(offers(&list, modes[i]), "no %s", modes[i]);
    }
    list = complete(&shells[_i], "report --format c");
    ck_assert(offers(&list, "cobertura") && !offers(&list, "profraw"));
}
END_TEST

/* bash hands "--option=value" over in three words; a directory's name may have blanks; and what
 * follows "--" is another command's. */
START_TEST(test_bash_words)
{
    char *scratch = scratch_create("documentation");
    char *directory = path_join(scratch, "my directory");
    directory_create(directory);
    struct text_list list = complete(&shells[0], "merge --failure-mode = a");
    ck_assert(list.count == 2 && offers(&list, "any") && offers(&list, "all"));
    text_list_free(&list);
    list = complete(&shells[0], "merge --failure-mode =");
    ck_assert(list.count == 2 && offers(&list, "any") && offers(&list, "all"));
    text_list_free(&list);
    list = complete(&shells[0], text_format("split --store %s/m", scratch));
    ck_assert(list.count == 1 && offers(&list, directory));
    text_list_free(&list);
    list = complete(&shells[0], "run --store sidecars -- llvm-cov --");
    ck_assert(!offers(&list, "--store"));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("documentation", 120, prepare);
    suite_tests(test_case, test_pages, test_all_pages);
    suite_loops(test_case, sizeof shells / sizeof *shells, test_completed_options,
                test_completed_commands, test_completed_values);
    tcase_add_test(test_case, test_bash_words);
    return suite_main("documentation", test_case);
}
