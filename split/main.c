/*
 * covsplit: the command.
 *
 * This file has the table of subcommands with their options, and finds the one to run. A new
 * subcommand is a file with its function and a line in `commands` (with its table of options, where
 * it has any).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader/covsplit.h"
#include "split/commands.h"
#include "split/message.h"
#include "split/options.h"
#include "split/table.h"

#define OPTIONS(table) (table), sizeof(table) / sizeof((table)[0])
#define THREADS_MAX    256
#define OPERANDS_ANY   SIZE_MAX

static const struct option_description split_options[] = {
    {.id = OPTION_OUTPUT,
     .type = OPTION_TYPE_TEXT,
     .long_name = "output",
     .short_name = 'o',
     .argument = "OUT",
     .help = "write the stripped image to OUT, not over IMAGE"},
    {.id = OPTION_SIDECAR,
     .type = OPTION_TYPE_TEXT,
     .long_name = "sidecar",
     .argument = "FILE",
     .help = "write the sidecar to FILE"},
    {.id = OPTION_STORE,
     .type = OPTION_TYPE_TEXT,
     .long_name = "store",
     .argument = "DIR",
     .help = "add the sidecar to the store DIR, under the image's UUID"},
    {.id = OPTION_SECTIONS,
     .type = OPTION_TYPE_SECTIONS,
     .long_name = "sections",
     .argument = "LIST",
     .help = "remove only these: covmap,covfun,names,data,covnames,covdata"},
    {.id = OPTION_UUID,
     .type = OPTION_TYPE_UUID,
     .long_name = "uuid",
     .argument = "HEX",
     .help = "the UUID of the sidecar and its profiles, not the image's own"},
    {.id = OPTION_MAP,
     .type = OPTION_TYPE_TEXT,
     .long_name = "map",
     .argument = "FILE",
     .help = "the map file of lld-link or MSVC, for a COFF image without symbols"},
    {.id = OPTION_DROP_SIGNATURE,
     .type = OPTION_TYPE_FLAG,
     .long_name = "drop-signature",
     .help = "take off a signature made with a certificate: sign afterwards"},
    {.id = OPTION_LEVEL,
     .type = OPTION_TYPE_NUMBER,
     .long_name = "level",
     .argument = "N",
     .help = "zstd compression level, 1 to 19",
     .minimum = 1,
     .maximum = 19,
     .fallback = 9},
    {.id = OPTION_PORTABLE,
     .type = OPTION_TYPE_FLAG,
     .long_name = "portable",
     .help = "keep plain zstd sections, which llvm-objcopy can decompress"},
    {.id = OPTION_THREADS,
     .type = OPTION_TYPE_NUMBER,
     .long_name = "threads",
     .short_name = 'j',
     .argument = "N",
     .help = "compress with N threads (default: one a processor, at most 8)",
     .minimum = 1,
     .maximum = THREADS_MAX},
    {.id = OPTION_VERBOSE,
     .type = OPTION_TYPE_FLAG,
     .long_name = "verbose",
     .short_name = 'v',
     .help = "print the sizes before and after"},
};

static const struct option_description join_options[] = {
    {.id = OPTION_OUTPUT,
     .type = OPTION_TYPE_TEXT,
     .long_name = "output",
     .short_name = 'o',
     .argument = "OUT",
     .help = "write the original image to OUT, which may be STRIPPED itself",
     .required = true},
    {.id = OPTION_SIDECAR,
     .type = OPTION_TYPE_TEXT,
     .long_name = "sidecar",
     .argument = "FILE",
     .help = "the sidecar",
     .excludes = OPTION_STORE},
    {.id = OPTION_STORE,
     .type = OPTION_TYPE_TEXT,
     .long_name = "store",
     .argument = "DIR",
     .help = "look for the sidecar in the store DIR, by UUID"},
};

static const struct option_description correlate_options[] = {
    {.id = OPTION_OUTPUT,
     .type = OPTION_TYPE_TEXT,
     .long_name = "output",
     .short_name = 'o',
     .argument = "OUT",
     .help = "write the full raw profile to OUT",
     .required = true},
    {.id = OPTION_SIDECAR,
     .type = OPTION_TYPE_TEXT,
     .long_name = "sidecar",
     .argument = "FILE",
     .help = "the sidecar of the image that wrote the profile",
     .excludes = OPTION_STORE},
    {.id = OPTION_STORE,
     .type = OPTION_TYPE_TEXT,
     .long_name = "store",
     .argument = "DIR",
     .help = "look for the sidecar in the store DIR, by UUID"},
};

static const char *const failure_modes[] = {"any", "all", NULL};

static const struct option_description merge_options[] = {
    {.id = OPTION_OUTPUT,
     .type = OPTION_TYPE_TEXT,
     .long_name = "output",
     .short_name = 'o',
     .argument = "OUT",
     .help = "write to OUT, which ends in .profraw or .profdata",
     .required = true},
    {.id = OPTION_SIDECAR,
     .type = OPTION_TYPE_TEXT,
     .long_name = "sidecar",
     .argument = "FILE",
     .help = "the sidecar of the image that wrote the profiles",
     .excludes = OPTION_STORE},
    {.id = OPTION_STORE,
     .type = OPTION_TYPE_TEXT,
     .long_name = "store",
     .argument = "DIR",
     .help = "look for sidecars in the store DIR, by UUID"},
    {.id = OPTION_FAILURE_MODE,
     .type = OPTION_TYPE_WORD,
     .long_name = "failure-mode",
     .argument = "MODE",
     .help = "fail at a bad profile: any (default), or where all are bad: all",
     .words = failure_modes},
    {.id = OPTION_SPARSE,
     .type = OPTION_TYPE_FLAG,
     .long_name = "sparse",
     .help = "leave out functions that never ran (.profdata only)"},
    {.id = OPTION_LLVM_PROFDATA,
     .type = OPTION_TYPE_TEXT,
     .long_name = "llvm-profdata",
     .argument = "PROGRAM",
     .help = "the llvm-profdata that writes the .profdata file"},
    {.id = OPTION_THREADS,
     .type = OPTION_TYPE_NUMBER,
     .long_name = "threads",
     .short_name = 'j',
     .argument = "N",
     .help = "read with N threads (default: one a processor, at most 8)",
     .minimum = 1,
     .maximum = THREADS_MAX},
};

static const struct option_description show_options[] = {
    {.id = OPTION_JSON,
     .type = OPTION_TYPE_FLAG,
     .long_name = "json",
     .help = "print a JSON array with one object for each FILE"},
};

static const struct option_description verify_options[] = {
    {.id = OPTION_IMAGE,
     .type = OPTION_TYPE_TEXT,
     .long_name = "image",
     .argument = "STRIPPED",
     .help = "check too that joining STRIPPED gives the original image"},
    {.id = OPTION_VERBOSE,
     .type = OPTION_TYPE_FLAG,
     .long_name = "verbose",
     .short_name = 'v',
     .help = "name the sidecars that are good"},
};

static const struct command commands[] = {
    {"split", "Take coverage data out of an image into a sidecar",
     "[-o OUT] [--sidecar FILE] [--store DIR] [--sections LIST]\n"
     "                      [--uuid HEX] [--map FILE] [--drop-signature] [--level N]\n"
     "                      [--portable] [-j N] [-v] IMAGE",
     "The stripped image runs as before and writes lightweight profiles. Without -o,\n"
     "IMAGE itself is replaced; without --sidecar and --store, the sidecar is\n"
     "IMAGE.covsplit.\n",
     OPTIONS(split_options), "IMAGE", 1, 1, command_split},
    {"join", "Bring back the original image from a stripped one and its sidecar",
     "[--sidecar FILE | --store DIR] -o OUT STRIPPED",
     "Without --sidecar, the sidecar is looked for by UUID in the store DIR, or in the\n"
     "directories of COVSPLIT_STORE (a list with ':' between), and then as\n"
     "STRIPPED.covsplit.\n",
     OPTIONS(join_options), "STRIPPED", 1, 1, command_join},
    {"correlate", "Make a full raw profile of a lightweight one",
     "[--sidecar FILE | --store DIR] -o OUT PROFILE",
     "OUT is what the unsplit image would have written, for llvm-profdata to read.\n"
     "Without --sidecar and --store, the sidecar is looked for by UUID in the\n"
     "directories of COVSPLIT_STORE (a list with ':' between). A profile that lacks\n"
     "nothing is copied.\n",
     OPTIONS(correlate_options), "PROFILE", 1, 1, command_correlate},
    {"merge", "Add up profiles of any images into one file",
     "[--sidecar FILE | --store DIR] [--failure-mode MODE] [--sparse]\n"
     "                      [--llvm-profdata PROGRAM] [-j N] -o OUT PROFILE...",
     "A PROFILE is a file, a directory (all files in it and below), or @FILE (a list of\n"
     "those, one a line). Lightweight and full raw profiles may be mixed. OUT.profraw\n"
     "has one full raw profile for each image, OUT.profdata is what llvm-profdata makes\n"
     "of that: the one that is named, or that of LLVM_PROFDATA, or the first in PATH\n"
     "that reads such profiles. Without --sidecar and --store, sidecars are looked for\n"
     "by UUID in the directories of COVSPLIT_STORE (a list with ':' between).\n",
     OPTIONS(merge_options), "PROFILE", 1, OPERANDS_ANY, command_merge},
    {"show", "Describe images, sidecars and raw profiles", "[--json] FILE...",
     "The status of a section. In an image: a split would see it 'removed' or 'zeroed',\n"
     "or it 'stays'; after a split, what is 'left' of it. In a sidecar: it is 'stored',\n"
     "or only 'recorded' by place and size, or was 'kept' in the image. In a raw\n"
     "profile: it is 'present'.\n",
     OPTIONS(show_options), "FILE", 1, OPERANDS_ANY, command_show},
    {"verify", "Check sidecars: every digest, every note, every bound",
     "[--image STRIPPED] [-v] SIDECAR...", "", OPTIONS(verify_options), "SIDECAR", 1, OPERANDS_ANY,
     command_verify},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

/* ---- help ---- */

static int out_of_memory(void)
{
    struct error error;

    error_set(&error, "no memory for the text; free some and run again");
    message_error(&error);
    return STATUS_FAILED;
}

static int print_help(void)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *table = table_new(columns, 2, 2);
    bool printed;

    if (table == NULL)
        return out_of_memory();
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        table_cell(table, "%s", commands[i].name);
        table_cell(table, "%s", commands[i].summary);
    }
    printf("Usage: covsplit COMMAND [OPTION...] ARGUMENT...\n"
           "Splits coverage data off instrumented images, and puts it back.\n"
           "\n"
           "Commands:\n");
    printed = table_print(table, stdout);
    table_free(table);
    printf("\n"
           "'covsplit COMMAND --help' or 'covsplit help COMMAND' describes a command,\n"
           "'covsplit --version' prints the version.\n");
    return printed ? STATUS_DONE : out_of_memory();
}

static int print_help_of(const struct command *command)
{
    return print_command_help(command, stdout) ? STATUS_DONE : out_of_memory();
}

static int print_version(void)
{
    printf("covsplit %d.%d.%d\n", COVSPLIT_VERSION_MAJOR, COVSPLIT_VERSION_MINOR,
           COVSPLIT_VERSION_PATCH);
    return STATUS_DONE;
}

/* ---- dispatch ---- */

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
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
    }
    return status;
}

/* `covsplit help [COMMAND]` */
static int run_help(int count, char **arguments)
{
    const struct command *command;

    if (count == 0)
        return print_help();
    if (count > 1)
        return message_usage(NULL, "'%s' is one operand too many", arguments[1]);
    command = find_command(arguments[0]);
    if (command == NULL)
        return message_usage(NULL, "unknown command '%s'", arguments[0]);
    return print_help_of(command);
}

static int dispatch(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2)
        return message_usage(NULL, "no command given");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help();
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    if (strcmp(argv[1], "help") == 0)
        return run_help(argc - 2, argv + 2);
    if (argv[1][0] == '-')
        return message_usage(NULL, "unknown option '%s'", argv[1]);
    command = find_command(argv[1]);
    if (command == NULL)
        return message_usage(NULL, "unknown command '%s'", argv[1]);
    return run_command(command, argc - 2, argv + 2);
}

/* ---- the process ---- */

/* Where the caller has closed stdin, stdout or stderr, the next file to be opened would get that
 * descriptor, and messages would go into an image. Opened for the wrong direction, so that using
 * them still fails. */
static bool occupy_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1)
            continue;
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return false;
    }
    return true;
}

/* Buffered output may fail as late as here: a full disk must not look like success. */
static int finish_output(int status)
{
    bool failed = ferror(stdout) != 0;
    struct error error;

    if (fclose(stdout) == 0 && !failed)
        return status;
    if (failed)
        error_set(&error, "standard output: cannot be written; make room or send it elsewhere");
    else
        error_set(&error, "standard output: cannot be written: %s; make room or send it elsewhere",
                  strerror(errno));
    message_error(&error);
    return status == STATUS_DONE ? STATUS_FAILED : status;
}

/* A mapped file that shrinks, or whose disk fails, while it is read. Outputs have no names yet, or
 * are whole, so there is nothing to clean up. Only what POSIX allows in a signal handler is used.
 */
static void lost_mapped_file(int signal_number)
{
    static const char text[] = "covsplit: error: a file became shorter or unreadable while it was "
                               "read; run again when nothing changes it\n";

    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(STATUS_FAILED);
}

int main(int argc, char **argv)
{
    if (!occupy_standard_descriptors())
        return STATUS_FAILED;
    /* So that writing beyond a file size limit fails with EFBIG and can be reported. */
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGBUS, lost_mapped_file);
    return finish_output(dispatch(argc, argv));
}
