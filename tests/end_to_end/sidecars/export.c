/*
 * Exported objects in place of images: what LLVM's tools say of them must be what they say of the
 * unsplit image, and what is in the way must not be lost.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

#define APP     MANY_UNITS_PROGRAM
#define LIBRARY MANY_UNITS_LIBRARY

static char *scratch;
static char *sample; /* a directory with a program by clang-19, its sidecar, and its profile */
static const char *sample_uuid;

/* ---- steps ---- */

/* Runs covsplit with the words of a text; returns standard error. */
static const char *run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

/* Runs a tool of LLVM with the words of a text; returns standard output. */
static const char *llvm(const char *directory, const char *tool, const char *clang,
                        const char *words)
{
    struct command command = command_words(directory, "%s %s", versioned_tool(tool, clang), words);
    return command_run_or_abort(&command);
}

static void assert_same(const char *directory, const char *name, const char *other)
{
    files_assert_equal(path_join(directory, name), path_join(directory, other), name);
}

static void assert_says(const char *errors, const char *text)
{
    ck_assert_msg(strstr(errors, text) != NULL, "'%s' is not in: %s", text, errors);
    ck_assert_msg(strstr(errors, "covsplit: error: ") == errors && text_count(errors, "\n") == 1,
                  "not one message: %s", errors);
}

static const char *uuid_of(const char *path)
{
    struct elf_file file = elf_file_read(path);
    const char *uuid = elf_file_build_id(&file);
    return uuid;
}

static const char *debug_path(const char *directory, const char *uuid)
{
    return text_format("%s/.build-id/%.2s/%s.debug", directory, uuid, uuid + 2);
}

static void run_program(const char *directory, const char *profile)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, APP));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_run_or_abort(&command);
}

static char *new_directory(void)
{
    static unsigned count;
    char *directory = path_join(scratch, text_format("test%d-%u", (int)getpid(), count++));
    directory_create(directory);
    return directory;
}

/* Builds the program and has its profile as app.profdata. */
static char *build(const struct many_units *program)
{
    char *directory = new_directory();
    many_units_build(program, directory);
    run_program(directory, "%m.profraw");
    struct command merge = command_words(directory, "%s merge -o app.profdata",
                                         versioned_tool("llvm-profdata", program->clang));
    struct text_list names = directory_list(directory);
    for (size_t i = 0; i < names.count; i++) {
        if (strstr(names.items[i], ".profraw") != NULL) {
            text_list_add(&merge.arguments, names.items[i]);
        }
    }
    command_run_or_abort(&merge);
    return directory;
}

static char *build_sample(void)
{
    struct many_units program = {.clang = "19"};
    char *directory = build(&program);
    run(directory, 0, "split -o out --sidecar side " APP);
    return directory;
}

static const char *const reports[] = {
    "report",
    "show -show-branches=count -show-expansions -show-instantiations",
    "export",
    "export -format=lcov",
};

/* All reports with `before` and with `after` behind the command must be the same. */
static void assert_same_reports(const char *directory, const char *clang, const char *before,
                                const char *after)
{
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        const char *options = text_format("%s -instr-profile=app.profdata", reports[i]);
        const char *expected =
            llvm(directory, "llvm-cov", clang, text_format("%s %s", options, before));
        const char *found =
            llvm(directory, "llvm-cov", clang, text_format("%s %s", options, after));
        ck_assert_msg(strlen(expected) > 100, "nothing is reported: %s", expected);
        ck_assert_msg(strcmp(expected, found) == 0, "llvm-cov-%s %s: %s and %s differ", clang,
                      reports[i], before, after);
    }
}

/* ---- what the tools say ---- */

static const char *const clangs[] = {"14", "16", "19", "22"};

/* With the object in the place of the image, and by UUID with no object at all. */
START_TEST(test_reports)
{
    const char *clang = clangs[_i];
    struct many_units program = {.clang = clang};
    char *directory = build(&program);
    run(directory, 0, "split -o out --sidecar side " APP);
    run(directory, 0, "export --sidecar side -o object");
    assert_same_reports(directory, clang, APP, "object");
    run(directory, 0, "export --sidecar side --debug-dir debug");
    assert_same(directory, "object", debug_path("debug", uuid_of(path_join(directory, APP))));
    if (strcmp(clang, "14") != 0) {
        assert_same_reports(directory, clang, APP, "-debug-file-directory=debug");
    }
}
END_TEST

static const struct variant {
    const char *options;
    const char *split;  /* options */
    const char *copied; /* names that stay in the image */
} variants[] = {
    {"-no-pie -O1", "", NULL},
    {"-static -O0", "", NULL},
    {"-fuse-ld=lld -O1", "--portable", NULL},
    {"-Wl,--emit-relocs", "", NULL},
    {"-Wl,--strip-all", "", "copied"},
    {"-O1", "--sections covmap,covfun", "copied"},
    {"-O1 -fcoverage-mcdc", "", NULL},
};

#define VARIANT_COUNT ((int)(sizeof variants / sizeof *variants))

START_TEST(test_variants)
{
    if (!rounds_have((unsigned)_i, 2)) {
        return;
    }
    const struct variant *variant = &variants[_i];
    struct many_units program = {.clang = "22", .options = variant->options};
    char *directory = build(&program);
    run(directory, 0, text_format("split %s -o out --sidecar side " APP, variant->split));
    struct outcome shown = covsplit_run(directory, "show", "side", NULL);
    ck_assert_msg((strstr(shown.output, " copied") != NULL) == (variant->copied != NULL), "%s: %s",
                  variant->options, shown.output);
    run(directory, 0, "export --sidecar side -o object");
    assert_same_reports(directory, "22", APP, "object");
    run(directory, 0, "verify --image out side");
    run(directory, 0, "join --sidecar side -o joined out");
    assert_same(directory, "joined", APP);
    /* A profile with and without names of its own. */
    file_copy(path_join(directory, "out"), path_join(directory, APP));
    run_program(directory, "lightweight.profraw");
    run(directory, 0, "correlate --sidecar side -o full.profraw lightweight.profraw");
    llvm(directory, "llvm-profdata", "22", "merge -o full.profdata full.profraw");
    assert_same(directory, "full.profdata", "app.profdata");
}
END_TEST

START_TEST(test_shared_library)
{
    struct many_units program = {.clang = "19", .shared = true};
    char *directory = build(&program);
    run(directory, 0, "split -o out --store store " APP);
    run(directory, 0, "split -o out.so --store store " LIBRARY);
    run(directory, 0, "export --store store --debug-dir debug");
    const char *app = debug_path("debug", uuid_of(path_join(directory, APP)));
    const char *library = debug_path("debug", uuid_of(path_join(directory, LIBRARY)));
    assert_same_reports(directory, "19", APP " -object " LIBRARY,
                        text_format("%s -object %s", app, library));
    assert_same_reports(directory, "19", LIBRARY, library);
}
END_TEST

static const char *const correlating_clangs[] = {"19", "22"};

/* Profiles without names and data, which llvm-profdata takes from the object. */
START_TEST(test_binary_correlation)
{
    const char *clang = correlating_clangs[_i];
    struct many_units program = {.clang = clang, .options = "-O1 -mllvm -profile-correlate=binary"};
    char *directory = new_directory();
    many_units_build(&program, directory);
    run_program(directory, "app.profraw");
    llvm(directory, "llvm-profdata", clang,
         "merge --binary-file=" APP " -o app.profdata app.profraw");
    run(directory, 0, "split -o out --sidecar side " APP);
    run(directory, 0, "export --sidecar side -o object");
    llvm(directory, "llvm-profdata", clang,
         "merge --binary-file=object -o object.profdata app.profraw");
    assert_same(directory, "object.profdata", "app.profdata");
    assert_same_reports(directory, clang, APP, "object");
}
END_TEST

/* ---- the files ---- */

/* Tools for debug information take the object as such, and have nothing to say about it. */
START_TEST(test_tools_for_debug_information)
{
    static const char *const quiet[] = {
        "eu-elfclassify --debug-only object",
        "eu-elfclassify --not-executable object",
        "eu-readelf -h -l -S -n object",
        "readelf -a -W -w object",
        "gdb -nx -batch object",
        "llvm-dwarfdump-19 --verify object",
    };
    char *directory = new_directory();
    file_copy(path_join(sample, "side"), path_join(directory, "side"));
    run(directory, 0, "export --sidecar side -o object");
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        struct command command = {.directory = directory};
        text_list_add_words(&command.arguments, quiet[i]);
        struct outcome outcome = command_run(&command);
        ck_assert_msg(outcome_exited(&outcome, 0) && outcome.errors_size == 0, "%s",
                      outcome_describe(&command, &outcome));
    }
    ck_assert_str_eq(uuid_of(path_join(directory, "object")), sample_uuid);
    struct outcome shown = covsplit_run(directory, "show", "object", NULL);
    ck_assert_msg(text_count(shown.output, "object") >= 2 &&
                      strstr(shown.output, sample_uuid) != NULL,
                  "%s", shown.output);
}
END_TEST

START_TEST(test_an_object_is_no_image_and_no_sidecar)
{
    char *directory = new_directory();
    file_copy(path_join(sample, "side"), path_join(directory, "side"));
    run(directory, 0, "export --sidecar side -o object");
    file_copy(path_join(directory, "object"), path_join(directory, "copy"));
    assert_says(run(directory, 1, "split object"), "covsplit export made");
    assert_says(run(directory, 1, "verify object"), "not a sidecar");
    assert_says(run(directory, 1, "export --sidecar object -o other"), "not a sidecar");
    assert_same(directory, "object", "copy");
    ck_assert(!file_exists(path_join(directory, "object.covsplit")));
    ck_assert(!file_exists(path_join(directory, "other")));
}
END_TEST

START_TEST(test_same_bytes_and_untouched)
{
    char *directory = new_directory();
    file_copy(path_join(sample, "side"), path_join(directory, "side"));
    run(directory, 0, "export --sidecar side -o object");
    run(directory, 0, "export --sidecar side -o again");
    assert_same(directory, "object", "again");
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path_join(directory, "object"), old, 0), 0);
    run(directory, 0, "export --sidecar side -o object");
    ck_assert_int_eq(file_status(path_join(directory, "object")).st_mtim.tv_sec, 1000);
}
END_TEST

/* Whatever is in the place of an object stays, unless it is one, or empty. */
START_TEST(test_what_is_in_the_way)
{
    char *directory = new_directory();
    const char *path = debug_path("debug", sample_uuid);
    file_copy(path_join(sample, "side"), path_join(directory, "side"));
    run(directory, 0, "export --sidecar side -o object");
    run(directory, 0, "export --sidecar side --debug-dir debug");
    run_or_abort(directory, "eu-strip", "-f", "real", path_join(sample, APP), "-o", "stripped",
                 NULL);
    file_copy(path_join(directory, "real"), path_join(directory, path));
    assert_says(run(directory, 1, "export --sidecar side --debug-dir debug"), "--replace");
    assert_same(directory, path, "real");
    run(directory, 0, "export --sidecar side --debug-dir debug --replace");
    assert_same(directory, path, "object");

    file_copy(path_join(directory, "side"), path_join(directory, "kept"));
    assert_says(run(directory, 1, "export --sidecar kept --replace -o side"), "is a sidecar");
    assert_same(directory, "side", "kept");
    file_write_text(path_join(directory, "empty"), "");
    run(directory, 0, "export --sidecar side -o empty");
    assert_same(directory, "empty", "object");
}
END_TEST

/* The sample's sidecar, and two others. */
static void fill_store(const char *directory)
{
    run(directory, 0, text_format("split --store store -o out %s", path_join(sample, APP)));
    for (size_t i = 0; i < 2; i++) {
        struct many_units program = {.clang = clangs[i]};
        char *other = new_directory();
        many_units_build(&program, other);
        run(directory, 0, text_format("split --store store -o out %s", path_join(other, APP)));
    }
}

/* One sidecar that cannot be exported is a message, and the others are. */
START_TEST(test_store)
{
    char *directory = new_directory();
    fill_store(directory);
    run(directory, 0, "export --store store --debug-dir debug");
    const char *all = run_or_abort(directory, "find", "debug", "-name", "*.debug", NULL);
    ck_assert_uint_eq(text_count(all, "\n"), 3);

    run(directory, 0, text_format("export --store store -o one %.6s", sample_uuid));
    assert_same(directory, "one", debug_path("debug", sample_uuid));
    /* A split image stands for its sidecar. */
    run(directory, 0, text_format("split --store store -o split %s", path_join(sample, APP)));
    run(directory, 0, "export --store store -o other split");
    assert_same(directory, "other", "one");
    /* It is as old as the image, so that llvm-cov does not find it newer than profiles, and make
     * not older than the image. */
    ck_assert_int_eq(file_status(path_join(directory, "other")).st_mtim.tv_nsec,
                     file_status(path_join(directory, "split")).st_mtim.tv_nsec);
    const char *entry =
        text_format("store/.build-id/%.2s/%s.covsplit", sample_uuid, sample_uuid + 2);
    ck_assert_int_eq(file_status(path_join(directory, "one")).st_mtim.tv_nsec,
                     file_status(path_join(directory, entry)).st_mtim.tv_nsec);
    run(directory, 0, "export --union --store store -o union split");
    /* Also one that is beside it. */
    directory_create(path_join(directory, "deep"));
    run(directory, 0,
        text_format("split -o deep/app --sidecar deep/app.covsplit %s", path_join(sample, APP)));
    run(directory, 0, "export -o beside deep/app");
    assert_same(directory, "beside", "one");
    assert_says(run(directory, 2, "export --store store -o other 993"), "'993' does not exist; ");
    assert_says(run(directory, 1,
                    text_format("export --store store --debug-dir some 99999999 %s", sample_uuid)),
                "no sidecar of UUID 99999999");
    assert_same(directory, debug_path("some", sample_uuid), "one");

    const char *sidecar =
        text_format("store/.build-id/%.2s/%s.covsplit", sample_uuid, sample_uuid + 2);
    struct contents contents = file_read(path_join(directory, sidecar));
    contents.data[contents.size / 2] ^= 1;
    file_write(path_join(directory, sidecar), contents.data, contents.size);
    assert_says(run(directory, 1, "export --store store --debug-dir others"), sidecar);
    all = run_or_abort(directory, "find", "others", "-name", "*.debug", NULL);
    ck_assert_uint_eq(text_count(all, "\n"), 2);

    struct command command = covsplit_command(directory, "export", "--debug-dir", "listed", NULL);
    text_list_add_format(&command.environment, "COVSPLIT_STORE=/nowhere:%s/store", directory);
    struct outcome outcome = command_run(&command);
    ck_assert(outcome_exited(&outcome, 1));
    all = run_or_abort(directory, "find", "listed", "-name", "*.debug", NULL);
    ck_assert_uint_eq(text_count(all, "\n"), 2);
}
END_TEST

START_TEST(test_refusals)
{
    char *directory = new_directory();
    file_copy(path_join(sample, "side"), path_join(directory, "side"));
    file_copy(path_join(sample, APP), path_join(directory, "image"));
    directory_create(path_join(directory, "empty"));
    assert_says(run(directory, 1, "export --store empty --debug-dir debug"), "no sidecars");
    assert_says(run(directory, 1, "export --store nowhere --debug-dir debug"), "no sidecars");
    assert_says(run(directory, 1, "export --sidecar image -o object"), "not a sidecar");
    assert_says(run(directory, 1, "export --sidecar nowhere -o object"), "nowhere: ");
    run(directory, 0, "split --sections data --sidecar data -o out image");
    assert_says(run(directory, 1, "export --sidecar data -o object"), "no coverage mapping");
    run(directory, 0, "split --sections covmap --sidecar part -o out image");
    assert_says(run(directory, 1, "export --sidecar part -o object"), "only a part");
    assert_says(run(directory, 1, "export --sidecar side -o nowhere/object"), "nowhere");
    ck_assert(!file_exists(path_join(directory, "object")));
    ck_assert(!file_exists(path_join(directory, "debug")));

    static const char *const wrong[] = {
        "export --sidecar side",
        "export --sidecar side -o object --debug-dir debug",
        "export --sidecar side --store empty -o object",
        "export --sidecar side -o object 0123",
        "export --store empty -o object",
        "export --store empty -o object 01 02",
        "export --store empty -o object xyz",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run(directory, 2, wrong[i]);
    }
    assert_says(run(directory, 1, "split side"), "side: is a sidecar; ");
    assert_says(run(directory, 2, "export -o object side"), "'side' is a sidecar; name it by ");
    run(directory, 0, "export --store empty -o made image");
    /* Without a place it is the current directory. */
    assert_says(run(directory, 1, "export -o object"), "the current directory: no sidecars");
}
END_TEST

/* The first byte of a UUID is a directory; where there is no second one, no name is left. */
START_TEST(test_short_uuids)
{
    char *directory = new_directory();
    struct many_units program = {.clang = "19", .options = "-Wl,--build-id=0xab"};
    many_units_build(&program, directory);
    run(directory, 0, "split -o out --sidecar side " APP);
    run(directory, 0, "export --sidecar side -o object");
    assert_says(run(directory, 1, "export --sidecar side --debug-dir debug"), "too short");
    program.options = "-Wl,--build-id=0xabcd";
    many_units_build(&program, directory);
    run(directory, 0, "split -o out --sidecar side " APP);
    run(directory, 0, "export --sidecar side --debug-dir debug");
    ck_assert(file_exists(path_join(directory, "debug/.build-id/ab/cd.debug")));
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("export");
    sample = build_sample();
    sample_uuid = uuid_of(path_join(sample, APP));
}

/* ---- grcov ---- */

/* Stands for rustc, which grcov asks where LLVM's tools are. */
static const char rustc[] =
    "#!/bin/sh\n"
    "case $* in\n"
    "\"--print sysroot\") echo \"${0%/*}/sysroot\" ;;\n"
    "*) printf 'rustc 1.63.0\\nbinary: rustc\\ncommit-hash: 0\\n'\n"
    "   printf 'commit-date: 2022-08-08\\nhost: x86_64-unknown-linux-gnu\\n'\n"
    "   printf 'release: 1.63.0\\nLLVM version: 19.1.0\\n' ;;\n"
    "esac\n";

/* What grcov makes of the profiles and of the objects below a directory, which must be something.
 */
static const char *grcov(const char *directory, const char *profiles, const char *objects)
{
    struct command command =
        command_words(directory, "grcov %s -b %s -s . -t lcov -o out.info", profiles, objects);
    text_list_add_format(&command.environment, "RUSTC=%s/rustc", directory);
    command_run_or_abort(&command);
    const char *report = run_or_abort(directory, "cat", "out.info", NULL);
    ck_assert_msg(strstr(report, "\nDA:") != NULL, "grcov has found nothing in %s", objects);
    return report;
}

/* Objects are executable for those who may read them, since grcov takes no other files: its report
 * is that of the unsplit image then. */
START_TEST(test_grcov)
{
    char *directory = scratch_create("grcov");
    const char *tools = path_join(directory, "sysroot/lib/rustlib/x86_64-unknown-linux-gnu");
    run_or_abort(directory, "mkdir", "-p", tools, "original", NULL);
    ck_assert_int_eq(symlink("/usr/lib/llvm-19/bin", path_join(tools, "bin")), 0);
    file_write_text(path_join(directory, "rustc"), rustc);
    ck_assert_int_eq(chmod(path_join(directory, "rustc"), 0755), 0);
    file_write_text(
        path_join(directory, "program.c"),
        "int twice(int x) { return x > 5 ? 2 * x : x; }\n"
        "int main(int count, char **words) { (void)words; return twice(count) != 1; }\n");
    run_or_abort(directory, "clang-19", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id", "-o", "original/app", "program.c", NULL);
    run(directory, 0, "split --store store -o app original/app");
    struct command command = command_words(directory, "sh -c");
    text_list_add(&command.arguments, "LLVM_PROFILE_FILE=full.profraw original/app && "
                                      "LLVM_PROFILE_FILE=light.profraw ./app");
    command_run_or_abort(&command);
    run(directory, 0, "merge --store store -o merged.profraw light.profraw");
    run(directory, 0, "export --store store --debug-dir debug");
    run(directory, 0, "export --store store -o object app");
    const char *expected = grcov(directory, "full.profraw", "original");
    ck_assert_str_eq(grcov(directory, "merged.profraw", "debug"), expected);
    ck_assert_str_eq(grcov(directory, "merged.profraw", "object"), expected);
    command = command_words(directory, "sh -c");
    text_list_add_format(&command.arguments, "umask 027; '%s' export --store store -o private app",
                         covsplit_path());
    command_run_or_abort(&command);
    ck_assert_uint_eq(file_status(path_join(directory, "private")).st_mode & 0777, 0750);
}
END_TEST

int main(void)
{
    TCase *all = suite_case("export", 300, prepare);
    suite_loops(all, 4, test_reports);
    suite_loops(all, VARIANT_COUNT, test_variants);
    tcase_add_test(all, test_shared_library);
    suite_loops(all, 2, test_binary_correlation);
    suite_tests(all, test_tools_for_debug_information, test_an_object_is_no_image_and_no_sidecar,
                test_same_bytes_and_untouched, test_what_is_in_the_way, test_store, test_refusals,
                test_short_uuids, test_grcov);
    return suite_main("export", all);
}
