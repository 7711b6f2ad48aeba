/*
 * The calls of the library that the other suites of it leave out, what each of them refuses, and
 * all of them without memory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sidecar/delta.h"
#include "tests/support/suite.h"
#include "tests/unit/reader_fixture.h"
#include "tests/unit/refused_memory.h"
#include "tests/unit/sidecar_sample.h"

static struct fixture fixture;
static covsplit_error *error;

static void prepare(void)
{
    set_up(&fixture);
    error = NULL;
}

static void release(void)
{
    memory_granted = MEMORY_ALL;
    tear_down(&fixture);
}

static covsplit_sidecar *open_sidecar(void)
{
    covsplit_sidecar *sidecar = covsplit_sidecar_open(fixture.sidecar, &error);

    ck_assert_ptr_nonnull(sidecar);
    return sidecar;
}

static covsplit_profile *open_made(const struct buffer *made, const char *name)
{
    covsplit_profile *profile = covsplit_profile_open_memory(made->data, made->size, name, &error);

    ck_assert_ptr_nonnull(profile);
    return profile;
}

/* Replaces the sidecar in the store. */
static void put_sidecar(const struct buffer *bytes)
{
    FILE *file = fopen(fixture.sidecar, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes->data, 1, bytes->size, file), bytes->size);
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- sidecars ---- */

START_TEST(test_placeholder)
{
    for (int i = 0; i < 2; i++) {
        FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
        FREED_BY(buffer_free) struct buffer file;
        FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar;

        sample->source.facts.is_placeholder = i == 1;
        file = sample_write(&sample->source, 3, 1);
        sidecar = covsplit_sidecar_open_memory(file.data, file.size, "memory", &error);
        ck_assert_ptr_nonnull(sidecar);
        ck_assert(covsplit_sidecar_is_placeholder(sidecar) == (i == 1));
    }
    covsplit_sidecar_close(NULL);
}
END_TEST

/* The limit is for each block of data; 0 leaves it, and no limit is one, too. */
START_TEST(test_memory_limit)
{
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar = open_sidecar();
    uint64_t usual = covsplit_sidecar_memory_limit(sidecar);
    size_t size;

    ck_assert_uint_ge(usual, 64 << 20);
    covsplit_sidecar_limit_memory(sidecar, 0);
    ck_assert_uint_eq(covsplit_sidecar_memory_limit(sidecar), usual);
    covsplit_sidecar_limit_memory(sidecar, NAMES_SIZE - 1);
    ck_assert_uint_eq(covsplit_sidecar_memory_limit(sidecar), NAMES_SIZE - 1);
    ck_assert_ptr_null(covsplit_sidecar_content(sidecar, "__llvm_prf_names", &size, &error));
    assert_message(error, "memory");
    covsplit_sidecar_limit_memory(sidecar, UINT64_MAX);
    ck_assert_ptr_nonnull(covsplit_sidecar_content(sidecar, "__llvm_prf_names", &size, NULL));
}
END_TEST

/* ---- deltas ---- */

static struct bytes base_bytes;
static struct digest base_digest;
static unsigned base_requests;

static bool give_base(void *context, const uint8_t *digest, const void **data, size_t *size)
{
    ck_assert_ptr_eq(context, &base_requests);
    ck_assert_mem_eq(digest, base_digest.bytes, DIGEST_SIZE);
    base_requests++;
    *data = base_bytes.data;
    *size = base_bytes.size;
    return true;
}

static bool find_base(void *context, const struct digest *digest, struct bytes *bytes)
{
    (void)context;
    (void)digest;
    *bytes = base_bytes;
    return true;
}

/* A delta in memory, of which the caller has the base. */
START_TEST(test_base_finder)
{
    const struct delta_options options = {.level = 3, .most = UINT64_MAX};
    FREED_BY(sidecar_bases_free) struct sidecar_bases bases = SIDECAR_BASES_EMPTY;
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer base = sample_write_compact(&sample->source), whole_file;
    covsplit_sidecar *sidecar, *compared;
    FREED_BY(drop_sidecar) struct sidecar *whole;
    FREED_BY(output_discard) struct output output;
    FREED_BY(input_close) struct input written;
    struct error why;
    size_t size, wanted_size;
    bool fits;

    uuid_parse("ffff0304", &sample->source.facts.uuid);
    sample->source.facts.has_stub = false;
    whole_file = sample_write_compact(&sample->source);
    whole = sample_open(&whole_file);
    base_bytes = buffer_view(&base);
    base_digest = digest_of(base_bytes);
    bases.find = find_base;
    ck_assert(output_create_in_memory(&output, "delta", &why));
    ck_assert_msg(delta_write(whole, whole_file.size, &bases, "base", &base_digest, &options,
                              &output, &fits, &why),
                  "%s", why.message);
    ck_assert(fits && output_map(&output, &written, &why));

    compared = covsplit_sidecar_open_memory(whole_file.data, whole_file.size, "whole", &error);
    sidecar =
        covsplit_sidecar_open_memory(written.bytes.data, written.bytes.size, "memory", &error);
    ck_assert(!covsplit_sidecar_is_delta(compared));
    ck_assert_ptr_nonnull(sidecar);
    ck_assert(covsplit_sidecar_is_delta(sidecar));
    ck_assert_ptr_null(covsplit_sidecar_content(sidecar, "__llvm_covmap", &size, &error));
    assert_message(error, "base");
    covsplit_sidecar_set_base_finder(sidecar, give_base, &base_requests);
    for (size_t i = 0; i < covsplit_sidecar_section_count(compared); i++) {
        covsplit_section section;
        const void *wanted, *found;

        ck_assert(covsplit_sidecar_section(compared, i, &section));
        if (section.stored_size == 0)
            continue;
        wanted = covsplit_sidecar_content(compared, section.name, &wanted_size, NULL);
        found = covsplit_sidecar_content(sidecar, section.name, &size, NULL);
        ck_assert_ptr_nonnull(found);
        ck_assert_uint_eq(size, wanted_size);
        ck_assert_mem_eq(found, wanted, size);
    }
    ck_assert_uint_eq(base_requests, 1);
    covsplit_sidecar_close(sidecar);

    /* Another file than the base. */
    sidecar =
        covsplit_sidecar_open_memory(written.bytes.data, written.bytes.size, "memory", &error);
    covsplit_sidecar_set_base_finder(sidecar, give_base, &base_requests);
    base.data[base.size - 1] ^= 1;
    ck_assert_ptr_null(covsplit_sidecar_content(sidecar, "__llvm_covmap", &size, &error));
    assert_message(error, "is a delta");
    covsplit_sidecar_close(sidecar);

    covsplit_sidecar_close(compared);
}
END_TEST

START_TEST(test_part)
{
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar = open_sidecar();
    char *part;

    for (size_t from = 0; from <= NAMES_SIZE; from++) {
        for (size_t size = 0; from + size <= NAMES_SIZE; size++) {
            part = covsplit_sidecar_read_part(sidecar, "__llvm_prf_names", from, size, &error);
            ck_assert_ptr_nonnull(part);
            ck_assert_mem_eq(part, fixture_names + from, size);
            free(part);
        }
    }
    ck_assert_ptr_null(
        covsplit_sidecar_read_part(sidecar, "__llvm_prf_names", 1, NAMES_SIZE, &error));
    assert_message(error, "__llvm_prf_names");
    ck_assert_ptr_null(
        covsplit_sidecar_read_part(sidecar, "__llvm_prf_names", UINT64_MAX, 2, &error));
    assert_message(error, "__llvm_prf_names");
    ck_assert_ptr_null(covsplit_sidecar_read_part(sidecar, "__llvm_covmap", 0, 1, &error));
    assert_message(error, "has no section");
}
END_TEST

START_TEST(test_restore_file)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 3, 1), restored = {0};
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar =
        covsplit_sidecar_open_memory(file.data, file.size, "memory", &error);

    put_sidecar(&sample->stripped); /* any path will do */
    ck_assert(covsplit_sidecar_restore_file(sidecar, fixture.sidecar, collect, &restored, &error));
    ck_assert(bytes_equal(buffer_view(&restored), buffer_view(&sample->original)));
    ck_assert(!covsplit_sidecar_restore_file(sidecar, fixture.sidecar, stop, NULL, &error));
    assert_message(error, "stopped by the program");
    ck_assert(!covsplit_sidecar_restore_file(sidecar, "/nowhere", collect, &restored, &error));
    assert_message(error, "/nowhere: cannot be read");
    sample->stripped.size--;
    put_sidecar(&sample->stripped);
    ck_assert(!covsplit_sidecar_restore_file(sidecar, fixture.sidecar, collect, &restored, &error));
    assert_message(error, fixture.sidecar);
}
END_TEST

/* ---- functions ---- */

/* A sidecar with one section that has been changed. */
static covsplit_sidecar *open_sample_of(const struct section *section, struct buffer *file)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    covsplit_sidecar *sidecar;

    if (section != NULL) {
        for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
            if (sample->sections[i].kind == section->kind)
                sample->sections[i] = *section;
        }
    }
    *file = sample_write(&sample->source, 3, 1);
    sidecar = covsplit_sidecar_open_memory(file->data, file->size, "changed", &error);
    ck_assert_ptr_nonnull(sidecar);
    return sidecar;
}

START_TEST(test_no_functions)
{
    static const uint8_t data[64];
    const struct section wrong = {.kind = SECTION_DATA,
                                  .address = 0x1000,
                                  .alignment = 8,
                                  .size = sizeof(data) - 1,
                                  .content = {data, sizeof(data) - 1}};
    FREED_BY(buffer_free) struct buffer file;
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar = open_sample_of(&wrong, &file);

    ck_assert_ptr_null(covsplit_functions_open(sidecar, &error));
    assert_message(error, "changed: ");
}
END_TEST

/* ---- profiles ---- */

START_TEST(test_byte_coverage)
{
    struct profile_recipe recipe = full_recipe;
    FREED_BY(buffer_free) struct buffer made;
    FREED_BY(drop_profile) covsplit_profile *profile;
    uint8_t uuid[4] = {0};

    recipe.raw_version |= PROFILE_VARIANT_BYTE_COVERAGE;
    made = profile_make(&recipe);
    profile_set_counter(&made, 3, 0); /* executed */
    profile = open_made(&made, "bytes");
    ck_assert_uint_eq(covsplit_profile_counter_count(profile), RECORDS * EACH);
    ck_assert_uint_eq(covsplit_profile_counter(profile, RECORDS * EACH), 0);
    for (uint64_t i = 0; i < RECORDS * EACH; i++)
        ck_assert_uint_eq(covsplit_profile_counter(profile, i), i == 3);
    /* Only as much as there is room for. */
    ck_assert_uint_eq(covsplit_profile_uuid(profile, uuid, sizeof(uuid)), strlen(ID));
    ck_assert_mem_eq(uuid, ID, sizeof(uuid));
    ck_assert_uint_eq(covsplit_profile_uuid(profile, NULL, 0), strlen(ID));
}
END_TEST

START_TEST(test_nameless)
{
    struct profile_recipe recipe = full_recipe;
    FREED_BY(buffer_free) struct buffer made;
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, NULL);
    FREED_BY(drop_profile) covsplit_profile *profile;
    uint8_t uuid[4];

    recipe.binary_id = NULL;
    made = profile_make(&recipe);
    profile = open_made(&made, "nameless");
    ck_assert_uint_eq(covsplit_profile_uuid(profile, uuid, sizeof(uuid)), 0);
    ck_assert_ptr_null(covsplit_store_find_for_profile(store, profile, &error));
    assert_message(error, "nameless: ");
    ck_assert_ptr_null(covsplit_store_path_for_profile(store, profile, &error));
    assert_message(error, "nameless: ");
}
END_TEST

/* What is correlated by debug information has no sidecar. */
START_TEST(test_debug_info)
{
    struct profile_recipe recipe = full_recipe;
    FREED_BY(buffer_free) struct buffer made;
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(NULL, NULL);
    FREED_BY(drop_profile) covsplit_profile *profile;

    recipe.records = 0;
    recipe.raw_version |= PROFILE_VARIANT_DEBUG_INFO;
    made = profile_make(&recipe);
    profile = open_made(&made, "debug");
    ck_assert(!covsplit_merger_add(merger, profile, &error));
    assert_message(error, "--debug-info");
}
END_TEST

/* ---- stores ---- */

START_TEST(test_paths)
{
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, &error);
    FREED_BY(drop_profile) covsplit_profile *profile = open_made(&fixture.profile_bytes, "light");
    uint8_t long_uuid[200] = {0};
    char *path = covsplit_store_path(store, (const uint8_t *)ID, strlen(ID), &error);

    ck_assert_str_eq(path, fixture.sidecar);
    free(path);
    path = covsplit_store_path_for_profile(store, profile, &error);
    ck_assert_str_eq(path, fixture.sidecar);
    free(path);
    ck_assert_ptr_null(covsplit_store_path(store, (const uint8_t *)"other", 5, &error));
    assert_message(error, fixture.directory);
    ck_assert_ptr_null(covsplit_store_path(store, long_uuid, sizeof(long_uuid), &error));
    assert_message(error, "cannot have 200 bytes");
    ck_assert_int_eq(unlink(fixture.sidecar), 0);
    ck_assert_ptr_null(covsplit_store_path_for_profile(store, profile, &error));
    assert_message(error, ID_HEX);
}
END_TEST

/* The name of a file in a store says whose sidecar it is; another's, or none, is an error. */
START_TEST(test_wrong_file)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 3, 1);
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, &error);
    FREED_BY(drop_profile) covsplit_profile *profile = open_made(&fixture.profile_bytes, "light");

    put_sidecar(&file);
    ck_assert_ptr_null(covsplit_store_find(store, (const uint8_t *)ID, strlen(ID), &error));
    assert_message(error, SAMPLE_UUID);
    ck_assert_ptr_null(covsplit_store_find_for_profile(store, profile, &error));
    assert_message(error, SAMPLE_UUID);
    put_sidecar(&fixture.profile_bytes);
    ck_assert_ptr_null(covsplit_store_find(store, (const uint8_t *)ID, strlen(ID), &error));
    assert_message(error, fixture.sidecar);
}
END_TEST

/* The sidecar in the store has the profile's UUID, but not as many counters. */
START_TEST(test_wrong_counters)
{
    struct profile_recipe recipe = full_recipe;
    static const uint8_t stub[PROFILE_STUB_ID_SIZE] = ID;
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, &error);
    FREED_BY(drop_merger) covsplit_merger *merger = covsplit_merger_new(store, &error);
    FREED_BY(drop_profile) covsplit_profile *profile;
    FREED_BY(buffer_free) struct buffer made;

    recipe.records = 1;
    recipe.stub_counters = RECORDS * EACH + 1;
    recipe.stub = stub;
    made = profile_make(&recipe);
    profile = open_made(&made, "longer");
    ck_assert(!covsplit_merger_add(merger, profile, &error));
    assert_message(error, "longer: has 9 counters");
}
END_TEST

static bool stop_visit(void *context, const char *path, const uint8_t *uuid, size_t size)
{
    (void)path;
    (void)uuid;
    *(size_t *)context = size;
    return false;
}

START_TEST(test_visit_stops)
{
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, &error);
    size_t size = 0;

    ck_assert(!covsplit_store_visit(store, stop_visit, &size, &error));
    assert_message(error, "the visit was stopped");
    ck_assert_uint_eq(size, strlen(ID));
}
END_TEST

/* ---- without memory ---- */

/* Calls everything once. NULL if all went well; else the call that did not. */
static const char *call_all(covsplit_error **why)
{
    FREED_BY(drop_store)
    covsplit_store *store = covsplit_store_open_directory(fixture.directory, why);
    FREED_BY(drop_profile)
    covsplit_profile *profile = store == NULL ? NULL : covsplit_profile_open(fixture.profile, why);
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar =
        profile == NULL ? NULL : covsplit_store_find_for_profile(store, profile, why);
    covsplit_functions *functions = sidecar == NULL ? NULL : covsplit_functions_open(sidecar, why);
    FREED_BY(drop_merger)
    covsplit_merger *merger = functions == NULL ? NULL : covsplit_merger_new(NULL, why);
    const char *failed = store == NULL       ? "store"
                         : profile == NULL   ? "profile"
                         : sidecar == NULL   ? "sidecar"
                         : functions == NULL ? "functions"
                         : merger == NULL    ? "merger"
                                             : NULL;
    FREED_BY(drop_memory)
    char *path =
        failed != NULL ? NULL : covsplit_store_path(store, (const uint8_t *)ID, strlen(ID), why);
    FREED_BY(drop_memory)
    void *content =
        path == NULL ? NULL : covsplit_sidecar_read_part(sidecar, "__llvm_prf_names", 0, 4, why);
    size_t size;

    if (failed == NULL && content == NULL)
        failed = path == NULL ? "path" : "part";
    if (failed == NULL && covsplit_sidecar_content(sidecar, "__llvm_prf_data", &size, why) == NULL)
        failed = "content";
    if (failed == NULL && !(covsplit_merger_add_sidecar(merger, sidecar, why) &&
                            covsplit_merger_add(merger, profile, why)))
        failed = "add";
    covsplit_functions_close(functions);
    return failed;
}

/* It says so, and where there is no memory even for that, it has a message for that, too. */
START_TEST(test_no_memory)
{
    size_t refused = 0;
    const char *failed;

    memory_stays_refused = _i == 1;
    for (memory_granted = 0; (failed = call_all(&error)) != NULL; memory_granted = ++refused) {
        ck_assert_msg(covsplit_error_is_of_memory(error), "%s: %s", failed,
                      covsplit_error_message(error));
        ck_assert(strstr(covsplit_error_message(error), "libcovsplit: ") == NULL ||
                  memory_stays_refused);
        covsplit_error_free(error);
    }
    memory_granted = MEMORY_ALL;
    ck_assert_uint_gt(refused, 20);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");

    tcase_add_checked_fixture(all, prepare, release);
    suite_tests(all, test_placeholder, test_memory_limit, test_base_finder, test_part,
                test_restore_file, test_no_functions, test_byte_coverage, test_nameless,
                test_debug_info, test_paths, test_wrong_file, test_wrong_counters,
                test_visit_stops);
    suite_loops(all, 2, test_no_memory);
    return suite_main("reader_calls", all);
}
