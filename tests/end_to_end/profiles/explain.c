/*
 * covsplit merge --explain: conflicts that were made on purpose are named, and nothing else is; and
 * LLVM's tools do with them what the pages say.
 *
 * Usage: explain CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define PROGRAMS 40

static const char *clang_version;
static char *scratch;

/* One source for two programs: `changed` differs in its control flow, and `same` in its lines
 * alone. `unused` is used in one of them only. */
static const char library_header[] = "static inline int in_header(int x) {\n"
                                     "#ifdef SECOND\n"
                                     "  if (x > 1) return 5;\n"
                                     "#endif\n"
                                     "  return x;\n"
                                     "}\n"
                                     "inline int unused(int x) { return x > 3 ? x : 3; }\n";
static const char library_source[] = "#include \"library.h\"\n"
                                     "int changed(int x) {\n"
                                     "#ifdef SECOND\n"
                                     "  if (x) return 3;\n"
                                     "#endif\n"
                                     "  return in_header(x);\n"
                                     "}\n"
                                     "int same(int x) {\n"
                                     "#ifdef SECOND\n"
                                     "  return x + 3;\n"
                                     "#else\n"
                                     "  return x;\n"
                                     "#endif\n"
                                     "}\n"
                                     "static int own(int x) { return x < 2 ? 7 : x; }\n"
                                     "int equal(int x) { return own(x) ? x : 1; }\n";
static const char first_source[] = "int changed(int), same(int), equal(int);\n"
                                   "int main(void) { return changed(0) + same(0) + equal(0); }\n";
static const char second_source[] = "#include \"library.h\"\n"
                                    "int unused(int);\n"
                                    "int changed(int), same(int), equal(int);\n"
                                    "int main(void) {\n"
                                    "  if (changed(1) == 3) return unused(2) - 3 + same(-3);\n"
                                    "  return equal(0);\n"
                                    "}\n";

/* The compilation directory is another one for each command (compile_cache.h). */
static void compile(const char *words)
{
    struct command command =
        command_words(scratch,
                      "%s -O0 " INSTRUMENT_COVERAGE " -fcoverage-compilation-dir=/sources "
                      "-Wl,--build-id=sha1 %s",
                      versioned_tool("clang", clang_version), words);
    command_run_or_abort(&command);
}

/* Runs SCRATCH/NAME into NAME.profraw, and its split image into NAME.light.profraw. */
static void run_both(const char *name)
{
    run_or_abort(scratch, covsplit_path(), "split", "--store", "store", "-o",
                 text_format("%s.split", name), name, NULL);
    run_or_abort(scratch, "sh", "-c",
                 text_format("LLVM_PROFILE_FILE=%s.profraw ./%s; "
                             "LLVM_PROFILE_FILE=%s.light.profraw ./%s.split; true",
                             name, name, name, name),
                 NULL);
}

static void prepare(void)
{
    scratch = scratch_create("explain");
    file_write_text(path_join(scratch, "library.h"), library_header);
    file_write_text(path_join(scratch, "library.c"), library_source);
    file_write_text(path_join(scratch, "first.c"), first_source);
    file_write_text(path_join(scratch, "second.c"), second_source);
    compile("first.c library.c -o first");
    compile("-DSECOND second.c library.c -o second");
    run_both("first");
    run_both("second");
}

/* Runs `covsplit merge -o all.profdata WORDS`. */
static struct outcome merge(const char *words, int exit_code)
{
    struct command command = covsplit_command(scratch, "merge", "-o", "all.profdata", NULL);
    text_list_add_words(&command.arguments, words);
    text_list_add_format(&command.environment, "LLVM_PROFDATA=%s",
                         versioned_tool("llvm-profdata", clang_version));
    return command_expect(&command, exit_code);
}

/* What --explain --json says, as lines; `how` is for explanation.py. */
static const char *explain(const char *words, const char *how)
{
    struct outcome outcome = merge(text_format("--explain --json %s", words), 0);
    file_write_text(path_join(scratch, "told.json"), outcome.output);
    return run_or_abort(scratch, "sh", "-c",
                        text_format("python3 %s/explanation.py %s <told.json",
                                    COVSPLIT_FIXTURE_DIRECTORY "/../support", how),
                        NULL);
}

/* How llvm-cov shows the program, with another one as the second object. */
static const char *show(const char *first, const char *second)
{
    return run_or_abort(scratch, versioned_tool("llvm-cov", clang_version), "show", first,
                        "-object", second, "-instr-profile=all.profdata",
                        text_format("-compilation-dir=%s", scratch), NULL);
}

#define LIGHT "--store store first.light.profraw second.light.profraw"
#define FULL  "first.profraw second.profraw"

static const char told[] = "hash changed: 1 in library.c: first; 2 in library.c: second\n"
                           "hash library.c:in_header: 1 in library.h: first; 2 in library.h: "
                           "second\n"
                           "regions same: 1 in library.c: first; 1 in library.c: second\n";

START_TEST(test_two_builds)
{
    ck_assert_str_eq(explain(LIGHT, ""), told);
    /* Full profiles of images whose sidecars there are; and a mixture. */
    const char *full = text_replace(text_replace(told, ": first", ": first.profraw"), ": second\n",
                                    ": second.profraw\n");
    ck_assert_str_eq(explain("--store store " FULL, ""), full);
    ck_assert_str_eq(
        explain("--store store first.light.profraw first.profraw second.light.profraw", ""),
        text_replace(told, ": first;", ": first+first.profraw;"));
    /* The order of the images is that of the inputs. */
    assert_contains(explain("--store store second.light.profraw first.light.profraw", ""),
                    "hash changed: 2 in library.c: second; 1 in library.c: first\n");
    /* The table has the same. */
    struct outcome table = merge("--explain " LIGHT, 0);
    assert_contains(table.output, "2 functions differ in one file");
    assert_contains(table.output, "1 function differs in lines or regions");
    assert_contains(table.output, "first.light.profraw");
    ck_assert(strstr(table.output, "equal") == NULL && strstr(table.output, "main") == NULL);
    ck_assert_str_eq(table.errors, "");
    ck_assert_str_eq(table.output, merge("--explain -j 1 " LIGHT, 0).output);
}
END_TEST

/* One line without --explain, in a merge of several images that disagree, and only there. */
START_TEST(test_one_line)
{
    const char *errors = merge(LIGHT, 0).errors;
    assert_contains(errors,
                    "warning: the images disagree about 2 functions, such as 'changed' in ");
    ck_assert_uint_eq(text_count(errors, "\n"), 1);
    errors = merge(FULL, 0).errors;
    assert_contains(errors, "warning: the images may disagree about ");
    ck_assert_uint_eq(text_count(errors, "\n"), 1);
    ck_assert_str_eq(merge("--store store first.light.profraw first.light.profraw", 0).errors, "");
    ck_assert_str_eq(merge("first.profraw", 0).errors, "");
    assert_contains(merge("--store store --explain first.light.profraw", 0).output,
                    "no function is in conflict");
}
END_TEST

/* Without sidecars nobody knows the files. */
START_TEST(test_unknown_files)
{
    assert_contains(explain(FULL, ""), "possible hash changed: 1 in ?: first.profraw; "
                                       "2 in ?: second.profraw\n");
    assert_contains(explain(FULL, ""), "possible hash main: ");
    assert_contains(merge("--explain " FULL, 0).output, "may differ in one file");
}
END_TEST

/* What llvm-cov does with such functions: enum conflict_kind. */
START_TEST(test_what_llvm_does)
{
    merge(LIGHT, 0);
    const char *shown = show("first", "second");
    assert_contains(shown, "|int changed(int x) {");
    assert_contains(shown, "    4|       |  if (x) return 3;");
    assert_contains(shown, "    6|      1|  return in_header(x);");
    /* Both ran it; it is shown as it is in the first object. */
    assert_contains(shown, "   10|       |  return x + 3;");
    assert_contains(shown, "   12|      2|  return x;");
    shown = show("second", "first");
    assert_contains(shown, "    4|      1|  if (x) return 3;");
    assert_contains(shown, "   10|      2|  return x + 3;");
}
END_TEST

/* Numbers of counters differ only if a profile was made so, or if hashes collide. */
START_TEST(test_counters)
{
    struct verdict verdict = {0};
    struct raw_profile first, second;
    ck_assert(raw_profile_read(path_join(scratch, "first.profraw"), &first, &verdict));
    ck_assert(raw_profile_read(path_join(scratch, "second.profraw"), &second, &verdict));
    for (uint64_t i = 0; i < first.record_count; i++) {
        for (uint64_t j = 0; j < second.record_count; j++) {
            const uint8_t *from = first.data.data + i * first.record_size;
            const uint8_t *to = second.data.data + j * second.record_size;
            if (memcmp(from, to, 8) == 0) {
                memcpy(second.file.data + (to + 8 - second.file.data), from + 8, 8);
            }
        }
    }
    file_write(path_join(scratch, "collided.profraw"), second.file.data, second.file.size);
    const char *lines = explain("first.profraw collided.profraw", "");
    assert_contains(lines, "counters changed: 1 in ?: first.profraw; 2 in ?: collided.profraw\n");
    ck_assert(strstr(lines, "hash ") == NULL);
    assert_contains(merge("first.profraw collided.profraw", 0).errors,
                    "the images disagree about 3 functions, such as 'changed'");
    assert_contains(run_or_abort(scratch, versioned_tool("llvm-profdata", clang_version), "show",
                                 "--all-functions", "--counts", "all.profdata", NULL),
                    "changed");
}
END_TEST

/* What was left out, and why. */
START_TEST(test_left_out)
{
    file_write_text(path_join(scratch, "empty.profraw"), "");
    file_write_text(path_join(scratch, "bad.profraw"), "no profile");
    run_or_abort(scratch, covsplit_path(), "split", "--sidecar", "first.side", "-o", "first.again",
                 "first", NULL);
    ck_assert_str_eq(explain("--failure-mode all --sidecar first.side first.light.profraw "
                             "second.light.profraw bad.profraw empty.profraw",
                             ""),
                     "left out second.light.profraw\nleft out bad.profraw\nempty 1\n"
                     "without sidecar: second.light.profraw, 1\n");
    const char *output = merge("--failure-mode all --sidecar first.side --explain bad.profraw "
                               "first.light.profraw second.light.profraw",
                               0)
                             .output;
    assert_contains(output, "\nleft out:\n  bad.profraw: ");
    assert_contains(output, "\nwithout a sidecar:\n  ");
    unlink(path_join(scratch, "all.profdata"));
    merge("--explain --sidecar first.side first.light.profraw second.light.profraw", 1);
    ck_assert(!file_exists(path_join(scratch, "all.profdata")));
    merge("--json first.profraw", 2);
    merge("--explain --json -v first.profraw", 2);
}
END_TEST

/* Programs of one library, each with its own main. The last two have those of the first two, in
 * another file. */
START_TEST(test_many_programs)
{
    const char *names = "", *profiles = "--store store";
    unsigned different = 2 + rounds(PROGRAMS - 4), last = different + 1;
    compile("-c library.c -o library.o");
    for (unsigned i = 0; i <= last; i++) {
        char *name = text_format("program%02u", i);
        char *source = text_format("#include \"library.h\"\nint changed(int), equal(int);\n"
                                   "int main(void) {\n  int x = changed(0) + equal(%u);\n",
                                   i);
        for (unsigned bit = 0; bit < 6; bit++) {
            source =
                text_format("%s  %s\n", source,
                            (i % different) >> bit & 1 ? "if (x > 3) x--;" : "while (x > 9) x--;");
        }
        file_write_text(text_format("%s/%s.c", scratch, name),
                        text_format("%s  return 0;\n}\n", source));
        compile(text_format("%s.c library.o -o %s", name, name));
        names = text_format("%s %s", names, name);
        profiles = text_format("%s %s.profraw", profiles, name);
    }
    covsplit_run_words(scratch, 0, text_format("split --store store%s", names));
    run_or_abort(
        scratch, "sh", "-c",
        text_format("for name in %s; do LLVM_PROFILE_FILE=$name.profraw ./$name; done", names),
        NULL);
    ck_assert_str_eq(explain(profiles, ""), text_format("files main: 7 in program00.c: program00; "
                                                        "7 in program%02u.c: program%02u\n"
                                                        "files main: 7 in program01.c: program01; "
                                                        "7 in program%02u.c: program%02u\n",
                                                        last - 1, last - 1, last, last));
    ck_assert_str_eq(merge(profiles, 0).errors, "");
    /* Their counts are added, and shown for both. */
    const char *shown =
        run_or_abort(scratch, covsplit_path(), "run", "--store", "store", "--",
                     versioned_tool("llvm-cov", clang_version), "show", "program00", "-object",
                     text_format("program%02u", last - 1), "-instr-profile=all.profdata",
                     text_format("-compilation-dir=%s", scratch), NULL);
    ck_assert_uint_eq(text_count(shown, "    3|      2|int main(void) {"), 2);
}
END_TEST

/* All images are named, also if more of them agree than a line can hold. */
START_TEST(test_many_images)
{
    struct verdict verdict = {0};
    struct raw_profile profile;
    const char *line, *profiles = "second.profraw";
    unsigned images = 0;
    ck_assert(raw_profile_read(path_join(scratch, "first.profraw"), &profile, &verdict));
    ck_assert_uint_gt(profile.binary_ids.size, 16);
    for (unsigned i = 0; i < 600; i++) {
        const char *name = text_format("copy%03u.profraw", i);
        uint8_t *binary_id = profile.file.data + (profile.binary_ids.data - profile.file.data) + 8;
        binary_id[0] = (uint8_t)i;
        binary_id[1] = (uint8_t)(i >> 8);
        file_write(path_join(scratch, name), profile.file.data, profile.file.size);
        profiles = text_format("%s %s", profiles, name);
    }
    line = merge(text_format("--explain %s", profiles), 0).output;
    line = strstr(strstr(line, "\n  changed "), " 2 3 ");
    ck_assert_ptr_nonnull(line);
    for (const char *end = line; images < 600; line = end) {
        ck_assert_uint_eq(strtoul(line, (char **)&end, 10), images + 2);
        images++;
        end += strspn(end, " ");
        end += strncmp(end, "not known\n", 10) == 0 ? 10 : 0;
    }
    raw_profile_free(&profile);
}
END_TEST

/* A function without control flow has the hash of one that is not used (a `return` would change
 * it). In one program a translation unit that does not use it is linked first, in the other one
 * that does. */
START_TEST(test_unused_first)
{
    file_write_text(path_join(scratch, "plain.h"), "inline void plain(int *x) { ++*x; }\n");
    file_write_text(path_join(scratch, "idle.c"),
                    "#include \"plain.h\"\nint idle(int x) { return x; }\n");
    file_write_text(path_join(scratch, "user.c"), "#include \"plain.h\"\n"
                                                  "int idle(int);\n"
                                                  "int main(void) {\n"
                                                  "  int x = -1;\n"
                                                  "  plain(&x);\n"
                                                  "  return idle(x);\n"
                                                  "}\n");
    compile("-x c++ idle.c user.c -o idle_first");
    compile("-x c++ user.c idle.c -o user_first");
    run_both("idle_first");
    run_both("user_first");
    ck_assert_str_eq(explain("--store store idle_first.light.profraw user_first.light.profraw", ""),
                     "");
}
END_TEST

/* Nothing that a hostile or damaged mapping says ends a merge that does not need it. */
START_TEST(test_damaged_mapping)
{
    struct contents sidecar;
    unsigned refused = 0;
    run_or_abort(scratch, covsplit_path(), "split", "--portable", "--sidecar", "second.side", "-o",
                 "second.again", "second", NULL);
    sidecar = file_read(path_join(scratch, "second.side"));
    for (size_t at = 64; at < sidecar.size; at += sidecar.size / 60 + 1) {
        sidecar.data[at] ^= 0x41;
        file_write(path_join(scratch, "damaged.side"), sidecar.data, sidecar.size);
        sidecar.data[at] ^= 0x41;
        struct command command =
            covsplit_words(scratch, "merge -o damaged.profraw --store store --explain --json "
                                    "first.light.profraw second.profraw");
        struct outcome outcome = command_run(&command);
        ck_assert(outcome_exited(&outcome, 0));
        command = covsplit_words(scratch, "merge -o damaged.profraw --sidecar damaged.side "
                                          "second.light.profraw first.profraw --explain");
        outcome = command_run(&command);
        struct verdict verdict = {0};
        if (!outcome_exited(&outcome, 0)) {
            refused++;
            covsplit_refused(&command, &outcome, &verdict);
        }
        verdict_assert(&verdict, text_format("byte %zu", at));
    }
    ck_assert_uint_gt(refused, 10);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("all", 600, prepare);
    suite_tests(test_case, test_two_builds, test_one_line, test_unknown_files, test_what_llvm_does,
                test_counters, test_left_out, test_many_programs, test_many_images,
                test_unused_first, test_damaged_mapping);
    return suite_main(text_format("explaining merges, clang-%s", clang_version), test_case);
}
