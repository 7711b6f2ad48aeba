/*
 * Reports: llvm-cov must say the same whatever stands for the unsplit image.
 *
 * Each report is taken from the unsplit images, and then
 *   - by `covsplit run` from the stripped images,
 *   - by `covsplit run` with the sidecars named as the objects,
 *   - from exported objects,
 *   - from the union of the sidecars, also by `covsplit run`,
 *   - by `covsplit run` from the store's directory,
 *   - by -debug-file-directory, with no object named (LLVM 16 and later),
 *   - through a debuginfod, with no object named and no file at hand (likewise).
 * All of them read one and the same profile: that profiles come out right is the matter of other
 * suites. Each way has a directory of its own in which the images have the same relative names, so
 * that the tool has no other name to print.
 *
 * `packed` is LevelDB again, with split images that were linked of packed objects. They have build
 * IDs of their own, so only the ways that name the objects are taken, and `covsplit run` from the
 * packed images, before they are split.
 *
 * Usage: reports (leveldb | packed | sqlite | small) CLANG LINKER
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/debuginfod_server.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define REPORT_SECONDS 600
#define SQLITE_SOURCE  COVSPLIT_TEST_CACHE "/better-sqlite3/deps/sqlite3"
#define SQLITE_OPTIONS                                                                             \
    INSTRUMENT_COVERAGE " -w -O0 -Wl,--build-id=sha1 -DSQLITE_OMIT_LOAD_EXTENSION "                \
                        "-DSQLITE_THREADSAFE=0 -DSQLITE_ENABLE_MATH_FUNCTIONS"
/* The first LLVM whose llvm-cov finds objects by the binary IDs of a profile. */
#define BINARY_ID_LLVM 16
/* The directory of HTML that is written, for all ways. */
#define HTML "html"

/* The directory of images that were linked of packed objects. */
#define PACKED "packed"

static const char *clang_version;
static const char *linker_name;

/* The files that stand for the images. */
struct way {
    const char *name;
    const char *directory; /* in the scratch directory; of the images' names */
    const char *runner;    /* words in front of llvm-cov; NULL: none */
    const char *options;   /* words in place of the objects' names; NULL: those are given */
    bool finds_objects;    /* llvm-cov looks for the objects by itself */
};

static const struct way ways[] = {
    {"unsplit images", "original", NULL, NULL, false},
    {"run with packed images", PACKED, "run --", NULL, false},
    {"run with stripped images", "split", "run --store ../store --", NULL, false},
    {"run with sidecars", "sidecars", "run --", NULL, false},
    {"exported objects", "objects", NULL, NULL, false},
    {"a union", "nothing", NULL, "../all.a", false},
    {"run with a union", "nothing", "run --", "../all.a", false},
    {"run with the store", "nothing", "run --", "../store", false},
    {"-debug-file-directory", "nothing", NULL, "-debug-file-directory=../debug", true},
    {"debuginfod", "nothing", NULL, "-debuginfod", true},
};

#define WAY_COUNT (sizeof ways / sizeof *ways)

/* The images of an application, and the profile of a run: SCRATCH/app.profdata. */
struct subject {
    char *scratch;
    struct text_list images; /* names below each way's directory */
    bool is_packed;          /* the images to split are in PACKED */
    struct debuginfod_server server;
};

static bool finds_objects(void)
{
    return atoi(clang_version) >= BINARY_ID_LLVM;
}

/* ---- the files of each way ---- */

static struct subject subject_create(const char *label)
{
    static const char *const subdirectories[] = {"bin", "lib"};
    struct subject subject = {.scratch = scratch_create(label)};
    for (size_t i = 0; i < WAY_COUNT; i++) {
        char *directory = path_join(subject.scratch, ways[i].directory);
        directory_create(directory);
        for (size_t j = 0; j < sizeof subdirectories / sizeof *subdirectories; j++) {
            directory_create(path_join(directory, subdirectories[j]));
        }
    }
    return subject;
}

static void split_image(const struct subject *subject, const char *image)
{
    const char *original = path_join(subject->is_packed ? PACKED : "original", image);
    const char *sidecar = path_join("sidecars", image);
    run_or_abort(subject->scratch, covsplit_path(), "split", "-o", path_join("split", image),
                 "--store", "store", original, NULL);
    run_or_abort(subject->scratch, covsplit_path(), "split", "-o", "again", "--sidecar", sidecar,
                 original, NULL);
    run_or_abort(subject->scratch, covsplit_path(), "export", "--sidecar", sidecar, "-o",
                 path_join("objects", image), NULL);
}

static const char *build_id(const struct subject *subject, const char *image)
{
    struct elf_file elf = elf_file_read(text_format("%s/original/%s", subject->scratch, image));
    const char *id = elf_file_build_id(&elf);
    ck_assert_ptr_nonnull(id);
    return id;
}

/* llvm-cov lists functions in the order of the objects. Those that it looks for by itself come in
 * the order of their binary IDs, so these are named in that order too. */
static void order_images(struct subject *subject)
{
    if (subject->images.count == 2 && strcmp(build_id(subject, subject->images.items[0]),
                                             build_id(subject, subject->images.items[1])) > 0) {
        char *first = subject->images.items[0];
        subject->images.items[0] = subject->images.items[1];
        subject->images.items[1] = first;
    }
}

/* To be called when SCRATCH/original has the images. */
static void prepare_ways(struct subject *subject)
{
    order_images(subject);
    for (size_t i = 0; i < subject->images.count; i++) {
        split_image(subject, subject->images.items[i]);
    }
    if (subject->is_packed) {
        return;
    }
    run_or_abort(subject->scratch, covsplit_path(), "export", "--store", "store", "--debug-dir",
                 "debug", NULL);
    run_or_abort(subject->scratch, covsplit_path(), "export", "--union", "--store", "store", "-o",
                 "all.a", NULL);
    if (finds_objects()) {
        const char *served = path_join(subject->scratch, "debug");
        subject->server = debuginfod_server_start(subject->scratch, "server", served, NULL);
    }
}

static void subject_remove(struct subject *subject)
{
    if (finds_objects() && !subject->is_packed) {
        debuginfod_server_stop(&subject->server);
    }
}

/* Runs the unsplit program and indexes its profiles: of SCRATCH/original/PROGRAM, or of the one in
 * PACKED, which has another UUID. */
static void make_profile(const struct subject *subject, const char *program, const char *words,
                         int exit_code)
{
    struct command command = {.directory = path_join(subject->scratch, "work")};
    directory_create(command.directory);
    text_list_add_format(&command.arguments, "%s/%s/%s", subject->scratch,
                         subject->is_packed ? PACKED : "original", program);
    text_list_add_words(&command.arguments, words);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/raw/%%m.profraw",
                         subject->scratch);
    command_expect(&command, exit_code);

    struct command merge = {.directory = path_join(subject->scratch, "raw")};
    struct text_list profiles = directory_list(merge.directory);
    ck_assert_uint_eq(profiles.count, subject->images.count);
    text_list_add(&merge.arguments, versioned_tool("llvm-profdata", clang_version));
    text_list_add_words(&merge.arguments, "merge -o ../app.profdata");
    text_list_add_all(&merge.arguments, (const char *const *)profiles.items);
    command_run_or_abort(&merge);
}

/* ---- one report ---- */

/* The command's words and more of them, behind the objects. */
struct report {
    const char *command;
    const char *options;
    bool is_html;       /* a directory of files, not text */
    bool needs_objects; /* llvm-cov cannot do it where no object is named */
    bool needs_each;    /* or where one stands for several */
};

static struct command report_command(const struct subject *subject, const struct report *report,
                                     const struct way *way)
{
    struct command command = {.directory = path_join(subject->scratch, way->directory),
                              .timeout_seconds = REPORT_SECONDS};
    if (way->runner != NULL) {
        text_list_add(&command.arguments, covsplit_path());
        text_list_add_words(&command.arguments, way->runner);
    }
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add(&command.arguments, report->command);
    if (way->options != NULL) {
        text_list_add_words(&command.arguments, way->options);
    }
    for (size_t i = 0; way->options == NULL && i < subject->images.count; i++) {
        if (i > 0) {
            text_list_add(&command.arguments, "-object");
        }
        text_list_add(&command.arguments, subject->images.items[i]);
    }
    text_list_add(&command.arguments, "-instr-profile=../app.profdata");
    text_list_add_words(&command.arguments, report->options);
    if (way->options != NULL && strcmp(way->options, "-debuginfod") == 0) {
        text_list_add_format(&command.environment, "DEBUGINFOD_URLS=%s", subject->server.url);
        text_list_add_format(&command.environment, "DEBUGINFOD_CACHE_PATH=%s/cache",
                             subject->scratch);
    } else {
        text_list_add(&command.environment, "DEBUGINFOD_URLS=");
    }
    return command;
}

/* The minute of the report goes. */
static void forget_time(char *text)
{
    static const char label[] = "Created: ";
    for (char *at = strstr(text, label); at != NULL; at = strstr(at, label)) {
        at += strlen(label);
        for (char *end = at; isdigit((unsigned char)*end) || strchr("-: ", *end) != NULL; end++) {
            if (*end == '\0') {
                break;
            }
            *end = 'x';
        }
    }
}

/* All files of a directory and below, one after the other, each under its name. */
static void add_files(struct text_list *texts, const char *directory)
{
    struct text_list names = directory_list(directory);
    for (size_t i = 0; i < names.count; i++) {
        char *path = path_join(directory, names.items[i]);
        text_list_add(texts, names.items[i]);
        if (S_ISDIR(file_status(path).st_mode)) {
            add_files(texts, path);
        } else {
            struct contents contents = file_read(path);
            char *text = text_format("%.*s", (int)contents.size, (const char *)contents.data);
            text_list_add(texts, text);
            free(text);
            contents_free(&contents);
        }
        free(path);
    }
}

static struct text_list take_report(const struct subject *subject, const struct report *report,
                                    const struct way *way)
{
    struct command command = report_command(subject, report, way);
    struct text_list texts = {0};
    struct outcome outcome = command_expect(&command, 0);
    /* llvm-cov warns of functions that several images have, and must warn of the same. */
    text_list_add(&texts, outcome.errors);
    if (report->is_html) {
        char *directory = path_join(command.directory, HTML);
        add_files(&texts, directory);
        directory_remove(directory);
        free(directory);
    } else {
        text_list_add(&texts, outcome.output);
    }
    for (size_t i = 0; i < texts.count; i++) {
        forget_time(texts.items[i]);
    }
    outcome_free(&outcome);
    return texts;
}

/* The two lines in which texts differ first. */
static const char *first_difference(const char *a, const char *b)
{
    size_t line = 0;
    for (size_t i = 0; a[i] == b[i] && a[i] != '\0'; i++) {
        if (a[i] == '\n') {
            line = i + 1;
        }
    }
    return text_format("'%.*s' and '%.*s'", (int)strcspn(a + line, "\n"), a + line,
                       (int)strcspn(b + line, "\n"), b + line);
}

static void check_same(const struct text_list *expected, const struct text_list *texts,
                       const struct report *report, const struct way *way)
{
    ck_assert_msg(expected->count == texts->count, "%s %s, %s: %zu files, not %zu", report->command,
                  report->options, way->name, texts->count, expected->count);
    for (size_t i = 0; i < expected->count; i++) {
        ck_assert_msg(strcmp(expected->items[i], texts->items[i]) == 0, "%s %s, %s: %s",
                      report->command, report->options, way->name,
                      first_difference(expected->items[i], texts->items[i]));
    }
}

static size_t size_of(const struct text_list *texts)
{
    size_t size = 0;
    for (size_t i = 0; i < texts->count; i++) {
        size += strlen(texts->items[i]);
    }
    return size;
}

/* `part` is something that the report must have, so that there is no agreement on nothing. */
static void check_report(const struct subject *subject, const struct report *report,
                         const char *part)
{
    struct text_list expected = {0};
    bool found = false;
    for (size_t i = 0; i < WAY_COUNT; i++) {
        struct text_list texts;
        if ((strcmp(ways[i].directory, PACKED) == 0 && !subject->is_packed) ||
            (ways[i].options != NULL && subject->is_packed) ||
            (ways[i].finds_objects && (report->needs_objects || !finds_objects())) ||
            (ways[i].options != NULL && report->needs_each)) {
            continue;
        }
        texts = take_report(subject, report, &ways[i]);
        if (i == 0) {
            expected = texts;
            continue;
        }
        check_same(&expected, &texts, report, &ways[i]);
        text_list_free(&texts);
    }
    for (size_t i = 0; i < expected.count; i++) {
        found = found || strstr(expected.items[i], part) != NULL;
    }
    ck_assert_msg(found, "%s %s: %zu bytes without '%s'", report->command, report->options,
                  size_of(&expected), part);
    text_list_free(&expected);
}

static const struct report main_reports[] = {
    {"report", "", false, false, false},
    {"show", "-format=text", false, false, false},
    {"show", "-format=html -output-dir=" HTML, true, false, false},
    {"export", "-format=lcov", false, false, false},
    {"export", "", false, false, false},
};

static void check_main_reports(const struct subject *subject, const char *part)
{
    for (size_t i = 0; i < sizeof main_reports / sizeof *main_reports; i++) {
        check_report(subject, &main_reports[i], part);
    }
}

/* ---- the programs ---- */

/* Links LevelDB of its objects, packed. */
static void link_packed(const struct subject *subject)
{
    char *objects = path_join(subject->scratch, "packed-objects");
    run_or_abort(subject->scratch, "cp", "-r", leveldb_objects(clang_version), objects, NULL);
    run_or_abort(subject->scratch, "find", objects, "-name", "*.o", "-exec", covsplit_path(),
                 "pack", "{}", "+", NULL);
    leveldb_link(clang_version, linker_name, objects, path_join(subject->scratch, PACKED),
                 "db_bench", LEVELDB_DB_BENCH);
}

static void assert_same_mapping(const struct subject *subject)
{
    for (size_t i = 0; i < subject->images.count; i++) {
        char *object = text_format("%s/objects/%s", subject->scratch, subject->images.items[i]);
        char *image = text_format("%s/original/%s", subject->scratch, subject->images.items[i]);
        elf_files_assert_same_section(object, image, "__llvm_covmap");
        elf_files_assert_same_section(object, image, "__llvm_covfun");
    }
}

static void check_leveldb(bool is_packed)
{
    struct subject subject = subject_create("reports-leveldb");
    char *original = path_join(subject.scratch, "original");
    subject.is_packed = is_packed;
    text_list_add(&subject.images, "db_bench");
    text_list_add(&subject.images, LEVELDB_LIBRARY);
    leveldb_link(clang_version, linker_name, leveldb_objects(clang_version), original, "db_bench",
                 LEVELDB_DB_BENCH);
    if (is_packed) {
        link_packed(&subject);
    }
    prepare_ways(&subject);
    if (is_packed) {
        assert_same_mapping(&subject);
    }
    make_profile(&subject, "db_bench",
                 "--db=database --num=2000 --benchmarks=fillseq,readseq,readrandom", 0);
    check_main_reports(&subject, "db_impl.cc");
    subject_remove(&subject);
}

START_TEST(test_leveldb)
{
    check_leveldb(false);
}
END_TEST

START_TEST(test_packed)
{
    check_leveldb(true);
}
END_TEST

START_TEST(test_sqlite)
{
    struct subject subject = subject_create("reports-sqlite");
    struct command command = {.directory = path_join(subject.scratch, "original"),
                              .timeout_seconds = REPORT_SECONDS};
    text_list_add(&subject.images, "bin/sqlite");
    text_list_add(&command.arguments, versioned_tool("clang", clang_version));
    text_list_add_words(&command.arguments, SQLITE_OPTIONS " -I" SQLITE_SOURCE " " SQLITE_SOURCE
                                                           "/sqlite3.c " COVSPLIT_FIXTURE_DIRECTORY
                                                           "/sqlite_driver.c -lm -o bin/sqlite");
    text_list_add_format(&command.arguments, "-fuse-ld=%s", linker_name);
    command_run_or_abort(&command);
    prepare_ways(&subject);
    make_profile(&subject, "bin/sqlite", "", 0);
    check_main_reports(&subject, "sqlite3.c");
    subject_remove(&subject);
}
END_TEST

/* The options that people give to llvm-cov. */
static const struct report option_reports[] = {
    {"report", "-show-functions {}/first.cc {}/second.cc", false, true, false},
    {"report", "-arch=x86_64 -arch=x86_64", false, true, true},
    {"report", "-show-branch-summary=true", false, false, false},
    {"report", "-use-color=0 -show-region-summary=false", false, false, false},
    {"report", "-ignore-filename-regex=second", false, false, false},
    {"show", "-show-branches=count -show-regions", false, false, false},
    {"show", "-show-branches=percent -show-expansions -show-instantiations=true", false, false,
     false},
    {"show", "-show-line-counts-or-regions -name-regex=.*run.*", false, false, false},
    {"show", "-format=html -show-branches=count -output-dir=" HTML, true, false, false},
    {"export", "-summary-only", false, false, false},
    {"export", "-skip-functions -skip-expansions", false, false, false},
    {"export", "-format=lcov -ignore-filename-regex=second", false, false, false},
};

/* The sources were compiled in another place than where they are. */
static const struct report moved_reports[] = {
    {"show", "-path-equivalence=/elsewhere,{}", false, false, false},
    {"show", "-format=html -output-dir=" HTML " -path-equivalence=/elsewhere,{}", true, false,
     false},
    {"export", "-format=lcov -path-equivalence=/elsewhere,{}", false, false, false},
};

static const struct report relative_reports[] = {
    {"show", "-compilation-dir={}", false, false, false},
    {"export", "-format=lcov -compilation-dir={}", false, false, false},
};

/* A small program with a shared library, whose sources are in SCRATCH/original, which the options
 * of the reports call "{}". */
static void check_small(const char *compile_options, const struct report *reports, size_t count)
{
    struct subject subject = subject_create("reports-small");
    const char *sources = path_join(subject.scratch, "original");
    struct program program = {.clang = clang_version,
                              .linker = linker_name,
                              .kind = LINK_SHARED,
                              .language = LANGUAGE_CXX,
                              .optimization = "-O0",
                              .compile_options = text_replace(compile_options, "{}", sources),
                              .functions = 40};
    text_list_add(&subject.images, PROGRAM_NAME);
    text_list_add(&subject.images, PROGRAM_LIBRARY);
    program_build(&program, sources);
    prepare_ways(&subject);
    make_profile(&subject, PROGRAM_NAME, "", 3);
    for (size_t i = 0; i < count; i++) {
        struct report report = reports[i];
        report.options = text_replace(report.options, "{}", sources);
        check_report(&subject, &report, "first");
    }
    subject_remove(&subject);
}

#define REPORTS(list) (list), sizeof(list) / sizeof *(list)

START_TEST(test_options)
{
    /* As without the option, but that no other test's programs do instead. */
    check_small("-fcoverage-compilation-dir={}", REPORTS(option_reports));
}
END_TEST

START_TEST(test_moved_sources)
{
    check_small("-fcoverage-prefix-map={}=/elsewhere", REPORTS(moved_reports));
}
END_TEST

START_TEST(test_relative_sources)
{
    check_small("-fcoverage-compilation-dir=.", REPORTS(relative_reports));
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *kind = argument_count == 4 ? arguments[1] : "";
    TCase *test_case = suite_case("reports", 1500, NULL);
    if (strcmp(kind, "leveldb") == 0) {
        tcase_add_test(test_case, test_leveldb);
    } else if (strcmp(kind, "packed") == 0) {
        tcase_add_test(test_case, test_packed);
    } else if (strcmp(kind, "sqlite") == 0) {
        tcase_add_test(test_case, test_sqlite);
    } else if (strcmp(kind, "small") == 0) {
        suite_tests(test_case, test_options, test_moved_sources, test_relative_sources);
    } else {
        return suite_usage(arguments[0], "(leveldb | packed | sqlite | small) CLANG LINKER");
    }
    clang_version = arguments[2];
    linker_name = arguments[3];
    return suite_main("reports", test_case);
}
