/*
 * The sidecars that a command works on: see selection.h.
 */
#include "split/sidecars/selection.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/store/store.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

/* ---- those of a store, by patterns ---- */

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
    selection->is_used = command_array(count, sizeof(*selection->is_used));
    return true;
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

/* ---- those that operands name ---- */

struct collecting {
    struct path_list *files;
    uint64_t *faults;
};

/* A path_filter. */
static bool is_sidecar_name(void *context, const char *path, const struct stat *status)
{
    (void)context;
    (void)status;
    return store_has_suffix(path);
}

/* A store_visitor. */
static bool add_entry(void *context, const char *path, const struct uuid *uuid, struct error *error)
{
    (void)uuid;
    (void)error;
    path_list_add(context, path);
    return true;
}

static void report_fault(const struct collecting *collecting, const struct error *error)
{
    command_check_memory(error);
    message_error(error);
    ++*collecting->faults;
}

/* An operand_visitor. A fault of one operand does not affect the others. */
static bool add_one(void *context, const char *path, struct error *error)
{
    const struct collecting *collecting = context;
    struct path_list *files = collecting->files;
    struct stat status;
    bool added = stat(path, &status) == 0;

    if (!added) {
        error_set_errno(error, errno, "%s: cannot be read", path);
    } else if (S_ISDIR(status.st_mode)) {
        char *root = store_root(path);

        command_require(root != NULL, strlen(path));
        added = path_is_directory(root)
                    ? store_walk(path, add_entry, files, error)
                    : path_list_add_directory(files, path, false, is_sidecar_name, NULL, error);
        free(root);
    } else {
        path_list_add(files, path);
    }
    if (!added)
        report_fault(collecting, error);
    return true;
}

void sidecar_files_add(struct path_list *files, const char *const *operands, size_t count,
                       uint64_t *faults)
{
    struct collecting collecting = {files, faults};
    struct error error;

    for (size_t i = 0; i < count; i++) {
        if (!operand_visit(operands[i], add_one, &collecting, &error))
            report_fault(&collecting, &error);
    }
}
