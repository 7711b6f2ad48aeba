/*
 * covsplit split: takes the coverage data out of an image, or out of many.
 */
#include <stdio.h>

#include "common/base/file.h"
#include "split/cli/commands.h"
#include "split/cli/json.h"
#include "split/cli/message.h"
#include "split/split/batch.h"
#include "split/split/split_file.h"

static void print_json(const struct split_report *report)
{
    struct json_writer json = {.stream = stdout};

    json_begin_array(&json, NULL);
    split_report_print_json(report, &json);
    json_end_array(&json);
}

static int split_one(const struct parsed_options *options)
{
    struct split_report report = {.shows_progress = true};
    struct error error;
    bool done = split_file(options, options->operands[0], option_threads(options), &report, &error);

    split_report_print_notes(&report);
    if (option_given(options, OPTION_JSON))
        print_json(&report);
    else if (option_given(options, OPTION_VERBOSE))
        split_report_print_rows(&report);
    split_report_free(&report);
    if (!done)
        message_error(&error);
    return done ? STATUS_DONE : STATUS_FAILED;
}

int command_split(const struct parsed_options *options)
{
    if (option_given(options, OPTION_REPLACE) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("split", "'--replace' is for '--store DIR'");
    return options->operand_count != 1 || option_given(options, OPTION_RECURSIVE) ||
                   path_is_directory(options->operands[0])
               ? split_batch(options)
               : split_one(options);
}
