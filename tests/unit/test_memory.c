/*
 * The compact codec and memory: what is asked for is in proportion to what comes of it.
 *
 * The linker puts the functions below in the place of malloc and its kin.
 */
#include <string.h>

#include "common/codec/codec.h"
#include "common/codec/mapping/mapping.h"
#include "common/codec/names/names.h"
#include "common/codec/transform.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/llvm/profile.h"
#include "tests/support/suite.h"

/* The bytes that were asked for. */
static uint64_t asked;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *moved, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *moved, size_t size);

void *__wrap_malloc(size_t size)
{
    asked += size;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    asked += count * size;
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *moved, size_t size)
{
    asked += size;
    return __real_realloc(moved, size);
}

#define BLOCKS     200
#define BLOCK_SIZE 1024
#define FEW        100
#define MANY       20000

/* So many records, each with a NameRef of its own. */
static struct buffer data_of(size_t count)
{
    struct profile_record_layout layout;
    struct buffer data = {0};

    ck_assert(profile_record_layout(10, 8, &layout));
    ck_assert(buffer_append_zeros(&data, count * layout.record_size));
    for (size_t i = 0; i < count; i++)
        store_u64(data.data + i * layout.record_size, 1 + i, false);
    return data;
}

/* Records without a mapping, of functions that all data has. */
static struct buffer covfun_of(size_t count)
{
    struct buffer section = {0};

    ck_assert(buffer_append_zeros(&section, count * 32));
    for (size_t i = 0; i < count; i++)
        store_u64(section.data + i * 32, 1 + i % FEW, false);
    return section;
}

/* The bytes asked for to decode a section in blocks, of which the data has so many records. */
static uint64_t asked_for(size_t count)
{
    const struct codec_options options = {.level = 3, .threads = 1};
    FREED_BY(buffer_free) struct buffer data = data_of(count), packed = {0}, again = {0};
    FREED_BY(buffer_free) struct buffer section = covfun_of((size_t)BLOCKS * BLOCK_SIZE / 32);
    struct transform_context context = {.pointer_size = 8,
                                        .raw_version = 10,
                                        .threads = 1,
                                        .block_size = BLOCK_SIZE,
                                        .data = buffer_view(&data)};
    struct error error = {0};
    uint64_t before;
    bool fits;

    ck_assert(codec_encode(&mapping_blocks_transform, &context, buffer_view(&section), &options,
                           "sample", &packed, &fits, &error));
    ck_assert(fits);
    before = asked;
    ck_assert(
        codec_decode(&mapping_blocks_transform, &context,
                     &(struct encoded){buffer_view(&packed), section.size, "sample", "the section"},
                     &again, &error));
    before = asked - before;
    ck_assert(bytes_equal(buffer_view(&again), buffer_view(&section)));
    return before;
}

/* Blocks may be small, and the data large: each takes its share. */
START_TEST(test_many_blocks)
{
    ck_assert_uint_lt(asked_for(MANY), asked_for(FEW) + (uint64_t)MANY * 200);
}
END_TEST

/* Tokens without a code are not made room for: alike, they take next to nothing in a sidecar. */
START_TEST(test_tokens_that_never_come)
{
    const size_t size = (size_t)4 << 20;
    const uint8_t codes[] = {0, 0, 0, 0, 0, TOKEN_CODE_NEW_PLAIN};
    FREED_BY(buffer_free) struct buffer dictionary = {0};
    FREED_BY(names_free) struct names made;
    uint64_t before;

    ck_assert(buffer_append_zeros(&dictionary, size));
    memset(dictionary.data, NAME_SEPARATOR, size);
    before = asked;
    ck_assert_int_eq(token_text_decode((struct bytes){codes, sizeof(codes)},
                                       buffer_view(&dictionary), size, &made),
                     RESULT_UNFIT);
    ck_assert_uint_lt(asked - before, size);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 60, NULL);
    suite_tests(all, test_many_blocks, test_tokens_that_never_come);
    return suite_main("memory", all);
}
