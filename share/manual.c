/*
 * Manual pages: see manual.h.
 */
#include "share/manual.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a page. */
#define NAME_SIZE 64
/* When the pages were last looked through: the same sources give the same pages. */
#define DATE "2026-11-21"

/* ---- text ---- */

/* One character of text: '-' as what it is on a command line, and nothing that begins a request. */
static void print_character(FILE *stream, char character)
{
    if (character == '-')
        fputs("\\-", stream);
    else if (character == '\\')
        fputs("\\e", stream);
    else
        fputc(character, stream);
}

static void print_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++)
        print_character(stream, *text);
}

/* Lines of --help become running text; an empty one separates paragraphs. */
static void print_paragraphs(FILE *stream, const char *text)
{
    bool starts_line = true;

    for (; *text != '\0'; text++) {
        if (starts_line && *text == '\n') {
            fputs(".PP\n", stream);
            continue;
        }
        if (starts_line && (*text == '.' || *text == '\''))
            fputs("\\&", stream);
        print_character(stream, *text);
        starts_line = *text == '\n';
    }
    if (!starts_line)
        fputc('\n', stream);
}

/* A usage is broken into lines with blanks; here the reader's window does that. */
static void print_usage(FILE *stream, const char *usage)
{
    bool after_blank = true;

    for (; *usage != '\0'; usage++) {
        bool is_blank = *usage == ' ' || *usage == '\n';

        if (!is_blank)
            print_character(stream, *usage);
        else if (!after_blank)
            fputc(' ', stream);
        after_blank = is_blank;
    }
    fputc('\n', stream);
}

/* ---- pages ---- */

/* DIRECTORY/NAME.ENDING; NULL with errno where it cannot be opened. */
static FILE *open_file(const char *directory, const char *name, const char *ending,
                       const char *mode)
{
    FILE *stream = NULL;
    char *path;

    if (asprintf(&path, "%s/%s.%s", directory, name, ending) >= 0) {
        stream = fopen(path, mode);
        free(path);
    }
    return stream;
}

static FILE *open_page(const char *directory, const char *name)
{
    return open_file(directory, name, "1", "w");
}

static void print_title(FILE *stream, const char *name)
{
    fputs(".TH ", stream);
    for (; *name != '\0'; name++)
        fputc(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name, stream);
    fputs(" 1 " DATE " \"covsplit " COVSPLIT_VERSION "\" \"covsplit\"\n", stream);
    /* Options that are broken at the end of a line cannot be copied. */
    fputs(".nh\n.ad l\n", stream);
}

static bool append_examples(FILE *stream, const char *examples, const char *name)
{
    FILE *text = open_file(examples, name, "roff", "r");
    char part[4096];
    size_t size;
    bool done;

    if (text == NULL)
        return false;
    while ((size = fread(part, 1, sizeof(part), text)) != 0)
        fwrite(part, 1, size, stream);
    done = ferror(text) == 0;
    fclose(text);
    return done;
}

static void print_option(FILE *stream, const struct option_description *option)
{
    fputs(".TP\n\\fB", stream);
    if (option->short_name != '\0')
        fprintf(stream, "\\-%c\\fR, \\fB", option->short_name);
    fputs("\\-\\-", stream);
    print_text(stream, option->long_name);
    fputs("\\fR", stream);
    if (option->argument != NULL) {
        fputs(" \\fI", stream);
        print_text(stream, option->argument);
        fputs("\\fR", stream);
    }
    fputc('\n', stream);
    print_text(stream, option->help);
    if (option->type == OPTION_TYPE_NUMBER && option->fallback != 0)
        fprintf(stream, " (default: %" PRIu64 ")", option->fallback);
    fputs(".\n", stream);
}

static void page_name(const struct command *command, char name[NAME_SIZE])
{
    snprintf(name, NAME_SIZE, "covsplit-%s", command->name);
    for (char *at = name; *at != '\0'; at++) {
        if (*at == ' ')
            *at = '-';
    }
}

static bool write_command(const struct command *command, const char *directory,
                          const char *examples)
{
    static const struct option_description help = {
        .long_name = "help", .short_name = 'h', .help = "print a short description"};
    char name[NAME_SIZE];
    FILE *stream;
    bool done;

    page_name(command, name);
    stream = open_page(directory, name);
    if (stream == NULL)
        return false;
    print_title(stream, name);
    fputs(".SH NAME\n", stream);
    print_text(stream, name);
    fputs(" \\- ", stream);
    print_text(stream, command->summary);
    fputs("\n.SH SYNOPSIS\n.B covsplit ", stream);
    print_text(stream, command->name);
    fputc('\n', stream);
    print_usage(stream, command->usage);
    fputs(".SH DESCRIPTION\n", stream);
    print_text(stream, command->summary);
    fputs(".\n", stream);
    if (command->description[0] != '\0')
        fputs(".PP\n", stream);
    print_paragraphs(stream, command->description);
    fputs(".SH OPTIONS\n", stream);
    for (size_t i = 0; i < command->option_count; i++)
        print_option(stream, &command->options[i]);
    print_option(stream, &help);
    done = append_examples(stream, examples, name);
    fputs(".SH SEE ALSO\n.BR covsplit (1)\n", stream);
    return fclose(stream) == 0 && done;
}

static bool write_overview(const struct command_table *table, const char *directory,
                           const char *examples)
{
    FILE *stream = open_page(directory, "covsplit");
    bool done;

    if (stream == NULL)
        return false;
    print_title(stream, "covsplit");
    fputs(".SH NAME\n"
          "covsplit \\- split coverage data off instrumented images, and put it back\n"
          ".SH SYNOPSIS\n"
          ".B covsplit\n"
          ".I COMMAND\n"
          "[OPTION...] ARGUMENT...\n"
          ".SH COMMANDS\n",
          stream);
    for (size_t i = 0; i < table->count; i++) {
        char name[NAME_SIZE];

        page_name(&table->commands[i], name);
        fputs(".TP\n.BR ", stream);
        print_text(stream, name);
        fputs(" (1)\n", stream);
        print_text(stream, table->commands[i].summary);
        fputs(".\n", stream);
    }
    done = append_examples(stream, examples, "covsplit");
    return fclose(stream) == 0 && done;
}

bool manual_write(const struct command_table *table, const char *directory, const char *examples)
{
    for (size_t i = 0; i < table->count; i++) {
        if (!write_command(&table->commands[i], directory, examples))
            return false;
    }
    return write_overview(table, directory, examples);
}
