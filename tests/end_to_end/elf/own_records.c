/*
 * Programs that look at their own records through the profile runtime, as LLVM's own tests do: they
 * keep names and records, and run and count as before. Those that only call what the runtime offers
 * to all programs are split like any other.
 *
 * Usage: own_records CLANG
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/darwin_program.h"
#include "tests/support/windows_program.h"

#define FUNCTIONS 20
#define MESSAGE   "stays: the program looks at its own records"

static const char *clang_version;

#define DECLARE                                                                                    \
    "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"                               \
    "typedef struct record record;\n"                                                              \
    "const record *__llvm_profile_begin_data(void), *__llvm_profile_end_data(void);\n"             \
    "const char *__llvm_profile_begin_names(void), *__llvm_profile_end_names(void);\n"             \
    "const record *__llvm_profile_iterate_data(const record *);\n"                                 \
    "void __llvm_profile_set_num_value_sites(record *, uint32_t kind, uint16_t count);\n"          \
    "void __llvm_profile_instrument_target(uint64_t value, void *data, uint32_t index);\n"         \
    "uint64_t __llvm_profile_get_size_for_buffer(void);\n"                                         \
    "int __llvm_profile_write_buffer(char *buffer);\n"                                             \
    "void __llvm_profile_reset_counters(void);\n"                                                  \
    "long first_run(long seed);\n"

#define WALK                                                                                       \
    "static int walk(const record *from, const record *to) { int count = 0;\n"                     \
    "  for (; from < to; from = __llvm_profile_iterate_data(from)) count++; return count; }\n"

#define MAIN(body)                                                                                 \
    "int main(int count, char **words) { (void)words; " body                                       \
    " printf(\"%ld\\n\", first_run(count)); return 3; }\n"

/* The sections of the runtime that are named before the others come before them in the image, too:
 * so the first record is where another section ends. */
#define ORDER(sections) "__asm__(\"" sections ".text\");\n"
#define RECORDS_NEXT    ".section __llvm_prf_data,\\\"aw\\\"\\n.p2align 3\\n"
#define NODES_NEXT      ".section __llvm_prf_vnds,\\\"aw\\\"\\n.p2align 4\\n"

#define BOUNDS                                                                                     \
    "extern const char first[] __asm__(\"__start___llvm_prf_data\")"                               \
    " __attribute__((visibility(\"hidden\")));\n"                                                  \
    "extern const char last[] __asm__(\"__stop___llvm_prf_data\")"                                 \
    " __attribute__((visibility(\"hidden\")));\n"

struct look {
    const char *what;
    const char *source;
    const char *options;
    size_t messages; /* what stays, and is said to stay because of this */
};

static const struct look looks[] = {
    {"values profiled by hand",
     DECLARE MAIN("const record *end = __llvm_profile_end_data(); int sites = 0;"
                  "for (const record *r = __llvm_profile_begin_data(); r < end;"
                  "     r = __llvm_profile_iterate_data(r)) {"
                  "  __llvm_profile_set_num_value_sites((record *)r, 0, 2);"
                  "  for (uint64_t i = 0; i < 5; i++)"
                  "    __llvm_profile_instrument_target(i + 1, (void *)r, (uint32_t)(i % 2));"
                  "  sites++; } printf(\"%d\\n\", sites);"),
     "", 2},
    {"records walked, at a fixed address",
     DECLARE WALK MAIN("printf(\"%d\\n\", walk(__llvm_profile_begin_data(),"
                       " __llvm_profile_end_data()));"),
     "-fno-pie -no-pie", 2},
    {"records walked through pointers to functions",
     DECLARE WALK "static const record *(*volatile bounds[2])(void) = {\n"
                  "  __llvm_profile_begin_data, __llvm_profile_end_data};\n" MAIN(
                      "printf(\"%d\\n\", walk(bounds[0](), bounds[1]()));"),
     "", 2},
    {"names walked in a tail call of a local function",
     DECLARE "__attribute__((noinline)) static const char *end(void)\n"
             "{ return __llvm_profile_end_names(); }\n" MAIN(
                 "unsigned sum = 0; for (const char *c = __llvm_profile_begin_names(); c < end();"
                 " c++) sum = sum * 31 + (unsigned char)*c; printf(\"%u\\n\", sum);"),
     "", 2},
    {"records walked by a function with a name like one of the device library",
     DECLARE WALK "__attribute__((noinline)) int covsplit_device_records(void)\n"
                  "{ return walk(__llvm_profile_begin_data(), __llvm_profile_end_data()); }\n" MAIN(
                      "printf(\"%d\\n\", covsplit_device_records());"),
     "", 2},
    {"a variable with the name of the runtime's for the end of the section before",
     DECLARE BOUNDS WALK
         ORDER(NODES_NEXT RECORDS_NEXT) "static const char *volatile EndVNode = first;\n" MAIN(
             "printf(\"%d\\n\", walk((const record *)EndVNode, (const record *)last));"),
     "", 1},
    {"a function with the name of the start files' for the end of the section before",
     DECLARE BOUNDS WALK ORDER(
         RECORDS_NEXT) "__attribute__((noinline)) static int register_tm_clones(void)\n"
                       "{ return walk((const record *)first, (const record *)last); }\n" MAIN(
                           "printf(\"%d\\n\", register_tm_clones());"),
     "", 1},
    {"records found by code behind data that begins like an instruction",
     DECLARE BOUNDS WALK
     "const record *start(void);\n"
     "__asm__(\".text\\n.type start,@function\\nstart: jmp 1f\\n.byte 0x48, 0xb8\\n\"\n"
     "  \"1: lea __start___llvm_prf_data(%rip), %rax\\nnop\\nret\\n.size start, .-start\\n\"\n"
     "  \".hidden __start___llvm_prf_data\\n\");\n" MAIN(
         "printf(\"%d\\n\", walk(start(), (const record *)last));"),
     "", 1},
    {"what the runtime offers",
     DECLARE MAIN("__llvm_profile_reset_counters();"
                  "char *buffer = malloc(__llvm_profile_get_size_for_buffer());"
                  "printf(\"%d\\n\", __llvm_profile_write_buffer(buffer)); free(buffer);"),
     "", 0},
};

#define LOOK_COUNT (sizeof looks / sizeof *looks)
static const char *const linkers[] = {"bfd", "lld"};

/* All that a profile says, values too, as text. */
static const char *counts_of(const char *directory, const char *profile)
{
    run_or_abort(directory, versioned_tool("llvm-profdata", clang_version), "merge", "-text", "-o",
                 "counts.txt", profile, NULL);
    struct contents contents = file_read(path_join(directory, "counts.txt"));
    return text_format("%.*s", (int)contents.size, (const char *)contents.data);
}

START_TEST(test_look)
{
    const struct look *look = &looks[(size_t)_i % LOOK_COUNT];
    const char *linker = linkers[(size_t)_i / LOOK_COUNT];
    const char *label = text_format("%s, %s", look->what, linker);
    char *directory = scratch_create("own-records");
    struct program program = {.clang = clang_version,
                              .linker = linker,
                              .link_options = look->options,
                              .functions = FUNCTIONS};
    program_build_own(&program, look->source, directory);
    const char *errors = covsplit_assert(0, directory, "split", "-o", "stripped", "--sidecar",
                                         "app.covsplit", "app", NULL);
    ck_assert_msg(text_count(errors, MESSAGE) == look->messages, "%s: %s", label, errors);

    struct outcome expected = program_run(directory, "app"),
                   found = program_run(directory, "stripped");
    ck_assert_msg(outcome_exited(&expected, 3), "%s: %s", label, expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "%s: %s", label, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    covsplit_run_words(directory, 0,
                       "correlate --sidecar app.covsplit -o full.profraw stripped.profraw");
    ck_assert_str_eq(counts_of(directory, "app.profraw"), counts_of(directory, "full.profraw"));
    if (look->messages == 0) {
        ck_assert_uint_lt(file_size(path_join(directory, "stripped.profraw")),
                          file_size(path_join(directory, "full.profraw")));
    }
}
END_TEST

/* A table of the C library's name, whose words all have the address where the section before ends,
 * among many functions. */
#define MANY_REFERENCES                                                                            \
    "__asm__(\".section __libc_atexit,\\\"aw\\\"\\n.quad 0\\n\""                                   \
    "  \".section __llvm_prf_data,\\\"aw\\\"\\n.p2align 3\\n.data\\n.p2align 3\\n\""               \
    "  \".type __run_exit_handlers,@object\\n__run_exit_handlers:\\n\""                            \
    "  \".rept 40000\\n.quad __start___llvm_prf_data\\n.endr\\n\""                                 \
    "  \".size __run_exit_handlers, . - __run_exit_handlers\\n\""                                  \
    "  \".macro function\\n.type local\\\\@,@function\\nlocal\\\\@:\\n.endm\\n\""                  \
    "  \".text\\n.rept 200000\\nfunction\\n.endr\\nret\\n\");\n"

START_TEST(test_many_references)
{
    char *directory = scratch_create("own-records");
    struct program program = {.clang = clang_version,
                              .linker = "lld",
                              .link_options = "-fno-pie -no-pie",
                              .functions = FUNCTIONS};
    program_build_own(&program, DECLARE MANY_REFERENCES MAIN(""), directory);
    const char *errors = covsplit_assert(0, directory, "split", "-o", "stripped", "--sidecar",
                                         "app.covsplit", "app", NULL);
    ck_assert_str_eq(errors, "");
}
END_TEST

/* ---- Mach-O and COFF ---- */

#define LOOKING INSTRUMENT_COVERAGE " -DLOOKS_AT_RECORDS"

static void expect_kept(const char *directory, const char *words, const char *label)
{
    struct outcome outcome = covsplit_run_words(directory, 0, words);
    ck_assert_msg(text_count(outcome.errors, MESSAGE) == 2, "%s: %s", label, outcome.errors);
}

static const char *const architectures[] = {"arm64", "x86_64"};

START_TEST(test_macho)
{
    struct darwin_program program = {.clang = clang_version,
                                     .architecture = architectures[_i],
                                     .instrumentation = LOOKING,
                                     .functions = FUNCTIONS};
    char *directory = scratch_create("own-records");
    darwin_program_build(&program, directory, "app");
    expect_kept(directory, "split -o stripped --sidecar side app", architectures[_i]);
}
END_TEST

static const enum windows_target targets[] = {WINDOWS_MSVC_X86_64, WINDOWS_MSVC_ARM64,
                                              WINDOWS_MSVC_I686, WINDOWS_MINGW_LLD};

/* An image for MSVC has no symbols but those of its map. */
START_TEST(test_coff)
{
    struct windows_program program = {.clang = clang_version,
                                      .target = targets[_i],
                                      .instrumentation = LOOKING,
                                      .functions = FUNCTIONS};
    char *directory = scratch_create("own-records");
    const char *map = windows_target_is_msvc(targets[_i]) ? "--map " WINDOWS_PROGRAM ".map " : "";
    windows_program_build(&program, directory);
    expect_kept(directory, text_format("split -o stripped --sidecar side %s" WINDOWS_PROGRAM, map),
                windows_program_describe(&program));
}
END_TEST

/* Data that has distances to both bounds of the names, in each of the forms of the fixtures. Mach-O
 * has no relocation for them on x86-64, where a linker makes the symbol. */
#define DISTANCE_MESSAGE "stays: the number at "
static const char *const distances[] = {INSTRUMENT_COVERAGE " -DHOLDS_DISTANCE=1",
                                        INSTRUMENT_COVERAGE " -DHOLDS_DISTANCE=2"};

START_TEST(test_macho_distance)
{
    struct darwin_program program = {.clang = clang_version,
                                     .architecture = "arm64",
                                     .instrumentation = distances[_i],
                                     .functions = FUNCTIONS};
    char *directory = scratch_create("own-records");
    darwin_program_build(&program, directory, "app");
    struct outcome outcome =
        covsplit_run_words(directory, 0, "split -o stripped --sidecar side app");
    ck_assert_msg(strstr(outcome.errors, DISTANCE_MESSAGE) != NULL, "%s: %s", distances[_i],
                  outcome.errors);
}
END_TEST

/* Not for mingw-w64, whose linker drops data that nothing refers to. */
START_TEST(test_coff_distance)
{
    struct windows_program program = {.clang = clang_version,
                                      .target = targets[_i / 2],
                                      .instrumentation = distances[_i % 2],
                                      .functions = FUNCTIONS};
    char *directory = scratch_create("own-records");
    windows_program_build(&program, directory);
    struct outcome outcome =
        covsplit_run_words(directory, 0, "split -o stripped --sidecar side " WINDOWS_PROGRAM);
    ck_assert_msg(strstr(outcome.errors, DISTANCE_MESSAGE) != NULL, "%s: %s",
                  windows_program_describe(&program), outcome.errors);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("looks", 300, NULL);
    suite_loops(test_case, LOOK_COUNT * (sizeof linkers / sizeof *linkers), test_look);
    if (strcmp(clang_version, "22") == 0) {
        suite_loops(test_case, 1, test_many_references);
        suite_loops(test_case, 2, test_macho);
        suite_loops(test_case, sizeof targets / sizeof *targets, test_coff);
        suite_loops(test_case, sizeof distances / sizeof *distances, test_macho_distance);
        suite_loops(test_case, 2 * (sizeof targets / sizeof *targets - 1), test_coff_distance);
    }
    return suite_main(text_format("own records clang-%s", clang_version), test_case);
}
