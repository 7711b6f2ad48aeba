/*
 * covsplit pack and covsplit compile: nothing is lost when they are killed at any system call. The
 * rest is in the scenes of pack-files and compile.
 */
#include <signal.h>
#include <stdlib.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define TEST_TIMEOUT_SECONDS 600

static char *scratch;
static char *inputs; /* a directory that every test gets a copy of */

static const char *shell(const char *directory, const char *script)
{
    return run_or_abort(directory, "sh", "-ec", script, NULL);
}

/* Objects and archives; in "packed", what these are when they are packed. */
static void prepare(void)
{
    scratch = scratch_create("pack");
    inputs = path_join(scratch, "inputs");
    directory_create(inputs);
    many_units_write(inputs);
    shell(inputs, "for i in 0 1 2; do clang++-19 " INSTRUMENT_COVERAGE " -c unit$i.cc; done\n"
                  "ar rcs lib.a unit0.o unit1.o; ar rcsT thin.a unit1.o unit2.o; rm *.cc\n"
                  "mkdir packed; cp -a *.o lib.a thin.a packed");
    covsplit_run_words(path_join(inputs, "packed"), 0, "pack unit0.o unit1.o unit2.o lib.a thin.a");
}

/* A copy of the inputs, for one test. */
static char *place_create(void)
{
    char *place = text_format("%s/place-XXXXXX", scratch);

    ck_assert_ptr_nonnull(mkdtemp(place));
    shell(place, text_format("cp -a %s/. .", inputs));
    return place;
}

/* Each file is what it was or what it is to be. Returns true if all is done. */
static bool assert_nothing_lost(const char *place, const char *moment)
{
    static const char *const names[] = {"unit0.o", "unit1.o", "unit2.o", "lib.a", "thin.a"};
    bool all = true;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct verdict ordinary = {0}, packed = {0};
        const char *path = path_join(place, names[i]);
        bool is_packed =
            files_equal(path, path_join(inputs, text_format("packed/%s", names[i])), &packed);

        ck_assert_msg(is_packed || files_equal(path, path_join(inputs, names[i]), &ordinary),
                      "%s: %s is neither", moment, names[i]);
        all = all && is_packed;
    }
    return all;
}

START_TEST(test_every_system_call)
{
    unsigned calls = 0;
    struct traced pack = {.was_stopped = true};

    while (pack.was_stopped) {
        char *place = place_create();
        struct command command = covsplit_words(place, "pack -j1 unit0.o lib.a thin.a");
        const char *moment = text_format("at stop %u", calls += rounds_step());
        bool done;

        pack = command_trace_and_kill(&command, calls);
        done = assert_nothing_lost(place, moment);
        ck_assert(done || pack.was_stopped);
        if (!done) {
            covsplit_run_words(place, 0, "pack unit0.o lib.a thin.a");
            ck_assert_msg(assert_nothing_lost(place, moment), "%s: cannot be finished", moment);
        }
        command_free(&command);
        directory_remove(place);
    }
    ck_assert_uint_gt(calls, 100);
}
END_TEST

/* ---- covsplit compile ---- */

/* By a program that does what a compiler with -o does, without a compiler's time. */
static struct command compile_in(const char *place)
{
    file_write_text(path_join(place, "cc"), "cp unit0.o b.o\n");
    return covsplit_words(place, "compile -- sh cc -o b.o");
}

/* At each system call of its own: the object is absent, as written, or packed. */
START_TEST(test_compile_killed)
{
    char *place = place_create(), *object = path_join(place, "b.o");
    struct command command = compile_in(place);
    struct traced traced = {.was_stopped = true};
    unsigned stops = 0, as_written = 0;
    bool is_packed = false;

    while (traced.was_stopped) {
        struct verdict ordinary = {0}, packed = {0};

        directory_remove(object);
        stops += rounds_step();
        traced = command_trace_and_kill(&command, stops);
        is_packed = false;
        if (file_exists(object)) {
            is_packed = files_equal(object, path_join(place, "packed/unit0.o"), &packed);
            ck_assert_msg(is_packed || files_equal(object, path_join(place, "unit0.o"), &ordinary),
                          "stop %u: half an object", stops);
            as_written += !is_packed;
        }
    }
    ck_assert(is_packed && as_written > 0);
    ck_assert_int_eq(traced.exit_code, 0);
}
END_TEST

/* SIGTERM at each system call leaves no temporary file either. */
START_TEST(test_compile_stopped)
{
    char *place = place_create(), *object = path_join(place, "b.o");
    struct command command = compile_in(place);
    struct text_list before = directory_list(place);
    struct traced traced = {.was_stopped = true};
    unsigned stops = 0;

    while (traced.was_stopped) {
        directory_remove(object);
        stops += 4 * rounds_step();
        traced = command_trace_and_signal(&command, stops, SIGTERM);
        ck_assert_uint_eq(directory_list(place).count, before.count + file_exists(object));
    }
    ck_assert_uint_gt(stops, 20);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("kills", TEST_TIMEOUT_SECONDS, prepare);

    scratch_use_memory();
    suite_tests(test_case, test_every_system_call, test_compile_killed, test_compile_stopped);
    return suite_main("pack", test_case);
}
