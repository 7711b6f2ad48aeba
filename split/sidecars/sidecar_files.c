/*
 * Collecting sidecars: see sidecar_files.h.
 */
#include "split/sidecars/sidecar_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/store/store.h"
#include "split/cli/message.h"

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
    return path_list_add(context, path, error);
}

static bool add_directory(struct path_list *files, const char *path, struct error *error)
{
    char *root = store_root(path);
    bool is_store;

    if (root == NULL)
        return error_out_of_memory(error, path, strlen(path));
    is_store = path_is_directory(root);
    free(root);
    return is_store ? store_walk(path, add_entry, files, error)
                    : path_list_add_directory(files, path, false, is_sidecar_name, NULL, error);
}

/* An operand_visitor. A fault of one operand does not affect the others. */
static bool add_one(void *context, const char *path, struct error *error)
{
    const struct collecting *collecting = context;
    struct stat status;
    bool added = stat(path, &status) == 0;

    if (!added)
        error_set_errno(error, errno, "%s: cannot be read", path);
    else if (S_ISDIR(status.st_mode))
        added = add_directory(collecting->files, path, error);
    else
        added = path_list_add(collecting->files, path, error);
    if (added || error_is_of_memory(error))
        return added;
    message_error(error);
    ++*collecting->faults;
    return true;
}

bool sidecar_files_add(struct path_list *files, const char *const *operands, size_t count,
                       uint64_t *faults, struct error *error)
{
    struct collecting collecting = {files, faults};

    for (size_t i = 0; i < count; i++) {
        if (operand_visit(operands[i], add_one, &collecting, error))
            continue;
        if (error_is_of_memory(error))
            return false;
        message_error(error);
        ++*faults;
    }
    return true;
}
