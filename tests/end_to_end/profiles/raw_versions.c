/*
 * Raw profiles of version 11, which LLVM 23 writes: what comes of a split image's is what the
 * unsplit image has written, to the byte, and field by field what the layout describes; and those
 * of versions that are not known are refused by number, wherever one is read.
 *
 * Usage: raw_versions CLANG LINKER. What LLVM's tools make of such profiles is in profiles.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/raw_profile.h"
#include "tests/support/windows_program.h"

#define FUNCTIONS     60
#define RUNS          3
#define READER        COVSPLIT_FIXTURE_DIRECTORY "/../support/raw_profile_11.py"

#define VERSION_12    "raw profile version 12; this covsplit knows 7 to 11"
#define OF_A_GPU      "__llvm_prf_data stays: its records are of a GPU's code"
#define MANY_COUNTERS " uniform counters, as only a GPU's code does"

/* In a header. */
#define WORD_VERSION 1
#define WORD_UNIFORM 9

#define ONE_SOURCE                                                                                 \
    "#include <stdio.h>\n#include \"first.c\"\n"                                                   \
    "int main(int count, char **words)\n{\n    (void)words;\n"                                     \
    "    printf(\"%ld\\n\", first_run(count));\n    return 3;\n}\n"

static const char *clang_version, *linker_name;

static struct program program_of(enum link_kind kind, enum language language, const char *options)
{
    return (struct program){.clang = clang_version,
                            .linker = linker_name,
                            .kind = kind,
                            .language = language,
                            .optimization = "-O1",
                            .compile_options = options,
                            .functions = FUNCTIONS,
                            .raw_version = 11};
}

/* Reads profiles of a directory by the tests' second reader; `words` are for it. */
static void read_described(const char *directory, const char *words)
{
    struct command command = {.directory = directory};
    text_list_add_words(&command.arguments, READER);
    text_list_add_words(&command.arguments, words);
    command_run_or_abort(&command);
}

/* ---- to the byte ---- */

/* Of one source, and with names that are not compressed: else covsplit would store them otherwise.
 * At a fixed address, so that every run has the names at the same one. */
START_TEST(test_to_the_byte)
{
    static const char *const options[] = {"-mllvm -enable-name-compression=false",
                                          "-mllvm -enable-name-compression=false -fcoverage-mcdc"};
    struct program program = program_of(LINK_NO_PIE, LANGUAGE_C, options[_i]);
    /* Optimizers count down to the end of a table, which may be where the names begin. */
    program.optimization = "-O0";
    char *scratch = scratch_create("raw-version-11");
    file_write_text(path_join(scratch, "main.c"), ONE_SOURCE);
    source_generate(path_join(scratch, "first.c"), LANGUAGE_C, "first", FUNCTIONS);
    program_compile(&program, scratch, "main.c", "main.o");
    program_link(&program, scratch, "-no-pie", "main.o", "whole");
    covsplit_run_words(scratch, 0, "split -o split --sidecar s.covsplit whole");
    ck_assert_int_eq(program_run(scratch, "whole").exit_code, 3);
    ck_assert_int_eq(program_run(scratch, "split").exit_code, 3);
    read_described(scratch, "stub split.profraw");
    read_described(scratch, "same whole.profraw whole.profraw");

    covsplit_run_words(scratch, 0, "correlate --sidecar s.covsplit -o full.profraw split.profraw");
    files_assert_equal(path_join(scratch, "whole.profraw"), path_join(scratch, "full.profraw"),
                       "correlated");
    covsplit_run_words(scratch, 0, "merge --sidecar s.covsplit -o one.profraw split.profraw");
    files_assert_equal(path_join(scratch, "whole.profraw"), path_join(scratch, "one.profraw"),
                       "a sum of one");
    ck_assert_uint_lt(file_size(path_join(scratch, "split.profraw")),
                      file_size(path_join(scratch, "whole.profraw")));
    covsplit_run_words(scratch, 0, "join --sidecar s.covsplit -o joined split");
    files_assert_equal(path_join(scratch, "whole"), path_join(scratch, "joined"), "joined");
}
END_TEST

/* ---- field by field ---- */

static struct text_list run_all(const struct application *application, const char *images)
{
    struct text_list all = {0};
    for (unsigned run = 1; run <= RUNS; run++) {
        char *directory = text_format("profiles-%s-%u", images, run);
        directory_create(path_join(application->scratch, directory));
        application_run_once(application, images, run, text_format("%s/%%m.profraw", directory));
        struct text_list found = application_profiles(application, directory);
        ck_assert_uint_eq(found.count, application->images.count);
        text_list_add_all(&all, (const char *const *)found.items);
    }
    return all;
}

/* covsplit WORDS... -o OUTPUT PROFILES... */
static void make(const struct application *application, const char *words, const char *output,
                 const char *profiles)
{
    covsplit_run_words(application->scratch, 0,
                       text_format("%s --store store -o %s %s", words, output, profiles));
}

/* One image of the application: its profiles of all runs. */
static void check_image(const struct application *application, size_t image,
                        const struct text_list *original, const struct text_list *split)
{
    const char *scratch = application->scratch;
    char *halves = "", *wholes = "";
    for (size_t i = image; i < split->count; i += application->images.count) {
        const char *half = split->items[i], *whole = original->items[i];
        read_described(scratch, text_format("stub %s", half));
        make(application, "correlate", "full.profraw", half);
        read_described(scratch, text_format("same %s full.profraw", whole));
        read_described(scratch, text_format("sum full.profraw %s", half));
        halves = text_format("%s %s", halves, half);
        wholes = text_format("%s %s", wholes, whole);
    }
    make(application, "merge", "sum.profraw", halves);
    read_described(scratch, text_format("sum sum.profraw %s", wholes));
    make(application, "merge", "of-whole.profraw", wholes);
    read_described(scratch, "same of-whole.profraw sum.profraw");
}

static void check_reading(const struct application *application, const char *half)
{
    struct outcome shown =
        covsplit_run_words(application->scratch, 0, text_format("show --json %s", half));
    ck_assert_ptr_nonnull(strstr(shown.output, "\"raw_version\": 11"));
    make(application, "correlate", "full.profraw", half);
    struct command command =
        command_words(application->scratch, "%s run --store store -- %s same full.profraw %s",
                      covsplit_path(), READER, half);
    ck_assert_str_eq(command_expect(&command, 0).errors, "");
}

START_TEST(test_described)
{
    static const struct {
        enum link_kind kind;
        enum language language;
        const char *options;
        const char *machine; /* NULL: this one */
    } programs[] = {
        {LINK_PIE, LANGUAGE_C, NULL, NULL},
        {LINK_SHARED, LANGUAGE_CXX, "-fcoverage-mcdc", NULL},
        {LINK_STATIC, LANGUAGE_C, "-fcoverage-mcdc", NULL},
        /* Pointers of 4 bytes, and the other byte order. */
        {LINK_PIE, LANGUAGE_C, "-fcoverage-mcdc", "i386"},
        {LINK_SHARED, LANGUAGE_C, "-fcoverage-mcdc", "s390x"},
    };
    struct program program =
        program_of(programs[_i].kind, programs[_i].language, programs[_i].options);
    if (programs[_i].machine != NULL) {
        program.target = target_find(programs[_i].machine);
        program.clang = "19";
        program.linker = "bfd";
    }
    struct application application = application_build(&program, "described", NULL, NULL);
    struct text_list original = run_all(&application, "original");
    struct text_list split = run_all(&application, "split");
    for (size_t i = 0; i < application.images.count; i++) {
        check_image(&application, i, &original, &split);
    }
    check_reading(&application, split.items[0]);
}
END_TEST

/* ---- Windows ---- */

#define MERGED "-DPROFILE_MERGED"

/* The version must be found by what fits the records, and merged records by the version. */
START_TEST(test_windows)
{
    static const struct windows_program programs[] = {
        {.target = WINDOWS_MSVC_X86_64},
        {.target = WINDOWS_MSVC_X86_64,
         .runtime_options = MERGED,
         .instrumentation = INSTRUMENT_COVERAGE " -fcoverage-mcdc"},
        {.target = WINDOWS_MINGW_LLD, .link_options = "-s"},
        {.target = WINDOWS_MSVC_I686, .runtime_options = MERGED},
    };
    struct windows_program program = programs[_i];
    program.clang = clang_version;
    program.raw_version = 11;
    char *scratch = scratch_create("windows-11");
    directory_create(path_join(scratch, "original"));
    directory_create(path_join(scratch, "stripped"));
    windows_program_build(&program, path_join(scratch, "original"));
    struct outcome outcome = covsplit_run_words(
        scratch, 0,
        "split --sidecar s.covsplit -o stripped/" WINDOWS_PROGRAM " original/" WINDOWS_PROGRAM);
    ck_assert_str_eq(outcome.errors, "");
    outcome = covsplit_run_words(scratch, 0, "show stripped/" WINDOWS_PROGRAM);
    ck_assert_ptr_nonnull(strstr(outcome.output, "already split        yes"));
    covsplit_run_words(scratch, 0, "join --sidecar s.covsplit -o joined stripped/" WINDOWS_PROGRAM);
    files_assert_equal(path_join(scratch, "original/" WINDOWS_PROGRAM),
                       path_join(scratch, "joined"), "joined");
    if (program.target == WINDOWS_MSVC_I686) {
        return; /* which no wine runs here */
    }
    struct command original = wine_command(path_join(scratch, "original"), 1);
    struct command split = wine_command(path_join(scratch, "stripped"), 1);
    command_expect(&original, 3);
    command_expect(&split, 3);
    covsplit_run_words(
        scratch, 0, "correlate --sidecar s.covsplit -o full.profraw stripped/run1-program.profraw");
    read_described(scratch, "same original/run1-program.profraw full.profraw");
}
END_TEST

/* ---- what is not known ---- */

static struct outcome run_words(const char *directory, const char *words)
{
    struct command command = covsplit_words(directory, words);
    text_list_add(&command.environment, "LLVM_PROFDATA=");
    return command_run(&command);
}

/* All that reads a profile, and all that writes something of it. */
static void assert_refused_everywhere(const char *directory, const char *profile, const char *why)
{
    static const char *const words[] = {
        "show",
        "show --json",
        "correlate --store store -o no.profraw",
        "merge --store store -o no.profraw",
        "merge --store store -o no.profdata",
        "merge --store store --failure-mode=all -o no.profraw",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct outcome outcome = run_words(directory, text_format("%s %s", words[i], profile));
        const char *message = strstr(outcome.errors, text_format("%s: ", profile));
        ck_assert_msg(outcome_exited(&outcome, 1) && message != NULL &&
                          strstr(message, why) != NULL && strstr(message, "; ") != NULL,
                      "'%s': %s", words[i], outcome.errors);
        ck_assert(!file_exists(path_join(directory, "no.profraw")));
        ck_assert(!file_exists(path_join(directory, "no.profdata")));
    }
    /* Programs that are run get the file as it is. */
    struct outcome read =
        run_words(directory, text_format("run --store store -- cmp %s copy.profraw", profile));
    ck_assert_msg(outcome_exited(&read, 0), "%s", read.errors);
}

static void change_word(const char *path, const char *copy, size_t word, uint64_t value)
{
    struct contents contents = file_read(path);
    memcpy(contents.data + word * sizeof value, &value, sizeof value);
    file_write(path_join(copy, "changed.profraw"), contents.data, contents.size);
    file_write(path_join(copy, "copy.profraw"), contents.data, contents.size);
}

/* Lightweight profiles and full ones, of version 11, that say they are another. */
START_TEST(test_changed_headers)
{
    struct program program = program_of(LINK_PIE, LANGUAGE_C, NULL);
    struct application application = application_build(&program, "changed", NULL, NULL);
    static const char *const images[] = {"split", "original"};
    for (size_t i = 0; i < 2; i++) {
        char *profile = text_format("%s.profraw", images[i]);
        application_run_once(&application, images[i], 1, profile);
        profile = path_join(application.scratch, profile);
        change_word(profile, application.scratch, WORD_VERSION, 12);
        assert_refused_everywhere(application.scratch, "changed.profraw", VERSION_12);
        change_word(profile, application.scratch, WORD_UNIFORM, 5);
        assert_refused_everywhere(application.scratch, "changed.profraw", "has 5" MANY_COUNTERS);
    }
    /* What packaged tools do not read is not given to them. */
    struct outcome merged = covsplit_run_words(application.scratch, 1,
                                               "merge --store store -o no.profdata split.profraw");
    ck_assert_ptr_nonnull(strstr(merged.errors, "reads raw profiles of version 11"));
    merged = covsplit_run_words(
        application.scratch, 1,
        text_format("merge --store store -o no.profdata --llvm-profdata %s split.profraw",
                    versioned_tool("llvm-profdata", clang_version)));
    ck_assert_ptr_nonnull(strstr(merged.errors, "raw profile version mismatch"));
    ck_assert(!file_exists(path_join(application.scratch, "no.profdata")));
}
END_TEST

static void assert_names_and_data_stay(const char *errors)
{
    ck_assert_ptr_nonnull(strstr(errors, "__llvm_prf_names stays: " VERSION_12));
    ck_assert_ptr_nonnull(strstr(errors, "__llvm_prf_data stays: " VERSION_12));
    ck_assert_ptr_null(strstr(errors, "__llvm_cov"));
}

/* The mapping alone goes, of which the version says nothing. */
START_TEST(test_image_of_another_version)
{
    struct program program = program_of(LINK_PIE, LANGUAGE_C, NULL);
    program.raw_version = 12;
    struct application application =
        application_build(&program, "version-12", NULL, assert_names_and_data_stay);
    const char *scratch = application.scratch;
    ck_assert_uint_lt(file_size(path_join(scratch, "split/" PROGRAM_NAME)),
                      file_size(path_join(scratch, "original/" PROGRAM_NAME)));
    covsplit_run_words(scratch, 0, "join --store store -o joined split/" PROGRAM_NAME);
    files_assert_equal(path_join(scratch, "original/" PROGRAM_NAME), path_join(scratch, "joined"),
                       "joined");
    covsplit_run_words(scratch, 0, "store check store");
    covsplit_run_words(scratch, 0, "export --store store --debug-dir objects");
    struct outcome shown = covsplit_run_words(scratch, 0, "show split/" PROGRAM_NAME);
    ck_assert_ptr_nonnull(strstr(shown.output, "raw profile version  12"));

    application_run_once(&application, "split", 1, "whole.profraw");
    run_or_abort(scratch, "cp", "whole.profraw", "copy.profraw", NULL);
    assert_refused_everywhere(scratch, "whole.profraw", VERSION_12);
}
END_TEST

static void assert_data_stays(const char *errors)
{
    ck_assert_ptr_nonnull(strstr(errors, OF_A_GPU));
    ck_assert_ptr_null(strstr(errors, "__llvm_cov"));
}

/* Records with what only a GPU's code has stay in the image; the names go, and come back. */
START_TEST(test_records_of_a_gpu)
{
    struct program program = program_of(LINK_PIE, LANGUAGE_C, NULL);
    program.wave_size = 64;
    struct application application = application_build(&program, "gpu", NULL, assert_data_stays);
    covsplit_run_words(application.scratch, 0, "join --store store -o joined split/" PROGRAM_NAME);
    files_assert_equal(path_join(application.scratch, "original/" PROGRAM_NAME),
                       path_join(application.scratch, "joined"), "joined");
    application_run_once(&application, "original", 1, "whole.profraw");
    application_run_once(&application, "split", 1, "split.profraw");
    make(&application, "correlate", "full.profraw", "split.profraw");
    struct raw_profile whole, full;
    struct verdict verdict = {0};
    raw_profile_read(path_join(application.scratch, "whole.profraw"), &whole, &verdict);
    raw_profile_read(path_join(application.scratch, "full.profraw"), &full, &verdict);
    verdict_assert(&verdict, "profiles with records of a GPU's code");
    ck_assert(parts_equal(whole.data, full.data) && parts_equal(whole.counters, full.counters));
    ck_assert_uint_gt(full.names.size, whole.names.size); /* they are not compressed */
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *test_case = suite_case("all", 300, NULL);
    suite_loops(test_case, 2, test_to_the_byte);
    suite_loops(test_case, 5, test_described);
    suite_tests(test_case, test_changed_headers, test_image_of_another_version,
                test_records_of_a_gpu);
    const char *name = text_format("raw versions clang-%s %s", clang_version, linker_name);
    /* They have linkers of their own: once is enough. */
    if (strcmp(linker_name, "bfd") != 0) {
        return suite_main(name, test_case);
    }
    suite_loops(test_case, 4, test_windows);
    wine_start();
    int status = suite_main(name, test_case);
    wine_stop();
    return status;
}
