/*
 * Cores of other machines: of a program and a library, both split, which an emulator ran and dumped
 * when they aborted. The snapshot is byte for byte what the images wrote themselves before.
 *
 * Usage: snapshot_machines MACHINE
 *
 * With each linker: GNU ld puts an image's ELF header into a segment of code, which the emulator
 * does not dump, and lld into one of constants, which it dumps.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"

#define FUNCTIONS 40

static const struct target *target;

static const char *const linkers[] = {"bfd", "lld"};
#define LINKER_COUNT (sizeof linkers / sizeof *linkers)

static struct crash crash_of(const struct program *program)
{
    return crash_create(program, true,
                        scratch_create(text_format("core-%s-%s", target->name, program->linker)));
}

static struct program program_by(const char *linker, const char *build_id)
{
    return (struct program){
        .target = target,
        .clang = "19",
        .linker = linker,
        .kind = build_id == NULL ? LINK_SHARED : LINK_PIE, /* each image needs its own */
        .language = LANGUAGE_C,
        .optimization = "-O1",
        .build_id = build_id,
        .functions = FUNCTIONS,
    };
}

static void check_core(const char *linker, const char *build_id)
{
    struct program program = program_by(linker, build_id);
    if (!target_has_tools(target, program.clang, program.linker)) {
        return;
    }
    struct crash crash = crash_of(&program);
    struct verdict verdict = {0};
    const char *out = path_join(crash.directory, "out");
    struct outcome outcome = crash_snapshot(&crash, crash.core, "-v", out);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s%s", outcome.output, outcome.errors);
    ck_assert_str_eq(outcome.errors, "");
    crash_check(&crash, out, true, &verdict);
    verdict_assert(&verdict, program_describe(&program));
    outcome_free(&outcome);
}

START_TEST(test_core)
{
    check_core(linkers[_i], NULL);
}
END_TEST

/* Records have the first 16 bytes of a UUID, and zeros behind a shorter one. */
START_TEST(test_build_ids)
{
    static const char *const values[] = {"md5", "0x00ff00ff00ff0000", "0x00c0ffee"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (rounds_have((unsigned)i, 2)) {
            check_core("bfd", values[i]);
        }
    }
}
END_TEST

/* Of images that were not split there is not enough in such a core, which is said. */
START_TEST(test_not_split)
{
    struct program program = program_by("bfd", NULL);
    struct crash crash = crash_create(
        &program, false, scratch_create(text_format("core-%s-not-split", target->name)));
    struct outcome outcome =
        crash_snapshot(&crash, crash.core, "", path_join(crash.directory, "out"));
    ck_assert_msg(outcome_exited(&outcome, 1), "%s%s", outcome.output, outcome.errors);
    ck_assert_uint_eq(directory_list(path_join(crash.directory, "out")).count, 0);
    assert_contains(outcome.errors, "coverage");
    outcome_free(&outcome);
}
END_TEST

/* Without the sidecars nothing is passed over in silence. */
START_TEST(test_no_sidecars)
{
    struct program program = program_by(linkers[_i], NULL);
    if (!target_has_tools(target, program.clang, program.linker)) {
        return;
    }
    struct crash crash = crash_of(&program);
    const char *out = path_join(crash.directory, "out");
    directory_remove(crash.store);
    struct outcome outcome = crash_snapshot(&crash, crash.core, "", out);
    ck_assert_msg(outcome_exited(&outcome, 1), "%s%s", outcome.output, outcome.errors);
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: error: "), 2);
    assert_contains(outcome.errors, "UUID");
    outcome_free(&outcome);
}
END_TEST

/* The kernel dumps the emulator, too, with the program in its memory, which counts once. */
START_TEST(test_emulator_core)
{
    struct program program = program_by("lld", NULL);
    if (!target_has_tools(target, program.clang, program.linker)) {
        return;
    }
    struct crash crash = crash_of(&program);
    if (!file_exists(crash.emulator_core)) {
        return; /* kernel.core_pattern puts it elsewhere */
    }
    const char *cores[] = {crash.core, crash.emulator_core};
    for (size_t i = 0; i < 3; i++) {
        const char *out = text_format("%s/both-%zu", crash.directory, i);
        struct outcome outcome;
        if (i < 2) { /* in one command, in either order; then one after the other */
            outcome = crash_snapshot(&crash, text_format("%s --core %s", cores[i], cores[1 - i]),
                                     "", out);
        } else {
            crash_snapshot(&crash, cores[0], "", out);
            outcome = crash_snapshot(&crash, cores[1], "", out);
        }
        ck_assert_msg(outcome_exited(&outcome, 0), "%s%s", outcome.output, outcome.errors);
        ck_assert_uint_eq(directory_list(out).count, 2);
        if (i < 2) {
            ck_assert_uint_eq(text_count(outcome.errors, "one core is of an emulator"), 2);
        }
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *machine;
    suite_arguments(argument_count, arguments, "MACHINE", &machine);
    target = target_find(machine);
    TCase *test_case = suite_case("all", 300, NULL);
    suite_loops(test_case, LINKER_COUNT, test_core, test_no_sidecars);
    suite_tests(test_case, test_build_ids, test_not_split, test_emulator_core);
    return suite_main("cores of other machines", test_case);
}
