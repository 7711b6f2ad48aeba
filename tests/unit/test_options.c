/*
 * Command lines: every form of an option, and everything that is a usage error. Tables and --help
 * are checked on the way, since they come from the same description.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/llvm/section.h"
#include "split/cli/options.h"
#include "split/cli/table.h"
#include "tests/support/suite.h"

static const struct option_description table[] = {
    {OPTION_OUTPUT, .type = OPTION_TYPE_TEXT, .long_name = "output", .short_name = 'o',
     .argument = "OUT", .help = "where to"},
    {OPTION_SIDECAR, .type = OPTION_TYPE_TEXT, .long_name = "sidecar", .argument = "FILE",
     .help = "a file", .excludes = OPTION_STORE},
    {OPTION_STORE, .type = OPTION_TYPE_TEXT, .long_name = "store", .argument = "DIR",
     .help = "a directory"},
    {OPTION_SECTIONS, .type = OPTION_TYPE_SECTIONS, .long_name = "sections", .argument = "LIST",
     .help = "a list"},
    {OPTION_UUID, .type = OPTION_TYPE_UUID, .long_name = "uuid", .argument = "HEX",
     .help = "a UUID"},
    {OPTION_LEVEL, .type = OPTION_TYPE_NUMBER, .long_name = "level", .argument = "N",
     .help = "a level", .minimum = 1, .maximum = 19, .fallback = 9},
    {OPTION_THREADS, .type = OPTION_TYPE_NUMBER, .long_name = "threads", .short_name = 'j',
     .argument = "N", .help = "threads", .minimum = 1, .maximum = UINT64_MAX},
    {OPTION_VERBOSE, .type = OPTION_TYPE_FLAG, .long_name = "verbose", .short_name = 'v',
     .help = "say more"},
    {OPTION_MEMORY_LIMIT, .type = OPTION_TYPE_SIZE, .long_name = "limit", .argument = "SIZE",
     .help = "no more than that"},
    {OPTION_JSON, .type = OPTION_TYPE_FLAG, .long_name = "json", .short_name = 'q',
     .help = "as JSON"},
    {OPTION_IMAGE, .type = OPTION_TYPE_TEXT, .long_name = "image", .short_name = 'i',
     .argument = "FILE", .help = "an image", .repeats = true},
};

#define OPTION_TABLE_SIZE (sizeof(table) / sizeof(table[0]))

static const struct command optional = {
    .name = "test",
    .summary = "Test",
    .usage = "[FILE...]",
    .description = "",
    .options = table,
    .option_count = OPTION_TABLE_SIZE,
    .operand = "FILE",
    .operand_maximum = 3,
};

static const struct command other_program = {
    .name = "test",
    .summary = "Test",
    .usage = "-- COMMAND [ARGUMENT...]",
    .description = "",
    .options = table,
    .option_count = OPTION_TABLE_SIZE,
    .operand = "COMMAND",
    .operand_minimum = 1,
    .operand_maximum = OPERANDS_ARE_COMMAND,
};

#define ARGUMENTS_MAX 16

/* Splits the line at blanks; "''" is an empty argument. */
static enum parse_result parse(const struct command *command, const char *line,
                               struct parsed_options *parsed, struct error *error)
{
    static char text[512];
    char *arguments[ARGUMENTS_MAX];
    char *rest = text;
    char *word;
    int count = 0;

    ck_assert_uint_lt(strlen(line), sizeof(text));
    strcpy(text, line);
    while ((word = strsep(&rest, " ")) != NULL && count < ARGUMENTS_MAX) {
        if (strcmp(word, "''") == 0)
            word[0] = '\0';
        else if (word[0] == '\0')
            continue;
        arguments[count++] = word;
    }
    return parse_options(command, count, arguments, parsed, error);
}

/* What a line that is right says. */
static struct parsed_options parse_right(const struct command *command, const char *line)
{
    struct parsed_options parsed;
    struct error error = {0};

    ck_assert_msg(parse(command, line, &parsed, &error) == PARSE_DONE, "%s: %s", line,
                  error.message);
    return parsed;
}

static void expect_wrong(const struct command *command, const char *line, const char *message)
{
    struct parsed_options parsed;
    struct error error = {0};

    ck_assert_msg(parse(command, line, &parsed, &error) == PARSE_WRONG, "accepted: %s", line);
    ck_assert_msg(strstr(error.message, message) != NULL, "'%s' gives '%s', not '%s'", line,
                  error.message, message);
}

/* ---- values ---- */

/* All values of an option that repeats, in their order; the last one is that of the option. */
START_TEST(test_repeated_option)
{
    FREED_BY(parsed_options_free)
    struct parsed_options parsed = parse_right(&optional, "-i a --store s --image=b x -ic -v");

    ck_assert_str_eq(option_text_at(&parsed, OPTION_IMAGE, 0), "a");
    ck_assert_str_eq(option_text_at(&parsed, OPTION_IMAGE, 1), "b");
    ck_assert_str_eq(option_text_at(&parsed, OPTION_IMAGE, 2), "c");
    ck_assert_ptr_null(option_text_at(&parsed, OPTION_IMAGE, 3));
    ck_assert_str_eq(option_text(&parsed, OPTION_IMAGE), "c");
    ck_assert_ptr_null(option_text_at(&parsed, OPTION_STORE, 0));
    expect_wrong(&optional, "-i a --image=", "the value of '--image' is empty");
}
END_TEST

/* Operands are more values of the option that takes them, checked as its values are; without that
 * option they stay operands. */
START_TEST(test_option_takes_operands)
{
    struct option_description options[OPTION_TABLE_SIZE];
    struct command command = optional;
    struct parsed_options parsed;

    memcpy(options, table, sizeof(table));
    for (size_t i = 0; i < OPTION_TABLE_SIZE; i++) {
        bool takes = options[i].id == OPTION_IMAGE || options[i].id == OPTION_LEVEL;
        options[i].repeats |= takes;
        options[i].takes_operands = takes;
        if (options[i].id == OPTION_IMAGE)
            options[i].excludes = OPTION_LEVEL;
    }
    command.options = options;
    parsed = parse_right(&command, "-i a b -v c -i d");
    static const char *const in_order[] = {"a", "d", "b", "c"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(option_text_at(&parsed, OPTION_IMAGE, i), in_order[i]);
    ck_assert_ptr_null(option_text_at(&parsed, OPTION_IMAGE, 4));
    ck_assert_uint_eq(parsed.operand_count, 0);
    parsed_options_free(&parsed);
    parsed = parse_right(&command, "-v a b");
    ck_assert_uint_eq(parsed.operand_count, 2);
    parsed_options_free(&parsed);
    expect_wrong(&command, "--level 2 3 x", "'--level x' is not a number from 1 to 19");
    expect_wrong(&command, "-i a ''", "the value of '--image' is empty");
}
END_TEST

START_TEST(test_every_form_of_a_value)
{
    static const char *const lines[] = {
        "--output x", "--output=x", "-o x", "-ox", "-vo x", "-vox", "-o y -o x",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        FREED_BY(parsed_options_free)
        struct parsed_options parsed = parse_right(&optional, lines[i]);

        ck_assert(option_given(&parsed, OPTION_OUTPUT));
        ck_assert_str_eq(option_text(&parsed, OPTION_OUTPUT), "x");
        ck_assert_uint_eq(parsed.operand_count, 0);
    }
}
END_TEST

START_TEST(test_values_may_look_like_options)
{
    FREED_BY(parsed_options_free)
    struct parsed_options parsed = parse_right(&optional, "-o --verbose --sidecar=a=b");

    ck_assert_str_eq(option_text(&parsed, OPTION_OUTPUT), "--verbose");
    ck_assert_str_eq(option_text(&parsed, OPTION_SIDECAR), "a=b");
    ck_assert(!option_given(&parsed, OPTION_VERBOSE));
}
END_TEST

START_TEST(test_flags_and_operands_mix)
{
    FREED_BY(parsed_options_free)
    struct parsed_options parsed = parse_right(&optional, "a -qv - -- -v");

    ck_assert(option_given(&parsed, OPTION_VERBOSE));
    ck_assert(option_given(&parsed, OPTION_JSON));
    ck_assert_uint_eq(parsed.operand_count, 3);
    ck_assert_str_eq(parsed.operands[0], "a");
    ck_assert_str_eq(parsed.operands[1], "-");
    ck_assert_str_eq(parsed.operands[2], "-v");
}
END_TEST

START_TEST(test_command_line_of_another_program)
{
    FREED_BY(parsed_options_free)
    struct parsed_options parsed = parse_right(&other_program, "-v -- run --json '' -- x");

    ck_assert(option_given(&parsed, OPTION_VERBOSE));
    ck_assert(!option_given(&parsed, OPTION_JSON));
    ck_assert_uint_eq(parsed.operand_count, 5);
    ck_assert_str_eq(parsed.operands[0], "run");
    ck_assert_str_eq(parsed.operands[2], "");
    ck_assert_str_eq(parsed.operands[3], "--");
    ck_assert_ptr_null(parsed.operands[5]);
    expect_wrong(&other_program, "run --json",
                 "'run' comes before '--'; write '--' before the command");
    expect_wrong(&other_program, "- -- run", "'-' comes before '--'");
    expect_wrong(&other_program, "-v --", "COMMAND is missing");
    expect_wrong(&other_program, "-- '' x", "COMMAND is empty");
}
END_TEST

START_TEST(test_nothing_given)
{
    FREED_BY(parsed_options_free)
    struct parsed_options parsed = parse_right(&optional, "");

    ck_assert_ptr_null(option_text(&parsed, OPTION_OUTPUT));
    ck_assert_uint_eq(option_number(&parsed, OPTION_LEVEL), 9);
    ck_assert_uint_eq(option_sections(&parsed, OPTION_SECTIONS), SECTION_DEFAULT);
    ck_assert_uint_eq(option_uuid(&parsed, OPTION_UUID).size, 0);
    ck_assert_uint_ge(option_threads(&parsed), 1);
    ck_assert_uint_le(option_threads(&parsed), 8);
}
END_TEST

START_TEST(test_typed_values)
{
    FREED_BY(parsed_options_free) struct parsed_options parsed;
    struct uuid uuid;

    parsed = parse_right(&optional, "--sections covmap,data --level=019 -j12 --uuid 0aFF");
    ck_assert_uint_eq(option_sections(&parsed, OPTION_SECTIONS),
                      SECTION_BIT(SECTION_COVMAP) | SECTION_BIT(SECTION_DATA));
    ck_assert_uint_eq(option_number(&parsed, OPTION_LEVEL), 19);
    ck_assert_uint_eq(option_threads(&parsed), 12);
    uuid = option_uuid(&parsed, OPTION_UUID);
    ck_assert_uint_eq(uuid.size, 2);
    ck_assert_uint_eq(uuid.bytes[0], 0x0a);
    ck_assert_uint_eq(uuid.bytes[1], 0xff);
    parsed_options_free(&parsed);
    parsed = parse_right(&optional, "--sections all -j 18446744073709551615");
    ck_assert_uint_eq(option_sections(&parsed, OPTION_SECTIONS), SECTION_DEFAULT);
    ck_assert_uint_eq(option_number(&parsed, OPTION_THREADS), UINT64_MAX);
}
END_TEST

START_TEST(test_sizes)
{
    static const struct {
        const char *line;
        uint64_t size;
    } sizes[] = {
        {"--limit 1", 1},
        {"--limit=4096", 4096},
        {"--limit 3K", 3072},
        {"--limit 512M", UINT64_C(512) << 20},
        {"--limit 2G", UINT64_C(2) << 30},
        {"--limit 16777215T", UINT64_C(16777215) << 40},
        {"--limit 18446744073709551615", UINT64_MAX},
        {"", 0},
    };
    static const char *const wrong[] = {"0",   "0K",   "K",         "-1", "1k",
                                        "1KB", "1.5G", "16777216T", "x",  "18446744073709551616"};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        FREED_BY(parsed_options_free)
        struct parsed_options parsed = parse_right(&optional, sizes[i].line);

        ck_assert_uint_eq(option_number(&parsed, OPTION_MEMORY_LIMIT), sizes[i].size);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char line[64];

        snprintf(line, sizeof(line), "--limit=%s", wrong[i]);
        expect_wrong(&optional, line, "is not a size");
    }
}
END_TEST

/* ---- usage errors ---- */

START_TEST(test_unknown_options)
{
    expect_wrong(&optional, "--nothing", "unknown option '--nothing'");
    expect_wrong(&optional, "--outputs=x", "unknown option '--outputs'");
    expect_wrong(&optional, "-x", "unknown option '-x'");
    expect_wrong(&optional, "-vx", "unknown option '-x'");
    expect_wrong(&optional, "--=x", "unknown option '--'");
}
END_TEST

/* They are refused, and what may have been meant is named. */
START_TEST(test_abbreviated_options)
{
    expect_wrong(&optional, "--sto=x", "unknown option '--sto' (did you mean '--store'?)");
    expect_wrong(&optional, "--sto x", "unknown option '--sto' (did you mean '--store'?)");
    expect_wrong(&optional, "--verb", "unknown option '--verb' (did you mean '--verbose'?)");
    expect_wrong(&optional, "--stoer x", "unknown option '--stoer' (did you mean '--store'?)");
    expect_wrong(&optional, "--stre x", "unknown option '--stre' (did you mean '--store'?)");
    expect_wrong(&optional, "--cargo", "unknown option '--cargo'");
    expect_wrong(&optional, "--hel", "unknown option '--hel' (did you mean '--help'?)");
    expect_wrong(&optional, "--outputs=x", "unknown option '--outputs' (did you mean '--output'?)");
    expect_wrong(&optional, "--s=x",
                 "unknown option '--s' (did you mean '--sidecar' or '--store' or '--sections'?)");
}
END_TEST

START_TEST(test_missing_and_superfluous_values)
{
    expect_wrong(&optional, "--output", "'--output' needs a value: OUT");
    expect_wrong(&optional, "-v -o", "'-o' needs a value: OUT");
    expect_wrong(&optional, "--verbose=yes", "'--verbose' takes no value");
    expect_wrong(&optional, "-o ''", "'--output' is empty");
    expect_wrong(&optional, "--output=", "'--output' is empty");
}
END_TEST

START_TEST(test_bad_numbers)
{
    static const char *const lines[] = {
        "--level 0",  "--level 20", "--level -1", "--level x", "--level 1x",
        "--level ''", "--level +1", "--level=",   "-j0",       "-j 18446744073709551616",
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        expect_wrong(&optional, lines[i], "is not a number from 1 to ");
}
END_TEST

START_TEST(test_bad_lists_and_uuids)
{
    expect_wrong(&optional, "--sections counters", "'counters' is not one of");
    expect_wrong(&optional, "--sections covmap,", "'' is not one of");
    expect_wrong(&optional, "--sections ,covmap", "'' is not one of");
    expect_wrong(&optional, "--sections covmap,all", "'all' is not one of");
    expect_wrong(&optional, "--sections cov", "'cov' is not one of");
    expect_wrong(&optional, "--sections ''", "'' is not one of");
    expect_wrong(&optional, "--uuid abc", "is not a UUID");
    expect_wrong(&optional, "--uuid ''", "is not a UUID");
    expect_wrong(&optional, "--uuid xy", "is not a UUID");
}
END_TEST

START_TEST(test_operand_counts)
{
    struct command one = optional;

    one.operand_minimum = 1;
    one.operand_maximum = 1;
    expect_wrong(&one, "", "FILE is missing");
    expect_wrong(&one, "-v --", "FILE is missing");
    expect_wrong(&one, "a b", "'b' is one operand too many");
    expect_wrong(&one, "''", "FILE is empty");
}
END_TEST

START_TEST(test_required_and_exclusive_options)
{
    struct option_description options[OPTION_TABLE_SIZE];
    struct command strict = optional;
    struct parsed_options parsed;
    struct error error;

    memcpy(options, table, sizeof(options));
    options[0].required = true;
    strict.options = options;
    expect_wrong(&strict, "a", "'--output OUT' is missing");
    expect_wrong(&strict, "-o x --sidecar a --store b", "exclude each other");
    parsed = parse_right(&strict, "-o x --store b");
    parsed_options_free(&parsed);
    /* Whoever asks for help need not get the rest right. */
    ck_assert(parse(&strict, "a b c d --help", &parsed, &error) == PARSE_HELP);
    ck_assert(parse(&strict, "-h", &parsed, &error) == PARSE_HELP);
}
END_TEST

/* ---- help and tables ---- */

START_TEST(test_help_has_every_option)
{
    FREED_BY(drop_memory) char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(stream);
    print_command_help(&optional, stream);
    fclose(stream);
    ck_assert_ptr_nonnull(strstr(text, "Usage: covsplit test [FILE...]\n"));
    ck_assert_ptr_nonnull(strstr(text, "  -o, --output OUT     where to\n"));
    ck_assert_ptr_nonnull(strstr(text, "      --level N        a level (default: 9)\n"));
    ck_assert_ptr_nonnull(strstr(text, "  -h, --help           print this text\n"));
    for (size_t i = 0; i < OPTION_TABLE_SIZE; i++)
        ck_assert_ptr_nonnull(strstr(text, table[i].long_name));
}
END_TEST

START_TEST(test_table_aligns_and_cleans)
{
    static const struct table_column columns[] = {
        {"name", TABLE_LEFT}, {"size", TABLE_RIGHT}, {"empty", TABLE_LEFT}, {"note", TABLE_LEFT}};
    struct table *aligned = table_new(columns, 4, 1);
    FREED_BY(drop_memory) char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(aligned);
    ck_assert_ptr_nonnull(stream);
    table_cell(aligned, "%s", "a\033b\n");
    table_cell(aligned, "%d", 7);
    table_cell(aligned, "%s", "");
    table_cell(aligned, "%s", "");
    table_cell(aligned, "%s", "\xc3\xa4");
    table_cell(aligned, "%d", 12345);
    table_cell(aligned, "%s", "");
    table_cell(aligned, "%s", "x");
    table_print(aligned, stream);
    fclose(stream);
    ck_assert_str_eq(text, " name   size  note\n"
                           " a?b?      7\n"
                           " \xc3\xa4     12345  x\n");
    table_free(aligned);
}
END_TEST

START_TEST(test_human_sizes)
{
    char text[HUMAN_SIZE_MAX];

    ck_assert_str_eq(human_size(0, text), "0 B");
    ck_assert_str_eq(human_size(1023, text), "1023 B");
    ck_assert_str_eq(human_size(1024, text), "1.0 KiB");
    ck_assert_str_eq(human_size(1536 * 1024, text), "1.5 MiB");
    ck_assert_str_eq(human_size(UINT64_MAX, text), "15.9 EiB");
}
END_TEST

START_TEST(test_counts)
{
    char text[COUNT_TEXT_MAX];

    ck_assert_str_eq(number_text(0, text), "0");
    ck_assert_str_eq(number_text(999, text), "999");
    ck_assert_str_eq(number_text(1000, text), "1,000");
    ck_assert_str_eq(number_text(1234567, text), "1,234,567");
    ck_assert_str_eq(number_text(UINT64_MAX, text), "18,446,744,073,709,551,615");
    ck_assert_str_eq(count_text(0, "byte", text), "0 bytes");
    ck_assert_str_eq(count_text(1, "byte", text), "1 byte");
    ck_assert_str_eq(count_text(12345, "sidecar", text), "12,345 sidecars");
}
END_TEST

int main(void)
{
    TCase *values = tcase_create("values");
    suite_tests(values, test_repeated_option, test_option_takes_operands,
                test_every_form_of_a_value, test_values_may_look_like_options,
                test_flags_and_operands_mix, test_nothing_given,
                test_command_line_of_another_program, test_typed_values, test_sizes);
    TCase *errors = tcase_create("usage errors");
    suite_tests(errors, test_unknown_options, test_abbreviated_options,
                test_missing_and_superfluous_values, test_bad_numbers, test_bad_lists_and_uuids,
                test_operand_counts, test_required_and_exclusive_options);
    TCase *output = tcase_create("help and tables");
    suite_tests(output, test_help_has_every_option, test_table_aligns_and_cleans, test_human_sizes,
                test_counts);
    return suite_main("options", values, errors, output);
}
