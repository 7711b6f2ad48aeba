/*
 * Sections in blocks: they come back whole and in streams, by us and by the reader that was written
 * from the page alone; a part is read without the rest; and damage is told. What several of them
 * need is decoded once.
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/llvm/coverage.h"
#include "common/llvm/names.h"
#include "common/sidecar/sidecar.h"
#include "reader/covsplit.h"
#include "tests/support/random.h"
#include "tests/support/suite.h"
#include "tests/unit/name_chunk.h"
#include "tests/unit/sidecar_sample.h"

DEFINE_DROP(drop_opened_sidecar, covsplit_sidecar, covsplit_sidecar_close)

/* Of an inverse script that changes nothing. */
static const uint8_t no_steps[] = {0, 0, 0};

#define BLOCK_SIZE 3000
#define FUNCTIONS  100
#define RECORDS    1500

/* A sidecar of names, data, and mapping that is large enough for many blocks. */
static struct buffer names, data, covfun, file;
static struct section sections[3];
static struct sidecar_source source;

/* Of random functions, which stay large when they are packed. */
static void make_contents(void)
{
    struct random_state random = random_start(3);
    uint8_t mapping[] = {1, 0, 0, 1, 1, 3, 1, 2, 9};
    struct covfun_record record = {.mapping = {mapping, sizeof(mapping)}};

    for (uint64_t i = 0; i < FUNCTIONS; i++) {
        uint8_t of_data[64] = {0};
        char name[32];

        snprintf(name, sizeof(name), "function_%u", (unsigned)i);
        name_chunk_put(&names, name, i % 2 == 0);
        store_u64(of_data, md5_name_reference((struct bytes){(uint8_t *)name, strlen(name)}),
                  false);
        store_u64(of_data + 8, random_next(&random), false);
        store_u64(of_data + 16, 0x10000 + 8 * i - sizeof(of_data) * i, false);
        store_u32(of_data + 48, 1, false);
        ck_assert(buffer_append(&data, of_data, sizeof(of_data)));
    }
    for (uint64_t i = 0; i < RECORDS; i++) {
        record.name_reference = load_u64(data.data + i % FUNCTIONS * 64, false);
        record.function_hash = random_next(&random);
        mapping[5] = (uint8_t)random_below(&random, 100);
        ck_assert(covfun_append(&covfun, &record, false) &&
                  buffer_append_zeros(&covfun, -covfun.size % COVERAGE_ALIGNMENT));
    }
}

static void prepare(void)
{
    make_contents();
    sections[0] = (struct section){
        .kind = SECTION_COVFUN, .size = covfun.size, .content = buffer_view(&covfun)};
    sections[1] =
        (struct section){.kind = SECTION_NAMES, .size = names.size, .content = buffer_view(&names)};
    sections[2] =
        (struct section){.kind = SECTION_DATA, .size = data.size, .content = buffer_view(&data)};
    source = (struct sidecar_source){.facts = {.format = IMAGE_ELF,
                                               .elf_class = 2,
                                               .elf_data = 1,
                                               .elf_type = 3,
                                               .machine = 62,
                                               .raw_version = 10,
                                               .uuid_source = UUID_FROM_BUILD_ID,
                                               .pointer_size = 8},
                                     .inverse = {no_steps, sizeof(no_steps)},
                                     .image_name = "image",
                                     .sections = sections,
                                     .section_count = 3};
    ck_assert(uuid_parse(SAMPLE_UUID, &source.facts.uuid));
    file = sample_write_blocks(&source, BLOCK_SIZE, 2);
}

static void clean_up(void)
{
    buffer_free(&names);
    buffer_free(&data);
    buffer_free(&covfun);
    buffer_free(&file);
}

START_TEST(test_whole)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    FREED_BY(buffer_free) struct buffer content = {0};
    struct error error = {0};

    ck_assert_uint_gt(covfun.size, 10 * BLOCK_SIZE);
    ck_assert_msg(sidecar_verify(sidecar, &error), "%s", error.message);
    sidecar_help_restore(sidecar, (unsigned)_i + 1, NULL);
    ck_assert(
        sidecar_read_section(sidecar, sidecar_find(sidecar, SECTION_COVFUN), &content, &error));
    ck_assert(bytes_equal(buffer_view(&content), buffer_view(&covfun)));
    ck_assert_msg(sidecar_verify(sidecar, &error), "%s", error.message);
}
END_TEST

/* ---- the library's threads ---- */

static unsigned threads_started;
static bool are_signals_blocked;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *context);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *context);

/* A thread starts with the mask of the one that starts it. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *context)
{
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    are_signals_blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGCHLD) == 1 &&
                          sigismember(&mask, SIGBUS) == 0;
    threads_started++;
    return __real_pthread_create(thread, attributes, start, context);
}

static void read_covfun(const covsplit_sidecar *sidecar)
{
    size_t size;
    FREED_BY(drop_memory)
    void *content = covsplit_sidecar_read(sidecar, "__llvm_covfun", &size, NULL);

    ck_assert_ptr_nonnull(content);
    ck_assert(bytes_equal((struct bytes){content, size}, buffer_view(&covfun)));
}

START_TEST(test_library_starts_threads_when_told)
{
    FREED_BY(drop_opened_sidecar)
    covsplit_sidecar *sidecar = covsplit_sidecar_open_memory(file.data, file.size, "file", NULL);
    sigset_t mask;

    ck_assert_ptr_nonnull(sidecar);
    threads_started = 0;
    read_covfun(sidecar);
    covsplit_sidecar_set_threads(sidecar, 0);
    read_covfun(sidecar);
    ck_assert_uint_eq(threads_started, 0);
    covsplit_sidecar_set_threads(sidecar, 3);
    read_covfun(sidecar);
    ck_assert_uint_ge(threads_started, 2);
    ck_assert(are_signals_blocked);
    covsplit_sidecar_set_threads(sidecar, UINT_MAX);
    read_covfun(sidecar);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
}
END_TEST

START_TEST(test_threads_change_nothing)
{
    FREED_BY(buffer_free) struct buffer other = sample_write_blocks(&source, BLOCK_SIZE, 1);

    ck_assert(bytes_equal(buffer_view(&other), buffer_view(&file)));
    buffer_free(&other);
    other = sample_write_blocks(&source, BLOCK_SIZE, 64);
    ck_assert(bytes_equal(buffer_view(&other), buffer_view(&file)));
}
END_TEST

START_TEST(test_parts)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    struct random_state random = random_start(5);

    sidecar_help_restore(sidecar, 3, NULL);
    for (int i = 0; i < 300; i++) {
        size_t offset = (size_t)random_below(&random, covfun.size + 1);
        size_t size = (size_t)random_below(&random, covfun.size - offset + 1);
        FREED_BY(buffer_free) struct buffer content = {0};
        struct error error = {0};

        if (i % 2 == 0)
            size %= 100;
        ck_assert(sidecar_read_part(sidecar, sidecar_find(sidecar, SECTION_COVFUN), offset, size,
                                    &content, &error));
        ck_assert_uint_eq(content.size, size);
        ck_assert(size == 0 || memcmp(content.data, covfun.data + offset, size) == 0);
    }
}
END_TEST

START_TEST(test_parts_outside)
{
    static const uint64_t outside[][2] = {{0, 1}, {1, 0}, {UINT64_MAX, 2}, {2, UINT32_MAX}};
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
    const struct section *section = sidecar_find(sidecar, SECTION_COVFUN);

    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        uint64_t offset = outside[i][0] == UINT64_MAX ? UINT64_MAX : section->size + outside[i][0];
        struct buffer content = {0};
        struct error error = {0};

        ck_assert(
            !sidecar_read_part(sidecar, section, offset, (size_t)outside[i][1], &content, &error));
        ck_assert_ptr_nonnull(strstr(error.message, "ask for less"));
        ck_assert_uint_eq(content.size, 0);
    }
}
END_TEST

/* Where the section's compact form is in the file: its directory begins with the blocks' number. */
static uint8_t *packed_of(const struct buffer *sidecar_file, enum section_kind kind,
                          enum transform_id type, size_t *size)
{
    FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(sidecar_file);
    const struct section *section = sidecar_find(sidecar, kind);
    uint8_t header[8];
    uint8_t *found;

    store_u32(header, type, false);
    store_u32(header + 4, 0, false);
    found = memmem(sidecar_file->data, sidecar_file->size, header, sizeof(header));
    ck_assert_ptr_nonnull(found);
    *size = (size_t)section->stored_size - 24;
    return found + 24;
}

/* A part in the first block is read without the last one, which cannot be. */
START_TEST(test_only_what_is_wanted)
{
    FREED_BY(buffer_free) struct buffer damaged = {0}, content = {0};
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    const struct section *section;
    uint8_t *packed;
    size_t size;

    ck_assert(buffer_append(&damaged, file.data, file.size));
    packed = packed_of(&damaged, SECTION_COVFUN, TRANSFORM_MAPPING_BLOCKS, &size);
    memset(packed + size - 40, 0x55, 40);
    sidecar = sample_open(&damaged);
    section = sidecar_find(sidecar, SECTION_COVFUN);
    ck_assert_msg(sidecar_read_part(sidecar, section, 100, 1000, &content, &error), "%s",
                  error.message);
    ck_assert_mem_eq(content.data, covfun.data + 100, 1000);
    ck_assert(!sidecar_read_part(sidecar, section, section->size - 10, 10, &content, &error));
    ck_assert(!sidecar_read_section(sidecar, section, &content, &error));
    ck_assert(!sidecar_verify(sidecar, &error));
}
END_TEST

/* What was shown of other bytes says nothing of these, nor what was shown with other names. */
START_TEST(test_proved)
{
    static const enum transform_id types[] = {TRANSFORM_MAPPING_BLOCKS, TRANSFORM_NAMES};
    static const enum section_kind kinds[] = {SECTION_COVFUN, SECTION_NAMES};
    FREED_BY(buffer_free) struct buffer damaged = {0};
    struct proved_sections proved = {.kinds[SECTION_DATA].digest = digest_of(buffer_view(&data))};
    struct error error = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    uint8_t *packed[2];
    size_t sizes[2];

    ck_assert(buffer_append(&damaged, file.data, file.size));
    for (int i = 0; i < 2; i++) {
        struct bytes content = buffer_view(i == 0 ? &covfun : &names);

        packed[i] = packed_of(&damaged, kinds[i], types[i], &sizes[i]);
        proved.kinds[kinds[i]] = (struct proved_section){
            digest_of((struct bytes){packed[i], sizes[i]}), content, digest_of(content)};
    }
    sidecar = sample_open(&damaged);
    sidecar_help_restore(sidecar, 1, &proved);
    ck_assert_msg(sidecar_verify(sidecar, &error), "%s", error.message);
    sidecar_close(sidecar);
    memset(packed[_i] + (_i == 0 ? sizes[_i] - 40 : 0), 0x55, 40);
    sidecar = sample_open(&damaged);
    sidecar_help_restore(sidecar, 1, &proved);
    ck_assert(!sidecar_stream_section(sidecar, sidecar_find(sidecar, SECTION_COVFUN), NULL, NULL,
                                      &error));
}
END_TEST

/* Sections share what they need of the names: whoever asks for it first, and at the same time. */
static void *read_again_and_again(void *sidecar)
{
    static const enum section_kind kinds[] = {SECTION_DATA, SECTION_COVFUN, SECTION_NAMES};
    const struct buffer *expected[] = {&data, &covfun, &names};

    for (int i = 0; i < 30; i++) {
        struct buffer content = {0};
        struct error error = {0};
        struct names distinct = {0};
        bool same =
            (i % 3 != 0 || sidecar_read_names(sidecar, sidecar_find(sidecar, SECTION_NAMES),
                                              &distinct, &error)) &&
            sidecar_read_section(sidecar, sidecar_find(sidecar, kinds[i % 3]), &content, &error) &&
            bytes_equal(buffer_view(&content), buffer_view(expected[i % 3]));

        names_free(&distinct);
        buffer_free(&content);
        if (!same)
            return sidecar;
    }
    return NULL;
}

START_TEST(test_at_the_same_time)
{
    for (int i = 0; i < 5; i++) {
        FREED_BY(drop_sidecar) struct sidecar *sidecar = sample_open(&file);
        pthread_t threads[4];
        void *failed;

        for (int j = 0; j < 4; j++)
            ck_assert_int_eq(pthread_create(&threads[j], NULL, read_again_and_again, sidecar), 0);
        for (int j = 0; j < 4; j++) {
            ck_assert_int_eq(pthread_join(threads[j], &failed), 0);
            ck_assert_ptr_null(failed);
        }
    }
}
END_TEST

/* Names that cannot be decoded are told of each time, and not only the first. */
START_TEST(test_damaged_names)
{
    FREED_BY(buffer_free) struct buffer damaged = {0}, content = {0};
    FREED_BY(drop_sidecar) struct sidecar *sidecar;
    uint8_t *packed;
    size_t size;

    ck_assert(buffer_append(&damaged, file.data, file.size));
    packed = packed_of(&damaged, SECTION_NAMES, TRANSFORM_NAMES, &size);
    memset(packed, 0xff, size < 100 ? size : 100);
    sidecar = sample_open(&damaged);
    for (int i = 0; i < 4; i++) {
        struct error error = {0};
        enum section_kind kind = i % 2 == 0 ? SECTION_DATA : SECTION_COVFUN;

        ck_assert(!sidecar_read_section(sidecar, sidecar_find(sidecar, kind), &content, &error));
        ck_assert_ptr_nonnull(strstr(error.message, "__llvm_prf_names is damaged"));
    }
}
END_TEST

/* ---- in any form ---- */

#define FLIPS 250

static struct buffer write_form(int form)
{
    switch (form) {
    case 0:
        return sample_write(&source, 3, 1); /* as --portable does */
    case 1:
        return sample_write_compact(&source);
    default:
        return sample_write_blocks(&source, BLOCK_SIZE, 1);
    }
}

/* Reads some streams of a section, several from the same sidecar: each is what it was, or an error.
 * Returns how many errors there were. */
static unsigned check_parts(const struct sidecar *sidecar, const struct section *of,
                            struct random_state *random)
{
    unsigned errors = 0;

    for (int i = 0; i < 3; i++) {
        uint64_t start = random_below(random, of->size);
        size_t size = (size_t)random_below(random, of->size - start + 1);
        FREED_BY(buffer_free) struct buffer content = {0};
        struct error error = {0};

        if (!sidecar_read_part(sidecar, sidecar_find(sidecar, of->kind), start, size, &content,
                               &error))
            errors++;
        else
            ck_assert(
                bytes_equal(buffer_view(&content), (struct bytes){of->content.data + start, size}));
    }
    return errors;
}

/* The names alone, which no digest is of. */
static unsigned check_names(const struct sidecar *sidecar, const struct buffer *text)
{
    FREED_BY(names_free) struct names set = {0};
    struct error error = {0};
    bool done = sidecar_read_names(sidecar, sidecar_find(sidecar, SECTION_NAMES), &set, &error);

    if (done)
        ck_assert(bytes_equal(buffer_view(&set.text), buffer_view(text)));
    return !done;
}

/* Whichever bit was lost, no byte of a part is wrong, and what a part does not need may be. */
START_TEST(test_parts_of_every_form)
{
    FREED_BY(buffer_free) struct buffer stored = write_form(_i);
    struct random_state random = random_start(17);
    FREED_BY(names_free) struct names expected = {0};
    struct error error = {0};
    unsigned errors = 0;

    ck_assert(names_add_section(&expected, buffer_view(&names), 0, "names", &error));
    for (int i = 0; i < (int)rounds(FLIPS); i++) {
        uint64_t place = random_below(&random, stored.size);
        uint8_t bit = (uint8_t)(1u << random_below(&random, 8));
        struct sidecar *sidecar;

        stored.data[place] ^= bit;
        sidecar = sidecar_open(buffer_view(&stored), "sample", &error);
        if (sidecar != NULL) {
            for (size_t section = 0; section < 3; section++)
                errors += check_parts(sidecar, &sections[section], &random);
            errors += check_names(sidecar, &expected.text);
        }
        sidecar_close(sidecar);
        stored.data[place] ^= bit;
    }
    ck_assert_uint_gt(errors, rounds(FLIPS) / 4);
}
END_TEST

START_TEST(test_by_the_page)
{
    char path[] = "/tmp/covsplit-unit-XXXXXX", command[1000];
    int descriptor = mkstemp(path);

    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(write(descriptor, file.data, file.size), (ssize_t)file.size);
    close(descriptor);
    snprintf(command, sizeof(command),
             "python3 %s check %s | grep '__llvm_covfun [0-9]* 0x6c76040a' >/dev/null",
             COVSPLIT_SIDECAR_READER, path);
    ck_assert_int_eq(system(command), 0);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *blocks = suite_case("blocks", 300, NULL);
    tcase_add_unchecked_fixture(blocks, prepare, clean_up);
    suite_loops(blocks, 3, test_whole);
    suite_tests(blocks, test_library_starts_threads_when_told, test_threads_change_nothing,
                test_parts, test_parts_outside, test_only_what_is_wanted, test_at_the_same_time,
                test_damaged_names);
    suite_loops(blocks, 2, test_proved);
    suite_loops(blocks, 3, test_parts_of_every_form);
    tcase_add_test(blocks, test_by_the_page);
    return suite_main("sidecar blocks", blocks);
}
