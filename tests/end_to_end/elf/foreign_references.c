/*
 * Programs that look at their own names, data or notes, which most do not: what they look at stays,
 * or at least they run as before. And programs that only seem to, of which the user knows better.
 *
 * Usage: foreign_references CLANG LINKER
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define FUNCTIONS 400

static const char *clang_version;
static const char *linker_name;

#define DECLARE                                                                                    \
    "#include <stdio.h>\n"                                                                         \
    "long first_run(long seed);\n"                                                                 \
    "#define OURS __attribute__((visibility(\"hidden\")))\n"                                       \
    "extern unsigned char __start___llvm_prf_data[] OURS, __stop___llvm_prf_data[] OURS;\n"        \
    "extern unsigned char __start___llvm_prf_names[] OURS, __stop___llvm_prf_names[] OURS;\n"      \
    "static unsigned sum(const unsigned char *from, const unsigned char *to)\n"                    \
    "{ unsigned s = 0; for (; from < to; from++) s = s * 31 + *from; return s; }\n"

#define MAIN(body)                                                                                 \
    DECLARE "int main(int count, char **words) { (void)words; " body                               \
            " printf(\"%ld\\n\", first_run(count)); return 3; }\n"

/* An instruction that compilers have for less than whole values: it sets the number in %rax. */
#define INSTRUCTION(text)                                                                          \
    MAIN("unsigned long number = 0; (void)sum;"                                                    \
         "__asm__ volatile(\"" text "\" : \"+a\"(number) : : \"cc\", \"memory\");"                 \
         " printf(\"%lu\\n\", number);")

/* Numbers in a section, named after the first and the second, and what they are added to. */
#define NUMBERS(section, numbers, first, second)                                                   \
    DECLARE                                                                                        \
    "__asm__(\".section " section "\\n.p2align 3\\nnumbers: " numbers                              \
    "\\n.text\\n.hidden __start___llvm_prf_names\\n.hidden __stop___llvm_prf_names\\n\");\n"       \
    "extern const int numbers[] OURS; extern const char _GLOBAL_OFFSET_TABLE_[] OURS;\n"           \
    "extern const char __executable_start[] OURS;\n"                                               \
    "int main(int count, char **words) { const char *number = (const char *)numbers;"              \
    " (void)words; printf(\"%u\\n\", sum(" first ", " second "));"                                 \
    " printf(\"%ld\\n\", first_run(count)); return 3; }\n"

/* A variable of so many bytes, of which the last four would be a distance if all are its own. */
#define VARIABLE(size)                                                                             \
    DECLARE                                                                                        \
    "__asm__(\".section .rodata\\n.p2align 3\\n.type text, @object\\n.size text, " size            \
    "\\ntext: .ascii \\\"function\\\"\\n.long __start___llvm_prf_names - .\\n.text\\n"             \
    ".hidden __start___llvm_prf_names\\n\");\nextern const char text[] OURS;\n"                    \
    "int main(int count, char **words) { (void)words; (void)sum; puts(text);"                      \
    " printf(\"%ld\\n\", first_run(count)); return 3; }\n"

#define NOTHING "nothing"

struct look {
    const char *what;
    const char *source;
    const char *options;
    const char *stays; /* what the message must name, or NOTHING; NULL: any outcome that runs */
};

static const struct look looks[] = {
    {"code that walks the names",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_names, __stop___llvm_prf_names));"), "",
     "__llvm_prf_names"},
    {"code that walks the names, at a fixed address",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_names, __stop___llvm_prf_names));"),
     "-fno-pie -no-pie", "__llvm_prf_names"},
    {"code that reads the first record",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_data, __start___llvm_prf_data + 16));"), "",
     "__llvm_prf_data"},
    {"code that reads the first record, at a fixed address",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_data, __start___llvm_prf_data + 16));"),
     "-fno-pie -no-pie", "__llvm_prf_data"},
    {"code that compares a byte of the first record",
     INSTRUCTION("cmpb $1, __start___llvm_prf_data(%%rip); setb %%al"), "", "__llvm_prf_data"},
    {"code that adds a word of a record in the middle",
     INSTRUCTION("addq __start___llvm_prf_data+2000(%%rip), %%rax"), "", "__llvm_prf_data"},
    {"code that loads a byte of a record in the middle",
     INSTRUCTION("movzbl __start___llvm_prf_data+2001(%%rip), %%eax"), "", "__llvm_prf_data"},
    {"code that tests the last names",
     INSTRUCTION("testl $0x55555555, __stop___llvm_prf_names-8(%%rip); setne %%al"), "",
     "__llvm_prf_names"},
    {"code that tests a byte of the names in the middle, at a fixed address",
     INSTRUCTION("testb $0x55, __start___llvm_prf_names+1234(%%rip); setne %%al"),
     "-fno-pie -no-pie", "__llvm_prf_names"},
    {"code that multiplies names in the middle",
     INSTRUCTION("imulq $-3, __start___llvm_prf_names+1233(%%rip), %%rax"), "", "__llvm_prf_names"},
    {"code of the medium model that walks the names",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_names, __stop___llvm_prf_names));"),
     "-fPIE -pie -mcmodel=medium", "__llvm_prf_names"},
    {"code of the large model that walks the names",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_names, __stop___llvm_prf_names));"),
     "-fPIE -pie -mcmodel=large", "__llvm_prf_names"},
    {"code of the large model that reads a record in the middle",
     MAIN(
         "printf(\"%u\\n\", sum(__start___llvm_prf_data + 2000, __start___llvm_prf_data + 2016));"),
     "-fPIE -pie -mcmodel=large -O1", "__llvm_prf_data"},
    {"code of the large model that walks the names, without local symbols",
     MAIN("printf(\"%u\\n\", sum(__start___llvm_prf_names, __stop___llvm_prf_names));"),
     "-fPIE -pie -mcmodel=large -Wl,-x -Wl,-z,now", "__llvm_prf_names"},
    {"code that adds a distance to the address of a label",
     MAIN("unsigned char *names; (void)sum;"
          "__asm__(\"1: lea 1b(%%rip), %0; movabs $__start___llvm_prf_names - 1b, %%rcx;"
          " add %%rcx, %0\" : \"=r\"(names) : : \"rcx\", \"cc\");"
          " printf(\"%u\\n\", sum(names, names + 99));"),
     "", "__llvm_prf_names"},
    {"a pointer with a relocation",
     MAIN("static unsigned char *volatile inside = __start___llvm_prf_names + 1234;"
          "printf(\"%u\\n\", *inside);"),
     "", "__llvm_prf_names"},
    {"a pointer at a fixed address",
     MAIN("static unsigned char *volatile names = __start___llvm_prf_names;"
          "printf(\"%u\\n\", names[1234]);"),
     "-fno-pie -no-pie", "__llvm_prf_names"},
    {"code that loads the slots that the accessors load",
     "#include <stdio.h>\n"
     "long first_run(long seed);\n"
     "extern unsigned char __start___llvm_prf_data[], __stop___llvm_prf_data[];\n"
     "int main(int count, char **words) { unsigned s = 0; (void)words;"
     " for (unsigned char *c = __start___llvm_prf_data; c < __stop___llvm_prf_data; c++)"
     " s = s * 31 + *c; printf(\"%u %ld\\n\", s, first_run(count)); return 3; }\n",
     "-Wl,--no-relax", "__llvm_prf_data"},
    {"a distance of 4 bytes in data",
     NUMBERS(".rodata", ".long __start___llvm_prf_names - .", "number + numbers[0]",
             "number + numbers[0] + 99"),
     "", "__llvm_prf_names"},
    {"a distance of 8 bytes in writable data, to the end",
     NUMBERS(".data", ".quad __stop___llvm_prf_names - .", "number + *(const long *)numbers - 99",
             "number + *(const long *)numbers"),
     "", "__llvm_prf_names"},
    {"distances from the start of a table",
     NUMBERS(".rodata",
             ".long first_run - numbers, 0, __stop___llvm_prf_names - numbers,"
             " __start___llvm_prf_names - numbers",
             "number + numbers[3]", "number + numbers[2]"),
     "", "__llvm_prf_names"},
    {"distances of 8 bytes from the start of a table",
     NUMBERS(".rodata",
             ".quad first_run - numbers, __start___llvm_prf_names - numbers,"
             " __stop___llvm_prf_names - numbers",
             "number + numbers[2]", "number + numbers[4]"),
     "", "__llvm_prf_names"},
    {"rows of the same distances from the start of a table",
     NUMBERS(".rodata",
             ".rept 5\\n.long __start___llvm_prf_names - numbers,"
             " __stop___llvm_prf_names - numbers\\n.endr",
             "number + numbers[0]", "number + numbers[1]"),
     "", "__llvm_prf_names"},
    {"rows of distances of 8 bytes that lead to the same",
     NUMBERS(".rodata",
             ".rept 5\\n.quad __start___llvm_prf_names - ., __stop___llvm_prf_names - .\\n.endr",
             "number + numbers[0]", "number + 8 + numbers[2]"),
     "", "__llvm_prf_names"},
    {"distances of both bounds in the middle of a table",
     NUMBERS(".rodata",
             ".fill 500\\n.long __start___llvm_prf_names - ., 77, __stop___llvm_prf_names - .",
             "number + 500 + numbers[125]", "number + 508 + numbers[127]"),
     "", "__llvm_prf_names"},
    {"a distance and a size in the middle of a table",
     NUMBERS(".rodata", ".fill 500\\n.long names_size, 77, __start___llvm_prf_names - .",
             "number + 508 + numbers[127]", "number + 508 + numbers[127] + numbers[125]"),
     "-fno-pie -no-pie -Wl,--defsym=names_size=__stop___llvm_prf_names-__start___llvm_prf_names",
     "__llvm_prf_names"},
    {"a distance from the start of a section",
     NUMBERS("mine,\\\"a\\\"", ".fill 500\\n.long __start___llvm_prf_names - numbers",
             "number + numbers[125]", "number + numbers[125] + 99"),
     "", "__llvm_prf_names"},
    {"a distance from the GOT",
     NUMBERS(".rodata", ".quad __start___llvm_prf_names@GOTOFF",
             "_GLOBAL_OFFSET_TABLE_ + *(const long *)number",
             "_GLOBAL_OFFSET_TABLE_ + *(const long *)number + 99"),
     "", "__llvm_prf_names"},
    {"a distance from the start of the image",
     NUMBERS(".rodata", ".long names_offset", "__executable_start + numbers[0]",
             "__executable_start + numbers[0] + 99"),
     "-fno-pie -no-pie -Wl,--defsym=names_offset=__start___llvm_prf_names-__executable_start",
     "__llvm_prf_names"},
    {"an address of 4 bytes",
     NUMBERS(".rodata", ".long __start___llvm_prf_names", "(const char *)(long)numbers[0]",
             "(const char *)(long)numbers[0] + 99"),
     "-fno-pie -no-pie", "__llvm_prf_names"},
    {"a distance at the end of a variable", VARIABLE("12"), "", "__llvm_prf_names"},
    {"a distance in a variable of which another name covers less",
     VARIABLE("12\\n.type front, @object\\n.set front, text\\n.size front, 10"), "",
     "__llvm_prf_names"},
    {"a number that is only half in a variable", VARIABLE("10"), "", NOTHING},
    {"a number that is only half in a variable, at a fixed address", VARIABLE("9"),
     "-fno-pie -no-pie", NOTHING},
    {"a writable note behind the names",
     DECLARE "__attribute__((used, section(\".note.mine\"), aligned(4))) static struct {"
             " unsigned name, description, type; char text[8], more[8]; }"
             " note = {5, 8, 1, \"Mine\", \"hello\"};\n"
             "int main(int count, char **words) { (void)words; (void)sum;"
             " printf(\"%ld\\n\", first_run(count)); return 3; }\n",
     "-mllvm -enable-name-compression=false", NULL},
    {"a read-only note of its own",
     DECLARE "__attribute__((used, section(\".note.mine\"), aligned(4))) static const struct {"
             " unsigned name, description, type; char text[8], more[8]; }"
             " note = {5, 8, 1, \"Mine\", \"hello\"};\n"
             "int main(int count, char **words) { (void)words; (void)sum;"
             " printf(\"%s %ld\\n\", note.more, first_run(count)); return 3; }\n",
     "", NULL},
    {"a stack size", MAIN("(void)sum;"), "-Wl,-z,stack-size=8388608", NULL},
};

START_TEST(test_look)
{
    const struct look *look = &looks[_i];
    char *directory = scratch_create("look");
    struct program program = {.clang = clang_version,
                              .linker = linker_name,
                              .link_options = look->options,
                              .functions = FUNCTIONS};
    program_build_own(&program, look->source, directory);
    const char *errors =
        covsplit_assert(0, directory, "split", "-o", "stripped", "--sidecar", "side", "app", NULL);
    if (look->stays != NULL && strcmp(look->stays, NOTHING) == 0) {
        ck_assert_msg(strstr(errors, " stays") == NULL, "%s: %s", look->what, errors);
    } else if (look->stays != NULL) {
        char *stays = text_format("%s stays: ", look->stays);
        ck_assert_msg(strstr(errors, stays) != NULL, "%s: %s", look->what, errors);
    }
    struct outcome expected = program_run(directory, "app");
    struct outcome found = program_run(directory, "stripped");
    ck_assert_msg(outcome_exited(&expected, 3), "%s: %s", look->what, expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "%s: exit %d, signal %d: %s", look->what,
                  found.exit_code, found.signal, found.errors);
    ck_assert_str_eq(expected.output, found.output);
    ck_assert_str_eq(expected.errors, found.errors);
    ck_assert(file_exists(path_join(directory, "stripped.profraw")));
    ck_assert_uint_gt((uintmax_t)file_status(path_join(directory, "stripped.profraw")).st_size, 0);
}
END_TEST

/* ---- what the user knows better ---- */

#define ASSUMED "assumed to be unreferenced, as --assume-unreferenced says, although "
#define UNREAD                                                                                     \
    DECLARE                                                                                        \
    "__asm__(\".section .rodata\\n.p2align 3\\n.long __start___llvm_prf_names - .,"                \
    " __stop___llvm_prf_names - .\\n.text\\n\"\n"                                                  \
    "  \".hidden __start___llvm_prf_names\\n.hidden __stop___llvm_prf_names\\n\");\n"              \
    "int main(int count, char **words) { (void)words; (void)sum;"                                  \
    " printf(\"%ld\\n\", first_run(count)); return 3; }\n"

struct assumed {
    const char *source;
    const char *reason; /* that the user knows better; NULL: there is none */
    const char *options;
    const char *way;
};

static const struct assumed assumed_ways[] = {
    {UNREAD, "the number at ", "", ""},
    {UNREAD, "the number at ", "", "--sections names"},
    {MAIN("static unsigned char *volatile names = __start___llvm_prf_names;"
          "(void)sum; if (count == 99) printf(\"%u\\n\", *names);"),
     "a pointer at ", "-fno-pie -no-pie", ""},
    {MAIN("if (count == 99) printf(\"%u\\n\", sum(__start___llvm_prf_names,"
          " __stop___llvm_prf_names));"),
     "code at ", "", ""},
    {MAIN("(void)sum;"), NULL, "", ""},
};

/* The names go if the user says so; the sidecar and a warning tell it only where that was needed.
 */
START_TEST(test_assumed)
{
    const struct assumed *way = &assumed_ways[_i];
    char *directory = scratch_create("assumed");
    struct program program = {.clang = clang_version,
                              .linker = linker_name,
                              .link_options = way->options,
                              .functions = FUNCTIONS};
    program_build_own(&program, way->source, directory);
    const char *errors =
        covsplit_run_words(directory, 0,
                           text_format("split -o kept --sidecar kept-side %s app", way->way))
            .errors;
    ck_assert_int_eq(strstr(errors, "__llvm_prf_names stays: ") != NULL, way->reason != NULL);
    ck_assert_int_eq(strstr(errors, "give --assume-unreferenced") != NULL, way->reason != NULL);
    errors = covsplit_run_words(directory, 0,
                                text_format("split --assume-unreferenced -o stripped --sidecar side"
                                            " %s app",
                                            way->way))
                 .errors;
    ck_assert_msg(way->reason == NULL
                      ? errors[0] == '\0'
                      : strstr(errors, text_format(ASSUMED "%s", way->reason)) != NULL,
                  "%s", errors);
    ck_assert_msg(strstr(errors, "__llvm_prf_names") == NULL, "%s", errors);
    const char *shown = covsplit_run_words(directory, 0, "show side").output;
    ck_assert_int_eq(strstr(shown, "assumed unreferenced") != NULL, way->reason != NULL);
    covsplit_run_words(directory, 0, "join --sidecar side -o joined stripped");
    files_assert_equal(path_join(directory, "app"), path_join(directory, "joined"), way->way);
    struct outcome expected = program_run(directory, "app");
    struct outcome found = program_run(directory, "stripped");
    ck_assert_msg(outcome_exited(&expected, 3), "%s", expected.errors);
    ck_assert_msg(outcome_exited(&found, 3), "%s", found.errors);
    ck_assert_str_eq(expected.output, found.output);
    ck_assert_uint_lt(file_size(path_join(directory, "stripped")),
                      file_size(path_join(directory, "app")));
}
END_TEST

int main(int argument_count, char **arguments)
{
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang_version, &linker_name);
    TCase *test_case = suite_case("looks", 300, NULL);
    suite_loops(test_case, sizeof looks / sizeof *looks, test_look);
    suite_loops(test_case, sizeof assumed_ways / sizeof *assumed_ways, test_assumed);
    return suite_main("foreign references", test_case);
}
