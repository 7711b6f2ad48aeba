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
#include <sys/types.h>

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

        exit_unless_allocated(root != NULL, strlen(path));
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

/* ---- keep-lists: reading ---- */

/* Cuts the comment and surrounding blanks off the line. */
static char *trim(char *line)
{
    static const char blanks[] = " \t\r\n";
    char *end;

    line += strspn(line, blanks);
    line[strcspn(line, "#")] = '\0';
    end = line + strlen(line);
    while (end > line && strchr(blanks, end[-1]) != NULL)
        *--end = '\0';
    return line;
}

static bool read_lines(struct keep_list *list, FILE *stream, const char *name, char **line,
                       struct error *error)
{
    size_t capacity = 0;
    ssize_t length;

    for (unsigned long number = 1; (length = getline(line, &capacity, stream)) >= 0; number++) {
        bool is_text = strlen(*line) == (size_t)length;
        char *text = trim(*line);
        struct uuid uuid;

        if (is_text && text[0] == '\0')
            continue;
        if (!is_text || !uuid_parse(text, &uuid))
            return error_set(
                error, "%s: line %lu, '%.150s', is not a UUID; give pairs of hexadecimal digits",
                name, number, text);
        COMMAND_ROOM_FOR_ONE(list->entries, list->capacity, list->count);
        list->entries[list->count++] = (struct keep_entry){.uuid = uuid};
    }
    /* Unread lines would mean removed sidecars, so anything but the end of the file is an error,
     * including lack of memory for a line. */
    return feof(stream) || error_set_errno(error, errno, "%s: cannot be read", name);
}

static int compare_entries(const void *a, const void *b)
{
    const struct keep_entry *one = a, *other = b;

    return uuid_compare(&one->uuid, &other->uuid);
}

bool keep_list_read_stream(struct keep_list *list, FILE *stream, const char *name,
                           struct error *error)
{
    char *line = NULL;
    size_t kept = 0;
    bool done;

    *list = (struct keep_list){0};
    done = read_lines(list, stream, name, &line, error);
    if (done && list->count == 0)
        done = error_set(error,
                         "%s: lists no UUID, so all sidecars would go; if that is what you want, "
                         "give --older-than 0 and no list",
                         name);
    free(line);
    if (!done) {
        keep_list_free(list);
        return false;
    }
    qsort(list->entries, list->count, sizeof(*list->entries), compare_entries);
    for (size_t i = 0; i < list->count; i++) {
        if (i == 0 || compare_entries(&list->entries[i - 1], &list->entries[i]) != 0)
            list->entries[kept++] = list->entries[i];
    }
    list->count = kept;
    return true;
}

bool keep_list_read(struct keep_list *list, const char *path, struct error *error)
{
    FILE *stream;
    bool done;

    if (strcmp(path, "-") == 0)
        return keep_list_read_stream(list, stdin, "standard input", error);
    stream = fopen(path, "re");
    if (stream == NULL)
        return error_set_errno(error, errno, "%s: cannot be read", path);
    done = keep_list_read_stream(list, stream, path, error);
    fclose(stream);
    return done;
}

void keep_list_free(struct keep_list *list)
{
    free(list->entries);
    *list = (struct keep_list){0};
}

/* ---- keep-lists: searching ---- */

/* Looks up every prefix of the UUID. */
bool keep_list_has(struct keep_list *list, const struct uuid *uuid)
{
    bool found = false;

    for (size_t size = 1; size <= uuid->size && list->count != 0; size++) {
        struct keep_entry wanted = {.uuid = *uuid}, *entry;

        if (size < KEEP_PREFIX_MIN && size < uuid->size)
            continue;
        wanted.uuid.size = size;
        entry = bsearch(&wanted, list->entries, list->count, sizeof(wanted), compare_entries);
        if (entry != NULL)
            found = entry->is_used = true;
    }
    return found;
}
