/*
 * Hits in x86-64 code: what is a reference is told from the same bytes in another instruction, by
 * the start of the function, unless there is something in it that is no instruction.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/runtime/runtime.h"
#include "tests/support/suite.h"

#define ADDRESS UINT64_C(0x401000)
#define TARGET  UINT64_C(0x700000)
#define SIZE    (UINT64_C(3) << 20)

static uint8_t code[SIZE];
static uint64_t functions[8], found_at[8];
static size_t function_count, found, limit;
static bool is_relative;

static void prepare(void)
{
    memset(code, 0x90, sizeof(code));
    function_count = found = 0;
    limit = SIZE;
    is_relative = false;
}

/* Each function, and a variable two bytes behind its start. */
static bool next_symbol(const struct planning *planning, struct symbol_walk *walk,
                        struct image_symbol *symbol)
{
    (void)planning;
    if (walk->at / 2 == function_count)
        return false;
    *symbol = (struct image_symbol){.address = ADDRESS + functions[walk->at / 2] + walk->at % 2 * 2,
                                    .is_function = walk->at % 2 == 0};
    walk->at++;
    return true;
}

static struct input input;

static bool part_at(const struct planning *planning, size_t index, struct image_part *part)
{
    (void)planning;
    *part =
        (struct image_part){.kind = PART_CODE, .code = {.bytes = input.bytes, .address = ADDRESS}};
    return index == 0;
}

/* False if it stops at the limit. */
static bool search(bool absolute)
{
    static const struct code_operations operations = {.part_at = part_at,
                                                      .next_symbol = next_symbol};
    const struct image_code image = {.operations = &operations,
                                     .input = &input,
                                     .machine = &machine_x86_64,
                                     .has_absolute_operands = absolute};
    char path[] = "/tmp/covsplit-hits-XXXXXX";
    struct code_references references;
    int fd = mkstemp(path);
    struct error error;
    uint64_t from;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, code, sizeof(code)), (ssize_t)sizeof(code));
    ck_assert_msg(input_open(&input, path, &error), "%s", error.message);
    unlink(path);
    close(fd);
    code_references_open(
        &references, &image,
        &(struct reference_target){.first = TARGET, .size = 16, .relative = is_relative});
    while (found < limit && code_references_next(&references, &from)) {
        if (found < 8)
            found_at[found] = from - ADDRESS;
        found++;
    }
    input_close(&input);
    return found < limit;
}

/* cmpb $1,TARGET(%rip): 7 bytes, of which the third to sixth are the operand */
static void put_cmpb(uint64_t at)
{
    uint32_t distance = (uint32_t)(TARGET - (ADDRESS + at + 7));

    memcpy(code + at, "\x80\x3d", 2);
    memcpy(code + at + 2, &distance, sizeof(distance));
    code[at + 6] = 1;
}

/* The same bytes in movabs $...,%rax. */
static void put_movabs(uint64_t at)
{
    memcpy(code + at, "\x48\xb8", 2);
    put_cmpb(at + 2);
}

START_TEST(test_reference_and_number)
{
    functions[function_count++] = 0x100;
    put_movabs(0x110);
    put_cmpb(0x130);
    put_cmpb(0x137);
    put_movabs(0x140);
    ck_assert(search(false));
    ck_assert_uint_eq(found, 2);
    ck_assert_uint_eq(found_at[0], 0x132);
    ck_assert_uint_eq(found_at[1], 0x139);
}
END_TEST

/* The function that starts last before a hit tells, in whatever order the symbols are. */
START_TEST(test_functions)
{
    code[0x200] = 0x48; /* with what follows, movabs: were it not for the function */
    code[0x201] = 0xb8;
    put_cmpb(0x202);
    ck_assert(search(false));
    ck_assert_uint_eq(found, 0);
    functions[function_count++] = 0x300;
    functions[function_count++] = 0x202;
    functions[function_count++] = 0x10;
    ck_assert(search(false));
    ck_assert_uint_eq(found, 1);
    ck_assert_uint_eq(found_at[0], 0x204);
}
END_TEST

/* Nothing is known behind what is no instruction, up to the next function. */
START_TEST(test_unknown)
{
    code[0x100] = 0x06;
    put_movabs(0x110);
    put_movabs(0x210);
    functions[function_count++] = 0x200;
    ck_assert(search(false));
    ck_assert_uint_eq(found, 1);
    ck_assert_uint_eq(found_at[0], 0x114);
    is_relative = true;
    put_cmpb(0x230);
    found = 0;
    ck_assert(search(false));
    ck_assert_uint_eq(found, 1);
    ck_assert_uint_eq(found_at[0], 0x232);
}
END_TEST

/* The address itself is a reference wherever it is. */
START_TEST(test_address)
{
    uint32_t address = (uint32_t)TARGET;

    memcpy(code + 0x100, "\x48\xb8\x01", 3);
    memcpy(code + 0x103, &address, sizeof(address));
    ck_assert(search(true));
    ck_assert_uint_eq(found, 1);
    ck_assert(search(false));
    ck_assert_uint_eq(found, 1);
}
END_TEST

/* More hits than are judged at once, over the ends of pieces. */
START_TEST(test_many)
{
    for (uint64_t at = 0; at + 32 <= SIZE; at += 32) {
        put_movabs(at);
        put_cmpb(at + 16);
    }
    ck_assert(search(false));
    ck_assert_uint_eq(found, SIZE / 32);
    found = 0;
    limit = 5000;
    ck_assert(!search(false));
    ck_assert_uint_eq(found, 5000);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("hits", 60, prepare);

    suite_loops(test_case, 1, test_reference_and_number, test_functions, test_unknown, test_address,
                test_many);
    return suite_main("hits", test_case);
}
