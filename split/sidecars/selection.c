/*
 * Selecting sidecars: see selection.h.
 */
#include "split/sidecars/selection.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "split/cli/message.h"

/* Fewer digits are more likely a name, and would match unintended UUIDs. */
#define DIGITS_MIN 8

static bool is_uuid_beginning(const char *pattern)
{
    size_t digits = 0;

    for (const char *letter = pattern; *letter != '\0'; letter++) {
        if (isxdigit((unsigned char)*letter))
            digits++;
        else if (*letter != '-')
            return false;
    }
    return digits >= DIGITS_MIN;
}

/* `hex` has only lower-case digits. */
static bool begins_with(const char *hex, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern != '-' && tolower((unsigned char)*pattern) != *hex++)
            return false;
    }
    return true;
}

bool selection_open(struct selection *selection, const char *const *patterns, size_t count,
                    struct error *error)
{
    *selection = (struct selection){.patterns = patterns, .count = count};
    for (size_t i = 0; i < count; i++) {
        if (strchr(patterns[i], '/') != NULL)
            return error_set(error,
                             "%s: is a path, but sidecars record file names of images without "
                             "directories; give only the file name",
                             patterns[i]);
        selection->needs_names = selection->needs_names || !is_uuid_beginning(patterns[i]);
    }
    selection->is_used = calloc(count == 0 ? 1 : count, sizeof(*selection->is_used));
    return selection->is_used != NULL || error_out_of_memory(error, "the patterns", count);
}

void selection_close(struct selection *selection)
{
    free(selection->is_used);
    *selection = (struct selection){0};
}

bool selection_has(struct selection *selection, const struct uuid *uuid, const char *image_name)
{
    bool has = selection->count == 0;
    char hex[UUID_HEX_MAX];

    uuid_format(uuid, hex);
    for (size_t i = 0; i < selection->count; i++) {
        const char *pattern = selection->patterns[i];

        if (is_uuid_beginning(pattern) ? begins_with(hex, pattern)
                                       : image_name != NULL && fnmatch(pattern, image_name, 0) == 0)
            has = selection->is_used[i] = true;
    }
    return has;
}

size_t selection_report_unused(const struct selection *selection, const char *store,
                               bool are_errors)
{
    size_t unused = 0;

    for (size_t i = 0; i < selection->count; i++) {
        struct error error;

        if (selection->is_used[i])
            continue;
        unused++;
        error_set(&error,
                  "%s: matches no sidecar in the store %s; 'covsplit store list' shows them all",
                  selection->patterns[i], store);
        if (are_errors)
            message_error(&error);
        else
            message_warning("%s", error.message);
    }
    return unused;
}
