/*
 * The subjects of scenes, made by the same modules as those of suites, with the compilers' cache:
 *
 *   subject NAME DIRECTORY PARAMETER...
 *
 * See the table below for the names. It is one test of Check, so that assertions work as they do in
 * suites.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/delta_stores.h"
#include "tests/support/mutation.h"
#include "tests/support/raw_profile.h"
#include "tests/support/real_programs.h"
#include "tests/support/sample.h"
#include "tests/support/suite.h"
#include "tests/support/windows_program.h"

static const char *place; /* the directory */
static const char *const *parameters;
static unsigned parameter_count;

static const char *parameter(unsigned index)
{
    ck_assert_uint_lt(index, parameter_count);
    return parameters[index];
}

static unsigned number(unsigned index)
{
    return (unsigned)strtoul(parameter(index), NULL, 10);
}

/* ---- images ---- */

/* FUNCTIONS: "app", a PIE made by clang 19 and GNU ld. */
static void make_sample(void)
{
    struct sample sample = sample_create("sample", number(0));
    file_copy(sample.image, path_join(place, "app"));
}

/* FUNCTIONS UUID:CONTENT...: "app-0" and so on, with their own build IDs and contents. */
static void make_variants(void)
{
    struct sample sample = sample_create("sample", number(0));
    for (unsigned i = 1; i < parameter_count; i++) {
        const char *content = strchr(parameter(i), ':');
        variant_create(sample.image, place, text_format("app-%u", i - 1), number(i),
                       content != NULL ? (unsigned)strtoul(content + 1, NULL, 10) : number(i));
    }
}

/* The value of a parameter KEY=VALUE; NULL: there is none. */
static const char *value_of(const char *key)
{
    size_t length = strlen(key);
    for (unsigned i = 0; i < parameter_count; i++) {
        if (strncmp(parameters[i], key, length) == 0 && parameters[i][length] == '=') {
            return parameters[i] + length + 1;
        }
    }
    return NULL;
}

static const char *value_or(const char *key, const char *other)
{
    const char *value = value_of(key);
    return value != NULL ? value : other;
}

/* KEY=VALUE...: "program", and "libsecond.so" if it is shared. */
static void make_program(void)
{
    const char *target = value_of("target");
    struct program program = {
        .clang = value_or("clang", "19"),
        .linker = value_or("linker", "lld"),
        .target = target != NULL ? target_find(target) : NULL,
        .language = strcmp(value_or("language", "c"), "c++") == 0 ? LANGUAGE_CXX : LANGUAGE_C,
        .optimization = value_or("optimization", "-O1"),
        .instrumentation = value_of("instrumentation"),
        .compile_options = value_of("compile"),
        .link_options = value_of("link"),
        .build_id = value_of("build-id"),
        .functions = (unsigned)strtoul(value_or("functions", "0"), NULL, 10),
    };
    while (strcmp(program_kind(&program), value_or("kind", "pie")) != 0) {
        ck_assert_int_lt(program.kind, LINK_STATIC_PIE);
        program.kind++;
    }
    program_build(&program, place);
}

/* KEY=VALUE...: many units that share inline functions, as "app", or in "libunits.so" beside it. */
static void make_units(void)
{
    struct many_units units = {.clang = value_or("clang", "19"),
                               .options = value_of("options"),
                               .shared = value_of("shared") != NULL};
    many_units_build(&units, place);
}

/* Their sources alone. */
static void make_units_sources(void)
{
    many_units_write(place);
}

/* KEY=VALUE...: "program.exe" and "macho" */
static void make_windows(void)
{
    static const char *const machines[] = {
        [WINDOWS_MSVC_X86_64] = "x86_64",  [WINDOWS_MSVC_ARM64] = "arm64",
        [WINDOWS_MSVC_I686] = "i686",      [WINDOWS_MINGW_BFD] = "mingw-bfd",
        [WINDOWS_MINGW_LLD] = "mingw-lld",
    };
    struct windows_program program = {.clang = value_or("clang", "19"),
                                      .instrumentation = value_of("instrumentation"),
                                      .link_options = value_of("link"),
                                      .functions =
                                          (unsigned)strtoul(value_or("functions", "0"), NULL, 10)};
    while (strcmp(machines[program.target], value_or("machine", "x86_64")) != 0) {
        ck_assert_int_lt(program.target, WINDOWS_MINGW_LLD);
        program.target++;
    }
    windows_program_build(&program, place);
}

static void make_darwin(void)
{
    struct darwin_program program = {.clang = value_or("clang", "19"),
                                     .architecture = value_or("architecture", "arm64"),
                                     .instrumentation = value_of("instrumentation"),
                                     .functions =
                                         (unsigned)strtoul(value_or("functions", "0"), NULL, 10)};
    darwin_program_build(&program, place, "macho");
}

/* CLANG: "objects", LevelDB's, in which nothing may be changed. */
static void link_leveldb(void)
{
    const char *objects = leveldb_objects(parameter(0));
    ck_assert_int_eq(symlink(objects, path_join(place, "objects")), 0);
}

/* COMMAND...: what a compiler makes. */
static void compile(void)
{
    struct command command = {.directory = place};
    for (unsigned i = 0; i < parameter_count; i++) {
        text_list_add(&command.arguments, parameter(i));
    }
    command_run_or_abort(&command);
}

/* ---- changed files, in the directory ---- */

static struct raw_profile read_profile(void)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    raw_profile_read(path_join(place, parameter(0)), &profile, &verdict);
    verdict_assert(&verdict, parameter(0));
    return profile;
}

/* PROFILE counters|bitmap OUT: a part of a raw profile. */
static void take_part(void)
{
    struct raw_profile profile = read_profile();
    struct part part = strcmp(parameter(1), "bitmap") == 0 ? profile.bitmap : profile.counters;
    file_write(path_join(place, parameter(2)), part.data, (size_t)part.size);
}

/* PROFILE OUT VALUE...: a copy with its first counters set. */
static void set_counters(void)
{
    struct raw_profile profile = read_profile();
    uint8_t *counters = profile.file.data + (profile.counters.data - profile.file.data);
    for (unsigned i = 2; i < parameter_count; i++) {
        uint64_t value = strtoull(parameter(i), NULL, 0);
        memcpy(counters + (i - 2) * sizeof value, &value, sizeof value);
    }
    file_write(path_join(place, parameter(1)), profile.file.data, profile.file.size);
}

/* ELF-FILE OUT SEED: a copy that is damaged in the way of this number. */
static void mutate(void)
{
    struct elf_file elf = elf_file_read(path_join(place, parameter(0)));
    char *description = NULL;
    struct contents damaged = mutate_elf(&elf, number(2), &description);
    file_write(path_join(place, parameter(1)), damaged.data, damaged.size);
}

/* FILE OUT SEED: the same of any file. */
static void mutate_any(void)
{
    struct contents file = file_read(path_join(place, parameter(0)));
    char *description = NULL;
    struct contents damaged = mutate_bytes(&file, number(2), &description);
    file_write(path_join(place, parameter(1)), damaged.data, damaged.size);
}

/* No subject: fails unless the names of a static IMAGE stay for the reason that program.h has, by
 * what is in the file SAID. */
static void check_chance(void)
{
    struct program program = {.kind = LINK_STATIC};
    struct contents said = file_read(path_join(place, parameter(1)));
    ck_assert(names_stay_by_chance(&program, path_join(place, parameter(0)),
                                   text_format("%.*s", (int)said.size, (const char *)said.data)));
}

/* ---- stores with deltas ---- */

/* No subjects: what the suites do, too. After each command, of which the directory is the first
 * word. */
static void settle_after(void)
{
    struct command command = {0};
    text_list_add(&command.arguments, "covsplit");
    for (unsigned i = 0; i < parameter_count; i++) {
        text_list_add(&command.arguments, parameter(i));
    }
    delta_stores_settle_after(&command);
}

/* The store is the directory. */
static void settle(void)
{
    store_settle(place);
}

/* WHOLE: the sidecar of a store, which is in the place of the directory, is that file. */
static void compare_stored(void)
{
    stored_assert_equal(place, parameter(0), place);
}

static const struct maker {
    const char *name;
    void (*make)(void);
} makers[] = {
    {"sample", make_sample},
    {"variants", make_variants},
    {"program", make_program},
    {"units", make_units},
    {"units-sources", make_units_sources},
    {"windows", make_windows},
    {"darwin", make_darwin},
    {"leveldb", link_leveldb},
    {"compile", compile},
    {"part", take_part},
    {"set-counters", set_counters},
    {"mutate", mutate},
    {"mutate-bytes", mutate_any},
    {"stay-by-chance", check_chance},
    {"settle-after", settle_after},
    {"settle", settle},
    {"stored-same", compare_stored},
};

static void (*make)(void);

START_TEST(test_make)
{
    make();
}
END_TEST

int main(int count, char **words)
{
    restriction_enter(count, words); /* no subject: a command of a scene that is restricted */
    for (size_t i = 0; i < sizeof makers / sizeof *makers && count > 2; i++) {
        if (strcmp(makers[i].name, words[1]) == 0) {
            make = makers[i].make;
        }
    }
    if (make == NULL) {
        return suite_usage(words[0], "NAME DIRECTORY PARAMETER...");
    }
    char current[4096];
    place = words[2];
    if (strcmp(place, ".") == 0 && realpath(place, current) != NULL) {
        place = current;
    }
    parameters = (const char *const *)words + 3;
    parameter_count = (unsigned)count - 3;
    TCase *test_case = suite_case("make", 600, NULL);
    suite_tests(test_case, test_make);
    return suite_main("subject", test_case);
}
