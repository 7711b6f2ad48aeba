/*
 * Function names: see names.h.
 */
#include "common/llvm/names.h"

#include <stdlib.h>

#include "common/base/md5.h"
#include "common/llvm/name_set.h"

struct name_entry {
    uint64_t reference;
    size_t offset; /* in the text */
};

static int compare_entries(const void *a, const void *b)
{
    const struct name_entry *left = a, *right = b;

    if (left->reference != right->reference)
        return left->reference < right->reference ? -1 : 1;
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static void drop_repeated(struct names *names)
{
    size_t kept = 0;

    for (size_t i = 0; i < names->count; i++) {
        if (kept == 0 || names->entries[i].reference != names->entries[kept - 1].reference)
            names->entries[kept++] = names->entries[i];
    }
    names->count = kept;
}

/* The names are strings already, one behind the other. */
static void hash_names(struct names *names)
{
    for (size_t first = 0; first < names->count; first += MD5_NAMES_MAX) {
        struct bytes views[MD5_NAMES_MAX];
        uint64_t references[MD5_NAMES_MAX];
        size_t left = names->count - first, count = left < MD5_NAMES_MAX ? left : MD5_NAMES_MAX;

        for (size_t i = 0; i < count; i++) {
            size_t start = names->entries[first + i].offset;
            size_t end = first + i + 1 < names->count ? names->entries[first + i + 1].offset
                                                      : names->text.size;

            views[i] = (struct bytes){names->text.data + start, end - 1 - start};
        }
        md5_name_references(views, count, references);
        for (size_t i = 0; i < count; i++)
            names->entries[first + i].reference = references[i];
    }
}

/* Makes strings of the names, and hashes them. */
static bool index_names(struct names *names, size_t count, const char *file, struct error *error)
{
    uint8_t *text = names->text.data;
    size_t start = 0;

    names->entries = calloc(count + 1, sizeof(*names->entries));
    if (names->entries == NULL)
        return error_out_of_memory(error, file, count * sizeof(*names->entries));
    while (start < names->text.size) {
        uint8_t *separator = memchr(text + start, NAME_SEPARATOR, names->text.size - start);

        if (separator == NULL)
            break;
        names->entries[names->count++] = (struct name_entry){.offset = start};
        *separator = '\0';
        start = (size_t)(separator - text) + 1;
    }
    hash_names(names);
    qsort(names->entries, names->count, sizeof(*names->entries), compare_entries);
    drop_repeated(names);
    return true;
}

bool names_read(struct names *names, struct bytes section, const char *file, struct error *error)
{
    struct name_set set = {0};
    bool done = name_set_read(&set, section, file, error);

    *names = (struct names){0};
    if (done) {
        names->text = set.text;
        set.text = (struct buffer){0};
        done = index_names(names, set.count, file, error);
    }
    name_set_free(&set);
    return done;
}

void names_free(struct names *names)
{
    buffer_free(&names->text);
    free(names->entries);
    *names = (struct names){0};
}

const char *names_find(const struct names *names, uint64_t reference)
{
    size_t low = 0, high = names->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (names->entries[middle].reference < reference)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == names->count || names->entries[low].reference != reference)
        return NULL;
    return (const char *)names->text.data + names->entries[low].offset;
}
