/*
 * Images that are unusual as a whole: of gigabytes, with more sections than a header can number,
 * with relocations that other tools read, with XRay's tables, and those that BOLT has rewritten.
 *
 * Usage: unusual LINKER
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define FUNCTIONS 180
#define MAIN                                                                                       \
    "#include <stdio.h>\nlong first_run(long seed);\n"                                             \
    "int main(int count, char **words) { (void)words; printf(\"%ld\\n\", first_run(count));"       \
    " return 3; }\n"

#define MORE_SECTIONS 65400
#define GIBIBYTE      (UINT64_C(1) << 30)
/* What may be in blocks of a file of gigabytes, and in the memory of the command. */
#define SPARSE_BLOCKS_MAX (UINT64_C(8) << 20)
#define MEMORY_KIB_MAX    65536

static const char *linker_name;
static char *place;

/* Links MAIN, and what the words say, as place/app. */
static void build(const char *clang, const char *words)
{
    struct program program = {
        .clang = clang, .linker = linker_name, .link_options = words, .functions = FUNCTIONS};
    program_build_own(&program, MAIN, place);
}

static struct outcome command_in_place(const char *words, int exit_code)
{
    struct command command = covsplit_words(place, words);
    return command_expect(&command, exit_code);
}

/* Splits the image, which runs as before then, and joins it, of which join itself looks at the
 * digest. Returns what the split said. */
static const char *check_split(void)
{
    struct outcome outcome = command_in_place("split -o stripped --sidecar side app", 0);
    struct outcome expected = program_run(place, "app"), found = program_run(place, "stripped");
    ck_assert_msg(outcome_exited(&expected, 3), "%s", expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "exit %d, signal %d: %s", found.exit_code,
                  found.signal, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    if (!covsplit_is_sanitized()) {
        ck_assert_int_lt(outcome.peak_resident_kib, MEMORY_KIB_MAX);
    }
    command_in_place("join --sidecar side -o joined stripped", 0);
    return outcome.errors;
}

static void check_joined(void)
{
    files_assert_equal(path_join(place, "joined"), path_join(place, "app"), linker_name);
}

static void merge_profiles(const char *clang)
{
    const char *profdata = versioned_tool("llvm-profdata", clang);
    run_or_abort(place, profdata, "merge", "-o", "expected.profdata", "app.profraw", NULL);
    command_in_place(text_format("merge --sidecar side --llvm-profdata %s -o found.profdata "
                                 "stripped.profraw",
                                 profdata),
                     0);
}

/* The profiles of both give the same. */
static void check_profiles(const char *clang)
{
    merge_profiles(clang);
    files_assert_equal(path_join(place, "expected.profdata"), path_join(place, "found.profdata"),
                       linker_name);
}

/* The profiles of both have the same counts; an image that another tool wrote may have another
 * build ID, and the profile that is found has that of the split. */
static void check_counts(const char *clang)
{
    static const char words[] = "show --all-functions --counts --binary-ids";
    const char *profdata = versioned_tool("llvm-profdata", clang);
    merge_profiles(clang);
    struct command expected = command_words(place, "%s %s expected.profdata", profdata, words);
    struct command found = command_words(place, "%s %s found.profdata", profdata, words);
    const char *expected_text = command_expect(&expected, 0).output;
    const char *found_text = command_expect(&found, 0).output;
    const char *ids = strstr(found_text, "Binary IDs:");
    ck_assert_ptr_nonnull(ids);
    ck_assert_int_eq(strncmp(expected_text, found_text, (size_t)(ids - found_text)), 0);
    struct outcome shown = command_in_place("show side", 0);
    ck_assert_ptr_nonnull(strstr(
        ids, text_format("%.40s", strpbrk(strstr(shown.output, "UUID") + 4, "0123456789abcdef"))));
}

static void check_all_goes(const char *clang)
{
    const char *errors = check_split();
    ck_assert_msg(strstr(errors, " stays") == NULL, "%s", errors);
    check_joined();
    check_profiles(clang);
}

/* ---- many sections ---- */

START_TEST(test_many_sections)
{
    place = scratch_create("many-sections");
    FILE *file = fopen(path_join(place, "many.S"), "w");
    ck_assert_ptr_nonnull(file);
    for (unsigned i = 0; i < MORE_SECTIONS; i++) {
        fprintf(file, ".section .extra%u,\"a\"\n.byte %u\n", i, i & 255);
    }
    fprintf(file, ".section .note.GNU-stack,\"\",@progbits\n");
    ck_assert_int_eq(fclose(file), 0);
    run_or_abort(place, "clang-19", "-c", "many.S", "-o", "many.o", NULL);
    build("19", "many.o");
    check_all_goes("19");
}
END_TEST

/* ---- gigabytes ---- */

/* With a section of so many bytes, of which only the first and the last are not zero, in memory
 * behind all others, or in the file alone in front of the mapping. */
static void check_large(uint64_t size, bool is_loaded)
{
    place = scratch_create("large");
    file_write_text(path_join(place, "large.ld"),
                    text_format("SECTIONS { .large %s : { BYTE(1) . += 0x%llx; BYTE(2) } } "
                                "INSERT %s;\n",
                                is_loaded ? "" : "0 (INFO)", (unsigned long long)size,
                                is_loaded ? "AFTER .bss" : "BEFORE .comment"));
    build("19", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef -Wl,-T,large.ld");
    struct stat original = file_status(path_join(place, "app"));
    ck_assert_uint_gt((uintmax_t)original.st_size, size);
    const char *errors = check_split();
    ck_assert_msg(strstr(errors, " stays") == NULL, "%s", errors);
    check_profiles("19");
    static const char *const made[] = {"stripped", "joined"};
    for (size_t i = 0; i < 2; i++) {
        struct stat status = file_status(path_join(place, made[i]));
        ck_assert_uint_lt((uint64_t)status.st_blocks * 512, SPARSE_BLOCKS_MAX);
    }
}

START_TEST(test_large)
{
    check_large((_i < 2 ? 2 : 4) * GIBIBYTE + 4096, _i % 2 == 0);
}
END_TEST

/* ---- retained relocations ---- */

/* The lines of readelf's list of relocations, less those of dynamic ones. */
static struct text_list relocations_of(const char *image)
{
    const char *text = run_or_abort(place, "readelf", "-rW", image, NULL);
    struct text_list lines = text_list_of_lines(text), found = {0};
    bool is_retained = false;
    for (size_t i = 0; i < lines.count; i++) {
        if (strncmp(lines.items[i], "Relocation section", 18) == 0) {
            is_retained = strstr(lines.items[i], ".rela.dyn") == NULL &&
                          strstr(lines.items[i], ".rela.plt") == NULL &&
                          strstr(lines.items[i], ".relr.dyn") == NULL &&
                          strstr(lines.items[i], "__llvm_") == NULL;
        } else if (is_retained && strstr(lines.items[i], "R_X86_64_") != NULL) {
            text_list_add(&found, lines.items[i]);
        }
    }
    return found;
}

/* Those of the sections that stay are what they were, but for one in each of the accessors that
 * changed; those of others are gone. */
START_TEST(test_retained)
{
    place = scratch_create("retained");
    build("22", "-Wl,--emit-relocs");
    check_all_goes("22");
    struct text_list before = relocations_of("app"), after = relocations_of("stripped");
    size_t silent = 0;
    ck_assert_uint_eq(before.count, after.count);
    for (size_t i = 0; i < before.count; i++) {
        bool is_silent = strstr(after.items[i], "R_X86_64_NONE") != NULL;
        silent += is_silent;
        ck_assert_msg(is_silent || strcmp(before.items[i], after.items[i]) == 0, "%s\n%s",
                      before.items[i], after.items[i]);
    }
    ck_assert_uint_eq(silent, 2);
    const char *sections = run_or_abort(place, "readelf", "-SW", "stripped", NULL);
    struct text_list lines = text_list_of_lines(sections);
    for (size_t i = 0; i < lines.count; i++) {
        ck_assert_msg(strstr(lines.items[i], ".rela__llvm_prf_data") == NULL ||
                          strstr(lines.items[i], " 000018 18 ") != NULL,
                      "%s", lines.items[i]);
    }
}
END_TEST

/* ---- XRay ---- */

static const char *const clangs[] = {"14", "16", "19", "22"};

static const char *run_xray(const char *clang, const char *words)
{
    struct command command =
        command_words(place, "%s %s", versioned_tool("llvm-xray", clang), words);
    return command_expect(&command, 0).output;
}

START_TEST(test_xray)
{
    const char *clang = clangs[_i];
    place = scratch_create("xray");
    build(clang, "-fxray-instrument -fxray-instruction-threshold=1");
    check_all_goes(clang);
    command_in_place("export --sidecar side -o object", 0);
    run_or_abort(place, "strip", "stripped", NULL);
    ck_assert_str_eq(run_xray(clang, "extract app"), run_xray(clang, "extract object"));

    struct command command = command_words(place, "./stripped");
    text_list_add(&command.environment,
                  "XRAY_OPTIONS=patch_premain=true xray_mode=xray-basic xray_logfile_base=log.");
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=traced.profraw");
    command_expect(&command, 3);
    struct text_list names = directory_list(place);
    const char *log = NULL;
    for (size_t i = 0; i < names.count; i++) {
        log = strncmp(names.items[i], "log.", 4) == 0 ? names.items[i] : log;
    }
    ck_assert_ptr_nonnull(log);
    ck_assert_str_eq(run_xray(clang, text_format("account %s -instr_map=stripped", log)),
                     run_xray(clang, text_format("account %s -instr_map=object", log)));
}
END_TEST

/* ---- BOLT ---- */

#define BOLT "llvm-bolt-19"

/* What BOLT leaves in an image is all that it is known by. */
START_TEST(test_bolted)
{
    place = scratch_create("bolted");
    build("19", "-Wl,--emit-relocs");
    run_or_abort(place, BOLT, "app", "-o", "bolted", "--reorder-functions=hfsort", NULL);
    command_in_place("split -o split --sidecar split.side bolted", 0);
    const char *errors = command_in_place("split -o again --sidecar again.side bolted", 0).errors;
    ck_assert_uint_eq(text_count(errors, "BOLT has moved the image's code"), 2);
    struct outcome expected = program_run(place, "bolted"), found = program_run(place, "split");
    ck_assert_str_eq(expected.output, found.output);

    /* And it takes a stripped image, whose retained relocations still tell the truth. */
    check_all_goes("19");
    run_or_abort(place, BOLT, "stripped", "-o", "moved", "--reorder-functions=hfsort", NULL);
    struct outcome moved = program_run(place, "moved");
    ck_assert(outcome_exited(&moved, 3));
    ck_assert_str_eq(expected.output, moved.output);
    file_copy(path_join(place, "moved.profraw"), path_join(place, "stripped.profraw"));
    file_copy(path_join(place, "bolted.profraw"), path_join(place, "app.profraw"));
    check_counts("19");
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "LINKER", &linker_name);
    TCase *test_case = suite_case("unusual", 600, NULL);
    suite_tests(test_case, test_many_sections, test_retained, test_bolted);
    suite_loops(test_case, sizeof clangs / sizeof *clangs, test_xray);
    /* GNU ld writes all the zeros. Looking at them takes seconds, so it is not done every day. */
    if (strcmp(linker_name, "lld") == 0 && rounds_are_all()) {
        suite_loops(test_case, 4, test_large);
    }
    return suite_main(text_format("unusual images %s", linker_name), test_case);
}
