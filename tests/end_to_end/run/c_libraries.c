/*
 * `covsplit run` for programs of several C libraries: with the preload module beside the command,
 * and with the one that a static command has in itself.
 *
 * Usage: c_libraries COMMAND MODULE      a command with the module in itself, and that module
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

static struct run_files files;
static const char *command_inside, *module_inside;

static void prepare(void)
{
    files = run_files_create("c-libraries");
}

/* Programs read a lightweight profile as the full one. */
static void check_program(const char *covsplit, const char *program)
{
    static const char *const ways[] = {"open", "openat", "fopen"};
    struct contents full = file_read(files.full);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct command command =
            command_words(files.sample.scratch, "%s run --store %s -- %s %s %s", covsplit,
                          files.store, program, ways[i], files.light);
        struct outcome outcome = command_expect(&command, 0);
        ck_assert_msg(outcome.output_size == full.size &&
                          memcmp(outcome.output, full.data, full.size) == 0,
                      "%s, %s of %s", covsplit, ways[i], program);
        ck_assert_str_eq(outcome.errors, "");
        outcome_free(&outcome);
    }
    contents_free(&full);
}

START_TEST(test_programs)
{
    static const char *const compilers[] = {"gcc", "musl-gcc"};
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
        const char *program = text_format("%s/by-%s", files.sample.scratch, compilers[i]);
        run_or_abort(NULL, compilers[i], "-O1", COVSPLIT_FIXTURE_DIRECTORY "/read_file.c", "-o",
                     program, NULL);
        check_program(covsplit_path(), program);
        check_program(command_inside, program);
    }
}
END_TEST

/* One run in the other: of the same command, and of another one. */
START_TEST(test_nested)
{
    const char *const commands[] = {command_inside, covsplit_path()};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct command command = command_words(
            files.sample.scratch, "%s run --store %s -- %s run --store %s -- cmp %s %s",
            command_inside, files.store, commands[i], files.store, files.light, files.full);
        run_expect(&command, 0, "");
    }
}
END_TEST

/* The module in the command is the same for all C libraries and their versions: it asks for no
 * version of a symbol, and for no library but the one that glibc before 2.34 has dlsym in. */
START_TEST(test_module)
{
    const char *symbols =
        run_or_abort(NULL, "nm", "-D", "-u", "--with-symbol-versions", module_inside, NULL);
    ck_assert_msg(strstr(symbols, " U dlsym\n") != NULL && strchr(symbols, '@') == NULL, "%s",
                  symbols);
    const char *dynamic = run_or_abort(NULL, "readelf", "-dW", module_inside, NULL);
    ck_assert_msg(text_count(dynamic, "(NEEDED)") == 1 && strstr(dynamic, "[libdl.so.2]") != NULL &&
                      strstr(dynamic, "PATH)") == NULL,
                  "%s", dynamic);
    /* Newer than the C libraries that it is for. */
    ck_assert_msg(strstr(symbols, " U fstat") == NULL, "%s", symbols);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "COMMAND MODULE", &command_inside, &module_inside);
    TCase *test_case = suite_case("all", 120, prepare);
    suite_tests(test_case, test_programs, test_nested, test_module);
    return suite_main("c libraries", test_case);
}
