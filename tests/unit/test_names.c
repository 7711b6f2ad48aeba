/*
 * Function names and MD5: RFC 1321's own test suite, chunks of every kind, and damaged ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/digest.h"
#include "common/llvm/names.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"

START_TEST(test_md5)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };
    char found[2 * MD5_SIZE + 1];
    uint8_t digest[MD5_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        md5_of((struct bytes){(const uint8_t *)cases[i].text, strlen(cases[i].text)}, digest);
        for (size_t byte = 0; byte < MD5_SIZE; byte++)
            snprintf(found + 2 * byte, 3, "%02x", digest[byte]);
        ck_assert_str_eq(found, cases[i].digest);
    }
    /* What LLVM has for "main" in every profile. */
    ck_assert_uint_eq(md5_name_reference((struct bytes){(const uint8_t *)"main", 4}),
                      UINT64_C(0xdb956436e78dd5fa));
}
END_TEST

/* Messages of all lengths around those where a block more is needed, side by side. */
START_TEST(test_many)
{
    struct bytes names[MD5_NAMES_MAX];
    uint64_t references[MD5_NAMES_MAX];
    uint8_t text[MD5_NAMES_MAX];

    for (size_t i = 0; i < MD5_NAMES_MAX; i++)
        text[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < MD5_NAMES_MAX; i++)
        names[i] = (struct bytes){text + i % 5, i * 89 % 300};
    for (size_t count = 0; count <= MD5_NAMES_MAX; count += count < 20 ? 1 : MD5_NAMES_MAX - 20) {
        md5_name_references(names, count, references);
        for (size_t i = 0; i < count; i++)
            ck_assert_uint_eq(references[i], md5_name_reference(names[i]));
    }
}
END_TEST

static struct buffer sample_section(void)
{
    struct buffer section = {0};

    name_chunk_put(&section, "main\1helper\1file.c:static_one", false);
    name_chunk_put(&section, "main\1another", true);
    ck_assert(buffer_append_zeros(&section, 3));
    name_chunk_put(&section, "last", true);
    return section;
}

static void check_name(const struct names *names, const char *name)
{
    struct bytes view = {(const uint8_t *)name, strlen(name)};
    const char *found = names_find(names, md5_name_reference(view));

    ck_assert_ptr_nonnull(found);
    ck_assert_str_eq(found, name);
}

START_TEST(test_names)
{
    FREED_BY(buffer_free) struct buffer section = sample_section();
    FREED_BY(names_free) struct names names;
    struct error error = {0};

    ck_assert_msg(names_read(&names, buffer_view(&section), "file", &error), "%s", error.message);
    ck_assert_uint_eq(names.count, 5);
    check_name(&names, "main");
    check_name(&names, "helper");
    check_name(&names, "file.c:static_one");
    check_name(&names, "another");
    check_name(&names, "last");
    ck_assert_ptr_null(names_find(&names, 12345));
    names_free(&names);
    ck_assert(names_read(&names, (struct bytes){NULL, 0}, "file", &error));
    ck_assert_ptr_null(names_find(&names, 0));
}
END_TEST

/* Of names that come in many chunks, each once, in the order in which they came first. */
START_TEST(test_distinct)
{
    FREED_BY(buffer_free) struct buffer section = {0}, encoded = {0}, expected = {0};
    struct names set = {0};
    struct error error = {0};
    const int count = 5000;

    for (int i = 0; i < 3 * count; i++) {
        char name[64];

        snprintf(name, sizeof(name), "function_%d\1\1shared\1function_%d", i % count, i % 7);
        name_chunk_put(&section, name, i % 2 == 0);
    }
    ck_assert(buffer_append(&expected, "function_0\1shared", 17));
    for (int i = 1; i < count; i++) {
        char name[64];

        snprintf(name, sizeof(name), "\1function_%d", i);
        ck_assert(buffer_append(&expected, name, strlen(name)));
    }
    ck_assert_msg(names_add_section(&set, buffer_view(&section), 0, "file", &error), "%s",
                  error.message);
    ck_assert_uint_eq(set.count, count + 1);
    ck_assert(names_encode(&set, &encoded));
    names_free(&set);

    section.size = 0;
    ck_assert(buffer_append_uleb128(&section, expected.size));
    ck_assert(buffer_append_uleb128(&section, 0));
    ck_assert(buffer_append(&section, expected.data, expected.size));
    ck_assert(bytes_equal(buffer_view(&encoded), buffer_view(&section)));
}
END_TEST

/* Empty names are none. */
START_TEST(test_no_names)
{
    struct buffer section = {0}, encoded = {0};
    FREED_BY(names_free) struct names set = {0};
    struct error error = {0};

    name_chunk_put(&section, "\1\1", true);
    ck_assert(names_add_section(&set, buffer_view(&section), 0, "file", &error));
    ck_assert_uint_eq(set.count, 0);
    ck_assert(names_encode(&set, &encoded));
    ck_assert_uint_eq(encoded.size, 0);
    buffer_free(&section);
}
END_TEST

/* A chunk that claims more than there is gets no memory for it. */
START_TEST(test_false_sizes)
{
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_C(1) << 62, UINT64_C(1) << 40, 1 << 20};
    struct names names;
    struct names set = {0};
    struct error error;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int stored = 0; stored < 2; stored++) {
            FREED_BY(buffer_free) struct buffer section = {0};

            ck_assert(buffer_append_uleb128(&section, sizes[i]));
            ck_assert(buffer_append_uleb128(&section, stored ? 0 : 10));
            ck_assert(buffer_append(&section, "0123456789", 10));
            ck_assert(!names_read(&names, buffer_view(&section), "file", &error));
            ck_assert_ptr_nonnull(strstr(error.message, "file: "));
            names_free(&names);
            ck_assert(!names_add_section(&set, buffer_view(&section), 0, "file", &error));
            ck_assert_uint_le(set.chunk.capacity + set.text.capacity, 1 << 20);
            names_free(&set);
        }
    }
}
END_TEST

/* Chunks with the same name over and over take no memory, but time. */
START_TEST(test_many_chunks)
{
    const uint64_t size = 1 << 16, limit = 64 * size;
    FREED_BY(buffer_free) struct buffer section = {0};
    FREED_BY(names_free) struct names set = {0};
    struct error error;
    FREED_BY(drop_memory) char *name = malloc(size);

    memset(name, 'a', size - 1);
    name[size - 1] = '\0';
    for (unsigned i = 0; i < 64; i++)
        name_chunk_put(&section, name, true);
    ck_assert(names_add_section(&set, buffer_view(&section), limit, "file", &error));
    ck_assert_uint_eq(set.count, 1);
    names_free(&set);
    for (unsigned i = 0; i < 2; i++)
        name_chunk_put(&section, name, true);
    ck_assert(!names_add_section(&set, buffer_view(&section), limit, "file", &error));
    ck_assert_ptr_nonnull(strstr(error.message, "file: the text of its names claims "));
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 300, NULL);
    suite_tests(all, test_md5, test_many, test_names, test_distinct, test_no_names,
                test_false_sizes, test_many_chunks);
    return suite_main("names", all);
}
