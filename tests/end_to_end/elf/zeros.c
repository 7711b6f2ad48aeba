/*
 * The zeros that a split takes out of the file: counters, bitmaps and value nodes. They are in
 * memory as before when the program starts, whatever linked it, and after other tools have written
 * the stripped image again; and what is not zero stays.
 *
 * Usage: suite_zeros CLANG LINKER [MACHINE]
 *
 * On another machine, whose linkers align segments to 64 KiB, programs run in an emulator.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/target.h"

#define LOWEST       0x10000 /* where anything may be mapped */
#define HEADERS_MORE 3       /* by which a split has more of them */

static const char *clang, *linker;
static const struct target *target; /* NULL: this machine */
static char *scratch;

static uint64_t page_size(void)
{
    return target != NULL ? 65536 : 4096;
}

static unsigned function_count(void)
{
    return target != NULL ? 3000 : 200;
}

/* Writes the segments that may be written to into a file, as they are at main, of the program or of
 * the library that it loads: for each piece its address in the image and its size, and then its
 * bytes. Then it runs functions. */
static const char dump_source[] =
    "#define _GNU_SOURCE\n"
    "#include <dlfcn.h>\n#include <link.h>\n#include <fcntl.h>\n#include <unistd.h>\n"
    "#include <stdint.h>\n"
    "int many(int) __attribute__((weak));\n"
    "static int (*function)(int);\n"
    "static int is_in(const struct dl_phdr_info *info)\n"
    "{\n"
    "    for (int i = 0; i < info->dlpi_phnum; i++) {\n"
    "        uint64_t inside = (uintptr_t)function - info->dlpi_addr - "
    "info->dlpi_phdr[i].p_vaddr;\n"
    "        if (info->dlpi_phdr[i].p_type == PT_LOAD && inside < info->dlpi_phdr[i].p_memsz)\n"
    "            return 1;\n"
    "    }\n"
    "    return 0;\n"
    "}\n"
    "static int find(struct dl_phdr_info *info, size_t size, void *file)\n"
    "{\n"
    "    (void)size;\n"
    "    for (int i = 0; is_in(info) && i < info->dlpi_phnum; i++) {\n"
    "        uint64_t piece[2] = {info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz};\n"
    "        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W) &&\n"
    "            (write(*(int *)file, piece, 16) != 16 ||\n"
    "             write(*(int *)file, (char *)info->dlpi_addr + piece[0], piece[1]) < 0))\n"
    "            return 2;\n"
    "    }\n"
    "    return is_in(info);\n"
    "}\n"
    "__attribute__((no_profile_instrument_function)) int main(int count, char **words)\n"
    "{\n"
    "    int file = open(\"memory\", O_CREAT | O_TRUNC | O_WRONLY, 0600);\n"
    "#ifdef LOADS\n"
    "    void *library = dlopen(words[1], RTLD_NOW);\n"
    "    function = library == NULL ? NULL : (int (*)(int))dlsym(library, \"many\");\n"
    "    count--;\n"
    "#else\n"
    "    function = many;\n"
    "    (void)words;\n"
    "#endif\n"
    "    return dl_iterate_phdr(find, &file) != 1 || function(count) != 4;\n"
    "}\n";

/* Enough functions for some pages of counters, with conditions for a bitmap. */
static void write_sources(const char *directory)
{
    FILE *file = fopen(path_join(directory, "many.c"), "w");
    file_write_text(path_join(directory, "main.c"), dump_source);
    for (unsigned i = 0; i < function_count(); i++) {
        fprintf(file,
                "static int f%u(int a) { if (a > %u && (a < 3 || a == 7)) return 1;\n"
                "for (int i = 0; i < a; i++) a += i > 5; return a > 2 ? a : 3; }\n",
                i, i + 1);
    }
    fprintf(file, "static int (*const all[])(int) = {");
    for (unsigned i = 0; i < function_count(); i++) {
        fprintf(file, "f%u, ", i);
    }
    fprintf(file, "};\nint many(int a) { return all[a](a) + all[a + 1](a) - 2; }\n");
    fclose(file);
}

static void prepare(void)
{
    scratch = scratch_create("zeros");
}

/* ---- images ---- */

static const struct row {
    const char *options;
    const char *linkers; /* NULL: all, and other machines */
    bool is_crowded;     /* there is room for one more program header, and not for two */
    bool keeps_records;  /* and the counters before them: only value nodes go */
} rows[] = {
    {"-O1", NULL, false, false},
    {"-O1 -Wl,-z,now", "bfd lld mold gold", false, false},
    {"-O1 -no-pie", "bfd lld mold gold", false, false},
    {"-O1 -static-pie", "bfd mold", false, false},
    {"-O1 -static-pie", "lld", true, false},
    {"-O1 -static", "bfd lld mold gold", true, false},
    {"-O1 -fPIC -shared", NULL, true, false},
    /* at an address, as prelink gives one */
    {"-O1 -fPIC -shared -Wl,-Ttext-segment=0x41000000", "bfd gold", false, false},
    {"-O1 -fPIC -shared -Wl,--image-base=0x41000000", "lld", true, false},
    {"-O1 -mllvm -enable-value-profiling", NULL, false, true},
    {"-O1 -mllvm -enable-value-profiling -Wl,-z,now", "bfd lld mold gold", false, true},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

/* Runs a command of the compiler in the directory. */
static void compile(const char *directory, const char *options, const char *words)
{
    struct command command = command_words(directory, "clang-%s", clang);
    if (target != NULL) {
        target_add_compile_words(target, &command.arguments);
    }
    text_list_add_words(&command.arguments, options);
    text_list_add_words(&command.arguments, words);
    command_run_or_abort(&command);
    command_free(&command);
}

/* The words with which the compiler links. */
static const char *link_words(const char *options)
{
    struct text_list list = {0};
    const char *words = options;
    if (target == NULL) {
        const char *path =
            strcmp(linker, "lld") == 0 ? text_format("/usr/bin/ld.lld-%s", clang) : linker;
        return text_format("%s -fuse-ld=%s", options, path);
    }
    target_add_link_words(target, clang, linker, &list);
    for (size_t i = 0; i < list.count; i++) {
        words = text_format("%s %s", words, list.items[i]);
    }
    return words;
}

/* Builds `app` in a directory of its own, and splits it into `stripped`. */
static char *build(const struct row *row, const char *more)
{
    char *directory = path_join(scratch, text_format("%d", (int)getpid()));
    directory_remove(directory);
    directory_create(directory);
    write_sources(directory);
    bool has_conditions = strcmp(clang, "14") != 0 && strcmp(clang, "16") != 0;
    bool is_library = strstr(row->options, "-shared") != NULL;
    /* So many functions as other machines need are compiled in a fifth of the time. */
    const char *options = target == NULL ? row->options : text_replace(row->options, "-O1", "-O0");
    compile(directory,
            text_format("%s -fprofile-instr-generate -fcoverage-mapping %s %s", options,
                        has_conditions ? "-fcoverage-mcdc" : "", more),
            "-Wno-unused-command-line-argument -c many.c -o many.o");
    compile(directory, is_library ? "-O1 -DLOADS" : "-O1", "-c main.c -o main.o");
    compile(directory, link_words(text_format("-fprofile-instr-generate %s", row->options)),
            is_library ? "many.o -o app" : "main.o many.o -o app");
    if (is_library) {
        compile(directory, link_words(""), "main.o -o loader -ldl");
    }
    covsplit_run_words(directory, 0, "split -o stripped --sidecar side app");
    covsplit_run_words(directory, 0, "join --sidecar side -o joined stripped");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "app"), row->options);
    return directory;
}

/* Runs a copy under the one name `run`, at the same addresses, and keeps memory and profile. */
static void run_as(const char *directory, const char *image)
{
    run_or_abort(directory, "sh", "-c",
                 "set -e; rm -rf run; cp $0 run; export LLVM_PROFILE_FILE=run.profraw\n"
                 "if test -e loader; then set -- ./loader ./run; else set -- ./run; fi\n"
                 "setarch -R $EMULATOR $@\n"
                 "mv memory $0.memory; mv run.profraw $0.profraw",
                 image, NULL);
}

/* ---- memory ---- */

/* Puts the pieces into one view of memory from the lowest address on. */
static struct memory_view {
    uint64_t start;
    char *bytes;
    size_t size;
} read_memory(const char *path)
{
    struct memory_view view = {UINT64_MAX, NULL, 0};
    struct contents file = file_read(path);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t at = 0; at < file.size;) {
            uint64_t piece[2];
            memcpy(piece, file.data + at, sizeof piece);
            ck_assert_uint_le(piece[1], file.size - at - sizeof piece);
            if (pass == 0 && piece[0] < view.start) {
                view.start = piece[0];
            }
            if (pass == 0 && piece[0] + piece[1] > view.size) {
                view.size = (size_t)(piece[0] + piece[1]);
            }
            if (pass == 1) {
                memcpy(view.bytes + (piece[0] - view.start), file.data + at + sizeof piece,
                       (size_t)piece[1]);
            }
            at += sizeof piece + (size_t)piece[1];
        }
        if (pass == 0) {
            view.size -= (size_t)view.start;
            view.bytes = calloc(1, view.size + 1);
        }
    }
    contents_free(&file);
    return view;
}

/* The records are what a split takes out of memory, and the dynamic section has new sizes. All else
 * is as it was, but for addresses on heap and stack, where the loader's tables of segments are, and
 * the numbers of program headers and of segments (to which the C library adds the vDSO). */
static void assert_same_memory(const char *directory, const struct row *row, const char *image)
{
    struct memory_view old = read_memory(path_join(directory, "app.memory"));
    struct memory_view new = read_memory(path_join(directory, text_format("%s.memory", image)));
    struct elf_file file = elf_file_read(path_join(directory, "app"));
    const Elf64_Shdr *section = elf_file_section(&file, "__llvm_prf_data");
    uint64_t data = section->sh_addr, size = section->sh_size;
    const Elf64_Shdr *dynamic = elf_file_section(&file, ".dynamic");
    uint64_t dynamic_start = dynamic != NULL ? dynamic->sh_addr : 0;
    uint64_t dynamic_size = dynamic != NULL ? dynamic->sh_size : 0;
    uint64_t headers = elf_file_number(&file, offsetof(Elf64_Ehdr, e_phnum), 2);
    uint64_t table = elf_file_number(&file, offsetof(Elf64_Ehdr, e_phoff), 8), loads = 0;
    for (uint64_t i = 0; i < headers; i++) {
        loads += elf_file_number(&file, table + i * sizeof(Elf64_Phdr), 4) == PT_LOAD;
    }
    bool is_static = strstr(row->options, "-static") != NULL;
    uint64_t end = is_static ? elf_file_section(&file, ".bss")->sh_addr : old.start + old.size;
    elf_file_free(&file);
    ck_assert_uint_eq(new.start, old.start);
    ck_assert_uint_eq(new.size, old.size);
    for (size_t i = 0; i < end - old.start; i += 8) {
        uint64_t address = old.start + i, before = 0, after = 0;
        memcpy(&before, old.bytes + i, old.size - i < 8 ? old.size - i : 8);
        memcpy(&after, new.bytes + i, old.size - i < 8 ? old.size - i : 8);
        ck_assert_msg(
            before == after || address - data < size || address - dynamic_start < dynamic_size ||
                (before > LOWEST && after > LOWEST && after - before < page_size()) ||
                ((before == headers || before - loads <= 1) && after - before <= HEADERS_MORE),
            "%s: 0x%llx is %llx and not %llx", image, (unsigned long long)address,
            (unsigned long long)after, (unsigned long long)before);
    }
    free(old.bytes);
    free(new.bytes);
}

/* ---- tests ---- */

/* What is left of counters, bitmap and value nodes in the file: two pages at most. */
static void assert_small(const char *directory, const struct row *row)
{
    static const char *const names[] = {"__llvm_prf_cnts", "__llvm_prf_bits", "__llvm_prf_vnds"};
    struct elf_file file = elf_file_read(path_join(directory, "app"));
    uint64_t zeros = 0;
    for (size_t i = row->keeps_records ? 2 : 0; i < sizeof names / sizeof *names; i++) {
        zeros += elf_file_section_file_size(&file, names[i]);
    }
    elf_file_free(&file);
    covsplit_run_words(directory, 0,
                       "split --sections covmap,covfun,names,data -o without --sidecar s app");
    uint64_t without = file_size(path_join(directory, "without"));
    uint64_t with = file_size(path_join(directory, "stripped"));
    /* gold puts code behind the few headers and notes of a static image. */
    if (strcmp(linker, "gold") == 0 && strstr(row->options, "-static") != NULL)
        zeros = 0;
    ck_assert_msg(with + (row->is_crowded ? zeros / 2 : zeros) <= without + 2 * page_size(),
                  "%s: %llu with %llu zeros, and %llu", row->options, (unsigned long long)without,
                  (unsigned long long)zeros, (unsigned long long)with);
    /* The sidecar has hardly anything more to say: of zeros their number, what was moved for
     * another program header, and the symbols in the page of the stub, a bit for each. */
    ck_assert_uint_le(file_size(path_join(directory, "side")),
                      file_size(path_join(directory, "s")) + 768);
}

START_TEST(test_zeros)
{
    static const char *const tools[] = {"strip --strip-debug", "strip", "llvm-strip-19", "eu-strip",
                                        "objcopy"};
    const struct row *row = &rows[_i];
    size_t tool_count = target == NULL ? sizeof tools / sizeof *tools : 0;
    if (row->linkers != NULL && (target != NULL || strstr(row->linkers, linker) == NULL)) {
        return;
    }
    char *directory = build(row, "");
    assert_small(directory, row);
    run_as(directory, "app");
    run_as(directory, "stripped");
    assert_same_memory(directory, row, "stripped");
    covsplit_run_words(directory, 0, "merge --sidecar side -o light.profraw stripped.profraw");
    run_or_abort(directory, "sh", "-c",
                 text_format("llvm-profdata-%s merge -o full.profdata app.profraw\n"
                             "llvm-profdata-%s merge -o light.profdata light.profraw\n"
                             "cmp full.profdata light.profdata",
                             clang, clang),
                 NULL);
    for (size_t i = 0; i < tool_count; i++) {
        /* Not every tool takes every image: llvm-strip refuses static ones of GNU ld. */
        run_or_abort(directory, "sh", "-c",
                     text_format("cp stripped again\n"
                                 "cp app plain; ! %s plain 2>plain.log || %s again",
                                 tools[i], tools[i]),
                     NULL);
        run_as(directory, "again");
        assert_same_memory(directory, row, "again");
    }
}
END_TEST

/* Counters of one byte are 0xff at first. */
START_TEST(test_not_zero)
{
    const struct row *row = &rows[0];
    char *directory = build(row, "-mllvm -enable-single-byte-coverage=true");
    run_as(directory, "app");
    run_as(directory, "stripped");
    assert_same_memory(directory, row, "stripped");
    struct elf_file file = elf_file_read(path_join(directory, "stripped"));
    ck_assert_uint_ne(elf_file_section_file_size(&file, "__llvm_prf_cnts"), 0);
    elf_file_free(&file);
}
END_TEST

int main(int count, char **words)
{
    clang = count > 1 ? words[1] : "22";
    linker = count > 2 ? words[2] : "lld";
    target = count > 3 ? target_find(words[3]) : NULL;
    setenv("EMULATOR", target != NULL ? target_emulator(target) : "", 1);
    TCase *test_case = suite_case(text_format("clang-%s %s", clang, linker), 300, prepare);
    suite_loops(test_case, ROW_COUNT, test_zeros);
    if (target == NULL && (strcmp(clang, "19") == 0 || strcmp(clang, "22") == 0)) {
        tcase_add_test(test_case, test_not_zero);
    }
    return suite_main("zeros", test_case);
}
