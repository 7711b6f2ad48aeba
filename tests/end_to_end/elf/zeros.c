/*
 * The zeros that a split takes out of the file: counters, bitmaps and value nodes. They are in
 * memory as before when the program starts, whatever linked it, and after other tools have written
 * the stripped image again; and what is not zero stays.
 *
 * Usage: suite_zeros CLANG LINKER
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/file_system.h"
#include "tests/support/suite.h"

#define PAGE         4096
#define LOWEST       0x10000 /* where anything may be mapped */
#define HEADERS_MORE 3       /* by which a split has more of them */

static const char *clang, *linker;
static char *scratch;

/* Writes the segments of the program that may be written to into a file, as they are at main: for
 * each piece its address in the image and its size, and then its bytes. Then it runs functions. */
static const char dump_source[] =
    "#define _GNU_SOURCE\n"
    "#include <link.h>\n#include <fcntl.h>\n#include <unistd.h>\n#include <stdint.h>\n"
    "int many(int);\n"
    "static int find(struct dl_phdr_info *info, size_t size, void *file)\n"
    "{\n"
    "    (void)size;\n"
    "    for (int i = 0; i < info->dlpi_phnum; i++) {\n"
    "        uint64_t piece[2] = {info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz};\n"
    "        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_W) &&\n"
    "            (write(*(int *)file, piece, 16) != 16 ||\n"
    "             write(*(int *)file, (char *)info->dlpi_addr + piece[0], piece[1]) < 0))\n"
    "            return 2;\n"
    "    }\n"
    "    return 1;\n"
    "}\n"
    "__attribute__((no_profile_instrument_function)) int main(int count, char **words)\n"
    "{\n"
    "    int file = open(\"memory\", O_CREAT | O_TRUNC | O_WRONLY, 0600);\n"
    "    (void)words;\n"
    "    return dl_iterate_phdr(find, &file) != 1 || many(count) != 4;\n"
    "}\n";

/* Enough functions for some pages of counters, with conditions for a bitmap. */
static void write_sources(void)
{
    file_write_text(path_join(scratch, "main.c"), dump_source);
    char *path = path_join(scratch, "many.c");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 200; i++) {
        fprintf(file,
                "static int f%d(int a) { if (a > %d && (a < 3 || a == 7)) return 1;\n"
                "for (int i = 0; i < a; i++) a += i > 5; return a > 2 ? a : 3; }\n",
                i, i + 1);
    }
    fprintf(file, "static int (*const all[])(int) = {");
    for (int i = 0; i < 200; i++) {
        fprintf(file, "f%d, ", i);
    }
    fprintf(file, "};\nint many(int a) { return all[a](a) + all[a + 1](a) - 2; }\n");
    fclose(file);
}

static void prepare(void)
{
    scratch = scratch_create("zeros");
    write_sources();
}

/* ---- images ---- */

static const struct row {
    const char *options;
    bool is_crowded; /* there is room for one more program header, and not for two */
} rows[] = {
    {"-O1", false},         {"-O1 -Wl,-z,now", false},
    {"-O1 -no-pie", false}, {"-O1 -static-pie", false},
    {"-O1 -static", true},

};

#define ROW_COUNT (sizeof rows / sizeof *rows)

/* Builds `app` in a directory of its own, and splits it into `stripped`. */
static char *build(const struct row *row, const char *more)
{
    char *directory = path_join(scratch, text_format("%d", (int)getpid()));
    directory_remove(directory);
    directory_create(directory);
    bool has_conditions = strcmp(clang, "14") != 0 && strcmp(clang, "16") != 0;
    const char *coverage = text_format("-fprofile-instr-generate -fcoverage-mapping %s %s",
                                       has_conditions ? "-fcoverage-mcdc" : "", more);
    run_or_abort(
        directory, "sh", "-c",
        text_format("set -e; clang-%s %s %s -c ../many.c -o many.o 2>log\n"
                    "clang-%s -O1 -c ../main.c -o main.o\n"
                    "clang-%s -fprofile-instr-generate %s -fuse-ld=%s main.o many.o -o app",
                    clang, row->options, coverage, clang, clang, row->options,
                    strcmp(linker, "lld") == 0 ? text_format("/usr/bin/ld.lld-%s", clang) : linker),
        NULL);
    covsplit_run_words(directory, 0, "split -o stripped --sidecar side app");
    covsplit_run_words(directory, 0, "join --sidecar side -o joined stripped");
    files_assert_equal(path_join(directory, "joined"), path_join(directory, "app"), row->options);
    return directory;
}

/* Runs a copy under the one name `run`, at the same addresses, and keeps memory and profile. */
static void run_as(const char *directory, const char *image)
{
    run_or_abort(directory, "sh", "-c",
                 "set -e; rm -rf run; cp $0 run; LLVM_PROFILE_FILE=run.profraw setarch -R ./run\n"
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

/* The records are what a split takes out of memory. All else is as it was, from .data on, but for
 * addresses on heap and stack, where the loader's tables of segments are, and the number of program
 * headers. (What precedes has such tables, too.) */
static void assert_same_memory(const char *directory, const char *image)
{
    struct memory_view old = read_memory(path_join(directory, "app.memory"));
    struct memory_view new = read_memory(path_join(directory, text_format("%s.memory", image)));
    struct elf_file file = elf_file_read(path_join(directory, "app"));
    const Elf64_Shdr *section = elf_file_section(&file, "__llvm_prf_data");
    uint64_t data = section->sh_addr, size = section->sh_size;
    uint64_t start = elf_file_section(&file, ".data")->sh_addr;
    uint64_t headers = elf_file_number(&file, offsetof(Elf64_Ehdr, e_phnum), 2);
    bool is_static = elf_file_section(&file, ".interp") == NULL;
    uint64_t end = is_static ? elf_file_section(&file, ".bss")->sh_addr : old.start + old.size;
    elf_file_free(&file);
    ck_assert_uint_eq(new.start, old.start);
    ck_assert_uint_eq(new.size, old.size);
    for (size_t i = (size_t)(start - old.start) & ~(size_t)7; i < end - old.start; i += 8) {
        uint64_t address = old.start + i, before = 0, after = 0;
        memcpy(&before, old.bytes + i, old.size - i < 8 ? old.size - i : 8);
        memcpy(&after, new.bytes + i, old.size - i < 8 ? old.size - i : 8);
        ck_assert_msg(before == after || address - data < size ||
                          (before > LOWEST && after > LOWEST && after - before < PAGE) ||
                          (before == headers && after - before <= HEADERS_MORE),
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
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zeros += elf_file_section_file_size(&file, names[i]);
    }
    elf_file_free(&file);
    covsplit_run_words(directory, 0,
                       "split --sections covmap,covfun,names,data -o without --sidecar s app");
    uint64_t without = file_size(path_join(directory, "without"));
    uint64_t with = file_size(path_join(directory, "stripped"));
    ck_assert_msg(with + (row->is_crowded ? zeros / 2 : zeros) <= without + 2 * PAGE,
                  "%s: %llu with %llu zeros, and %llu", row->options, (unsigned long long)without,
                  (unsigned long long)zeros, (unsigned long long)with);
    /* The sidecar has hardly anything more to say: of zeros their number, and what was moved for
     * another program header. */
    ck_assert_uint_le(file_size(path_join(directory, "side")),
                      file_size(path_join(directory, "s")) + 512);
}

START_TEST(test_zeros)
{
    static const char *const tools[] = {"strip --strip-debug", "strip", "llvm-strip-19", "eu-strip",
                                        "objcopy"};
    const struct row *row = &rows[_i];
    if (strcmp(linker, "gold") == 0 && strstr(row->options, "-static-pie") != NULL) {
        return; /* which gold does not know */
    }
    char *directory = build(row, "");
    assert_small(directory, row);
    run_as(directory, "app");
    run_as(directory, "stripped");
    assert_same_memory(directory, "stripped");
    covsplit_run_words(directory, 0, "merge --sidecar side -o light.profraw stripped.profraw");
    run_or_abort(directory, "sh", "-c",
                 text_format("llvm-profdata-%s merge -o full.profdata app.profraw\n"
                             "llvm-profdata-%s merge -o light.profdata light.profraw\n"
                             "cmp full.profdata light.profdata",
                             clang, clang),
                 NULL);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        /* Not every tool takes every image: llvm-strip refuses static ones of GNU ld. */
        run_or_abort(directory, "sh", "-c",
                     text_format("cp stripped again\n"
                                 "cp app plain; ! %s plain 2>plain.log || %s again",
                                 tools[i], tools[i]),
                     NULL);
        run_as(directory, "again");
        assert_same_memory(directory, "again");
    }
}
END_TEST

/* Counters of one byte are 0xff at first. */
START_TEST(test_not_zero)
{
    char *directory = build(&rows[0], "-mllvm -enable-single-byte-coverage=true");
    run_as(directory, "app");
    run_as(directory, "stripped");
    assert_same_memory(directory, "stripped");
    struct elf_file file = elf_file_read(path_join(directory, "stripped"));
    ck_assert_uint_ne(elf_file_section_file_size(&file, "__llvm_prf_cnts"), 0);
    elf_file_free(&file);
}
END_TEST

int main(int count, char **words)
{
    clang = count > 1 ? words[1] : "22";
    linker = count > 2 ? words[2] : "lld";
    TCase *test_case = suite_case(text_format("clang-%s %s", clang, linker), 300, prepare);
    suite_loops(test_case, ROW_COUNT, test_zeros);
    if (strcmp(clang, "19") == 0 || strcmp(clang, "22") == 0) {
        tcase_add_test(test_case, test_not_zero);
    }
    return suite_main("zeros", test_case);
}
