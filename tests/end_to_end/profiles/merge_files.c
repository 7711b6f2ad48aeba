/*
 * covsplit merge from outside: what it takes as input, which llvm-profdata it runs, numbers that do
 * not fit, and outputs that appear whole or not at all.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 20
#define PROFILES  4

#define HAND_MADE COVSPLIT_FIXTURE_DIRECTORY "/../support/hand_made_profiles.py"

/* Where the header of version 10 has the size of the names of vtables. */
#define VNAMES_SIZE 112

static char *scratch;

static void prepare(void)
{
    scratch = scratch_create("merge");
    struct program program = {.clang = "19",
                              .linker = "bfd",
                              .kind = LINK_PIE,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .functions = FUNCTIONS};
    program_build(&program, scratch);
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o", "split", PROGRAM_NAME,
                 NULL);
    directory_create(path_join(scratch, "profiles"));
    directory_create(path_join(scratch, "profiles/below"));
    for (unsigned i = 1; i <= PROFILES; i++) {
        struct command command = command_words(scratch, "%s/split %u", scratch, i);
        text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=profiles/%s%u.profraw",
                             i % 2 == 0 ? "below/" : "", i);
        command_expect(&command, 3);
        command_free(&command);
    }
}

/* Runs `covsplit merge --store store WORDS` with more environment, and gives back what it says. */
static const char *merge(const char *environment, const char *words, int exit_code)
{
    struct command command = covsplit_command(scratch, "merge", "--store", "store", NULL);
    text_list_add_words(&command.arguments, words);
    if (environment != NULL) {
        text_list_add(&command.environment, environment);
    }
    struct outcome outcome = command_expect(&command, exit_code);
    return text_format("%s", outcome.errors);
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(scratch, name), path_join(scratch, other), name);
}

static void assert_says(const char *errors, const char *part)
{
    ck_assert_msg(strstr(errors, part) != NULL, "'%s' does not say '%s'", errors, part);
}

START_TEST(test_inputs)
{
    merge(NULL,
          "-o files.profraw profiles/1.profraw profiles/3.profraw profiles/below/2.profraw "
          "profiles/below/4.profraw",
          0);
    merge(NULL, "-o directory.profraw profiles", 0);
    assert_same("files.profraw", "directory.profraw");
    file_write_text(path_join(scratch, "list"), "# what a test left\n\nprofiles/1.profraw\r\n"
                                                "profiles/3.profraw\nprofiles/below\n");
    merge(NULL, "-o list.profraw @list", 0);
    assert_same("files.profraw", "list.profraw");
    /* Twice is twice; and an output among the inputs is not one of them. */
    merge(NULL, "-o profiles/out.profraw profiles profiles", 0);
    merge(NULL, "-o profiles/out.profraw profiles profiles", 0);
    merge(NULL, "-o twice.profraw directory.profraw @list", 0);
    assert_same("twice.profraw", "profiles/out.profraw");
    unlink(path_join(scratch, "profiles/out.profraw"));
    assert_says(merge(NULL, "-o no.profraw @missing", 1), "error: missing: ");
    assert_says(merge(NULL, "-o no.profraw profiles missing.profraw", 1),
                "error: missing.profraw: ");
    directory_create(path_join(scratch, "nothing"));
    assert_says(merge(NULL, "-o no.profraw nothing", 1), "nothing: no profile to merge");
    assert_says(merge(NULL, "-o again.profdata profiles directory.profraw", 0), "");
    assert_says(merge(NULL, "-o no.profdata again.profdata", 1), "an indexed profile");
    ck_assert(!file_exists(path_join(scratch, "no.profraw")));
}
END_TEST

/* A path each line, and no other way to part them: a list made for `xargs -0` would otherwise end
 * at its first path. */
START_TEST(test_list_with_zeros)
{
    static const char list[] = "profiles/1.profraw\0profiles/3.profraw\0";
    file_write(path_join(scratch, "zeros"), list, sizeof list - 1);
    assert_says(merge(NULL, "-o no.profraw @zeros", 1), "error: zeros: ");
    ck_assert(!file_exists(path_join(scratch, "no.profraw")));
}
END_TEST

/* Where only the data records were taken out, and the profile has no binary ID, or not the
 * sidecar's UUID, it must still be known for a lightweight one: by the record that is of no
 * function. */
START_TEST(test_names_without_data)
{
    static const char *const options[] = {NULL, "--uuid=0123456789abcdef0123"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char *directory = text_format("%s/names-%zu", scratch, i);
        struct program program = {.clang = "19",
                                  .linker = "lld",
                                  .kind = LINK_PIE,
                                  .language = LANGUAGE_C,
                                  .optimization = "-O0",
                                  .build_id = "none",
                                  .functions = FUNCTIONS};
        directory_create(directory);
        program_build(&program, directory);
        struct command split =
            covsplit_command(directory, "split", "--sections", "data", "-o", "split", "--sidecar",
                             PROGRAM_NAME ".covsplit", PROGRAM_NAME, NULL);
        if (options[i] != NULL) {
            text_list_add(&split.arguments, options[i]);
        }
        command_run_or_abort(&split);
        run_or_abort(directory, "sh", "-c",
                     "LLVM_PROFILE_FILE=original.profraw ./" PROGRAM_NAME ">out; "
                     "LLVM_PROFILE_FILE=light.profraw ./split >out; "
                     "llvm-profdata-19 merge -o original.profdata original.profraw",
                     NULL);
        run_or_abort(directory, covsplit_path(), "merge", "--sidecar", PROGRAM_NAME ".covsplit",
                     "-o", "merged.profdata", "--llvm-profdata", "llvm-profdata-19",
                     "light.profraw", NULL);
        assert_same(text_format("names-%zu/original.profdata", i),
                    text_format("names-%zu/merged.profdata", i));
    }
}
END_TEST

/* Runs covsplit with words of a text; gives back what it says. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

/* Sidecars that hold nothing say so, and why. */
START_TEST(test_empty_sidecars)
{
    static const char *const commands[] = {"merge", "correlate"};
    run(scratch, 0, "split -o again --sidecar placeholder split");
    file_write_text(path_join(scratch, "plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(scratch, "clang-19", "plain.c", "-o", "plain", NULL);
    run(scratch, 0, "split -o plain.out --sidecar empty plain");
    for (size_t i = 0; i < 2; i++) {
        const char *words = text_format("%s -o no.profraw profiles/1.profraw", commands[i]);
        assert_says(run(scratch, 1, text_format("%s --sidecar placeholder", words)),
                    "error: placeholder: a placeholder");
        assert_says(run(scratch, 1, text_format("%s --sidecar empty", words)),
                    "error: empty: holds nothing");
        ck_assert(!file_exists(path_join(scratch, "no.profraw")));
    }
    assert_says(run(scratch, 1, "verify placeholder"), "error: placeholder: is a placeholder");
    assert_says(run(scratch, 0, "verify empty"), "warning: empty: holds nothing");
    ck_assert_str_eq(run(scratch, 0, "verify --image plain.out empty"),
                     run(scratch, 0, "verify empty"));
}
END_TEST

/* Images whose data and names are in their debug information: nothing of them is in any sidecar,
 * and the way to merge their profiles is another one. */
START_TEST(test_debug_info)
{
    static const char *const options[] = {
        "-fprofile-generate -mllvm -debug-info-correlate",
        "-fprofile-instr-generate -mllvm -profile-correlate=debug-info",
        "-fprofile-instr-generate -fcoverage-mapping -mllvm -profile-correlate=debug-info",
    };
    static const char way[] = "llvm-profdata merge --debug-info=";
    file_write_text(path_join(scratch, "debug.c"), "int main(void) { return 0; }\n");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        run_or_abort(
            scratch, "sh", "-c",
            text_format("clang-%s -g %s debug.c -o debug", i == 0 ? "14" : "19", options[i]), NULL);
        const char *errors = run(scratch, 0, "split -o debug.out --sidecar debug.side debug");
        assert_says(errors, way);
        ck_assert((strstr(errors, "nothing to take out") != NULL) == (i != 2));
        run_or_abort(scratch, "sh", "-c", "LLVM_PROFILE_FILE=debug.profraw ./debug.out", NULL);
        assert_says(run(scratch, 1, "merge --sidecar debug.side -o no.profraw debug.profraw"), way);
        assert_says(run(scratch, 1, "correlate --sidecar debug.side -o no.profraw debug.profraw"),
                    way);
        ck_assert(!file_exists(path_join(scratch, "no.profraw")));
        /* As it says. */
        run_or_abort(scratch, i == 0 ? "llvm-profdata-14" : "llvm-profdata-19", "merge",
                     "--debug-info=debug.out", "-o", "debug.profdata", "debug.profraw", NULL);
    }
}
END_TEST

/* With binary correlation, __llvm_covdata tells of value sites whose values no profile has. */
START_TEST(test_sites_without_values)
{
    static const char source[] = "#include <stdio.h>\n"
                                 "int call(int (*function)(const char *), const char *text)\n"
                                 "{ return function(text); }\n"
                                 "int main(int count, char **words)\n"
                                 "{ return count > 1 ? call(puts, words[0]) : 0; }\n";
    const char *directory = path_join(scratch, "sites");
    directory_create(directory);
    file_write_text(path_join(directory, "sites.c"), source);
    run_or_abort(directory, "clang-19", "-fprofile-generate", "-mllvm", "-profile-correlate=binary",
                 "-Wl,--build-id", "sites.c", "-o", "sites", NULL);
    run(directory, 0, "split -o sites.out --sidecar side sites");
    run_or_abort(directory, "sh", "-c", "LLVM_PROFILE_FILE=1.profraw ./sites.out", NULL);
    run_or_abort(directory, "llvm-profdata-19", "merge", "--binary-file=sites", "-o",
                 "expected.profdata", "1.profraw", NULL);
    run(directory, 0, "merge --sidecar side -o found.profdata 1.profraw");
    files_assert_equal(path_join(directory, "expected.profdata"),
                       path_join(directory, "found.profdata"), "sites.c");
}
END_TEST

/* Of an image with ordinary objects and such for binary correlation, LLVM merges the functions of
 * the ordinary ones, and so does covsplit. */
START_TEST(test_partly_for_correlation)
{
    static const char options[] = "-fprofile-instr-generate -fcoverage-mapping";
    const char *directory = path_join(scratch, "partly");
    directory_create(directory);
    file_write_text(path_join(directory, "one.c"), "int two(int);\n"
                                                   "int one(int value) { return value ? 1 : 2; }\n"
                                                   "int main(void) { return one(two(3)) == 9; }\n");
    file_write_text(path_join(directory, "two.c"), "int two(int value) { return value + 1; }\n");
    run_or_abort(directory, "sh", "-c",
                 text_format("clang-19 %s -mllvm -profile-correlate=binary -c one.c\n"
                             "clang-19 %s -Wl,--build-id one.o two.c -o partly",
                             options, options),
                 NULL);
    const char *warnings = run(directory, 0, "split -o split --sidecar side partly");
    assert_says(warnings, "__llvm_covdata stays: only a part");
    assert_says(warnings, "__llvm_covnames stays: only a part");
    run_or_abort(directory, "sh", "-c",
                 "LLVM_PROFILE_FILE=full.profraw ./partly\n"
                 "LLVM_PROFILE_FILE=light.profraw ./split",
                 NULL);
    assert_says(covsplit_run_words(directory, 0, "show light.profraw").output,
                "lightweight          yes");
    run_or_abort(directory, "llvm-profdata-19", "merge", "-o", "expected.profdata", "full.profraw",
                 NULL);
    run(directory, 0, "merge --sidecar side -o found.profdata light.profraw");
    files_assert_equal(path_join(directory, "expected.profdata"),
                       path_join(directory, "found.profdata"), "partly");
}
END_TEST

/* What a program and its library write to one file is the order of one run, and each file has
 * its own. */
START_TEST(test_temporal)
{
    static const char make[] =
        "options='-fprofile-generate -mllvm -disable-vp -mllvm -pgo-temporal-instrumentation'\n"
        "clang-19 $options -fPIC -shared library.c -Wl,--build-id -o liba.so\n"
        "clang-19 $options program.c -L. -la -Wl,--build-id -Wl,-rpath,'$ORIGIN' -o program\n";
    const char *directory = path_join(scratch, "temporal");
    directory_create(directory);
    file_write_text(path_join(directory, "library.c"),
                    "int second(int value) { return value + 1; }\n"
                    "int first(int value) { return second(value) * 2; }\n");
    file_write_text(path_join(directory, "program.c"),
                    "int first(int);\n"
                    "int work(int value) { return value + first(value); }\n"
                    "int main(int count, char **words)\n"
                    "{ (void)words; return count > 1 ? first(1) == 0 : work(1) == 0; }\n");
    run_or_abort(directory, "sh", "-ec", make, NULL);
    run_or_abort(directory, "sh", "-ec",
                 "LLVM_PROFILE_FILE=full-1.profraw ./program\n"
                 "LLVM_PROFILE_FILE=full-2.profraw ./program other",
                 NULL);
    run(directory, 0, "split --store side liba.so program");
    run_or_abort(directory, "sh", "-ec",
                 "LLVM_PROFILE_FILE=light-1.profraw ./program\n"
                 "LLVM_PROFILE_FILE=light-2.profraw ./program other",
                 NULL);
    run_or_abort(directory, "llvm-profdata-19", "merge", "-o", "expected.profdata",
                 "full-1.profraw", "full-2.profraw", NULL);
    for (size_t i = 0; i < 2; i++) {
        const char *kind = i == 0 ? "full" : "light";
        run(directory, 0,
            text_format("merge --store side -o found.profdata %s-1.profraw %s-2.profraw", kind,
                        kind));
        files_assert_equal(path_join(directory, "expected.profdata"),
                           path_join(directory, "found.profdata"), kind);
    }
}
END_TEST

START_TEST(test_usage)
{
    assert_says(merge(NULL, "-o out profiles", 2), "ends neither in .profraw nor in .profdata");
    assert_says(merge(NULL, "-o .profraw profiles", 2), "ends neither");
    assert_says(merge(NULL, "--sparse -o out.profraw profiles", 2), "--sparse");
    assert_says(merge(NULL, "--failure-mode=warn -o out.profraw profiles", 2), "any, all");
    assert_says(merge(NULL, "--sidecar x -o out.profraw profiles", 2), "exclude each other");
    assert_says(merge(NULL, "-o out.profraw", 2), "PROFILE is missing");
}
END_TEST

/* The output has any name then; --format counts where the name ends in another one. */
START_TEST(test_format)
{
    merge(NULL, "-o by-name.profraw profiles", 0);
    merge(NULL, "-o by-name.profdata --llvm-profdata llvm-profdata-19 profiles", 0);
    merge(NULL, "--format profraw -o raw profiles", 0);
    assert_same("by-name.profraw", "raw");
    merge(NULL, "--format=profraw -o raw.profdata profiles", 0);
    assert_same("by-name.profraw", "raw.profdata");
    merge(NULL, "--format profdata -o indexed.tmp --llvm-profdata llvm-profdata-19 profiles", 0);
    assert_same("by-name.profdata", "indexed.tmp");
    merge(NULL, "--format profdata -o x.profraw --llvm-profdata llvm-profdata-19 profiles", 0);
    assert_same("by-name.profdata", "x.profraw");
    assert_says(merge(NULL, "--format text -o out profiles", 2), "not one of profraw, profdata");
    assert_says(merge(NULL, "--format profraw --sparse -o out.profdata profiles", 2), "--sparse");
    merge(NULL, "--format profdata --sparse -o sparse --llvm-profdata llvm-profdata-19 profiles",
          0);
}
END_TEST

/* What was added, an image a line, and of what it was made. */
START_TEST(test_verbose)
{
    uint64_t bytes = 0;
    directory_create(path_join(scratch, "mixed"));
    for (unsigned i = 1; i <= 2; i++) {
        const char *name = text_format("mixed/%u.profraw", i);
        file_copy(path_join(scratch, "profiles/1.profraw"), path_join(scratch, name));
        bytes += file_size(path_join(scratch, name));
    }
    file_write_text(path_join(scratch, "mixed/3.profraw"), "");
    file_write_text(path_join(scratch, "mixed/4.profraw"), "text\n");
    bytes += strlen("text\n");
    struct outcome outcome = covsplit_run_words(
        scratch, 0, "merge -v --store store --failure-mode all -o mixed.profraw mixed");
    struct text_list lines = text_list_of_lines(outcome.output);
    ck_assert_uint_eq(lines.count, 2);
    ck_assert_msg(strstr(lines.items[0], PROGRAM_NAME ": 2 lightweight profiles, by store/") ==
                      lines.items[0],
                  "%s", outcome.output);
    ck_assert_str_eq(lines.items[1],
                     text_format("mixed.profraw: 2 profiles of 1 image; read 4 files of %s, "
                                 "1 empty, 1 left out",
                                 text_of_count(bytes, "byte")));
    text_list_free(&lines);
    /* The lightweight ones are added to a full one of the image. */
    outcome = covsplit_run_words(
        scratch, 0, "merge --verbose --store store -o more.profraw mixed.profraw mixed/1.profraw");
    lines = text_list_of_lines(outcome.output);
    ck_assert_uint_eq(lines.count, 2);
    ck_assert_str_eq(lines.items[0], "mixed.profraw and others: 2 full profiles");
    assert_contains(lines.items[1], "more.profraw: 2 profiles of 1 image; read 2 files of ");
    outcome = covsplit_run_words(scratch, 0, "merge -v -o one.profraw mixed.profraw");
    assert_contains(outcome.output, "mixed.profraw: 1 full profile\none.profraw: 1 profile of 1 ");
}
END_TEST

/* A program in PATH under a name of our choice: it notes that it ran, and runs the real one. */
static void add_program(const char *directory, const char *name, const char *version)
{
    char *path = text_format("%s/%s/%s", scratch, directory, name);
    file_write_text(path, text_format("#!/bin/sh\n"
                                      "if [ \"$1\" = --version ]; then\n"
                                      "  echo 'LLVM version %s'; exit\n"
                                      "fi\n"
                                      "echo '%s' >> '%s/ran'\n"
                                      "exec /usr/bin/llvm-profdata-19 \"$@\"\n",
                                      version, name, scratch));
    ck_assert_int_eq(chmod(path, 0755), 0);
}

static void assert_ran(const char *name)
{
    char *path = path_join(scratch, "ran");
    struct contents contents = file_read(path);
    char *expected = text_format("%s\n", name);
    ck_assert_uint_eq(contents.size, strlen(expected));
    ck_assert_mem_eq(contents.data, expected, contents.size);
    unlink(path);
}

START_TEST(test_which_llvm_profdata)
{
    const char *path = text_format("PATH=%s/bin:/nowhere", scratch);
    directory_create(path_join(scratch, "bin"));
    add_program("bin", "llvm-profdata-22", "22.1.0");
    add_program("bin", "llvm-profdata-17", "17.0.6");
    merge(path, "-o out.profdata profiles", 0);
    assert_ran("llvm-profdata-22");
    add_program("bin", "llvm-profdata-20", "20.1.0");
    merge(path, "-o out.profdata profiles", 0);
    assert_ran("llvm-profdata-20");
    add_program("bin", "llvm-profdata", "16.0.6"); /* reads older profiles */
    merge(path, "-o out.profdata profiles", 0);
    assert_ran("llvm-profdata-20");
    add_program("bin", "llvm-profdata", "21.1.0");
    merge(path, "-o out.profdata profiles", 0);
    assert_ran("llvm-profdata");
    merge(path, "--llvm-profdata=llvm-profdata-17 -o out.profdata profiles", 0);
    assert_ran("llvm-profdata-17");
    add_program(".", "mine", "1");
    merge(text_format("LLVM_PROFDATA=%s/mine", scratch), "-o out.profdata profiles", 0);
    assert_ran("mine");
    merge(text_format("LLVM_PROFDATA=%s/mine", scratch),
          text_format("--llvm-profdata=%s/bin/llvm-profdata-22 -o out.profdata profiles", scratch),
          0);
    assert_ran("llvm-profdata-22");
}
END_TEST

START_TEST(test_llvm_profdata_fails)
{
    const char *out = path_join(scratch, "failed.profdata");
    assert_says(merge(NULL, "--llvm-profdata=/nowhere/at-all -o failed.profdata profiles", 1),
                "'/nowhere/at-all' cannot be run");
    ck_assert(!file_exists(out));
    /* What it says is shown: here, that the raw version is not the one it knows. */
    assert_says(merge(NULL, "--llvm-profdata=llvm-profdata-14 -o failed.profdata profiles", 1),
                "unsupported instrumentation profile format version");
    /* And of which profile it says so. */
    assert_says(merge(NULL, "--llvm-profdata=llvm-profdata-14 -o failed.profdata profiles", 1),
                "warning: profiles/1.profraw: ");
    ck_assert(!file_exists(out));
    /* An output that is there stays as it is. */
    merge("LLVM_PROFDATA=llvm-profdata-19", "-o failed.profdata profiles", 0);
    struct contents before = file_read(out);
    merge(NULL, "--llvm-profdata=false -o failed.profdata profiles", 1);
    merge(NULL, "-o failed.profdata profiles missing.profraw", 1);
    struct contents after = file_read(out);
    ck_assert(contents_equal(&before, &after));
}
END_TEST

/* The same output is not touched, so that a build tool sees that nothing changed. */
START_TEST(test_unchanged)
{
    static const char *const names[] = {"same.profraw", "same.profdata"};
    for (size_t i = 0; i < 2; i++) {
        const char *words = text_format("-o %s profiles", names[i]);
        merge("LLVM_PROFDATA=llvm-profdata-19", words, 0);
        struct stat before = file_status(path_join(scratch, names[i]));
        merge("LLVM_PROFDATA=llvm-profdata-19", words, 0);
        struct stat after = file_status(path_join(scratch, names[i]));
        ck_assert_uint_eq(before.st_ino, after.st_ino);
        ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    }
}
END_TEST

/* No room for the output: an error, and no file. */
START_TEST(test_full)
{
    struct rlimit limit = {1000, 1000};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct command command = covsplit_command(scratch, "merge", "--store", "store", "-o",
                                              "full.profraw", "profiles", NULL);
    struct outcome outcome = command_run(&command);
    struct verdict verdict = {0};
    covsplit_refused(&command, &outcome, &verdict);
    verdict_assert(&verdict, "no room");
    ck_assert(!file_exists(path_join(scratch, "full.profraw")));
}
END_TEST

/* ---- numbers that do not fit ---- */

/* A copy of the profile with its first counters set. */
static void make_profile(const char *from, const char *name, const uint64_t *values, size_t count)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    ck_assert(raw_profile_read(from, &profile, &verdict));
    memcpy(profile.file.data + (profile.counters.data - profile.file.data), values,
           count * sizeof *values);
    file_write(path_join(scratch, name), profile.file.data, profile.file.size);
}

static void run_words(const char *words)
{
    struct command command = command_words(scratch, "%s", words);
    command_run_or_abort(&command);
}

/* Profiles none of which has a counter above 2^56, which llvm-profdata takes for damaged, but whose
 * sum has. The result is that of llvm-profdata: as one .profdata, from a state, for each image, and
 * from a .profraw file, which has several profiles then. A sum that does not fit is limited, with
 * the warning of llvm-profdata, which names a profile. */
START_TEST(test_large_sums)
{
    static const char *const versions[] = {"19", "22"};
    static const uint64_t values[2][7] = {
        {UINT64_C(1) << 56, UINT64_C(1) << 54, (UINT64_C(1) << 54) - 1, 1, 0, 3, 0x23456789abcdef},
        {UINT64_C(1) << 56, UINT64_C(1) << 54, 0, (UINT64_C(1) << 56) - 1, 0, UINT64_C(1) << 56, 5},
    };
    const char *few = "light-0.profraw light-1.profraw light-0.profraw light-0.profraw "
                      "light-0.profraw";
    const char *light = path_join(scratch, "profiles/1.profraw");
    run_or_abort(scratch, covsplit_path(), "correlate", "--store", "store", "-o", "whole.profraw",
                 "profiles/1.profraw", NULL);
    const char *whole = path_join(scratch, "whole.profraw");
    for (size_t i = 0; i < 2; i++) {
        make_profile(light, text_format("light-%zu.profraw", i), values[i], 7);
        make_profile(whole, text_format("whole-%zu.profraw", i), values[i], 7);
    }
    const char *many = few;
    for (size_t i = 0; i < 60; i++) {
        many = text_format("%s %s", many, few);
    }
    for (size_t i = 0; i < 4; i++) {
        const char *profdata = text_format("llvm-profdata-%s", versions[i % 2]);
        const char *environment = text_format("LLVM_PROFDATA=%s", profdata);
        bool fits = i < 2;
        const char *lights = fits ? few : many;
        run_words(text_format("%s merge -num-threads=1 -o expected.profdata %s", profdata,
                              text_replace(lights, "light", "whole")));
        const char *said = merge(
            environment, text_format("-o found.profdata --per-image images-%zu %s", i, lights), 0);
        assert_same("expected.profdata", "found.profdata");
        struct text_list images = directory_list(path_join(scratch, text_format("images-%zu", i)));
        ck_assert_uint_eq(images.count, 1);
        assert_same("expected.profdata", text_format("images-%zu/%s", i, images.items[0]));
        ck_assert_msg((strstr(said, "counter overflow") == NULL) == fits, "%s", said);
        ck_assert_msg(fits || strstr(said, ": light-0.profraw: ") != NULL, "%s", said);
        merge(environment, text_format("--into state-%zu %s", i, lights), 0);
        merge(environment, text_format("-o found.profdata state-%zu", i), 0);
        assert_same("expected.profdata", "found.profdata");
        merge(environment, text_format("-o found.profraw %s", lights), 0);
        run_words(text_format("%s merge -o found.profdata found.profraw", profdata));
        assert_same("expected.profdata", "found.profdata");
    }
}
END_TEST

/* Weights are those of llvm-profdata, with its spelling: for profiles, directories and states, and
 * sums that do not fit. */
START_TEST(test_weights)
{
    static const struct {
        const char *light, *whole;
    } rows[] = {
        {"-weighted-input=3,light-0.profraw", "-weighted-input=3,whole-0.profraw"},
        {"--weighted-input=7,light-1.profraw -weighted-input=2,light-0.profraw light-0.profraw",
         "-weighted-input=7,whole-1.profraw -weighted-input=3,whole-0.profraw"},
        {"-sparse -failure-mode=all -weighted-input 5,light-1.profraw whole-1.profraw",
         "-sparse -weighted-input=6,whole-1.profraw"},
        {"-weighted-input=4,state light-1.profraw",
         "-weighted-input=4,whole-0.profraw -weighted-input=5,whole-1.profraw"},
        {"-weighted-input=10,weighed",
         "-weighted-input=10,whole-0.profraw -weighted-input=10,whole-1.profraw"},
        {"-weighted-input=400000000000000000,light-0.profraw light-1.profraw",
         "-weighted-input=400000000000000000,whole-0.profraw whole-1.profraw"},
    };
    static const uint64_t values[2][4] = {{1, 100, 0, 7}, {0, 3, 5, 1}};
    const char *light = path_join(scratch, "profiles/1.profraw");
    run_or_abort(scratch, covsplit_path(), "correlate", "--store", "store", "-o", "whole.profraw",
                 "profiles/1.profraw", NULL);
    directory_create(path_join(scratch, "weighed"));
    for (size_t i = 0; i < 2; i++) {
        make_profile(light, text_format("light-%zu.profraw", i), values[i], 4);
        make_profile(light, text_format("weighed/%zu.profraw", i), values[i], 4);
        make_profile(path_join(scratch, "whole.profraw"), text_format("whole-%zu.profraw", i),
                     values[i], 4);
    }
    merge(NULL, "--into state light-0.profraw light-1.profraw", 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run_words(text_format("llvm-profdata-19 merge -num-threads=1 -o expected.profdata %s",
                              rows[i].whole));
        const char *said = merge("LLVM_PROFDATA=llvm-profdata-19",
                                 text_format("-o found.profdata %s", rows[i].light), 0);
        assert_same("expected.profdata", "found.profdata");
        ck_assert_msg((strstr(said, "counter overflow") != NULL) == (i == 5), "%s", said);
    }
    static const char *const wrong[] = {"0,x", "x", "-1,x", "1,", "18446744073709551616,x", "+2,x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_says(merge(NULL, text_format("-o no.profdata -weighted-input=%s", wrong[i]), 2),
                    "is not N,FILE");
    }
    assert_says(merge(NULL, "-o no.profraw -weighted-input=2,whole.profraw", 2),
                "--weighted-input");
    assert_says(merge(NULL, "--into no -weighted-input=2,whole.profraw", 2), "--weighted-input");
}
END_TEST

/* A counter above 2^56 in one profile is damage for llvm-profdata, and so for covsplit, which names
 * the profile, and can leave it out. */
START_TEST(test_damaged_counters)
{
    static const uint64_t values[2] = {1, (UINT64_C(1) << 56) + 1};
    static const char *const outputs[] = {"-o no.profdata", "-o no.profraw", "--into no"};
    const char *environment = "LLVM_PROFDATA=llvm-profdata-19";
    make_profile(path_join(scratch, "profiles/1.profraw"), "damaged.profraw", values, 2);
    for (size_t i = 0; i < 3; i++) {
        assert_says(
            merge(environment, text_format("%s profiles/1.profraw damaged.profraw", outputs[i]), 1),
            "damaged.profraw: damaged: counter 1 is 72057594037927937, and llvm-profdata "
            "takes none above 2^56; run the program again");
    }
    assert_says(merge(environment,
                      "--failure-mode=all -o rest.profdata profiles/1.profraw damaged.profraw", 0),
                "damaged.profraw: damaged: counter 1 is 72057594037927937");
    merge(environment, "-o one.profdata profiles/1.profraw", 0);
    assert_same("rest.profdata", "one.profdata");
}
END_TEST

/* What only llvm-profdata finds bad does not keep it from merging the rest if that was asked for.
 */
START_TEST(test_bad_for_llvm_profdata)
{
    static const uint8_t vtable_names[8] = {0x7f, 6, 'n', 'o', 'z', 'l', 'i', 'b'};
    const char *environment = "LLVM_PROFDATA=llvm-profdata-19";
    struct verdict verdict = {0};
    struct raw_profile profile;
    run_or_abort(scratch, covsplit_path(), "correlate", "--store", "store", "-o", "whole.profraw",
                 "profiles/1.profraw", NULL);
    ck_assert(raw_profile_read(path_join(scratch, "whole.profraw"), &profile, &verdict));
    /* Names of vtables, which nothing else reads. */
    uint8_t *bytes = malloc(profile.file.size + sizeof vtable_names);
    uint64_t size = sizeof vtable_names;
    memcpy(bytes, profile.file.data, profile.file.size);
    memcpy(bytes + profile.file.size, vtable_names, sizeof vtable_names);
    memcpy(bytes + VNAMES_SIZE, &size, sizeof size);
    file_write(path_join(scratch, "bad-vtables.profraw"), bytes,
               profile.file.size + sizeof vtable_names);
    free(bytes);
    const char *said =
        merge(environment, "-o no.profdata bad-vtables.profraw profiles/1.profraw", 1);
    assert_says(said, "bad-vtables.profraw: failed to uncompress data (zlib)");
    said = merge(environment,
                 "--failure-mode=all -o rest.profdata bad-vtables.profraw profiles/1.profraw", 0);
    assert_says(said, "bad-vtables.profraw: failed to uncompress data (zlib)");
    run_words("llvm-profdata-19 merge -failure-mode=all -num-threads=1 -o expected.profdata "
              "bad-vtables.profraw whole.profraw");
    assert_same("expected.profdata", "rest.profdata");
}
END_TEST

/* Each profile that was made by hand is taken if llvm-profdata takes it, and the result is the
 * same; the message about another one names it, and `show` does not crash on any. */
START_TEST(test_hand_made)
{
    static const struct {
        const char *raw_version, *release;
    } rows[] = {{"8", "14"}, {"8", "16"}, {"10", "19"}, {"10", "22"}};
    size_t taken = 0, refused = 0;
    const char *made = text_format("made-%s", rows[_i].raw_version);
    const char *profdata = text_format("llvm-profdata-%s", rows[_i].release);
    directory_create(path_join(scratch, made));
    run_or_abort(scratch, "python3", HAND_MADE, rows[_i].raw_version, made, NULL);
    struct text_list files = directory_list(path_join(scratch, made));
    for (size_t i = 0; i < files.count; i++) {
        if (!rounds_have((unsigned)i + (unsigned)_i, 4)) {
            continue;
        }
        const char *file = text_format("%s/%s", made, files.items[i]);
        struct command llvm = command_words(
            scratch, "%s merge -num-threads=1 -o expected.profdata %s", profdata, file);
        struct command ours = covsplit_command(scratch, "merge", "--llvm-profdata", profdata, "-o",
                                               "found.profdata", file, NULL);
        struct outcome expected = command_run(&llvm), found = command_run(&ours);
        bool is_wider = strncmp(files.items[i], "wider-", 6) == 0;
        bool is_stricter = strncmp(files.items[i], "stricter-", 9) == 0;
        bool takes = outcome_exited(&expected, 0);
        ck_assert_msg(takes ? !is_wider : !is_stricter, "%s: %s", profdata, file);
        takes = (takes && !is_stricter) || is_wider;
        ck_assert_msg(outcome_exited(&found, takes ? 0 : 1), "%s: %s: %s%s", profdata, file,
                      expected.errors, found.errors);
        ck_assert_msg(takes || strstr(found.errors, file) != NULL, "%s", found.errors);
        if (takes && !is_wider) {
            assert_same("expected.profdata", "found.profdata");
        }
        taken += takes;
        refused += !takes;
    }
    ck_assert_uint_gt(taken, rounds_are_all() ? 20 : 4);
    ck_assert_uint_gt(refused, rounds_are_all() ? 30 : 5);
    struct command show = command_words(scratch, "sh -c");
    text_list_add_format(&show.arguments,
                         "for file in %s/*; do '%s' show $file || test $? = 1 || exit 2; done",
                         made, covsplit_path());
    command_expect(&show, 0);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("all", 300, prepare);
    suite_tests(test_case, test_inputs, test_list_with_zeros, test_names_without_data,
                test_empty_sidecars, test_debug_info, test_sites_without_values,
                test_partly_for_correlation, test_temporal, test_usage, test_format, test_verbose,
                test_which_llvm_profdata, test_llvm_profdata_fails, test_unchanged, test_full,
                test_large_sums, test_weights, test_damaged_counters, test_bad_for_llvm_profdata);
    suite_loops(test_case, 4, test_hand_made);
    return suite_main("merging files", test_case);
}
