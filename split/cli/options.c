/*
 * Parsing of command lines: see options.h.
 *
 * getopt is not used: it keeps its state in global variables and knows nothing of types, required
 * options and help texts.
 */
#include "split/cli/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/llvm/section.h"
#include "split/cli/memory.h"
#include "split/cli/table.h"

#define THREADS_DEFAULT_MAX 8

static const struct option_description help_option = {
    .id = OPTION_HELP,
    .type = OPTION_TYPE_FLAG,
    .long_name = "help",
    .short_name = 'h',
    .help = "print this text",
};

/* ---- what may be meant ---- */

#define WORD_MAX 32 /* longer words are not compared */

/* The weighted edit distance of two words: of each letter that is missing, other or too much;
 * nothing of two that are swapped, nor of a missing end. */
static size_t word_distance(const char *word, size_t length, const char *meant)
{
    enum { MISSING = 1, OTHER = 2, SURPLUS = 3 };
    size_t costs[WORD_MAX + 1][WORD_MAX + 1], meant_length = strlen(meant), least = SIZE_MAX;

    if (length > WORD_MAX || meant_length > WORD_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= length; i++) {
        for (size_t j = 0; j <= meant_length; j++) {
            size_t cost = i == 0 ? j * MISSING : costs[i - 1][j] + SURPLUS;

            if (i != 0 && j != 0) {
                size_t kept = costs[i - 1][j - 1] + (word[i - 1] == meant[j - 1] ? 0 : OTHER);

                cost = kept < cost ? kept : cost;
                cost = costs[i][j - 1] + MISSING < cost ? costs[i][j - 1] + MISSING : cost;
            }
            if (i > 1 && j > 1 && word[i - 1] == meant[j - 2] && word[i - 2] == meant[j - 1] &&
                costs[i - 2][j - 2] < cost)
                cost = costs[i - 2][j - 2];
            costs[i][j] = cost;
            least = i == length && cost < least ? cost : least;
        }
    }
    return least;
}

void suggestion_add(struct suggestion *suggestion, const char *dashes, const char *meant)
{
    size_t distance = word_distance(suggestion->word, suggestion->length, meant);
    struct error before = suggestion->text;
    bool is_first = before.message[0] == '\0' || distance < suggestion->distance;

    if (distance > suggestion->length / 2 || (!is_first && distance > suggestion->distance))
        return;
    suggestion->distance = distance;
    error_set(&suggestion->text, "%.900s%s%s%s'", is_first ? " (did you mean '" : before.message,
              is_first ? "" : " or '", dashes, meant);
}

const char *suggestion_text(struct suggestion *suggestion)
{
    struct error before = suggestion->text;

    if (before.message[0] != '\0')
        error_set(&suggestion->text, "%.900s?)", before.message);
    return suggestion->text.message;
}

/* ---- finding options ---- */

/* --help has the index after the last one of the table. */
static const struct option_description *option_at(const struct command *command, size_t index)
{
    return index < command->option_count ? &command->options[index] : &help_option;
}

static const struct option_description *find_by_id(const struct command *command, enum option_id id)
{
    for (size_t i = 0; i <= command->option_count; i++) {
        if (option_at(command, i)->id == id)
            return option_at(command, i);
    }
    return NULL;
}

static const struct option_description *find_long(const struct command *command, const char *name,
                                                  size_t length, struct error *error)
{
    struct suggestion suggestion = {.word = name, .length = length};

    for (size_t i = 0; i <= command->option_count; i++) {
        const struct option_description *option = option_at(command, i);

        if (strncmp(option->long_name, name, length) == 0 && option->long_name[length] == '\0')
            return option;
        suggestion_add(&suggestion, "--", option->long_name);
    }
    error_set(error, "unknown option '--%.*s'%.900s", (int)length, name,
              suggestion_text(&suggestion));
    return NULL;
}

/* ---- values ---- */

/* Reads the decimal number at the front of the text, and returns its end: `text` itself if there is
 * no number, or if it is too large. */
static const char *take_number(const char *text, uint64_t *value)
{
    const char *digit = text;

    *value = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*digit - '0'), value))
            return text;
    }
    return digit;
}

/* Parses a size, which must be at least 1 byte and fit 64 bits. */
static bool parse_size(const struct option_description *option, const char *text, uint64_t *size,
                       struct error *error)
{
    static const char units[] = "KMGT";
    const char *unit = take_number(text, size), *found = NULL;

    if (unit != text && *unit != '\0' && unit[1] == '\0')
        found = strchr(units, *unit);
    if (found != NULL && *size <= UINT64_MAX >> 10 * (found - units + 1))
        *size <<= 10 * (found - units + 1);
    else if (unit == text || *unit != '\0')
        *size = 0;
    return *size != 0 ||
           error_set(error, "'--%s %s' is not a size: bytes, or a number and K, M, G or T",
                     option->long_name, text);
}

/* The bit of a section word of `length` characters, which --sections accepts; 0 if it is not
 * one. */
static unsigned removable_bit(const char *word, size_t length)
{
    if (length == strlen("zeros") && memcmp(word, "zeros", length) == 0)
        return SECTION_ZEROS;
    for (unsigned kind = 1; kind <= SECTION_KIND_MAX; kind++) {
        const char *name = section_kind_word((enum section_kind)kind);

        if ((SECTION_BIT(kind) & SECTION_REMOVABLE) != 0 && strlen(name) == length &&
            memcmp(name, word, length) == 0)
            return SECTION_BIT(kind);
    }
    return 0;
}

static bool parse_sections(const struct option_description *option, const char *text,
                           uint64_t *sections, struct error *error)
{
    uint64_t mask = 0;
    const char *word = text;

    if (strcmp(text, "all") == 0) {
        *sections = SECTION_DEFAULT;
        return true;
    }
    for (;;) {
        size_t length = strcspn(word, ",");
        unsigned bit = removable_bit(word, length);

        if (bit == 0)
            return error_set(error,
                             "'--%s %s': '%.*s' is not one of covmap, covfun, names, data, "
                             "covnames, covdata, zeros (or all, alone)",
                             option->long_name, text, (int)length, word);
        mask |= bit;
        if (word[length] == '\0')
            break;
        word += length + 1;
    }
    *sections = mask;
    return true;
}

static bool parse_word(const struct option_description *option, const char *text, uint64_t *index,
                       struct error *error)
{
    struct error list = {0};

    for (*index = 0; option->words[*index] != NULL; ++*index) {
        struct error before = list;

        if (strcmp(option->words[*index], text) == 0)
            return true;
        error_set(&list, "%.900s%s%s", before.message, *index == 0 ? "" : ", ",
                  option->words[*index]);
    }
    return error_set(error, "'--%s %s' is not one of %.900s", option->long_name, text,
                     list.message);
}

static bool set_value(const struct option_description *option, const char *text,
                      struct parsed_options *parsed, struct error *error)
{
    struct option_value value = {.given = true, .text = text};
    const char *end;
    bool done = true;

    switch (option->type) {
    case OPTION_TYPE_FLAG:
        break;
    case OPTION_TYPE_TEXT:
        done =
            text[0] != '\0' || error_set(error, "the value of '--%s' is empty", option->long_name);
        break;
    case OPTION_TYPE_NUMBER:
        end = take_number(text, &value.number);
        done = (end != text && *end == '\0' && value.number >= option->minimum &&
                value.number <= option->maximum) ||
               error_set(error, "'--%s %s' is not a number from %" PRIu64 " to %" PRIu64,
                         option->long_name, text, option->minimum, option->maximum);
        break;
    case OPTION_TYPE_SIZE:
        done = parse_size(option, text, &value.number, error);
        break;
    case OPTION_TYPE_SECTIONS:
        done = parse_sections(option, text, &value.number, error);
        break;
    case OPTION_TYPE_WORD:
        done = parse_word(option, text, &value.number, error);
        break;
    case OPTION_TYPE_UUID:
        done = uuid_parse(text, &value.uuid) ||
               error_set(error,
                         "'--%s %s' is not a UUID: 1 to %d bytes as pairs of hexadecimal digits",
                         option->long_name, text, UUID_SIZE_MAX);
        break;
    }
    if (done && option->repeats)
        parsed->uses[parsed->use_count++] = (struct option_use){option->id, text};
    if (done)
        parsed->values[option->id] = value;
    return done;
}

/* ---- arguments ---- */

/* The unread rest of the command line. */
struct arguments {
    char *const *words;
    int count;
    int next;
};

/* NULL if there is none. */
static const char *next_argument(struct arguments *arguments)
{
    return arguments->next == arguments->count ? NULL : arguments->words[arguments->next++];
}

/* True if it is -name or -name=value of an option that may have one dash. */
static bool is_one_dash(const struct command *command, const char *name)
{
    size_t length = strcspn(name, "=");

    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_description *option = &command->options[i];

        if (option->one_dash && strlen(option->long_name) == length &&
            memcmp(option->long_name, name, length) == 0)
            return true;
    }
    return false;
}

static bool parse_long(const char *name, struct arguments *arguments, struct parsed_options *parsed,
                       struct error *error)
{
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct option_description *option = find_long(parsed->command, name, length, error);

    if (option == NULL)
        return false;
    if (option->type == OPTION_TYPE_FLAG && value != NULL)
        return error_set(error, "option '--%s' takes no value", option->long_name);
    if (option->type != OPTION_TYPE_FLAG && value == NULL &&
        (value = next_argument(arguments)) == NULL)
        return error_set(error, "option '--%s' needs a value: %s", option->long_name,
                         option->argument);
    return set_value(option, value, parsed, error);
}

static bool parse_short(const char *argument, struct arguments *arguments,
                        struct parsed_options *parsed, struct error *error)
{
    for (const char *name = argument + 1; *name != '\0'; name++) {
        const struct option_description *option;
        const char *value = name + 1;
        size_t index = 0;

        while (index <= parsed->command->option_count &&
               option_at(parsed->command, index)->short_name != *name)
            index++;
        if (index > parsed->command->option_count)
            return error_set(error, "unknown option '-%c'", *name);
        option = option_at(parsed->command, index);
        if (option->type == OPTION_TYPE_FLAG) {
            if (!set_value(option, NULL, parsed, error))
                return false;
            continue;
        }
        if (*value == '\0' && (value = next_argument(arguments)) == NULL)
            return error_set(error, "option '-%c' needs a value: %s", *name, option->argument);
        return set_value(option, value, parsed, error);
    }
    return true;
}

static bool parse_arguments(struct arguments *arguments, struct parsed_options *parsed,
                            struct error *error)
{
    const struct option_description *rest = NULL;
    bool is_command = parsed->command->operand_maximum == OPERANDS_ARE_COMMAND;
    bool options_ended = false;
    const char *argument;

    for (size_t i = 0; i < parsed->command->option_count; i++) {
        if (parsed->command->options[i].takes_rest && !is_command)
            rest = &parsed->command->options[i];
    }
    while ((argument = next_argument(arguments)) != NULL) {
        if (!options_ended && is_command && (argument[0] != '-' || argument[1] == '\0'))
            return error_set(error, "'%s' comes before '--'; write '--' before the command",
                             argument);
        if (options_ended && rest != NULL) {
            if (!set_value(rest, argument, parsed, error))
                return false;
        } else if (options_ended || argument[0] != '-' || argument[1] == '\0')
            parsed->operands[parsed->operand_count++] = argument;
        else if (strcmp(argument, "--") == 0)
            options_ended = true;
        else if (argument[1] == '-' ? !parse_long(argument + 2, arguments, parsed, error)
                 : is_one_dash(parsed->command, argument + 1)
                     ? !parse_long(argument + 1, arguments, parsed, error)
                     : !parse_short(argument, arguments, parsed, error))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

static bool check_options(const struct parsed_options *parsed, struct error *error)
{
    const struct command *command = parsed->command;

    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_description *option = &command->options[i];

        if (option->required && !parsed->values[option->id].given)
            return error_set(error, "'--%s %s' is missing", option->long_name, option->argument);
        if (option->excludes != OPTION_NONE && parsed->values[option->id].given &&
            parsed->values[option->excludes].given)
            return error_set(error, "'--%s' and '--%s' exclude each other", option->long_name,
                             find_by_id(command, option->excludes)->long_name);
    }
    return true;
}

/* Makes all operands values of the option that takes them, if that is given. */
static bool hand_over_operands(struct parsed_options *parsed, struct error *error)
{
    for (size_t i = 0; i < parsed->command->option_count; i++) {
        const struct option_description *option = &parsed->command->options[i];

        if (!option->takes_operands || !parsed->values[option->id].given)
            continue;
        for (size_t operand = 0; operand < parsed->operand_count; operand++) {
            if (!set_value(option, parsed->operands[operand], parsed, error))
                return false;
        }
        parsed->operand_count = 0;
    }
    return true;
}

static bool check_operands(const struct parsed_options *parsed, struct error *error)
{
    const struct command *command = parsed->command;

    if (parsed->operand_count < command->operand_minimum)
        return error_set(error, "%s is missing", command->operand);
    if (parsed->operand_count > command->operand_maximum)
        return error_set(error, "'%s' is one operand too many",
                         parsed->operands[command->operand_maximum]);
    for (size_t i = 0; i < parsed->operand_count; i++) {
        if (parsed->operands[i][0] == '\0' &&
            (i == 0 || command->operand_maximum != OPERANDS_ARE_COMMAND))
            return error_set(error, "%s is empty", command->operand);
    }
    return true;
}

enum parse_result parse_options(const struct command *command, int count, char *const *arguments,
                                struct parsed_options *parsed, struct error *error)
{
    struct arguments rest = {.words = arguments, .count = count};
    enum parse_result result = PARSE_WRONG;

    memset(parsed, 0, sizeof(*parsed));
    parsed->command = command;
    parsed->operands = command_array((size_t)count + 1, sizeof(*parsed->operands));
    parsed->uses = command_array((size_t)count + 1, sizeof(*parsed->uses));
    if (parse_arguments(&rest, parsed, error)) {
        if (parsed->values[OPTION_HELP].given)
            result = PARSE_HELP;
        else if (check_options(parsed, error) && hand_over_operands(parsed, error) &&
                 check_operands(parsed, error))
            result = PARSE_DONE;
    }
    if (result != PARSE_DONE)
        parsed_options_free(parsed);
    return result;
}

void parsed_options_free(struct parsed_options *parsed)
{
    free(parsed->operands);
    free(parsed->uses);
}

/* ---- access ---- */

bool option_given(const struct parsed_options *options, enum option_id id)
{
    return options->values[id].given;
}

const char *option_text(const struct parsed_options *options, enum option_id id)
{
    return options->values[id].text;
}

const char *option_text_at(const struct parsed_options *options, enum option_id id, size_t index)
{
    for (size_t i = 0; i < options->use_count; i++) {
        if (options->uses[i].id == id && index-- == 0)
            return options->uses[i].text;
    }
    return NULL;
}

uint64_t option_number(const struct parsed_options *options, enum option_id id)
{
    const struct option_description *option = find_by_id(options->command, id);

    return options->values[id].given || option == NULL ? options->values[id].number
                                                       : option->fallback;
}

unsigned option_sections(const struct parsed_options *options, enum option_id id)
{
    return options->values[id].given ? (unsigned)options->values[id].number : SECTION_DEFAULT;
}

struct uuid option_uuid(const struct parsed_options *options, enum option_id id)
{
    return options->values[id].uuid;
}

unsigned option_threads(const struct parsed_options *options)
{
    long processors;

    if (option_given(options, OPTION_THREADS))
        return (unsigned)option_number(options, OPTION_THREADS);
    processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1)
        return 1;
    return processors > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX : (unsigned)processors;
}

/* ---- help ---- */

void print_command_help(const struct command *command, FILE *stream)
{
    static const struct table_column columns[] = {{NULL, TABLE_LEFT}, {NULL, TABLE_LEFT}};
    struct table *table = table_new(columns, 2, 2);

    fprintf(stream, "Usage: covsplit %s %s\n%s.\n", command->name, command->usage,
            command->summary);
    if (command->description[0] != '\0')
        fprintf(stream, "\n%s", command->description);
    for (size_t i = 0; i <= command->option_count; i++) {
        const struct option_description *option = option_at(command, i);
        const char letter[] = {'-', option->short_name, ',', '\0'};

        table_cell(table, "%3s --%s%s%s", option->short_name != '\0' ? letter : "",
                   option->long_name, option->argument != NULL ? " " : "",
                   option->argument != NULL ? option->argument : "");
        if (option->type == OPTION_TYPE_NUMBER && option->fallback != 0)
            table_cell(table, "%s (default: %" PRIu64 ")", option->help, option->fallback);
        else
            table_cell(table, "%s%s", option->help, option->repeats ? "; may be repeated" : "");
    }
    fprintf(stream, "\nOptions:\n");
    table_print(table, stream);
    table_free(table);
}
