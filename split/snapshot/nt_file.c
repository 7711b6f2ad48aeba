/*
 * NT_FILE: see nt_file.h.
 */
#include "split/snapshot/nt_file.h"

#include <string.h>

#include "common/base/numbers.h"

/* Takes a number off the front of the view. */
static bool take_word(const struct nt_file *list, struct bytes *view, uint64_t *word)
{
    const uint8_t *taken = take_bytes(view, list->word_size);

    if (taken == NULL)
        return false;
    *word = load_number(taken, list->word_size, list->big_endian);
    return true;
}

/* Takes a path off the front; NULL if it has no NUL. */
static const char *take_path(struct bytes *view)
{
    const char *path = (const char *)view->data;
    const uint8_t *end = view->size == 0 ? NULL : memchr(view->data, '\0', (size_t)view->size);

    if (end == NULL)
        return NULL;
    take_bytes(view, (uint64_t)(end - view->data) + 1);
    return path;
}

void nt_file_open(struct nt_file *list, struct bytes description, const struct elf_header *header)
{
    uint64_t entry_size, unit;

    *list = (struct nt_file){.word_size = header->wide ? 8 : 4, .big_endian = header->big_endian};
    entry_size = 3 * (uint64_t)list->word_size;
    list->is_damaged = !take_word(list, &description, &list->left) ||
                       !take_word(list, &description, &unit) ||
                       list->left > description.size / entry_size ||
                       !bytes_slice(description, 0, list->left * entry_size, &list->entries) ||
                       !bytes_slice(description, list->entries.size,
                                    description.size - list->entries.size, &list->paths);
}

bool nt_file_next(struct nt_file *list, struct nt_file_mapping *mapping)
{
    uint64_t end, offset;

    if (list->is_damaged || list->left == 0)
        return false;
    list->left--;
    mapping->path = take_path(&list->paths);
    list->is_damaged = mapping->path == NULL || !take_word(list, &list->entries, &mapping->start) ||
                       !take_word(list, &list->entries, &end) ||
                       !take_word(list, &list->entries, &offset);
    if (list->is_damaged)
        return false;
    mapping->size = end > mapping->start ? end - mapping->start : 0;
    mapping->is_front = offset == 0;
    return true;
}
