/*
 * covsplit link: what it splits, what it leaves alone, and that it is like the command otherwise.
 *
 * Usage: link CLANG
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"

#define COVERAGE "-fprofile-instr-generate -fcoverage-mapping "

static const char *clang_version;
static char *scratch;

static void write_source(const char *directory)
{
    file_write_text(path_join(directory, "program.c"),
                    "int twice(int x) { return x > 5 ? 2 * x : x; }\n"
                    "int main(int count, char **words) { (void)words; return twice(count); }\n");
}

static void prepare(void)
{
    scratch = scratch_create("link");
}

static char *new_place(const char *name)
{
    char *place = path_join(scratch, name);
    directory_create(place);
    write_source(place);
    return place;
}

static const char *clang(void)
{
    return text_format("clang-%s", clang_version);
}

/* `covsplit link OPTIONS -- WORDS` */
static struct outcome link_words(const char *place, const char *options, const char *words)
{
    struct command command = covsplit_command(place, "link", NULL);
    text_list_add_words(&command.arguments, options);
    text_list_add(&command.arguments, "--");
    text_list_add_words(&command.arguments, words);
    struct outcome outcome = command_run(&command);
    return outcome;
}

static void assert_link(const char *place, const char *options, const char *words)
{
    struct outcome outcome = link_words(place, options, words);
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0 &&
                      outcome.output_size == 0,
                  "%s: %s%s", words, outcome.output, outcome.errors);
}

struct spelling {
    const char *words;
    const char *output;
};

static const struct spelling spellings[] = {
    {"program.c -o app", "app"},
    {"-oapp program.c", "app"},
    {"program.c", "a.out"},
    {"@response", "app"},
    {"-shared -fPIC program.c -o libapp.so", "libapp.so"},
    {"program.c -Wl,-o,app", "app"},
    {"-Xlinker -o -Xlinker app program.c -o other", "app"},
    {"program.c -Wl,--output=app", "app"},
    {"program.c -Wl,@linker", "app"},
    {"--config ./config program.c", "app"},
    {"--config=config --config-user-dir=. program.c", "app"},
    {"program.c -o overridden", "app"},
};

/* What is compared with covsplit's results is made in the same directory, and not in the cache. */
static void add_compiler(struct command *command)
{
    text_list_add(&command->arguments, "env");
    text_list_add(&command->arguments, clang());
}

/* The result is that of a link and a split, whatever way the output is named. */
START_TEST(test_splits)
{
    const struct spelling *spelling = &spellings[_i];
    char *place = new_place(text_format("splits%d", _i));
    struct command link = {.directory = place};
    struct command split = covsplit_words(place, "link --");
    file_write_text(path_join(place, "response"), "program.c\n-o \"app\"\n");
    file_write_text(path_join(place, "linker"), "-o app\n");
    file_write_text(path_join(place, "config"), "# -o comment\n-o \\\n  app\n");
    if (strstr(spelling->words, "overridden") != NULL) {
        text_list_add(&link.environment, "CCC_OVERRIDE_OPTIONS=# ^-v x-v +-oapp");
        text_list_add(&split.environment, "CCC_OVERRIDE_OPTIONS=# ^-v x-v +-oapp");
    }
    add_compiler(&link);
    text_list_add_words(&link.arguments, COVERAGE);
    text_list_add_words(&link.arguments, spelling->words);
    command_run_or_abort(&link);
    covsplit_assert(0, place, "split", "-o", "expected", "--sidecar", "expected.covsplit",
                    spelling->output, NULL);
    text_list_add_words(&split.arguments,
                        text_format("%s " COVERAGE "%s", clang(), spelling->words));
    ck_assert_str_eq(command_expect(&split, 0).errors, "");
    files_assert_equal(path_join(place, spelling->output), path_join(place, "expected"),
                       spelling->words);
    files_assert_equal(path_join(place, text_format("%s.covsplit", spelling->output)),
                       path_join(place, "expected.covsplit"), spelling->words);
}
END_TEST

/* The sidecar goes to the store, and the sizes are told where that is wanted. */
START_TEST(test_store)
{
    char *place = new_place("store");
    struct outcome outcome = link_words(place, "-v --store sidecars",
                                        text_format("%s " COVERAGE "program.c -o app", clang()));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_ptr_nonnull(strstr(outcome.output, "app: "));
    ck_assert_ptr_nonnull(strstr(outcome.output, " in sidecars/.build-id/"));
    ck_assert(!file_exists(path_join(place, "app.covsplit")));
    covsplit_run_words(place, 0, "join --store sidecars -o joined app");
}
END_TEST

/* What a build does besides linking with coverage, and what must be there afterwards. */
static const struct spelling others[] = {
    {COVERAGE "-c program.c", "program.o"},
    {COVERAGE "-c program.c -o object", "object"},
    {COVERAGE "-S program.c", "program.s"},
    {COVERAGE "-r -nostdlib program.c -o partial", "partial"},
    {"program.c -o plain", "plain"},
    {"-M program.c -o dependencies", "dependencies"},
};

/* All of that is left alone without a word, and so is an image that was there before. */
START_TEST(test_leaves_alone)
{
    char *place = new_place(text_format("others%d", _i));
    run_or_abort(place, clang(), "-fprofile-instr-generate", "-fcoverage-mapping", "program.c",
                 NULL);
    file_copy(path_join(place, "a.out"), path_join(place, "before"));
    struct stat before = file_status(path_join(place, "a.out"));
    assert_link(place, "", text_format("%s %s", clang(), others[_i].words));
    struct command again = {.directory = place};
    ck_assert(file_exists(path_join(place, others[_i].output)));
    file_copy(path_join(place, others[_i].output), path_join(place, "found"));
    add_compiler(&again);
    text_list_add_words(&again.arguments, others[_i].words);
    command_run_or_abort(&again);
    files_assert_equal(path_join(place, "found"), path_join(place, others[_i].output),
                       others[_i].words);
    files_assert_equal(path_join(place, "a.out"), path_join(place, "before"), others[_i].words);
    ck_assert_int_eq(before.st_mtim.tv_nsec,
                     file_status(path_join(place, "a.out")).st_mtim.tv_nsec);
    ck_assert(!file_exists(path_join(place, "a.out.covsplit")));
}
END_TEST

/* Where a link writes is not always said: then nothing is split, with a warning. */
START_TEST(test_unrecognized)
{
    char *place = new_place("unrecognized");
    file_write_text(path_join(place, "linker"),
                    "#!/bin/sh\nclang-$1 -fprofile-instr-generate -fcoverage-mapping program.c "
                    "-o app\n");
    ck_assert_int_eq(chmod(path_join(place, "linker"), 0755), 0);
    struct outcome outcome =
        link_words(place, "", text_format("./linker %s program.c", clang_version));
    ck_assert_int_eq(outcome.exit_code, 0);
    assert_contains(outcome.errors, "warning: no output of this link was recognized (a.out was ");
    outcome = link_words(place, "", text_format("./linker %s -o other", clang_version));
    assert_contains(outcome.errors, "(other was not written), so nothing is split; ");
    /* What links nothing is not asked. */
    static const char *const quiet[] = {
        "-v",
        "-o /dev/null program.c",
        "--version program.c",
        "-fsyntax-only program.c",
        "-Wl,--version program.c",
        "-target x86_64-linux-gnu -print-search-dirs",
        "-x c-header empty.h",
        "-cc1 -emit-obj program.c",
    };
    file_write_text(path_join(place, "empty.h"), "");
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        outcome = link_words(place, "", text_format("%s %s", clang(), quiet[i]));
        ck_assert_int_eq(outcome.exit_code, 0);
        ck_assert_ptr_null(strstr(outcome.errors, "covsplit"));
    }
    assert_link(place, "", "ar rc lib.a program.c");
}
END_TEST

/* Of an image without counters, as Rust's test program of a crate without tests is one, the names
 * of its unused functions stay, and nobody needs to know. */
START_TEST(test_no_counters)
{
    char *place = new_place("no-counters");
    file_write_text(path_join(place, "unused.c"), "static int unused(int x) { return x; }\n");
    run_or_abort(place, clang(), "-fprofile-instr-generate", "-fcoverage-mapping", "-c", "unused.c",
                 NULL);
    run_or_abort(place, clang(), "-c", "program.c", NULL);
    assert_link(place, "",
                text_format("%s -fprofile-instr-generate unused.o program.o -o app", clang()));
    ck_assert(file_exists(path_join(place, "app.covsplit")));
}
END_TEST

/* Of a kind that covsplit does not know, but without coverage: no reason to fail a build. */
START_TEST(test_unknown_machine)
{
    char *place = new_place("machine");
    run_or_abort(place, clang(), "--target=powerpc-linux-gnu", "-ffreestanding", "-fPIC", "-c",
                 "program.c", "-o", "object.o", NULL);
    assert_link(place, "",
                text_format("ld.lld-%s -m elf32ppc -shared object.o -o out", clang_version));
    ck_assert(file_exists(path_join(place, "out")));
    ck_assert(!file_exists(path_join(place, "out.covsplit")));
    /* With coverage it is one: who ships it must know. */
    run_or_abort(place, clang(), "--target=powerpc-linux-gnu", "-ffreestanding", "-fPIC", "-c",
                 "-fprofile-instr-generate", "-fcoverage-mapping", "program.c", "-o", "object.o",
                 NULL);
    struct outcome outcome = link_words(
        place, "", text_format("ld.lld-%s -m elf32ppc -shared object.o -o out", clang_version));
    ck_assert_msg(outcome_exited(&outcome, 1), "%s", outcome.errors);
    ck_assert(!file_exists(path_join(place, "out")));
}
END_TEST

/* What cannot be split must not stay there for the next build, nor the sidecar of an earlier one.
 */
START_TEST(test_failing_split)
{
    char *place = new_place("failing");
    struct outcome outcome =
        link_words(place, "", text_format("%s " COVERAGE "program.c -o app", clang()));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    outcome_free(&outcome);
    struct contents before = file_read(path_join(place, "app.covsplit"));
    /* Nothing that a store could be asked for. */
    outcome =
        link_words(place, "--sections covmap,covfun --store store",
                   text_format("%s " COVERAGE "-Wl,--build-id=none program.c -o app", clang()));
    ck_assert_msg(outcome_exited(&outcome, 1) &&
                      strstr(outcome.errors, "link with --build-id") != NULL,
                  "%s", outcome.errors);
    ck_assert(!file_exists(path_join(place, "app")));
    outcome_free(&outcome);
    struct contents after = file_read(path_join(place, "app.covsplit"));
    ck_assert(contents_equal(&before, &after));
    /* A directory is in the way of the sidecar. */
    directory_create(path_join(place, "there.covsplit"));
    outcome = link_words(place, "", text_format("%s " COVERAGE "program.c -o there", clang()));
    ck_assert_msg(outcome_exited(&outcome, 1), "%s", outcome.errors);
    ck_assert(!file_exists(path_join(place, "there")));
}
END_TEST

struct ending {
    const char *words;
    int exit_code;
    int signal;
};

static const struct ending endings[] = {
    {"false", 1, 0},
    {"sh ending.sh exit 7", 7, 0},
    {"sh ending.sh kill -SEGV $$", -1, SIGSEGV},
    {"nosuch-linker", 127, 0},
    {"./program.c", 126, 0},
};

START_TEST(test_endings)
{
    char *place = new_place(text_format("endings%d", _i));
    file_write_text(path_join(place, "ending.sh"), "eval \"$@\"\n");
    struct outcome outcome = link_words(place, "", endings[_i].words);
    ck_assert_msg(outcome.exit_code == endings[_i].exit_code &&
                      outcome.signal == endings[_i].signal,
                  "exit code %d, signal %d: %s", outcome.exit_code, outcome.signal, outcome.errors);
}
END_TEST

/* A link that fails half way leaves what the linker leaves: nothing of it is split. */
START_TEST(test_failing_link)
{
    char *place = new_place("half");
    file_write_text(path_join(place, "linker"),
                    "#!/bin/sh\nclang-$1 -fprofile-instr-generate -fcoverage-mapping program.c "
                    "-o app\nexit 3\n");
    ck_assert_int_eq(chmod(path_join(place, "linker"), 0755), 0);
    struct outcome outcome =
        link_words(place, "", text_format("./linker %s -o app", clang_version));
    ck_assert_msg(outcome_exited(&outcome, 3), "%s", outcome.errors);
    ck_assert(!file_exists(path_join(place, "app.covsplit")));
}
END_TEST

/* Who stops the build stops the linker. */
START_TEST(test_signal)
{
    char *place = new_place("signal");
    file_write_text(path_join(place, "wait.sh"),
                    "trap 'echo stopped > stopped; exit 9' TERM\n: > started\n"
                    "while :; do sleep 0.05; done\n");
    struct command command = covsplit_command(place, "link", "--", "sh", "wait.sh", NULL);
    pid_t process = command_start(&command);
    for (int i = 0; i < 400 && !file_exists(path_join(place, "started")); i++) {
        usleep(50000);
    }
    kill(process, SIGTERM);
    int status = 0;
    ck_assert_int_eq(waitpid(process, &status, 0), process);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 9, "status 0x%x", status);
    ck_assert(file_exists(path_join(place, "stopped")));
}
END_TEST

/* ---- covsplit-cc ---- */

/* A command that finds covsplit where covsplit-cc looks for it, and the store for that. */
static void prepare_wrapper(struct command *command)
{
    text_list_add_format(&command->environment, "PATH=%s:%s", COVSPLIT_COMMAND_DIRECTORY,
                         getenv("PATH"));
    text_list_add_format(&command->environment, "COVSPLIT_LINK_STORE=%s/side cars",
                         command->directory);
}

/* The options of covsplit-cc are those of covsplit link, and the store may have any path. */
START_TEST(test_wrapper)
{
    static const char *const options[] = {"--level 3", "--fast"};
    char *place = new_place(text_format("wrapper%d", _i));
    struct command command = {.directory = place};
    text_list_add(&command.arguments, COVSPLIT_SHARE_DIRECTORY "/covsplit-cc");
    text_list_add_words(&command.arguments, COVERAGE "-Wl,--build-id program.c -o app");
    prepare_wrapper(&command);
    text_list_add_format(&command.environment, "COVSPLIT_LINKER=%s", clang());
    /* Two files that a shell would put in the place of the pattern. */
    file_write_text(path_join(place, "program.h"), "/* as many programs have */\n");
    text_list_add(&command.environment,
                  _i == 0 ? "COVSPLIT_LINK_OPTIONS=--level 3 --exclude program* -v"
                          : "COVSPLIT_LINK_FAST=yes");
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_int_eq(strstr(outcome.output, " bytes before, ") != NULL, _i == 0);
    ck_assert(!file_exists(path_join(place, "app.covsplit")));

    assert_link(place, text_format("--sidecar expected %s", options[_i]),
                text_format("%s " COVERAGE "-Wl,--build-id program.c -o app", clang()));
    const char *stored = run_or_abort(place, "find", "side cars", "-name", "*.covsplit", NULL);
    files_assert_equal(path_join(place, text_list_of_lines(stored).items[0]),
                       path_join(place, "expected"), options[_i]);
}
END_TEST

/* cargo and rustc take one program as the linker. */
static struct command rust_command(const char *place, const char *words)
{
    struct command command = command_words(place, "%s", words);
    text_list_add_words(&command.arguments, "-C instrument-coverage");
    text_list_add_format(&command.arguments, "-Clinker=%s/covsplit-cc", COVSPLIT_SHARE_DIRECTORY);
    prepare_wrapper(&command);
    text_list_add(&command.environment, "COVSPLIT_LINK_OPTIONS=--level 3");
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/profiles/%%m.profraw", place);
    return command;
}

static const char rust_macro[] = "extern crate proc_macro;\n"
                                 "#[proc_macro]\n"
                                 "pub fn one(_: proc_macro::TokenStream) -> "
                                 "proc_macro::TokenStream { \"1\".parse().unwrap() }\n";
static const char rust_library[] = "/// ```\n/// assert_eq!(both::more(2), 3);\n/// ```\n"
                                   "#[no_mangle]\npub extern \"C\" fn more(x: i32) -> i32 "
                                   "{ if x > 99 { 0 } else { x + steps::one!() } }\n";
static const char rust_main[] = "#[link(name = \"shared\")]\n"
                                "extern \"C\" { fn more(x: i32) -> i32; }\n"
                                "fn main() { println!(\"{}\", unsafe { more(41) }); }\n";

/* A program without optimization and with it, what it loads, what the compiler loads, and what runs
 * the examples of a documentation. */
static const char *const rust_steps[] = {
    "rustc --crate-type proc-macro steps.rs",
    "rustc --crate-type cdylib -o libshared.so --extern steps=libsteps.so both.rs",
    "rustc --crate-type rlib --extern steps=libsteps.so both.rs",
    "rustc -L . -C link-arg=-Wl,-rpath,$ORIGIN main.rs",
    "rustc -O -L . -C link-arg=-Wl,-rpath,$ORIGIN -o optimized main.rs",
    "rustdoc --test -L . --extern both=libboth.rlib --extern steps=libsteps.so both.rs",
};

/* Of the steps each but the rlib links one image. */
#define RUST_SIDECARS 5

START_TEST(test_rustc)
{
    const char *place = new_place("rustc");
    struct command rustc = command_words(place, "rustc --version");
    struct outcome outcome = command_run(&rustc);
    if (!outcome_exited(&outcome, 0)) {
        printf("no rustc here: not tested with it\n");
        return;
    }
    file_write_text(path_join(place, "steps.rs"), rust_macro);
    file_write_text(path_join(place, "both.rs"), rust_library);
    file_write_text(path_join(place, "main.rs"), rust_main);
    for (size_t i = 0; i < sizeof rust_steps / sizeof *rust_steps; i++) {
        struct command command = rust_command(place, rust_steps[i]);
        command_expect(&command, 0);
    }
    static const char *const programs[] = {"./main", "./optimized"};
    for (size_t i = 0; i < 2; i++) {
        struct command command = command_words(place, "%s", programs[i]);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/profiles/%%m.profraw",
                             place);
        ck_assert_str_eq(command_expect(&command, 0).output, "42\n");
    }
    struct outcome list = covsplit_run(place, "store", "list", "side cars", NULL);
    ck_assert_uint_ge(text_list_of_lines(list.output).count, RUST_SIDECARS);
    covsplit_assert(0, place, "join", "--store", "side cars", "-o", "joined", "main", NULL);
    covsplit_assert(0, place, "join", "--store", "side cars", "-o", "joined", "libshared.so", NULL);
    covsplit_assert(0, place, "merge", "--store", "side cars", "-o", "merged.profraw", "profiles",
                    NULL);
}
END_TEST

/* ---- what is left alone by name ---- */

struct exclusion {
    const char *options;
    const char *output;  /* below the place; NULL: a.out of conftest.c */
    const char *pattern; /* as -v tells it; NULL: it is split */
};

static const struct exclusion exclusions[] = {
    {"", "conftest", "conftest"},
    {"", "sub/conftest.exe", "conftest.*"},
    {"", NULL, "conftest.*"},
    {"", "CMakeFiles/CMakeScratch/TryCompile-x1/cmTC_1", "CMakeFiles/CMakeScratch/*"},
    {"", "own/CMakeFiles/CMakeTmp/cmTC_1", "CMakeFiles/CMakeTmp/*"},
    {"", "CMakeFiles/3.25.1/CompilerIdC/a.out", "CMakeFiles/*/CompilerId*/*"},
    {"", "CMakeFiles/_CMakeLTOTest-C/bin/boo", "CMakeFiles/_CMakeLTOTest-*"},
    {"", "meson-private/tmpx1/output.exe", "meson-private/*"},
    {"", "conftests", NULL},
    {"", "CMakeFiles/app", NULL},
    {"--no-default-excludes", "conftest", NULL},
    {"--exclude app", "app", "app"},
    {"--exclude=tool* --exclude sub/?*", "sub/deep/app", "sub/?*"},
    {"--exclude=tool* --exclude sub/?*", "app", NULL},
    {"--exclude /*/sub/app", "sub/app", "/*/sub/app"},
    {"--exclude ub/app", "sub/app", NULL},
    {"--exclude sub*", "sub/app", NULL},
    {"--exclude app --no-default-excludes", "conftest", NULL},
    {"--exclude app", "conftest", "conftest"},
};

START_TEST(test_excludes)
{
    const struct exclusion *exclusion = &exclusions[_i];
    char *place = new_place(text_format("exclude%d", _i));
    const char *output = exclusion->output == NULL ? "a.out" : exclusion->output;
    run_or_abort(place, clang(), "-fprofile-instr-generate", "-fcoverage-mapping", "program.c",
                 "-o", "linked", NULL);
    /* A linker that takes no time. */
    file_write_text(path_join(place, "linker.sh"),
                    "mkdir -p \"$(dirname \"${3-a.out}\")\"\ncp linked \"${3-a.out}\"\n");
    struct outcome outcome =
        link_words(place, text_format("-v %s", exclusion->options),
                   exclusion->output == NULL ? "sh linker.sh conftest.c"
                                             : text_format("sh linker.sh a.o -o %s", output));
    ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s", outcome.errors);
    ck_assert(file_exists(path_join(place, output)));
    if (exclusion->pattern == NULL) {
        ck_assert_msg(strstr(outcome.output, " bytes before, ") != NULL, "%s", outcome.output);
    } else {
        ck_assert_str_eq(outcome.output, text_format("%s: left alone: '%s' is excluded\n", output,
                                                     exclusion->pattern));
    }
    ck_assert_int_eq(file_exists(path_join(place, text_format("%s.covsplit", output))),
                     exclusion->pattern == NULL);
}
END_TEST

/* Without symbols the mapping goes, and a warning says why no more does. */
START_TEST(test_linker_strips)
{
    char *place = new_place("strips");
    struct outcome outcome =
        link_words(place, "", text_format("%s " COVERAGE "-s program.c -o app", clang()));
    ck_assert_msg(outcome_exited(&outcome, 0) &&
                      strstr(outcome.errors,
                             "app: __llvm_prf_names stays: no symbol table: run "
                             "covsplit before strip, and link without -s\n") != NULL,
                  "%s", outcome.errors);
    covsplit_assert(0, place, "join", "-o", "joined", "app", NULL);
    ck_assert_uint_gt(file_size(path_join(place, "joined")), file_size(path_join(place, "app")));
}
END_TEST

#define UNSPLIT "libnumbers.so.1: this library has coverage and was not split; "

/* A library that was linked in another way is told of where a program is split that uses it. */
START_TEST(test_missed_library)
{
    char *place = new_place("missed");
    const char *link_library =
        text_format("%s " COVERAGE "-shared -fPIC numbers.c -o libnumbers.so.1", clang());
    const char *link_program =
        text_format("%s " COVERAGE "program.c ./libnumbers.so.1 -o app", clang());
    file_write_text(path_join(place, "numbers.c"), "int thrice(int x) { return 3 * x; }\n");
    struct command library = command_words(place, "%s", link_library);
    command_run_or_abort(&library);
    struct outcome outcome = link_words(place, "", link_program);
    ck_assert_msg(outcome_exited(&outcome, 0) && text_count(outcome.errors, "\n") == 1 &&
                      strstr(outcome.errors, "warning: ./" UNSPLIT) != NULL,
                  "%s", outcome.errors);
    assert_link(place, "--exclude lib*", link_program);
    /* One without coverage says nothing of it, nor does one that is split. */
    assert_link(place, "", text_format("%s program.c ./libnumbers.so.1 -o app", clang()));
    assert_link(place, "", link_library);
    assert_link(place, "", link_program);
}
END_TEST

/* A build that splits after the link, too, is told where the sidecar is; that stays. */
START_TEST(test_split_after_link)
{
    static const struct {
        const char *link, *split, *environment;
        const char *said; /* behind "... and " */
    } rows[] = {
        {"", "", "COVSPLIT_STORE=", "its sidecar is app.covsplit\n"},
        {"--store store", "--store store", "COVSPLIT_STORE=", "its sidecar is store/.build-id/"},
        {"--store store", "", "COVSPLIT_STORE=store", "its sidecar is store/.build-id/"},
        {"--store store", "",
         "COVSPLIT_STORE=", "its sidecar is not beside it, but where that split put it\n"},
        {"--store store", "--store other",
         "COVSPLIT_STORE=", "its sidecar is not in the store, but where that split put it\n"},
        {"--store store", "--sidecar side", "COVSPLIT_STORE=", "a placeholder takes the place"},
    };
    char *place = new_place("after");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run_or_abort(place, "rm", "-rf", "app", "app.covsplit", "store", "side", NULL);
        assert_link(place, rows[i].link,
                    text_format("%s " COVERAGE "-Wl,--build-id program.c -o app", clang()));
        run_or_abort(place, "sh", "-c", "rm -rf before && mkdir before && cp -a app* before", NULL);
        struct command command = covsplit_words(place, text_format("split %s app", rows[i].split));
        text_list_add(&command.environment, rows[i].environment);
        const char *errors = command_expect(&command, 0).errors;
        const char *start = text_format("covsplit: warning: app: split already, by 'covsplit "
                                        "split' or 'link'; it is passed on unchanged, and %s",
                                        rows[i].said);
        ck_assert_msg(strncmp(errors, start, strlen(start)) == 0 && text_count(errors, "\n") == 1,
                      "%s", errors);
        run_or_abort(place, "sh", "-c", "for i in before/*; do cmp $i ${i##*/} || exit 1; done",
                     NULL);
    }
}
END_TEST

/* Objects that are instrumented, linked without the option: what is wrong, in those words. */
START_TEST(test_no_runtime)
{
    char *place = new_place("runtime");
    run_or_abort(place, "env", clang(), "-fprofile-instr-generate", "-fcoverage-mapping", "-c",
                 "program.c", NULL);
    struct outcome outcome = link_words(place, "", text_format("%s program.o -o app", clang()));
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    ck_assert_uint_eq(text_count(outcome.errors,
                                 " stays: no profile runtime is in the image, so it writes no "
                                 "profiles; link it with -fprofile-instr-generate "),
                      2);
}
END_TEST

/* The same of libraries, in each format. */
static const struct {
    const char *target, *link, *split;
} without_runtime[] = {
    {"x86_64-linux-gnu", "gcc -shared unit.o -o out", ""},
    {"x86_64-linux-gnu", "ld.lld-%s -shared unit.o -o out", ""},
    {"aarch64-linux-gnu", "ld.lld-%s -shared unit.o -o out", ""},
    {"x86_64-pc-windows-msvc",
     "lld-link-%s /dll /noentry /nodefaultlib /export:twice /map:map /out:out unit.o runtime.o",
     "--map map"},
    {"x86_64-w64-mingw32", "ld.lld-%s -m i386pep --shared -e twice -o out unit.o runtime.o", ""},
    {"arm64-apple-macos13",
     "ld64.lld-%s -arch arm64 -platform_version macos 13 13 -undefined dynamic_lookup -dylib -o "
     "out unit.o",
     ""},
};

START_TEST(test_library_without_runtime)
{
    char *place = new_place(text_format("library%d", _i));
    const char *target = text_format("--target=%s", without_runtime[_i].target);
    file_write_text(path_join(place, "unit.c"),
                    "int twice(int x) { return x > 5 ? 2 * x : x; }\n"
                    "int thrice(int x) { return x > 5 && x < 9 ? 3 * x : x; }\n");
    file_write_text(path_join(place, "runtime.c"), "int __llvm_profile_runtime;\n");
    run_or_abort(place, clang(), target, strstr(target, "-windows") != NULL ? "-O0" : "-fPIC",
                 "-fprofile-instr-generate", "-fcoverage-mapping", "-c", "unit.c", NULL);
    run_or_abort(place, clang(), target, "-c", "runtime.c", NULL);
    struct command link =
        command_words(place, "%s", text_replace(without_runtime[_i].link, "%s", clang_version));
    command_run_or_abort(&link);
    struct command split =
        covsplit_words(place, text_format("split %s -o after out", without_runtime[_i].split));
    const char *errors = command_expect(&split, 0).errors;
    ck_assert_msg(text_count(errors, " stays: no profile runtime is in the image, so it writes no "
                                     "profiles; link it with -fprofile-instr-generate ") == 2,
                  "%s: %s", target, errors);
}
END_TEST

/* Of what has coverage and stays whole, `link` and `split -r` say what `split` says. */
START_TEST(test_all_stays)
{
    char *place = new_place("stays");
    run_or_abort(place, clang(), "--target=x86_64-w64-mingw32", "-fprofile-instr-generate",
                 "-fcoverage-mapping", "-c", "program.c", NULL);
    file_write_text(path_join(place, "runtime.c"), "int __llvm_profile_runtime;\n");
    run_or_abort(place, clang(), "--target=x86_64-w64-mingw32", "-c", "runtime.c", NULL);
    const char *words = "x86_64-w64-mingw32-gcc-win32 program.o runtime.o -o app.exe";
    struct outcome linked = link_words(place, "-v", words);
    ck_assert_msg(outcome_exited(&linked, 0), "%s", linked.errors);
    ck_assert_ptr_null(strstr(linked.output, "nothing to split"));
    assert_contains(linked.errors, ".lprfn stays: the image's sections do not follow each other");
    struct command split = covsplit_words(place, "split -o other app.exe");
    ck_assert_str_eq(command_expect(&split, 0).errors, strstr(linked.errors, "covsplit: warning"));
    struct command tree = covsplit_words(place, "split -r .");
    assert_contains(command_expect(&tree, 0).errors, "app.exe: .lprfn stays: the image's ");
    /* Nobody wants to hear of that in which there is nothing. */
    linked = link_words(place, "-v", text_format("%s program.c -o plain", clang()));
    ck_assert_str_eq(linked.output, "plain: nothing to split\n");
    ck_assert_uint_eq(linked.errors_size, 0);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("link", 300, prepare);
    suite_loops(test_case, sizeof spellings / sizeof *spellings, test_splits);
    tcase_add_test(test_case, test_store);
    suite_loops(test_case, sizeof others / sizeof *others, test_leaves_alone);
    suite_tests(test_case, test_unknown_machine, test_failing_split, test_unrecognized,
                test_no_counters);
    suite_loops(test_case, sizeof endings / sizeof *endings, test_endings);
    suite_loops(test_case, sizeof exclusions / sizeof *exclusions, test_excludes);
    suite_loops(test_case, 2, test_wrapper);
    suite_loops(test_case, sizeof without_runtime / sizeof *without_runtime,
                test_library_without_runtime);
    suite_tests(test_case, test_split_after_link, test_no_runtime, test_all_stays,
                test_failing_link, test_signal, test_linker_strips, test_missed_library,
                test_rustc);
    return suite_main("link", test_case);
}
