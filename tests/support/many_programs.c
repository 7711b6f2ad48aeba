/*
 * Building the programs: see many_programs.h.
 */
#include "tests/support/many_programs.h"

#include "tests/support/compile_cache.h"
#include "tests/support/file_system.h"
#include "tests/support/leveldb.h"
#include "tests/support/process.h"
#include "tests/support/program.h"
#include "tests/support/re2.h"
#include "tests/support/text.h"

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

static struct command compiler(const struct kind *kind, const char *clang, const char *directory)
{
    struct command command = {.directory = directory, .timeout_seconds = 600};
    text_list_add(&command.arguments, versioned_tool(kind->compiler, clang));
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE " -w -O0");
    return command;
}

/* In a directory of its own: the compile cache takes everything there for an input. */
static void compile(const struct kind *kind, const char *clang, size_t number,
                    const char *directory)
{
    const char *common = text_format(DRIVERS "/%s.%s", kind->name, kind->suffix);
    const char *source = common;
    struct command command = compiler(kind, clang, directory);
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
    struct command command = compiler(kind, clang, work);
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
    compile(kind, clang, number, work);
    link_driver(kind, clang, work, path_join(work, "image"));
    file_copy(path_join(work, "image"), path_join(directory, name));
    directory_remove(work);
}
