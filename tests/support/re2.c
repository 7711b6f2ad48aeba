/*
 * Compiling RE2: see re2.h. The rules are in tests/fixtures/re2/CMakeLists.txt, since so many
 * sources are best compiled side by side.
 */
#include "tests/support/re2.h"

#include "tests/support/compile_cache.h"
#include "tests/support/file_system.h"
#include "tests/support/process.h"
#include "tests/support/program.h"

#define FIXTURE       COVSPLIT_FIXTURE_DIRECTORY "/re2"
#define BUILD_SECONDS 1800

static void build(const char *directory, const char *clang)
{
    struct command command = {.timeout_seconds = BUILD_SECONDS};
    text_list_add_words(&command.arguments, "cmake -G Ninja -DCMAKE_BUILD_TYPE= -S " FIXTURE
                                            " -DVENDOR=" COVSPLIT_TEST_CACHE "/re2/vendor");
    text_list_add_format(&command.arguments, "-DCMAKE_CXX_COMPILER=%s",
                         versioned_tool("clang++", clang));
    text_list_add(&command.arguments, "-B");
    text_list_add(&command.arguments, directory);
    command_run_or_abort(&command);
    command_free(&command);

    text_list_add_words(&command.arguments, "cmake --build");
    text_list_add(&command.arguments, directory);
    command_run_or_abort(&command);
    command_free(&command);
}

const char *re2_images(const char *clang)
{
    struct contents rules = file_read(FIXTURE "/CMakeLists.txt");
    struct contents driver = file_read(FIXTURE "/driver.cc");
    char *inputs = text_format("%.*s%.*s", (int)rules.size, (const char *)rules.data,
                               (int)driver.size, (const char *)driver.data);
    contents_free(&rules);
    contents_free(&driver);
    return cache_directory("re2", clang, inputs, build);
}
