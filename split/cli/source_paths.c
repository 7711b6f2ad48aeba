/*
 * Paths of source files: see source_paths.h.
 */
#include "split/cli/source_paths.h"

#include <stdlib.h>
#include <string.h>

#include "common/llvm/coverage.h"
#include "split/cli/memory.h"
#include "split/cli/message.h"

static bool is_here(struct bytes directory)
{
    return directory.size == 1 && directory.data[0] == '.';
}

struct bytes source_directory(struct bytes text, struct arena *arena)
{
    struct bytes path = text;
    struct buffer scratch = {0};

    arena->failed |=
        text.size != 0 && !covmap_path((struct bytes){0}, text, false, &scratch, &path);
    while (path.size != 0 && path.data[path.size - 1] == '/')
        path.size--;
    path.data = arena_copy(arena, path);
    buffer_free(&scratch);
    return path;
}

bool source_is_below(struct bytes path, struct bytes directory, struct bytes *rest)
{
    if (is_here(directory)) {
        bool has_drive = path.size > 1 && path.data[1] == ':';
        bool goes_up = path.size > 1 && memcmp(path.data, "..", 2) == 0 &&
                       (path.size == 2 || path.data[2] == '/');

        *rest = path;
        return path.size != 0 && path.data[0] != '/' && !has_drive && !goes_up;
    }
    if (path.size < directory.size ||
        (directory.size != 0 && memcmp(path.data, directory.data, (size_t)directory.size) != 0) ||
        (path.size > directory.size && path.data[directory.size] != '/'))
        return false;
    *rest = (struct bytes){path.data + directory.size, path.size - directory.size};
    if (rest->size != 0)
        *rest = (struct bytes){rest->data + 1, rest->size - 1};
    return path.size != 0;
}

/* ---- --path-map ---- */

int path_maps_read(struct path_maps *maps, const struct parsed_options *options)
{
    size_t capacity = 0;
    const char *text;

    *maps = (struct path_maps){0};
    while ((text = option_text_at(options, OPTION_PATH_MAP, maps->count)) != NULL) {
        const char *equals = strchr(text, '=');
        struct bytes from = {(const uint8_t *)text, 0}, to;

        if (equals == NULL || equals == text)
            return message_usage(options->command->name, "'--path-map %s' is not FROM=TO", text);
        from.size = (uint64_t)(equals - text);
        to = (struct bytes){(const uint8_t *)equals + 1, strlen(equals + 1)};
        COMMAND_ROOM_FOR_ONE(maps->items, capacity, maps->count);
        maps->items[maps->count++] = (struct path_map){source_directory(from, &maps->memory),
                                                       source_directory(to, &maps->memory), false};
        exit_unless_allocated(!maps->memory.failed, from.size);
    }
    return STATUS_DONE;
}

void path_maps_free(struct path_maps *maps)
{
    free(maps->items);
    arena_free(&maps->memory);
    buffer_free(&maps->path);
}

bool path_maps_apply(void *context, struct bytes path, struct bytes *name)
{
    struct path_maps *maps = context;
    struct bytes rest;
    size_t i = 0;

    *name = path;
    while (i < maps->count && !source_is_below(path, maps->items[i].from, &rest))
        i++;
    if (i == maps->count)
        return true;
    maps->items[i].is_used = true;
    maps->path.size = 0;
    if (!is_here(maps->items[i].to) || rest.size == 0) {
        buffer_append(&maps->path, maps->items[i].to.data, (size_t)maps->items[i].to.size);
        buffer_append(&maps->path, "/", rest.size != 0);
    }
    buffer_append(&maps->path, rest.data, (size_t)rest.size);
    *name = buffer_view(&maps->path);
    return !maps->path.failed;
}

void path_maps_warn(const struct path_maps *maps)
{
    for (size_t i = 0; i < maps->count; i++) {
        struct bytes from = maps->items[i].from;

        if (!maps->items[i].is_used)
            message_warning("--path-map: no source file is below '%.*s'; 'covsplit report "
                            "--include /' lists them by their paths",
                            (int)from.size, (const char *)from.data);
    }
}
