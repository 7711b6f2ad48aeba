/*
 * Reading and searching keep-lists: see keep_list.h.
 */
#include "split/sidecars/keep_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "split/cli/memory.h"

/* ---- reading ---- */

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

static void sort(struct keep_list *list)
{
    size_t kept = 0;

    qsort(list->entries, list->count, sizeof(*list->entries), compare_entries);
    for (size_t i = 0; i < list->count; i++) {
        if (i == 0 || compare_entries(&list->entries[i - 1], &list->entries[i]) != 0)
            list->entries[kept++] = list->entries[i];
    }
    list->count = kept;
}

bool keep_list_read_stream(struct keep_list *list, FILE *stream, const char *name,
                           struct error *error)
{
    char *line = NULL;
    bool done;

    *list = (struct keep_list){0};
    done = read_lines(list, stream, name, &line, error);
    if (done && list->count == 0)
        done = error_set(error,
                         "%s: lists no UUID, so all sidecars would go; if that is what you want, "
                         "give --older-than 0 and no list",
                         name);
    if (done)
        sort(list);
    else
        keep_list_free(list);
    free(line);
    return done;
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

/* ---- searching ---- */

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
