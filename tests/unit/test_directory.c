/*
 * Directories, and those that read them: names, stores, lists of paths. What cannot be read, or
 * kept in memory, is an error, and not a directory with fewer files.
 *
 * The linker puts the functions below in the place of readdir, strdup and realloc.
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/store/store.h"
#include "split/cli/path_list.h"
#include "tests/support/suite.h"

#define NEVER SIZE_MAX

/* How often each still works. */
static size_t entries_left = NEVER, allocations_left = NEVER;

static bool still_works(size_t *left)
{
    if (*left == 0)
        return false;
    *left -= *left != NEVER;
    return true;
}

struct dirent *__real_readdir64(DIR *stream);
char *__real_strdup(const char *text);
void *__real_realloc(void *moved, size_t size);
struct dirent *__wrap_readdir64(DIR *stream);
char *__wrap_strdup(const char *text);
void *__wrap_realloc(void *moved, size_t size);

struct dirent *__wrap_readdir64(DIR *stream)
{
    if (still_works(&entries_left))
        return __real_readdir64(stream);
    errno = EIO;
    return NULL;
}

char *__wrap_strdup(const char *text)
{
    return still_works(&allocations_left) ? __real_strdup(text) : NULL;
}

void *__wrap_realloc(void *moved, size_t size)
{
    return still_works(&allocations_left) ? __real_realloc(moved, size) : NULL;
}

/* ---- a tree ---- */

#define TEMPLATE "/tmp/covsplit-unit-XXXXXX"

static char root[sizeof(TEMPLATE)];

static char *path_of(const char *name)
{
    char *path;

    ck_assert_int_ge(asprintf(&path, "%s/%s", root, name), 0);
    return path;
}

static void make_file(const char *name)
{
    char *path = path_of(name);
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fclose(file);
    free(path);
}

static void make_directory(const char *name)
{
    char *path = path_of(name);

    ck_assert_int_eq(mkdir(path, 0755), 0);
    free(path);
}

static void make_link(const char *to, const char *name)
{
    char *path = path_of(name);

    ck_assert_int_eq(symlink(to, path), 0);
    free(path);
}

static void prepare(void)
{
    memcpy(root, TEMPLATE, sizeof(root));
    ck_assert_ptr_nonnull(mkdtemp(root));
    make_directory(".build-id");
    make_directory(".build-id/ab");
    make_file(".build-id/ab/cdef.covsplit");
    make_directory("tree");
    make_directory("tree/b");
    make_directory("tree/b/deep");
    make_file("tree/c");
    make_file("tree/b/2");
    make_file("tree/b/deep/1");
    make_file("tree/a");
    make_link("../tree/c", "tree/link");
    make_link("nowhere", "tree/dangling");
    make_link("self", "tree/self");
    make_link("b/deep", "tree/z");
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- readers ---- */

static bool is_wanted(void *context, const char *path, const struct stat *status)
{
    (void)context;
    (void)path;
    return S_ISREG(status->st_mode);
}

static bool list_tree(bool follows_links, struct path_list *list, struct error *error)
{
    char *path = path_of("tree");
    bool done = path_list_add_directory(list, path, follows_links, is_wanted, NULL, error);

    free(path);
    return done;
}

static bool read_names(struct error *error)
{
    struct directory_names names;
    char *path = path_of("tree");
    bool done = directory_names_read(path, NULL, &names, error);

    ck_assert(!done || (names.count == 7 && strcmp(names.items[0], "a") == 0 &&
                        strcmp(names.items[6], "z") == 0));
    directory_names_free(&names);
    free(path);
    return done;
}

static bool find(struct error *error)
{
    struct store_match match = {0};
    struct uuid uuid;
    bool done;

    ck_assert(uuid_parse("abcd", &uuid));
    done = store_find(root, &uuid, STORE_PREFIX, &match, error);
    ck_assert(!done || match.path != NULL);
    free(match.path);
    return done;
}

static bool count_sidecar(void *context, const char *path, const struct uuid *uuid,
                          struct error *error)
{
    (void)path;
    (void)uuid;
    (void)error;
    ++*(unsigned *)context;
    return true;
}

static bool walk(struct error *error)
{
    unsigned count = 0;
    bool done = store_walk(root, count_sidecar, &count, error);

    ck_assert(!done || count == 1);
    return done;
}

static bool list(struct error *error)
{
    struct path_list paths = {0};
    bool done = list_tree(false, &paths, error);

    ck_assert(!done || paths.count == 4);
    path_list_free(&paths);
    return done;
}

/* The last one ends the process without memory. */
static bool (*const readers[])(struct error *error) = {read_names, find, walk, list};

#define READER_COUNT (sizeof(readers) / sizeof(readers[0]))

/* ---- tests ---- */

/* One that fails after any number of entries is never one that ends there. */
START_TEST(test_failing_disk)
{
    bool done = false;
    size_t failures = 0;

    for (size_t entries = 0; !done; entries++) {
        struct error error = {0};

        entries_left = entries;
        done = readers[_i](&error);
        entries_left = NEVER;
        if (done)
            break;
        ck_assert_msg(strstr(error.message, strerror(EIO)) != NULL, "%s", error.message);
        failures++;
    }
    ck_assert_uint_ge(failures, 3);
}
END_TEST

START_TEST(test_no_memory)
{
    bool done = false;
    size_t failures = 0;

    for (size_t allocations = 0; !done; allocations++) {
        struct error error = {0};

        allocations_left = allocations;
        done = readers[_i](&error);
        allocations_left = NEVER;
        if (done)
            break;
        ck_assert_msg(strstr(error.message, "out of memory") != NULL, "%s", error.message);
        ck_assert_int_eq(error.number, ENOMEM);
        failures++;
    }
    ck_assert_uint_ge(failures, 2);
}
END_TEST

static void assert_listed(bool follows_links, const char *const *expected, size_t count)
{
    struct path_list paths = {0};
    struct error error = {0};

    ck_assert_msg(list_tree(follows_links, &paths, &error), "%s", error.message);
    ck_assert_uint_eq(paths.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(paths.paths[i] + strlen(root), expected[i]);
    path_list_free(&paths);
}

START_TEST(test_links)
{
    static const char *const without[] = {"/tree/a", "/tree/b/2", "/tree/b/deep/1", "/tree/c"};
    static const char *const with[] = {"/tree/a", "/tree/b/2",  "/tree/b/deep/1",
                                       "/tree/c", "/tree/link", "/tree/z/1"};

    assert_listed(false, without, 4);
    assert_listed(true, with, 6);
}
END_TEST

START_TEST(test_endless)
{
    struct path_list paths = {0};
    struct error error = {0};

    make_link("..", "tree/b/up");
    ck_assert(list_tree(false, &paths, &error));
    ck_assert(!list_tree(true, &paths, &error));
    ck_assert_msg(strstr(error.message, "/tree/b/up: a directory inside itself") != NULL, "%s",
                  error.message);
    path_list_free(&paths);
}
END_TEST

START_TEST(test_missing)
{
    struct directory_names names;
    struct error error = {0};

    ck_assert(!directory_names_read("/nowhere/at/all", NULL, &names, &error));
    ck_assert_int_eq(error.number, ENOENT);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, prepare, clean_up);
    suite_loops(all, READER_COUNT, test_failing_disk);
    suite_loops(all, READER_COUNT - 1, test_no_memory);
    suite_tests(all, test_links, test_endless, test_missing);
    return suite_main("directories", all);
}
