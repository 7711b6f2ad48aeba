/*
 * Watching directories: see watch.h.
 */
#include "split/profiles/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/base/file.h"
#include "split/cli/message.h"

/* Not IN_CLOSE_NOWRITE, which to look at the directory causes by itself. */
#define EVENTS                                                                                     \
    (IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR |       \
     IN_EXCL_UNLINK)

/* Milliseconds from the first event until it is looked at. */
#define GATHERING 500

/* Milliseconds until what was left, and what cannot be watched, is looked at again. */
#define LOOKING_AGAIN 2000
#define POLLING       10000

/* Events that are read at a time. */
#define EVENTS_SIZE 65536

struct watched {
    int number; /* of the watch */
    char *path;
    bool is_due;   /* something happened in it */
    bool is_later; /* something in it was left, and may change in silence */
};

struct watcher {
    struct consumer *consumer;
    const struct path_list *roots;
    int fd;                 /* -1: nothing can be watched */
    struct watched *places; /* in the order of their numbers */
    size_t count, capacity;
    bool all_are_due; /* look through everything */
    bool polls;       /* something is not watched */
    int64_t later_at; /* when to look again at what was left, in milliseconds */
    int64_t poll_at;  /* when to look through everything, if something is not watched */
};

/* ---- the list of directories ---- */

/* The place of a number, or where it would be. */
static size_t find_index(const struct watcher *watcher, int number)
{
    size_t low = 0, high = watcher->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (watcher->places[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct watched *find_place(const struct watcher *watcher, int number)
{
    size_t index = find_index(watcher, number);

    return index < watcher->count && watcher->places[index].number == number
               ? &watcher->places[index]
               : NULL;
}

static bool add_place(struct watcher *watcher, int number, const char *path, struct error *error)
{
    size_t index = find_index(watcher, number);
    char *copy = strdup(path);

    if (copy == NULL || !ARRAY_ROOM_FOR_ONE(watcher->places, watcher->capacity, watcher->count)) {
        free(copy);
        return error_out_of_memory(error, path, watcher->count * sizeof(*watcher->places));
    }
    memmove(&watcher->places[index + 1], &watcher->places[index],
            (watcher->count - index) * sizeof(*watcher->places));
    watcher->places[index] = (struct watched){.number = number, .path = copy};
    watcher->count++;
    return true;
}

static void remove_place(struct watcher *watcher, const struct watched *place)
{
    size_t index = (size_t)(place - watcher->places);

    free(watcher->places[index].path);
    memmove(&watcher->places[index], &watcher->places[index + 1],
            (watcher->count - index - 1) * sizeof(*watcher->places));
    watcher->count--;
}

static void poll_instead(struct watcher *watcher, const char *path, const char *why)
{
    if (!watcher->polls)
        message_warning("%s: %s; looking every %d seconds instead", path, why, POLLING / 1000);
    watcher->polls = true;
}

static bool set_path(struct watched *place, const char *path, struct error *error)
{
    char *copy = strdup(path);

    if (copy == NULL)
        return error_out_of_memory(error, path, strlen(path));
    free(place->path);
    place->path = copy;
    return true;
}

/* Watches the directory. *is_known: it was watched before, under this path. */
static bool watch(struct watcher *watcher, const char *path, bool *is_known, struct error *error)
{
    int number = watcher->fd < 0 ? -1 : inotify_add_watch(watcher->fd, path, EVENTS);
    struct watched *place;

    *is_known = false;
    if (number < 0) {
        if (watcher->fd >= 0 && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            poll_instead(watcher, path,
                         "cannot be watched (fs.inotify.max_user_watches may be too low)");
        return true;
    }
    place = find_place(watcher, number);
    if (place == NULL)
        return add_place(watcher, number, path, error);
    *is_known = strcmp(place->path, path) == 0;
    return *is_known || set_path(place, path, error);
}

/* ---- looking ---- */

/* What was left in the directory may change in silence. */
static void look_later(struct watcher *watcher, const char *path)
{
    for (size_t i = 0; i < watcher->count; i++) {
        if (strcmp(watcher->places[i].path, path) == 0) {
            watcher->places[i].is_later = true;
            return;
        }
    }
    watcher->polls = true;
}

static bool consume_here(struct watcher *watcher, const char *path, struct path_list *directories,
                         struct error *error)
{
    struct consumer *consumer = watcher->consumer;
    size_t open_before = consumer->open_count;

    consumer->left.is_unsure = false;
    if (!consume_directory(consumer, path, directories, error))
        return false;
    if (consumer->open_count != open_before || consumer->left.is_unsure)
        look_later(watcher, path);
    return true;
}

/* The root that the directory is in. */
static const char *root_of(const struct watcher *watcher, const char *path)
{
    for (size_t i = 0; i < watcher->roots->count; i++) {
        const char *root = watcher->roots->paths[i];
        size_t length = strlen(root);

        if (strncmp(path, root, length) == 0 &&
            (path[length] == '\0' || path[length] == '/' || root[length - 1] == '/'))
            return root;
    }
    return NULL;
}

/* Consumes what is in a directory, and in those in it that are new, or in all. A directory is
 * watched before it is read, so that nothing appears in between unseen. */
static bool look_through(struct watcher *watcher, const char *path, bool all, struct error *error)
{
    struct path_list directories = {0};
    bool done = path_list_add(&directories, path, error), is_first = true;

    watcher->consumer->root = root_of(watcher, path);
    while (done && directories.count != 0 && !stop_wanted(watcher->consumer->stop)) {
        char *next = directories.paths[--directories.count];
        bool is_known;

        done = watch(watcher, next, &is_known, error);
        if (done && (is_first || all || !is_known))
            done = consume_here(watcher, next, &directories, error);
        is_first = false;
        free(next);
    }
    path_list_free(&directories);
    return done;
}

static bool look_through_all(struct watcher *watcher, struct error *error)
{
    watcher->all_are_due = false;
    for (size_t i = 0; i < watcher->roots->count; i++) {
        const char *root = watcher->roots->paths[i];

        if (!path_is_directory(root))
            poll_instead(watcher, root, "no directory any more");
        if (!look_through(watcher, root, true, error))
            return false;
    }
    return true;
}

/* The path of a directory that is due, as a new string, and it is not due any more. NULL if there
 * is none. */
static char *take_due(struct watcher *watcher)
{
    for (size_t i = 0; i < watcher->count; i++) {
        if (watcher->places[i].is_due) {
            watcher->places[i].is_due = false;
            return strdup(watcher->places[i].path);
        }
    }
    return NULL;
}

static bool look(struct watcher *watcher, struct error *error)
{
    bool done = true;
    char *path;

    watcher->consumer->open_count = watcher->consumer->empty_count = 0;
    if (watcher->all_are_due) {
        for (size_t i = 0; i < watcher->count; i++)
            watcher->places[i].is_due = watcher->places[i].is_later = false;
        done = look_through_all(watcher, error);
    }
    while (done && !stop_wanted(watcher->consumer->stop) && (path = take_due(watcher)) != NULL) {
        done = look_through(watcher, path, false, error);
        free(path);
    }
    if (!done || !consume_commit(watcher->consumer, error))
        return false;
    watcher->all_are_due = watcher->consumer->must_repeat;
    watcher->consumer->must_repeat = false;
    return true;
}

/* ---- events ---- */

static void take_event(struct watcher *watcher, const struct inotify_event *event)
{
    struct watched *place = find_place(watcher, event->wd);

    if ((event->mask & IN_Q_OVERFLOW) != 0) {
        watcher->all_are_due = true;
    } else if (place != NULL && (event->mask & IN_IGNORED) != 0) {
        remove_place(watcher, place);
    } else if (place != NULL && (event->mask & (IN_MOVE_SELF | IN_DELETE_SELF)) != 0) {
        /* Whoever moved it, its path is known no longer: it is found again if it is still here. */
        inotify_rm_watch(watcher->fd, event->wd);
        remove_place(watcher, place);
        watcher->all_are_due = true;
    } else if (place != NULL && (event->len == 0 || state_claim_name_length(event->name) == 0)) {
        place->is_due = true;
    }
}

static bool take_events(struct watcher *watcher, struct error *error)
{
    static _Alignas(struct inotify_event) char events[EVENTS_SIZE];
    ssize_t size;

    while ((size = read(watcher->fd, events, sizeof(events))) > 0) {
        for (ssize_t at = 0; at < size;) {
            const struct inotify_event *event = (const struct inotify_event *)(events + at);

            take_event(watcher, event);
            at += (ssize_t)(sizeof(*event) + event->len);
        }
    }
    return size == 0 || errno == EAGAIN || errno == EINTR ||
           error_set_errno(error, errno, "the watched directories: events cannot be read");
}

static bool is_anything_due(const struct watcher *watcher)
{
    bool due = watcher->all_are_due;

    for (size_t i = 0; !due && i < watcher->count; i++)
        due = watcher->places[i].is_due;
    return due;
}

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static bool is_anything_later(const struct watcher *watcher)
{
    for (size_t i = 0; i < watcher->count; i++) {
        if (watcher->places[i].is_later)
            return true;
    }
    return false;
}

/* Makes due what it is time for, however much else happens. */
static void look_at_time(struct watcher *watcher)
{
    int64_t time = now();

    if (time >= watcher->later_at) {
        watcher->later_at = time + LOOKING_AGAIN;
        for (size_t i = 0; i < watcher->count; i++) {
            watcher->places[i].is_due = watcher->places[i].is_due || watcher->places[i].is_later;
            watcher->places[i].is_later = false;
        }
    }
    if (time >= watcher->poll_at) {
        watcher->poll_at = time + POLLING;
        watcher->all_are_due = watcher->all_are_due || watcher->polls;
    }
}

/* Milliseconds until it is time for something; -1: there is nothing. */
static int waiting_time(const struct watcher *watcher)
{
    int64_t until = watcher->poll_at, left;

    if (is_anything_later(watcher))
        until = watcher->later_at < until || !watcher->polls ? watcher->later_at : until;
    else if (!watcher->polls)
        return -1;
    left = until - now();
    return left < 0 ? 0 : (int)left;
}

/* Waits until an event comes, or for that time, or until the stop is wanted. -1: without end.
 * *has_come: an event has. */
static bool wait_for(const struct watcher *watcher, int milliseconds, bool *has_come,
                     struct error *error)
{
    struct pollfd wanted[] = {{.fd = watcher->consumer->stop->fd, .events = POLLIN},
                              {.fd = watcher->fd, .events = POLLIN}};
    int ready = poll(wanted, 2, milliseconds);

    *has_come = ready > 0 && (wanted[1].revents & POLLIN) != 0;
    return ready >= 0 || errno == EINTR ||
           error_set_errno(error, errno, "the watched directories: cannot be waited for");
}

/* Lets more profiles come, so that they become one batch. */
static void gather(const struct watcher *watcher)
{
    struct pollfd wanted = {.fd = watcher->consumer->stop->fd, .events = POLLIN};

    poll(&wanted, 1, GATHERING);
}

static bool wait_until_due(struct watcher *watcher, struct error *error)
{
    bool has_come;

    while (!stop_wanted(watcher->consumer->stop)) {
        look_at_time(watcher);
        if (is_anything_due(watcher)) {
            gather(watcher);
            return watcher->fd < 0 || take_events(watcher, error);
        }
        if (!wait_for(watcher, waiting_time(watcher), &has_come, error) ||
            (has_come && !take_events(watcher, error)))
            return false;
    }
    return true;
}

bool watch_directories(struct consumer *consumer, const struct path_list *roots,
                       struct error *error)
{
    struct watcher watcher = {.consumer = consumer, .roots = roots, .all_are_due = true};
    bool done = true;

    watcher.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watcher.fd < 0)
        poll_instead(&watcher, roots->paths[0], "cannot be watched (no inotify)");
    while (done && !stop_wanted(consumer->stop))
        done = look(&watcher, error) && wait_until_due(&watcher, error);
    done = done && consume_commit(consumer, error);
    while (watcher.count != 0)
        remove_place(&watcher, &watcher.places[watcher.count - 1]);
    free(watcher.places);
    if (watcher.fd >= 0)
        close(watcher.fd);
    return done;
}
