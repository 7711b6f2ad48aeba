/*
 * covsplit compile: what it packs, what it leaves alone, and that it is like the compiler
 * otherwise.
 *
 * Each command runs twice, in directories of the same path: alone, and by covsplit. What the
 * compiler alone has written is packed with `covsplit pack`; then the files must be the same.
 *
 * Usage: compile COMPILER, which is "gcc" or a version of Clang.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/sample.h"

#define COVERAGE "-fprofile-instr-generate -fcoverage-mapping "
#define MSVC     "--driver-mode=cl --target=x86_64-pc-windows-msvc /Brepro " COVERAGE

static const char *version;
static char *scratch;

static bool is_gcc(void)
{
    return strcmp(version, "gcc") == 0;
}

/* "env" keeps it out of the cache of what compilers make. */
static const char *compiler(void)
{
    return is_gcc() ? "gcc" : text_format("clang-%s", version);
}

static void prepare(void)
{
    scratch_use_memory();
    scratch = scratch_create("compile");
}

/* ---- the same command, alone and by covsplit ---- */

static const char *const sources[][2] = {
    {"a.c", "static inline int twice(int x) { return x > 5 ? 2 * x : x; }\n"
            "int b(int);\nint main(int count, char **words) { (void)words; "
            "return twice(count) + b(1); }\n"},
    {"b.c", "#include \"h.h\"\nint b(int x) { return half(x); }\n"},
    {"c.cpp", "#include \"h.h\"\ntemplate <class T> T more(T x) { return x + 1; }\n"
              "int c(int x) { return more(half(x)) + more(2L); }\n"},
    {"h.h", "#pragma once\nstatic inline int half(int x) { return x > 1 ? x / 2 : x; }\n"},
    {"odd.txt", "int odd(void) { return 1; }\n"},
    {"broken.c", "int broken( { return 1; }\n"},
    {"plain.s", ".globl plain\nplain: ret\n"},
    {"m.cppm", "export module m;\nexport int m(int x) { return x ? x : 1; }\n"},
    {"response", "-c \"a.c\"\n-o 'out/an object.o' @nested"},
    {"nested", "-g -DX=\"1 2\""},
    {"out/note", "\n"},
};

/* With times that do not differ, since PCHs and modules have those of headers in them. */
static void write_sources(const char *place)
{
    static const struct timespec times[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

    directory_create(place);
    directory_create(path_join(place, "out"));
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char *path = path_join(place, sources[i][0]);

        file_write_text(path, sources[i][1]);
        ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    }
}

struct form {
    const char *words;
    const char *packed; /* the objects with coverage that it writes */
    bool is_for_gcc;    /* whose objects have none */
    const char *before; /* words of a command that runs first; NULL: none */
};

static const struct form forms[] = {
    {"-c a.c", "a.o", true, NULL},
    {"-c a.c -o out/x.o", "out/x.o", true, NULL},
    {"-oout/x.o -c a.c -g -gsplit-dwarf -ffunction-sections", "out/x.o", true, NULL},
    {"-c a.c b.c ./c.cpp", "a.o b.o c.o", true, NULL},
    {"-O2 -c c.cpp -MMD -MF out/c.d -MT c.o", "c.o", true, NULL},
    {"-c -x c odd.txt -MD", "odd.o", true, NULL},
    {"-c -- a.c", "a.o", false, NULL},
    {"-c -x c -", "", true, NULL}, /* of nothing */
    {"@response", "out/an object.o", true, NULL},
    {"-c a.c -o -", "", false, NULL},
    {"-c a.c -o /dev/null", "", true, NULL},
    {"-c a.c -save-temps", "a.o", true, NULL},
    {"-c b.c -save-temps=obj -o out/x.o", "out/x.o", true, NULL},
    {"a.c b.c -save-temps -o app", "a.o b.o", false, NULL},
    {"a.c b.c -save-temps=obj -o out/app", "out/a.o out/b.o", false, NULL},
    {"-r -nostdlib a.c b.c -o both", "both", true, NULL},
    {"-r -nostdlib a.o b.o", "a.out", true, "-c a.c b.c"},
    {"-c c.cpp -Xclang -disable-O0-optnone -Xassembler --noexecstack -mllvm -stats=0", "c.o", false,
     NULL},
    {"-cc1 -triple x86_64-linux-gnu -emit-obj -fprofile-instrument=clang -fcoverage-mapping a.c",
     "a.o", false, NULL},
    {"-c a.ll", "a.o", false, "-S -emit-llvm a.c"},
    {"-c a.s b.c", "a.o b.o", true, "-S a.c"},
    {"-include-pch h.pch -c b.c", "b.o", false, "-x c-header h.h -o h.pch"},
    {"-std=c++20 -x pcm -c m.pcm", "m.o", false,
     "-std=c++20 -x c++-module --precompile m.cppm -o m.pcm"},
    {"-fmodules -fmodules-cache-path=out/cache -c b.c", "b.o", false, NULL},
    /* Nothing to pack. */
    {"-c plain.s", "", true, NULL},
    {"-S a.c", "", true, NULL},
    {"-E a.c", "", true, NULL},
    {"-MM b.c", "", true, NULL},
    {"-fsyntax-only a.c", "", true, NULL},
    {"-c -emit-llvm a.c", "", false, NULL},
    {"-c -flto a.c -o x.o", "", false, NULL},
    {"-x c-header h.h", "", false, NULL},
    {"a.c b.c -o app", "", true, NULL},
    {"a.c b.c", "", true, NULL},
    {"-c broken.c", "", true, NULL},
    {"-c a.c broken.c", "", true, NULL}, /* what is there is as it was written */
    {"-c nosuch.c", "", true, NULL},
    {"-Wall -Wunused-macros -c b.c -DX -UX -o", "", true, NULL},
    {"--version", "", true, NULL},
    {MSVC "/c a.c b.c", "", false, NULL},
};

static struct command form_command(const char *place, const char *words)
{
    struct command command = {.directory = place};

    text_list_add(&command.arguments, "env");
    text_list_add(&command.arguments, compiler());
    /* The front end has options of its own, and must come first. */
    if (!is_gcc() && strncmp(words, "-cc1", 4) != 0)
        text_list_add_words(&command.arguments, COVERAGE);
    text_list_add_words(&command.arguments, words);
    return command;
}

static struct command by_covsplit(const struct command *command)
{
    struct command result = covsplit_command(command->directory, "compile", "--", NULL);

    text_list_add_all(&result.arguments, (const char *const *)command->arguments.items);
    text_list_add_all(&result.environment, (const char *const *)command->environment.items);
    return result;
}

/* Sources, and what the first command of a form writes. */
static void make_work(const char *work, const struct form *form)
{
    write_sources(work);
    if (form->before != NULL) {
        struct command before = form_command(work, form->before);

        command_expect(&before, 0);
    }
}

/* All files of one directory are in the other, and the same; those with a line of text for each
 * moment, as dependencies of modules, have been given the same times. */
static void assert_same_trees(const char *expected, const char *found, const char *label)
{
    struct text_list names = tree_list(expected), others = tree_list(found);

    for (size_t i = 0; i < others.count; i++)
        ck_assert_msg(text_list_contains(&names, others.items[i]), "%s: %s is left", label,
                      others.items[i]);
    ck_assert_uint_eq(names.count, others.count);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];

        if (name[strlen(name) - 1] != '/' && strstr(name, "cache/") == NULL)
            files_assert_equal(path_join(found, name), path_join(expected, name),
                               text_format("%s: %s", label, name));
    }
}

/* Packs the objects that a form names; each must become smaller. */
static void pack_objects(const char *place, const char *words)
{
    struct text_list objects = {0};

    text_list_add_words(&objects, words);
    if (strcmp(words, "out/an object.o") == 0) {
        objects = (struct text_list){0};
        text_list_add(&objects, words);
    }
    for (size_t i = 0; i < objects.count; i++) {
        char *path = path_join(place, objects.items[i]);
        uint64_t before = file_size(path);

        covsplit_assert(0, place, "pack", objects.items[i], NULL);
        ck_assert_msg(is_gcc() == (file_size(path) == before), "%s was not packed", path);
    }
}

/* Nearly all the time is the compiler's, so with sanitizers every third will do. */
START_TEST(test_forms)
{
    const struct form *form = &forms[_i];
    char *place = path_join(scratch, text_format("form%d", _i));
    char *work = path_join(place, "work"), *alone = path_join(place, "alone");
    struct command plain = form_command(work, form->words), wrapped = by_covsplit(&plain);

    if ((is_gcc() && !form->is_for_gcc) ||
        (strcmp(version, "14") == 0 && strstr(form->words, "c++20")) ||
        (covsplit_is_sanitized() && !rounds_have((unsigned)_i, 3)))
        return;
    directory_create(place);
    make_work(work, form);
    struct outcome expected = command_run(&plain);
    ck_assert_int_eq(rename(work, alone), 0);
    make_work(work, form);
    struct outcome outcome = command_run(&wrapped);
    ck_assert_int_eq(outcome.exit_code, expected.exit_code);
    ck_assert_uint_eq(outcome.output_size, expected.output_size);
    ck_assert_int_eq(memcmp(outcome.output, expected.output, expected.output_size), 0);
    ck_assert_str_eq(outcome.errors, expected.errors);
    pack_objects(alone, form->packed);
    assert_same_trees(alone, work, form->words);
    directory_remove(place);
}
END_TEST

/* ---- endings ---- */

/* A program that does what a compiler with -o does, without a compiler's time. */
static char *place_with_object(const char *name)
{
    char *place = path_join(scratch, name);

    write_sources(place);
    run_or_abort(place, "clang-22", "-fprofile-instr-generate", "-fcoverage-mapping", "-c", "b.c",
                 "-o", "ordinary", NULL);
    file_copy(path_join(place, "ordinary"), path_join(place, "packed"));
    covsplit_run_words(place, 0, "pack packed");
    file_write_text(path_join(place, "cc"), "ulimit -S -f unlimited\ncp ordinary b.o\n");
    return place;
}

#define COPY "compile -- sh cc -o b.o"

struct ending {
    const char *words;
    int exit_code;
    int signal;
};

static const struct ending endings[] = {
    {"-- false", 1, 0},
    {"-- false -o b.o", 1, 0},
    {"-- sh ending.sh -o b.o", 7, 0},
    {"-- sh kill.sh -o b.o", -1, SIGSEGV},
    {"-- sh kill.sh", -1, SIGSEGV},
    {"-- nosuch-compiler -c b.c", 127, 0},
    {"-- nosuch-compiler", 127, 0},
    {"-- ./b.c -c b.c", 126, 0},
    {"-- ./b.c", 126, 0},
    {"", 2, 0},
    {"--", 2, 0},
    {"sh", 2, 0},
    {"-x -- sh", 2, 0},
};

START_TEST(test_endings)
{
    char *place = path_join(scratch, text_format("ending%d", _i));

    write_sources(place);
    file_write_text(path_join(place, "ending.sh"), "exit 7\n");
    file_write_text(path_join(place, "kill.sh"), "kill -SEGV $$\n");
    struct command command = covsplit_words(place, text_format("compile %s", endings[_i].words));
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.exit_code == endings[_i].exit_code &&
                      outcome.signal == endings[_i].signal,
                  "exit code %d, signal %d: %s", outcome.exit_code, outcome.signal, outcome.errors);
}
END_TEST

/* What an earlier command has written is not touched, whether the compiler fails or not. */
START_TEST(test_earlier_object)
{
    static const char *const words[] = {"false -o b.o", "true -o b.o", "sh fail -o b.o"};
    char *place = place_with_object(text_format("earlier%d", _i));
    char *object = path_join(place, "b.o");

    file_copy(path_join(place, "ordinary"), object);
    file_write_text(path_join(place, "fail"), "touch b.o\nexit 3\n");
    struct outcome outcome = covsplit_run(place, "compile", "--", "sh", "-c",
                                          text_format("exec %s", words[_i]), "-o", "b.o", NULL);
    ck_assert_int_eq(outcome.exit_code, _i == 0 ? 1 : _i == 1 ? 0 : 3);
    files_assert_equal(object, path_join(place, "ordinary"), words[_i]);
}
END_TEST

/* Mode and time are as the compiler has set them, and other names of the object, as in a cache of
 * ccache, keep what was written. */
START_TEST(test_attributes)
{
    char *place = place_with_object("attributes");

    file_write_text(path_join(place, "cc"),
                    "cp ordinary b.o; chmod 640 b.o; touch -d 2001-01-01 b.o; ln -f b.o cached\n");
    covsplit_run_words(place, 0, COPY);
    struct stat packed = file_status(path_join(place, "b.o"));
    ck_assert_uint_eq(packed.st_mode & 07777, 0640);
    ck_assert_int_eq(packed.st_mtime, file_status(path_join(place, "cached")).st_mtime);
    files_assert_equal(path_join(place, "b.o"), path_join(place, "packed"), "b.o");
    files_assert_equal(path_join(place, "cached"), path_join(place, "ordinary"), "cached");
    struct outcome outcome = covsplit_run_words(place, 0, "compile -v -- sh cc -o b.o");
    assert_contains(outcome.output, "b.o: ");
}
END_TEST

/* Whoever stops the build stops the compiler; both end by the signal, and nothing is left. */
START_TEST(test_signal)
{
    char *place = place_with_object("signal");
    struct command command = covsplit_words(place, "compile -- sh wait -o b.o");

    file_write_text(path_join(place, "wait"), ": > started\nexec sleep 60\n");
    pid_t process = command_start(&command);
    for (int i = 0; i < 400 && !file_exists(path_join(place, "started")); i++)
        usleep(20000);
    kill(process, SIGTERM);
    int status = 0;
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status 0x%x", status);
    ck_assert(!file_exists(path_join(place, "b.o")));
}
END_TEST

/* At each system call of its own: the object is absent, as written, or packed. */
START_TEST(test_kills)
{
    char *place = place_with_object("kills");
    char *object = path_join(place, "b.o");
    struct command command = covsplit_words(place, COPY);
    struct contents ordinary = file_read(path_join(place, "ordinary"));
    struct contents packed = file_read(path_join(place, "packed"));
    struct traced traced = {.was_stopped = true};
    unsigned stops = 0, as_written = 0;
    bool is_packed = false;

    while (traced.was_stopped) {
        directory_remove(object);
        stops += rounds_step();
        traced = command_trace_and_kill(&command, stops);
        is_packed = false;
        if (file_exists(object)) {
            struct contents found = file_read(object);

            is_packed = contents_equal(&found, &packed);
            ck_assert_msg(is_packed || contents_equal(&found, &ordinary), "stop %u: half an object",
                          stops);
            as_written += !is_packed;
            contents_free(&found);
        }
    }
    ck_assert(is_packed && as_written > 0);
    ck_assert_int_eq(traced.exit_code, 0);
}
END_TEST

/* SIGTERM at each system call leaves no temporary file either. */
START_TEST(test_stops)
{
    char *place = place_with_object("stops");
    char *object = path_join(place, "b.o");
    struct command command = covsplit_words(place, COPY);
    struct text_list before = directory_list(place);
    struct traced traced = {.was_stopped = true};
    unsigned stops = 0;

    while (traced.was_stopped) {
        directory_remove(object);
        stops += 4 * rounds_step();
        traced = command_trace_and_signal(&command, stops, SIGTERM);
        ck_assert_uint_eq(directory_list(place).count, before.count + file_exists(object));
    }
    ck_assert_uint_gt(stops, 20);
}
END_TEST

/* Without room on the disk, or memory, the object is the ordinary one. */
START_TEST(test_no_room)
{
    char *place = place_with_object("room");
    struct command command = covsplit_words(place, COPY);
    struct command limited = {.directory = place};

    text_list_add_words(&limited.arguments, "prlimit --fsize=1000:unlimited");
    text_list_add_all(&limited.arguments, (const char *const *)command.arguments.items);
    struct outcome outcome = command_run(&limited);
    ck_assert_msg(outcome_exited(&outcome, 1), "%s", outcome.errors);
    assert_contains(outcome.errors, "covsplit: error: b.o: cannot be written");
    files_assert_equal(path_join(place, "b.o"), path_join(place, "ordinary"), "b.o");
    ck_assert_uint_eq(text_count(run_or_abort(place, "ls", "-A", NULL), "covsplit-"), 0);
}
END_TEST

/* An object that must stay gives a warning, and the build goes on. */
START_TEST(test_kept)
{
    char *place = path_join(scratch, "kept");

    write_sources(place);
    run_or_abort(place, "clang-22", "-fprofile-instr-generate", "-fcoverage-mapping", "-S", "b.c",
                 NULL);
    /* A reference to a record. */
    run_or_abort(place, "sh", "-ec",
                 "record=$(grep -o '__covrec_[0-9A-Fu]*:' b.s | head -1)\n"
                 "printf '.data\\n.quad %s\\n' \"${record%:}\" >>b.s\n"
                 "cp b.s ordinary.s && clang-22 -c ordinary.s",
                 NULL);
    struct outcome outcome = covsplit_run_words(place, 0, "compile -- clang-22 -c b.s");
    assert_contains(outcome.errors, "covsplit: warning: b.o: ");
    ck_assert_uint_eq(text_count(outcome.errors, "\n"), 1);
    files_assert_equal(path_join(place, "b.o"), path_join(place, "ordinary.o"), "b.o");
}
END_TEST

/* ---- caches and builds ---- */

/* covsplit before ccache, which keeps ordinary objects, and behind it, where packed ones are kept:
 * what comes out of the cache is what went in. */
START_TEST(test_ccache)
{
    bool is_behind = _i % 2 == 1, has_links = _i >= 2;
    char *place = path_join(scratch, text_format("ccache%d", _i));
    struct command cached = {.directory = place};

    write_sources(place);
    run_or_abort(place, "env", "clang-22", "-fprofile-instr-generate", "-fcoverage-mapping", "-c",
                 "b.c", "-o", "expected.o", NULL);
    covsplit_run_words(place, 0, "pack expected.o");
    text_list_add_words(&cached.arguments, "ccache clang-22 " COVERAGE "-c b.c -o b.o");
    text_list_add_format(&cached.environment, "CCACHE_DIR=%s/cache", place);
    if (has_links)
        text_list_add(&cached.environment, "CCACHE_HARDLINK=1");
    if (is_behind) {
        file_write_text(path_join(place, "wrapper"),
                        text_format("#!/bin/sh\nexec %s compile -- \"$@\"\n", covsplit_path()));
        ck_assert_int_eq(chmod(path_join(place, "wrapper"), 0755), 0);
        text_list_add_format(&cached.environment, "CCACHE_PREFIX=%s/wrapper", place);
    } else {
        cached = by_covsplit(&cached);
    }
    for (unsigned i = 0; i < 3; i++) {
        command_expect(&cached, 0);
        files_assert_equal(path_join(place, "b.o"), path_join(place, "expected.o"),
                           text_format("time %u", i));
        ck_assert_int_eq(unlink(path_join(place, "b.o")), 0);
    }
    cached.arguments = (struct text_list){0};
    text_list_add_words(&cached.arguments, "ccache --print-stats");
    assert_contains(command_expect(&cached, 0).output, "direct_cache_hit\t2");
}
END_TEST

/* As a launcher of ninja, with dependencies that the compiler writes: what is up to date is not
 * made again, what depends on a changed header is. */
START_TEST(test_ninja)
{
    char *place = path_join(scratch, "ninja");
    char *rules = text_format("rule cc\n  command = %s compile -- clang-22 " COVERAGE
                              "-MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n",
                              covsplit_path());

    write_sources(place);
    for (unsigned i = 0; i < 12; i++) {
        file_copy(path_join(place, "b.c"), path_join(place, text_format("b%u.c", i)));
        rules = text_format("%sbuild b%u.o: cc b%u.c\n", rules, i, i);
    }
    file_write_text(path_join(place, "build.ninja"), rules);
    run_or_abort(place, "env", "ninja", "-j8", NULL);
    for (unsigned i = 0; i < 12; i++) {
        run_or_abort(place, "env", "clang-22", "-fprofile-instr-generate", "-fcoverage-mapping",
                     "-c", text_format("b%u.c", i), "-o", "expected.o", NULL);
        covsplit_run_words(place, 0, "pack expected.o");
        files_assert_equal(path_join(place, text_format("b%u.o", i)),
                           path_join(place, "expected.o"), "a build");
    }
    assert_contains(run_or_abort(place, "env", "ninja", NULL), "no work to do");
    run_or_abort(place, "touch", "h.h", NULL);
    assert_contains(run_or_abort(place, "env", "ninja", "-j8", NULL), "[12/12]");
    assert_contains(run_or_abort(place, "env", "ninja", NULL), "no work to do");
}
END_TEST

/* Libraries of Rust are archives; a program that is linked of a packed one runs. */
START_TEST(test_rustc)
{
    static const char command[] =
        "rustc -C instrument-coverage --crate-type rlib --crate-name twice "
        "-C extra-filename=-1 --out-dir out twice.rs";
    char *place = path_join(scratch, "rustc");
    struct command rustc = command_words(place, "rustc --version");

    write_sources(place);
    if (command_run(&rustc).exit_code != 0) {
        printf("no rustc here: not tested with it\n");
        return;
    }
    file_write_text(path_join(place, "twice.rs"),
                    "pub fn twice(x: i32) -> i32 { if x > 5 { 2 * x } else { x } }\n");
    file_write_text(path_join(place, "main.rs"),
                    "fn main() { println!(\"{}\", twice::twice(21)); }\n");
    rustc = command_words(place, "%s", command);
    command_expect(&rustc, 0);
    covsplit_run_words(place, 0, "pack -o expected out/libtwice-1.rlib");
    ck_assert_uint_lt(file_size(path_join(place, "expected")),
                      file_size(path_join(place, "out/libtwice-1.rlib")));
    covsplit_run_words(place, 0, text_format("compile -- %s", command));
    files_assert_equal(path_join(place, "out/libtwice-1.rlib"), path_join(place, "expected"),
                       "rlib");
    covsplit_run_words(place, 0,
                       "compile -- rustc -C instrument-coverage --extern "
                       "twice=out/libtwice-1.rlib main.rs");
    rustc = command_words(place, "env LLVM_PROFILE_FILE=/dev/null ./main");
    ck_assert_str_eq(command_expect(&rustc, 0).output, "42\n");
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "COMPILER", &version);
    TCase *test_case = suite_case("compile", 300, prepare);
    suite_loops(test_case, sizeof forms / sizeof *forms, test_forms);
    if (strcmp(version, "22") == 0) { /* what the compiler does not matter for */
        suite_loops(test_case, sizeof endings / sizeof *endings, test_endings);
        suite_loops(test_case, 3, test_earlier_object);
        suite_tests(test_case, test_attributes, test_signal, test_kills, test_stops, test_no_room,
                    test_kept, test_ninja, test_rustc);
        suite_loops(test_case, 4, test_ccache);
    }
    return suite_main("compile", test_case);
}
