/*
 * Compiling the programs of real_programs.h.
 */
#include "tests/support/real_programs.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/compile_cache.h"
#include "tests/support/program.h"

/* ---- LevelDB ---- */

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

/* ---- RE2 ----
 *
 * The rules are in tests/fixtures/re2/CMakeLists.txt, since so many sources are best compiled side
 * by side. */

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

/* ---- the programs of one project ---- */

#define DRIVERS        COVSPLIT_FIXTURE_DIRECTORY "/drivers"
#define SQLITE_SOURCE  COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3"
#define LEVELDB_SOURCE COVSPLIT_TEST_CACHE "/leveldown/deps/leveldb/leveldb-1.20"
#define RE2_SOURCE     COVSPLIT_TEST_CACHE "/re2/vendor"
#define SQLITE_OPTIONS                                                                             \
    INSTRUMENT_COVERAGE " -w -O1 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=0"
#define LIBRARY "library.a"

/* ---- the libraries ---- */

/* Not as members of the same name replace each other: there may be such. */
static void archive(const char *directory, const char *objects)
{
    run_or_abort(directory, "sh", "-c",
                 "find \"$0\" -name '*.o' -print0 | sort -z | xargs -0 ar qcsD " LIBRARY, objects,
                 NULL);
}

static void make_leveldb(const char *directory, const char *clang)
{
    archive(directory, path_join(leveldb_objects(clang), "library"));
}

static void make_sqlite(const char *directory, const char *clang)
{
    struct command command = {.directory = directory, .timeout_seconds = 600};
    text_list_add(&command.arguments, versioned_tool("clang", clang));
    text_list_add_words(&command.arguments, SQLITE_OPTIONS " -c " SQLITE_SOURCE "/sqlite3.c");
    command_run_or_abort(&command);
    archive(directory, directory);
}

static void make_re2(const char *directory, const char *clang)
{
    archive(directory, path_join(re2_images(clang), "CMakeFiles/re2.dir"));
}

static const struct kind {
    const char *name;
    const char *suffix;
    const char *compiler;
    const char *options; /* of drivers */
    const char *inputs;  /* what the library depends on, beside the compiler */
    cache_maker make;
} kinds[] = {
    {"leveldb", "cc", "clang++", "-std=c++11 -pthread -I" LEVELDB_SOURCE "/include", "-O1",
     make_leveldb},
    {"sqlite", "c", "clang", "-I" SQLITE_SOURCE, SQLITE_OPTIONS, make_sqlite},
    {"re2", "cc", "clang++", "-std=c++17 -pthread -I" RE2_SOURCE "/re2 -I" RE2_SOURCE "/abseil-cpp",
     "-O1", make_re2},
};

#define KIND_COUNT (sizeof kinds / sizeof *kinds)

/* ---- the programs ---- */

/* Of each kind, every fourth is compiled from the common source. */
bool many_programs_has_source(size_t number)
{
    return number / KIND_COUNT % 4 != 3;
}

const char *many_programs_name(size_t number)
{
    return text_format("%s_%02zu", kinds[number % KIND_COUNT].name, number);
}

static struct command driver_compiler(const struct kind *kind, const char *clang,
                                      const char *directory)
{
    struct command command = {.directory = directory, .timeout_seconds = 600};
    text_list_add(&command.arguments, versioned_tool(kind->compiler, clang));
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE " -w -O0");
    return command;
}

/* In a directory of its own: the compile cache takes everything there for an input. */
static void compile_driver(const struct kind *kind, const char *clang, size_t number,
                           const char *directory)
{
    const char *common = text_format(DRIVERS "/%s.%s", kind->name, kind->suffix);
    const char *source = common;
    struct command command = driver_compiler(kind, clang, directory);
    if (many_programs_has_source(number)) {
        source = text_format("%s.%s", many_programs_name(number), kind->suffix);
        file_copy(common, path_join(directory, source));
    }
    text_list_add_format(&command.arguments, "-DPROGRAM=%zu", number);
    text_list_add_words(&command.arguments, kind->options);
    text_list_add_words(&command.arguments, "-I" DRIVERS " -c -o driver.o");
    text_list_add(&command.arguments, source);
    command_run_or_abort(&command);
}

/* By its whole path, which the compile cache does not take: the images are large, and linked in no
 * time. */
static void link_driver(const struct kind *kind, const char *clang, const char *work,
                        const char *image)
{
    struct command command = driver_compiler(kind, clang, work);
    text_list_add_words(&command.arguments, "-pthread -fuse-ld=lld -Wl,--build-id=sha1 driver.o");
    text_list_add_format(
        &command.arguments, "%s/" LIBRARY,
        cache_directory(text_format("archive-%s", kind->name), clang, kind->inputs, kind->make));
    text_list_add_words(&command.arguments, "-lm -o");
    text_list_add(&command.arguments, image);
    command_run_or_abort(&command);
}

void many_programs_build(const char *clang, size_t number, const char *directory)
{
    const struct kind *kind = &kinds[number % KIND_COUNT];
    const char *name = many_programs_name(number);
    char *work = text_format("%s/%s.work", directory, name);
    directory_create(work);
    compile_driver(kind, clang, number, work);
    link_driver(kind, clang, work, path_join(work, "image"));
    file_copy(path_join(work, "image"), path_join(directory, name));
    directory_remove(work);
}
