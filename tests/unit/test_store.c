/*
 * Searching stores: by the whole UUID, by its beginning, by what a stub keeps of it; two answers.
 */
#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/store.h"

static char directory[] = "/tmp/covsplit-unit-XXXXXX";

static struct uuid uuid_of(const char *hex)
{
    struct uuid uuid;

    ck_assert(uuid_parse(hex, &uuid));
    return uuid;
}

static void add_file(const char *store, const char *first, const char *rest)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, store);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/%s/.build-id", directory, store);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/%s/.build-id/%s", directory, store, first);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/%s/.build-id/%s/%s", directory, store, first, rest);
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

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void clean_up(void)
{
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Looks in a store; `expected` is the UUID found, NULL for none. */
static bool find(const char *store, const char *hex, enum store_query query,
                 struct store_match *match, struct error *error)
{
    char path[512];
    struct uuid uuid = uuid_of(hex);

    snprintf(path, sizeof(path), "%s/%s", directory, store);
    return store_find(path, &uuid, query, match, error);
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

START_TEST(test_exact)
{
    assert_found("one", LONG_A, STORE_EXACT, LONG_A);
    assert_found("one", "ABCDEF", STORE_EXACT, "abcdef");
    assert_found("one", LONG_B, STORE_EXACT, NULL);
    assert_found("one", "abcd", STORE_EXACT, NULL);
    assert_found("nowhere", LONG_A, STORE_EXACT, NULL);
}
END_TEST

START_TEST(test_prefix)
{
    assert_found("one", "ab", STORE_PREFIX, "abcdef");
    assert_found("one", "abcdef", STORE_PREFIX, "abcdef");
    assert_found("one", "abcdef00", STORE_PREFIX, NULL);
    assert_found("one", "001122334455667788", STORE_PREFIX, LONG_A);
    assert_found("nowhere", "00", STORE_PREFIX, NULL);
}
END_TEST

START_TEST(test_stub)
{
    assert_found("one", "00112233445566778899aabbccddeeff", STORE_STUB, LONG_A);
    assert_found("two", "00112233445566778899aabbccddeeff", STORE_STUB, LONG_B);
    assert_found("short", SHORT "0000000000000000", STORE_STUB, SHORT);
    assert_found("one", SHORT "0000000000000000", STORE_STUB, NULL);
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

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *all = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_unchecked_fixture(all, prepare, clean_up);
    tcase_add_test(all, test_exact);
    tcase_add_test(all, test_prefix);
    tcase_add_test(all, test_stub);
    tcase_add_test(all, test_two_answers);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
