/*
 * The library's profiles, functions and stores as its users see them, on one thread and on several:
 * only the public header.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"

START_TEST(test_sections)
{
    FREED_BY(tear_down) struct fixture fixture;
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar;
    covsplit_section section;
    FREED_BY(buffer_free) struct buffer streamed = {0};
    const void *content;
    size_t size;
    int fd;

    set_up(&fixture);
    fd = open(fixture.sidecar, O_RDONLY);
    sidecar = covsplit_sidecar_open_fd(fd, "by descriptor", &error);
    ck_assert_ptr_nonnull(sidecar);
    close(fd);
    ck_assert(covsplit_sidecar_find(sidecar, "__llvm_prf_names", &section));
    ck_assert_uint_eq(section.size, NAMES_SIZE);
    ck_assert(!covsplit_sidecar_find(sidecar, "__llvm_covmap", &section));
    content = covsplit_sidecar_content(sidecar, "__llvm_prf_names", &size, &error);
    ck_assert_uint_eq(size, NAMES_SIZE);
    ck_assert_mem_eq(content, fixture_names, size);
    ck_assert_ptr_eq(covsplit_sidecar_content(sidecar, "__llvm_prf_names", &size, NULL), content);
    ck_assert(covsplit_sidecar_stream(sidecar, "__llvm_prf_names", collect, &streamed, &error));
    ck_assert_uint_eq(streamed.size, NAMES_SIZE);
    ck_assert_mem_eq(streamed.data, fixture_names, NAMES_SIZE);
    ck_assert(!covsplit_sidecar_stream(sidecar, "__llvm_prf_names", stop, NULL, &error));
    assert_message(error, "by descriptor: ");
    ck_assert(!covsplit_sidecar_stream(sidecar, "__llvm_prf_cnts", collect, &streamed, &error));
    assert_message(error, "only address and size");
    ck_assert_ptr_null(covsplit_sidecar_content(sidecar, "__llvm_covfun", &size, &error));
    assert_message(error, "has no section");
    ck_assert_ptr_null(covsplit_sidecar_open_fd(-1, "no descriptor", &error));
    assert_message(error, "no descriptor: ");
}
END_TEST

START_TEST(test_functions)
{
    static const char *const names[RECORDS] = {"main", "f1", "f2", "f3"};
    FREED_BY(tear_down) struct fixture fixture;
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar;
    covsplit_functions *functions;
    covsplit_function function;

    set_up(&fixture);
    sidecar = covsplit_sidecar_open(fixture.sidecar, &error);
    functions = covsplit_functions_open(sidecar, &error);
    ck_assert_ptr_nonnull(functions);
    ck_assert_uint_eq(covsplit_functions_count(functions), RECORDS);
    for (size_t i = 0; i < RECORDS; i++) {
        ck_assert(covsplit_functions_get(functions, i, &function));
        ck_assert_uint_eq(function.first_counter, i * EACH);
        ck_assert_uint_eq(function.counter_count, EACH);
        ck_assert_uint_eq(function.first_bitmap_byte, i * EACH);
        ck_assert_uint_eq(function.bitmap_byte_count, EACH);
        ck_assert_uint_eq(function.hash, 0xabcdef + i);
        ck_assert_str_eq(function.name, names[i]);
    }
    ck_assert(!covsplit_functions_get(functions, RECORDS, &function));
    covsplit_functions_close(functions);
    covsplit_functions_close(NULL);
}
END_TEST

START_TEST(test_profile)
{
    FREED_BY(tear_down) struct fixture fixture;
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar;
    FREED_BY(drop_profile) covsplit_profile *profile, *full;
    FREED_BY(buffer_free) struct buffer correlated = {0};
    uint8_t uuid[4];
    bool found = true;
    int fd;

    set_up(&fixture);
    fd = open("/dev/null", O_RDONLY);
    close(fd);
    sidecar = covsplit_sidecar_open(fixture.sidecar, &error);
    profile = covsplit_profile_open(fixture.profile, &error);
    ck_assert_ptr_nonnull(profile);
    ck_assert_int_eq(open("/dev/null", O_RDONLY), fd); /* no descriptor is taken */
    close(fd);
    ck_assert(covsplit_profile_needs_sidecar(profile));
    ck_assert_uint_eq(covsplit_profile_raw_version(profile), 10);
    ck_assert_uint_eq(covsplit_profile_uuid(profile, uuid, sizeof(uuid)), strlen(ID));
    ck_assert_mem_eq(uuid, ID, sizeof(uuid));
    ck_assert_uint_eq(covsplit_profile_counter_count(profile), RECORDS * EACH);
    ck_assert_uint_eq(covsplit_profile_counter(profile, 5), 77);
    ck_assert_uint_eq(covsplit_profile_counter(profile, 6), 0);
    ck_assert_uint_eq(covsplit_profile_counter(profile, RECORDS * EACH), 0);
    ck_assert(covsplit_profile_check(profile, sidecar, &error));
    ck_assert(!covsplit_profile_correlate(profile, NULL, collect, &correlated, &error));
    assert_message(error, "from a split image");
    ck_assert(!covsplit_profile_correlate(profile, sidecar, stop, NULL, &error));
    assert_message(error, "stopped");
    ck_assert(covsplit_profile_correlate(profile, sidecar, collect, &correlated, &error));
    ck_assert(covsplit_profile_next(profile, &found, &error));
    ck_assert(!found);
    full = covsplit_profile_open_memory(correlated.data, correlated.size, "full", &error);
    ck_assert_ptr_nonnull(full);
    ck_assert(!covsplit_profile_needs_sidecar(full));
    ck_assert_uint_eq(covsplit_profile_counter(full, 5), 77);
    covsplit_profile_close(NULL);
}
END_TEST

static void assert_finds(const covsplit_store *store, const char *prefix, size_t size)
{
    covsplit_error *error = NULL;
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar = covsplit_store_find(store, (const uint8_t *)prefix, size, &error);
    const uint8_t *uuid;
    size_t found;

    ck_assert_msg(sidecar != NULL, "%s", error == NULL ? "" : covsplit_error_message(error));
    uuid = covsplit_sidecar_uuid(sidecar, &found);
    ck_assert_uint_eq(found, strlen(ID));
    ck_assert_mem_eq(uuid, ID, found);
}

START_TEST(test_store)
{
    FREED_BY(tear_down) struct fixture fixture;
    covsplit_error *error = NULL;
    FREED_BY(drop_profile) covsplit_profile *profile;
    covsplit_sidecar *sidecar;
    FREED_BY(drop_store) covsplit_store *store;
    char list[128];

    set_up(&fixture);
    snprintf(list, sizeof(list), ":/nowhere:%s:", fixture.directory);
    store = covsplit_store_open(list, &error);
    ck_assert_ptr_nonnull(store);
    assert_finds(store, ID, strlen(ID));
    assert_finds(store, ID, 1);
    ck_assert_ptr_null(covsplit_store_find(store, (const uint8_t *)"other", 5, &error));
    assert_message(error, "/nowhere");
    ck_assert_ptr_null(covsplit_store_find(store, (const uint8_t *)"", 0, &error));
    assert_message(error, "0 bytes");
    profile = covsplit_profile_open(fixture.profile, &error);
    sidecar = covsplit_store_find_for_profile(store, profile, &error);
    ck_assert_ptr_nonnull(sidecar);
    covsplit_sidecar_close(sidecar);
    covsplit_store_close(store);
    store = covsplit_store_open_directory("/nowhere", &error);
    ck_assert_ptr_null(covsplit_store_find_for_profile(store, profile, &error));
    assert_message(error, ID_HEX);
    covsplit_store_close(NULL);
}
END_TEST

/* ---- threads ---- */

#define THREADS 4
#define ROUNDS  30

struct user {
    const struct fixture *fixture;
    const covsplit_store *store; /* shared: searching changes nothing in it */
    struct buffer correlated;
};

/* NULL where all went well. */
static void *use_library(void *context)
{
    struct user *user = context;

    for (int i = 0; i < ROUNDS; i++) {
        covsplit_profile *profile = covsplit_profile_open(user->fixture->profile, NULL);
        covsplit_sidecar *sidecar =
            profile == NULL ? NULL : covsplit_store_find_for_profile(user->store, profile, NULL);
        covsplit_functions *functions =
            sidecar == NULL ? NULL : covsplit_functions_open(sidecar, NULL);
        bool done;

        user->correlated.size = 0;
        done = functions != NULL && covsplit_functions_count(functions) == RECORDS &&
               covsplit_profile_correlate(profile, sidecar, collect, &user->correlated, NULL);
        covsplit_functions_close(functions);
        covsplit_sidecar_close(sidecar);
        covsplit_profile_close(profile);
        if (!done)
            return context;
    }
    return NULL;
}

START_TEST(test_threads)
{
    FREED_BY(tear_down) struct fixture fixture;
    pthread_t threads[THREADS];
    struct user users[THREADS];
    FREED_BY(drop_store) covsplit_store *store;

    set_up(&fixture);
    store = covsplit_store_open_directory(fixture.directory, NULL);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){.fixture = &fixture, .store = store};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_library, &users[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
        ck_assert(
            bytes_equal(buffer_view(&users[i].correlated), buffer_view(&users[0].correlated)));
        if (i != 0)
            buffer_free(&users[i].correlated);
    }
    buffer_free(&users[0].correlated);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_tests(all, test_sections, test_functions, test_profile, test_store, test_threads);
    return suite_main("reader_profiles", all);
}
