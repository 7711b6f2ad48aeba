/*
 * What covsplit link learns from the linker of who refers to names and data: an object that does
 * keeps them, and is named; if none does, no number is taken for a distance. The output of the link
 * is as without covsplit.
 *
 * Usage: link_trace CLANG
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/program.h"

static const char *clang_version;
static const char *const linkers[] = {"bfd", "lld", "gold", "mold"};
#define LINKERS (sizeof linkers / sizeof *linkers)

static const char main_source[] =
    "#include <stdio.h>\nint walk(void);\n"
    "int main(int count, char **words) { (void)words; printf(\"%d\\n\", walk() + count);"
    " return 0; }\n";

/* Two numbers, which nothing reads. */
#define NUMBERS                                                                                    \
    "__asm__(\".section .rodata\\n.p2align 3\\n.globl numbers\\nnumbers: .long %ld, "              \
    "%ld\\n.text\\n\");"                                                                           \
    "\nint walk(void) { return 1; }\n"

static const char walk_source[] =
    "#define OURS __attribute__((visibility(\"hidden\")))\n"
    "extern const char __start___llvm_prf_names[] OURS, __stop___llvm_prf_names[] OURS;\n"
    "int walk(void) { int sum = 0;\n"
    "  for (const char *c = __start___llvm_prf_names; c < __stop___llvm_prf_names; c++) sum += "
    "*c;\n"
    "  return sum; }\n";

/* It refers to them, but what it makes of that is gone. */
static const char unused_source[] =
    "extern const char __start___llvm_prf_names[] __attribute__((visibility(\"hidden\")));\n"
    "__attribute__((visibility(\"hidden\"))) const char *unused(void)"
    " { return __start___llvm_prf_names; }\nint walk(void) { return 1; }\n";

static const char *compile(const char *directory, const char *source, const char *words)
{
    char *name = text_format("%s.c", words[0] == '\0' ? "main" : "other");
    struct command command = {.directory = directory};
    file_write_text(path_join(directory, name), source);
    text_list_add_format(&command.arguments, "clang-%s", clang_version);
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE " -ffunction-sections -O1 -c");
    text_list_add_words(&command.arguments, words);
    text_list_add(&command.arguments, name);
    command_run_or_abort(&command);
    return name;
}

static const char *link_words(const char *linker, const char *more)
{
    return text_format(
        "clang-%s -fuse-ld=%s -fprofile-instr-generate -Wl,--build-id main.o other.o "
        "-o app %s",
        clang_version, linker, more);
}

static uint64_t address_of_numbers(const char *directory)
{
    const char *symbols = run_or_abort(directory, "nm", "app", NULL);
    const char *line = strstr(symbols, " numbers\n");
    ck_assert_ptr_nonnull(line);
    while (line > symbols && line[-1] != '\n') {
        line--;
    }
    return strtoull(line, NULL, 16);
}

static const char *expect_link(const char *directory, const char *options, const char *words)
{
    struct outcome outcome =
        covsplit_run_words(directory, 0, text_format("link %s -- %s", options, words));
    ck_assert_str_eq(outcome.output, "");
    return outcome.errors;
}

/* Numbers that are the distances of both bounds, by chance. */
START_TEST(test_numbers)
{
    const char *linker = linkers[_i];
    char *directory = scratch_create("link-trace");
    compile(directory, main_source, "");
    compile(directory, text_format(NUMBERS, 1L, 3L), "-DOTHER");
    struct command first = command_words(directory, link_words(linker, ""));
    command_run_or_abort(&first);
    struct elf_file elf = elf_file_read(path_join(directory, "app"));
    const Elf64_Shdr *names = elf_file_section(&elf, "__llvm_prf_names");
    int64_t distance = (int64_t)(names->sh_addr - address_of_numbers(directory));
    compile(directory,
            text_format(NUMBERS, (long)distance, (long)(distance + (int64_t)names->sh_size - 4)),
            "-DOTHER");
    command_run_or_abort(&first);
    const char *errors =
        covsplit_run_words(directory, 0, "split -o stripped --sidecar side app").errors;
    ck_assert_msg(strstr(errors, "__llvm_prf_names stays: the number at ") != NULL, "%s: %s",
                  linker, errors);
    errors = expect_link(directory, "", link_words(linker, ""));
    ck_assert_msg(errors[0] == '\0', "%s: %s", linker, errors);
    run_or_abort(directory, "./app", NULL);
}
END_TEST

/* An object that refers to the names, also if the linker drops the function that does. */
START_TEST(test_other_object)
{
    const char *linker = linkers[(size_t)_i % LINKERS];
    bool is_used = (size_t)_i < LINKERS;
    char *directory = scratch_create("link-trace");
    const char *words = link_words(linker, "-Wl,--gc-sections");
    compile(directory, main_source, "");
    compile(directory, is_used ? walk_source : unused_source, "-DOTHER");
    const char *errors = expect_link(directory, "", words);
    ck_assert_msg(strstr(errors, "__llvm_prf_names stays: other.o refers to its start or end") !=
                      NULL,
                  "%s: %s", linker, errors);
    const char *output = run_or_abort(directory, "./app", NULL);
    struct command plain = command_words(directory, words);
    command_run_or_abort(&plain);
    ck_assert_str_eq(output, run_or_abort(directory, "./app", NULL));
    if (!is_used) {
        errors = expect_link(directory, "--assume-unreferenced", words);
        ck_assert_msg(strstr(errors, "although other.o refers to its start or end") != NULL,
                      "%s: %s", linker, errors);
        ck_assert_str_eq(output, run_or_abort(directory, "./app", NULL));
    }
}
END_TEST

/* What the linker says besides, in order, and how it ends. */
static const char *const talks[] = {"-Wl,--trace", "-Wl,--trace 2>&1", "missing.o",
                                    "-Wl,--undefined=none,--trace -Wl,--defsym=x=nothing",
                                    "-Wl,--trace-symbol=main"};

START_TEST(test_output)
{
    const char *linker = linkers[(size_t)_i % LINKERS];
    const char *words = link_words(linker, talks[(size_t)_i / LINKERS]);
    char *directory = scratch_create("link-trace");
    compile(directory, main_source, "");
    compile(directory, text_format(NUMBERS, 1L, 3L), "-DOTHER");
    struct command plain = {.directory = directory}, through = {.directory = directory};
    text_list_add_words(&plain.arguments, "sh -c");
    text_list_add(&plain.arguments, words);
    text_list_add_words(&through.arguments, "sh -c");
    text_list_add_format(&through.arguments, "%s link -- %s", covsplit_path(), words);
    struct outcome expected = command_run(&plain), found = command_run(&through);
    ck_assert_int_eq(expected.exit_code, found.exit_code);
    ck_assert_str_eq(expected.output, found.output);
    ck_assert_str_eq(expected.errors, found.errors);
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG", &clang_version);
    TCase *test_case = suite_case("link trace", 300, NULL);
    suite_loops(test_case, LINKERS, test_numbers);
    suite_loops(test_case, 2 * LINKERS, test_other_object);
    suite_loops(test_case, (int)(LINKERS * (sizeof talks / sizeof *talks)), test_output);
    return suite_main("link trace", test_case);
}
