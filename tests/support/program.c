/*
 * The programs behind program.h.
 *
 * Generated functions have long random names, so that compressed names still cover whole pages. In
 * C++ each brings others of its own with it, so half as many with names twice as long do that, and
 * are compiled in half the time. The generator's sequence is fixed: the same program comes out on
 * every run.
 */
#include "tests/support/program.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/raw_profile.h"

#define C_NAME_SIZE   64
#define CXX_NAME_SIZE 128

/* A random identifier; the index keeps names apart whatever the generator gives. */
static void make_name(struct random_state *random, unsigned index, size_t length, char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    name += sprintf(name, "f%u_", index);
    for (size_t i = 0; i < length; i++) {
        name[i] = letters[random_below(random, sizeof letters - 1)];
    }
    name[length] = '\0';
}

/* Optimizers take long over functions, and longer over loops, and no test is about them: every
 * fourth function is for them, and every 32nd has a loop. */
static void write_c_function(FILE *file, const char *name, unsigned index, unsigned factor)
{
    const char *linkage = index % 3 == 0 ? "" : "static ";
    if (index % 4 != 0) {
        fprintf(file,
                "__attribute__((noinline, optnone)) %slong %s(long x)\n{\n"
                "    return (x & 1) != 0 && x > %u ? x * %u : %u - x;\n}\n",
                linkage, name, index % 8, factor, index);
        return;
    }
    fprintf(file,
            "%s%slong %s(long x)\n{\n"
            "    long total = %u;\n"
            "    %s {\n"
            "        if (((i ^ x) & 1) != 0 && (x > 3 || i > 2)) {\n"
            "            total += i * %u;\n"
            "        } else {\n"
            "            total -= x;\n"
            "        }\n"
            "    }\n"
            "    return total == 7 ? -total : total ^ x;\n}\n",
            index % 3 == 0 ? "__attribute__((noinline)) " : "", linkage, name, index,
            index % 32 == 0 ? "for (long i = 0; i < (x & 7); i++)"
                            : "long i = x & 7;\n    if (i > 1)",
            factor);
}

static void write_cxx_function(FILE *file, const char *name, unsigned index, unsigned factor)
{
    if (index % 4 == 0) {
        fprintf(file,
                "template <typename T> T t_%s(T x)\n{\n    if (x %% 5 == 3) { throw x; }\n"
                "    return x > %u ? x - %u : x + 1;\n}\n"
                "static long %s(long x)\n{\n"
                "    try { return t_%s<long>(x) + t_%s<int>((int)x); }\n"
                "    catch (long thrown) { return thrown * 3; }\n"
                "    catch (int thrown) { return thrown; }\n}\n",
                name, factor, index, name, name, name);
    } else if (index % 4 == 1) {
        fprintf(file,
                "struct s_%s {\n    long value = %u;\n"
                "    virtual ~s_%s() = default;\n"
                "    virtual long get(long x) const { return x %% 2 != 0 ? value : x; }\n};\n"
                "static s_%s o_%s;\n"
                "long %s(long x)\n{\n    s_%s *p = &o_%s;\n    return p->get(x) + %u;\n}\n",
                name, factor, name, name, name, name, name, name, index);
    } else {
        fprintf(file,
                "inline long i_%s(long x)\n{\n    return x > 2 ? x * %u : x - 1;\n}\n"
                "long %s(long x)\n{\n    return i_%s(x & %u) + i_%s(x);\n}\n",
                name, factor, name, name, index, name);
    }
}

void source_generate(const char *path, enum language language, const char *prefix,
                     unsigned functions)
{
    struct random_state random = random_start((uint64_t)(unsigned char)prefix[0] * functions);
    char(*names)[CXX_NAME_SIZE + 16] = calloc(functions, sizeof *names);
    FILE *file = fopen(path, "w");
    size_t length = C_NAME_SIZE;
    if (language == LANGUAGE_CXX) {
        functions = (functions + 1) / 2;
        length = CXX_NAME_SIZE;
    }
    if (names == NULL || file == NULL) {
        abort();
    }
    fprintf(file, "%slong %s_run(long seed);\n", language == LANGUAGE_CXX ? "extern \"C\" " : "",
            prefix);
    for (unsigned i = 0; i < functions; i++) {
        make_name(&random, i, length, names[i]);
        unsigned factor = 1 + (unsigned)random_below(&random, 1000);
        if (language == LANGUAGE_CXX) {
            write_cxx_function(file, names[i], i, factor);
        } else {
            if (i % 3 == 0) {
                fprintf(file, "long %s(long x);\n", names[i]);
            }
            write_c_function(file, names[i], i, factor);
        }
    }
    fprintf(file, "static long (*const table[])(long) = {\n");
    for (unsigned i = 0; i < functions; i++) {
        fprintf(file, "    %s,\n", names[i]);
    }
    fprintf(file,
            "};\n"
            "long %s_run(long seed)\n{\n    long total = 0;\n"
            "    for (long i = 0; i < %u; i++) {\n"
            "        if ((i * 7 + seed) %% 3 != 0) { total += table[i](seed + i); }\n"
            "    }\n    return total;\n}\n",
            prefix, functions);
    if (fclose(file) != 0) {
        abort();
    }
    free(names);
}

const char *versioned_tool(const char *tool, const char *version)
{
    return text_format("%s-%s", tool, version);
}

const char *rust_llvm_release(void)
{
    struct command version = command_words(NULL, "sh -c");
    text_list_add(&version.arguments, "rustc -vV | sed -n 's/LLVM version: \\([0-9]*\\).*/\\1/p'");
    return strtok(command_run(&version).output, "\n");
}

static const char *const kind_names[] = {
    [LINK_PIE] = "pie",       [LINK_NO_PIE] = "no-pie",         [LINK_SHARED] = "shared",
    [LINK_STATIC] = "static", [LINK_STATIC_PIE] = "static-pie",
};

const char *program_kind(const struct program *program)
{
    return kind_names[program->kind];
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static const char *instrumentation_of(const struct program *program)
{
    return program->instrumentation != NULL ? program->instrumentation : INSTRUMENT_COVERAGE;
}

static void run_words(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);
    command_run_or_abort(&command);
    command_free(&command);
}

/* Those of the options that are not for the linker alone, each behind a blank. */
static const char *words_for_compiler(const char *options)
{
    struct text_list words = {0};
    const char *kept = "";
    text_list_add_words(&words, options);
    for (size_t i = 0; i < words.count; i++) {
        const char *word = words.items[i];
        size_t length = strlen(word);
        bool is_object = length > 2 && strcmp(word + length - 2, ".o") == 0;
        if (!is_object && strncmp(word, "-Wl,", 4) != 0) {
            kept = text_format("%s %s", kept, word);
        }
    }
    text_list_free(&words);
    return kept;
}

void program_build_own(const struct program *program, const char *main_source,
                       const char *directory)
{
    const char *compiler = text_format("clang-%s -O2 -w " INSTRUMENT_COVERAGE, program->clang);
    source_generate(path_join(directory, "first.c"), LANGUAGE_C, "first", program->functions);
    /* By itself, and before main.c is there: the cache has it for other programs as well. */
    run_words(directory, text_format("%s%s -c first.c -o first.o", compiler,
                                     words_for_compiler(or_empty(program->link_options))));
    file_write_text(path_join(directory, "main.c"), main_source);
    run_words(directory, text_format("%s -Wl,--build-id=sha1 -fuse-ld=%s %s main.c first.o -o app",
                                     compiler, program->linker, or_empty(program->link_options)));
}

struct outcome program_run(const char *directory, const char *name)
{
    struct command command = {.directory = directory};
    text_list_add_format(&command.arguments, "./%s", name);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s/%s.profraw", directory, name);
    struct outcome outcome = command_run(&command);
    command_free(&command);
    return outcome;
}

const char *program_describe(const struct program *program)
{
    return text_format(
        "%sclang-%s %s %s %s %s %s %s %s%s",
        program->target != NULL ? text_format("%s ", program->target->name) : "", program->clang,
        program->linker, kind_names[program->kind], program->language == LANGUAGE_CXX ? "C++" : "C",
        program->optimization, or_empty(program->instrumentation),
        or_empty(program->compile_options), or_empty(program->link_options),
        program->raw_version != 0 ? text_format(" raw version %u", program->raw_version) : "");
}

static const char *compiler_of(const struct program *program)
{
    return versioned_tool(program->language == LANGUAGE_CXX ? "clang++" : "clang", program->clang);
}

static const char *position_option(enum link_kind kind)
{
    switch (kind) {
    case LINK_NO_PIE:
    case LINK_STATIC:
        return "-fno-pie";
    case LINK_SHARED:
        return "-fPIC";
    default:
        return "-fPIE";
    }
}

/* The compiler with the options of the program, but for the instrumentation. */
static struct command compile_command(const struct program *program, const char *directory)
{
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, compiler_of(program));
    if (program->target != NULL) {
        target_add_compile_words(program->target, &command.arguments);
    }
    text_list_add(&command.arguments, program->optimization);
    text_list_add(&command.arguments, position_option(program->kind));
    return command;
}

static void finish_compiling(struct command *command, const char *options, const char *source,
                             const char *object)
{
    text_list_add_words(&command->arguments, options);
    text_list_add(&command->arguments, source);
    text_list_add(&command->arguments, "-o");
    text_list_add(&command->arguments, object);
    command_run_or_abort(command);
    command_free(command);
}

void program_rewrite(const char *directory, const char *before, const char *after,
                     unsigned wave_size)
{
    run_or_abort(directory, COVSPLIT_FIXTURE_DIRECTORY "/../support/raw_version_ir.py", before,
                 after, text_format("%u", wave_size), NULL);
}

/* By way of LLVM IR, in which the records get the layout of the version. */
static void compile_rewritten(const struct program *program, const char *directory,
                              const char *source, const char *object)
{
    const char *before = text_format("%s.ll", object), *after = text_format("%s.new.ll", object);
    struct command command = compile_command(program, directory);
    text_list_add_words(&command.arguments, instrumentation_of(program));
    text_list_add_words(&command.arguments, or_empty(program->compile_options));
    finish_compiling(&command, "-S -emit-llvm", source, before);
    program_rewrite(directory, before, after, program->wave_size);
    command = compile_command(program, directory);
    finish_compiling(&command, "-w -c", after, object);
}

void program_compile(const struct program *program, const char *directory, const char *source,
                     const char *object)
{
    if (program->raw_version != 0) {
        compile_rewritten(program, directory, source, object);
        return;
    }
    struct command command = compile_command(program, directory);
    text_list_add_words(&command.arguments, instrumentation_of(program));
    text_list_add_words(&command.arguments, or_empty(program->compile_options));
    finish_compiling(&command, "-c", source, object);
}

/* Compiles the profile runtime of the tests' own, and gives the words to link it. */
static const char *own_runtime(const struct program *program, const char *directory)
{
    static const char *const parts[] = {"profile_runtime", "profile_writer"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct command command = {.directory = directory};
        text_list_add(&command.arguments, versioned_tool("clang", program->clang));
        if (program->target != NULL) {
            target_add_compile_words(program->target, &command.arguments);
        }
        text_list_add_format(&command.arguments, "-DPROFILE_RAW_VERSION=%u", program->raw_version);
        finish_compiling(&command, "-O2 -fPIC -c",
                         text_format("%s/freestanding/%s.c", COVSPLIT_FIXTURE_DIRECTORY, parts[i]),
                         text_format("%s.o", parts[i]));
    }
    return "profile_runtime.o profile_writer.o";
}

/* What brings the profile runtime into a link: compilers know where theirs is. */
static const char *runtime_of(const struct program *program, const char *directory)
{
    if (program->raw_version != 0) {
        return own_runtime(program, directory);
    }
    return program->target != NULL
               ? target_build_runtime(program->target, program->clang, directory)
               : instrumentation_of(program);
}

void program_link(const struct program *program, const char *directory, const char *kind,
                  const char *inputs, const char *output)
{
    struct command command = {.directory = directory};
    struct text_list *words = &command.arguments;
    text_list_add(words, compiler_of(program));
    if (program->target != NULL) {
        target_add_link_words(program->target, program->clang, program->linker, words);
    } else {
        text_list_add_format(words, "-fuse-ld=%s", program->linker);
        /* Where several versions are installed, clang 16 takes the one without a number. */
        if (strcmp(program->linker, "lld") == 0) {
            text_list_add_format(words, "--ld-path=/usr/lib/llvm-%s/bin/ld.lld", program->clang);
        }
    }
    text_list_add_words(words, kind);
    text_list_add_words(words, runtime_of(program, directory));
    text_list_add_format(words, "-Wl,--build-id=%s",
                         program->build_id != NULL ? program->build_id : "sha1");
    text_list_add_words(words, inputs);
    text_list_add_words(words, or_empty(program->link_options));
    text_list_add(words, "-o");
    text_list_add(words, output);
    command_run_or_abort(&command);
    command_free(&command);
}

void program_build(const struct program *program, const char *directory)
{
    bool cxx = program->language == LANGUAGE_CXX;
    unsigned functions = program->functions != 0 ? program->functions : PROGRAM_FUNCTIONS;
    const char *first = cxx ? "first.cc" : "first.c";
    const char *second = cxx ? "second.cc" : "second.c";
    /* Not the same number of functions: the profiles of the two images of a shared program are told
     * apart by the number of counters. */
    source_generate(path_join(directory, first), program->language, "first", functions);
    source_generate(path_join(directory, second), program->language, "second", functions + 20);
    const char *main_source =
        path_join(COVSPLIT_FIXTURE_DIRECTORY, cxx ? "program.cc" : "program.c");
    program_compile(program, directory, main_source, "main.o");
    program_compile(program, directory, first, "first.o");
    program_compile(program, directory, second, "second.o");

    static const char *const link_options[] = {
        [LINK_PIE] = "-pie",
        [LINK_NO_PIE] = "-no-pie",
        [LINK_SHARED] = "-pie",
        [LINK_STATIC] = "-static -no-pie",
        [LINK_STATIC_PIE] = "-static-pie",
    };
    const char *inputs = "main.o first.o second.o";
    if (program->kind == LINK_SHARED) {
        program_link(program, directory, "-shared", "second.o", PROGRAM_LIBRARY);
        inputs = "main.o first.o " PROGRAM_LIBRARY " -Wl,-rpath,$ORIGIN";
    }
    program_link(program, directory, link_options[program->kind], inputs, PROGRAM_NAME);
}

/* ---- chance ---- */

/* The next characters of the table, each with a word of its own, are a few higher and lower. */
static bool is_character(const struct elf_file *elf, uint64_t offset)
{
    uint64_t number = elf_file_number(elf, offset, 8);
    uint64_t below = number - elf_file_number(elf, offset - 8, 8);
    uint64_t above = elf_file_number(elf, offset + 8, 8) - number;
    return below - 1 < 8 && above - 1 < 8;
}

bool names_stay_by_chance(const struct program *program, const char *image, const char *errors)
{
    static const char says[] = "__llvm_prf_names stays: the number at 0x";
    const char *said = strstr(errors, says);
    if ((program->kind != LINK_STATIC && program->kind != LINK_STATIC_PIE) || said == NULL) {
        return false;
    }
    uint64_t address = strtoull(said + strlen(says), NULL, 16);
    struct elf_file elf = elf_file_read(image);
    const Elf64_Shdr *names = elf_file_section(&elf, "__llvm_prf_names");
    const Elf64_Shdr *data = elf_file_section(&elf, ".rodata");
    uint64_t start = UINT64_MAX;
    for (unsigned i = 0; i < elf.header->e_phnum; i++) {
        if (elf.segments[i].p_type == PT_LOAD && elf.segments[i].p_vaddr < start) {
            start = elf.segments[i].p_vaddr;
        }
    }
    ck_assert(names != NULL && data != NULL);
    ck_assert_uint_lt(address - data->sh_addr, data->sh_size);
    uint64_t offset = data->sh_offset + (address - data->sh_addr);
    bool is_chance =
        elf_file_number(&elf, offset, 8) == names->sh_addr - start && is_character(&elf, offset);
    elf_file_free(&elf);
    return is_chance;
}

/* ---- a program before and after a split ---- */

#define PROGRAM_EXIT_CODE 3

struct application application_build(const struct program *program, const char *label,
                                     const char *options, void (*assert_said)(const char *errors))
{
    struct application application = {
        .scratch = scratch_create(label),
        .emulator = program->target != NULL ? target_emulator(program->target) : ""};
    char *original = path_join(application.scratch, "original");
    directory_create(original);
    directory_create(path_join(application.scratch, "split"));
    program_build(program, original);
    text_list_add(&application.images, PROGRAM_NAME);
    if (program->kind == LINK_SHARED) {
        text_list_add(&application.images, PROGRAM_LIBRARY);
    }
    for (size_t i = 0; i < application.images.count; i++) {
        const char *image = application.images.items[i];
        bool is_alone = options != NULL && strstr(options, "--sidecar") != NULL;
        const char *words =
            text_format("split -o split/%s %s %s original/%s", image,
                        options != NULL ? options : "", is_alone ? "" : "--store store", image);
        if (is_alone) {
            directory_create(path_join(application.scratch, "store"));
        }
        struct outcome outcome = covsplit_run_words(application.scratch, 0, words);
        if (assert_said != NULL) {
            assert_said(outcome.errors);
        }
    }
    return application;
}

void application_run_once(const struct application *application, const char *images, unsigned run,
                          const char *profile)
{
    struct command command = {.directory = application->scratch};
    text_list_add_words(&command.arguments, application->emulator);
    text_list_add_format(&command.arguments, "%s/%s/%s", application->scratch, images,
                         PROGRAM_NAME);
    text_list_add_format(&command.arguments, "%u", run);
    text_list_add_format(&command.environment, "LLVM_PROFILE_FILE=%s", profile);
    command_expect(&command, PROGRAM_EXIT_CODE);
}

static uint64_t counters_size(const char *path)
{
    struct raw_profile profile;
    struct verdict verdict = {0};
    raw_profile_read(path, &profile, &verdict);
    verdict_assert(&verdict, path);
    uint64_t size = profile.counters.size;
    raw_profile_free(&profile);
    return size;
}

static int profiles_by_counters(const void *a, const void *b)
{
    uint64_t left = counters_size(*(char *const *)a), right = counters_size(*(char *const *)b);
    return left < right ? -1 : left > right;
}

struct text_list application_profiles(const struct application *application, const char *directory)
{
    struct text_list names = directory_list(path_join(application->scratch, directory));
    struct text_list paths = {0};
    for (size_t i = 0; i < names.count; i++) {
        text_list_add_format(&paths, "%s/%s/%s", application->scratch, directory, names.items[i]);
    }
    qsort(paths.items, paths.count, sizeof *paths.items, profiles_by_counters);
    return paths;
}

/* ---- many translation units ---- */

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
