/*
 * The library as its users see it: only its public header, linked from the shared object.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/covsplit.h"
#include "tests/support/suite.h"
#include "tests/unit/sidecar_sample.h"

DEFINE_DROP(drop_opened_sidecar, covsplit_sidecar, covsplit_sidecar_close)

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
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar = open_memory(&file);
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
}
END_TEST

START_TEST(test_sections)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);
    FREED_BY(drop_opened_sidecar) covsplit_sidecar *sidecar = open_memory(&file);
    covsplit_section section;

    ck_assert_uint_eq(covsplit_sidecar_section_count(sidecar), SAMPLE_SECTIONS);
    ck_assert(!covsplit_sidecar_section(sidecar, SAMPLE_SECTIONS, &section));
    for (size_t i = 0; i < SAMPLE_SECTIONS; i++) {
        const struct section *made = &sample->sections[i];
        covsplit_error *error = NULL;
        size_t size = 0;
        FREED_BY(drop_memory) void *content;

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
    }
}
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    suite_loops(all, SAMPLE_SHAPES, test_facts);
    suite_loops(all, SAMPLE_SHAPES, test_sections);
    return suite_main("reader", all);
}
