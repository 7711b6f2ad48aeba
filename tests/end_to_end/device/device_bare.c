/*
 * Images without a C library and without compiler-rt: static, with a start of their own and system
 * calls by hand. The device runtime takes compiler-rt's place, whose functions covsplit recognizes
 * however they are compiled; the streams of the unsplit and of the split image give the same
 * report.
 *
 * Usage: device_bare MACHINE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS    80
#define FREESTANDING COVSPLIT_FIXTURE_DIRECTORY "/freestanding"
#define BARE         COVSPLIT_FIXTURE_DIRECTORY "/device/bare.c"
#define SOURCES      COVSPLIT_FIXTURE_DIRECTORY "/../../device/"
#define RUNS         2

/* What is promised. */
#define CODE_MAX  4096
#define STACK_MAX 256

static const struct machine {
    const char *name;
    const char *triple;
    const char *emulator; /* "": none */
    const char *codes[2]; /* words for kinds of code; NULL: none */
    const char *clangs;   /* those that lld works with */
} machines[] = {
    {"x86-64", "x86_64-linux-gnu", "", {""}, "19 14 16 22"},
    {"aarch64", "aarch64-linux-gnu", "qemu-aarch64", {""}, "22 14 16 19"},
    {"arm", "arm-linux-gnueabihf", "qemu-arm", {"-mthumb", "-marm"}, "19 14 16 22"},
    {"riscv32", "riscv32-linux-gnu", "qemu-riscv32", {"", "-march=rv32imafd"}, "14 19 22"},
    {"riscv64", "riscv64-linux-gnu", "qemu-riscv64", {"", "-march=rv64imafd"}, "22 19"},
};

/* How the runtime is compiled. */
static const char *const runtimes[] = {"-Os", "-O0", "-O2 -fPIC", "-O3 -ffunction-sections", "-O1"};

#define MACHINES (sizeof machines / sizeof *machines)
#define RUNTIMES (sizeof runtimes / sizeof *runtimes)

static const struct machine *machine;
static struct text_list clangs;

/* ---- building ---- */

static void compile(const char *directory, const char *clang, const char *words)
{
    struct command command = command_words(
        directory,
        "clang-%s --target=%s -ffreestanding -fomit-frame-pointer -w -I. -isystem " FREESTANDING
        "/include %s",
        clang, machine->triple, words);
    command_run_or_abort(&command);
    command_free(&command);
}

static void build(const char *directory, const char *clang, const char *code, const char *runtime)
{
    static const char *const sources[] = {"stream.c", "runtime.c", "covsplit-device.h"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        file_copy(path_join(SOURCES, sources[i]), path_join(directory, sources[i]));
    }
    source_generate(path_join(directory, "first.c"), LANGUAGE_C, "first", FUNCTIONS);
    compile(directory, clang,
            text_format("%s -O1 " INSTRUMENT_COVERAGE " -c first.c -o first.o", code));
    compile(directory, clang, text_format("%s -O1 -c " BARE " -o bare.o", code));
    compile(directory, clang,
            text_format("%s -O1 -c " FREESTANDING "/library.c -o library.o", code));
    compile(directory, clang, text_format("%s -Os -c stream.c -o stream.o", code));
    compile(directory, clang, text_format("%s %s -c runtime.c -o runtime.o", code, runtime));
    compile(directory, clang,
            "-nostdlib -static -fuse-ld=lld -Wl,--build-id=sha1 first.o bare.o library.o stream.o "
            "runtime.o -o whole");
}

/* The second number in what llvm-size prints: how much code there is. */
static unsigned long code_size(const char *directory, const char *clang)
{
    const char *output =
        run_or_abort(directory, versioned_tool("llvm-size", clang), "stream.o", NULL);
    return strtoul(strchr(output, '\n'), NULL, 10);
}

/* ---- running ---- */

/* Streams by pieces of `size` bytes, and returns how many bytes of stack that has taken. */
static unsigned long run(const char *directory, const char *image, int seed, const char *output,
                         int size, int flags)
{
    struct command command = command_words(directory, "%s ./%s %d %s %d %d", machine->emulator,
                                           image, seed, output, size, flags);
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_str_eq(outcome.errors, "");
    return strtoul(outcome.output, NULL, 10);
}

static unsigned long run_all(const char *directory)
{
    static const char *const images[] = {"whole", "half"};
    static const int sizes[] = {1, 7, 64, 4096};
    unsigned long most = 0;
    for (int i = 0; i < 2 * RUNS; i++) {
        const char *image = images[i / RUNS];
        int seed = 3 + i % RUNS;
        unsigned long plain =
            run(directory, image, seed, text_format("%s-%d", image, i % RUNS), sizes[i], 0);
        unsigned long sparse = run(directory, image, seed,
                                   text_format("%s-%d-sparse", image, i % RUNS), sizes[3 - i], 1);
        most = plain > most ? plain : most;
        most = sparse > most ? sparse : most;
    }
    return most;
}

/* ---- checks ---- */

static void check_profiles(const char *directory)
{
    struct raw_profile whole, half;
    struct verdict verdict = {0};
    if (!raw_profile_read(path_join(directory, "whole-1"), &whole, &verdict) ||
        !raw_profile_read(path_join(directory, "half-1"), &half, &verdict)) {
        verdict_assert(&verdict, directory);
    }
    ck_assert_uint_gt(whole.record_count, FUNCTIONS);
    ck_assert_uint_eq(half.record_count, 1);
    ck_assert_uint_gt(half.binary_ids.size, 20);
    ck_assert(parts_equal(whole.counters, half.counters));
    ck_assert(parts_equal(whole.binary_ids, half.binary_ids));
    raw_profile_free(&whole);
    raw_profile_free(&half);
}

static void check_reports(const char *directory, const char *clang)
{
    const char *profdata = versioned_tool("llvm-profdata", clang);
    const char *cov = versioned_tool("llvm-cov", clang);
    run_or_abort(directory, profdata, "merge", "-o", "whole.profdata", "whole-0", "whole-1", NULL);
    covsplit_run_words(directory, 0,
                       text_format("merge --sidecar side --llvm-profdata %s -o half.profdata "
                                   "half-0-sparse half-1",
                                   profdata));
    const char *expected =
        run_or_abort(directory, cov, "export", "whole", "-instr-profile=whole.profdata", NULL);
    struct command command = covsplit_words(
        directory,
        text_format("run --sidecar side -- %s export half -instr-profile=half.profdata", cov));
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_str_eq(outcome.output, expected);
    ck_assert_ptr_nonnull(strstr(expected, "\"count\""));
}

START_TEST(test_row)
{
    /* Where not all are run: the first compiler, both kinds of code, and of the ways to compile the
     * runtime two others for each machine. */
    size_t row = (size_t)_i + (rounds_are_all() ? 0 : (size_t)(machine - machines));
    const char *clang = clangs.items[(size_t)_i / RUNTIMES];
    const char *runtime = runtimes[row % RUNTIMES];
    const char *code = machine->codes[_i % 2] != NULL ? machine->codes[_i % 2] : "";
    char *directory = scratch_create("device-bare");
    build(directory, clang, code, runtime);
    const char *messages =
        covsplit_assert(0, directory, "split", "-o", "half", "--sidecar", "side", "whole", NULL);
    ck_assert_msg(strstr(messages, "stays") == NULL, "%s %s %s: %s", clang, code, runtime,
                  messages);
    unsigned long stack = run_all(directory), size = code_size(directory, clang);
    check_profiles(directory);
    check_reports(directory, clang);
    printf("%s %s clang-%s, runtime %s: %lu bytes of code, %lu of stack\n", machine->name, code,
           clang, runtime, size, stack);
    ck_assert_uint_le(size, CODE_MAX);
    ck_assert_uint_le(stack, STACK_MAX);
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *name;
    suite_arguments(argument_count, arguments, "MACHINE", &name);
    for (size_t i = 0; i < MACHINES; i++) {
        machine = strcmp(machines[i].name, name) == 0 ? &machines[i] : machine;
    }
    if (machine == NULL) {
        return suite_usage(arguments[0], "MACHINE");
    }
    text_list_add_words(&clangs, machine->clangs);
    TCase *test_case = suite_case("rows", 300, NULL);
    suite_loops(test_case, rounds_are_all() ? RUNTIMES * clangs.count : 2, test_row);
    return suite_main(text_format("device bare %s", name), test_case);
}
