/*
 * What all targets of snapshots share: see memory.h.
 */
#include "split/snapshot/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

/* Whether memory is there changes only from page to page, and this is the smallest one. */
#define PAGE_SIZE_MIN 4096

/* How the kernel marks a path that no longer exists. */
#define DELETED " (deleted)"

bool memory_add_module(struct memory *memory, const char *path, uint64_t base, struct error *error)
{
    struct memory_module module = {.path = strdup(path), .base = base};
    size_t length, mark = strlen(DELETED);

    if (module.path == NULL ||
        !ARRAY_ROOM_FOR_ONE(memory->modules, memory->module_capacity, memory->module_count)) {
        free(module.path);
        return error_out_of_memory(error, memory->name, sizeof(module));
    }
    length = strlen(path);
    if (length > mark && strcmp(path + length - mark, DELETED) == 0)
        module.path[length - mark] = '\0';
    memory->modules[memory->module_count++] = module;
    return true;
}

static int compare_modules(const void *a, const void *b)
{
    const struct memory_module *first = a, *second = b;

    if (first->is_stub != second->is_stub)
        return first->is_stub ? 1 : -1;
    return first->base < second->base ? -1 : first->base > second->base;
}

void memory_sort_modules(struct memory *memory)
{
    if (memory->module_count != 0)
        qsort(memory->modules, memory->module_count, sizeof(*memory->modules), compare_modules);
}

bool memory_open_by_path(struct memory *memory, const struct memory_module *module,
                         struct input *file, bool *is_same, struct error *error)
{
    struct stat status;

    *is_same = false;
    if (module->path[0] == '\0')
        return error_set(error, "%s: does not say which file was loaded at 0x%" PRIx64,
                         memory->name, module->base);
    /* To open a device can have effects. */
    if (stat(module->path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, "%s: not a regular file", module->path);
    return input_open(file, module->path, error);
}

void memory_free_lists(struct memory *memory)
{
    for (size_t i = 0; i < memory->module_count; i++)
        free(memory->modules[i].path);
    free(memory->modules);
    free(memory->name);
}

void memory_close(struct memory *memory)
{
    if (memory != NULL)
        memory->operations->close(memory);
}

bool memory_read(struct memory *memory, uint64_t address, void *to, size_t size, uint64_t *missing,
                 struct error *error)
{
    uint8_t *next = to;

    *missing = 0;
    while (size != 0) {
        size_t got, gap;

        if (!memory->operations->read(memory, address, next, size, &got, error))
            return false;
        if (got == 0) {
            gap = (size_t)(PAGE_SIZE_MIN - address % PAGE_SIZE_MIN);
            got = gap < size ? gap : size;
            memset(next, 0, got);
            *missing += got;
        }
        next += got;
        address += got;
        size -= got;
    }
    return true;
}

bool memory_read_whole(struct memory *memory, uint64_t address, void *to, size_t size,
                       struct error *error)
{
    uint64_t missing;

    error->message[0] = '\0';
    return memory_read(memory, address, to, size, &missing, error) && missing == 0;
}
