/*
 * A minidump that Breakpad itself writes, of a program that registers its counters and of one that
 * does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/compile_cache.h"
#include "tests/support/covsplit_tool.h"
#include "tests/support/crash.h"
#include "tests/support/file_system.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"

#define FIXTURE COVSPLIT_FIXTURE_DIRECTORY "/breakpad"

static void build(const char *directory, const char *clang)
{
    struct command command = {0};
    text_list_add_words(&command.arguments, "cmake -G Ninja -S " FIXTURE
                                            " -DVENDOR=" COVSPLIT_TEST_CACHE "/minidump/deps");
    text_list_add_format(&command.arguments, "-DCMAKE_C_COMPILER=%s",
                         versioned_tool("clang", clang));
    text_list_add_format(&command.arguments, "-DCMAKE_CXX_COMPILER=%s",
                         versioned_tool("clang++", clang));
    text_list_add(&command.arguments, "-B");
    text_list_add(&command.arguments, directory);
    command_run_or_abort(&command);
    command_free(&command);
    command = command_words(NULL, "cmake --build %s", directory);
    command_run_or_abort(&command);
    command_free(&command);
}

/* A copy of the program, which is split. */
static struct crash create(const char *label)
{
    struct crash crash = {.directory = scratch_create(label)};
    struct contents rules = file_read(FIXTURE "/CMakeLists.txt"),
                    source = file_read(FIXTURE "/driver.cc");
    const char *inputs = text_format("%.*s%.*s", (int)rules.size, (const char *)rules.data,
                                     (int)source.size, (const char *)source.data);
    const char *built = cache_directory("breakpad", "22", inputs, build);
    file_copy(path_join(built, PROGRAM_NAME), path_join(crash.directory, PROGRAM_NAME));
    file_copy(path_join(built, "libabort.so"), path_join(crash.directory, "libabort.so"));
    struct outcome outcome =
        covsplit_run_words(crash.directory, 0, "split --store store " PROGRAM_NAME);
    outcome_free(&outcome);
    crash.store = path_join(crash.directory, "store");
    crash.profiles = path_join(crash.directory, "profiles");
    return crash;
}

/* Runs the program, and finds the minidump. */
static void run(struct crash *crash, const char *argument)
{
    struct command command = command_words(crash->directory, "./" PROGRAM_NAME " %s", argument);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=profiles/%m.profraw");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.signal != 0, "%s", outcome_describe(&command, &outcome));
    outcome_free(&outcome);
    command_free(&command);
    struct text_list names = directory_list(crash->directory);
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.items[i], ".dmp") != NULL) {
            crash->core = path_join(crash->directory, names.items[i]);
        }
    }
    ck_assert_ptr_nonnull(crash->core);
}

static void expect_profile(struct crash *crash, const char *label)
{
    struct verdict verdict = {0};
    const char *out = path_join(crash->directory, label);
    struct outcome outcome = crash_snapshot(crash, crash->core, "", out);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s: %s", label, outcome.errors);
    crash_check(crash, out, true, &verdict);
    verdict_assert(&verdict, label);
    outcome_free(&outcome);
}

/* With the image that was loaded, and with nothing but its sidecar. */
START_TEST(test_registered)
{
    struct crash crash = create("breakpad");
    run(&crash, "registered");
    expect_profile(&crash, "with-image");
    ck_assert_int_eq(remove(path_join(crash.directory, PROGRAM_NAME)), 0);
    expect_profile(&crash, "without-image");
}
END_TEST

START_TEST(test_not_registered)
{
    struct crash crash = create("breakpad-stacks");
    run(&crash, "");
    struct outcome outcome =
        crash_snapshot(&crash, crash.core, "", path_join(crash.directory, "out"));
    ck_assert(outcome_exited(&outcome, 1));
    assert_contains(outcome.errors, "RegisterAppMemory");
    ck_assert_uint_eq(directory_list(path_join(crash.directory, "out")).count, 0);
    outcome_free(&outcome);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("all", 600, NULL);
    suite_tests(test_case, test_registered, test_not_registered);
    return suite_main("Breakpad", test_case);
}
