/*
 * Unions of many images: reports from the file that `covsplit export --union` makes of their
 * sidecars must be those from the unsplit images, named one by one.
 *
 * The images are programs of one project (real_programs.h), which were all run, and whose profiles
 * are merged into one. Each report is taken from the unsplit images in some order, and from the
 * union in that order.
 *
 * Usage: union_reports (few|all) CLANG
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/real_programs.h"

#define REPORT_SECONDS 1200

static const char *which, *clang_version;
static char *scratch;
static struct text_list images;      /* names in SCRATCH/original */
static struct text_list own_sources; /* what every report must contain */

/* The last one takes gigabytes of memory for all. */
static const char *const reports[] = {"report", "show", "export -format=lcov",
                                      "export -skip-expansions", "export"};

#define REPORT_COUNT (sizeof reports / sizeof *reports)

/* ---- the files ---- */

/* Of LevelDB, with own sources and with the common one. */
static const size_t few[] = {0, 3, 9, 21, 33};

static void make_program(size_t number)
{
    const char *name = many_programs_name(number);
    struct command run = command_words(scratch, "original/%s", name);
    many_programs_build(clang_version, number, path_join(scratch, "original"));
    text_list_add_format(&run.environment, "LLVM_PROFILE_FILE=raw/%s.profraw", name);
    command_run_or_abort(&run);
    covsplit_run_words(scratch, 0,
                       text_format("split --store store -o split/%s original/%s", name, name));
    text_list_add(&images, name);
    if (many_programs_has_source(number)) {
        text_list_add_format(&own_sources, "/%s.c", name);
    }
}

static void prepare(void)
{
    bool all = strcmp(which, "all") == 0;
    size_t count = all ? MANY_PROGRAMS : sizeof few / sizeof *few;
    scratch = scratch_create("union-reports");
    directory_create(path_join(scratch, "original"));
    directory_create(path_join(scratch, "split"));
    for (size_t i = 0; i < count; i++) {
        make_program(all ? i : few[i]);
    }
    run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "merge", "raw", "-o",
                 "all.profdata", NULL);
}

static const char *uuid_of(const char *image)
{
    struct elf_file elf = elf_file_read(text_format("%s/original/%s", scratch, image));
    const char *uuid = text_format("%s", elf_file_build_id(&elf));
    elf_file_free(&elf);
    return uuid;
}

static char *sidecar_of(const char *image)
{
    const char *uuid = uuid_of(image);
    return text_format("store/.build-id/%.2s/%s.covsplit", uuid, uuid + 2);
}

/* ---- orders ---- */

static int compare_uuids(const void *a, const void *b)
{
    return strcmp(uuid_of(*(char *const *)a), uuid_of(*(char *const *)b));
}

/* The order of a store. */
static struct text_list by_uuid(void)
{
    struct text_list names = {0};
    text_list_add_all(&names, (const char *const *)images.items);
    qsort(names.items, names.count, sizeof *names.items, compare_uuids);
    return names;
}

static struct text_list backwards(void)
{
    struct text_list names = {0};
    for (size_t i = images.count; i-- > 0;) {
        text_list_add(&names, images.items[i]);
    }
    return names;
}

/* ---- unions ---- */

/* Of the first images of a list. */
static void make_union(const char *output, const struct text_list *names, size_t count)
{
    struct command command = covsplit_words(scratch, "export --union -o");
    text_list_add(&command.arguments, output);
    for (size_t i = 0; i < count; i++) {
        text_list_add(&command.arguments, sidecar_of(names->items[i]));
    }
    struct outcome outcome = command_expect(&command, 0);
    ck_assert_msg(outcome.errors_size == 0, "%s", outcome_describe(&command, &outcome));
}

/* ---- reports ---- */

static struct outcome take_report(const char *words, const struct text_list *objects)
{
    struct command command = {.directory = scratch, .timeout_seconds = REPORT_SECONDS};
    text_list_add(&command.arguments, versioned_tool("llvm-cov", clang_version));
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.arguments, "-instr-profile=all.profdata");
    for (size_t i = 0; i < objects->count; i++) {
        text_list_add_format(&command.arguments, "%s%s",
                             i == 0 ? "" : "-object=", objects->items[i]);
    }
    text_list_add(&command.environment, "DEBUGINFOD_URLS=");
    return command_expect(&command, 0);
}

static size_t line_of(const char *text, size_t end)
{
    size_t line = 1;
    for (size_t i = 0; i < end; i++) {
        line += text[i] == '\n';
    }
    return line;
}

static void check_same(const char *words, const struct outcome *expected,
                       const struct outcome *found, const char *label)
{
    size_t same = 0;
    while (same < expected->output_size && same < found->output_size &&
           expected->output[same] == found->output[same]) {
        same++;
    }
    ck_assert_msg(same == expected->output_size && same == found->output_size,
                  "llvm-cov-%s %s, %s: differs in line %zu: '%.200s' and '%.200s'", clang_version,
                  words, label, line_of(expected->output, same), expected->output + same,
                  found->output + same);
}

static struct text_list unsplit(const struct text_list *names)
{
    struct text_list objects = {0};
    for (size_t i = 0; i < names->count; i++) {
        text_list_add_format(&objects, "original/%s", names->items[i]);
    }
    return objects;
}

/* The union of the first images of a list, and the unsplit images of the rest. */
static struct text_list with_union(const char *output, const struct text_list *names, size_t count)
{
    struct text_list objects = {0};
    text_list_add(&objects, output);
    for (size_t i = count; i < names->count; i++) {
        text_list_add_format(&objects, "original/%s", names->items[i]);
    }
    return objects;
}

/* The first reports from `union_objects` are those from the unsplit images of `names`. */
static void check_reports(const struct text_list *names, const struct text_list *union_objects,
                          size_t count, const char *label)
{
    struct text_list objects = unsplit(names);
    for (size_t i = 0; i < count; i++) {
        struct outcome expected = take_report(reports[i], &objects);
        struct outcome found = take_report(reports[i], union_objects);
        check_same(reports[i], &expected, &found, label);
        for (size_t j = 0; j < own_sources.count; j++) {
            assert_contains(expected.output, own_sources.items[j]);
        }
        outcome_free(&expected);
        outcome_free(&found);
    }
}

/* ---- the tests ---- */

START_TEST(test_store)
{
    struct text_list names = by_uuid(), objects = {0};
    covsplit_run_words(scratch, 0, "export --union -o all.a --store store");
    text_list_add(&objects, "all.a");
    check_reports(&names, &objects, REPORT_COUNT, "a store");
    /* The same from operands in that order. */
    make_union("operands.a", &names, names.count);
    files_assert_equal(path_join(scratch, "operands.a"), path_join(scratch, "all.a"), "operands");
}
END_TEST

START_TEST(test_backwards)
{
    struct text_list names = backwards();
    make_union("backwards.a", &names, names.count);
    struct text_list objects = with_union("backwards.a", &names, names.count);
    check_reports(&names, &objects, REPORT_COUNT - 1, "backwards");
}
END_TEST

/* A union beside images that are not in it. */
START_TEST(test_half)
{
    struct text_list names = {0};
    text_list_add_all(&names, (const char *const *)images.items);
    make_union("half.a", &names, names.count / 2);
    struct text_list objects = with_union("half.a", &names, names.count / 2);
    check_reports(&names, &objects, REPORT_COUNT - 1, "half of them");
}
END_TEST

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Behind a table and in JSON, the report names the functions that LLVM's tools leave out without a
 * word. */
static void cut_left_out(struct outcome *expected, struct outcome *found)
{
    size_t size = expected->output_size, end = size;
    while (end != 0 && strchr("}\n", expected->output[end - 1]) != NULL) {
        end--;
    }
    if (found->output_size > size && strstr(found->output + end, "functions left out, ") != NULL) {
        expected->output_size = found->output_size = end;
    }
}

/* `covsplit report` of the profiles, which makes the union itself, in the order of names. */
START_TEST(test_report)
{
    static const char *const forms[] = {"", NULL, "--format lcov", NULL, "--format json"};
    struct text_list names = {0};
    text_list_add_all(&names, (const char *const *)images.items);
    qsort(names.items, names.count, sizeof *names.items, compare_names);
    struct text_list objects = unsplit(&names);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i] == NULL || (i == REPORT_COUNT - 1 && strcmp(which, "all") == 0)) {
            continue;
        }
        struct outcome expected = take_report(reports[i], &objects);
        struct command command = covsplit_words(scratch, "report --store store --include / raw");
        text_list_add_words(&command.arguments, forms[i]);
        text_list_add_words(&command.arguments,
                            text_format("--llvm-cov %s --llvm-profdata %s",
                                        versioned_tool("llvm-cov", clang_version),
                                        versioned_tool("llvm-profdata", clang_version)));
        command.timeout_seconds = REPORT_SECONDS;
        struct outcome found = command_expect(&command, 0);
        cut_left_out(&expected, &found);
        check_same(reports[i], &expected, &found, "covsplit report");
    }
}
END_TEST

/* It is worth it: what many images have in common is there once. */
START_TEST(test_size)
{
    unsigned long long objects = 0;
    covsplit_run_words(scratch, 0, "export --store store --debug-dir objects");
    covsplit_run_words(scratch, 0, "export --union -o size.a --store store");
    for (size_t i = 0; i < images.count; i++) {
        const char *uuid = uuid_of(images.items[i]);
        objects +=
            file_size(text_format("%s/objects/.build-id/%.2s/%s.debug", scratch, uuid, uuid + 2));
    }
    /* There are at most three libraries. */
    unsigned long long size = file_size(path_join(scratch, "size.a"));
    ck_assert_msg(size * images.count < objects * 4, "%llu bytes, of %llu", size, objects);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "(few|all) CLANG", &which, &clang_version);
    TCase *test_case = suite_case("unions", 3000, prepare);
    suite_tests(test_case, test_store, test_backwards, test_half, test_report, test_size);
    return suite_main(text_format("reports from unions, with LLVM %s", clang_version), test_case);
}
