/*
 * How a program writes its profiles: by the runtime's functions, by forked processes and those that
 * exec, by libraries that are loaded and unloaded, in all the patterns of file names, and
 * continuously. What split images write gives, with the sidecars, the same as what the original
 * ones do.
 *
 * Usage: run_modes CLANG LINKER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define FUNCTIONS 60
#define LIBRARIES 2

static const char *clang_version, *linker_name;
static char *place; /* with a directory for the original images and one for the split ones */

static const char *const directories[] = {"original", "split"};

/* Compiles in place/original; the last words are those of the command. */
static void build(const char *words)
{
    struct command command =
        command_words(path_join(place, "original"),
                      "%s -O1 -w -fuse-ld=%s -Wl,--build-id=sha1 " INSTRUMENT_COVERAGE " %s",
                      versioned_tool("clang", clang_version), linker_name, words);
    command_run_or_abort(&command);
    command_free(&command);
}

static void split(const char *name)
{
    covsplit_assert(0, place, "split", "--store", "sidecars", "-o", text_format("split/%s", name),
                    text_format("original/%s", name), NULL);
}

static void start_place(void)
{
    place = scratch_create("run-modes");
    for (size_t i = 0; i < 2; i++) {
        directory_create(path_join(place, directories[i]));
        directory_create(text_format("%s/%s/work", place, directories[i]));
    }
    source_generate(text_format("%s/original/first.c", place), LANGUAGE_C, "first", FUNCTIONS);
    file_copy(path_join(COVSPLIT_FIXTURE_DIRECTORY, "run_modes.c"),
              text_format("%s/original/run_modes.c", place));
}

static struct command command_of(const char *directory, const char *program, const char *words)
{
    struct command command = {.directory = text_format("%s/%s/work", place, directory)};
    text_list_add_format(&command.arguments, "../%s", program);
    text_list_add_words(&command.arguments, words);
    return command;
}

/* Both say the same, and end with 3. */
static void check_runs(const char *program, const char *words, const char *pattern)
{
    const char *outputs[2];
    for (size_t i = 0; i < 2; i++) {
        struct command command = command_of(directories[i], program, words);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", pattern);
        text_list_add_format(&command.environment, "TMPDIR=%s", command.directory);
        struct outcome outcome = command_expect(&command, 3);
        outputs[i] = text_format("%s%s", outcome.output, outcome.errors);
    }
    ck_assert_str_eq(outputs[0], outputs[1]);
}

static uint64_t size_of_profile(const char *directory, const char *name)
{
    return file_size(text_format("%s/%s/work/%s", place, directory, name));
}

/* By rising size: names may be made of the process, or of what is in the image. What LLVM 14 makes
 * of profiles depends on their order. */
static void sort_profiles(const char *directory, struct text_list *profiles)
{
    for (size_t i = 1; i < profiles->count; i++) {
        for (size_t j = i; j > 0 && size_of_profile(directory, profiles->items[j]) <
                                        size_of_profile(directory, profiles->items[j - 1]);
             j--) {
            char *name = profiles->items[j];
            profiles->items[j] = profiles->items[j - 1];
            profiles->items[j - 1] = name;
        }
    }
}

/* The profiles of a directory whose names have the part; those that are empty are none. */
static struct text_list profiles_of(const char *directory, const char *part)
{
    struct text_list all = directory_list(text_format("%s/%s/work", place, directory));
    struct text_list found = {0};
    for (size_t i = 0; i < all.count; i++) {
        if (strstr(all.items[i], part) != NULL && strstr(all.items[i], ".profraw") != NULL &&
            size_of_profile(directory, all.items[i]) != 0) {
            text_list_add(&found, all.items[i]);
        }
    }
    sort_profiles(directory, &found);
    return found;
}

static const char *merge(const char *directory, const struct text_list *profiles)
{
    const char *profdata = versioned_tool("llvm-profdata", clang_version);
    const char *output = text_format("%s/%s.profdata", place, directory);
    struct command command = strcmp(directory, "split") == 0
                                 ? covsplit_words(place, "merge --store sidecars")
                                 : command_words(place, "%s merge", profdata);
    if (strcmp(directory, "split") == 0) {
        text_list_add(&command.arguments, "--llvm-profdata");
        text_list_add(&command.arguments, profdata);
    }
    text_list_add(&command.arguments, "-o");
    text_list_add(&command.arguments, output);
    for (size_t i = 0; i < profiles->count; i++) {
        text_list_add_format(&command.arguments, "%s/work/%s", directory, profiles->items[i]);
    }
    command_expect(&command, 0);
    return output;
}

/* All profiles whose names have the part. `count` is how many there should be; 0: any (which of a
 * pool of files a process takes depends on its number). */
static void check_profiles(const char *part, size_t count)
{
    struct text_list original = profiles_of("original", part),
                     split_ones = profiles_of("split", part);
    ck_assert_msg(original.count != 0 && split_ones.count != 0 &&
                      (count == 0 || (original.count == count && split_ones.count == count)),
                  "%s: %zu and %zu profiles", part, original.count, split_ones.count);
    files_assert_equal(merge("original", &original), merge("split", &split_ones), part);
}

START_TEST(test_calls)
{
    static const char *const parts[] = {"buffer", "second", "third",   "merged",
                                        "child",  "became", "default", "library"};
    start_place();
    build("run_modes.c first.c -o run_modes");
    for (int i = 0; i < LIBRARIES; i++) {
        source_generate(text_format("%s/original/second%d.c", place, i), LANGUAGE_C, "second",
                        FUNCTIONS + 1 + (unsigned)i);
        build(text_format("-fPIC -shared second%d.c -o lib%d.so", i, i));
        split(text_format("lib%d.so", i));
    }
    split("run_modes");
    check_runs("run_modes", "../lib0.so ../lib1.so", "library%m.profraw");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        check_profiles(parts[i], strcmp(parts[i], "library") == 0 ? LIBRARIES : 1);
    }
}
END_TEST

#define RELOCATION "-mllvm -runtime-counter-relocation"
#define SIMPLE_MAIN                                                                                \
    "long first_run(long seed);\n"                                                                 \
    "int main(int count, char **words) { (void)words; return first_run(count) == 7 ? 4 : 3; }\n"

struct naming {
    const char *clangs; /* NULL: all */
    const char *pattern;
    const char *options;
    size_t count; /* of the profiles of three runs; 0: any */
};

static const struct naming namings[] = {
    {NULL, "p%p.profraw", "", 3},
    {NULL, "h%h.profraw", "", 1},
    {NULL, "%t/t.profraw", "", 1},
    {NULL, "m%m.profraw", "", 1},
    {NULL, "%2m-n.profraw", "", 0},
    {"22", "%b.profraw", "", 1},
    {NULL, "p%p-h%h-%m.profraw", "", 3},
    {NULL, "%cc%p.profraw", RELOCATION, 3},
    {NULL, "%cc%m.profraw", RELOCATION, 1},
    {NULL, "%c%2m-c.profraw", RELOCATION, 0},
    {"19 22", "%cc%p.profraw", RELOCATION " -fcoverage-mcdc", 3},
    {"22", "f%m.profraw", "-fprofile-continuous", 1},
    {"22", "f%p.profraw", "-fprofile-continuous", 3},
};

/* Without relocated counters, LLVM's runtime writes nothing continuously, and says so. */
START_TEST(test_no_relocation)
{
    start_place();
    file_write_text(text_format("%s/original/main.c", place), SIMPLE_MAIN);
    build("main.c first.c -o app");
    split("app");
    check_runs("app", "", "%cc.profraw");
    ck_assert_uint_eq(profiles_of("original", "c").count, 0);
    ck_assert_uint_eq(profiles_of("split", "c").count, 0);
}
END_TEST

static bool is_for_clang(const struct naming *naming)
{
    struct text_list words = {0};
    text_list_add_words(&words, naming->clangs != NULL ? naming->clangs : clang_version);
    return text_list_contains(&words, clang_version);
}

START_TEST(test_naming)
{
    const struct naming *naming = &namings[_i];
    if (!is_for_clang(naming)) {
        return;
    }
    start_place();
    file_write_text(text_format("%s/original/main.c", place), SIMPLE_MAIN);
    build(text_format("%s main.c first.c -o app", naming->options));
    split("app");
    for (int i = 0; i < 3; i++) {
        check_runs("app", i == 0 ? "" : i == 1 ? "one" : "one two", naming->pattern);
    }
    check_profiles(".profraw", naming->count);
}
END_TEST

/* Killed in the middle, a program that counts continuously leaves what it has counted. */
START_TEST(test_killed)
{
    start_place();
    file_write_text(text_format("%s/original/main.c", place),
                    "#include <signal.h>\nlong first_run(long seed);\n"
                    "int main(void) { first_run(3); raise(SIGKILL); return 0; }\n");
    build(RELOCATION " main.c first.c -o app");
    split("app");
    for (size_t i = 0; i < 2; i++) {
        struct command command = command_of(directories[i], "app", "");
        text_list_add(&command.environment, "LLVM_PROFILE_FILE=%ckilled.profraw");
        struct outcome outcome = command_run(&command);
        ck_assert_int_eq(outcome.signal, 9);
    }
    check_profiles("killed", 1);
}
END_TEST

/* A server that forks and does not exec: its children share the file of %p, whose number the
 * runtime puts in once, and append to it all at once. With %m they add up. */
START_TEST(test_server)
{
    start_place();
    source_generate(text_format("%s/original/second.c", place), LANGUAGE_C, "second", 900);
    file_write_text(text_format("%s/original/server.c", place),
                    "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
                    "long second_run(long seed);\n"
                    "int main(void)\n{\n    char byte;\n    int gate[2];\n"
                    "    if (pipe(gate) != 0)\n        return 1;\n"
                    "    for (int i = 0; i < 40; i++) {\n        if (fork() == 0) {\n"
                    "            close(gate[1]);\n"
                    "            if (read(gate[0], &byte, 1) == 0)\n"
                    "                second_run(i);\n            exit(0);\n        }\n    }\n"
                    "    close(gate[1]);\n    while (wait(NULL) > 0)\n        continue;\n"
                    "    return 3;\n}\n");
    build("server.c second.c -o server");
    split("server");
    check_runs("server", "", "server%m.profraw");
    check_profiles("server", 1);

    const char *said = "";
    for (int i = 0; i < 20 && said[0] == '\0'; i++) { /* they do not get mixed every time */
        char *file = text_format("%s/split/work/mixed%d", place, i);
        struct command command = command_of("split", "server", "");
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%%p.profraw", file);
        command_expect(&command, 3);
        ck_assert_uint_eq(directory_list(file).count, 1);
        struct command merge = covsplit_words(
            place, text_format("merge --store sidecars -o mixed.profdata --llvm-profdata %s %s",
                               versioned_tool("llvm-profdata", clang_version), file));
        said = command_run(&merge).errors;
        said = strstr(said, "covsplit: error") != NULL ? said : "";
    }
    assert_contains(said, "several processes appended to it at once, as after a fork: run the "
                          "program again with %m in LLVM_PROFILE_FILE");
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *test_case = suite_case("modes", 300, NULL);
    suite_tests(test_case, test_calls, test_no_relocation, test_killed, test_server);
    suite_loops(test_case, sizeof namings / sizeof *namings, test_naming);
    return suite_main(text_format("run modes clang-%s %s", clang_version, linker_name), test_case);
}
