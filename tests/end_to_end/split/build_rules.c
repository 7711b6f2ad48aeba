/*
 * The rules for ninja and make in share/, in builds as users have them: what is made again and what
 * is not, what a clean removes, and what a failure leaves; and the wrappers of compilers.
 *
 * Usage: build_rules CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/real_programs.h"

#define PROGRAMS (rounds_are_all() ? 24 : 8)
#define COVERAGE "-fprofile-instr-generate -fcoverage-mapping"

static const char *clang_version;
static char *scratch;

static void prepare(void)
{
    scratch = scratch_create("build-rules");
}

/* ---- the two tools ---- */

struct tool {
    const char *name;
    const char *build; /* words; what follows are targets */
    const char *clean;
    void (*write)(const char *place, const char *command);
};

/* A library and programs that use it, each with a copy, which shows whether what depends on a
 * stripped image was made again: every copying is written down. */
static void write_ninja(const char *place, const char *command)
{
    const char *text = text_format(
        "include %s/covsplit.ninja\n"
        "covsplit = %s\n"
        "rule cc\n  command = clang-%s -O1 " COVERAGE " -fPIC -c $in -o $out\n"
        "rule link\n  command = clang-%s " COVERAGE " -Wl,--build-id,-rpath,. $flags -o $out $in\n"
        "rule copy\n  command = cp $in $out && echo $in >> copied\n"
        "build library.o: cc library.c\n"
        "build library.unsplit: link library.o\n"
        "  flags = -shared -Wl,-soname,library.so\n"
        "build library.so | library.so.covsplit: covsplit_split "
        "library.unsplit\n",
        COVSPLIT_SHARE_DIRECTORY, command, clang_version, clang_version);
    for (int i = 0; i < PROGRAMS; i++) {
        text =
            text_format("%sbuild program%d.o: cc program%d.c\n"
                        "build program%d.unsplit: link program%d.o library.so\n"
                        "build program%d | program%d.covsplit: covsplit_split program%d.unsplit\n"
                        "build copy%d: copy program%d\n",
                        text, i, i, i, i, i, i, i, i, i);
    }
    file_write_text(path_join(place, "build.ninja"), text);
}

static void write_make(const char *place, const char *command)
{
    const char *text = text_format("all:\n"
                                   "COVSPLIT = %s\n"
                                   "include %s/covsplit.mk\n"
                                   "%%.o: %%.c\n\tclang-%s -O1 " COVERAGE " -fPIC -c $< -o $@\n"
                                   "library.unsplit: library.o\n\tclang-%s " COVERAGE
                                   " -Wl,--build-id -shared -Wl,-soname,library.so -o $@ $<\n"
                                   "$(eval $(call covsplit_split,library.so,library.unsplit))\n"
                                   "clean:\n\trm -f *.o *.unsplit copy* copied $(COVSPLIT_CLEAN)\n"
                                   ".PHONY: all clean\n"
                                   ".PRECIOUS: %%.o\n",
                                   command, COVSPLIT_SHARE_DIRECTORY, clang_version, clang_version);
    for (int i = 0; i < PROGRAMS; i++) {
        text = text_format("%sall: copy%d program%d.covsplit\n"
                           "program%d.unsplit: program%d.o library.so\n\tclang-%s " COVERAGE
                           " -Wl,--build-id,-rpath,. -o $@ $^\n"
                           "$(eval $(call covsplit_split,program%d,program%d.unsplit))\n"
                           "copy%d: program%d\n\tcp $< $@ && echo $< >> copied\n",
                           text, i, i, i, i, clang_version, i, i, i, i);
    }
    file_write_text(path_join(place, "Makefile"), text);
}

static const struct tool tools[] = {
    {"ninja", "ninja", "ninja -t clean", write_ninja},
    {"make", "make", "make clean", write_make},
};

#define TOOL_COUNT (sizeof tools / sizeof *tools)

static char *new_project(const struct tool *tool, const char *label, const char *command)
{
    char *place = path_join(scratch, text_format("%s-%s", tool->name, label));
    directory_create(place);
    file_write_text(path_join(place, "library.c"),
                    "int twice(int x) { return x > 3 ? 2 * x : x + x; }\n");
    for (int i = 0; i < PROGRAMS; i++) {
        file_write_text(path_join(place, text_format("program%d.c", i)),
                        text_format("int twice(int x);\n"
                                    "int main(void) { return twice(%d) == %d ? 0 : 1; }\n",
                                    i, 2 * i));
    }
    tool->write(place, command);
    return place;
}

static struct outcome run_tool(const struct tool *tool, const char *place, const char *words)
{
    struct command command = {.directory = place};
    text_list_add_words(&command.arguments, tool->build);
    text_list_add_words(&command.arguments, words);
    struct outcome outcome = command_run(&command);
    return outcome;
}

/* What the tool prints: which commands it has run. */
static const char *build(const struct tool *tool, const char *place, const char *words)
{
    struct outcome outcome = run_tool(tool, place, words);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s %s:\n%s%s", tool->name, words, outcome.output,
                  outcome.errors);
    return outcome.output;
}

static size_t copies(const char *place)
{
    struct contents log = file_read(path_join(place, "copied"));
    size_t count = 0;
    for (size_t i = 0; i < log.size; i++) {
        count += log.data[i] == '\n';
    }
    return count;
}

/* A split is in the output with its command line (make), or as what ninja calls it. */
static size_t splits(const char *output)
{
    return text_count(output, " split ") + text_count(output, "] SPLIT ");
}

/* ---- builds ---- */

START_TEST(test_build)
{
    const struct tool *tool = &tools[_i];
    char *place = new_project(tool, "build", covsplit_path());
    build(tool, place, "-j16");
    ck_assert_uint_eq(copies(place), PROGRAMS);
    for (int i = -1; i < PROGRAMS; i++) {
        const char *image = i < 0 ? "library.so" : text_format("program%d", i);
        const char *original = i < 0 ? "library.unsplit" : text_format("program%d.unsplit", i);
        covsplit_assert(0, place, "join", "-o", "joined", image, NULL);
        files_assert_equal(path_join(place, "joined"), path_join(place, original), original);
        if (i >= 0) {
            run_or_abort(place, text_format("./%s", image), NULL);
        }
    }
    /* Nothing is left to do. */
    const char *output = build(tool, place, "");
    ck_assert_msg(splits(output) == 0, "%s", output);
    ck_assert_uint_eq(copies(place), PROGRAMS);
}
END_TEST

/* What depends on a stripped image is made again when that has changed, and only then. */
START_TEST(test_changes)
{
    const struct tool *tool = &tools[_i];
    char *place = new_project(tool, "changes", covsplit_path());
    build(tool, place, "-j4");
    file_write_text(path_join(place, "program3.c"),
                    "int twice(int x);\n"
                    "int main(void) { return twice(3) == 6 ? 0 : 1; }\n// A comment.\n");
    const char *output = build(tool, place, "");
    ck_assert_msg(splits(output) == 1, "%s", output);
    ck_assert_uint_eq(copies(place), PROGRAMS);
    output = build(tool, place, "");
    ck_assert_msg(splits(output) == 0, "%s", output);
    ck_assert_uint_eq(copies(place), PROGRAMS);
    file_write_text(path_join(place, "program3.c"),
                    "int twice(int x);\n"
                    "int main(void) { return twice(4) == 8 ? 0 : twice(5); }\n");
    output = build(tool, place, "");
    ck_assert_msg(splits(output) == 1, "%s", output);
    ck_assert_uint_eq(copies(place), PROGRAMS + 1);
}
END_TEST

/* A sidecar that was deleted, or an image, comes back; the other one is not touched. */
START_TEST(test_deleted)
{
    const struct tool *tool = &tools[_i];
    char *place = new_project(tool, "deleted", covsplit_path());
    build(tool, place, "-j4");
    struct contents before = file_read(path_join(place, "program1.covsplit"));
    unlink(path_join(place, "program1.covsplit"));
    build(tool, place, "-j4");
    struct contents after = file_read(path_join(place, "program1.covsplit"));
    ck_assert(contents_equal(&before, &after));
    ck_assert_uint_eq(copies(place), PROGRAMS);
    unlink(path_join(place, "program2"));
    build(tool, place, "-j4");
    ck_assert(file_exists(path_join(place, "program2")));
    ck_assert_uint_eq(copies(place), PROGRAMS + 1);
}
END_TEST

/* make alone: with another makefile than its own, a run that only tells what it would do changes
 * nothing, and outputs that are lost together come back by one split. */
START_TEST(test_lost_together)
{
    static const char *const outputs[] = {"program1", "program1.covsplit"};
    char *place = new_project(&tools[1], "lost", covsplit_path());
    struct tool make = tools[1];
    ck_assert_int_eq(rename(path_join(place, "Makefile"), path_join(place, "other.mk")), 0);
    make.build = "make -f other.mk";
    build(&make, place, "-j4 program1 program1.covsplit");
    for (size_t i = 0; i < 2; i++) {
        unlink(path_join(place, outputs[i]));
    }
    struct text_list before = directory_list(place);
    const char *plan = build(&make, place, "-n program1 program1.covsplit");
    ck_assert_msg(splits(plan) == 1, "%s", plan);
    struct text_list after = directory_list(place);
    ck_assert_uint_eq(before.count, after.count);
    const char *output = build(&make, place, "-j16 program1 program1.covsplit");
    ck_assert_msg(splits(output) == 1, "%s", output);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(file_exists(path_join(place, outputs[i])));
    }
}
END_TEST

START_TEST(test_clean)
{
    const struct tool *tool = &tools[_i];
    char *place = new_project(tool, "clean", covsplit_path());
    struct command command = {.directory = place};
    build(tool, place, "-j4");
    text_list_add_words(&command.arguments, tool->clean);
    command_run_or_abort(&command);
    struct text_list left = directory_list(place);
    for (size_t i = 0; i < left.count; i++) {
        ck_assert_msg(
            strstr(left.items[i], ".covsplit") == NULL && strstr(left.items[i], ".split") == NULL &&
                (strncmp(left.items[i], "program", 7) != 0 || strstr(left.items[i], ".c") != NULL),
            "%s is left", left.items[i]);
    }
}
END_TEST

/* The build fails, nothing that looks like a result is there, and the next build tries again. */
START_TEST(test_failure)
{
    const struct tool *tool = &tools[_i];
    char *place = new_project(tool, "failure", text_format("%s --no-such-option", covsplit_path()));
    struct outcome outcome = run_tool(tool, place, "-j4 -k0");
    if (strcmp(tool->name, "make") == 0) {
        outcome_free(&outcome);
        outcome = run_tool(tool, place, "-j4 -k");
    }
    ck_assert_msg(outcome.exit_code != 0, "%s", outcome.output);
    struct text_list left = directory_list(place);
    for (size_t i = 0; i < left.count; i++) {
        ck_assert_msg(strstr(left.items[i], ".covsplit") == NULL &&
                          strcmp(left.items[i], "library.so") != 0 &&
                          strcmp(left.items[i], "program1") != 0,
                      "%s is there", left.items[i]);
    }
    tool->write(place, covsplit_path());
    build(tool, place, "-j4");
    ck_assert_uint_eq(copies(place), PROGRAMS);
}
END_TEST

/* ---- stores ---- */

START_TEST(test_store)
{
    const struct tool *tool = &tools[_i];
    char *place = path_join(scratch, text_format("%s-store", tool->name));
    directory_create(place);
    file_write_text(path_join(place, "app.c"),
                    "int main(int c, char **v) { return v[c] ? c : 0; }\n");
    file_write_text(path_join(place, "build.ninja"),
                    text_format("include %s/covsplit.ninja\n"
                                "covsplit = %s\ncovsplit_store = sidecars\n"
                                "rule link\n  command = clang-%s " COVERAGE
                                " -Wl,--build-id -o $out $in\n"
                                "build app.unsplit: link app.c\n"
                                "build app: covsplit_split_to_store app.unsplit\n",
                                COVSPLIT_SHARE_DIRECTORY, covsplit_path(), clang_version));
    file_write_text(
        path_join(place, "Makefile"),
        text_format("all: app\nCOVSPLIT = %s\ninclude %s/covsplit.mk\n"
                    "app.unsplit: app.c\n\tclang-%s " COVERAGE " -Wl,--build-id -o $@ $<\n"
                    "$(eval $(call covsplit_split_to_store,app,app.unsplit,sidecars))\n",
                    covsplit_path(), COVSPLIT_SHARE_DIRECTORY, clang_version));
    build(tool, place, "");
    ck_assert(!file_exists(path_join(place, "app.covsplit")));
    covsplit_assert(0, place, "join", "--store", "sidecars", "-o", "joined", "app", NULL);
    files_assert_equal(path_join(place, "joined"), path_join(place, "app.unsplit"), "joined");
    ck_assert_uint_eq(splits(build(tool, place, "")), 0);
}
END_TEST

/* ---- packed objects ---- */

/* A wrapper of share/, with the command under test in PATH, and NAME=value words. */
static void run_wrapper(const char *place, const char *settings, const char *name,
                        const char *words)
{
    struct command command = command_words(place, COVSPLIT_SHARE_DIRECTORY "/%s %s", name, words);
    text_list_add_words(&command.environment, settings);
    text_list_add_format(&command.environment, "PATH=%s:%s", COVSPLIT_COMMAND_DIRECTORY,
                         getenv("PATH"));
    command_run_or_abort(&command);
}

static bool has_records(const char *place, const char *object)
{
    struct contents file = file_read(path_join(place, object));
    return memmem(file.data, file.size, "__llvm_covfun", strlen("__llvm_covfun")) != NULL;
}

/* The wrappers for tools that accept only a program: both pack, and one splits, too. */
START_TEST(test_wrappers)
{
    char *place = path_join(scratch, "wrappers");
    const char *compile = COVERAGE " -Wl,--build-id -c main.c -o";
    const char *linker = text_format("COVSPLIT_LINKER=clang-%s COVSPLIT_LINK_STORE=%s/sidecars",
                                     clang_version, place);
    directory_create(place);
    file_write_text(path_join(place, "main.c"),
                    "int main(int c, char **v) { return !v[c - 1]; }\n");
    run_wrapper(place, linker, "covsplit-cc", text_format("%s ordinary.o", compile));
    ck_assert(has_records(place, "ordinary.o"));
    linker = text_format("%s COVSPLIT_PACK=1", linker);
    run_wrapper(place, linker, "covsplit-cc", text_format("%s packed.o", compile));
    ck_assert(!has_records(place, "packed.o"));
    run_wrapper(place, linker, "covsplit-cc", COVERAGE " -Wl,--build-id packed.o -o app");
    covsplit_assert(0, place, "join", "--store", "sidecars", "-o", "joined", "app", NULL);
    run_or_abort(place, "./app", NULL);

    run_wrapper(place, "COVSPLIT_LAUNCHER=env", "covsplit-compile",
                text_format("clang-%s %s behind.o", clang_version, compile));
    files_assert_equal(path_join(place, "behind.o"), path_join(place, "packed.o"), "packed");
}
END_TEST

/* ---- LevelDB ---- */

static const char *library_objects(const char *objects)
{
    const char *directory = path_join(objects, "library");
    struct text_list files = directory_list(directory);
    const char *list = "";
    for (size_t i = 0; i < files.count; i++) {
        list = text_format("%s %s/%s", list, directory, files.items[i]);
    }
    return list;
}

/* A real library and the program that uses it: the program runs, and both come back. */
START_TEST(test_leveldb)
{
    const struct tool *tool = &tools[_i];
    char *place = path_join(scratch, text_format("%s-leveldb", tool->name));
    const char *objects = leveldb_objects(clang_version);
    const char *library = library_objects(objects);
    directory_create(place);
    file_write_text(
        path_join(place, "build.ninja"),
        text_format("include %s/covsplit.ninja\ncovsplit = %s\n"
                    "rule link\n  command = clang++-%s " COVERAGE
                    " -Wl,--build-id,-rpath,. $flags -o $out $in -lpthread\n"
                    "build libleveldb.unsplit: link %s\n  flags = -shared\n"
                    "build " LEVELDB_LIBRARY " | " LEVELDB_LIBRARY
                    ".covsplit: covsplit_split libleveldb.unsplit\n"
                    "build driver.unsplit: link %s/" LEVELDB_DRIVER " " LEVELDB_LIBRARY "\n"
                    "build driver | driver.covsplit: covsplit_split driver.unsplit\n",
                    COVSPLIT_SHARE_DIRECTORY, covsplit_path(), clang_version, library, objects));
    file_write_text(
        path_join(place, "Makefile"),
        text_format("all: driver driver.covsplit\nCOVSPLIT = %s\ninclude %s/covsplit.mk\n"
                    "libleveldb.unsplit: %s\n\tclang++-%s " COVERAGE
                    " -Wl,--build-id -shared -o $@ $^ -lpthread\n"
                    "$(eval $(call covsplit_split," LEVELDB_LIBRARY ",libleveldb.unsplit))\n"
                    "driver.unsplit: %s/" LEVELDB_DRIVER " " LEVELDB_LIBRARY
                    "\n\tclang++-%s " COVERAGE " -Wl,--build-id,-rpath,. -o $@ $^ -lpthread\n"
                    "$(eval $(call covsplit_split,driver,driver.unsplit))\n",
                    covsplit_path(), COVSPLIT_SHARE_DIRECTORY, library, clang_version, objects,
                    clang_version));
    build(tool, place, "-j16");
    static const char *const images[][2] = {{LEVELDB_LIBRARY, "libleveldb.unsplit"},
                                            {"driver", "driver.unsplit"}};
    for (size_t i = 0; i < 2; i++) {
        struct verdict verdict = {0};
        if (covsplit_expect(&verdict, 0, NULL, place, "join", "-o", "joined", images[i][0], NULL)) {
            files_assert_equal(path_join(place, "joined"), path_join(place, images[i][1]),
                               "joined");
        }
        ck_assert_uint_lt(file_size(path_join(place, images[i][0])),
                          file_size(path_join(place, images[i][1])));
        verdict_assert(&verdict, images[i][0]);
    }
    run_or_abort(place, "./driver", "database", "100", NULL);
    ck_assert_uint_eq(splits(build(tool, place, "")), 0);
}
END_TEST

/* A program without coverage has the sidecar that the rule names all the same, so that a build is
 * done after the first time; and its store is there for what installs it. */
START_TEST(test_no_coverage)
{
    char *place = path_join(scratch, "no-coverage");
    directory_create(place);
    file_write_text(path_join(place, "main.c"), "int main(void) { return 0; }\n");
    run_or_abort(place, text_format("clang-%s", clang_version), "main.c", "-o", "main.unsplit",
                 NULL);
    file_write_text(path_join(place, "build.ninja"),
                    text_format("include %s/covsplit.ninja\ncovsplit = %s\n"
                                "build main | main.covsplit: covsplit_split main.unsplit\n",
                                COVSPLIT_SHARE_DIRECTORY, covsplit_path()));
    file_write_text(path_join(place, "Makefile"),
                    text_format("COVSPLIT = %s\ninclude %s/covsplit.mk\n"
                                "$(eval $(call covsplit_split,made,main.unsplit))\n",
                                covsplit_path(), COVSPLIT_SHARE_DIRECTORY));
    const char *output = run_or_abort(place, "ninja", "main", NULL);
    assert_contains(output, "nothing to take out: no coverage data in it; ");
    ck_assert(file_exists(path_join(place, "main.covsplit")));
    assert_contains(run_or_abort(place, "ninja", "main", NULL), "no work to do");
    assert_contains(run_or_abort(place, "make", "made", "made.covsplit", NULL),
                    " split  --sidecar");
    ck_assert(file_exists(path_join(place, "made.covsplit")));
    /* Make says that both are up to date, or nothing: they may be older than the stamp or not. */
    ck_assert_uint_eq(splits(run_or_abort(place, "make", "made", "made.covsplit", NULL)), 0);

    file_copy(path_join(place, "main.unsplit"), path_join(place, "target"));
    run_or_abort(place, "cmake", "-P", COVSPLIT_SHARE_DIRECTORY "/covsplitSplit.cmake", "--",
                 "target", text_format("--store=%s/store", place), covsplit_path(), "split", NULL);
    files_assert_equal(path_join(place, "target"), path_join(place, "main.unsplit"), "target");
    ck_assert(file_exists(path_join(place, "store")));
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("rules", 300, prepare);
    suite_loops(test_case, TOOL_COUNT, test_build, test_changes, test_deleted);
    suite_tests(test_case, test_lost_together, test_no_coverage, test_wrappers);
    suite_loops(test_case, TOOL_COUNT, test_clean, test_failure, test_store, test_leveldb);
    return suite_main("build rules", test_case);
}
