/*
 * covsplit split: takes the coverage data out of an image, or out of many.
 */
#include <sys/stat.h>

#include "split/cli/commands.h"
#include "split/cli/message.h"
#include "split/split/batch.h"
#include "split/split/split_file.h"

static bool is_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int command_split(const struct parsed_options *options)
{
    struct error error;

    if (option_given(options, OPTION_REPLACE) && option_text(options, OPTION_STORE) == NULL)
        return message_usage("split", "'--replace' is for '--store DIR'");
    if (options->operand_count != 1 || option_given(options, OPTION_RECURSIVE) ||
        is_directory(options->operands[0]))
        return split_batch(options);
    if (split_file(options, options->operands[0], option_threads(options), NULL, &error))
        return STATUS_DONE;
    message_error(&error);
    return STATUS_FAILED;
}
