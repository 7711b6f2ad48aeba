/*
 * The profile of a program whose counters change while they are copied: by a made-up program, of
 * which each copy of the counters is scripted.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "split/snapshot/snapshot.h"
#include "tests/support/suite.h"

#define BASE       UINT64_C(0x7f0000000000)
#define IMAGE_SIZE 0x4000
#define COUNTERS   0x1000
#define DATA       0x2000
#define NAMES      0x3000
#define COUNT      3
#define COPIES_MAX 8
#define FIRST      0xfe /* of the second counter, which then rises by 1 with each copy */

/* The program: its image in memory, and how often its counters have been copied. */
struct program {
    struct target memory;
    uint8_t image[IMAGE_SIZE];
    unsigned copies;
    int torn; /* the copy in which the second counter is torn; -1: none */
    uint64_t torn_value;
    bool falls; /* the second counter goes back all the time */
};

static void set_counters(struct program *program)
{
    uint64_t value = program->falls ? FIRST - program->copies : FIRST + program->copies;

    if (program->torn == (int)program->copies)
        value = program->torn_value;
    store_u64(program->image + COUNTERS, 7, false);
    store_u64(program->image + COUNTERS + 8, value, false);
    store_u64(program->image + COUNTERS + 16, UINT64_MAX, false);
}

static size_t read_memory(struct target *memory, uint64_t address, void *to, size_t size)
{
    struct program *program = (struct program *)memory;

    if (!range_within(address, size, BASE, IMAGE_SIZE))
        return 0;
    if (address == BASE + COUNTERS) {
        set_counters(program);
        program->copies++;
    }
    memcpy(to, program->image + (address - BASE), size);
    return size;
}

static bool is_writable(struct target *memory, uint64_t address)
{
    (void)memory;
    (void)address;
    return true;
}

static const struct memory_operations operations = {
    .absent_because = "gone; come again", .read = read_memory, .is_writable = is_writable};

static void start(struct program *program, struct memory_module *listed)
{
    static char name[] = "a program", path[] = "image";
    Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_phoff = sizeof(header),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = 1};
    Elf64_Phdr load = {
        .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_filesz = IMAGE_SIZE, .p_memsz = IMAGE_SIZE};

    *program = (struct program){.torn = -1};
    program->memory = (struct target){.operations = &operations, .name = name, .is_running = true};
    memcpy(program->image, &header, sizeof(header));
    memcpy(program->image + sizeof(header), &load, sizeof(load));
    *listed = (struct memory_module){.path = path, .base = BASE};
}

/* The second counter in the profile that is taken. */
static uint64_t take_second(struct program *program, const struct memory_module *listed)
{
    const struct coverage coverage = {
        .sections = {[SECTION_COUNTERS] = {.address = COUNTERS, .size = 8 * COUNT},
                     [SECTION_DATA] = {.address = DATA, .size = 48},
                     [SECTION_NAMES] = {.address = NAMES, .size = 4}},
        .raw_version = 8,
        .is_complete = true,
        .knows_biases = true};
    FREED_BY(module_free) struct module module;
    FREED_BY(taken_free) struct taken taken = {0};
    struct error error = {0};

    ck_assert_int_eq(module_read(&program->memory, listed, &module), MODULE_READ);
    ck_assert_msg(take_profile(&program->memory, &module, &coverage, NULL, &taken, &error), "%s",
                  error.message);
    ck_assert_uint_eq(taken.profile.counters.size, 8 * COUNT);
    ck_assert_uint_eq(load_u64(taken.counters.data, false), 7);
    ck_assert_uint_eq(load_u64(taken.counters.data + 16, false), UINT64_MAX);
    return load_u64(taken.counters.data + 8, false);
}

/* A carry goes through while the counter is copied: its low byte is that of before and the next one
 * that of after, or the other way round. */
START_TEST(test_torn)
{
    static const uint64_t values[] = {0x1ff, 0x000, 0x1fe, 0x0};
    struct program program;
    struct memory_module listed;
    uint64_t second;

    start(&program, &listed);
    program.torn = _i / 4;
    program.torn_value = values[_i % 4];
    second = take_second(&program, &listed);
    ck_assert_uint_ge(second, FIRST);
    ck_assert_uint_le(second, FIRST + program.copies);
    ck_assert_uint_le(program.copies, COPIES_MAX + 1);
}
END_TEST

/* Threads that count without atomic operations lose counts: that ends too. */
START_TEST(test_falling)
{
    struct program program;
    struct memory_module listed;
    uint64_t second;

    start(&program, &listed);
    program.falls = true;
    second = take_second(&program, &listed);
    ck_assert_uint_lt(second, FIRST);
    ck_assert_uint_le(program.copies, COPIES_MAX + 1);
}
END_TEST

/* Counters that do not change are copied no more often than it takes to see that. */
START_TEST(test_core)
{
    struct program program;
    struct memory_module listed;

    start(&program, &listed);
    program.memory.is_running = false;
    ck_assert_uint_eq(take_second(&program, &listed), FIRST);
    ck_assert_uint_eq(program.copies, 1);
}
END_TEST

int main(void)
{
    TCase *test_case = tcase_create("counters");

    suite_loops(test_case, COPIES_MAX * 4, test_torn);
    suite_tests(test_case, test_falling, test_core);
    return suite_main("snapshot", test_case);
}
