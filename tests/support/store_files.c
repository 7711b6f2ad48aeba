/*
 * The files behind store_files.h.
 */
#include "tests/support/store_files.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/file_system.h"
#include "tests/support/traced.h"

#define BUILD_ID_SIZE 20

/* The note's header, and the name "GNU". */
#define BUILD_ID_OFFSET 16

struct variant variant_create(const char *image, const char *directory, const char *name,
                              unsigned uuid, unsigned content)
{
    struct variant variant = {.path = path_join(directory, name), .uuid = text_format("%s", "")};
    struct elf_file elf = elf_file_read(image);
    const Elf64_Shdr *note = elf_file_section(&elf, ".note.gnu.build-id");
    const Elf64_Shdr *comment = elf_file_section(&elf, ".comment");
    ck_assert(note != NULL && note->sh_size == BUILD_ID_OFFSET + BUILD_ID_SIZE);
    ck_assert(comment != NULL && comment->sh_size > 8);
    /* Neighbours differ in the first byte, so that they are in several directories. */
    uint8_t *build_id = elf.file.data + note->sh_offset + BUILD_ID_OFFSET;
    for (unsigned i = 0; i < BUILD_ID_SIZE; i++) {
        build_id[i] = (uint8_t)(i == 0 ? uuid * 37 : i == 1 ? uuid >> 8 : i == 2 ? uuid : i);
        variant.uuid = text_format("%s%02x", variant.uuid, build_id[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        elf.file.data[comment->sh_offset + i] = (uint8_t)('a' + (content >> (4 * i) & 15));
    }
    file_write(variant.path, elf.file.data, elf.file.size);
    ck_assert_int_eq(chmod(variant.path, 0755), 0);
    elf_file_free(&elf);
    return variant;
}

char *store_entry(const char *store, const char *uuid)
{
    return text_format("%s/.build-id/%.2s/%s.covsplit", store, uuid, uuid + 2);
}

/* Adds what is below directory/PREFIX, with the prefix. */
static void add_entries(struct text_list *list, const char *directory, const char *prefix)
{
    char *place = path_join(directory, prefix);
    struct text_list names = directory_list(place);
    for (size_t i = 0; i < names.count; i++) {
        char *path = path_join(place, names.items[i]);
        struct stat status;
        ck_assert_int_eq(lstat(path, &status), 0);
        char *entry =
            text_format("%s%s%s", prefix, names.items[i], S_ISDIR(status.st_mode) ? "/" : "");
        text_list_add(list, entry);
        if (S_ISDIR(status.st_mode)) {
            add_entries(list, directory, entry);
        }
        free(entry);
        free(path);
    }
    text_list_free(&names);
    free(place);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct text_list tree_list(const char *directory)
{
    struct text_list list = {0};
    add_entries(&list, directory, "");
    if (list.count != 0) {
        qsort(list.items, list.count, sizeof *list.items, compare_texts);
    }
    return list;
}

#define BATCH_NAME_DIGITS 32

/* Whether one is there under its name. */
static bool has_batch(void *batches)
{
    struct text_list names = directory_list(batches);
    bool found = false;
    for (size_t i = 0; i < names.count; i++) {
        found |= strlen(names.items[i]) == BATCH_NAME_DIGITS &&
                 strspn(names.items[i], "0123456789abcdef") == BATCH_NAME_DIGITS;
    }
    text_list_free(&names);
    return found;
}

void state_leave_batch(const char *directory, const char *from, const char *profiles)
{
    struct command command =
        covsplit_words(directory, text_format("merge -j1 --store store --into left %s", profiles));
    run_or_abort(directory, "cp", "-a", from, "left", NULL);
    struct traced adding =
        command_trace_and_kill_when(&command, has_batch, path_join(directory, "left/batches"));
    ck_assert_msg(adding.was_stopped, "%s", adding.errors);
    command_free(&command);
}

void file_set_age(const char *path, unsigned hours)
{
    time_t moment = time(NULL) - (time_t)hours * 3600;
    struct timespec times[2] = {{.tv_sec = moment}, {.tv_sec = moment}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}
