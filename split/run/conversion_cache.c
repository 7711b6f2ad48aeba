/*
 * The cache of conversions: see conversion_cache.h.
 *
 * The entries are kept in lists, since they are few, and comparing their digests takes no time
 * compared to a conversion.
 */
#include "split/run/conversion_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"

struct entry {
    struct digest identity;
    int fd; /* -1: being converted */
    uint64_t size;
    struct entry *next;
};

struct class_list {
    struct entry *first; /* the most recently used one */
    uint64_t size_max;
};

struct conversion_cache {
    pthread_mutex_t lock;
    size_t count_max; /* for each class */
    struct class_list classes[CACHE_CLASS_COUNT];
};

struct conversion_cache *cache_new(size_t count_max)
{
    struct conversion_cache *cache = calloc(1, sizeof(*cache));

    if (cache == NULL)
        return NULL;
    pthread_mutex_init(&cache->lock, NULL);
    cache->count_max = count_max < CACHE_COUNT_MAX ? count_max : CACHE_COUNT_MAX;
    cache->classes[CACHE_OBJECTS].size_max = CACHE_OBJECTS_SIZE_MAX;
    cache->classes[CACHE_PROFILES].size_max = CACHE_PROFILES_SIZE_MAX;
    return cache;
}

/* Removes the entry at the place from its list. */
static struct entry *take_out(struct entry **place)
{
    struct entry *entry = *place;

    *place = entry->next;
    return entry;
}

static void put_first(struct class_list *list, struct entry *entry)
{
    entry->next = list->first;
    list->first = entry;
}

static void entry_free(struct entry *entry)
{
    if (entry->fd >= 0)
        close(entry->fd);
    free(entry);
}

void cache_free(struct conversion_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i < CACHE_CLASS_COUNT; i++) {
        while (cache->classes[i].first != NULL)
            entry_free(take_out(&cache->classes[i].first));
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* The place of the entry in its list; if there is none, that of the NULL at the end. */
static struct entry **find(struct class_list *list, const struct digest *identity)
{
    struct entry **place = &list->first;

    while (*place != NULL && !digest_equal(&(*place)->identity, identity))
        place = &(*place)->next;
    return place;
}

/* Opens the file anew, read-only, so that no two users share a file position. */
static int open_again(int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return file_open_as_it_is(path, O_RDONLY | O_CLOEXEC);
}

enum cache_answer cache_look(struct conversion_cache *cache, enum cache_class class,
                             const struct digest *identity, int *fd)
{
    struct class_list *list = &cache->classes[class];
    enum cache_answer answer = CACHE_FAILED;
    struct entry **place, *entry;

    pthread_mutex_lock(&cache->lock);
    place = find(list, identity);
    entry = *place;
    if (entry == NULL) {
        entry = malloc(sizeof(*entry));
        if (entry != NULL) {
            *entry = (struct entry){.identity = *identity, .fd = -1};
            put_first(list, entry);
            answer = CACHE_MISSING;
        }
    } else if (entry->fd < 0) {
        answer = CACHE_BUSY;
    } else {
        put_first(list, take_out(place));
        *fd = open_again(entry->fd);
        answer = *fd >= 0 ? CACHE_FOUND : CACHE_FAILED;
    }
    pthread_mutex_unlock(&cache->lock);
    return answer;
}

/* Makes room by removing old entries, but never the first, which is the new one. */
static void trim(struct class_list *list, size_t count_max)
{
    struct entry **place = &list->first->next;
    uint64_t size = list->first->size;
    size_t count = 1;

    while (*place != NULL) {
        size += (*place)->size;
        count++;
        if ((*place)->fd >= 0 && (size > list->size_max || count > count_max))
            entry_free(take_out(place));
        else
            place = &(*place)->next;
    }
}

int cache_add(struct conversion_cache *cache, enum cache_class class, const struct digest *identity,
              int converted, uint64_t size)
{
    struct class_list *list = &cache->classes[class];
    struct entry *entry;
    int fd;

    pthread_mutex_lock(&cache->lock);
    entry = take_out(find(list, identity));
    entry->fd = converted;
    entry->size = size;
    put_first(list, entry);
    trim(list, cache->count_max);
    fd = open_again(converted);
    pthread_mutex_unlock(&cache->lock);
    return fd;
}

void cache_give_up(struct conversion_cache *cache, enum cache_class class,
                   const struct digest *identity)
{
    struct class_list *list = &cache->classes[class];

    pthread_mutex_lock(&cache->lock);
    entry_free(take_out(find(list, identity)));
    pthread_mutex_unlock(&cache->lock);
}
