/*
 * Refused allocations: see refused_memory.h.
 */
#include "tests/unit/refused_memory.h"

#include <search.h>

size_t memory_granted = MEMORY_ALL;
bool memory_stays_refused;
void (*memory_watch)(void);

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *moved, size_t size);
char *__real_strdup(const char *text);
void *__real_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *moved, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));

bool memory_is_granted(void)
{
    if (memory_watch != NULL)
        memory_watch();
    if (memory_granted == MEMORY_ALL)
        return true;
    if (memory_granted != 0) {
        memory_granted--;
        return true;
    }
    if (!memory_stays_refused)
        memory_granted = MEMORY_ALL;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return memory_is_granted() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return memory_is_granted() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *moved, size_t size)
{
    return memory_is_granted() ? __real_realloc(moved, size) : NULL;
}

char *__wrap_strdup(const char *text)
{
    return memory_is_granted() ? __real_strdup(text) : NULL;
}

void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
    return memory_is_granted() ? __real_tsearch(key, root, compare) : NULL;
}
