/*
 * Files and streams of profiles, plain and sparse ones: read as they are, cut short at every byte,
 * and with sizes that are not true.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory_limit.h"
#include "common/llvm/profile_reader.h"
#include "tests/support/suite.h"
#include "tests/unit/profile_maker.h"

/* Every raw version, 64 and 32 bits, both byte orders; and one with byte coverage. */
#define VERSIONS (PROFILE_VERSION_MAX - PROFILE_VERSION_MIN + 1)
#define FORMS    (4 * VERSIONS + 1)

static const uint8_t stub[PROFILE_STUB_ID_SIZE] = "0123456789abcde";

static struct buffer make_form(int form)
{
    bool has_bytes = form == FORMS - 1;
    unsigned version = has_bytes ? 10 : (unsigned)(PROFILE_VERSION_MIN + form / 4);
    struct profile_recipe recipe = {
        .raw_version = version | (has_bytes ? PROFILE_VARIANT_BYTE_COVERAGE : 0),
        .is_32_bit = form % 2 != 0,
        .big_endian = form / 2 % 2 != 0,
        .bitmap = version >= 9,
        .records = 1,
        .counters_each = 21,
        .binary_id = "0123456789abcdef",
        .stub_counters = 21,
        .stub = stub,
    };
    struct buffer made = profile_make(&recipe);

    if (!has_bytes) {
        profile_set_counter(&made, 3, 1);
        profile_set_counter(&made, 4, UINT64_C(1) << 63 | 5);
        profile_set_counter(&made, 17, 300);
    }
    return made;
}

/* The sparse form; runs of zeros have at most `longest` words. */
static struct buffer make_sparse(const struct buffer *plain, uint64_t longest)
{
    bool big_endian = plain->data[0] == 0xff;
    struct buffer words = {0}, sparse = {0};

    ck_assert(buffer_append(&words, plain->data, plain->size));
    ck_assert(buffer_append_zeros(&words, (0 - plain->size) % 8));
    ck_assert(buffer_append(&sparse,
                            big_endian ? "\xff"
                                         "cspar\1b"
                                       : "\xff"
                                         "cspar\1l",
                            8));
    for (size_t i = 0; i < words.size;) {
        uint64_t zeros = 0, word = load_u64(words.data + i, big_endian);

        for (; i < words.size && zeros < longest && load_u64(words.data + i, true) == 0; i += 8)
            zeros++;
        if (zeros != 0)
            ck_assert(buffer_append(&sparse, "", 1) && buffer_append_uleb128(&sparse, zeros));
        else
            ck_assert(buffer_append_uleb128(&sparse, word));
        i += zeros == 0 ? 8 : 0;
    }
    buffer_free(&words);
    return sparse;
}

static void assert_equal(const struct profile_reader *reader, const struct profile *profile,
                         const struct buffer *plain)
{
    struct bytes read = reader->is_sparse
                            ? buffer_view(&reader->expanded)
                            : (struct bytes){reader->file.data + reader->offset, profile->size};

    ck_assert(bytes_equal(read, buffer_view(plain)));
}

START_TEST(test_mixed)
{
    FREED_BY(buffer_free)
    struct buffer plain = make_form(_i), sparse = make_sparse(&plain, UINT64_MAX);
    FREED_BY(buffer_free) struct buffer divided = make_sparse(&plain, 2), file = {0};
    const struct buffer *order[] = {&sparse, &plain, &divided, &sparse};
    FREED_BY(profile_reader_free) struct profile_reader reader = {.name = "p"};
    struct profile profile;
    struct error error;
    uint64_t end = 0;
    bool found;

    for (size_t i = 0; i < 4; i++)
        ck_assert(buffer_append_zeros(&file, 8 * i) &&
                  buffer_append(&file, order[i]->data, order[i]->size));
    reader.file = buffer_view(&file);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(profile_reader_next(&reader, &profile, &found, &error));
        ck_assert(found);
        ck_assert_int_eq(reader.is_sparse, order[i] != &plain);
        ck_assert_uint_eq(reader.offset, end + 8 * i);
        ck_assert_uint_eq(reader.stored_size, order[i]->size);
        assert_equal(&reader, &profile, &plain);
        ck_assert_uint_eq(profile.lightweight, true);
        end = reader.offset + reader.stored_size;
    }
    ck_assert(profile_reader_next(&reader, &profile, &found, &error));
    ck_assert(!found);
}
END_TEST

/* ---- cut short ---- */

/* The error, or NULL, for the first `size` bytes; in memory of exactly that size, for the
 * sanitizers. */
static const char *read_cut(const struct buffer *whole, size_t size, bool *stream_is_good)
{
    static struct error error;
    struct profile_stream stream = {0};
    FREED_BY(drop_memory) uint8_t *copy = malloc(size + 1);
    FREED_BY(profile_reader_free)
    struct profile_reader reader = {.file = {copy, size}, .name = "p"};
    struct profile profile;
    bool done;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, whole->data, size);
    *stream_is_good = profile_stream_check(&stream, "p", reader.file, &error);
    done = profile_reader_first(&reader, &profile, &error);
    return done ? NULL : error.message;
}

START_TEST(test_cuts_of_plain)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(_i);
    struct profile profile = profile_of(&plain);
    size_t header = (size_t)(profile.binary_ids.data - plain.data);
    bool stream_is_good;

    for (size_t size = 1; size < plain.size; size++) {
        const char *message = read_cut(&plain, size, &stream_is_good);
        char missing[64];

        ck_assert_ptr_nonnull(message);
        ck_assert_msg(stream_is_good, "%zu: %s", size, message);
        snprintf(missing, sizeof(missing), ": %zu of its %zu bytes ", plain.size - size,
                 plain.size);
        ck_assert_msg(
            strstr(message, size < header ? "cut short in its header: at least" : missing),
            "%zu: %s", size, message);
    }
    ck_assert_ptr_null(read_cut(&plain, plain.size, &stream_is_good));
}
END_TEST

/* The part that a message names is the one that the first missing byte belongs to. */
START_TEST(test_parts)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(_i);
    struct profile profile = profile_of(&plain);
    const struct {
        struct bytes bytes;
        const char *name;
    } parts[] = {{profile.binary_ids, "binary IDs"},
                 {profile.data, "data records"},
                 {profile.counters, "counters"},
                 {profile.bitmap, "bitmap"},
                 {profile.names, "names"}};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t first = (size_t)(parts[i].bytes.data - plain.data);
        size_t cuts[] = {first, first + (size_t)parts[i].bytes.size - 1};
        bool stream_is_good;

        for (size_t k = 0; k < 2 && parts[i].bytes.size != 0; k++) {
            char part[64];

            snprintf(part, sizeof(part), "cut short in its %s: ", parts[i].name);
            ck_assert_ptr_nonnull(strstr(read_cut(&plain, cuts[k], &stream_is_good), part));
        }
    }
}
END_TEST

START_TEST(test_cuts_of_sparse)
{
    FREED_BY(buffer_free)
    struct buffer plain = make_form(_i), sparse = make_sparse(&plain, UINT64_MAX);
    bool stream_is_good;

    for (size_t size = 1; size < sparse.size; size++) {
        const char *message = read_cut(&sparse, size, &stream_is_good);

        ck_assert_ptr_nonnull(message);
        ck_assert_msg(stream_is_good, "%zu: %s", size, message);
        ck_assert_msg(strstr(message, "cut short in its ") != NULL, "%zu: %s", size, message);
    }
    ck_assert_ptr_null(read_cut(&sparse, sparse.size, &stream_is_good));
}
END_TEST

/* ---- streams ---- */

/* A stream is refused when it cannot become right, however it goes on. */
START_TEST(test_hopeless_streams)
{
    static const char *const starts[] = {"garbage!",
                                         "\x7f"
                                         "ELF\2\1\1",
                                         "\xff"
                                         "lprofi\x81",
                                         "\xff"
                                         "cspar\2l",
                                         "\xff"
                                         "cspar\1x"};
    FREED_BY(buffer_free) struct buffer plain = make_form(4), file = {0};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        bool stream_is_good;

        file.size = 0;
        ck_assert(buffer_append(&file, starts[i], 8));
        ck_assert_ptr_nonnull(read_cut(&file, 8, &stream_is_good));
        ck_assert(!stream_is_good);
        file.size = 0;
        ck_assert(buffer_append(&file, plain.data, plain.size) &&
                  buffer_append(&file, starts[i], 8));
        read_cut(&file, file.size, &stream_is_good);
        ck_assert(!stream_is_good);
    }
}
END_TEST

/* A profile with value data is not whole where the header says that it ends. */
START_TEST(test_stream_continues)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(4), file = {0};
    struct profile_stream stream = {0};
    struct error error;

    for (unsigned i = 0; i < 3; i++)
        ck_assert(buffer_append(&file, plain.data, plain.size));
    for (size_t size = 1; size <= file.size; size++)
        ck_assert(profile_stream_check(&stream, "p", (struct bytes){file.data, size}, &error));
    ck_assert_uint_eq(stream.offset, 2 * plain.size);
}
END_TEST

/* ---- sizes that are not true ---- */

/* A sparse profile with the header of a plain one, but so many counters, all zero. */
static struct buffer make_claim(uint64_t counters)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(0), sparse;
    struct buffer claim = {0};
    uint8_t word[8];

    store_u64(word, counters, false);
    memcpy(plain.data + 40, word, sizeof(word)); /* NumCounters of version 7 */
    sparse = make_sparse(&plain, UINT64_MAX);
    ck_assert(buffer_append(&claim, sparse.data, sparse.size));
    ck_assert(buffer_append(&claim, "", 1) && buffer_append_uleb128(&claim, counters));
    return claim;
}

START_TEST(test_claims)
{
    static const uint64_t claims[] = {UINT64_C(1) << 60, UINT64_C(1) << 57, UINT64_C(1) << 40,
                                      MEMORY_LIMIT_BASE / 8 + 100000, UINT64_MAX};

    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        FREED_BY(buffer_free) struct buffer claim = make_claim(claims[i]);
        bool stream_is_good;
        const char *message = read_cut(&claim, claim.size, &stream_is_good);

        ck_assert_ptr_nonnull(message);
        ck_assert_msg(strstr(message, "--memory-limit") != NULL ||
                          strstr(message, "impossible") != NULL,
                      "%s", message);
    }
}
END_TEST

/* Many small claims together are bounded too, unless the user says that the file may be trusted. */
START_TEST(test_many_claims)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(0), file = {0}, sparse;
    FREED_BY(profile_reader_free) struct profile_reader reader = {.name = "p"};
    struct profile profile;
    struct error error;
    unsigned count = 0;
    bool found = true;

    memset(plain.data + 40, 0, 8);
    store_u64(plain.data + 40, 4000000, false);
    ck_assert(buffer_append_zeros(&plain, (4000000 - 21) * sizeof(uint64_t)));
    sparse = make_sparse(&plain, UINT64_MAX);
    for (unsigned i = 0; i < 40; i++)
        ck_assert(buffer_append(&file, sparse.data, sparse.size));
    reader.file = buffer_view(&file);
    while (profile_reader_next(&reader, &profile, &found, &error) && found)
        count++;
    ck_assert_msg(found && count > 0 && count < 40, "%u", count);
    ck_assert_ptr_nonnull(strstr(error.message, "--memory-limit"));
}
END_TEST

/* ---- what the form does not allow ---- */

static void expect_damage(const struct buffer *sparse, const char *part)
{
    bool stream_is_good;
    const char *message = read_cut(sparse, sparse->size, &stream_is_good);

    ck_assert_ptr_nonnull(message);
    ck_assert_msg(strstr(message, part) != NULL, "%s", message);
    ck_assert(!stream_is_good ||
              strstr(message, "the padding of its last word is not zero") != NULL);
}

START_TEST(test_bad_words)
{
    FREED_BY(buffer_free) struct buffer plain = make_form(4), sparse;
    size_t first_zero = 0;

    /* A run longer than the profile. */
    sparse = make_sparse(&plain, UINT64_MAX);
    for (size_t i = 8; first_zero == 0; i++)
        first_zero = sparse.data[i] == 0 && i > sparse.size - 40 ? i : 0;
    sparse.data[first_zero + 1] = 0x7f;
    expect_damage(&sparse, "longer than the profile");
    /* A run of nothing. */
    sparse.data[first_zero + 1] = 0;
    expect_damage(&sparse, "damaged");
    buffer_free(&sparse);
    /* A word with more bytes than it needs, and one that is too large. */
    sparse = make_sparse(&plain, UINT64_MAX);
    sparse.size = 8;
    ck_assert(buffer_append(&sparse, "\x81\x80\x00", 3));
    expect_damage(&sparse, "damaged");
    sparse.size = 8;
    ck_assert(buffer_append(&sparse, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
    expect_damage(&sparse, "damaged");
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 300, NULL);
    suite_loops(all, FORMS, test_mixed, test_cuts_of_plain, test_parts, test_cuts_of_sparse);
    suite_tests(all, test_hopeless_streams, test_stream_continues, test_claims, test_many_claims,
                test_bad_words);
    return suite_main("profile_reader", all);
}
