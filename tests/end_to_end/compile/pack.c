/*
 * covsplit pack: which files it changes and which it must not touch, what stays of a file that it
 * replaces, and that nothing is lost when it is killed, has no room, or meets itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define TEST_TIMEOUT_SECONDS 600
#define CUT_STEP             97

static char *scratch;
static char *inputs; /* a directory that every test gets a copy of */

static const char *shell(const char *directory, const char *script)
{
    return run_or_abort(directory, "sh", "-ec", script, NULL);
}

/* Objects, archives, and what is neither; in "packed", what the first are when they are packed. */
static void prepare(void)
{
    scratch = scratch_create("pack");
    inputs = path_join(scratch, "inputs");
    directory_create(inputs);
    many_units_write(inputs);
    shell(inputs,
          "CC='clang++-19 " INSTRUMENT_COVERAGE "'\n"
          "$CC -c unit0.cc; $CC -c unit1.cc; $CC -c unit2.cc\n"
          "$CC -flto -c unit0.cc -o bitcode.o\n"
          "clang++-19 -c unit0.cc -o plain.o\n"
          "clang++-19 --target=arm64-apple-macos13 -fprofile-instr-generate -fcoverage-mapping "
          "-c unit0.cc -o mach.o\n"
          "for machine in x86_64 i686 aarch64 arm64ec thumbv7; do\n"
          "  clang++-19 --target=$machine-pc-windows-msvc -fprofile-instr-generate "
          "-fcoverage-mapping -c unit0.cc -o $machine.o\n"
          "done; llvm-lib-19 /out:x86_64.lib x86_64.o\n"
          /* A record that is in no group of records. */
          "$CC -S -o kept.s unit0.cc\n"
          "sed -i 's/__covrec_[0-9A-F]*u\\?,comdat/strange,comdat/' kept.s\n"
          "clang++-19 -c kept.s\n"
          "printf 'int main(void) { return 0; }' >main.c\n"
          "clang-19 " INSTRUMENT_COVERAGE " -o image main.c; clang-19 -o plain-image main.c\n"
          ": >empty; echo hello >text; mkdir directory\n"
          "ar rcs lib.a unit0.o unit1.o plain.o; ar rcs plain.a plain.o\n"
          "ar rcsT thin.a unit1.o unit2.o; rm *.cc *.c *.s\n"
          "touch -d @1000000000 *; mkdir packed; cp -a *.o lib.a thin.a packed");
    covsplit_run_words(path_join(inputs, "packed"), 0, "pack unit0.o unit1.o unit2.o lib.a thin.a");
}

/* A copy of the inputs, for one test. */
static char *place_create(void)
{
    char *place = text_format("%s/place-XXXXXX", scratch);

    ck_assert_ptr_nonnull(mkdtemp(place));
    shell(place, text_format("cp -a %s/. .", inputs));
    return place;
}

static void assert_packed(const char *place, const char *name)
{
    files_assert_equal(path_join(place, name), path_join(inputs, text_format("packed/%s", name)),
                       name);
}

static void assert_ordinary(const char *place, const char *name)
{
    files_assert_equal(path_join(place, name), path_join(inputs, name), name);
}

/* ---- which files ---- */

/* Not even the time of its last change of status is another. */
START_TEST(test_untouched)
{
    static const char *const names[] = {
        "plain.o", "bitcode.o",      "mach.o",       "arm64ec.o",    "thumbv7.o",   "x86_64.o",
        "i686.o",  "aarch64.o",      "x86_64.lib",   "empty",        "plain-image", "plain.a",
        "kept.o",  "packed/unit0.o", "packed/lib.a", "packed/thin.a"};
    char *place = place_create();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct stat before = file_status(path_join(place, names[i])), after;

        usleep(20000); /* longer than a tick of the file system's clock */
        covsplit_run_words(place, 0, text_format("pack %s", names[i]));
        after = file_status(path_join(place, names[i]));
        ck_assert_msg(before.st_ino == after.st_ino &&
                          before.st_ctim.tv_sec == after.st_ctim.tv_sec &&
                          before.st_ctim.tv_nsec == after.st_ctim.tv_nsec,
                      "%s was touched", names[i]);
    }
}
END_TEST

START_TEST(test_in_place)
{
    char *place = place_create();

    shell(place, "chmod 640 unit0.o; ln unit0.o other.o; ln -s unit0.o link.o; cp lib.a before.a");
    covsplit_run_words(place, 0, "pack link.o lib.a");
    assert_packed(place, "unit0.o");
    assert_packed(place, "lib.a");
    shell(place, "test \"$(stat -c '%a %Y %h' unit0.o)\" = '640 1000000000 1'\n"
                 "test \"$(stat -c %Y lib.a)\" = 1000000000\n"
                 "test -L link.o\n"
                 "test $(ls -A | wc -l) = $(($(ls -A ../inputs | wc -l) + 3))");
    files_assert_equal(path_join(place, "other.o"), path_join(inputs, "unit0.o"), "other name");
}
END_TEST

START_TEST(test_output)
{
    char *place = place_create();
    struct outcome outcome;

    covsplit_run_words(place, 0, "pack -o out.o unit0.o");
    covsplit_run_words(place, 0, "pack -o out.a lib.a");
    covsplit_run_words(place, 0, "pack -o copy.o plain.o");
    assert_ordinary(place, "unit0.o");
    assert_ordinary(place, "lib.a");
    shell(place, "cmp out.o packed/unit0.o; cmp out.a packed/lib.a; cmp copy.o plain.o");
    outcome = covsplit_run_words(place, 2, "pack -o out unit0.o unit1.o");
    ck_assert_str_eq(outcome.errors, "covsplit: error: '--output' is for one file; run 'covsplit "
                                     "pack --help'\n");
}
END_TEST

/* Each is an error, and the others are packed. */
START_TEST(test_refused)
{
    static const struct {
        const char *name, *error;
    } cases[] = {
        {"image", "image: a linked image, not an object or archive; use 'covsplit split'"},
        {"text", "text: neither an object nor an archive; leave it out"},
        {"missing", "missing: cannot be read: No such file or directory"},
        {"directory", "directory: not a regular file; name a file"},
    };
    char *place = place_create();

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome;

        shell(place, text_format("cp -a %s/unit0.o %s/lib.a .", inputs, inputs));
        outcome = covsplit_run_words(place, 1, text_format("pack unit0.o %s lib.a", cases[i].name));
        ck_assert_str_eq(outcome.errors, text_format("covsplit: error: %s\n", cases[i].error));
        assert_packed(place, "unit0.o");
        assert_packed(place, "lib.a");
    }
    assert_ordinary(place, "image");
    assert_ordinary(place, "text");
}
END_TEST

START_TEST(test_kept)
{
    char *place = place_create();
    struct outcome outcome;

    shell(place, "ar rcs both.a unit0.o kept.o");
    outcome = covsplit_run_words(place, 0, "pack kept.o both.a");
    ck_assert_uint_eq(text_count(outcome.errors, "covsplit: warning: "), 2);
    assert_contains(outcome.errors, "covsplit: warning: kept.o: ");
    assert_contains(outcome.errors, "covsplit: warning: both.a(kept.o): ");
    assert_ordinary(place, "kept.o");
    shell(place, "ar p both.a kept.o | cmp - kept.o; ar p both.a unit0.o | cmp - packed/unit0.o\n"
                 "nm -s both.a | grep ' in kept.o$'\n"
                 "! nm -s both.a | grep '__covrec_.* in unit0.o$'");
}
END_TEST

/* rustc's ThinLTO leaves names of other objects' records, undefined, to which nothing refers. If
 * they stayed, GNU ld would not find what defines them. */
START_TEST(test_names_of_others)
{
    char *place = place_create();

    file_write_text(path_join(place, "main.c"),
                    "__asm__(\".globl __covrec_123u\\n.hidden __covrec_123u\\n.globl other\");\n"
                    "int main(void) { return 0; }\n");
    shell(place, "clang-19 " INSTRUMENT_COVERAGE " -c main.c\n"
                 "nm main.o | grep -q 'U __covrec_123u'");
    covsplit_run_words(place, 0, "pack main.o");
    shell(place, "nm main.o | grep -q 'U other'; ! nm main.o | grep -q covrec\n"
                 "clang-19 -fuse-ld=bfd " INSTRUMENT_COVERAGE " main.o -o main");
}
END_TEST

START_TEST(test_reports)
{
    char *place = place_create();
    struct outcome outcome;

    outcome = covsplit_run_words(place, 0, "pack --json lib.a thin.a kept.o plain.o");
    file_write_text(path_join(place, "json"), outcome.output);
    run_or_abort(place, "python3", "-c",
                 "import json, os\n"
                 "lib, thin, kept, plain = json.load(open('json'))\n"
                 "def size(*names): return sum(os.path.getsize(n) for n in names)\n"
                 "old, files = '../inputs/', ('thin.a', 'unit1.o', 'unit2.o')\n"
                 "assert lib == {'file': 'lib.a', 'size_before': size(old + 'lib.a'),\n"
                 "               'size_after': size('lib.a'), 'objects_packed': 2,\n"
                 "               'objects_kept': 0}, lib\n"
                 "assert thin['size_before'] == size(*(old + n for n in files)), thin\n"
                 "assert thin['size_after'] == size(*files), thin\n"
                 "assert thin['objects_packed'] == 2\n"
                 "assert kept['objects_kept'] == 1 and kept['objects_packed'] == 0\n"
                 "assert plain['size_before'] == plain['size_after'] == size('plain.o')\n",
                 NULL);
    outcome = covsplit_run_words(place, 0, "pack -v unit0.o plain.o kept.o");
    ck_assert_uint_eq(text_count(outcome.output, "unit0.o: 1 object packed: "), 1);
    assert_contains(outcome.output, "plain.o: nothing to pack\nkept.o: not packed\n");
    outcome = covsplit_run_words(place, 0, "pack packed/lib.a");
    ck_assert_str_eq(outcome.output, "");
}
END_TEST

/* ---- what goes wrong ---- */

START_TEST(test_cut_archive)
{
    char *place = place_create();
    struct contents archive = file_read(path_join(inputs, "lib.a"));
    char *path = path_join(place, "cut.a");
    unsigned refused = 0;

    for (size_t size = 8; size < archive.size; size += CUT_STEP * rounds_step()) {
        struct contents cut = {archive.data, size}, after;
        struct outcome outcome;

        file_write(path, cut.data, cut.size);
        outcome = covsplit_run(place, "pack", "cut.a", NULL);
        refused += outcome_exited(&outcome, 1);
        ck_assert_msg(outcome_exited(&outcome, 1) || size == 8, "%zu bytes: %s", size,
                      outcome.errors);
        after = file_read(path);
        ck_assert_msg(contents_equal(&cut, &after), "%zu bytes: changed", size);
        contents_free(&after);
        outcome_free(&outcome);
    }
    ck_assert_uint_gt(refused, 1);
}
END_TEST

/* Where a file may be half as large as the archive, nothing changes. */
START_TEST(test_no_room)
{
    static const char *const names[] = {"lib.a", "unit0.o"};
    char *place = place_create();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct command command = command_words(
            place, "prlimit --fsize=%u %s pack %s",
            (unsigned)file_size(path_join(inputs, text_format("packed/%s", names[i]))) - 100,
            covsplit_path(), names[i]);
        struct outcome outcome = command_expect(&command, 1);

        ck_assert_str_eq(
            outcome.errors,
            text_format("covsplit: error: %s: cannot be written: File too large\n", names[i]));
        assert_ordinary(place, names[i]);
    }
    shell(place, "test \"$(ls -A | wc -l)\" = \"$(ls -A ../inputs | wc -l)\"");
}
END_TEST

/* Several names and archives of the same objects, at the same time. */
START_TEST(test_meets_itself)
{
    for (unsigned i = 0; i < rounds(20); i++) {
        char *place = place_create();

        covsplit_run_words(place, 0,
                           "pack -j8 unit1.o thin.a ./unit1.o thin.a lib.a unit2.o lib.a");
        assert_packed(place, "unit1.o");
        assert_packed(place, "unit2.o");
        assert_packed(place, "lib.a");
        assert_packed(place, "thin.a");
        scratch_remove(place);
    }
}
END_TEST

/* Each file is what it was or what it is to be. Returns true if all is done. */
static bool assert_nothing_lost(const char *place, const char *moment)
{
    static const char *const names[] = {"unit0.o", "unit1.o", "unit2.o", "lib.a", "thin.a"};
    bool all = true;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct verdict ordinary = {0}, packed = {0};
        const char *path = path_join(place, names[i]);
        bool is_packed =
            files_equal(path, path_join(inputs, text_format("packed/%s", names[i])), &packed);

        ck_assert_msg(is_packed || files_equal(path, path_join(inputs, names[i]), &ordinary),
                      "%s: %s is neither", moment, names[i]);
        all = all && is_packed;
    }
    return all;
}

START_TEST(test_every_system_call)
{
    unsigned calls = 0;
    struct traced pack = {.was_stopped = true};

    while (pack.was_stopped) {
        char *place = place_create();
        struct command command = covsplit_words(place, "pack -j1 unit0.o lib.a thin.a");
        const char *moment = text_format("at stop %u", calls += rounds_step());
        bool done;

        pack = command_trace_and_kill(&command, calls);
        done = assert_nothing_lost(place, moment);
        ck_assert(done || pack.was_stopped);
        if (!done) {
            covsplit_run_words(place, 0, "pack unit0.o lib.a thin.a");
            ck_assert_msg(assert_nothing_lost(place, moment), "%s: cannot be finished", moment);
        }
        command_free(&command);
        directory_remove(place);
    }
    ck_assert_uint_gt(calls, 100);
}
END_TEST

int main(void)
{
    TCase *files = suite_case("files", TEST_TIMEOUT_SECONDS, prepare);
    TCase *faults = suite_case("faults", TEST_TIMEOUT_SECONDS, prepare);

    scratch_use_memory();
    suite_tests(files, test_untouched, test_in_place, test_output, test_refused, test_kept,
                test_names_of_others, test_reports);
    suite_tests(faults, test_cut_archive, test_no_room, test_meets_itself, test_every_system_call);
    return suite_main("pack", files, faults);
}
