/*
 * The command line, described by tables.
 *
 * A subcommand is described by a `struct command`: its name, summary, options, operands and
 * function. Parsing, --help and usage errors all come from that description, so they cannot
 * disagree.
 *
 * The values of all options, the required options and the number of operands are checked while
 * parsing, so the functions with which a subcommand reads them cannot fail:
 *
 *     const char *output = option_text(options, OPTION_OUTPUT);       NULL: not given
 *     for (size_t i = 0; (text = option_text_at(options, OPTION_SIDECAR, i)) != NULL; i++)
 *                                                                     all values, if it `repeats`
 *     int level = (int)option_number(options, OPTION_LEVEL);          or the table's fallback
 *     uint64_t limit = option_number(options, OPTION_MEMORY_LIMIT);   0: not given
 *     bool verbose = option_given(options, OPTION_VERBOSE);
 *     unsigned sections = option_sections(options, OPTION_SECTIONS);  a mask of SECTION_BIT
 *     unsigned word = (unsigned)option_number(options, OPTION_FAILURE_MODE);  its index in `words`
 *     struct uuid uuid = option_uuid(options, OPTION_UUID);           size 0: not given
 *     const char *image = options->operands[0];
 *
 * Accepted forms are --name value, --name=value (with `one_dash` also -name), -n value, -nvalue,
 * flags together (-ab), options after operands, and -- to end the options. Long names cannot be
 * abbreviated. If an option is given again, the last value counts, unless its description has
 * `repeats`: then all values count, in the order of the command line.
 */
#ifndef COVSPLIT_SPLIT_CLI_OPTIONS_H
#define COVSPLIT_SPLIT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/uuid.h"

enum option_id {
    OPTION_NONE, /* not an option: must not be used in a table */
    OPTION_HELP, /* every subcommand has it, without a row in its table */
    OPTION_ALL,
    OPTION_ALL_BUILDS,
    OPTION_ARCH,
    OPTION_ASSUME_UNREFERENCED,
    OPTION_BASELINE,
    OPTION_BITMAP,
    OPTION_CONSUME,
    OPTION_COUNTERS,
    OPTION_CORE,
    OPTION_DEBUG_DIRECTORY,
    OPTION_DROP_SIGNATURE,
    OPTION_DRY_RUN,
    OPTION_EXCLUDE,
    OPTION_EXPLAIN,
    OPTION_FAILURE_MODE,
    OPTION_FAIL_UNDER,
    OPTION_FAST,
    OPTION_FOR,
    OPTION_FORMAT,
    OPTION_HTML,
    OPTION_IGNORE,
    OPTION_IGNORE_FILES,
    OPTION_IMAGE,
    OPTION_INCLUDE,
    OPTION_INSTANTIATIONS,
    OPTION_INTO,
    OPTION_JSON,
    OPTION_KEEP_LIST,
    OPTION_KEEP_WHOLE,
    OPTION_LEVEL,
    OPTION_LLVM_COV,
    OPTION_LLVM_PROFDATA,
    OPTION_MAP,
    OPTION_MAPPING,
    OPTION_MEMORY_LIMIT,
    OPTION_MISSING_LINES,
    OPTION_NO_DEFAULT_EXCLUDES,
    OPTION_OLDER_THAN,
    OPTION_OPEN,
    OPTION_OUTPUT,
    OPTION_DELTA,
    OPTION_PATH_MAP,
    OPTION_PER_IMAGE,
    OPTION_PORTABLE,
    OPTION_PROCESS,
    OPTION_PROFILES,
    OPTION_RECURSIVE,
    OPTION_REPLACE,
    OPTION_ROOT,
    OPTION_SECTIONS,
    OPTION_SIDECAR,
    OPTION_SPARSE,
    OPTION_STORE,
    OPTION_SUMMARY,
    OPTION_THREADS,
    OPTION_UNION,
    OPTION_UUID,
    OPTION_VERBOSE,
    OPTION_VERIFY,
    OPTION_WATCH,
    OPTION_WEIGHTED_INPUT,
    OPTION_COUNT,
};

enum option_type {
    OPTION_TYPE_FLAG,
    OPTION_TYPE_TEXT,   /* anything but "" */
    OPTION_TYPE_NUMBER, /* decimal, from `minimum` to `maximum` */
    OPTION_TYPE_SIZE, /* bytes: decimal, optionally followed by K, M, G or T for a power of 1024 */
    OPTION_TYPE_SECTIONS, /* section words separated by ',', or "all" */
    OPTION_TYPE_UUID,     /* hexadecimal digits */
    OPTION_TYPE_WORD,     /* one of `words` */
};

struct option_description {
    enum option_id id;
    enum option_type type;
    const char *long_name;
    char short_name;      /* '\0': none */
    const char *argument; /* what --help calls the value; NULL for flags */
    const char *help;
    uint64_t minimum, maximum; /* numbers only */
    uint64_t fallback;         /* numbers only: the value if the option is not given */
    const char *const *words;  /* words only: the accepted words; ends with NULL */
    bool required;
    bool one_dash;           /* -name is taken as well, as by LLVM's tools */
    bool repeats;            /* texts and numbers: it may be given several times */
    bool takes_operands;     /* with `repeats`: if it is given, operands are more values of it */
    bool takes_rest;         /* with `repeats`: operands after "--" are values of it */
    enum option_id excludes; /* an option that cannot be given together with this one */
};

struct parsed_options;

/* As operand_maximum: the operands are the command line of another program. They can only come
 * after "--", there can be any number of them, and all but the first may be empty. */
#define OPERANDS_ARE_COMMAND (SIZE_MAX - 1)

struct command {
    const char *name;
    const char *summary;     /* one line without a full stop */
    const char *usage;       /* what follows the name: "[-o OUT] IMAGE" */
    const char *description; /* more lines for --help, each with its newline; "" for none */
    const struct option_description *options;
    size_t option_count;
    const char *operand;                     /* the name of an operand in the usage, for messages */
    size_t operand_minimum, operand_maximum; /* or OPERANDS_ARE_COMMAND */
    int (*run)(const struct parsed_options *options); /* returns an enum exit_status */
    const char *heading; /* of a group, in the list of all commands: above this one; or NULL */
    const char *example; /* below it: a command line; or NULL */
};

struct option_value {
    bool given;
    const char *text; /* as on the command line */
    uint64_t number;  /* numbers; section masks; indices of words */
    struct uuid uuid;
};

/* One value of an option that repeats. */
struct option_use {
    enum option_id id;
    const char *text;
};

/* Points into argv, which must outlive it. Free with parsed_options_free. */
struct parsed_options {
    const struct command *command;
    struct option_value values[OPTION_COUNT]; /* if an option was given again, the last value */
    struct option_use *uses; /* the values of options that repeat, in their order */
    size_t use_count;
    const char **operands;
    size_t operand_count;
};

enum parse_result {
    PARSE_DONE,
    PARSE_HELP,  /* --help was given: print the help, do not run the subcommand */
    PARSE_WRONG, /* the error says what is wrong with the command line */
};

/* Parses the `count` arguments that follow the subcommand's name. There is something to free only
 * if the result is PARSE_DONE. */
enum parse_result parse_options(const struct command *command, int count, char *const *arguments,
                                struct parsed_options *parsed, struct error *error);
void parsed_options_free(struct parsed_options *parsed);

bool option_given(const struct parsed_options *options, enum option_id id);
const char *option_text(const struct parsed_options *options, enum option_id id);

/* The value with this index, from 0, of an option that repeats; NULL after the last one. */
const char *option_text_at(const struct parsed_options *options, enum option_id id, size_t index);
uint64_t option_number(const struct parsed_options *options, enum option_id id);
unsigned option_sections(const struct parsed_options *options, enum option_id id);
struct uuid option_uuid(const struct parsed_options *options, enum option_id id);

/* The value of OPTION_THREADS; if not given, the number of processors, but at most 8. */
unsigned option_threads(const struct parsed_options *options);

/* What may be meant by an unknown word. Abbreviations are not accepted, so that a script keeps its
 * meaning when a later release has more options. */
struct suggestion {
    const char *word;
    size_t length;
    size_t distance;
    struct error text;
};

/* Considers a word that is known; those that are nearest are suggested. */
void suggestion_add(struct suggestion *suggestion, const char *dashes, const char *meant);

/* " (did you mean 'A' or 'B'?)", or "". */
const char *suggestion_text(struct suggestion *suggestion);

/* Prints the --help text of a subcommand. */
void print_command_help(const struct command *command, FILE *stream);

#endif
