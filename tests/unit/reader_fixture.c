/*
 * The fixture of the library's suites: see reader_fixture.h.
 */
#include "tests/unit/reader_fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/sidecar_sample.h"

static const uint8_t stub[PROFILE_STUB_ID_SIZE] = ID;
/* One chunk of 13 bytes, stored as it is. */
const char fixture_names[] = "\015\0main\1f1\1f2\1f3";

const struct profile_recipe full_recipe = {.raw_version = 10,
                                           .bitmap = true,
                                           .records = RECORDS,
                                           .counters_each = EACH,
                                           .binary_id = ID,
                                           .is_named = true};

static void write_file(const char *path, const struct buffer *bytes)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes->data, 1, bytes->size, file), bytes->size);
    fclose(file);
}

static void make_sidecar(struct fixture *fixture)
{
    struct sample *sample = sample_make(&sample_shapes[0]);
    struct buffer data = profile_make_data(&full_recipe, 0);
    struct section sections[] = {
        {.kind = SECTION_NAMES,
         .address = 0x100,
         .alignment = 1,
         .size = NAMES_SIZE,
         .content = {(const uint8_t *)fixture_names, NAMES_SIZE}},
        {.kind = SECTION_DATA,
         .address = 0x1000,
         .alignment = 8,
         .size = data.size,
         .content = buffer_view(&data)},
        {.kind = SECTION_COUNTERS,
         .address = 0x1000 + MAKER_COUNTERS_DISTANCE,
         .alignment = 8,
         .size = RECORDS * EACH * 8},
        {.kind = SECTION_BITMAP,
         .address = 0x1000 + MAKER_BITMAP_DISTANCE,
         .alignment = 1,
         .size = RECORDS * EACH},
    };
    /* It stays in the image. */
    const struct section mapping = {.kind = SECTION_COVMAP, .size = 8, .reason = ""};
    struct sidecar_source source = sample->source;

    store_u64(data.data, MAIN_HASH, false);
    source.sections = sections;
    source.section_count = sizeof(sections) / sizeof(sections[0]);
    source.kept = &mapping;
    source.kept_count = 1;
    source.facts.raw_version = 10;
    source.facts.has_stub = true;
    memcpy(source.facts.stub_id, stub, sizeof(stub));
    source.facts.pointer_size = 8;
    source.facts.uuid = (struct uuid){.size = strlen(ID)};
    source.facts.uuid_source = UUID_FROM_BUILD_ID;
    memcpy(source.facts.uuid.bytes, ID, strlen(ID));
    fixture->sidecar_bytes = sample_write(&source, 3, 1);
    buffer_free(&data);
    sample_free(sample);
}

void set_up(struct fixture *fixture)
{
    struct profile_recipe light = full_recipe;
    char path[64];

    *fixture = (struct fixture){.directory = "/tmp/covsplit-unit-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(fixture->directory));
    snprintf(path, sizeof(path), "%s/.build-id", fixture->directory);
    mkdir(path, 0755);
    snprintf(path, sizeof(path), "%s/.build-id/62", fixture->directory);
    mkdir(path, 0755);
    snprintf(fixture->sidecar, sizeof(fixture->sidecar), "%s/%s.covsplit", path, &ID_HEX[2]);
    snprintf(fixture->profile, sizeof(fixture->profile), "%s/profraw", fixture->directory);
    make_sidecar(fixture);
    write_file(fixture->sidecar, &fixture->sidecar_bytes);
    light.records = 1;
    light.stub_counters = RECORDS * EACH;
    light.stub = stub;
    fixture->profile_bytes = profile_make(&light);
    profile_set_counter(&fixture->profile_bytes, 5, 77);
    write_file(fixture->profile, &fixture->profile_bytes);
}

void tear_down(struct fixture *fixture)
{
    char path[64];

    unlink(fixture->sidecar);
    unlink(fixture->profile);
    snprintf(path, sizeof(path), "%s/.build-id/62", fixture->directory);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/.build-id", fixture->directory);
    rmdir(path);
    rmdir(fixture->directory);
    buffer_free(&fixture->sidecar_bytes);
    buffer_free(&fixture->profile_bytes);
}

void assert_message(covsplit_error *error, const char *part)
{
    ck_assert_ptr_nonnull(error);
    ck_assert_msg(strstr(covsplit_error_message(error), part) != NULL, "%s",
                  covsplit_error_message(error));
    covsplit_error_free(error);
}

bool collect(void *context, const void *data, size_t size)
{
    return buffer_append(context, data, size);
}

bool stop(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return false;
}
