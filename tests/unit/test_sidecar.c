/*
 * Sidecars that are sound: what was written is read, whatever the class and byte order, and the
 * original comes back.
 */
#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "common/sidecar/sidecar.h"
#include "tests/support/suite.h"
#include "tests/unit/sidecar_sample.h"

/* What was written is read as it was, and restores the original. Frees both. */
static void assert_sound(struct sample *sample, struct buffer file)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    struct error error = {0};

    ck_assert_uint_eq(sidecar->format_version, SIDECAR_FORMAT_VERSION);
    ck_assert(sample_agrees(sample, sidecar));
    ck_assert_msg(sidecar_verify(sidecar, &error), "%s", error.message);
    ck_assert(sample_restores(sample, sidecar));
    buffer_free(&file);
    sample_free(sample);
}

START_TEST(test_round_trip)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct buffer file = sample_write(&sample->source, 9, 1);
    struct sidecar *sidecar = sample_open(&file);

    ck_assert(sidecar_recognize(buffer_view(&file)));
    ck_assert_str_eq(sidecar->name, "sample");
    ck_assert_ptr_null(sidecar_find(sidecar, SECTION_COVNAMES));
    sidecar_close(sidecar);
    assert_sound(sample, file);
}
END_TEST

/* A section that stayed in the image may be stored all the same: what restores does not care. */
START_TEST(test_copied_section)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);
    struct section sections[SAMPLE_SECTIONS + 1];

    memcpy(sections, sample->sections, sizeof(sample->sections));
    sections[SAMPLE_SECTIONS] = sections[0];
    sections[SAMPLE_SECTIONS].kind = SECTION_COVNAMES;
    sections[SAMPLE_SECTIONS].fate = FATE_COPIED;
    sample->source.sections = sections;
    sample->source.section_count = SAMPLE_SECTIONS + 1;
    sample->kept.kind = SECTION_COVNAMES;
    assert_sound(sample, sample_write(&sample->source, 9, 1));
}
END_TEST

/* The sample's data have no sense, but the form of data; its other sections have none. */
START_TEST(test_compact_round_trip)
{
    struct sample *sample = sample_make(&sample_shapes[_i]);

    assert_sound(sample, sample_write_compact(&sample->source));
}
END_TEST

/* libelf wants its structures aligned; a caller's memory need not be. */
START_TEST(test_unaligned_memory)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[_i]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);

    for (size_t shift = 1; shift < 8; shift++) {
        FREED_BY(buffer_free) struct buffer moved = {0};
        struct error error = {0};
        FREED_BY(drop_sidecar) struct sidecar *sidecar;

        ck_assert(buffer_append_zeros(&moved, shift));
        ck_assert(buffer_append(&moved, file.data, file.size));
        sidecar = sidecar_open((struct bytes){moved.data + shift, file.size}, "unaligned", &error);
        ck_assert_msg(sidecar != NULL, "%s", error.message);
        ck_assert(sample_agrees(sample, sidecar));
        ck_assert(sample_restores(sample, sidecar));
    }
}
END_TEST

/* Large enough for the writer to use all four threads. */
START_TEST(test_threads_change_nothing)
{
    const size_t size = (size_t)160 << 20;
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    uint8_t *large = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FREED_BY(buffer_free) struct buffer one, two, four;

    ck_assert(large != MAP_FAILED);
    for (size_t i = 0; i < size; i += 1 + i % 4093)
        large[i] = (uint8_t)(i >> 7);
    sample->sections[1].size = size;
    sample->sections[1].content = (struct bytes){large, size};
    one = sample_write(&sample->source, 1, 1);
    two = sample_write(&sample->source, 1, 2);
    four = sample_write(&sample->source, 1, 4);
    ck_assert(bytes_equal(buffer_view(&one), buffer_view(&two)));
    ck_assert(bytes_equal(buffer_view(&one), buffer_view(&four)));
    munmap(large, size);
}
END_TEST

/* ---- restoring ---- */

static bool restore(const struct sidecar *sidecar, struct bytes stripped, const char *name,
                    bytes_sink sink, void *context, struct error *error)
{
    const struct input input = input_of_bytes(stripped, name);

    return sidecar_restore(sidecar, &input, sink, context, error);
}

START_TEST(test_refuses_another_image)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 9, 1);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    char text[DIGEST_HEX_MAX];
    struct error error = {0};
    struct digest wrong;

    sample->stripped.data[sample->stripped.size - 1] ^= 1;
    wrong = digest_of(buffer_view(&sample->stripped));
    ck_assert(
        !restore(sidecar, buffer_view(&sample->stripped), "other", sample_ignore, NULL, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "other: "));
    ck_assert_ptr_nonnull(strstr(error.message, SAMPLE_UUID));
    ck_assert_ptr_nonnull(strstr(error.message, digest_format(&wrong, text)));
    ck_assert_ptr_nonnull(
        strstr(error.message, digest_format(&sample->source.facts.stripped_digest, text)));
    ck_assert(!restore(sidecar, (struct bytes){0}, "nothing", sample_ignore, NULL, &error));
}
END_TEST

/* A sidecar made with a wrong digest of the original: the last check of all. */
START_TEST(test_original_is_checked)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file;
    FREED_BY(drop_sidecar) struct sidecar *sidecar;

    sample->source.facts.original_digest.bytes[3] ^= 1;
    file = sample_write(&sample->source, 9, 1);
    sidecar = sample_open(&file);
    ck_assert(!sample_restores(sample, sidecar));
}
END_TEST

/* ---- what cannot be written ---- */

START_TEST(test_refuses_unsound_sources)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    struct sidecar_source source = sample->source;

    source.facts.uuid.size = 0;
    sample_write_refused(&source);
    source = sample->source;
    sample->sections[1].kind = SECTION_COVMAP;
    sample_write_refused(&source);
    sample->sections[1].kind = SECTION_COVFUN;
    sample->sections[2].alignment = 3;
    sample_write_refused(&source);
    sample->sections[2].alignment = 1;
    sample->sections[2].size++;
    sample_write_refused(&source);
}
END_TEST

START_TEST(test_32_bits_hold_no_more)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[1]);
    struct buffer file;
    struct sidecar *sidecar;

    sample->sections[2].address = UINT32_MAX;
    file = sample_write(&sample->source, 3, 1);
    sidecar = sample_open(&file);
    ck_assert(sample_agrees(sample, sidecar));
    sidecar_close(sidecar);
    buffer_free(&file);
    sample->sections[2].address++;
    ck_assert_ptr_nonnull(strstr(sample_write_refused(&sample->source), "32-bit"));
}
END_TEST

/* ---- comparing ---- */

/* What is changed, by its place in the facts or in a section, and by which bits. */
static const struct {
    int section; /* -1: the facts */
    size_t offset;
    uint8_t bits;
} changes[] = {
    {-1, offsetof(struct sidecar_facts, format), 2},
    {-1, offsetof(struct sidecar_facts, elf_class), 3},
    {-1, offsetof(struct sidecar_facts, elf_data), 3},
    {-1, offsetof(struct sidecar_facts, elf_type), 1},
    {-1, offsetof(struct sidecar_facts, machine), 1},
    {-1, offsetof(struct sidecar_facts, raw_version), 1},
    {-1, offsetof(struct sidecar_facts, uuid.bytes), 1},
    {-1, offsetof(struct sidecar_facts, uuid_source), 3},
    {-1, offsetof(struct sidecar_facts, original_size), 1},
    {-1, offsetof(struct sidecar_facts, original_digest), 1},
    {-1, offsetof(struct sidecar_facts, stripped_size), 1},
    {-1, offsetof(struct sidecar_facts, stripped_digest), 1},
    {-1, offsetof(struct sidecar_facts, has_stub), 1},
    {-1, offsetof(struct sidecar_facts, is_placeholder), 1},
    {3, offsetof(struct section, address), 8},
    {3, offsetof(struct section, alignment), 24},
    {3, offsetof(struct section, fate), FATE_COPIED},
    {4, offsetof(struct section, size), 8},
};

static bool is_same(const struct sidecar_source *source, const struct sidecar *other)
{
    FREED_BY(buffer_free) struct buffer file = sample_write(source, 1, 1);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);

    return sidecar_holds_same(sidecar, other) && sidecar_holds_same(other, sidecar);
}

/* Little endian, as all machines that this is built for. */
START_TEST(test_other_contents)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write_compact(&sample->source);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    uint8_t *changed = changes[_i].section < 0 ? (uint8_t *)&sample->source.facts
                                               : (uint8_t *)&sample->sections[changes[_i].section];

    ck_assert(is_same(&sample->source, sidecar));
    changed[changes[_i].offset] ^= changes[_i].bits;
    ck_assert(!is_same(&sample->source, sidecar));
}
END_TEST

/* A section less, another content, and another inverse script. */
START_TEST(test_other_bytes)
{
    FREED_BY(drop_sample) struct sample *sample = sample_make(&sample_shapes[0]);
    FREED_BY(buffer_free) struct buffer file = sample_write(&sample->source, 3, 1);
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);

    sample->source.section_count--;
    ck_assert(!is_same(&sample->source, sidecar));
    sample->source.section_count++;
    sample->source.inverse.size--;
    ck_assert(!is_same(&sample->source, sidecar));
    sample->source.inverse.size++;
    sample->inverse.data[sample->inverse.size - 1] ^= 1;
    ck_assert(!is_same(&sample->source, sidecar));
    sample->inverse.data[sample->inverse.size - 1] ^= 1;
    ck_assert(is_same(&sample->source, sidecar));
    sample->original.data[sample->sections[1].offset] ^= 1;
    ck_assert(!is_same(&sample->source, sidecar));
}
END_TEST

int main(void)
{
    TCase *sound = suite_case("sound", 120, NULL);
    suite_loops(sound, SAMPLE_SHAPES, test_round_trip, test_compact_round_trip, test_copied_section,
                test_unaligned_memory);
    suite_tests(sound, test_threads_change_nothing);
    TCase *restoring = tcase_create("restoring");
    suite_tests(restoring, test_refuses_another_image, test_original_is_checked);
    TCase *writing = tcase_create("writing");
    suite_tests(writing, test_refuses_unsound_sources, test_32_bits_hold_no_more);
    TCase *comparing = tcase_create("comparing");
    suite_loops(comparing, (int)(sizeof(changes) / sizeof(changes[0])), test_other_contents);
    suite_tests(comparing, test_other_bytes);
    return suite_main("sidecar", sound, restoring, writing, comparing);
}
