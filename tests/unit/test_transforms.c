/*
 * The compact codec: whatever a section holds, it comes back bit for bit or is not taken; and
 * whatever a sidecar holds, it gives a section or an error.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/codec/mapping/mapping.h"
#include "common/codec/names/names.h"
#include "common/codec/transform.h"
#include "common/llvm/profile.h"
#include "tests/support/suite.h"
#include "tests/unit/refused_ways.h"
#include "tests/unit/section_maker.h"

#define WHAT         "sample: the section"
#define MEMORY_SEEDS 8
#define FIRST_BYTES  12
#define TOO_LARGE    32

/* A section and what it needs of others. */
struct subject {
    const struct transform *transform;
    struct transform_context context;
    struct buffer section;
    struct buffer data;
    struct names names;
};

/* ---- what is made, and its streams ---- */

static void make_names(struct subject *subject, uint64_t seed)
{
    struct maker maker = maker_start(seed);

    *subject = (struct subject){.transform = transform_for(SECTION_NAMES, false),
                                .context = {.pointer_size = 8, .threads = 2},
                                .section = maker_names(&maker)};
}

/* Names as they come out of a section of them. */
static void take_names(struct subject *subject, struct maker *maker)
{
    struct buffer text = {0};

    for (size_t i = 0; i < maker->name_count; i++) {
        ck_assert(buffer_append(&text, maker->names[i], strlen(maker->names[i])));
        ck_assert(buffer_append(&text, "\1", 1));
    }
    ck_assert_int_eq(names_take_text(&subject->names, &text), RESULT_OK);
    ck_assert(names_index(&subject->names, 1));
    subject->context.names = &subject->names;
}

static void make_data_of(struct subject *subject, uint64_t seed, uint64_t raw_version)
{
    struct maker maker = maker_start(seed);

    *subject = (struct subject){
        .transform = transform_for(SECTION_DATA, false),
        .context = {.raw_version = raw_version,
                    .pointer_size = seed % 3 == 0 ? 4 : 8,
                    .big_endian = seed % 7 == 0,
                    .threads = 2},
    };

    subject->section = maker_data(&maker, subject->context.raw_version,
                                  subject->context.pointer_size, subject->context.big_endian);
    take_names(subject, &maker);
}

static void make_data(struct subject *subject, uint64_t seed)
{
    static const uint64_t versions[] = {7, 8, 9, 10, 10 | PROFILE_VARIANT_BYTE_COVERAGE};

    make_data_of(subject, seed, versions[seed % 5]);
}

static void make_data_11(struct subject *subject, uint64_t seed)
{
    make_data_of(subject, seed, seed % 5 == 0 ? 11 | PROFILE_VARIANT_BYTE_COVERAGE : 11);
}

static void make_covmap(struct subject *subject, uint64_t seed)
{
    struct maker maker = maker_start(seed);
    bool big_endian = seed % 7 == 0;

    *subject = (struct subject){.transform = transform_for(SECTION_COVMAP, false),
                                .context = {.big_endian = big_endian, .threads = 2},
                                .section = maker_covmap(&maker, big_endian)};
}

static void make_covfun(struct subject *subject, uint64_t seed)
{
    struct maker maker = maker_start(seed);
    bool big_endian = seed % 7 == 0;

    *subject = (struct subject){
        .transform = transform_for(SECTION_COVFUN, false),
        .context = {.big_endian = big_endian, .pointer_size = 8, .raw_version = 10},
    };
    take_names(subject, &maker);
    subject->data = maker_data(&maker, 10, 8, big_endian);
    subject->section = maker_covfun(&maker, buffer_view(&subject->data), big_endian);
    subject->context.data = buffer_view(&subject->data);
}

static void make_covfun_blocks(struct subject *subject, uint64_t seed)
{
    make_covfun(subject, seed);
    subject->transform = transform_for(SECTION_COVFUN, true);
    subject->context.block_size = 1000 + 97 * (seed % 40);
    subject->context.threads = (unsigned)(seed % 4);
}

/* The subject points into itself: it stays where it was made. */
typedef void (*subject_maker)(struct subject *subject, uint64_t seed);

/* The last one has no streams of its own. */
static const subject_maker makers[] = {make_names,  make_data,   make_data_11,
                                       make_covmap, make_covfun, make_covfun_blocks};

#define MAKERS ((int)(sizeof(makers) / sizeof(makers[0])))

static void free_subject(struct subject *subject)
{
    buffer_free(&subject->section);
    buffer_free(&subject->data);
    names_free(&subject->names);
}

static bool encode(const struct subject *subject, struct buffer *packed)
{
    const struct codec_options options = {.level = 3, .threads = 2};
    struct error error = {0};
    bool fits;

    ck_assert_msg(codec_encode(subject->transform, &subject->context,
                               buffer_view(&subject->section), &options, "sample", packed, &fits,
                               &error),
                  "%s", error.message);
    return fits;
}

static bool decode(const struct subject *subject, struct bytes packed, uint64_t size,
                   struct buffer *section)
{
    struct error error = {0};
    bool done =
        codec_decode(subject->transform, &subject->context,
                     &(struct packed){packed, size, "sample", "the section"}, section, &error);

    ck_assert(done || strncmp(error.message, WHAT, strlen(WHAT)) == 0);
    return done;
}

/* ---- sections ---- */

static bool comes_back(const struct subject *subject)
{
    struct buffer packed = {0}, again = {0};
    bool fits = encode(subject, &packed);

    if (fits) {
        ck_assert(decode(subject, buffer_view(&packed), subject->section.size, &again));
        ck_assert_uint_eq(again.size, subject->section.size);
        ck_assert_mem_eq(again.data, subject->section.data, again.size);
    }
    buffer_free(&packed);
    buffer_free(&again);
    return fits;
}

START_TEST(test_comes_back)
{
    int fitted = 0;

    for (uint64_t seed = 0; seed < 300; seed++) {
        struct subject subject;

        makers[_i](&subject, seed);

        fitted += comes_back(&subject);
        free_subject(&subject);
    }
    /* The smallest do not become smaller. */
    ck_assert_int_ge(fitted, 200);
}
END_TEST

START_TEST(test_changed_section)
{
    struct random_state random = random_start(1);

    for (uint64_t seed = 0; seed < rounds(200); seed++) {
        struct subject subject;

        makers[_i](&subject, seed);

        for (unsigned changes = 1; changes < 40; changes *= 3) {
            for (unsigned i = 0; i < changes; i++)
                subject.section.data[random_below(&random, subject.section.size)] ^=
                    (uint8_t)(1 << random_below(&random, 8));
            comes_back(&subject);
        }
        subject.section.size = (size_t)random_below(&random, subject.section.size);
        if (subject.section.size != 0)
            comes_back(&subject);
        free_subject(&subject);
    }
}
END_TEST

/* What only a GPU's code has in its records has no stream: such data is stored otherwise. */
START_TEST(test_data_of_device)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct profile_record_layout layout;
        struct subject subject;

        make_data_11(&subject, seed);
        ck_assert(profile_record_layout(subject.context.raw_version, subject.context.pointer_size,
                                        &layout));
        if (comes_back(&subject)) {
            subject.section.data[layout.offload_device_wave_size] ^= 64;
            ck_assert(!comes_back(&subject));
            subject.section.data[layout.offload_device_wave_size] ^= 64;
            subject.section.data[layout.uniform_counter_ptr] ^= 1;
            ck_assert(!comes_back(&subject));
        }
        free_subject(&subject);
    }
}
END_TEST

START_TEST(test_noise)
{
    struct random_state random = random_start(2);

    for (uint64_t seed = 0; seed < rounds(100); seed++) {
        struct subject subject;

        makers[_i](&subject, seed);

        for (size_t i = 0; i < subject.section.size; i++)
            subject.section.data[i] = (uint8_t)random_next(&random);
        comes_back(&subject);
        free_subject(&subject);
    }
}
END_TEST

START_TEST(test_threads_change_nothing)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct subject subject;
        struct buffer one = {0}, two = {0};

        makers[_i](&subject, seed);
        encode(&subject, &two);
        subject.context.threads = 1;
        encode(&subject, &one);
        ck_assert_uint_eq(one.size, two.size);
        ck_assert(one.size == 0 || memcmp(one.data, two.data, one.size) == 0);
        buffer_free(&one);
        buffer_free(&two);
        free_subject(&subject);
    }
}
END_TEST

/* ---- damage ---- */

START_TEST(test_changed_packed)
{
    struct random_state random = random_start(3);

    for (uint64_t seed = 0; seed < rounds(100); seed++) {
        struct subject subject;
        struct buffer packed = {0}, again = {0};

        makers[_i](&subject, seed);
        if (encode(&subject, &packed)) {
            for (int i = 0; i < 8; i++) {
                packed.data[random_below(&random, packed.size)] = (uint8_t)random_next(&random);
                decode(&subject, buffer_view(&packed), subject.section.size, &again);
                buffer_free(&again);
            }
            for (int i = 0; i < 4; i++) {
                struct bytes cut = {packed.data, random_below(&random, packed.size)};
                ck_assert(!decode(&subject, cut, subject.section.size, &again));
                buffer_free(&again);
            }
        }
        buffer_free(&packed);
        free_subject(&subject);
    }
}
END_TEST

/* ---- changed streams ---- */

/* What zstd would never let through, an adversary writes: each part with other bytes in it, longer
 * or shorter. */
static void damage_part(struct random_state *random, struct buffer *part)
{
    uint64_t changes = random_below(random, 4);

    switch (random_below(random, 4)) {
    case 0:
        ck_assert(buffer_append_zeros(part, (size_t)random_below(random, 20)));
        break;
    case 1:
        part->size -= (size_t)random_below(random, part->size + 1);
        break;
    default:
        for (uint64_t i = 0; part->size != 0 && i <= changes; i++) {
            uint8_t *byte = &part->data[random_below(random, part->size)];
            *byte = random_below(random, 2) == 0 ? 0xff : (uint8_t)random_next(random);
        }
    }
}

START_TEST(test_changed_parts)
{
    struct random_state random = random_start(4);

    for (uint64_t seed = 0; seed < rounds(2000); seed++) {
        struct subject subject;
        struct streams streams = {0};
        struct buffer again = {0};

        makers[_i](&subject, seed % 50);
        if (subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams) ==
            RESULT_OK) {
            size_t damaged = (size_t)random_below(&random, streams.count);

            damage_part(&random, &streams.stream[damaged]);
            subject.transform->decode(&subject.context, &streams, subject.section.size, &again);
            buffer_free(&again);
        }
        streams_free(&streams);
        free_subject(&subject);
    }
}
END_TEST

/* Decodes the streams with one of them changed: cut off at a byte if `value` is -1, or this byte
 * set to the value. What comes of it is refused, or hardly larger than it should be; codec_decode
 * refuses what is not just as large. */
static void decode_changed(const struct subject *subject, const struct streams *streams,
                           size_t changed, size_t at, int value)
{
    struct streams copy = {.count = streams->count};
    struct buffer again = {0};

    for (size_t i = 0; i < streams->count; i++)
        ck_assert(buffer_append(&copy.stream[i], streams->stream[i].data, streams->stream[i].size));
    if (value < 0)
        copy.stream[changed].size = at;
    else
        copy.stream[changed].data[at] = (uint8_t)value;
    if (subject->transform->decode(&subject->context, &copy, subject->section.size, &again) ==
        RESULT_OK)
        ck_assert_uint_le(again.size, subject->section.size + TOO_LARGE);
    buffer_free(&again);
    streams_free(&copy);
}

/* The first bytes of each stream: there are the numbers that all else depends on. */
START_TEST(test_first_bytes_of_streams)
{
    static const int values[] = {-1, 0, 1, 0x7f, 0x80, 0xff};
    struct subject subject;
    struct streams streams = {0};

    makers[_i](&subject, 1);
    subject.context.threads = 1;
    ck_assert_int_eq(
        subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
        RESULT_OK);
    for (size_t i = 0; i < streams.count; i++) {
        for (size_t at = 0; at < streams.stream[i].size && at < FIRST_BYTES; at++) {
            for (size_t j = 0; j < sizeof(values) / sizeof(values[0]); j++)
                decode_changed(&subject, &streams, i, at, values[j]);
        }
    }
    streams.count--;
    ck_assert_int_eq(
        subject.transform->decode(&subject.context, &streams, subject.section.size, &subject.data),
        RESULT_UNFIT);
    streams.count++;
    streams_free(&streams);
    free_subject(&subject);
}
END_TEST

/* ---- names ---- */

START_TEST(test_distinct_names)
{
    struct subject subject;
    struct buffer packed = {0};
    struct names names;
    struct error error = {0};

    make_names(&subject, 5);
    ck_assert(encode(&subject, &packed));
    ck_assert(names_decode(
        &subject.context,
        &(struct packed){buffer_view(&packed), subject.section.size, "sample", "names"}, &names,
        NULL, &error));
    ck_assert_uint_gt(names.count, 1);
    ck_assert(names_hash(&names, 2));
    for (size_t i = 1; i < names.count; i++) {
        ck_assert(!bytes_equal(names_get(&names, i), names_get(&names, i - 1)));
        ck_assert_uint_ne(names.references[i], names.references[i - 1]);
    }
    names_free(&names);
    buffer_free(&packed);
    free_subject(&subject);
}
END_TEST

/* ---- forms ---- */

static void add_parts(struct digest_stream *digest, const struct streams *streams)
{
    for (size_t i = 0; i < streams->count; i++) {
        uint8_t size[8];

        store_u64(size, streams->stream[i].size, false);
        digest_stream_add(digest, (struct bytes){size, sizeof(size)});
        digest_stream_add(digest, buffer_view(&streams->stream[i]));
    }
}

static const struct {
    subject_maker make;
    const char *digest;
} forms[] = {
    {make_data, "d0d5465475b4f0d9b5bd8fb50d76bf67"},
    {make_data_11, "c32c0613b7f466989f4ddbe6eb645080"},
    {make_covfun, "728e22a268a0f5403f224a4dc40ec0e9"},
};

#define FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

/* A sidecar is read by other versions than the one that wrote it: what both sides of a transform
 * got wrong in the same way would come back. So the streams of some sections are told here. (Those
 * of zlib streams depend on the zlib.) And each of these sections comes back. */
START_TEST(test_form_stays)
{
    struct digest_stream digest;
    struct digest found;
    char text[DIGEST_HEX_MAX];

    digest_stream_start(&digest);
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct streams streams = {0};
        struct buffer again = {0};
        struct subject subject;

        forms[_i].make(&subject, seed);
        ck_assert_int_eq(
            subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
            RESULT_OK);
        add_parts(&digest, &streams);
        ck_assert_int_eq(
            subject.transform->decode(&subject.context, &streams, subject.section.size, &again),
            RESULT_OK);
        ck_assert_uint_eq(again.size, subject.section.size);
        ck_assert_mem_eq(again.data, subject.section.data, again.size);
        buffer_free(&again);
        streams_free(&streams);
        free_subject(&subject);
    }
    found = digest_stream_finish(&digest);
    ck_assert_str_eq(digest_format(&found, text), forms[_i].digest);
}
END_TEST

/* ---- coverage mapping ---- */

/* Mappings that are only copied would come back as well. */
START_TEST(test_mappings_are_taken_apart)
{
    size_t all = 0, raw = 0;

    for (uint64_t seed = 0; seed < 50; seed++) {
        struct subject subject;
        struct streams streams = {0};

        make_covfun(&subject, seed);
        ck_assert_int_eq(
            subject.transform->encode(&subject.context, buffer_view(&subject.section), &streams),
            RESULT_OK);
        all += subject.section.size;
        raw += streams.stream[STREAM_RAW_MAPPINGS].size;
        streams_free(&streams);
        free_subject(&subject);
    }
    ck_assert_uint_lt(raw * 4, all);
    ck_assert_uint_gt(raw, 0);
}
END_TEST

/* ---- how much memory streams take ---- */

static bool unpack_two(const struct packed *packed, uint64_t wanted, struct streams_limits limits,
                       struct error *error)
{
    struct streams streams = {0};
    bool done = streams_unpack(packed, wanted, &limits, &streams, error);

    streams_free(&streams);
    return done;
}

/* The limit is for those that are unpacked, taken together, before any of them is. */
START_TEST(test_memory_of_streams)
{
    const struct codec_options options = {.level = 3};
    struct streams streams = {.count = 2};
    struct buffer stored = {0};
    struct error error = {0};

    ck_assert(buffer_append_zeros(&streams.stream[0], 60000));
    ck_assert(buffer_append_zeros(&streams.stream[1], 40000));
    ck_assert(streams_pack(&streams, &options, "sample", &stored, &error));
    ck_assert_uint_lt(stored.size, 1000);

    const struct packed packed = {buffer_view(&stored), 100000, "sample", WHAT};
    ck_assert(unpack_two(&packed, 3, (struct streams_limits){100000, 100000}, &error));
    ck_assert(unpack_two(&packed, 1, (struct streams_limits){100000, 60000}, &error));
    ck_assert(!unpack_two(&packed, 3, (struct streams_limits){100000, 99999}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "--memory-limit"));
    ck_assert(!unpack_two(&packed, 1, (struct streams_limits){100000, 59999}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "--memory-limit"));
    ck_assert(!unpack_two(&packed, 1, (struct streams_limits){99999, 100000}, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "damaged"));
    streams_free(&streams);
    buffer_free(&stored);
}
END_TEST

/* ---- memory ---- */

/* Packs the section and unpacks it. */
static bool try_both(void *argument)
{
    const struct subject *subject = (const struct subject *)argument;
    const struct codec_options options = {.level = 3, .threads = 1};
    struct buffer packed = {0}, again = {0};
    struct error error = {0};
    bool fits = true;
    bool done = codec_encode(subject->transform, &subject->context, buffer_view(&subject->section),
                             &options, "sample", &packed, &fits, &error);

    ck_assert(fits || !done);
    done = done && codec_decode(subject->transform, &subject->context,
                                &(struct packed){buffer_view(&packed), subject->section.size,
                                                 "sample", "the section"},
                                &again, &error);
    if (done)
        ck_assert(bytes_equal(buffer_view(&again), buffer_view(&subject->section)));
    else
        expect_memory(&error);
    buffer_free(&packed);
    buffer_free(&again);
    return done;
}

START_TEST(test_memory)
{
    for (uint64_t seed = 0; seed < MEMORY_SEEDS; seed++) {
        struct subject subject;

        makers[_i](&subject, seed);
        subject.context.threads = 1;
        if (comes_back(&subject))
            refuse_each_way(try_both, &subject);
        free_subject(&subject);
    }
}
END_TEST

int main(void)
{
    TCase *sections = suite_case("sections", 300, NULL);
    suite_loops(sections, MAKERS, test_comes_back, test_changed_section, test_noise,
                test_threads_change_nothing);
    suite_loops(sections, FORMS, test_form_stays);
    TCase *damage = suite_case("damage", 300, NULL);
    suite_loops(damage, MAKERS, test_changed_packed);
    suite_loops(damage, MAKERS - 1, test_changed_parts, test_first_bytes_of_streams);
    suite_tests(damage, test_memory_of_streams);
    TCase *names = suite_case("names", 60, NULL);
    suite_tests(names, test_distinct_names, test_mappings_are_taken_apart, test_data_of_device);
    TCase *memory = suite_case("memory", 60, NULL);
    suite_loops(memory, MAKERS, test_memory);
    return suite_main("compact", sections, damage, names, memory);
}
