/*
 * Searching code in pieces: what lies across the end of a piece is found like anything else, and
 * nothing else is.
 */
#include <check.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/code_search.h"

/* As in code_search.c, which may have other pieces: then these tests are of other places. */
#define PIECE   (UINT64_C(1) << 20)
#define SIZE    (3 * PIECE)
#define ADDRESS UINT64_C(0x400000)
/* What is looked for: somewhere else. */
#define TARGET UINT64_C(0x40000000)

static uint8_t code[SIZE];
static size_t found;
static uint64_t found_at;

static bool note(void *context, uint64_t from)
{
    (void)context;
    found++;
    found_at = from;
    return true;
}

/* The pages of a file can be given back; those of an array would be lost. */
static void search(uint16_t machine, uint64_t first, uint64_t size)
{
    char path[] = "/tmp/covsplit-code-search-XXXXXX";
    int fd = mkstemp(path);
    struct input input;
    struct error error;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, code, sizeof(code)), (ssize_t)sizeof(code));
    ck_assert_msg(input_open(&input, path, &error), "%s", error.message);
    unlink(path);
    close(fd);
    found = 0;
    ck_assert(code_search(
        &(struct code_search){.input = &input, .machine = machine, .first = first, .size = size},
        &(struct code){input.bytes, ADDRESS}, note, NULL));
    input_close(&input);
}

static void put_instruction(uint64_t offset, uint32_t instruction)
{
    for (unsigned i = 0; i < 4; i++)
        code[offset + i] = (uint8_t)(instruction >> 8 * i);
}

/* adrp x1, to the page of TARGET */
static void put_adrp(uint64_t offset)
{
    uint32_t pages = (uint32_t)((TARGET - (ADDRESS + offset) / 4096 * 4096) / 4096);

    put_instruction(offset, 0x90000001 | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5);
}

/* add x2, x1, #low */
static void put_add(uint64_t offset, uint32_t low)
{
    put_instruction(offset, 0x91000022 | low << 10);
}

/* lea TARGET(%rip), %rax, wherever it lies around the ends of pieces. */
START_TEST(test_x86_64)
{
    for (uint64_t at = PIECE - 20; at <= PIECE + 20; at++) {
        uint32_t distance = (uint32_t)(TARGET - (ADDRESS + at + 7));

        memset(code, 0x90, sizeof(code));
        memcpy(code + at, "\x48\x8d\x05", 3);
        memcpy(code + at + 3, &distance, sizeof(distance));
        search(EM_X86_64, TARGET, 16);
        ck_assert_msg(found != 0 && found_at == ADDRESS + at + 3, "at %#lx", (long)at);
    }
}
END_TEST

/* The first half in front of the end of a piece, and far behind it the half that counts; another
 * address on the same page is near. */
START_TEST(test_aarch64_far)
{
    static const uint64_t places[] = {PIECE - 4, PIECE - 400, PIECE, PIECE + 16, SIZE - 2044};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        memset(code, 0, sizeof(code));
        put_adrp(places[i]);
        put_add(places[i] + 4, 0x800);
        put_add(places[i] + 2000, 0x10);
        search(EM_AARCH64, TARGET + 0x10, 8);
        ck_assert_msg(found != 0 && found_at == ADDRESS + places[i], "place %zu", i);
    }
}
END_TEST

/* Only another address of the page is made, at any distance from the ends of pieces. */
START_TEST(test_aarch64_other)
{
    for (uint64_t at = PIECE - 64; at < PIECE + 9000; at += 4) {
        if (at > PIECE + 64 && at < PIECE + 4000)
            continue;
        memset(code, 0, sizeof(code));
        put_adrp(at);
        put_add(at + 4, 0x800);
        search(EM_AARCH64, TARGET + 0x10, 8);
        ck_assert_msg(found == 0, "at %#lx", (long)at);
        at += at > PIECE + 64 && at < PIECE + 8100 ? 60 : 0;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("code search");
    TCase *all = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_set_timeout(all, 120);
    tcase_add_test(all, test_x86_64);
    tcase_add_test(all, test_aarch64_far);
    tcase_add_test(all, test_aarch64_other);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
