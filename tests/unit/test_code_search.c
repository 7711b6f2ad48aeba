/*
 * Searching code in pieces: what lies across the end of a piece is found like anything else, and
 * nothing else is.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/machine/machine.h"
#include "tests/support/suite.h"

/* As in machine/search.c, which may have other pieces: then these tests are of other places. */
#define PIECE   (UINT64_C(1) << 20)
#define SIZE    (3 * PIECE)
#define ADDRESS UINT64_C(0x400000)
/* What is looked for: somewhere else. */
#define TARGET UINT64_C(0x40000000)

static uint8_t code[SIZE];
static size_t found;
static uint64_t found_at;

/* The pages of a file can be given back; those of an array would be lost. */
static void search_marked(const struct machine *machine, const struct reference_target *target,
                          const struct code_mark *marks, size_t mark_count)
{
    char path[] = "/tmp/covsplit-code-search-XXXXXX";
    int fd = mkstemp(path);
    struct code_search search;
    FREED_BY(input_close) struct input input;
    struct error error;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, code, sizeof(code)), (ssize_t)sizeof(code));
    ck_assert_msg(input_open(&input, path, &error), "%s", error.message);
    unlink(path);
    close(fd);
    search = (struct code_search){
        .input = &input,
        .machine = machine,
        .target = *target,
        .code = {
            .bytes = input.bytes, .address = ADDRESS, .marks = marks, .mark_count = mark_count}};
    for (found = 0; code_search_next(&search, &found_at);)
        found++;
}

static void search(const struct machine *machine, uint64_t first, uint64_t size)
{
    search_marked(machine, &(struct reference_target){.first = first, .size = size}, NULL, 0);
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
        search(&machine_x86_64, TARGET, 16);
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
        search(&machine_aarch64, TARGET + 0x10, 8);
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
        search(&machine_aarch64, TARGET + 0x10, 8);
        ck_assert_msg(found == 0, "at %#lx", (long)at);
        at += at > PIECE + 64 && at < PIECE + 8100 ? 60 : 0;
    }
}
END_TEST

/* A T32 bl to 16 bytes behind it, which is one only where the symbols do not say that something
 * else is there: before and behind it, they say other things. */
START_TEST(test_arm_marks)
{
    const uint64_t at = PIECE + 8;
    const struct reference_target target = {.first = ADDRESS + at + 16, .size = 1, .called = true};

    memset(code, 0, sizeof(code));
    memcpy(code + at, "\x00\xf0\x06\xf8", 4);
    search_marked(&machine_arm, &target, NULL, 0);
    ck_assert(found != 0 && found_at == ADDRESS + at);
    for (int kind = CODE_UNKNOWN; kind <= CODE_T32; kind++) {
        const struct code_mark marks[] = {{ADDRESS, kind == CODE_T32 ? CODE_A32 : CODE_T32},
                                          {ADDRESS + at, (enum code_kind)kind},
                                          {ADDRESS + at + 4, CODE_DATA}};

        search_marked(&machine_arm, &target, marks, 3);
        ck_assert_msg((found != 0) == (kind == CODE_UNKNOWN || kind == CODE_T32), "kind %d", kind);
        search_marked(&machine_arm, &target, marks + 2, 1);
        ck_assert_msg(found != 0, "before the first mark");
    }
}
END_TEST

/* A movw and a movt that completes it, and behind a branch another pair for the same register,
 * whose high half with the first low one would form the address. It does only if the branch may
 * skip the first movt. */
static const struct {
    const char *text;
    uint32_t instructions[5];
    bool found;
} halves[] = {
    {"movt r1, #6; b 8", {0xe3401006, 0xea000000}, false},
    {"nop; movt r1, #6; b 8", {0xe320f000, 0xe3401006, 0xea000000}, false},
    {"b 8", {0xea000000}, true},
    {"beq 8; movt r1, #6", {0x0a000000, 0xe3401006}, true},
    {"movteq r1, #6; b 8", {0x03401006, 0xea000000}, true},
    {"movt r2, #6; b 8", {0xe3402006, 0xea000000}, true},
};

START_TEST(test_arm_halves)
{
    const struct reference_target target = {.first = 0x4000f6b4, .size = 4, .absolute = true};
    uint64_t at = 68;

    memset(code, 0, sizeof(code));
    put_instruction(64, 0xe30f16b4); /* movw r1, #0xf6b4 */
    for (size_t i = 0; halves[_i].instructions[i] != 0; i++, at += 4)
        put_instruction(at, halves[_i].instructions[i]);
    put_instruction(at, 0xe3001000);     /* movw r1, #0 */
    put_instruction(at + 4, 0xe3441000); /* movt r1, #0x4000 */
    search_marked(&machine_arm, &target, NULL, 0);
    ck_assert_msg((found != 0) == halves[_i].found, "%s", halves[_i].text);
}
END_TEST

/* A number that is added to what holds the thread pointer is no distance from the GOT. */
START_TEST(test_arm_thread_pointer)
{
    const struct reference_target target = {.first = TARGET + 0x28, .size = 4};
    struct code from_got = {.bytes = {code, 28}, .address = ADDRESS, .base = TARGET};
    uint64_t position = 0;

    memset(code, 0, sizeof(code));
    put_instruction(0, 0xe59f0010);                        /* ldr r0, [pc, #16] */
    put_instruction(4, _i == 0 ? 0xee1d1f70 : 0xee1d2f70); /* mrc 15, 0, r1, c13, c0, 3; r2 */
    put_instruction(8, _i == 1 ? 0xe1a00000 : 0xe0813000); /* nop; add r3, r1, r0 */
    put_instruction(12, 0xe7914000);                       /* ldr r4, [r1, r0] */
    put_instruction(16, 0xe12fff1e);
    put_instruction(24, 0x28);
    ck_assert(machine_arm.find_reference(&from_got, &target, &position) == (_i == 2));
}
END_TEST

/* A number that is added to a register, which may be the GOT's or the thread pointer, leads to a
 * slot only if a word is loaded by both. */
START_TEST(test_arm_slots)
{
    const struct reference_target target = {.first = TARGET + 0x28, .size = 4, .loaded = _i != 0};
    /* ldr r3, [r1, r0]; add r3, r1, r0; ldrh r3, [r1, r0] */
    static const uint32_t uses[] = {0xe7913000, 0xe0813000, 0xe19130b0};
    struct code from_got = {.bytes = {code, 24}, .address = ADDRESS, .base = TARGET};

    for (size_t i = 0; i < 3; i++) {
        uint64_t position = 0;

        memset(code, 0, sizeof(code));
        put_instruction(0, 0xe59f0008); /* ldr r0, [pc, #8] */
        put_instruction(4, uses[i]);
        put_instruction(8, 0xe12fff1e); /* bx lr */
        put_instruction(16, 0x28);
        ck_assert_msg(machine_arm.find_reference(&from_got, &target, &position) ==
                          (i == 0 || !target.loaded),
                      "use %zu", i);
    }
}
END_TEST

/* What comes between an adrp with its other half and what would be another half of it: the register
 * may or may not still have the page. */
static const struct {
    const char *text;
    uint32_t instructions[3];
    bool found;
} betweens[] = {
    {"nop", {0xd503201f}, true},
    {"str x1, [x5]", {0xf90000a1}, true},
    {"movk x1, #1", {0xf2800021}, true},
    {"ldr d1, [x5]", {0xfd4000a1}, true},
    {"prfm #1, [x5]", {0xf98000a1}, true},
    {"prfm #1, [x5, x6]", {0xf8a668a1}, true},
    {"ccmp x1, #1, #1, ne", {0xfa411821}, true},
    {"mov x2, x5", {0xaa0503e2}, true},
    {"ldr x1, [x5]", {0xf94000a1}, false},
    {"ldr w1, [x5, x6, lsl #2]", {0xb86678a1}, false},
    {"ldrsw x1, [x5]", {0xb98000a1}, false},
    {"mov w1, #1", {0x52800021}, false},
    {"mov x1, #-5", {0x92800081}, false},
    {"mov x1, x5", {0xaa0503e1}, false},
    {"add x1, x5, x6", {0x8b0600a1}, false},
    {"sub x1, x5, #1", {0xd10004a1}, false},
    {"add x1, x1, #0x800", {0x91200021}, false},
    {"ret", {0xd65f03c0}, false},
    {"autibsp; ret", {0xd50323ff, 0xd65f03c0}, false},
    /* The other half may be where the branch leads. */
    {"cbz x0, 8; ret", {0xb4000040, 0xd65f03c0}, true},
    {"cbz x0, 8; mov x1, x5", {0xb4000040, 0xaa0503e1}, true},
    {"b 8; ret", {0x14000002, 0xd65f03c0}, true},
    /* A call comes back, and behind the return nothing follows. */
    {"bl 64; ret", {0x94000010, 0xd65f03c0}, false},
};

START_TEST(test_aarch64_overwritten)
{
    uint64_t at = 64;

    memset(code, 0, sizeof(code));
    put_adrp(at);
    put_instruction(at + 4, 0xf9408020); /* ldr x0, [x1, #0x100] */
    for (at += 8; betweens[_i].instructions[(at - 72) / 4] != 0; at += 4)
        put_instruction(at, betweens[_i].instructions[(at - 72) / 4]);
    put_add(at, 0x10);
    search(&machine_aarch64, TARGET + 0x10, 8);
    ck_assert_msg((found != 0) == betweens[_i].found, "%s", betweens[_i].text);
}
END_TEST

/* Half of an address is on the stack, and in a register that calls preserve, when there is a call.
 * What follows belongs to another function if it saves the address to return to, which the call has
 * overwritten: then that one's stack and registers are its own. */
static const struct {
    const char *text;
    uint32_t instructions[5];
    bool found;
    bool is_padded; /* behind zeros */
} behind_calls[] = {
    {"the call alone", {0xd503201f}, true, false},
    {"stp x29, x30, [sp, #-32]!", {0xa9be7bfd}, false, false},
    {"zeros; stp", {0xa9be7bfd}, false, true},
    {"zeros; nop; bti c; stp", {0xd503201f, 0xd503245f, 0xa9be7bfd}, false, true},
    {"paciasp; stp", {0xd503233f, 0xa9be7bfd}, false, false},
    {"bti c; pacibsp; stp", {0xd503245f, 0xd503237f, 0xa9be7bfd}, false, false},
    {"nop; nop; bti c; stp", {0xd503201f, 0xd503201f, 0xd503245f, 0xa9be7bfd}, false, false},
    {"sub sp, sp, #48; stp x29, x30, [sp, #32]", {0xd100c3ff, 0xa9027bfd}, false, false},
    /* The same function: it makes room on its stack, or loads what it had saved. */
    {"sub sp, sp, #48; stp x27, x28, [sp, #32]", {0xd100c3ff, 0xa90273fb}, true, false},
    {"stp x27, x28, [sp, #-32]!", {0xa9be73fb}, true, false},
    {"stp x29, x30, [x5, #-32]!", {0xa9be78bd}, true, false},
    {"ldr x30, [sp, #64]; stp", {0xf94023fe, 0xa9be7bfd}, true, false},
};

START_TEST(test_aarch64_behind_call)
{
    for (unsigned in_register = 0; in_register <= 1; in_register++) {
        uint64_t at = 64;

        memset(code, 0, sizeof(code));
        put_adrp(at);
        put_instruction(at + 4, 0xf9408020);                            /* ldr x0, [x1, #0x100] */
        put_instruction(at + 8, in_register ? 0xaa0103f3 : 0xf9000be1); /* mov x19, x1; str, [sp] */
        put_instruction(at + 12, 0x94000010);                           /* bl */
        at += behind_calls[_i].is_padded ? 24 : 16;
        for (size_t i = 0; behind_calls[_i].instructions[i] != 0; i++, at += 4)
            put_instruction(at, behind_calls[_i].instructions[i]);
        put_instruction(at, in_register ? 0xaa1303e1 : 0xf9400be1); /* mov x1, x19; ldr */
        put_add(at + 4, 0x10);
        search(&machine_aarch64, TARGET + 0x10, 8);
        ck_assert_msg((found != 0) == behind_calls[_i].found, "%s, in %s", behind_calls[_i].text,
                      in_register ? "a register" : "memory");
    }
}
END_TEST

/* What follows the end of a path may be a handler of exceptions, in which registers are as they
 * were at a call; but not if a branch leads there, also from before the half. */
START_TEST(test_aarch64_handler)
{
    memset(code, 0, sizeof(code));
    put_instruction(48, 0xd65f03c0);                        /* ret */
    put_instruction(52, 0xa9be7bfd);                        /* stp x29, x30, [sp, #-32]! */
    put_instruction(56, _i == 0 ? 0xd503201f : 0xb40000e0); /* nop; cbz x0, 28 */
    put_adrp(60);
    put_instruction(64, 0xf9408020); /* ldr x0, [x1, #0x100] */
    put_instruction(68, 0xaa0103f3); /* mov x19, x1 */
    put_instruction(72, 0x94000010); /* bl */
    put_instruction(76, 0x94000010);
    put_instruction(80, 0xd65f03c0);
    put_instruction(84, 0xaa1303e1); /* mov x1, x19 */
    put_add(88, 0x10);
    search(&machine_aarch64, TARGET + 0x10, 8);
    ck_assert_msg((found != 0) == (_i == 0), "a branch: %d", _i);
}
END_TEST

/* The instructions of POWER with a register as each operand, as compilers use them: those that
 * write the register with the upper half end its use, and the same instructions with another
 * register do not. */
static const struct {
    unsigned opcode; /* extended */
    bool is_logic;   /* the register that is written comes second */
} written[] = {{21, false},  {23, false},  {53, false}, {87, false},  {279, false},
               {341, false}, {343, false}, {40, false}, {104, false}, {233, false},
               {235, false}, {266, false}, {24, true},  {26, true},   {27, true},
               {28, true},   {58, true},   {316, true}, {444, true},  {536, true},
               {539, true},  {824, true},  {922, true}, {954, true},  {986, true}};

static uint32_t power_instruction(unsigned index, unsigned to)
{
    unsigned target = written[index].is_logic ? 7 : to;
    unsigned base = written[index].is_logic ? to : 7;

    return 0x7c000000 | target << 21 | base << 16 | 8 << 11 | written[index].opcode << 1;
}

START_TEST(test_ppc64_overwritten)
{
    const uint64_t base = ADDRESS + PIECE;
    struct reference_target target = {.first = base + 0x10008, .size = 4};
    struct code from_base = {.bytes = {code, 16}, .address = ADDRESS, .base = base};

    for (unsigned to = 4; to <= 6; to += 2) {
        uint64_t position = 0;

        put_instruction(0, 0x3c820001); /* addis 4, 2, 1 */
        put_instruction(4, power_instruction((unsigned)_i, to));
        put_instruction(8, 0x38a40008);  /* addi 5, 4, 8 */
        put_instruction(12, 0x4e800020); /* blr */
        ck_assert_msg(machine_ppc64le.find_reference(&from_base, &target, &position) == (to != 4),
                      "%u, which writes %u", written[_i].opcode, to);
    }
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 120, NULL);
    suite_tests(all, test_x86_64, test_aarch64_far, test_aarch64_other, test_arm_marks);
    suite_loops(all, sizeof(halves) / sizeof(halves[0]), test_arm_halves);
    suite_loops(all, 2, test_arm_slots);
    suite_loops(all, 3, test_arm_thread_pointer);
    suite_loops(all, sizeof(betweens) / sizeof(betweens[0]), test_aarch64_overwritten);
    suite_loops(all, sizeof(behind_calls) / sizeof(behind_calls[0]), test_aarch64_behind_call);
    suite_loops(all, 2, test_aarch64_handler);
    suite_loops(all, sizeof(written) / sizeof(written[0]), test_ppc64_overwritten);
    return suite_main("code search", all);
}
