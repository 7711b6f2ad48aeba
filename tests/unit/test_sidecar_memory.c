/*
 * Sidecars and memory: wherever it runs out while one is made, read, or turned into something else,
 * that is what is said; otherwise the same comes out as always.
 */
#include <stdlib.h>
#include <string.h>

#include "common/edit/edit.h"
#include "common/llvm/names.h"
#include "common/sidecar/object.h"
#include "common/sidecar/sidecar.h"
#include "tests/support/suite.h"
#include "tests/unit/refused_ways.h"
#include "tests/unit/section_maker.h"
#include "tests/unit/sidecar_sample.h"

#define SECTIONS      5
#define COUNTERS      (SECTIONS - 1) /* the place of the section without content */
#define COUNTERS_SIZE 8000
#define BLOCK_SIZE    1500
#define HEAD_SIZE     64

/* An image that is all sections but for its head, which is changed too. */
struct image {
    struct buffer original, stripped, inverse;
    struct edit_script script;
    struct section sections[SECTIONS];
    struct sidecar_source source;
    struct sidecar_write_options options;
    /* What comes of it where there is memory. */
    struct buffer file, object;
};

/* ---- the image ---- */

static bool append_part(void *context, struct bytes part, struct error *error)
{
    if (buffer_append(context, part.data, (size_t)part.size))
        return true;
    return error_out_of_memory(error, "part", part.size);
}

static void add_section(struct image *image, size_t number, enum section_kind kind,
                        struct buffer content)
{
    uint64_t offset = image->original.size;

    ck_assert(buffer_append(&image->original, content.data, content.size));
    image->sections[number] = (struct section){
        .kind = kind, .fate = FATE_REMOVED, .alignment = 8, .offset = offset, .size = content.size};
    buffer_free(&content);
}

static void make_sections(struct image *image)
{
    struct maker maker = maker_start(3);
    struct buffer data = maker_data(&maker, 10, 8, false);

    ck_assert(buffer_append_zeros(&image->original, HEAD_SIZE));
    add_section(image, 0, SECTION_COVFUN, maker_covfun(&maker, buffer_view(&data), false));
    add_section(image, 1, SECTION_COVMAP, maker_covmap(&maker, false));
    add_section(image, 2, SECTION_NAMES, maker_names(&maker));
    add_section(image, 3, SECTION_DATA, data);
    image->sections[COUNTERS] = (struct section){
        .kind = SECTION_COUNTERS, .address = 0x10000, .alignment = 8, .size = COUNTERS_SIZE};
    for (size_t i = 0; i < COUNTERS; i++)
        ck_assert(bytes_slice(buffer_view(&image->original), image->sections[i].offset,
                              image->sections[i].size, &image->sections[i].content));
}

/* The edit script, its result, and the inverse. */
static bool split(const struct image *image, struct edit_script *script, struct buffer *stripped,
                  struct buffer *inverse, struct error *error)
{
    struct bytes original = buffer_view(&image->original);
    const struct input input = {.path = "image", .bytes = original};
    const struct section *first = image->sections, *data = first + COUNTERS - 1;
    bool done;

    edit_script_init(script, original.size);
    done = edit_cut(script, first->offset, data->offset - first->offset) &&
           edit_replace_by_zeros(script, data->offset, data->size, data->size) &&
           edit_overwrite_differences(script, original, 0,
                                      (struct bytes){(const uint8_t *)"split", 5});
    if (!done)
        script->has_no_memory = true;
    return edit_script_finish(script, "image", error) &&
           edit_script_stream(script, &input, append_part, stripped, error) &&
           inverse_encode(script, original, image->sections, SECTIONS, "image", inverse, error);
}

static void describe(struct image *image)
{
    struct sidecar_facts *facts = &image->source.facts;

    image->source = (struct sidecar_source){.facts = {.format = IMAGE_ELF,
                                                      .elf_class = 2,
                                                      .elf_data = 1,
                                                      .elf_type = 3,
                                                      .machine = 62,
                                                      .raw_version = 10,
                                                      .uuid_source = UUID_FROM_BUILD_ID,
                                                      .pointer_size = 8},
                                            .image_name = "image",
                                            .sections = image->sections,
                                            .section_count = SECTIONS,
                                            .inverse = buffer_view(&image->inverse)};
    facts->original_size = image->original.size;
    facts->original_digest = digest_of(buffer_view(&image->original));
    facts->stripped_size = image->stripped.size;
    facts->stripped_digest = digest_of(buffer_view(&image->stripped));
    ck_assert(uuid_parse(SAMPLE_UUID, &facts->uuid));
}

/* The forms that a sidecar may have. */
static const struct sidecar_write_options forms[] = {
    {.level = 8, .threads = 1},
    {.level = 3, .threads = 1, .portable = true},
    {.level = 1, .threads = 1, .block_size = BLOCK_SIZE},
};

#define FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

static struct image *make_image(int form)
{
    struct image *image = calloc(1, sizeof(*image));
    struct error error = {0};

    ck_assert_ptr_nonnull(image);
    make_sections(image);
    ck_assert_msg(split(image, &image->script, &image->stripped, &image->inverse, &error), "%s",
                  error.message);
    describe(image);
    image->options = forms[form];
    return image;
}

static void free_image(struct image *image)
{
    edit_script_free(&image->script);
    buffer_free(&image->original);
    buffer_free(&image->stripped);
    buffer_free(&image->inverse);
    buffer_free(&image->file);
    buffer_free(&image->object);
    free(image);
}

/* Whether something was done; then with this result, and otherwise for want of memory. */
static bool was_done(bool done, const struct error *error, struct buffer *made,
                     const struct buffer *expected)
{
    if (done)
        ck_assert(expected == NULL || bytes_equal(buffer_view(made), buffer_view(expected)));
    else
        expect_memory(error);
    buffer_free(made);
    return done;
}

/* ---- making ---- */

static bool try_split(void *subject)
{
    const struct image *image = subject;
    struct buffer stripped = {0}, inverse = {0};
    struct error error = {0};
    struct edit_script script;
    bool done = split(image, &script, &stripped, &inverse, &error);

    edit_script_free(&script);
    was_done(done, &error, &inverse, &image->inverse);
    return was_done(done, &error, &stripped, &image->stripped);
}

/* What was written to an output that is in memory. Discards it. */
static bool take_output(struct output *output, bool done, struct buffer *made, struct error *error)
{
    struct input input = {0};

    done = done && output_map(output, &input, error) && append_part(made, input.bytes, error);
    input_close(&input);
    output_discard(output);
    return done;
}

/* The same into an output, with digests. */
static bool try_apply(void *subject)
{
    const struct image *image = subject;
    const struct sidecar_facts *facts = &image->source.facts;
    const struct input input = {.path = "image", .bytes = buffer_view(&image->original)};
    struct output output = {0};
    struct buffer made = {0};
    struct digest original, stripped, again;
    struct error error = {0};
    bool done = output_create_in_memory(&output, "stripped", &error) &&
                edit_script_apply(&image->script, &input, &output, &original, &stripped, &error) &&
                input_digest(&input, &again, &error);

    if (done)
        ck_assert(digest_equal(&original, &facts->original_digest) &&
                  digest_equal(&again, &facts->original_digest) &&
                  digest_equal(&stripped, &facts->stripped_digest));
    done = take_output(&output, done, &made, &error);
    return was_done(done, &error, &made, &image->stripped);
}

static bool write_sidecar(const struct image *image, struct buffer *made, struct error *error)
{
    struct output output = {0};
    bool done = output_create_in_memory(&output, "sidecar", error) &&
                sidecar_write(&image->source, &image->options, &output, error);

    return take_output(&output, done, made, error);
}

static bool try_write(void *subject)
{
    const struct image *image = subject;
    struct buffer made = {0};
    struct error error = {0};
    bool done = write_sidecar(image, &made, &error);

    return was_done(done, &error, &made, &image->file);
}

START_TEST(test_make)
{
    struct image *image = make_image(_i);
    struct error error = {0};

    refuse_each_way(try_split, image);
    refuse_each_way(try_apply, image);
    ck_assert_msg(write_sidecar(image, &image->file, &error), "%s", error.message);
    refuse_each_way(try_write, image);
    free_image(image);
}
END_TEST

/* ---- reading ---- */

static bool read_sections(const struct image *image, const struct sidecar *sidecar,
                          struct error *error)
{
    bool done = true;

    for (size_t i = 0; done && i < COUNTERS; i++) {
        const struct section *section = sidecar_find(sidecar, image->sections[i].kind);
        struct bytes expected = image->sections[i].content;
        struct buffer whole = {0}, part = {0}, stream = {0};

        done = sidecar_read_section(sidecar, section, &whole, error) &&
               sidecar_stream_section(sidecar, section, append_part, &stream, error) &&
               sidecar_read_part(sidecar, section, section->size / 2, 1, &part, error);
        if (done) {
            ck_assert(bytes_equal(buffer_view(&whole), expected));
            ck_assert(bytes_equal(buffer_view(&stream), expected));
            ck_assert(part.data[0] == expected.data[section->size / 2]);
        }
        buffer_free(&whole);
        buffer_free(&part);
        buffer_free(&stream);
    }
    return done;
}

static bool read_names(const struct sidecar *sidecar, struct error *error)
{
    struct names names = {0};
    bool done = sidecar_read_names(sidecar, sidecar_find(sidecar, SECTION_NAMES), &names, error);

    names_free(&names);
    return done;
}

/* The names first or the sections: those that come first keep what others need. */
static bool try_read_all(const struct image *image, bool names_first)
{
    const struct input stripped = input_of_bytes(buffer_view(&image->stripped), "stripped");
    struct error error = {0};
    struct buffer original = {0};
    struct sidecar *sidecar = sidecar_open(buffer_view(&image->file), "sidecar", &error);
    bool done = sidecar != NULL && (!names_first || read_names(sidecar, &error)) &&
                read_sections(image, sidecar, &error) && read_names(sidecar, &error) &&
                sidecar_verify(sidecar, &error) &&
                sidecar_restore(sidecar, &stripped, append_part, &original, &error);

    sidecar_close(sidecar);
    return was_done(done, &error, &original, &image->original);
}

static bool try_read(void *subject)
{
    return try_read_all(subject, false);
}

static bool try_read_names_first(void *subject)
{
    return try_read_all(subject, true);
}

/* Without anything that was read before. */
static bool try_restore(void *subject)
{
    const struct image *image = subject;
    const struct input stripped = input_of_bytes(buffer_view(&image->stripped), "stripped");
    struct error error = {0};
    struct buffer original = {0};
    struct sidecar *sidecar = sidecar_open(buffer_view(&image->file), "sidecar", &error);
    bool done =
        sidecar != NULL && sidecar_restore(sidecar, &stripped, append_part, &original, &error);

    sidecar_close(sidecar);
    return was_done(done, &error, &original, &image->original);
}

/* Makes an object, and reads what it says. */
static bool export(const struct image *image, struct buffer *made, struct error *error)
{
    struct sidecar *sidecar = sidecar_open(buffer_view(&image->file), "sidecar", error);
    struct object_facts facts = {0};
    bool done = sidecar != NULL && object_write(sidecar, append_part, made, error) &&
                object_read(buffer_view(made), "object", &facts, error);

    sidecar_close(sidecar);
    return done;
}

static bool try_export(void *subject)
{
    const struct image *image = subject;
    struct buffer made = {0};
    struct error error = {0};
    bool done = export(image, &made, &error);

    return was_done(done, &error, &made, &image->object);
}

/* To the form after this one. */
static bool try_repack(void *subject)
{
    const struct image *image = subject;
    const struct sidecar_write_options *to =
        &forms[image->options.portable || image->options.block_size != 0 ? 0 : 1];
    struct output output = {0};
    struct buffer made = {0};
    struct error error = {0};
    struct sidecar *sidecar = sidecar_open(buffer_view(&image->file), "sidecar", &error);
    bool done = sidecar != NULL && output_create_in_memory(&output, "repacked", &error) &&
                sidecar_repack(sidecar, to, &output, &error);

    done = take_output(&output, done, &made, &error);
    sidecar_close(sidecar);
    return was_done(done, &error, &made, NULL);
}

START_TEST(test_use)
{
    struct image *image = make_image(_i);
    struct error error = {0};

    ck_assert_msg(write_sidecar(image, &image->file, &error), "%s", error.message);
    ck_assert_msg(export(image, &image->object, &error), "%s", error.message);
    refuse_each_way(try_restore, image);
    refuse_each_way(try_read, image);
    refuse_each_way(try_read_names_first, image);
    refuse_each_way(try_export, image);
    refuse_each_way(try_repack, image);
    free_image(image);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);

    suite_loops(all, FORMS, test_make, test_use);
    return suite_main("sidecar_memory", all);
}
