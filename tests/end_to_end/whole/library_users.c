/*
 * libcovsplit as others use it: installed into a prefix, found by pkg-config and by CMake, linked
 * from C and from C++, asked which functions of a program ran, and used to merge; and
 * libcovsplit-device, installed with it.
 *
 * Usage: library_users BUILD_DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define FUNCTIONS 20
#define SOURCE    COVSPLIT_FIXTURE_DIRECTORY "/covered_functions.c"
#define EXAMPLES  COVSPLIT_FIXTURE_DIRECTORY "/../../share/examples/library"

static const char *build_directory;
static char *scratch;
static char *prefix;
static char *library_directory; /* in the prefix */

static void prepare(void)
{
    scratch = scratch_create("library");
    prefix = path_join(scratch, "prefix");
    run_or_abort(scratch, "cmake", "--install", build_directory, "--prefix", prefix, NULL);
    const char *found =
        run_or_abort(prefix, "find", ".", "-name", "covsplit.pc", "-printf", "%h", NULL);
    ck_assert_ptr_nonnull(strstr(found, "/pkgconfig"));
    library_directory =
        text_format("%s/%.*s", prefix, (int)(strstr(found, "/pkgconfig") - found), found);
    struct program program = {.clang = "19",
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .functions = FUNCTIONS};
    program_build(&program, scratch);
    run_or_abort(scratch, covsplit_path(), "split", "-o", "split", "--sidecar", "side.covsplit",
                 PROGRAM_NAME, NULL);
    struct command command = {.directory = scratch};
    text_list_add_format(&command.arguments, "%s/split", scratch);
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=run.profraw");
    command_expect(&command, 3);
}

/* The lines of what pkg-config says: one. */
static const char *package(const char *question)
{
    struct command command = command_words(scratch, "pkg-config %s covsplit", question);
    text_list_add_format(&command.environment, "PKG_CONFIG_PATH=%s/pkgconfig", library_directory);
    const char *output = command_run_or_abort(&command);
    return text_format("%.*s", (int)strcspn(output, "\n"), output);
}

/* The functions that llvm-profdata says have been called, sorted. */
static struct text_list expected_functions(void)
{
    run_or_abort(scratch, covsplit_path(), "correlate", "--sidecar", "side.covsplit", "-o",
                 "full.profraw", "run.profraw", NULL);
    const char *text = run_or_abort(scratch, "llvm-profdata-19", "show", "--all-functions",
                                    "--covered", "full.profraw", NULL);
    struct text_list lines = text_list_of_lines(text);
    return lines;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct outcome run_program(const char *program, const char *arguments)
{
    struct command command = command_words(scratch, "%s/%s %s", scratch, program, arguments);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", library_directory);
    text_list_add(&command.environment, "ASAN_OPTIONS=verify_asan_link_order=0");
    return command_expect(&command, 0);
}

static void check_program(const char *program)
{
    struct outcome outcome = run_program(program, "side.covsplit run.profraw");
    struct text_list found = text_list_of_lines(outcome.output);
    struct text_list expected = expected_functions();
    ck_assert_uint_gt(found.count, FUNCTIONS);
    ck_assert_uint_eq(found.count, expected.count);
    qsort(found.items, found.count, sizeof *found.items, compare_texts);
    qsort(expected.items, expected.count, sizeof *expected.items, compare_texts);
    for (size_t i = 0; i < found.count; i++) {
        ck_assert_str_eq(found.items[i], expected.items[i]);
    }
}

static void compile(const char *compiler, const char *language, const char *source,
                    const char *program)
{
    struct command command = {.directory = scratch};
    text_list_add(&command.arguments, compiler);
    text_list_add_words(&command.arguments, "-Wall -Wextra -Wpedantic -Werror -x");
    text_list_add_words(&command.arguments, language);
    text_list_add(&command.arguments, source);
    text_list_add_words(&command.arguments, "-x none -o");
    text_list_add(&command.arguments, program);
    text_list_add_words(&command.arguments, package("--cflags --libs"));
    command_run_or_abort(&command);
}

START_TEST(test_c)
{
    compile("gcc", "c -std=c11", SOURCE, "in_c");
    check_program("in_c");
}
END_TEST

START_TEST(test_cxx)
{
    compile("g++", "c++ -std=c++11", SOURCE, "in_cxx");
    check_program("in_cxx");
}
END_TEST

/* Compiled in C, and as C++. */
static void compile_example(int language, const char *name)
{
    static const char *const compilers[][2] = {{"gcc", "c -std=c11"}, {"g++", "c++ -std=c++11"}};
    compile(compilers[language][0], compilers[language][1], text_format(EXAMPLES "/%s.c", name),
            name);
}

/* The example that merges does what the command does, and passes over what is no profile. */
START_TEST(test_merging)
{
    compile_example(_i, "merge");
    covsplit_run_words(scratch, 0, "store add store side.covsplit");
    covsplit_run_words(scratch, 0,
                       "merge --store store -o expected.profraw run.profraw run.profraw");
    run_program("merge", "store merged.profraw run.profraw side.covsplit run.profraw");
    run_or_abort(scratch, "cmp", "expected.profraw", "merged.profraw", NULL);
}
END_TEST

/* A second program, and one without coverage. */
static void add_others_to_store(void)
{
    struct program other = {.clang = "19",
                            .linker = "bfd",
                            .kind = LINK_PIE,
                            .language = LANGUAGE_C,
                            .optimization = "-O0",
                            .functions = FUNCTIONS + 5};
    char *directory = path_join(scratch, "others");
    directory_create(directory);
    program_build(&other, directory);
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }");
    run_or_abort(directory, "gcc", "-Wl,--build-id", "-o", "plain", "plain.c", NULL);
    covsplit_run_words(directory, 0, "split --store ../all " PROGRAM_NAME);
    covsplit_run_words(directory, 0, "split --store ../all plain");
}

/* So does the example that makes a union; an image without coverage has no part in it. */
START_TEST(test_union)
{
    compile_example(_i, "union");
    run_or_abort(scratch, "rm", "-rf", "all", "others", NULL);
    covsplit_run_words(scratch, 0, "store add all side.covsplit");
    add_others_to_store();
    covsplit_run_words(scratch, 0, "export --union --store all -o expected.a");
    struct outcome outcome = run_program("union", "all");
    file_write(path_join(scratch, "written.a"), outcome.output, outcome.output_size);
    run_or_abort(scratch, "cmp", "expected.a", "written.a", NULL);
    const char *members = run_or_abort(scratch, "ar", "t", "written.a", NULL);
    ck_assert_uint_eq(text_list_of_lines(members).count, 2);
}
END_TEST

START_TEST(test_cmake)
{
    char *project = path_join(scratch, "project");
    directory_create(project);
    file_write_text(path_join(project, "CMakeLists.txt"),
                    text_format("cmake_minimum_required(VERSION 3.25)\n"
                                "project(user LANGUAGES C)\n"
                                "find_package(covsplit 0.1 REQUIRED)\n"
                                "add_executable(in_cmake %s)\n"
                                "target_link_libraries(in_cmake PRIVATE covsplit::covsplit)\n",
                                SOURCE));
    run_or_abort(project, "cmake", "-S", ".", "-B", "build",
                 text_format("-DCMAKE_PREFIX_PATH=%s", prefix), NULL);
    run_or_abort(project, "cmake", "--build", "build", NULL);
    check_program("project/build/in_cmake");
}
END_TEST

/* libcovsplit-device, in C and in C++: the program's profile comes out of its standard output. */
#define STREAMS                                                                                    \
    "#include <covsplit-device.h>\n"                                                               \
    "#include <stdio.h>\n"                                                                         \
    "int main(void)\n{\n"                                                                          \
    "    struct covsplit_device device;\n    unsigned char piece[9];\n    size_t size;\n"          \
    "    if (covsplit_device_start(&device, 0) != COVSPLIT_DEVICE_OK) return 1;\n"                 \
    "    while ((size = covsplit_device_fill(&device, piece, sizeof(piece))) != 0)\n"              \
    "        fwrite(piece, 1, size, stdout);\n"                                                    \
    "    return 0;\n}\n"

START_TEST(test_device)
{
    static const char *const compilers[] = {"clang-19 -std=c11", "clang++-19 -std=c++11"};
    static const char *const sources[] = {"streams.c", "streams.cc"};
    file_write_text(path_join(scratch, sources[_i]), STREAMS);
    struct command command = command_words(
        scratch, "%s -Wall -Wextra -Wpedantic -Werror -I%s/include " INSTRUMENT_COVERAGE,
        compilers[_i], prefix);
    text_list_add_format(&command.arguments, "-L%s", library_directory);
    text_list_add_words(&command.arguments, sources[_i]);
    text_list_add_words(&command.arguments, "-Wl,--build-id -lcovsplit-device -o streams");
    command_run_or_abort(&command);
    covsplit_run_words(scratch, 0, "split --sidecar streams.covsplit streams");
    struct command run = command_words(scratch, "%s/streams", scratch);
    text_list_add(&run.environment, "LLVM_PROFILE_FILE=written.profraw");
    struct outcome outcome = command_expect(&run, 0);
    file_write(path_join(scratch, "streamed.profraw"), outcome.output, outcome.output_size);
    /* At the end the program has counted more. */
    ck_assert_uint_eq(file_size(path_join(scratch, "written.profraw")), outcome.output_size);
    covsplit_run_words(scratch, 0,
                       "merge --sidecar streams.covsplit -o full.profraw streamed.profraw");
}
END_TEST

/* For other machines, there are the sources. */
START_TEST(test_device_sources)
{
    struct command command = command_words(
        scratch, "clang-19 --target=armv7m-none-eabi -ffreestanding -Os -Wall -Wextra -Werror -c");
    text_list_add_format(&command.arguments, "%s/share/covsplit/device/stream.c", prefix);
    text_list_add_format(&command.arguments, "%s/share/covsplit/device/runtime.c", prefix);
    command_run_or_abort(&command);
}
END_TEST

/* What the shared object promises: its SONAME, and no symbol but those of the header. */
START_TEST(test_symbols)
{
    const char *library = path_join(library_directory, "libcovsplit.so");
    const char *dynamic = run_or_abort(scratch, "readelf", "-dW", library, NULL);
    ck_assert_ptr_nonnull(strstr(dynamic, "[libcovsplit.so.0]"));
    struct text_list symbols = text_list_of_lines(run_or_abort(
        scratch, "nm", "-D", "--defined-only", "--with-symbol-versions", library, NULL));
    ck_assert_uint_gt(symbols.count, 30);
    for (size_t i = 0; i < symbols.count; i++) {
        const char *symbol = strrchr(symbols.items[i], ' ') + 1;
        bool versioned = strstr(symbol, "@@COVSPLIT_0") != NULL;
        ck_assert_msg(strcmp(symbol, "COVSPLIT_0@@COVSPLIT_0") == 0 ||
                          strcmp(symbol, "COVSPLIT_0") == 0 ||
                          (strncmp(symbol, "covsplit_", 9) == 0 && versioned),
                      "%s is visible", symbol);
    }
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "BUILD_DIRECTORY", &build_directory);
    TCase *test_case = suite_case("all", 300, prepare);
    suite_tests(test_case, test_c, test_cxx, test_cmake, test_symbols, test_device_sources);
    suite_loops(test_case, 2, test_device, test_merging, test_union);
    return suite_main("library users", test_case);
}
