/*
 * The programs behind darwin_program.h.
 */
#include "tests/support/darwin_program.h"

static const char *const kind_names[] = {
    [DARWIN_EXECUTABLE] = "executable",
    [DARWIN_LIBRARY] = "library",
    [DARWIN_BUNDLE] = "bundle",
};

static const char *const kind_options[] = {
    [DARWIN_EXECUTABLE] = "",
    [DARWIN_LIBRARY] = "-dylib -install_name @rpath/program.dylib",
    [DARWIN_BUNDLE] = "-bundle",
};

const char *darwin_program_describe(const struct darwin_program *program)
{
    return text_format("clang-%s %s %s %s %s%s %s %s", program->clang, program->architecture,
                       kind_names[program->kind], program->language == LANGUAGE_CXX ? "C++" : "C",
                       program->opcodes ? "opcodes" : "chained",
                       program->late_section  ? " with a late section"
                       : program->early_fixup ? " with an early fixup"
                                              : "",
                       program->second_instrumentation != NULL ? program->second_instrumentation
                                                               : "",
                       program->link_options != NULL ? program->link_options : "");
}

static void compile(const struct darwin_program *program, const char *directory, const char *source,
                    const char *object, const char *instrumentation)
{
    bool cxx = program->language == LANGUAGE_CXX && instrumentation[0] != '\0';
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, versioned_tool(cxx ? "clang++" : "clang", program->clang));
    text_list_add_format(words, "--target=%s-apple-macos13", program->architecture);
    text_list_add_words(words, "-O1 -ffreestanding -fno-stack-protector -c");
    text_list_add_words(words, instrumentation);
    if (program->kind != DARWIN_EXECUTABLE) {
        text_list_add(words, "-DLIBRARY");
    }
    if (program->late_section) {
        text_list_add(words, "-DLATE_SECTION");
    }
    if (program->early_fixup) {
        text_list_add(words, "-DEARLY_FIXUP");
    }
    text_list_add_words(words, cxx ? "-x c++" : "-x c");
    text_list_add(words, source);
    text_list_add(words, "-o");
    text_list_add(words, object);
    command_run_or_abort(&command);
    command_free(&command);
}

static void link_image(const struct darwin_program *program, const char *directory,
                       const char *name)
{
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, versioned_tool("ld64.lld", program->clang));
    text_list_add(words, "-arch");
    text_list_add(words, program->architecture);
    text_list_add_words(words, "-platform_version macos 13 13 -undefined dynamic_lookup");
    text_list_add(words, program->opcodes ? "-no_fixup_chains" : "-fixup_chains");
    text_list_add_words(words, kind_options[program->kind]);
    text_list_add_words(words, program->link_options != NULL ? program->link_options : "");
    text_list_add_words(words, "program.o first.o second.o runtime.o writer.o -o");
    text_list_add(words, name);
    command_run_or_abort(&command);
    command_free(&command);
}

void darwin_program_build(const struct darwin_program *program, const char *directory,
                          const char *name)
{
    const char *fixtures = path_join(COVSPLIT_FIXTURE_DIRECTORY, "darwin");
    unsigned functions = program->functions != 0 ? program->functions : PROGRAM_FUNCTIONS;
    source_generate(path_join(directory, "first.c"), program->language, "first", functions);
    source_generate(path_join(directory, "second.c"), program->language, "second", functions + 20);
    const char *instrumentation =
        program->instrumentation != NULL ? program->instrumentation : INSTRUMENT_COVERAGE;
    compile(program, directory, "first.c", "first.o", instrumentation);
    compile(program, directory, "second.c", "second.o",
            program->second_instrumentation != NULL ? program->second_instrumentation
                                                    : instrumentation);
    compile(program, directory, path_join(fixtures, "program.c"), "program.o", instrumentation);
    compile(program, directory, path_join(fixtures, "profile_runtime.c"), "runtime.o", "");
    compile(program, directory, path_join(fixtures, "profile_writer.c"), "writer.o", "");
    link_image(program, directory, name);
}

struct command darwin_loader_command(const char *directory)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, COVSPLIT_DARWIN_LOADER);
    return command;
}
