/*
 * The length of x86-64 instructions, where no operand matters; those with one are in
 * test_machine_x86_64.
 */
#include <string.h>

#include "formats/machine/flow.h"
#include "tests/support/suite.h"

static const struct {
    const char *code;
    uint64_t size; /* 0: not known */
} others[] = {
    {"\x90", 1},
    {"\xf3\x0f\x1e\xfa", 4},                          /* endbr64 */
    {"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", 10}, /* nop */
    {"\x48\x83\xc4\x08", 4},
    {"\x8b\x44\x24\x08", 4},
    {"\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", 10},
    {"\x66\xb8\x01\x02", 4},
    {"\xf6\xc1\x01", 3},
    {"\xf6\xd9", 2},
    {"\x66\xf7\xc1\x01\x02", 5},
    {"\xc8\x01\x02\x03", 4},
    {"\xc2\x08\x00", 3},
    {"\x74\x10", 2},
    {"\x8f\x00", 2},     /* pop (%rax) */
    {"\xc5\xf8\x77", 3}, /* vzeroupper */
    {"\x0f\x0b", 2},
    {"\x0f\x20\xc0", 3},
    {"\x06", 0},
    {"\xff\xff", 0},
    {"\x82\xc0\x01", 0},
    {"\xd5\x10\x89\xc0", 0},
    {"\x0f\x04", 0},
    {"\x62\xf4\x7c\x08\x01\xc0", 0},
};

START_TEST(test_length)
{
    uint8_t code[32];
    struct x86_instruction instruction;
    bool is_known;

    memset(code, 0x90, sizeof(code));
    memcpy(code, others[_i].code,
           strlen(others[_i].code) > others[_i].size ? strlen(others[_i].code) : others[_i].size);
    is_known = x86_decode((struct bytes){code, sizeof(code)}, &instruction);
    ck_assert_msg(is_known == (others[_i].size != 0), "code %d", _i);
    ck_assert_msg(!is_known || instruction.size == others[_i].size, "code %d", _i);
}
END_TEST

/* Prefixes without end, and an instruction that is cut short. */
START_TEST(test_too_long)
{
    struct x86_instruction instruction;
    uint8_t code[32];

    memset(code, 0x66, sizeof(code));
    ck_assert(!x86_decode((struct bytes){code, sizeof(code)}, &instruction));
    code[X86_SIZE_MAX - 1] = 0x90;
    ck_assert(x86_decode((struct bytes){code, sizeof(code)}, &instruction));
    ck_assert_uint_eq(instruction.size, X86_SIZE_MAX);
    ck_assert(!x86_decode((struct bytes){code, X86_SIZE_MAX - 1}, &instruction));
    ck_assert(!x86_decode((struct bytes){code, 0}, &instruction));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("lengths", 60, NULL);

    suite_loops(test_case, (int)(sizeof(others) / sizeof(others[0])), test_length);
    suite_loops(test_case, 1, test_too_long);
    return suite_main("x86 decode", test_case);
}
