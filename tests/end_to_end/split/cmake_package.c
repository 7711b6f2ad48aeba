/*
 * covsplit_target of the installed CMake package, in a project of its own, with every kind of
 * generator that there is for it here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/cmake_project.h"
#include "tests/support/covsplit_tool.h"

#define PROJECT COVSPLIT_FIXTURE_DIRECTORY "/cmake_package"

static char *scratch;
static char *prefix;

static void prepare(void)
{
    scratch = scratch_create("cmake-package");
    prefix = cmake_install_package(COVSPLIT_BUILD_DIRECTORY, scratch);
}

static const struct cmake_generator generators[] = {
    {"Ninja", ""},
    {"Unix Makefiles", ""},
    {"Ninja Multi-Config", "Debug"},
    {"Ninja Multi-Config", "Release"},
};

static struct outcome configure(const char *build, const char *generator, const char *option)
{
    return cmake_configure(PROJECT, build, prefix, generator, option, NULL);
}

static void configure_or_abort(const char *build, const char *generator, const char *option)
{
    struct outcome outcome = configure(build, generator, option);
    cmake_assert_smooth(&outcome);
}

static void build_or_abort(const char *build, const char *configuration, const char *words)
{
    struct outcome outcome = cmake_build(build, configuration, words);
    cmake_assert_smooth(&outcome);
}

/* The image is one that was split, and the sidecar, or the store, gives its original back. */
static void assert_split(const char *option, const char *sidecar, const char *image)
{
    covsplit_assert(0, NULL, "join", option, sidecar, "-o", path_join(scratch, "joined"), image,
                    NULL);
}

/* A sidecar that was deleted comes back with its image, and then nothing is left to do. */
static void assert_comes_back(const char *build, const struct cmake_generator *generator,
                              const char *image, const char *sidecar)
{
    struct contents deleted = file_read(sidecar);
    ck_assert_int_eq(unlink(sidecar), 0);
    struct outcome outcome = cmake_build(build, generator->configuration, "");
    cmake_assert_smooth(&outcome);
    ck_assert_msg(strstr(outcome.output, " is lost: ") != NULL, "%s", outcome.output);
    outcome_free(&outcome);
    struct contents made = file_read(sidecar);
    ck_assert(contents_equal(&made, &deleted));
    assert_split("--sidecar", sidecar, image);
    outcome = cmake_build(build, generator->configuration, "");
    cmake_assert_smooth(&outcome);
    ck_assert_msg(strstr(outcome.output, "Linking") == NULL, "%s", outcome.output);
}

START_TEST(test_build)
{
    const struct cmake_generator *generator = &generators[_i];
    char *build = path_join(scratch, text_format("build%d", _i));
    char *output = path_join(build, generator->configuration);
    char *installed = path_join(scratch, text_format("installed%d", _i));
    configure_or_abort(build, generator->name, "-DCMAKE_INSTALL_LIBDIR=lib");
    build_or_abort(build, generator->configuration, "-j4");
    const char *configuration = generator->configuration[0] != '\0' ? generator->configuration : "";
    assert_split("--sidecar", path_join(output, "program.covsplit"), path_join(output, "program"));
    assert_split("--store", path_join(build, "sidecars"), path_join(output, "libnumbers.so"));
    char *plugin = path_join(build, text_format("new/%s/plugin.covsplit", configuration));
    assert_split("--sidecar", plugin, path_join(output, "libplugin.so"));
    assert_split("--store", path_join(output, "more sidecars"), path_join(output, "tool"));
    run_or_abort(build, path_join(output, "program"), NULL);
    struct contents description = file_read(path_join(build, "description.txt"));
    ck_assert_ptr_nonnull(
        memmem(description.data, description.size, "already split", strlen("already split")));

    struct outcome outcome = cmake_install(build, generator->configuration, installed);
    cmake_assert_smooth(&outcome);
    assert_split("--store", path_join(installed, "share/sidecars"),
                 path_join(installed, "lib/libnumbers.so"));
    ck_assert(file_exists(path_join(installed, "share/covsplit-sidecars/program.covsplit")));
    struct command run = {0};
    text_list_add(&run.arguments, path_join(installed, "bin/program"));
    text_list_add_format(&run.environment, "LD_LIBRARY_PATH=%s/lib", installed);
    text_list_add_format(&run.environment, "LLVM_PROFILE_FILE=%s/%%p.profraw", scratch);
    command_run_or_abort(&run);

    assert_comes_back(build, generator, path_join(output, "program"),
                      path_join(output, "program.covsplit"));
    assert_comes_back(build, generator, path_join(output, "libplugin.so"), plugin);

    build_or_abort(build, generator->configuration, "--target clean");
    ck_assert(!file_exists(path_join(output, "program")));
    ck_assert(!file_exists(path_join(output, "program.covsplit")));
}
END_TEST

/* A split that fails leaves nothing that a second build would take for done. */
START_TEST(test_failure)
{
    char *build = path_join(scratch, text_format("failure%d", _i));
    configure_or_abort(build, generators[_i].name, "-DSPLIT_OPTIONS=--no-such-option");
    for (int i = 0; i < 2; i++) {
        struct outcome outcome = cmake_build(build, "", "");
        ck_assert_msg(outcome.exit_code > 0, "%s", outcome.output);
        ck_assert(!file_exists(path_join(build, "program")));
        ck_assert(!file_exists(path_join(build, "program.covsplit")));
        outcome_free(&outcome);
    }
    configure_or_abort(build, generators[_i].name, "-DSPLIT_OPTIONS=--portable");
    build_or_abort(build, "", "");
    assert_split("--sidecar", path_join(build, "program.covsplit"), path_join(build, "program"));
}
END_TEST

/* Lists of CMake trip over a bracket. (Targets of CMake's own with files to make do, too.) */
START_TEST(test_bracket)
{
    char *build = path_join(scratch, text_format("bracket [%d", _i));
    configure_or_abort(build, generators[_i].name, "-DDESCRIBE=OFF");
    build_or_abort(build, "", "");
    assert_split("--sidecar", path_join(build, "program.covsplit"), path_join(build, "program"));
    assert_split("--store", path_join(build, "sidecars"), path_join(build, "libnumbers.so"));
}
END_TEST

struct misuse {
    const char *code;
    const char *message;
};

static const struct misuse misuses[] = {
    {"covsplit_target(nosuch)", "there is no such target"},
    {"covsplit_target(fixed)", "only executables"},
    {"covsplit_target(covsplit::command)", "only executables"},
    {"covsplit_target(program)", "it is already split"},
    {"covsplit_target(other STORE s SIDECAR f)", "exclude each other"},
    {"covsplit_target(other SIDECARS f)", "what is 'SIDECARS;f'?"},
    {"covsplit_target(other STORE)", "what is 'STORE'?"},
    {"covsplit_target(other COMPONENT c)", "COMPONENT is for"},
};

START_TEST(test_misuse)
{
    char *build = path_join(scratch, text_format("misuse%d", _i));
    struct outcome outcome =
        configure(build, "Ninja", text_format("-DMISUSE=%s", misuses[_i].code));
    ck_assert_msg(outcome.exit_code > 0 && strstr(outcome.errors, misuses[_i].message) != NULL,
                  "%s", outcome.errors);
}
END_TEST

/* No sidecar is written over by that of another configuration, or of another target. */
START_TEST(test_clash)
{
    static const struct {
        const char *generator;
        const char *sidecar;
        const char *problem;
        bool when_configured;
    } clashes[] = {
        {"Ninja Multi-Config", "one.covsplit", "all configurations would have one", true},
        {"Ninja Multi-Config", "$<1:${CMAKE_BINARY_DIR}>/one.covsplit", "Give each its own", false},
        {"Unix Makefiles", "program.covsplit", "Give each its own", false},
    };
    char *build = path_join(scratch, text_format("clash%d", _i));
    struct outcome outcome =
        configure(build, clashes[_i].generator,
                  text_format("-DMISUSE=covsplit_target(other SIDECAR %s)", clashes[_i].sidecar));
    if (!clashes[_i].when_configured) {
        cmake_assert_smooth(&outcome);
        outcome_free(&outcome);
        outcome = cmake_build(build, "", "--target other");
    }
    ck_assert_msg(outcome.exit_code > 0 && (strstr(outcome.output, clashes[_i].problem) != NULL ||
                                            strstr(outcome.errors, clashes[_i].problem) != NULL),
                  "%s%s", outcome.output, outcome.errors);
}
END_TEST

/* Only the build shows what comes of a generator expression. */
START_TEST(test_no_place)
{
    static const char *const places[] = {"SIDECAR $<0:x>", "STORE $<1:x>"};
    static const char *const problems[] = {"'' is not an absolute path",
                                           "'x' is not an absolute path"};
    char *build = path_join(scratch, text_format("no place%d", _i));
    configure_or_abort(build, "Ninja",
                       text_format("-DMISUSE=covsplit_target(other %s)", places[_i]));
    struct outcome outcome = cmake_build(build, "", "--target other");
    ck_assert_msg(outcome.exit_code > 0 && strstr(outcome.output, problems[_i]) != NULL, "%s",
                  outcome.output);
    ck_assert(!file_exists(path_join(build, "other")));
}
END_TEST

/* The other way into a build of CMake: everything that is linked goes through covsplit link. */
START_TEST(test_launcher)
{
    char *build = path_join(scratch, "launcher");
    struct outcome outcome =
        cmake_configure(COVSPLIT_FIXTURE_DIRECTORY "/link_launcher", build, prefix, "Ninja",
                        text_format("-DCMAKE_C_LINKER_LAUNCHER=%s/bin/covsplit;link;--fast;"
                                    "--store;%s/sidecars;--",
                                    prefix, build),
                        NULL);
    ck_assert(outcome_exited(&outcome, 0)); /* it has no use for the prefix, as CMake warns */
    build_or_abort(build, "", "");
    assert_split("--store", path_join(build, "sidecars"), path_join(build, "program"));
    run_or_abort(build, path_join(build, "program"), NULL);
}
END_TEST

/* Both ways together: what covsplit_target names is split once, as it says, and by nobody else; all
 * the rest of the launcher stays. */
START_TEST(test_launcher_beside)
{
    char *build = path_join(scratch, "beside");
    char *count = path_join(scratch, "count");
    file_write_text(count, text_format("#!/bin/sh\necho >> '%s/links'\nexec \"$@\"\n", scratch));
    ck_assert_int_eq(chmod(count, 0755), 0);
    configure_or_abort(build, "Ninja",
                       text_format("-DCMAKE_C_LINKER_LAUNCHER=%s;%s/bin/covsplit;link;--store;"
                                   "%s/others;--",
                                   count, prefix, build));
    struct outcome outcome = cmake_build(build, "", "");
    ck_assert_msg(outcome_exited(&outcome, 0) && strstr(outcome.output, "warning") == NULL &&
                      strstr(outcome.errors, "warning") == NULL,
                  "%s%s", outcome.output, outcome.errors);
    assert_split("--sidecar", path_join(build, "program.covsplit"), path_join(build, "program"));
    assert_split("--store", path_join(build, "sidecars"), path_join(build, "libnumbers.so"));
    ck_assert(!file_exists(path_join(build, "others")));
    struct contents links = file_read(path_join(scratch, "links"));
    ck_assert_uint_eq(links.size, 4);
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("package", 300, prepare);
    suite_loops(test_case, sizeof generators / sizeof *generators, test_build);
    suite_loops(test_case, 2, test_failure, test_bracket);
    suite_loops(test_case, sizeof misuses / sizeof *misuses, test_misuse);
    suite_loops(test_case, 3, test_clash);
    suite_loops(test_case, 2, test_no_place);
    suite_tests(test_case, test_launcher, test_launcher_beside);
    return suite_main("CMake package", test_case);
}
