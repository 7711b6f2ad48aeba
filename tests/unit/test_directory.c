/*
 * Directories with links: which files are found in them, and that one inside itself is an error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/store/store.h"
#include "split/cli/path_list.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"

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
    FREED_BY(drop_memory) char *path = path_of(name);
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fclose(file);
}

static void make_directory(const char *name)
{
    FREED_BY(drop_memory) char *path = path_of(name);

    ck_assert_int_eq(mkdir(path, 0755), 0);
}

static void make_link(const char *to, const char *name)
{
    FREED_BY(drop_memory) char *path = path_of(name);

    ck_assert_int_eq(symlink(to, path), 0);
}

static void prepare(void)
{
    memcpy(root, TEMPLATE, sizeof(root));
    ck_assert_ptr_nonnull(mkdtemp(root));
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

static void clean_up(void)
{
    directory_remove(root);
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
    FREED_BY(drop_memory) char *path = path_of("tree");

    return path_list_add_directory(list, path, follows_links, is_wanted, NULL, error);
}

/* ---- tests ---- */

static void assert_listed(bool follows_links, const char *const *expected, size_t count)
{
    FREED_BY(path_list_free) struct path_list paths = {0};
    struct error error = {0};

    ck_assert_msg(list_tree(follows_links, &paths, &error), "%s", error.message);
    ck_assert_uint_eq(paths.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_str_eq(paths.paths[i] + strlen(root), expected[i]);
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
    FREED_BY(path_list_free) struct path_list paths = {0};
    struct error error = {0};

    make_link("..", "tree/b/up");
    ck_assert(list_tree(false, &paths, &error));
    ck_assert(!list_tree(true, &paths, &error));
    ck_assert_msg(strstr(error.message, "/tree/b/up: a directory inside itself") != NULL, "%s",
                  error.message);
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
    suite_tests(all, test_links, test_endless, test_missing);
    return suite_main("directories", all);
}
