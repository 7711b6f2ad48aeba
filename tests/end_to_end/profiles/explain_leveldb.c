/*
 * covsplit merge --explain of two builds of a real program, of which one file was changed between
 * them: it names the functions that this changed, and nothing else of LevelDB's thousands.
 *
 * Usage: explain_leveldb CLANG
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define SOURCES COVSPLIT_TEST_CACHE "/leveldown/deps/leveldb/leveldb-1.20"

/* In the source of EncodeVarint32: another condition, in as many lines. */
#define CONDITION "if (v < (1<<7)) {"
#define CHANGED   "if (v < (1<<7) && v + 1 != 0) {"

static const char *clang_version;
static char *scratch;

/* Links the driver with all objects of the library but one, which is compiled of the source. */
static void build(const char *name, const char *source)
{
    const char *objects = leveldb_objects(clang_version);
    struct text_list names = directory_list(path_join(objects, "library"));
    const char *clang = versioned_tool("clang++", clang_version);
    file_write_text(path_join(scratch, "coding.cc"), source);
    struct command command = command_words(
        scratch,
        "%s " INSTRUMENT_COVERAGE " -fcoverage-compilation-dir=/sources -w -O1 -std=c++11 -fPIC "
        "-DOS_LINUX -DLEVELDB_PLATFORM_POSIX -I" SOURCES " -I" SOURCES "/include -c coding.cc "
        "-o coding.o",
        clang);
    command_run_or_abort(&command);
    command = command_words(scratch,
                            "%s " INSTRUMENT_COVERAGE " -pthread -Wl,--build-id=sha1 "
                            "%s/" LEVELDB_DRIVER " coding.o -o %s",
                            clang, objects, name);
    for (size_t i = 0; i < names.count; i++) {
        if (strcmp(names.items[i], "coding.o") != 0) {
            text_list_add_format(&command.arguments, "%s/library/%s", objects, names.items[i]);
        }
    }
    command_run_or_abort(&command);
    covsplit_run_words(scratch, 0, text_format("split --store store %s", name));
    directory_remove(path_join(scratch, "work"));
    directory_create(path_join(scratch, "work"));
    run_or_abort(path_join(scratch, "work"), "sh", "-c",
                 text_format("LLVM_PROFILE_FILE=../%s.profraw ../%s", name, name), NULL);
}

static void prepare(void)
{
    struct contents source = file_read(SOURCES "/util/coding.cc");
    char *text = text_format("%.*s", (int)source.size, (const char *)source.data);
    scratch = scratch_create("explain-leveldb");
    ck_assert_uint_eq(text_count(text, CONDITION), 1);
    build("first", text);
    build("changed", text_replace(text, CONDITION, CHANGED));
    build("moved", text_format("\n%s", text));
}

/* What --explain --json says of two programs, as lines. */
static struct text_list explain(const char *name, const char *other)
{
    struct outcome outcome = covsplit_run_words(
        scratch, 0,
        text_format("merge --explain --json --store store -o all.profraw %s.profraw %s.profraw",
                    name, other));
    ck_assert_str_eq(outcome.errors, "");
    file_write_text(path_join(scratch, "told.json"), outcome.output);
    return text_list_of_lines(run_or_abort(
        scratch, "sh", "-c",
        "python3 " COVSPLIT_FIXTURE_DIRECTORY "/../support/explanation.py <told.json", NULL));
}

START_TEST(test_changed)
{
    struct text_list lines = explain("first", "changed");
    ck_assert_uint_eq(lines.count, 1);
    ck_assert_str_eq(lines.items[0], "hash _ZN7leveldb14EncodeVarint32EPcj: 5 in coding.cc: first; "
                                     "7 in coding.cc: changed");
    struct outcome outcome = covsplit_run_words(
        scratch, 0, "merge --store store -o all.profraw first.profraw changed.profraw");
    assert_contains(outcome.errors, "disagree about 1 function, such as "
                                    "'_ZN7leveldb14EncodeVarint32EPcj' in /sources/coding.cc: ");
}
END_TEST

/* An empty line before all of them. */
START_TEST(test_moved)
{
    struct text_list lines = explain("moved", "first");
    ck_assert_uint_gt(lines.count, 10);
    for (size_t i = 0; i < lines.count; i++) {
        assert_contains(lines.items[i], "regions _ZN7leveldb");
        assert_contains(lines.items[i], " in coding.cc: moved; ");
    }
    ck_assert_str_eq(
        covsplit_run_words(scratch, 0,
                           "merge --store store -o all.profraw first.profraw moved.profraw")
            .errors,
        "");
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("LevelDB", 1500, prepare);
    suite_tests(test_case, test_changed, test_moved);
    return suite_main(text_format("explaining LevelDB, clang-%s", clang_version), test_case);
}
