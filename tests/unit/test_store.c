/*
 * Searching stores by what a stub keeps of a UUID; two answers.
 * And walking through them, also while others write to them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/store/store.h"
#include "reader/covsplit.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"

DEFINE_DROP(drop_store, covsplit_store, covsplit_store_close)

static char directory[] = "/tmp/covsplit-unit-XXXXXX";

static struct uuid uuid_of(const char *hex)
{
    struct uuid uuid;

    ck_assert(uuid_parse(hex, &uuid));
    return uuid;
}

/* Good until the next call. */
static const char *store_directory(const char *store)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", directory, store);
    return path;
}

static void add_file(const char *store, const char *first, const char *rest)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s/.build-id/%s/%s", directory, store, first, rest);
    for (char *end = path + sizeof(directory); (end = strchr(end, '/')) != NULL; end++) {
        *end = '\0';
        mkdir(path, 0755);
        *end = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
}

#define LONG_A "00112233445566778899aabbccddeeff00112233"
#define LONG_B "00112233445566778899aabbccddeeff99999999"
#define SHORT  "0011223344556677"

static void prepare(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    add_file("one", "00", "112233445566778899aabbccddeeff00112233"); /* no sidecar: no suffix */
    add_file("one", "00", "112233445566778899aabbccddeeff00112233.covsplit");
    add_file("one", "00", "112233445566aaaa.covsplit");
    add_file("one", "00", "zz112233.covsplit");
    add_file("one", "00", ".covsplit");
    add_file("one", "ab", "cdef.covsplit");
    add_file("two", "00", "112233445566778899aabbccddeeff99999999.covsplit");
    add_file("two", "ab", "cdef.covsplit");
    add_file("short", "00", "11223344556677.covsplit");
}

static void clean_up(void)
{
    directory_remove(directory);
}

/* Looks in a store; `expected` is the UUID found, NULL for none. */
static bool find(const char *store, const char *hex, enum store_query query,
                 struct store_match *match, struct error *error)
{
    struct uuid uuid = uuid_of(hex);

    return store_find(store_directory(store), &uuid, query, match, error);
}

static void assert_found(const char *store, const char *hex, enum store_query query,
                         const char *expected)
{
    struct store_match match = {0};
    struct error error = {0};

    ck_assert_msg(find(store, hex, query, &match, &error), "%s", error.message);
    ck_assert((match.path != NULL) == (expected != NULL));
    if (expected != NULL) {
        struct uuid uuid = uuid_of(expected);
        struct stat status;
        ck_assert(uuid_equal(&match.uuid, &uuid));
        ck_assert_int_eq(stat(match.path, &status), 0);
    }
    free(match.path);
}

START_TEST(test_stub)
{
    assert_found("one", "00112233445566778899aabbccddeeff", STORE_STUB, LONG_A);
    assert_found("two", "00112233445566778899aabbccddeeff", STORE_STUB, LONG_B);
    assert_found("short", SHORT "0000000000000000", STORE_STUB, SHORT);
    assert_found("one", SHORT "0000000000000000", STORE_STUB, LONG_A);
    assert_found("one", "abcdef00000000000000000000000000", STORE_STUB, "abcdef");
}
END_TEST

START_TEST(test_two_answers)
{
    struct store_match match = {0};
    struct error error = {0};

    ck_assert(!find("one", "0011", STORE_PREFIX, &match, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "778899aabbccddeeff00112233.covsplit"));
    ck_assert_ptr_nonnull(strstr(error.message, "112233445566aaaa.covsplit"));
    free(match.path);
    /* One in each of two stores. */
    match = (struct store_match){0};
    ck_assert(find("one", "00112233445566778899aabbccddeeff", STORE_STUB, &match, &error));
    ck_assert(!find("two", "00112233445566778899aabbccddeeff", STORE_STUB, &match, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "/one/"));
    ck_assert_ptr_nonnull(strstr(error.message, "/two/"));
    free(match.path);
    /* The same one in both is no question: the first store has it. */
    match = (struct store_match){0};
    ck_assert(find("one", "ab", STORE_PREFIX, &match, &error));
    ck_assert(find("two", "ab", STORE_PREFIX, &match, &error));
    ck_assert_ptr_nonnull(strstr(match.path, "/one/"));
    free(match.path);
}
END_TEST

/* ---- walking ---- */

struct seen {
    char text[4096]; /* "KIND PATH;" with the path inside the store */
    size_t stop_after;
    size_t count;
};

static bool note_entry(void *context, const struct store_entry *entry, struct error *error)
{
    static const char *const kinds[] = {"sidecar", "temporary", "stray"};
    struct seen *seen = context;
    const char *path = strstr(entry->path, "/.build-id/");
    size_t length = strlen(seen->text);

    ck_assert_ptr_nonnull(path);
    snprintf(seen->text + length, sizeof(seen->text) - length, "%s %s;", kinds[entry->kind],
             path + strlen("/.build-id/"));
    seen->count++;
    return seen->count != seen->stop_after || error_set(error, "stopped");
}

static bool note_sidecar(void *context, const char *path, const struct uuid *uuid,
                         struct error *error)
{
    struct store_entry entry = {.kind = STORE_SIDECAR, .path = path};
    char hex[UUID_HEX_MAX];
    const char *digit = uuid_format(uuid, hex);

    /* The UUID is the one that the path spells. */
    for (const char *c = strstr(path, "/.build-id/") + strlen("/.build-id/"); *digit != '\0'; c++) {
        if (*c != '/')
            ck_assert_int_eq(*c, *digit++);
    }
    return note_entry(context, &entry, error);
}

START_TEST(test_scan_kinds)
{
    struct seen seen = {.text = ""};
    struct error error = {0};

    add_file("scan", "0a", "cd.covsplit");
    add_file("scan", "0a", "CE.covsplit");                  /* no search looks for upper case */
    add_file("scan", "0a", "c-f0.covsplit");                /* nor for other spellings */
    add_file("scan", "0a", "odd.covsplit");                 /* no hexadecimal digits */
    add_file("scan", "0a", "..covsplit.covsplit-a0B1c2");   /* of UUID 0a */
    add_file("scan", "0a", ".cd.covsplit.covsplit-a0B1c2"); /* as mkostemp makes them */
    add_file("scan", "0a", ".cd.covsplit.covsplit-a0B1c");  /* one letter too few */
    add_file("scan", "0a", ".cd.covsplit.covsplit-a0B1-2"); /* a letter that it does not use */
    add_file("scan", "0a", "cd.covsplit.covsplit-a0B1c2");
    add_file("scan", "0a", ".cd.covsplit.a0B1c2");
    add_file("scan", "0a", ".cd.debug.covsplit-a0B1c2");
    add_file("scan", "0A", "cd.covsplit");
    add_file("scan", "0abc", "cd.covsplit");
    add_file("scan", "0abc", "cd.debug");
    add_file("scan", ".", "loose.covsplit");
    ck_assert_msg(store_scan(store_directory("scan"), note_entry, &seen, &error), "%s",
                  error.message);
    ck_assert_str_eq(
        seen.text,
        "temporary 0a/..covsplit.covsplit-a0B1c2;temporary 0a/.cd.covsplit.covsplit-a0B1c2;"
        "stray 0a/CE.covsplit;stray 0a/c-f0.covsplit;"
        "sidecar 0a/cd.covsplit;stray 0a/odd.covsplit;"
        "stray loose.covsplit;stray 0A/cd.covsplit;"
        "stray 0abc/cd.covsplit;");
}
END_TEST

/* A store that others write to and clean up: each entry removes all of the walk's own directory. */
static bool remove_directory(void *context, const char *path, const struct uuid *uuid,
                             struct error *error)
{
    size_t *count = context;
    FREED_BY(drop_memory) char *parent = strndup(path, (size_t)(strrchr(path, '/') - path));

    (void)uuid;
    (void)error;
    ++*count;
    directory_remove(parent);
    return true;
}

START_TEST(test_walk_while_entries_vanish)
{
    struct error error = {0};
    size_t count = 0;

    for (unsigned i = 0; i < 1000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%04x.covsplit", i);
        add_file("vanish", i % 2 == 0 ? "00" : "01", name);
    }
    ck_assert_msg(store_walk(store_directory("vanish"), remove_directory, &count, &error), "%s",
                  error.message);
    ck_assert_uint_eq(count, 1000);
}
END_TEST

START_TEST(test_parse_name)
{
    struct uuid uuid;
    char name[UUID_HEX_MAX + 16] = "";

    ck_assert(store_parse_name("cdef.covsplit", 0xab, &uuid));
    ck_assert_uint_eq(uuid.size, 3);
    ck_assert_mem_eq(uuid.bytes, "\xab\xcd\xef", 3);
    ck_assert(store_parse_name(".covsplit", 0xab, &uuid));
    ck_assert_uint_eq(uuid.size, 1);
    ck_assert(!store_parse_name("covsplit", 0xab, &uuid));
    ck_assert(!store_parse_name("c.covsplit", 0xab, &uuid));
    ck_assert(!store_parse_name("cdef", 0xab, &uuid));
    ck_assert(!store_parse_name("", 0xab, &uuid));
    memset(name, '0', 2 * (UUID_SIZE_MAX - 1));
    strcat(name, STORE_SUFFIX);
    ck_assert(store_parse_name(name, 0xab, &uuid));
    ck_assert_uint_eq(uuid.size, UUID_SIZE_MAX);
    memset(name, '0', 2 * UUID_SIZE_MAX);
    strcpy(name + 2 * UUID_SIZE_MAX, STORE_SUFFIX);
    ck_assert(!store_parse_name(name, 0xab, &uuid));
}
END_TEST

/* ---- writing ---- */

static const struct output_options new_file = {.mode = 0640};

/* DIRECTORY/STORE/.build-id/ab/cdef.covsplit; good until the next call. */
static const char *sidecar_path(const char *store)
{
    static char path[600];

    snprintf(path, sizeof(path), "%s/.build-id/ab/cdef.covsplit", store_directory(store));
    return path;
}

static void assert_added(struct output *output, const char *path)
{
    enum output_result result;
    struct error error = {0};
    struct stat status;

    ck_assert_msg(store_output_commit(output, false, &result, &error), "%s", error.message);
    ck_assert_int_eq(result, OUTPUT_WRITTEN);
    ck_assert_int_eq(stat(path, &status), 0);
    output_discard(output);
}

/* Directories are made, and made again after a cleaner has removed them. */
START_TEST(test_add)
{
    struct output output;
    struct error error = {0};

    ck_assert_msg(store_output_create(&output, sidecar_path("add"), &new_file, &error), "%s",
                  error.message);
    assert_added(&output, sidecar_path("add"));
    ck_assert(store_output_create(&output, sidecar_path("add2"), &new_file, &error));
    directory_remove(store_directory("add2"));
    assert_added(&output, sidecar_path("add2"));
    /* In the current directory. */
    ck_assert_int_eq(chdir(directory), 0);
    ck_assert(store_output_create(&output, "add3/.build-id/ab/cdef.covsplit", &new_file, &error));
    assert_added(&output, sidecar_path("add3"));
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* A file where a directory should be: from the start, or when the sidecar gets its name. */
START_TEST(test_file_in_the_way)
{
    enum output_result result;
    FREED_BY(output_discard) struct output output;
    struct error error = {0};
    FILE *file;

    add_file("way", "00", "11.covsplit");
    ck_assert(!store_output_create(&output, sidecar_path("way/.build-id/00/11.covsplit"), &new_file,
                                   &error));
    ck_assert_ptr_nonnull(strstr(error.message, ": cannot be created: Not a directory"));
    error = (struct error){0};
    ck_assert(store_output_create(&output, sidecar_path("way2"), &new_file, &error));
    directory_remove(store_directory("way2"));
    file = fopen(store_directory("way2"), "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert(!store_output_commit(&output, false, &result, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "Not a directory"));
}
END_TEST

/* ---- the library ---- */

static bool note_for_library(void *context, const char *path, const uint8_t *uuid, size_t size)
{
    struct uuid copy = {.size = size};
    struct error ignored;

    memcpy(copy.bytes, uuid, size);
    return note_sidecar(context, path, &copy, &ignored);
}

/* A UUID in two directories comes once, from the first; one directory does not exist. */
START_TEST(test_library_visit)
{
    struct seen seen = {.text = ""}, stopped = {.stop_after = 2};
    FREED_BY(drop_memory) char *list;
    FREED_BY(drop_store) covsplit_store *store;
    covsplit_error *error = NULL;

    add_file("visit", "ab", "cd.covsplit");
    add_file("visit", "ff", "01.covsplit");
    add_file("visit2", "ab", "cd.covsplit");
    add_file("visit2", "ab", "ce.covsplit");
    ck_assert_int_gt(
        asprintf(&list, "%s/visit:%s/nowhere:%s/visit2", directory, directory, directory), 0);
    store = covsplit_store_open(list, NULL);
    ck_assert_ptr_nonnull(store);
    ck_assert(covsplit_store_visit(store, note_for_library, &seen, &error));
    ck_assert_ptr_null(error);
    ck_assert_str_eq(seen.text, "sidecar ab/cd.covsplit;sidecar ff/01.covsplit;"
                                "sidecar ab/ce.covsplit;");
    ck_assert(!covsplit_store_visit(store, note_for_library, &stopped, &error));
    ck_assert_ptr_nonnull(strstr(covsplit_error_message(error), "stopped"));
    ck_assert_uint_eq(stopped.count, 2);
    covsplit_error_free(error);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 0, NULL);
    tcase_add_unchecked_fixture(all, prepare, clean_up);
    suite_tests(all, test_stub, test_two_answers, test_scan_kinds, test_walk_while_entries_vanish,
                test_parse_name, test_library_visit, test_add, test_file_in_the_way);
    return suite_main("store", all);
}
