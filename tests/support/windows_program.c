/*
 * Building and running the programs of windows_program.h.
 */
#include "tests/support/windows_program.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/compile_cache.h"
#include "tests/support/covsplit_tool.h"

#define MINGW "x86_64-w64-mingw32"

struct target_description {
    const char *linker;    /* and */
    const char *processor; /* for people */
    const char *triple;
    const char *machine;     /* for lld-link */
    const char *dll_machine; /* for llvm-dlltool */
};

static const struct target_description targets[] = {
    [WINDOWS_MSVC_X86_64] = {"lld-link", "x86-64", "x86_64-pc-windows-msvc", "x64", "i386:x86-64"},
    [WINDOWS_MSVC_ARM64] = {"lld-link", "aarch64", "aarch64-pc-windows-msvc", "arm64", "arm64"},
    [WINDOWS_MSVC_I686] = {"lld-link", "i386", "i686-pc-windows-msvc", "x86", "i386"},
    [WINDOWS_MINGW_BFD] = {"GNU ld of mingw-w64", "x86-64", MINGW, NULL, NULL},
    [WINDOWS_MINGW_LLD] = {"lld of mingw-w64", "x86-64", MINGW, NULL, NULL},
};

bool windows_target_is_msvc(enum windows_target target)
{
    return targets[target].machine != NULL;
}

const char *windows_target_linker(enum windows_target target)
{
    return targets[target].linker;
}

const char *windows_target_processor(enum windows_target target)
{
    return targets[target].processor;
}

const char *windows_program_describe(const struct windows_program *program)
{
    return text_format("clang-%s %s %s %s%s %s", program->clang, targets[program->target].linker,
                       targets[program->target].processor,
                       program->language == LANGUAGE_CXX ? "C++" : "C",
                       program->library ? " with DLL" : "",
                       program->link_options != NULL ? program->link_options : "");
}

static char *fixture(const char *name)
{
    return path_join(COVSPLIT_FIXTURE_DIRECTORY, name);
}

/* Without a C library nobody can throw: exceptions become plain code. */
#define NO_CXX_LIBRARY                                                                             \
    "-fno-exceptions -fno-rtti -Dthrow=return -Dtry=if(1) -Dcatch(thrown)=for(thrown=0;false;) "   \
    "-Wno-return-type"

/* Compiles one source into OBJECT in the directory. */
static void compile(const struct windows_program *program, const char *directory,
                    const char *source, const char *object, const char *options)
{
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, versioned_tool("clang", program->clang));
    text_list_add_format(words, "--target=%s", targets[program->target].triple);
    text_list_add_words(words, options);
    text_list_add(words, source);
    text_list_add(words, "-o");
    text_list_add(words, object);
    command_run_or_abort(&command);
    command_free(&command);
}

static void compile_instrumented(const struct windows_program *program, const char *directory,
                                 const char *source, const char *object, const char *options)
{
    bool msvc = windows_target_is_msvc(program->target);
    bool cxx = program->language == LANGUAGE_CXX;
    const char *all = text_format(
        "-O1 %s %s %s %s %s", msvc ? "-g -gcodeview -fno-builtin" : "-g",
        program->instrumentation != NULL ? program->instrumentation : INSTRUMENT_COVERAGE,
        cxx ? "-xc++" : "-xc", cxx && msvc ? NO_CXX_LIBRARY : "", options);
    if (program->raw_version != 0) {
        const char *before = text_format("%s.ll", object);
        const char *after = text_format("%s.new.ll", object);
        compile(program, directory, source, before, text_format("-S -emit-llvm %s", all));
        program_rewrite(directory, before, after, 0);
        compile(program, directory, after, object, "-c -w");
    } else {
        compile(program, directory, source, object, text_format("-c %s", all));
    }
    if (program->target == WINDOWS_MINGW_BFD) {
        /* From LLVM 17 on the sections of the mapping say that they are not to be loaded, and GNU
         * ld 2.40 then gives them no place in the image, which no loader takes. And of the COMDAT
         * sections with the counters and records of inline functions, which all have one name, it
         * keeps the first: here no two objects have one in common, and they can do without. */
        run_or_abort(directory, MINGW "-objcopy", "--set-section-flags",
                     ".lcovfun$M=alloc,readonly,data", "--set-section-flags",
                     ".lcovmap$M=alloc,readonly,data", "--set-section-flags", ".lprfc$M=alloc,data",
                     "--set-section-flags", ".lprfd$M=alloc,data", object, NULL);
    }
}

static void compile_runtime(const struct windows_program *program, const char *directory,
                            const char *module)
{
    const char *options = text_format(
        "-c -O2 -ffreestanding -DPROFILE_MODULE=\"%s\" %s %s", module,
        program->runtime_options != NULL ? program->runtime_options : "",
        program->raw_version != 0 ? text_format("-DPROFILE_RAW_VERSION=%u", program->raw_version)
                                  : "");
    compile(program, directory, fixture("windows/profile_sections.c"), "sections.o", options);
    compile(program, directory, fixture("windows/profile_writer.c"), "writer.o", options);
}

static void link_msvc(const struct windows_program *program, const char *directory,
                      const char *inputs, const char *output)
{
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, versioned_tool("lld-link", program->clang));
    text_list_add_format(words, "/machine:%s", targets[program->target].machine);
    text_list_add_words(words, "/nodefaultlib /subsystem:console");
    if (program->target == WINDOWS_MSVC_I686) {
        text_list_add(words, "/safeseh:no");
    }
    text_list_add_format(words, "/map:%s.map", output);
    text_list_add_format(words, "/out:%s", output);
    text_list_add_words(words, inputs);
    /* Behind the program, which may have a version of raw profiles of its own. */
    text_list_add_words(words, "sections.o writer.o kernel32.lib");
    text_list_add_words(words, program->link_options != NULL ? program->link_options : "/debug");
    command_run_or_abort(&command);
    command_free(&command);
}

static void link_mingw(const struct windows_program *program, const char *directory,
                       const char *inputs, const char *output)
{
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    if (program->target == WINDOWS_MINGW_BFD) {
        text_list_add(words, MINGW "-g++-win32");
    } else {
        text_list_add(words, versioned_tool("clang++", program->clang));
        text_list_add_words(words, "--target=" MINGW " -fuse-ld=lld");
    }
    text_list_add_words(words, "-static -Wl,--build-id sections.o writer.o");
    text_list_add_words(words, inputs);
    text_list_add_words(words, program->link_options != NULL ? program->link_options : "");
    text_list_add(words, "-o");
    text_list_add(words, output);
    command_run_or_abort(&command);
    command_free(&command);
}

static void make_import_library(const struct windows_program *program, const char *directory)
{
    bool decorated = program->target == WINDOWS_MSVC_I686;
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, versioned_tool("llvm-dlltool", program->clang));
    text_list_add_words(words, decorated ? "-k -l kernel32.lib -m" : "-l kernel32.lib -m");
    text_list_add(words, targets[program->target].dll_machine);
    text_list_add(words, "-d");
    text_list_add(words, fixture(decorated ? "windows/kernel32-x86.def" : "windows/kernel32.def"));
    command_run_or_abort(&command);
    command_free(&command);
}

/* The entry point of lld-link's images is not that of a C library. */
static const char *with_entry(const struct windows_program *program, const char *inputs)
{
    return windows_target_is_msvc(program->target) ? text_format("%s /entry:program_entry", inputs)
                                                   : inputs;
}

static void link_program(const struct windows_program *program, const char *directory,
                         const char *inputs)
{
    (windows_target_is_msvc(program->target) ? link_msvc : link_mingw)(
        program, directory, with_entry(program, inputs), WINDOWS_PROGRAM);
}

/* The DLL, and the object of the main program. Returns what the program is linked from. */
static const char *prepare_msvc(const struct windows_program *program, const char *directory)
{
    const char *source = fixture("windows/program.c");
    make_import_library(program, directory);
    if (program->library) {
        compile_runtime(program, directory, "second");
        compile_instrumented(program, directory, source, "entry.o", "-DLIBRARY");
        link_msvc(program, directory,
                  "entry.o second.o /dll /entry:library_entry /export:second_run "
                  "/implib:second.lib",
                  WINDOWS_LIBRARY);
    }
    compile_runtime(program, directory, "program");
    compile_instrumented(program, directory, source, "main.o",
                         program->library ? "-DLIBRARY_CALLS" : "");
    return program->library ? "main.o first.o second.lib" : WINDOWS_OBJECTS;
}

static const char *prepare_mingw(const struct windows_program *program, const char *directory)
{
    const char *source = fixture(program->language == LANGUAGE_CXX ? "program.cc" : "program.c");
    if (program->library) {
        compile_runtime(program, directory, "second");
        link_mingw(program, directory, "-shared second.o", WINDOWS_LIBRARY);
    }
    compile_runtime(program, directory, "program");
    compile_instrumented(program, directory, source, "main.o", "");
    return program->library ? "main.o first.o " WINDOWS_LIBRARY : WINDOWS_OBJECTS;
}

void windows_program_build(const struct windows_program *program, const char *directory)
{
    bool cxx = program->language == LANGUAGE_CXX, msvc = windows_target_is_msvc(program->target);
    unsigned functions = program->functions != 0 ? program->functions : WINDOWS_FUNCTIONS;
    const char *first = cxx ? "first.cc" : "first.c", *second = cxx ? "second.cc" : "second.c";
    source_generate(path_join(directory, first), program->language, "first", functions);
    source_generate(path_join(directory, second), program->language, "second", functions + 20);
    compile_instrumented(program, directory, first, "first.o", "");
    compile_instrumented(program, directory, second, "second.o", "");
    link_program(program, directory, (msvc ? prepare_msvc : prepare_mingw)(program, directory));
}

/* ---- wine ---- */

/* Longer than a suite may take. While a program waits, Wine's services need not be started for each
 * of the others. */
#define WAITING_PROGRAM "wine ping -n 3000 127.0.0.1"

static const char *wine_prefix;
static pid_t waiting;

static struct command command_in_wine(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);
    text_list_add_format(&command.environment, "WINEPREFIX=%s", wine_prefix);
    text_list_add(&command.environment, "WINEDEBUG=-all");
    return command;
}

static void run(const char *words)
{
    struct command command = command_in_wine(NULL, words);
    command_run_or_abort(&command);
    command_free(&command);
}

/* Wine copies its libraries there, hundreds of megabytes. */
static void make_prefix(const char *directory, const char *clang)
{
    (void)clang;
    wine_prefix = directory;
    run("wine wineboot --init");
    run("wineserver --wait");
}

void wine_start(void)
{
    wine_prefix = cache_directory("wine", "-none", "", make_prefix);
    struct command command = command_in_wine(NULL, WAITING_PROGRAM);
    waiting = command_start(&command);
    command_free(&command);
}

void wine_stop(void)
{
    kill(waiting, SIGKILL);
    waitpid(waiting, NULL, 0);
}

struct command wine_command(const char *directory, unsigned number)
{
    struct command command =
        command_in_wine(directory, text_format("wine " WINDOWS_PROGRAM " %u", number));
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=run%u", number);
    return command;
}
