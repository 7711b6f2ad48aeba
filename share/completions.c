/*
 * Completions: see completions.h.
 *
 * Each knows the subcommands, the options of each, the values of those that take one of some words,
 * and that everything else is a file.
 */
#include "share/completions.h"

#include <string.h>

#include "common/llvm/section.h"

/* ---- what the table has ---- */

/* The group of an action ("store" of "store gc"); the length is 0 where there is none. */
static size_t group_length(const char *name)
{
    const char *blank = strchr(name, ' ');

    return blank == NULL ? 0 : (size_t)(blank - name);
}

/* Whether no command in front of this one is in the same group. */
static bool is_first_of_group(const struct command_table *table, size_t index)
{
    const char *name = table->commands[index].name;
    size_t length = group_length(name);

    for (size_t i = 0; i < index; i++) {
        if (group_length(table->commands[i].name) == length &&
            strncmp(table->commands[i].name, name, length + 1) == 0)
            return false;
    }
    return true;
}

/* The words that an option's value is one of, each behind a separator. */
static void print_values(const struct option_description *option, const char *separator,
                         FILE *stream)
{
    const char *between = "";

    if (option->type == OPTION_TYPE_WORD) {
        for (size_t i = 0; option->words[i] != NULL; i++, between = separator)
            fprintf(stream, "%s%s", between, option->words[i]);
    } else if (option->type == OPTION_TYPE_SECTIONS) {
        for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
            if ((SECTION_REMOVABLE & SECTION_BIT(kind)) == 0)
                continue;
            fprintf(stream, "%s%s", between, section_kind_word((enum section_kind)kind));
            between = separator;
        }
    }
}

static bool has_values(const struct option_description *option)
{
    return option->type == OPTION_TYPE_WORD || option->type == OPTION_TYPE_SECTIONS;
}

/* Directories are what options of that argument want. */
static bool wants_directory(const struct option_description *option)
{
    return option->argument != NULL && strcmp(option->argument, "DIR") == 0;
}

static bool wants_file(const struct option_description *option)
{
    return option->type == OPTION_TYPE_TEXT && !wants_directory(option) &&
           strcmp(option->argument, "ARCH") != 0;
}

/* The names of the commands, or of the actions of a group, one behind the other. */
static void print_names(const struct command_table *table, const char *group, FILE *stream)
{
    size_t length = group == NULL ? 0 : group_length(group);

    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->commands[i].name;
        size_t own = group_length(name);

        if (group == NULL && own == 0)
            fprintf(stream, "%s ", name);
        else if (group == NULL && is_first_of_group(table, i))
            fprintf(stream, "%.*s ", (int)own, name);
        else if (group != NULL && own == length && strncmp(name, group, length) == 0)
            fprintf(stream, "%s ", name + length + 1);
    }
}

/* Text inside of single quotes, for a shell. */
static void print_quoted(const char *text, FILE *stream)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stream);
        else
            fputc(*text, stream);
    }
}

/* ---- bash ---- */

static void print_bash_options(const struct command *command, FILE *stream)
{
    fprintf(stream, "        '%s')\n            options='", command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        if (command->options[i].short_name != '\0')
            fprintf(stream, "-%c ", command->options[i].short_name);
        fprintf(stream, "--%s ", command->options[i].long_name);
    }
    fputs("-h --help'\n            case \"$previous\" in\n", stream);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_description *option = &command->options[i];

        if (option->type == OPTION_TYPE_FLAG)
            continue;
        fputs("                ", stream);
        if (option->short_name != '\0')
            fprintf(stream, "-%c | ", option->short_name);
        fprintf(stream, "--%s) ", option->long_name);
        if (has_values(option)) {
            fputs("values='", stream);
            print_values(option, " ", stream);
            fputs("'", stream);
        } else {
            fputs(wants_directory(option) ? "kind=directory"
                  : wants_file(option)    ? "kind=file"
                                          : "kind=none",
                  stream);
        }
        fputs(" ;;\n", stream);
    }
    fputs("            esac\n            ;;\n", stream);
}

void print_bash_completion(const struct command_table *table, FILE *stream)
{
    fputs("# Completion of covsplit for bash. Made from the table of its options.\n"
          "_covsplit()\n"
          "{\n"
          "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
          "    local command=${COMP_WORDS[1]-} options='' values='' kind=''\n"
          "    COMPREPLY=()\n"
          "    case \" ${COMP_WORDS[*]:0:COMP_CWORD} \" in *' -- '*) return ;; esac\n"
          "    if [ \"$current\" = = ]; then\n"
          "        current=''\n"
          "    elif [ \"$previous\" = = ]; then\n"
          "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
          "    fi\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '",
          stream);
    print_names(table, NULL, stream);
    fputs("help --help --version' -- \"$current\"))\n        return\n    fi\n"
          "    case \"$command\" in\n",
          stream);
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->commands[i].name;

        if (group_length(name) == 0 || !is_first_of_group(table, i))
            continue;
        fprintf(stream,
                "        %.*s)\n            if [ \"$COMP_CWORD\" -eq 2 ]; then\n"
                "                COMPREPLY=($(compgen -W '",
                (int)group_length(name), name);
        print_names(table, name, stream);
        fputs("--help' -- \"$current\"))\n                return\n            fi\n"
              "            command=\"$command ${COMP_WORDS[2]}\"\n            ;;\n",
              stream);
    }
    fputs("        help)\n            COMPREPLY=($(compgen -W '", stream);
    print_names(table, NULL, stream);
    fputs("' -- \"$current\"))\n            return\n            ;;\n    esac\n"
          "    case \"$command\" in\n",
          stream);
    for (size_t i = 0; i < table->count; i++)
        print_bash_options(&table->commands[i], stream);
    fputs("    esac\n"
          "    if [ -n \"$values\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$values\" -- \"$current\"))\n"
          "    elif [ \"$kind\" = directory ]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n"
          "    elif [ \"$kind\" = none ]; then\n"
          "        COMPREPLY=()\n"
          "    elif [ \"$kind\" != file ] && [ \"${current:0:1}\" = - ]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
          "    fi\n"
          "}\n"
          "complete -o bashdefault -o default -F _covsplit covsplit\n",
          stream);
}

/* ---- zsh ---- */

/* In a description, brackets and colons have a meaning for _arguments. */
static void print_zsh_text(const char *text, FILE *stream)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text) != NULL)
            fputc('\\', stream);
        if (*text == '\'')
            fputs("'\\''", stream);
        else
            fputc(*text, stream);
    }
}

static void print_zsh_option(const struct option_description *option, FILE *stream)
{
    fputs("                '", stream);
    if (option->short_name != '\0')
        fprintf(stream, "(-%c --%s)'{-%c,--%s}'[", option->short_name, option->long_name,
                option->short_name, option->long_name);
    else
        fprintf(stream, "--%s[", option->long_name);
    print_zsh_text(option->help, stream);
    fputs("]", stream);
    if (option->argument != NULL) {
        fprintf(stream, ":%s:", option->argument);
        if (has_values(option)) {
            fputs("(", stream);
            print_values(option, " ", stream);
            fputs(")", stream);
        } else if (wants_directory(option)) {
            fputs("_directories", stream);
        } else if (wants_file(option)) {
            fputs("_files", stream);
        }
    }
    fputs("' \\\n", stream);
}

void print_zsh_completion(const struct command_table *table, FILE *stream)
{
    fputs("#compdef covsplit\n"
          "# Completion of covsplit for zsh. Made from the table of its options.\n"
          "_covsplit()\n"
          "{\n"
          "    local command=$words[2]\n"
          "    if (( CURRENT == 2 )); then\n"
          "        local -a commands=(",
          stream);
    print_names(table, NULL, stream);
    fputs("help)\n        _describe command commands\n        return\n    fi\n"
          "    shift words\n    (( CURRENT-- ))\n",
          stream);
    for (size_t i = 0; i < table->count; i++) {
        const char *name = table->commands[i].name;

        if (group_length(name) == 0 || !is_first_of_group(table, i))
            continue;
        fprintf(stream,
                "    if [[ $command == %.*s ]]; then\n        if (( CURRENT == 2 )); then\n"
                "            local -a actions=(",
                (int)group_length(name), name);
        print_names(table, name, stream);
        fputs(")\n            _describe action actions\n            return\n        fi\n"
              "        command+=\" $words[2]\"\n"
              "        shift words\n        (( CURRENT-- ))\n    fi\n",
              stream);
    }
    fputs("    case $command in\n", stream);
    for (size_t i = 0; i < table->count; i++) {
        const struct command *command = &table->commands[i];

        fprintf(stream, "        '%s')\n            _arguments -s \\\n", command->name);
        for (size_t j = 0; j < command->option_count; j++)
            print_zsh_option(&command->options[j], stream);
        fprintf(stream,
                "                '(-h --help)'{-h,--help}'[print a short description]' \\\n"
                "                '*: :%s'\n            ;;\n",
                command->operand_maximum == OPERANDS_ARE_COMMAND ? "_normal" : "_files");
    }
    fputs("    esac\n}\n_covsplit \"$@\"\n", stream);
}

/* ---- fish ---- */

static void print_fish_option(const struct command *command,
                              const struct option_description *option, FILE *stream)
{
    size_t length = group_length(command->name);

    fputs("complete -c covsplit -n '__fish_seen_subcommand_from ", stream);
    if (length == 0)
        fputs(command->name, stream);
    else
        fprintf(stream, "%.*s; and __fish_seen_subcommand_from %s", (int)length, command->name,
                command->name + length + 1);
    fprintf(stream, "' -l %s", option->long_name);
    if (option->short_name != '\0')
        fprintf(stream, " -s %c", option->short_name);
    if (has_values(option)) {
        fputs(" -x -a '", stream);
        print_values(option, " ", stream);
        fputs("'", stream);
    } else if (wants_directory(option)) {
        fputs(" -x -a '(__fish_complete_directories)'", stream);
    } else if (wants_file(option)) {
        fputs(" -r", stream);
    } else if (option->argument != NULL) {
        fputs(" -x", stream);
    }
    fputs(" -d '", stream);
    print_quoted(option->help, stream);
    fputs("'\n", stream);
}

void print_fish_completion(const struct command_table *table, FILE *stream)
{
    static const struct option_description help = {
        .long_name = "help", .short_name = 'h', .help = "print a short description"};

    fputs("# Completion of covsplit for fish. Made from the table of its options.\n"
          "complete -c covsplit -n __fish_use_subcommand -x -a help -d 'describe a command'\n",
          stream);
    for (size_t i = 0; i < table->count; i++) {
        const struct command *command = &table->commands[i];
        size_t length = group_length(command->name);

        if (length == 0) {
            fprintf(stream, "complete -c covsplit -n __fish_use_subcommand -x -a %s -d '",
                    command->name);
        } else {
            if (is_first_of_group(table, i))
                fprintf(stream, "complete -c covsplit -n __fish_use_subcommand -x -a %.*s\n",
                        (int)length, command->name);
            fprintf(stream,
                    "complete -c covsplit -n '__fish_seen_subcommand_from %.*s; and not "
                    "__fish_seen_subcommand_from ",
                    (int)length, command->name);
            print_names(table, command->name, stream);
            fprintf(stream, "' -x -a %s -d '", command->name + length + 1);
        }
        print_quoted(command->summary, stream);
        fputs("'\n", stream);
        for (size_t j = 0; j < command->option_count; j++)
            print_fish_option(command, &command->options[j], stream);
        print_fish_option(command, &help, stream);
    }
}
