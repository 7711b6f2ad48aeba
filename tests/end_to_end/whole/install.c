/*
 * What `cmake --install` puts in place: the command, and the library as others use it, through
 * pkg-config and through CMake, from C and from C++.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define SAMPLE_FUNCTIONS 20

static struct sample sample;
static char *prefix;
static char *library_directory;

static void prepare(void)
{
    sample = sample_create("install", SAMPLE_FUNCTIONS);
    sample_split(&sample);
    prefix = path_join(sample.scratch, "prefix with blank");
    run_or_abort(NULL, "cmake", "--install", COVSPLIT_BUILD_DIRECTORY, "--prefix", prefix, NULL);
    library_directory = path_join(prefix, COVSPLIT_LIBRARY_DIRECTORY);
}

/* The program must describe the sidecar and bring the original back. */
static void assert_works(const char *program)
{
    char *output = path_join(sample.scratch, "restored");
    struct command command = {0};
    text_list_add(&command.arguments, program);
    text_list_add(&command.arguments, sample.sidecar);
    text_list_add(&command.arguments, sample.stripped);
    text_list_add(&command.arguments, output);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", library_directory);
    const char *text = command_run_or_abort(&command);
    ck_assert_ptr_nonnull(strstr(text, "ELF, machine 62\n"));
    ck_assert_ptr_nonnull(strstr(text, "__llvm_covfun "));
    files_assert_equal(output, sample.image, program);
}

START_TEST(test_command)
{
    struct command command = {0};
    text_list_add(&command.arguments, path_join(prefix, "bin/covsplit"));
    text_list_add(&command.arguments, "verify");
    text_list_add(&command.arguments, sample.sidecar);
    command_run_or_abort(&command);
}
END_TEST

/* The command finds the preload module beside the library, and names it for the dynamic linker in
 * spite of the blanks in its path. */
START_TEST(test_run)
{
    char *object = path_join(sample.scratch, "object");
    const char *tool = path_join(prefix, "bin/covsplit");
    run_or_abort(NULL, tool, "export", "--sidecar", sample.sidecar, "-o", object, NULL);
    struct command command = {0};
    text_list_add(&command.arguments, tool);
    text_list_add_words(&command.arguments, "run -- sh -c");
    text_list_add(&command.arguments, "cmp \"$0\" \"$1\"");
    text_list_add(&command.arguments, sample.stripped);
    text_list_add(&command.arguments, object);
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s",
                  outcome_describe(&command, &outcome));
    ck_assert(file_exists(path_join(library_directory, "covsplit/libcovsplit-preload.so")));
}
END_TEST

START_TEST(test_pkg_config)
{
    static const struct {
        const char *compiler;
        const char *language;
    } compilers[] = {{"gcc", "c"}, {"clang-19", "c"}, {"g++", "c++"}};
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
        char *program = text_format("%s/use-%zu", sample.scratch, i);
        /* The shell takes the flags of pkg-config apart, as a Makefile does. */
        struct command command = {.directory = COVSPLIT_FIXTURE_DIRECTORY "/install"};
        text_list_add_words(&command.arguments, "sh -ec");
        text_list_add(
            &command.arguments,
            "eval \"set -- \\\"\\$@\\\" $(pkg-config --cflags --libs covsplit)\"; exec \"$@\"");
        text_list_add(&command.arguments, "sh");
        text_list_add(&command.arguments, compilers[i].compiler);
        text_list_add_words(&command.arguments, "-Wall -Wextra -Wpedantic -Werror -x");
        text_list_add(&command.arguments, compilers[i].language);
        text_list_add_words(&command.arguments, "use_library.c -o");
        text_list_add(&command.arguments, program);
        text_list_add_format(&command.environment, "PKG_CONFIG_PATH=%s/pkgconfig",
                             library_directory);
        command_run_or_abort(&command);
        assert_works(program);
    }
}
END_TEST

START_TEST(test_find_package)
{
    char *build = path_join(sample.scratch, "build");
    run_or_abort(NULL, "cmake", "-S", COVSPLIT_FIXTURE_DIRECTORY "/install", "-B", build,
                 text_format("-DCMAKE_PREFIX_PATH=%s", prefix), NULL);
    run_or_abort(NULL, "cmake", "--build", build, NULL);
    assert_works(path_join(build, "use_library"));
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("install", 300, prepare);
    suite_tests(test_case, test_command, test_run, test_pkg_config, test_find_package);
    return suite_main("install", test_case);
}
