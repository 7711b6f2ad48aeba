/*
 * Compiling LevelDB: see leveldb.h.
 */
#include "tests/support/leveldb.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/compile_cache.h"
#include "tests/support/file_system.h"
#include "tests/support/process.h"
#include "tests/support/program.h"

#define SOURCE COVSPLIT_TEST_CACHE "/leveldown/deps/leveldb/leveldb-1.20"
#define OPTIONS                                                                                    \
    INSTRUMENT_COVERAGE " -w -O1 -std=c++11 -fPIC -pthread -DOS_LINUX -DLEVELDB_PLATFORM_POSIX "   \
                        "-I" SOURCE " -I" SOURCE "/include -c"
#define PROGRAM_SOURCES                                                                            \
    SOURCE "/db/db_bench.cc " SOURCE "/util/histogram.cc " SOURCE                                  \
           "/util/testutil.cc " COVSPLIT_FIXTURE_DIRECTORY "/leveldb_driver.cc"

static struct command compiler(const char *clang, const char *directory, const char *options)
{
    struct command command = {.directory = directory, .timeout_seconds = 600};
    text_list_add(&command.arguments, versioned_tool("clang++", clang));
    text_list_add_words(&command.arguments, options);
    return command;
}

/* The sources of one part of LevelDB, without its tests and programs. */
static void add_sources(struct text_list *words, const char *part)
{
    static const char *const others[] = {"_test.cc", "_bench.cc", "leveldbutil.cc",
                                         "testharness.cc", "testutil.cc"};
    char *directory = text_format("%s/%s", SOURCE, part);
    struct text_list names = directory_list(directory);
    for (size_t i = 0; i < names.count; i++) {
        size_t length = strlen(names.items[i]);
        bool wanted = length > 3 && strcmp(names.items[i] + length - 3, ".cc") == 0;
        for (size_t j = 0; j < sizeof others / sizeof *others && wanted; j++) {
            wanted = strstr(names.items[i], others[j]) == NULL;
        }
        if (wanted) {
            text_list_add_format(words, "%s/%s", directory, names.items[i]);
        }
    }
    text_list_free(&names);
    free(directory);
}

static void compile(const char *directory, const char *clang)
{
    char *library = path_join(directory, "library");
    directory_create(library);

    struct command command = compiler(clang, library, OPTIONS);
    add_sources(&command.arguments, "db");
    add_sources(&command.arguments, "port");
    add_sources(&command.arguments, "table");
    add_sources(&command.arguments, "util");
    command_run_or_abort(&command);
    command_free(&command);

    command = compiler(clang, directory, OPTIONS " " PROGRAM_SOURCES);
    command_run_or_abort(&command);
    command_free(&command);
    free(library);
}

const char *leveldb_objects(const char *clang)
{
    struct contents driver = file_read(COVSPLIT_FIXTURE_DIRECTORY "/leveldb_driver.cc");
    char *inputs =
        text_format(OPTIONS PROGRAM_SOURCES "%.*s", (int)driver.size, (const char *)driver.data);
    contents_free(&driver);
    return cache_directory("leveldb", clang, inputs, compile);
}

void leveldb_link(const char *clang, const char *linker, const char *objects_directory,
                  const char *directory, const char *program, const char *objects)
{
    char *options =
        text_format(INSTRUMENT_COVERAGE " -pthread -Wl,--build-id=sha1 -fuse-ld=%s", linker);
    char *library = path_join(objects_directory, "library");
    struct text_list names = directory_list(library);

    struct command command = compiler(clang, directory, options);
    text_list_add_words(&command.arguments, "-shared -o " LEVELDB_LIBRARY);
    for (size_t i = 0; i < names.count; i++) {
        text_list_add_format(&command.arguments, "%s/%s", library, names.items[i]);
    }
    command_run_or_abort(&command);
    command_free(&command);
    text_list_free(&names);

    command = compiler(clang, directory, options);
    text_list_add_words(&names, objects);
    for (size_t i = 0; i < names.count; i++) {
        text_list_add_format(&command.arguments, "%s/%s", objects_directory, names.items[i]);
    }
    text_list_add_words(&command.arguments, LEVELDB_LIBRARY " -Wl,-rpath,$ORIGIN -o");
    text_list_add(&command.arguments, program);
    command_run_or_abort(&command);
    command_free(&command);
    text_list_free(&names);
    free(library);
    free(options);
}
