/*
 * Reports of packed programs: whatever compilers and linkers made of the objects, they must be
 * those of the same program without packing.
 *
 * Each program is built in two directories, of ordinary objects and of packed ones. The packed
 * images are split. Then sections of coverage mapping, profiles and reports are compared, to the
 * byte; images have the same names and build IDs in both directories.
 *
 * Usage: packed_reports CLANG LINKER
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define SOURCES              COVSPLIT_FIXTURE_DIRECTORY "/packed"
#define LIBRARY              "libparts.so"
#define PROGRAM_ID           "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233"
#define LIBRARY_ID           "-Wl,--build-id=0x44556677889900aabbccddeeff00112233445566"
#define TEST_TIMEOUT_SECONDS 900
#define COUNT(array)         (sizeof(array) / sizeof *(array))

static const char *clang, *linker;
static char *scratch;
static char *ordinary, *packed;   /* where the program is linked, of objects in both forms */
static char *stripped, *exported; /* the packed images, split, and the objects of their sidecars */

/* ---- steps ---- */

static const char *run_words(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);
    return command_run_or_abort(&command);
}

static void prepare(void)
{
    scratch_use_memory();
    scratch = scratch_create("packed-reports");
    ordinary = path_join(scratch, "ordinary");
    packed = path_join(scratch, "packed");
    stripped = path_join(scratch, "stripped");
    exported = path_join(scratch, "exported");
    directory_create(ordinary);
    directory_create(packed);
    directory_create(stripped);
    directory_create(exported);
}

/* The objects, from sources of their names. */
#define UNITS   "main.o one.o two.o three.o part.o member.o"
#define OTHERS  "other.o alone.o"
#define ALL     UNITS " " OTHERS
#define PARTS   "one.o two.o three.o part.o member.o"
#define ARCHIVE "libparts.a"

/* The sources are all there before the first is compiled, so that each result is found in the
 * cache whichever was compiled before. */
static void write_sources(void)
{
    struct text_list names = directory_list(SOURCES);
    for (size_t i = 0; i < names.count; i++) {
        file_copy(path_join(SOURCES, names.items[i]), path_join(ordinary, names.items[i]));
    }
}

static void compile(const char *object, const char *options)
{
    const char *source =
        strcmp(object, "part.o") == 0 ? "part.c" : text_replace(object, ".o", ".cc");
    run_words(ordinary, text_format("clang-%s " INSTRUMENT_COVERAGE
                                    " -fcoverage-compilation-dir=. %s -c %s -o %s",
                                    clang, options, source, object));
}

static void copy_and_pack(const char *name)
{
    file_copy(path_join(ordinary, name), path_join(packed, name));
    covsplit_run_words(packed, 0, text_format("pack %s", name));
}

/* Links in one of the directories. */
static void link_image(const char *directory, const char *image, const char *words)
{
    run_words(directory, text_format("clang++-%s -fprofile-instr-generate -fuse-ld=%s -o %s %s",
                                     clang, linker, image, words));
}

/* ---- comparing ---- */

static void assert_same_mapping(const char *path, const char *other)
{
    elf_files_assert_same_section(path, other, "__llvm_covmap");
    elf_files_assert_same_section(path, other, "__llvm_covfun");
}

/* Runs the program of a directory, and indexes its profiles, by covsplit if they are light. Returns
 * the exit code. */
static int make_profile(const char *directory)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, "./app");
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=raw/%m.profraw");
    struct outcome outcome = command_run(&command);
    ck_assert_msg(outcome.signal == 0, "%s", outcome_describe(&command, &outcome));

    struct command merge = command_words(directory, "%s run --", covsplit_path());
    struct text_list profiles = directory_list(path_join(directory, "raw"));
    text_list_add_format(&merge.arguments, "llvm-profdata-%s", clang);
    text_list_add_words(&merge.arguments, "merge -o app.profdata");
    for (size_t i = 0; i < profiles.count; i++) {
        text_list_add_format(&merge.arguments, "raw/%s", profiles.items[i]);
    }
    command_run_or_abort(&merge);
    return outcome.exit_code;
}

static const char *const reports[] = {
    "export", /* which has the order of records, and the file names of each */
    "export -format=lcov",
    "report",
    "show -show-branches=count -show-expansions -show-instantiations",
};
#define FIRST_REPORT        0
#define FIRST_WITHOUT_ORDER 1

/* What llvm-cov says in a directory, with what it warns of. `front` is a word list to run it by. */
static const char *report_of(const char *directory, const char *front, const char *report,
                             const char *objects)
{
    struct command command = command_words(
        directory,
        "%sllvm-cov-%s %s -compilation-dir=%s -instr-profile=../ordinary/app.profdata %s", front,
        clang, report, ordinary, objects);
    struct outcome outcome = command_expect(&command, 0);
    assert_contains(outcome.output, "one.cc");
    return text_format("%s%s", outcome.errors, outcome.output);
}

/* The reports from `first` on. */
static void assert_reports(size_t first, const char *objects)
{
    const char *front = text_format("%s run -- ", covsplit_path());
    for (size_t i = first; i < COUNT(reports); i++) {
        const char *wanted = report_of(ordinary, "", reports[i], objects);
        ck_assert_msg(strcmp(report_of(stripped, front, reports[i], objects), wanted) == 0,
                      "llvm-cov %s differs", reports[i]);
        ck_assert_msg(strcmp(report_of(exported, "", reports[i], objects), wanted) == 0,
                      "llvm-cov %s of exported objects differs", reports[i]);
    }
}

/* Splits the packed image, which must give the mapping of the ordinary one, if that is certain. */
static void split_image(const char *image, bool is_same_mapping)
{
    covsplit_run_words(scratch, 0,
                       text_format("split --sidecar stripped/%s.covsplit -o stripped/%s packed/%s",
                                   image, image, image));
    covsplit_run_words(
        scratch, 0,
        text_format("export --sidecar stripped/%s.covsplit -o exported/%s", image, image));
    if (is_same_mapping) {
        assert_same_mapping(path_join(exported, image), path_join(ordinary, image));
    }
    covsplit_run_words(
        scratch, 0,
        text_format("join --sidecar stripped/%s.covsplit -o joined stripped/%s", image, image));
    files_assert_equal(path_join(scratch, "joined"), path_join(packed, image), image);
}

static void assert_same_profiles(void)
{
    int exit_code = make_profile(ordinary);
    ck_assert_int_eq(make_profile(packed), exit_code);
    ck_assert_int_eq(make_profile(stripped), exit_code);
    files_assert_equal(path_join(packed, "app.profdata"), path_join(ordinary, "app.profdata"),
                       "profile of the packed image");
    files_assert_equal(path_join(stripped, "app.profdata"), path_join(ordinary, "app.profdata"),
                       "profile of the split image");
}

/* ---- kinds of program ---- */

enum form {
    OF_PACKED,   /* made of packed objects */
    THEN_PACKED, /* made of ordinary objects, then packed */
};

static const struct kind {
    const char *name, *options;
    const char *words;        /* for the link */
    const char *some;         /* options of two.o and alone.o in addition; NULL: none */
    const char *made, *maker; /* a file made before the link, and the words that make it */
    enum form form;
    const char *linkers; /* NULL: all */
    int first;           /* version of clang; 0: any */
    /* Bitcode is among the objects: linkers other than bfd put what they make of it behind all
     * objects, so of a function in both, the record that comes first can be another one than that
     * which they keep. All are of the same function, and only order and file names can differ. */
    bool has_bitcode;
} kinds[] = {
    {.name = "all", .options = "-O0 -g", .words = ALL},
    {.name = "other order",
     .options = "-O0 -g",
     .words = "alone.o other.o member.o part.o three.o two.o one.o main.o"},
    {.name = "gc",
     .options = "-O0 -ffunction-sections -fdata-sections",
     .words = "-Wl,--gc-sections " ALL},
    {.name = "icf",
     .options = "-O2 -ffunction-sections -fdata-sections",
     .words = "-Wl,--gc-sections -Wl,--icf=all " ALL,
     .linkers = "gold lld mold"},
    {.name = "optimized", .options = "-O2 -g", .words = "-no-pie -Wl,--emit-relocs " ALL},
    {.name = "static", .options = "-O2", .words = "-static " ALL},
    {.name = "shared",
     .options = "-O1 -fPIC",
     .words = "main.o " LIBRARY " -Wl,-rpath,$ORIGIN",
     .made = LIBRARY},
    {.name = "archive",
     .options = "-O0",
     .words = "main.o one.o two.o three.o part.o " ARCHIVE,
     .made = ARCHIVE,
     .maker = "ar rcs " ARCHIVE " alone.o member.o other.o",
     .form = THEN_PACKED},
    {.name = "archive of packed",
     .options = "-O0",
     .words = "main.o " ARCHIVE,
     .made = ARCHIVE,
     .maker = "ar rcs " ARCHIVE " " PARTS " " OTHERS},
    {.name = "whole archive",
     .options = "-O0",
     .words = "main.o -Wl,--whole-archive " ARCHIVE " -Wl,--no-whole-archive",
     .made = ARCHIVE,
     .maker = "ar rcs " ARCHIVE " " PARTS " " OTHERS,
     .form = THEN_PACKED},
    {.name = "thin archive",
     .options = "-O0",
     .words = "main.o " ARCHIVE,
     .made = ARCHIVE,
     .maker = "ar rcsT " ARCHIVE " " PARTS " " OTHERS},
    {.name = "relocatable",
     .options = "-O0 -g",
     .words = "main.o joined.o",
     .made = "joined.o",
     .maker = "ld.bfd -r -o joined.o " PARTS " " OTHERS,
     .form = THEN_PACKED},
    {.name = "relocatable of packed",
     .options = "-O0 -g",
     .words = "main.o joined.o",
     .made = "joined.o",
     .maker = "ld.bfd -r -o joined.o " PARTS " " OTHERS},
    {.name = "relocatable by lld",
     .options = "-O0 -ffunction-sections",
     .words = "main.o joined.o -Wl,--gc-sections",
     .made = "joined.o",
     .maker = "ld.lld -r -o joined.o " PARTS " " OTHERS,
     .form = THEN_PACKED},
    {.name = "relocatable by gold",
     .options = "-O0 -ffunction-sections",
     .words = "main.o joined.o",
     .made = "joined.o",
     .maker = "ld.gold -r -o joined.o " PARTS " " OTHERS},
    {.name = "twice",
     .options = "-O0",
     .words = "alone.o " UNITS " again.o",
     .made = "again.o",
     .maker = "cp alone.o again.o"},
    {.name = "full LTO",
     .options = "-O1",
     .words = "-O1 -flto " ALL,
     .some = "-flto",
     .has_bitcode = true},
    {.name = "thin LTO",
     .options = "-O1",
     .words = "-O1 -flto=thin " ALL,
     .some = "-flto=thin",
     .has_bitcode = true,
     .linkers = "gold lld"},
    {.name = "part without mapping",
     .options = "-O0",
     .words = ALL,
     .some = "-fno-coverage-mapping"},
    {.name = "MC/DC",
     .options = "-O1 -fcoverage-mcdc",
     .words = ALL " -fcoverage-mcdc",
     .first = 18},
};

static void compile_kind(const struct kind *kind)
{
    struct text_list objects = {0};
    text_list_add_words(&objects, ALL);
    write_sources();
    for (size_t i = 0; i < objects.count; i++) {
        const char *object = objects.items[i];
        bool is_some = strcmp(object, "two.o") == 0 || strcmp(object, "alone.o") == 0;
        compile(object, is_some && kind->some != NULL
                            ? text_format("%s %s", kind->options, kind->some)
                            : kind->options);
        copy_and_pack(object);
    }
}

static void make_before_link(const struct kind *kind)
{
    if (kind->made == NULL) {
        return;
    }
    if (kind->maker == NULL) {
        link_image(ordinary, LIBRARY, "-shared " LIBRARY_ID " " PARTS);
        link_image(packed, LIBRARY, "-shared " LIBRARY_ID " " PARTS);
        split_image(LIBRARY, true);
        return;
    }
    run_words(ordinary, kind->maker);
    if (kind->form == THEN_PACKED) {
        copy_and_pack(kind->made);
    } else {
        run_words(packed, kind->maker);
    }
}

/* clang-16 finds lld 14, which cannot read its bitcode. */
static bool reads_bitcode(void)
{
    return strcmp(linker, "lld") != 0 || strcmp(clang, "16") != 0;
}

START_TEST(test_kind)
{
    const struct kind *kind = &kinds[_i];
    bool is_shared = kind->made != NULL && kind->maker == NULL;
    bool is_certain = !kind->has_bitcode || strcmp(linker, "bfd") == 0;
    const char *words = text_format(PROGRAM_ID " %s", kind->words);
    if (!rounds_have((unsigned)_i, 3) || atoi(clang) < kind->first ||
        (kind->linkers != NULL && strstr(kind->linkers, linker) == NULL) ||
        (kind->has_bitcode && !reads_bitcode())) {
        return;
    }
    compile_kind(kind);
    make_before_link(kind);
    link_image(ordinary, "app", words);
    link_image(packed, "app", words);
    split_image("app", is_certain);
    assert_same_profiles();
    assert_reports(is_certain ? FIRST_REPORT : FIRST_WITHOUT_ORDER,
                   is_shared ? "app -object " LIBRARY : "app");
}
END_TEST

/* ---- some objects packed ---- */

#define SOME_COUNT 5

/* All subsets of the first objects are packed, with garbage collection. */
START_TEST(test_some)
{
    static const char link[] = "-Wl,--gc-sections " PROGRAM_ID " " ALL;
    struct text_list objects = {0};
    text_list_add_words(&objects, ALL);
    compile_kind(&(struct kind){.options = "-O0 -ffunction-sections"});
    link_image(ordinary, "app", link);
    for (unsigned set = 1; set < 1 << SOME_COUNT; set++) {
        if (!rounds_have(set, 5)) {
            continue;
        }
        for (size_t i = 0; i < SOME_COUNT; i++) {
            if (set >> i & 1) {
                copy_and_pack(objects.items[i]);
            } else {
                file_copy(path_join(ordinary, objects.items[i]),
                          path_join(packed, objects.items[i]));
            }
        }
        link_image(packed, "app", link);
        split_image("app", true);
    }
    assert_same_profiles();
    assert_reports(FIRST_REPORT, "app");
}
END_TEST

/* ---- what is done with an image after its link ---- */

static const struct {
    const char *words;
    bool keeps_mapping;
} changes[] = {
    {"strip app", true},
    {"llvm-strip-%s app", false},
    {"objcopy --strip-debug app", true},
    {"llvm-objcopy-%s --strip-all-gnu app", true},
    {"objcopy --only-keep-debug app app", false},
};

/* What is left of the mapping is that of the ordinary image; or there is none, and it is said as of
 * the ordinary one. */
START_TEST(test_changed)
{
    const char *change = text_replace(changes[_i].words, "%s", clang);
    if (!rounds_have((unsigned)_i, 3)) {
        return;
    }
    compile_kind(&(struct kind){.options = "-O0 -g"});
    link_image(ordinary, "app", PROGRAM_ID " " ALL);
    link_image(packed, "app", PROGRAM_ID " " ALL);
    run_words(ordinary, change);
    run_words(packed, change);

    struct command plain = covsplit_words(ordinary, "export -o object app");
    struct command command = covsplit_words(packed, "export -o object app");
    struct outcome wanted = command_run(&plain);
    struct outcome outcome = command_run(&command);
    ck_assert_int_eq(outcome.exit_code, wanted.exit_code);
    ck_assert_str_eq(outcome.errors, wanted.errors);
    if (outcome.exit_code == 0) {
        assert_same_mapping(path_join(packed, "object"), path_join(ordinary, "app"));
        covsplit_run_words(scratch, 0, "split --sidecar side -o stripped/app packed/app");
        covsplit_run_words(scratch, 0, "join --sidecar side -o joined stripped/app");
        files_assert_equal(path_join(scratch, "joined"), path_join(packed, "app"), change);
    }
    ck_assert_int_eq(outcome.exit_code, changes[_i].keeps_mapping ? 0 : 1);
}
END_TEST

int main(int count, char **words)
{
    suite_arguments(count, words, "CLANG LINKER", &clang, &linker);
    TCase *kinds_case = suite_case("kinds of program", TEST_TIMEOUT_SECONDS, NULL);
    tcase_add_checked_fixture(kinds_case, prepare, NULL);
    suite_loops(kinds_case, COUNT(kinds), test_kind);
    TCase *others_case = suite_case("parts and changes", TEST_TIMEOUT_SECONDS, NULL);
    tcase_add_checked_fixture(others_case, prepare, NULL);
    suite_tests(others_case, test_some);
    suite_loops(others_case, COUNT(changes), test_changed);
    return suite_main("packed_reports", kinds_case, others_case);
}
