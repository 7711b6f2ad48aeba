/*
 * See many_units.h.
 */
#include "tests/support/many_units.h"

#include "tests/support/file_system.h"
#include "tests/support/process.h"
#include "tests/support/program.h"

static const char header[] = "inline int shared_branch(int value) {\n"
                             "  if (value % 3 == 0)\n"
                             "    return value / 3;\n"
                             "  return value + 1;\n"
                             "}\n"
                             "template <typename T> T shared_sum(T first, T last) {\n"
                             "  T sum = 0;\n"
                             "  for (T i = first; i < last; ++i)\n"
                             "    sum += i & 1 ? i : shared_branch(static_cast<int>(i));\n"
                             "  return sum;\n"
                             "}\n"
                             "inline int never_called(int value) { return value * 2; }\n";

void many_units_write(const char *directory)
{
    char *declarations = text_format("#include \"shared.h\"\n");
    char *calls = text_format("%s", "");
    file_write_text(path_join(directory, "shared.h"), header);
    for (int i = 0; i < MANY_UNITS; i++) {
        file_write_text(path_join(directory, text_format("unit%d.cc", i)),
                        text_format("#include \"shared.h\"\n"
                                    "static int local(int value) { return value > %d ? 1 : 2; }\n"
                                    "int unused%d(int value) { return never_called(value); }\n"
                                    "int unit%d(int value) {\n"
                                    "  return local(value) + shared_sum(0, value) +\n"
                                    "         (int)shared_sum(1L, (long)value);\n"
                                    "}\n",
                                    i, i, i));
        declarations = text_format("%sint unit%d(int value);\n", declarations, i);
        calls = text_format("%s  sum += unit%d(sum %% 7);\n", calls, i);
    }
    file_write_text(path_join(directory, "main.cc"),
                    text_format("%sint main(int count, char **) {\n"
                                "  int sum = shared_branch(count);\n%s"
                                "  return sum == 0;\n}\n",
                                declarations, calls));
}

/* clang++ with what all steps have in common. */
static struct command compiler(const struct many_units *program, const char *directory)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, versioned_tool("clang++", program->clang));
    text_list_add_words(&command.arguments, INSTRUMENT_COVERAGE " -Wl,--build-id=sha1");
    text_list_add_words(&command.arguments, program->options != NULL ? program->options : "");
    return command;
}

void many_units_build(const struct many_units *program, const char *directory)
{
    many_units_write(directory);
    struct command link = compiler(program, directory);
    text_list_add_words(&link.arguments, "-o " MANY_UNITS_PROGRAM " main.cc");
    struct command library = compiler(program, directory);
    text_list_add_words(&library.arguments, "-shared -fPIC -o " MANY_UNITS_LIBRARY);
    struct command *units = program->shared ? &library : &link;
    for (int i = 0; i < MANY_UNITS; i++) {
        text_list_add_format(&units->arguments, "unit%d.cc", i);
    }
    if (program->shared) {
        command_run_or_abort(&library);
        text_list_add_words(&link.arguments, MANY_UNITS_LIBRARY " -Wl,-rpath,$ORIGIN");
    }
    command_run_or_abort(&link);
    command_free(&library);
    command_free(&link);
}
