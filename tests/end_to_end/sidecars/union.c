/*
 * Unions: llvm-cov's reports from a union are those from all its images, to the byte, in any order
 * of the images, whatever they share, wherever they disagree, and whichever of them have run.
 *
 * Usage: union CLANG       compiled by this version, read by it and by the later ones
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/elf_file.h"
#include "tests/support/random.h"
#include "tests/support/windows_program.h"

#define IMAGES_MAX 8

static const char *clang;
static char *scratch;

static char *new_directory(void)
{
    static unsigned count;
    char *directory = path_join(scratch, text_format("test%d-%u", (int)getpid(), count++));
    directory_create(directory);
    return directory;
}

/* ---- images and reports ---- */

/* Images of a directory, in which each has its sidecar IMAGE.covsplit. */
struct images {
    const char *directory;
    const char *names[IMAGES_MAX];
    size_t count;
};

/* Splits an image, which stays as it is, for the union. */
static void add_image(struct images *images, const char *name)
{
    covsplit_run_words(images->directory, 0,
                       text_format("split -o out --sidecar %s.covsplit %s", name, name));
    ck_assert_uint_lt(images->count, IMAGES_MAX);
    images->names[images->count++] = name;
}

/* Runs a program with so many arguments; its profile is NAME.profraw. */
static void run_image(const char *directory, const char *name, unsigned arguments)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, name));
    for (unsigned i = 0; i < arguments; i++) {
        text_list_add(&command.arguments, "x");
    }
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s.profraw", name);
    text_list_add_format(&command.environment, "LD_LIBRARY_PATH=%s", directory);
    command_run_or_abort(&command);
}

/* Makes PROFILE.profdata of raw profiles. */
static void merge(const char *directory, const char *profile, const char *raw)
{
    struct command command = command_words(directory, "%s merge -o %s.profdata %s",
                                           versioned_tool("llvm-profdata", clang), profile, raw);
    command_run_or_abort(&command);
}

static const char *llvm_cov(const struct images *images, const char *version, const char *words)
{
    struct command command =
        command_words(images->directory, "%s %s", versioned_tool("llvm-cov", version), words);
    return command_run_or_abort(&command);
}

/* The images as llvm-cov takes them, or their sidecars. */
static const char *list_images(const struct images *images, bool backwards, const char *before,
                               const char *after)
{
    const char *list = "";
    for (size_t i = 0; i < images->count; i++) {
        const char *name = images->names[backwards ? images->count - 1 - i : i];
        list = text_format("%s%s%s%s", list, i == 0 ? "" : before, name, after);
    }
    return list;
}

/* The first has all regions and functions, in their order. With -check-binary-ids, each build ID in
 * the profile must be that of an image. */
static const struct {
    const char *words;
    int since;
} reports[] = {
    {"export", 14},
    {"report", 14},
    {"show -show-branches=count -show-expansions -show-instantiations -path-equivalence=/src,.",
     14},
    {"export -format=lcov", 14},
    {"report -check-binary-ids", 17},
    {"export -summary-only -check-binary-ids", 17},
};

/* Compares the first reports, so many of them. */
static void compare_by(const struct images *images, const char *version, const char *profile,
                       const char *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (atoi(version) < reports[i].since) {
            continue;
        }
        const char *words = text_format("%s -instr-profile=%s.profdata", reports[i].words, profile);
        const char *found = llvm_cov(images, version, text_format("%s all.a", words));
        const char *expected = llvm_cov(images, version, text_format("%s %s", words, list));
        ck_assert_msg(strlen(expected) > 100, "nothing is reported: %s", expected);
        ck_assert_msg(strcmp(found, expected) == 0,
                      "llvm-cov-%s %s, %s: of the union:\n%.900s\nof the images:\n%.900s", version,
                      words, list, found, expected);
    }
}

/* The number of records in the union, and before. */
struct counts {
    unsigned long kept, read;
};

static struct counts export_union(const struct images *images, bool backwards)
{
    const char *line =
        covsplit_run_words(images->directory, 0,
                           text_format("export --union -v -o all.a %s.covsplit",
                                       list_images(images, backwards, ".covsplit ", "")))
            .output;
    const char *numbers = strstr(line, "functions: ");
    struct counts counts;
    ck_assert_msg(numbers != NULL, "%s", line);
    char *end;
    counts.kept = strtoul(numbers + strlen("functions: "), &end, 10);
    ck_assert_msg(strncmp(end, " of ", 4) == 0, "%s", line);
    counts.read = strtoul(end + 4, NULL, 10);
    return counts;
}

/* Compares the reports of the images and of their union, in both orders, with each profile (words).
 * The union must have fewer records than the images by at least `shared`. */
static void compare_unions(const struct images *images, const char *profiles, unsigned long shared)
{
    static const char *const versions[] = {"14", "16", "19", "22"};
    size_t all = sizeof reports / sizeof *reports;
    struct text_list names = {0};
    text_list_add_words(&names, profiles);
    for (int backwards = 0; backwards < 2; backwards++) {
        struct counts counts = export_union(images, backwards != 0);
        const char *list = list_images(images, backwards != 0, " -object ", "");
        ck_assert_msg(counts.kept + shared <= counts.read, "%lu records of %lu in the union",
                      counts.kept, counts.read);
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
            bool is_own = strcmp(versions[i], clang) == 0;
            if (atoi(versions[i]) < atoi(clang) ||
                (!is_own && strcmp(versions[i], "22") != 0 && !rounds_are_all())) {
                continue;
            }
            for (size_t j = 0; j < names.count; j++) {
                bool is_first = is_own && j == 0 && backwards == 0;
                compare_by(images, versions[i], names.items[j], list,
                           is_first || rounds_are_all() ? all : 1);
            }
        }
    }
}

/* Compiles and links in the directory, as if it were another one: it is a new one for each test,
 * and by each compilation the cache has one of its own (compile_cache.h). */
static void compile_in(const char *place, const char *directory, const char *words)
{
    struct command command = command_words(directory,
                                           "%s " INSTRUMENT_COVERAGE
                                           " -fcoverage-compilation-dir=%s -Wl,--build-id=sha1 %s",
                                           versioned_tool("clang++", clang), place, words);
    command_run_or_abort(&command);
}

static void compile(const char *directory, const char *words)
{
    compile_in("/src", directory, words);
}

/* ---- what images share ---- */

static const char shared_header[] =
    "#pragma once\n"
    "#define PICK(x) ((x) > 2 && (x) < 9 ? (x) : 0)\n"
    "inline int clamp(int v, int low, int high) {\n"
    "  if (v < low) return low;\n"
    "  if (v > high) return high;\n"
    "  return PICK(v);\n"
    "}\n"
    "template <class T> T twice(T x) { return x > T(10) ? x : x + x; }\n"
    "inline int sometimes(int x) { return x ? 1 : PICK(x); }\n"
    "inline void nothing() {}\n"
    "static inline int local(int x) { return x > 3 ? x : -x; }\n"
    "int shared(int n);\n"
    "int other(int n);\n";

static const char shared_source[] = "#include \"shared.h\"\n"
                                    "int shared(int n) {\n"
                                    "  int s = 0;\n"
                                    "  for (int i = 0; i < n; i++)\n"
                                    "    s += clamp(i, 2, 5);\n"
                                    "  return s;\n"
                                    "}\n"
                                    "int other(int n) { return n > 1 ? twice(n) : 0; }\n";

static void write_shared(const char *directory)
{
    file_write_text(path_join(directory, "shared.h"), shared_header);
    file_write_text(path_join(directory, "shared.cc"), shared_source);
}

static void write_main(const char *directory, const char *name, const char *expression)
{
    file_write_text(path_join(directory, text_format("%s.cc", name)),
                    text_format("#include \"shared.h\"\n"
                                "int main(int n, char **) {\n"
                                "  return (%s) == 12345;\n"
                                "}\n",
                                expression));
}

/* Three programs of shared sources. What one does not call is a dummy there, and a function of
 * another: `sometimes`; and `nothing`, whose hash is 0 like that of a dummy. */
static struct images build_three(const char *options)
{
    static const char *const expressions[] = {
        "shared(n) + twice(n)",
        "sometimes(n) + (nothing(), n) + (int)twice(2.5) + local(n)",
        "n > 1 ? (nothing(), sometimes(n)) : other(n) + local(n)",
    };
    static const char *const names[] = {"a", "b", "c"};
    struct images images = {.directory = new_directory()};
    write_shared(images.directory);
    for (unsigned i = 0; i < 3; i++) {
        write_main(images.directory, names[i], expressions[i]);
        compile(images.directory,
                text_format("%s -o %s %s.cc shared.cc", options, names[i], names[i]));
        add_image(&images, names[i]);
        run_image(images.directory, names[i], i);
    }
    merge(images.directory, "all", "a.profraw b.profraw c.profraw");
    merge(images.directory, "one", "a.profraw");
    merge(images.directory, "other", "b.profraw");
    return images;
}

START_TEST(test_programs)
{
    struct images images = build_three("-O0");
    compare_unions(&images, "all one other", 10);
}
END_TEST

START_TEST(test_mcdc)
{
    if (atoi(clang) < 19) {
        return;
    }
    struct images images = build_three("-O1 -fcoverage-mcdc");
    compare_unions(&images, "all one", 10);
}
END_TEST

START_TEST(test_shared_library)
{
    struct images images = {.directory = new_directory()};
    write_shared(images.directory);
    write_main(images.directory, "app", "shared(n) + clamp(n, 0, 3) + sometimes(n)");
    compile(images.directory, "-fPIC -shared -o libshared.so shared.cc");
    compile(images.directory, "-o app app.cc libshared.so");
    compile(images.directory, "-o alone app.cc shared.cc");
    add_image(&images, "app");
    add_image(&images, "libshared.so");
    add_image(&images, "alone");
    struct command run = command_words(images.directory, "./app");
    text_list_add(&run.environment, "LLVM_PROFILE_FILE=%m.profraw");
    text_list_add_format(&run.environment, "LD_LIBRARY_PATH=%s", images.directory);
    command_run_or_abort(&run);
    run_image(images.directory, "alone", 2);
    struct text_list files = directory_list(images.directory);
    const char *raw = "";
    for (size_t i = 0; i < files.count; i++) {
        if (strstr(files.items[i], ".profraw") != NULL) {
            raw = text_format("%s %s", raw, files.items[i]);
        }
    }
    ck_assert_uint_eq(text_count(raw, ".profraw"), 3);
    merge(images.directory, "all", raw);
    merge(images.directory, "one", "alone.profraw");
    compare_unions(&images, "all one", 4);
}
END_TEST

/* ---- where images disagree ---- */

/* Builds that differ in one file: in its lines, in a function's body, in a macro. */
START_TEST(test_builds_that_disagree)
{
    static const struct {
        const char *name, *part, *replacement;
    } builds[] = {
        {"first", "#pragma once\n", "#pragma once\n"},
        {"lines", "#pragma once\n", "#pragma once\n\n\n"},
        {"body", "if (v < low) return low;", "if (v < low && v > 0) return low;"},
        {"macro", "(x) > 2 && (x) < 9", "(x) > 2"},
        {"empty", "inline void nothing() {}",
         "inline void nothing() { if (sometimes(1)) return; }"},
        {"again", "#pragma once\n", "#pragma once\n"},
    };
    struct images images = {.directory = new_directory()};
    const char *raw = "";
    write_shared(images.directory);
    write_main(images.directory, "main", "(nothing(), shared(n) + local(n)) + other(n)");
    for (size_t i = 0; i < sizeof builds / sizeof *builds; i++) {
        file_write_text(path_join(images.directory, "shared.h"),
                        text_replace(shared_header, builds[i].part, builds[i].replacement));
        compile(images.directory, text_format("-o %s main.cc shared.cc", builds[i].name));
        add_image(&images, builds[i].name);
        run_image(images.directory, builds[i].name, (unsigned)i);
        raw = text_format("%s %s.profraw", raw, builds[i].name);
    }
    merge(images.directory, "all", raw);
    merge(images.directory, "one", "body.profraw");
    merge(images.directory, "other", "empty.profraw lines.profraw");
    compare_unions(&images, "all one other", 10);
}
END_TEST

/* Two files of one relative name are two files. */
START_TEST(test_relative_names)
{
    struct images images = {.directory = new_directory()};
    static const char *const places[] = {"one", "two", "one"};
    static const char *const names[] = {"first", "second", "third"};
    for (unsigned i = 0; i < 3; i++) {
        char *place = path_join(images.directory, places[i]);
        if (!file_exists(place)) {
            directory_create(place);
        }
        write_shared(place);
        write_main(place, "main", "shared(n) + local(n)");
        compile_in(text_format("/src/%s", places[i]), place,
                   text_format("-o main main.cc shared.cc"));
        file_copy(path_join(place, "main"), path_join(images.directory, names[i]));
        add_image(&images, names[i]);
        run_image(images.directory, names[i], i);
    }
    merge(images.directory, "all", "first.profraw second.profraw");
    /* The third is as the first. */
    compare_unions(&images, "all", 5);
    const char *report = llvm_cov(&images, clang, "report all.a -instr-profile=all.profdata");
    assert_contains(report, "one/shared.h");
    assert_contains(report, "two/shared.h");

    /* In one directory they are one file. */
    const char *common = text_format("-compilation-dir=%s", path_join(images.directory, "one"));
    const char *words = "export -instr-profile=all.profdata";
    ck_assert_str_eq(
        llvm_cov(&images, clang, text_format("%s %s all.a", words, common)),
        llvm_cov(&images, clang,
                 text_format("%s %s third -object second -object first", words, common)));
}
END_TEST

/* A header with functions of which a program has one of some variants: an empty one, whose hash is
 * 0; one with a branch; the same on another line; the same with another body. */
#define VARIANT_FUNCTIONS 8

static void write_variants(const char *directory)
{
    static const char body[] = "inline void e#() {}\n"
                               "#if V# == 0\n"
                               "inline int f#(int) { return 1; }\n"
                               "#elif V# == 1\n"
                               "inline int f#(int x) { return x > 1 ? x : 2; }\n"
                               "#elif V# == 2\n"
                               "inline int f#(int x) { return x > 1 ? x : 2; }\n"
                               "#else\n"
                               "inline int f#(int x) { if (x > 1 && x < 5) return x; return 2; }\n"
                               "#endif\n";
    const char *header = "";
    for (int i = 0; i < VARIANT_FUNCTIONS; i++) {
        const char *text = text_replace(body, "e#", text_format("e%d", i));
        text = text_replace(text, "f#", text_format("f%d", i));
        header = text_format("%s%s", header, text_replace(text, "V#", text_format("V%d", i)));
    }
    file_write_text(path_join(directory, "variants.h"), header);
}

/* A unit with some variants, which uses some of them: in the others, those are dummies. */
static void write_unit(const char *path, const char *function, struct random_state *random)
{
    const char *definitions = "", *calls = "0";
    for (int i = 0; i < VARIANT_FUNCTIONS; i++) {
        definitions =
            text_format("%s#define V%d %d\n", definitions, i, (int)random_below(random, 4));
        if (random_below(random, 2) == 0) {
            calls = text_format("%s + (n > %d ? f%d(n) : (e%d(), 1))", calls, i % 3, i, i);
        }
    }
    file_write_text(path, text_format("%s#include \"variants.h\"\n"
                                      "int %s { return (%s) == -1; }\n",
                                      definitions, function, calls));
}

START_TEST(test_random_programs)
{
    static const char *const names[] = {"r", "s", "t", "u"};
    struct images images = {.directory = new_directory()};
    struct random_state random = random_start((uint64_t)_i + 1);
    const char *raw = "";
    write_variants(images.directory);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i];
        write_unit(path_join(images.directory, text_format("%s0.cc", name)),
                   "second(int); int main(int n, char **)", &random);
        write_unit(path_join(images.directory, text_format("%s1.cc", name)), "second(int n)",
                   &random);
        compile(images.directory, text_format("-O0 -o %s %s0.cc %s1.cc", name, name, name));
        add_image(&images, name);
        run_image(images.directory, name, (unsigned)random_below(&random, 3));
        if (i == 0 || random_below(&random, 2) == 0) {
            raw = text_format("%s %s.profraw", raw, name);
        }
    }
    merge(images.directory, "some", raw);
    merge(images.directory, "last", "u.profraw");
    compare_unions(&images, "some last", 1);
}
END_TEST

/* ---- images of all kinds ---- */

/* The same sources as images of three formats, of 64 and 32 bits and both byte orders. Those of
 * other machines are without a runtime, so that only the mapping can be taken out of them. */
START_TEST(test_formats)
{
    enum { FUNCTIONS = 12 };
    static const char instrumentation[] = INSTRUMENT_COVERAGE " -fcoverage-compilation-dir=/src";
    struct images images = {.directory = new_directory()};
    const char *directory = images.directory;
    struct program native = {.clang = clang,
                             .linker = "lld",
                             .kind = LINK_PIE,
                             .language = LANGUAGE_C,
                             .optimization = "-O1",
                             .instrumentation = instrumentation,
                             .functions = FUNCTIONS};
    struct windows_program windows = {.clang = clang,
                                      .target = WINDOWS_MSVC_X86_64,
                                      .instrumentation = instrumentation,
                                      .functions = FUNCTIONS};
    struct darwin_program darwin = {.clang = clang,
                                    .architecture = "arm64",
                                    .instrumentation = instrumentation,
                                    .functions = FUNCTIONS};
    program_build(&native, directory);
    program_run(directory, PROGRAM_NAME);
    merge(directory, "all", PROGRAM_NAME ".profraw");
    static const struct {
        const char *triple, *linker;
    } machines[] = {{"i386-linux-gnu", "ld.lld"}, {"s390x-linux-gnu", "s390x-linux-gnu-ld"}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const char *triple = machines[i].triple;
        bool is_versioned = strcmp(machines[i].linker, "ld.lld") == 0;
        struct command compiler =
            command_words(directory, "%s --target=%s -fPIC %s -c -o %s.o first.c",
                          versioned_tool("clang", clang), triple, instrumentation, triple);
        command_run_or_abort(&compiler);
        struct command linker = command_words(
            directory, "%s -shared --build-id=sha1 -o %s %s.o",
            is_versioned ? versioned_tool("ld.lld", clang) : machines[i].linker, triple, triple);
        command_run_or_abort(&linker);
        add_image(&images, triple);
    }
    add_image(&images, PROGRAM_NAME);
    windows_program_build(&windows, directory);
    add_image(&images, WINDOWS_PROGRAM);
    darwin_program_build(&darwin, directory, "darwin");
    add_image(&images, "darwin");
    compare_unions(&images, "all", 3 * FUNCTIONS);
}
END_TEST

/* ---- the file ---- */

static const char *run(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

static void assert_says(const char *errors, const char *text)
{
    assert_contains(errors, text);
    ck_assert_msg(strstr(errors, "covsplit: error: ") == errors && text_count(errors, "\n") == 1,
                  "not one message: %s", errors);
}

/* Other tools read the archive too, and each member ends where the next begins. */
START_TEST(test_archive)
{
    struct images images = build_three("-O0");
    const char *directory = images.directory;
    export_union(&images, false);
    const char *list = run_or_abort(directory, "ar", "t", "all.a", NULL);
    ck_assert_str_eq(list,
                     run_or_abort(directory, versioned_tool("llvm-ar", clang), "t", "all.a", NULL));
    ck_assert_uint_eq(text_count(list, "\n"), 3);
    struct text_list names = text_list_of_lines(list);
    directory_create(path_join(directory, "members"));
    run_or_abort(path_join(directory, "members"), "ar", "x", "../all.a", NULL);
    for (size_t i = 0; i < 3; i++) {
        struct elf_file image = elf_file_read(path_join(directory, images.names[i]));
        struct elf_file member =
            elf_file_read(path_join(directory, text_format("members/%s", names.items[i])));
        ck_assert_str_eq(elf_file_build_id(&member), elf_file_build_id(&image));
        ck_assert_str_eq(names.items[i],
                         text_format("%s-%.8s", images.names[i], elf_file_build_id(&image)));
        /* A member is an object like others. */
        run(directory, 0, text_format("show members/%s", names.items[i]));
    }
    const char *shown = covsplit_run_words(directory, 0, "show all.a").output;
    assert_contains(shown, "union");
    assert_contains(shown, text_format("all.a(%s)", names.items[2]));
    const char *json = covsplit_run_words(directory, 0, "show --json all.a").output;
    assert_contains(json, "\"member_count\": 3");
    ck_assert_uint_eq(text_count(json, "\"kind\": \"object\""), 3);
    /* The same again, whatever the time. */
    file_copy(path_join(directory, "all.a"), path_join(directory, "before.a"));
    export_union(&images, false);
    files_assert_equal(path_join(directory, "all.a"), path_join(directory, "before.a"), "again");
}
END_TEST

/* Operands, stores and directories name the same sidecars. */
START_TEST(test_where_sidecars_come_from)
{
    struct images images = build_three("-O0");
    const char *directory = images.directory;
    const char *uuids = "", *sorted = "";
    directory_create(path_join(directory, "loose"));
    for (size_t i = 0; i < 3; i++) {
        run(directory, 0, text_format("split --store store -o out %s", images.names[i]));
        file_copy(path_join(directory, text_format("%s.covsplit", images.names[i])),
                  path_join(directory, text_format("loose/%s.covsplit", images.names[i])));
        struct elf_file image = elf_file_read(path_join(directory, images.names[i]));
        uuids = text_format("%s %.12s", uuids, elf_file_build_id(&image));
        sorted = text_format("%s%s\n", sorted, elf_file_build_id(&image));
    }
    export_union(&images, false);
    run(directory, 0, text_format("export --union -o uuids.a --store store %s", uuids));
    files_assert_equal(path_join(directory, "uuids.a"), path_join(directory, "all.a"), "UUIDs");
    run(directory, 0,
        text_format("export --union -o mixed.a --store store%.13s b.covsplit "
                    "c.covsplit",
                    uuids));
    files_assert_equal(path_join(directory, "mixed.a"), path_join(directory, "all.a"), "mixed");
    run(directory, 0, "export --union -o store.a --store store");
    run(directory, 0, "export --union -o loose.a --sidecar loose");
    files_assert_equal(path_join(directory, "loose.a"), path_join(directory, "store.a"), "loose");
    run(directory, 0,
        "export --union -o several.a --sidecar c.covsplit --sidecar a.covsplit "
        "--sidecar b.covsplit");
    files_assert_equal(path_join(directory, "several.a"), path_join(directory, "store.a"),
                       "several");
    ck_assert_uint_eq(text_count(sorted, "\n"), 3);
}
END_TEST

/* Nobody sees from a report that an image is missing: one bad sidecar, and there is no union. */
START_TEST(test_refusals)
{
    struct images images = build_three("-O0");
    const char *directory = images.directory;
    struct contents sidecar = file_read(path_join(directory, "b.covsplit"));
    sidecar.data[sidecar.size / 2] ^= 1;
    file_write(path_join(directory, "bad.covsplit"), sidecar.data, sidecar.size);
    run(directory, 0, "split --sections names,data --sidecar data.covsplit -o out a");
    run(directory, 0, "split --sidecar placeholder.covsplit -o again out");
    file_write_text(path_join(directory, "plain.c"), "int main(void) { return 0; }\n");
    run_or_abort(directory, versioned_tool("clang", clang), "-o", "plain", "plain.c", NULL);
    run(directory, 0, "split --sidecar plain.covsplit -o out plain");

    assert_says(run(directory, 1, "export --union -o new.a a.covsplit bad.covsplit c.covsplit"),
                "bad.covsplit: ");
    assert_says(run(directory, 1, "export --union -o new.a a.covsplit nowhere"), "nowhere: ");
    assert_says(run(directory, 1, "export --union -o new.a a.covsplit data.covsplit"),
                "no coverage mapping");
    assert_says(run(directory, 1, "export --union -o new.a a.covsplit plain.c"), "not a sidecar");
    assert_says(run(directory, 1, "export --union -o new.a a.covsplit ."),
                ".: is a directory; name a store with --store");
    assert_says(run(directory, 1, "export --union -o new.a plain.covsplit"),
                "no sidecar with coverage");
    assert_says(run(directory, 1, "export --union -o new.a a.covsplit placeholder.covsplit"),
                "a placeholder: ");
    assert_says(run(directory, 1, "export --union -o nowhere/new.a a.covsplit"), "nowhere");
    ck_assert(!file_exists(path_join(directory, "new.a")));
    run(directory, 0, "export --union -o new.a plain.covsplit a.covsplit b.covsplit c.covsplit");
    export_union(&images, false);
    files_assert_equal(path_join(directory, "new.a"), path_join(directory, "all.a"), "passed over");
    /* Nobody asked for the placeholder of a directory. */
    directory_create(path_join(directory, "loose"));
    file_copy(path_join(directory, "a.covsplit"), path_join(directory, "loose/a.covsplit"));
    run(directory, 0, "export --union -o one.a a.covsplit");
    file_copy(path_join(directory, "placeholder.covsplit"),
              path_join(directory, "loose/placeholder.covsplit"));
    file_copy(path_join(directory, "plain.covsplit"), path_join(directory, "loose/plain.covsplit"));
    run(directory, 0, "export --union -o loose.a --sidecar loose");
    files_assert_equal(path_join(directory, "loose.a"), path_join(directory, "one.a"), "loose");

    static const char *const wrong[] = {
        "export --union a.covsplit",
        "export --union --debug-dir debug a.covsplit",
        "export --union -o new.a --debug-dir debug a.covsplit",
        "export --union -o new.a --sidecar b.covsplit a.covsplit",
        "export -o new.a a.covsplit",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run(directory, 2, wrong[i]);
    }
    /* A store beside them is where sidecars of images are looked for. */
    run(directory, 0, "export --union -o new.a --store store a.covsplit");
    files_assert_equal(path_join(directory, "new.a"), path_join(directory, "one.a"), "operand");
}
END_TEST

START_TEST(test_what_is_in_the_way)
{
    struct images images = build_three("-O0");
    const char *directory = images.directory;
    export_union(&images, false);
    export_union(&images, true);
    run_or_abort(directory, "ar", "rc", "other.a", "a", "b", NULL);
    file_copy(path_join(directory, "other.a"), path_join(directory, "kept.a"));
    assert_says(run(directory, 1, "export --union -o other.a a.covsplit"), "--replace");
    files_assert_equal(path_join(directory, "other.a"), path_join(directory, "kept.a"), "kept");
    assert_says(run(directory, 1, "show other.a"), "neither an image");
    run(directory, 0, "export --union --replace -o other.a a.covsplit");
    assert_says(run(directory, 1, "export --union --replace -o b.covsplit a.covsplit"),
                "is a sidecar");
    run(directory, 0, "export --sidecar a.covsplit -o other.a");
    run(directory, 0, "export --union -o other.a a.covsplit b.covsplit c.covsplit");
    export_union(&images, false);
    files_assert_equal(path_join(directory, "other.a"), path_join(directory, "all.a"), "replaced");
}
END_TEST

static void prepare(void)
{
    scratch = scratch_create("union");
}

int main(int count, char **words)
{
    TCase *all = suite_case("union", 900, prepare);
    suite_arguments(count, words, "CLANG", &clang);
    suite_tests(all, test_programs, test_mcdc, test_shared_library, test_builds_that_disagree,
                test_relative_names, test_formats, test_archive, test_where_sidecars_come_from,
                test_refusals, test_what_is_in_the_way);
    suite_loops(all, rounds(20), test_random_programs);
    return suite_main("union", all);
}
