/*
 * covsplit_enable of the installed CMake package: what it packs and splits, what it leaves alone,
 * and that reports are those of a build without it.
 *
 * Usage: cmake_enable GENERATOR CONFIGURATION
 *
 * CONFIGURATION is - with a generator that has one for each build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/cmake_project.h"
#include "tests/support/covsplit_tool.h"

#define PROJECT COVSPLIT_FIXTURE_DIRECTORY "/cmake_enable"

static char *scratch;
static char *prefix;
static const char *generator;
static const char *configuration; /* "" for - */

static void prepare(void)
{
    scratch = scratch_create("cmake-enable");
    prefix = cmake_install_package(COVSPLIT_BUILD_DIRECTORY, scratch);
}

static struct outcome configure(const char *build, const char *option)
{
    return cmake_configure(PROJECT, build, prefix, generator, "-DCMAKE_CXX_COMPILER=clang++-22",
                           "-DCMAKE_INSTALL_LIBDIR=lib", option, NULL);
}

/* What the build printed. */
static const char *build_project(const char *build, const char *option)
{
    struct outcome outcome = configure(build, option);
    cmake_assert_smooth(&outcome);
    outcome = cmake_build(build, configuration, "-j4 -v");
    return cmake_assert_smooth(&outcome);
}

/* ---- what objects and images are like ---- */

/* How many sections of that name are in an object or in all of an archive. */
static size_t sections(const char *file, const char *name)
{
    const char *list = run_or_abort(NULL, "llvm-readelf-22", "-SW", file, NULL);
    return text_count(list, text_format(" %s ", name));
}

static bool has_records(const char *file)
{
    return sections(file, "__llvm_covfun") != 0;
}

static bool is_packed(const char *file)
{
    return sections(file, "__llvm_covmap") != 0 && !has_records(file);
}

static char *object(const char *build, const char *target, const char *source)
{
    return text_format("%s/CMakeFiles/%s.dir/%s/%s.o", build, target, configuration, source);
}

/* In the build directory, or in that of the configuration. */
static char *output(const char *build, const char *name)
{
    return path_join(path_join(build, configuration), name);
}

static char *shared_library(const char *build)
{
    return path_join(path_join(path_join(build, "below"), configuration), "libshared.so");
}

static bool is_split(const char *image)
{
    struct outcome outcome = covsplit_run(NULL, "show", image, NULL);
    return strstr(outcome.output, "already split        yes") != NULL;
}

/* llvm-cov's report of everything that was run. */
static const char *report(const char *build)
{
    char *profiles = path_join(build, "profiles");
    if (configuration[0] != '\0') { /* where it is looked for */
        file_copy(output(build, "alone.covsplit"), path_join(build, "alone.covsplit"));
    }
    static const char *const programs[] = {"program", "united", "alone"};
    for (size_t i = 0; i < 3; i++) {
        struct command run = {0};
        text_list_add(&run.arguments, output(build, programs[i]));
        text_list_add_format(&run.environment, "LLVM_PROFILE_FILE=%s/%%m.profraw", profiles);
        command_run_or_abort(&run);
    }
    covsplit_assert(0, build, "merge", "--llvm-profdata", "llvm-profdata-22", "--store", "sidecars",
                    "-o", "all.profdata", "profiles", NULL);
    return run_or_abort(build, covsplit_path(), "run", "--store", "sidecars", "--", "llvm-cov-22",
                        "export", "-instr-profile=all.profdata", output(build, "program"),
                        "-object", shared_library(build), "-object", output(build, "united"),
                        "-object", output(build, "alone"), NULL);
}

/* ---- tests ---- */

START_TEST(test_everything)
{
    char *build = path_join(scratch, "everything");
    const char *printed = build_project(build, "-DMISUSE=");
    const char *const packed[] = {
        object(build, "objects", "objects.c"),
        output(build, "libarchived.a"),
        object(build, "program", "program.c"),
        object(build, "alone", "small.c"),
        text_format("%s/CMakeFiles/united.dir/%s/Unity/unity_0_cxx.cxx.o", build, configuration),
        text_format("%s/below/CMakeFiles/shared.dir/%s/shared.c.o", build, configuration)};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        ck_assert_msg(is_packed(packed[i]), "%s is not packed", packed[i]);
    }
    ck_assert(has_records(object(build, "earlier", "small.c")));
    ck_assert(has_records(object(build, "other", "small.c")));
    ck_assert(!is_split(output(build, "earlier")) && !is_split(output(build, "other")));
    ck_assert(is_split(output(build, "program")) && is_split(shared_library(build)));
    ck_assert(is_split(output(build, "united")) && is_split(output(build, "alone")));
    ck_assert(file_exists(output(build, "alone.covsplit")));
    ck_assert(strstr(printed, " nothing.s") == NULL || strstr(printed, "-- nothing.s") == NULL);
    struct outcome outcome = cmake_build(build, configuration, "");
    ck_assert_ptr_null(strstr(cmake_assert_smooth(&outcome), "Building"));

    /* Without it, but for the split: the same report. */
    char *ordinary = path_join(scratch, "ordinary");
    build_project(ordinary, "-DENABLE=covsplit_enable(NO_PACK)");
    ck_assert(has_records(object(ordinary, "objects", "objects.c")));
    ck_assert_str_eq(report(build), report(ordinary));

    char *installed = path_join(scratch, "installed");
    outcome = cmake_install(build, configuration, installed);
    cmake_assert_smooth(&outcome);
    ck_assert(is_split(path_join(installed, "bin/program")));
    ck_assert(is_split(path_join(installed, "lib/libshared.so")));
    ck_assert(file_exists(path_join(installed, "share/sidecars/.build-id")));
}
END_TEST

/* What other programs have as launchers runs behind covsplit, also in the compiler's cache. */
START_TEST(test_behind)
{
    char *build = path_join(scratch, "behind");
    char *count = path_join(scratch, "count it");
    file_write_text(count,
                    text_format("#!/bin/sh\necho >> '%s/compilations'\nexec \"$@\"\n", scratch));
    ck_assert_int_eq(chmod(count, 0755), 0);
    build_project(build, text_format("-DCMAKE_C_COMPILER_LAUNCHER=%s;ccache", count));
    ck_assert(is_packed(object(build, "objects", "objects.c")));
    ck_assert(has_records(object(build, "other", "small.c")));
    struct contents compilations = file_read(path_join(scratch, "compilations"));
    ck_assert_uint_eq(compilations.size, 8); /* of C, with the precompiled header */
}
END_TEST

/* Targets by their names; a part of the work; a second call in place of the first. */
START_TEST(test_parts)
{
    char *build = path_join(scratch, "parts");
    char *lines = path_join(scratch, "lines.cmake");
    file_write_text(lines, "covsplit_enable(TARGETS earlier STORE a)\n"
                           "covsplit_enable(STORE nowhere)\n"
                           "covsplit_enable(NO_SPLIT)\n");
    build_project(build, text_format("-DENABLE=include([[%s]])", lines));
    ck_assert(is_packed(object(build, "earlier", "small.c")));
    ck_assert(is_packed(object(build, "objects", "objects.c")));
    ck_assert(is_split(output(build, "earlier")));
    ck_assert(!is_split(output(build, "program")));
    ck_assert(is_split(output(build, "alone")));
    ck_assert(file_exists(path_join(build, "a")) && !file_exists(path_join(build, "nowhere")));
}
END_TEST

struct misuse {
    const char *code;
    const char *message;
};

static const struct misuse misuses[] = {
    {"covsplit_enable(EVERYTHING)", "what is 'EVERYTHING'?"},
    {"covsplit_enable(STORE)", "what is 'STORE'?"},
    {"covsplit_enable(TARGETS)", "what is 'TARGETS'?"},
    {"covsplit_enable(TARGETS nosuch)", "there is no target nosuch"},
    {"covsplit_enable(EXCLUDE nosuch)", "there is no target nosuch"},
    {"covsplit_enable(TARGETS covsplit::command)", "is not built here"},
    {"covsplit_enable(TARGETS other EXCLUDE other)", "exclude each other"},
    {"covsplit_enable(NO_PACK NO_SPLIT)", "nothing is left to do"},
    {"covsplit_enable(NO_SPLIT STORE s)", "are for what is split"},
    {"covsplit_enable(COMPONENT c)", "COMPONENT is for"},
};

START_TEST(test_misuse)
{
    char *build = path_join(scratch, text_format("misuse%d", _i));
    struct outcome outcome = configure(build, text_format("-DMISUSE=%s", misuses[_i].code));
    ck_assert_msg(outcome.exit_code > 0 && strstr(outcome.errors, misuses[_i].message) != NULL,
                  "%s", outcome.errors);
}
END_TEST

/* covsplit as a part of the project is built before what it packs. */
START_TEST(test_subdirectory)
{
    char *build = path_join(scratch, "subdirectory");
    struct outcome outcome =
        configure(build, "-DCOVSPLIT_SOURCES=" COVSPLIT_FIXTURE_DIRECTORY "/../..");
    cmake_assert_smooth(&outcome);
    outcome = cmake_build(build, configuration, "-j2 --target program");
    cmake_assert_smooth(&outcome);
    ck_assert(is_packed(object(build, "objects", "objects.c")));
    ck_assert(is_split(output(build, "program")));
    outcome = cmake_build(build, configuration, "-j2");
    cmake_assert_smooth(&outcome);
    ck_assert(is_split(output(build, "alone")));
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "GENERATOR CONFIGURATION", &generator,
                    &configuration);
    bool is_alone = strcmp(configuration, "-") == 0;
    configuration = is_alone ? "" : configuration;
    TCase *test_case = suite_case("enable", 600, prepare);
    suite_tests(test_case, test_everything);
    if (strcmp(generator, "Ninja") != 0) { /* the daily tier runs Ninja only */
        suite_tests(test_case, test_behind, test_parts, test_subdirectory);
        suite_loops(test_case, sizeof misuses / sizeof *misuses, test_misuse);
    }
    return suite_main("covsplit_enable", test_case);
}
