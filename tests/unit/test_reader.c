/*
 * The library as its users see it: only its public header, linked from the shared object.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/covsplit.h"
#include "tests/support/suite.h"
#include "tests/unit/sidecar_sample.h"

static const char *message_of(covsplit_error *error)
{
    ck_assert_ptr_nonnull(error);
    return covsplit_error_message(error);
}

static covsplit_sidecar *open_memory(const struct buffer *file)
{
    covsplit_error *error = NULL;
    covsplit_sidecar *sidecar =
        covsplit_sidecar_open_memory(file->data, file->size, "memory", &error);

    ck_assert_msg(sidecar != NULL, "%s", error == NULL ? "" : covsplit_error_message(error));
    ck_assert_ptr_null(error);
    return sidecar;
}

START_TEST(test_facts)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct buffer file = sample_write(&sample->source, 9, 1);
    covsplit_sidecar *sidecar = open_memory(&file);
    const struct sidecar_facts *facts = &sample->source.facts;
    const uint8_t *uuid;
    size_t size = 0;

    ck_assert(covsplit_is_sidecar(file.data, file.size));
    ck_assert(!covsplit_is_sidecar(sample->original.data, sample->original.size));
    ck_assert(!covsplit_is_sidecar(NULL, 0));
    uuid = covsplit_sidecar_uuid(sidecar, &size);
    ck_assert_uint_eq(size, facts->uuid.size);
    ck_assert_mem_eq(uuid, facts->uuid.bytes, size);
    ck_assert_str_eq(covsplit_sidecar_format(sidecar), "ELF");
    ck_assert_uint_eq(covsplit_sidecar_machine(sidecar), facts->machine);
    ck_assert_uint_eq(covsplit_sidecar_raw_version(sidecar), facts->raw_version);
    ck_assert_uint_eq(covsplit_sidecar_original_size(sidecar), facts->original_size);
    ck_assert_uint_eq(covsplit_sidecar_stripped_size(sidecar), facts->stripped_size);
    ck_assert(!covsplit_sidecar_is_placeholder(sidecar));
    ck_assert(covsplit_sidecar_verify(sidecar, NULL));
    covsplit_sidecar_close(sidecar);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

START_TEST(test_sections)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct buffer file = sample_write(&sample->source, 9, 1);
    covsplit_sidecar *sidecar = open_memory(&file);
    covsplit_section section;

    ck_assert_uint_eq(covsplit_sidecar_section_count(sidecar), SAMPLE_SECTIONS);
    ck_assert(!covsplit_sidecar_section(sidecar, SAMPLE_SECTIONS, &section));
    for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
        const struct section *made = &sample->sections[i];
        covsplit_error *error = NULL;
        size_t size = 0;
        void *content;

        ck_assert(covsplit_sidecar_section(sidecar, i, &section));
        ck_assert_str_eq(section.name, section_kind_name(made->kind));
        ck_assert_uint_eq(section.address, made->address);
        ck_assert_uint_eq(section.size, made->size);
        content = covsplit_sidecar_read(sidecar, section.name, &size, &error);
        ck_assert((content != NULL) == (section.stored_size != 0));
        if (content != NULL) {
            ck_assert_uint_eq(size, made->size);
            ck_assert_mem_eq(content, made->content.data, size);
        } else {
            ck_assert_ptr_nonnull(strstr(message_of(error), "memory: "));
        }
        covsplit_error_free(error);
        free(content);
    }
    covsplit_sidecar_close(sidecar);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

START_TEST(test_absent_section)
{
    static const char *const absent[] = {"__llvm_covnames", ".text", "", ".covsplit.inverse"};
    struct sample *sample = sample_make(&sample_shapes[0]);
    struct buffer file = sample_write(&sample->source, 9, 1);
    covsplit_sidecar *sidecar = open_memory(&file);

    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        covsplit_error *error = NULL;
        size_t size;

        ck_assert_ptr_null(covsplit_sidecar_read(sidecar, absent[i], &size, &error));
        ck_assert_ptr_nonnull(strstr(message_of(error), "has no section"));
        covsplit_error_free(error);
        ck_assert_ptr_null(covsplit_sidecar_read(sidecar, absent[i], &size, NULL));
    }
    covsplit_sidecar_close(sidecar);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

/* An empty section is there, and is not NULL. */
START_TEST(test_empty_section)
{
    struct sample *sample = sample_make(&sample_shapes[0]);
    struct buffer file;
    covsplit_sidecar *sidecar;
    size_t size = 1;
    void *content;

    sample->sections[2].size = 0;
    sample->sections[2].content.size = 0;
    file = sample_write(&sample->source, 9, 1);
    sidecar = open_memory(&file);
    content = covsplit_sidecar_read(sidecar, "__llvm_prf_names", &size, NULL);
    ck_assert_ptr_nonnull(content);
    ck_assert_uint_eq(size, 0);
    free(content);
    covsplit_sidecar_close(sidecar);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

START_TEST(test_files)
{
    char path[] = "/tmp/covsplit-unit-XXXXXX";
    struct sample *sample = sample_make(&sample_shapes[0]);
    struct buffer file = sample_write(&sample->source, 9, 1);
    covsplit_sidecar *sidecar;
    covsplit_error *error = NULL;
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, file.data, file.size), (ssize_t)file.size);
    close(fd);
    sidecar = covsplit_sidecar_open(path, &error);
    ck_assert_ptr_nonnull(sidecar);
    ck_assert_int_eq(open("/dev/null", O_RDONLY), fd); /* no descriptor is taken */
    close(fd);
    ck_assert(covsplit_sidecar_verify(sidecar, &error));
    covsplit_sidecar_close(sidecar);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_ptr_null(covsplit_sidecar_open(path, &error));
    ck_assert_ptr_nonnull(strstr(message_of(error), path));
    covsplit_error_free(error);
    unlink(path);
    ck_assert_ptr_null(covsplit_sidecar_open(path, &error));
    ck_assert_ptr_nonnull(strstr(message_of(error), path));
    covsplit_error_free(error);
    ck_assert_ptr_null(covsplit_sidecar_open(path, NULL));
    covsplit_error_free(NULL);
    covsplit_sidecar_close(NULL);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

static bool collect(void *context, const void *data, size_t size)
{
    return buffer_append(context, data, size);
}

static bool stop(void *context, const void *data, size_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return false;
}

START_TEST(test_restore)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct buffer file = sample_write(&sample->source, 9, 1), restored = {0};
    covsplit_sidecar *sidecar = open_memory(&file);
    covsplit_error *error = NULL;

    ck_assert(covsplit_sidecar_restore(sidecar, sample->stripped.data, sample->stripped.size,
                                       "stripped", collect, &restored, &error));
    ck_assert(bytes_equal(buffer_view(&restored), buffer_view(&sample->original)));
    ck_assert(!covsplit_sidecar_restore(sidecar, sample->stripped.data, sample->stripped.size,
                                        "stripped", stop, NULL, &error));
    ck_assert_ptr_nonnull(strstr(message_of(error), "stopped"));
    covsplit_error_free(error);
    sample->stripped.data[0] ^= 1;
    ck_assert(!covsplit_sidecar_restore(sidecar, sample->stripped.data, sample->stripped.size,
                                        "stripped", collect, &restored, &error));
    ck_assert_ptr_nonnull(strstr(message_of(error), SAMPLE_UUID));
    covsplit_error_free(error);
    covsplit_sidecar_close(sidecar);
    buffer_free(&restored);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

START_TEST(test_export)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct buffer file = sample_write(&sample->source, 9, 1), object = {0};
    covsplit_sidecar *sidecar = open_memory(&file);
    covsplit_error *error = NULL;

    ck_assert_str_eq(covsplit_sidecar_image_name(sidecar), "sample-image");
    ck_assert(!covsplit_is_object(file.data, file.size));
    ck_assert(covsplit_sidecar_export(sidecar, collect, &object, &error));
    ck_assert(covsplit_is_object(object.data, object.size));
    ck_assert(!covsplit_is_sidecar(object.data, object.size));
    ck_assert(!covsplit_sidecar_export(sidecar, stop, NULL, &error));
    ck_assert_ptr_nonnull(strstr(message_of(error), "stopped"));
    covsplit_error_free(error);
    covsplit_sidecar_close(sidecar);
    buffer_free(&object);
    buffer_free(&file);
    sample_free(sample);
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_loops(all, SAMPLE_SHAPES, test_facts);
    suite_loops(all, SAMPLE_SHAPES, test_sections);
    suite_tests(all, test_absent_section, test_empty_section, test_files);
    suite_loops(all, SAMPLE_SHAPES, test_restore, test_export);
    return suite_main("reader", all);
}
