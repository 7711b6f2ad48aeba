/*
 * The matrix: every kind of image, by every compiler and linker, and the options of both that
 * change what a split has to deal with; each split and checked in every way.
 *
 * Usage: matrix CLANG LINKER [--list]. One run covers one compiler and linker, with all rows of the
 * table below that are for both; or, where not everything is asked for (suite.h), with those rows
 * that are on the diagonal there. Between them the diagonals of all runs have every row, and every
 * kind of linking with every compiler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/elf_file.h"
#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/trial.h"

struct row {
    const char *clangs;  /* words; NULL: all */
    const char *linkers; /* words; NULL: GNU ld and lld */
    bool is_cell;        /* a kind of image, with what other tools make of it */
    bool debugger;
    bool data_stays;
    const char *refusal;
    struct program program; /* without compiler and linker */
};

#define C_PROGRAM(link, level)   .kind = (link), .language = LANGUAGE_C, .optimization = (level)
#define CXX_PROGRAM(link, level) .kind = (link), .language = LANGUAGE_CXX, .optimization = (level)
#define CELL(...)                .is_cell = true, .program = {__VA_ARGS__}

/* musl's library, by Debian's musl-dev. LLVM's runtime was compiled for glibc's, and wants
 * functions of it that musl has not. */
#define MUSL            "-nostdlibinc -isystem /usr/include/x86_64-linux-musl"
#define MUSL_FILE(name) "/usr/lib/x86_64-linux-musl/" name
#define MUSL_LOADER     "/lib/ld-musl-x86_64.so.1"
#define MUSL_LINK                                                                                  \
    "-nostdlib " COVSPLIT_FIXTURE_DIRECTORY                                                        \
    "/fortify.c " MUSL_FILE("crti.o") " "                                                          \
                                      "-L/usr/lib/x86_64-linux-musl -lc " MUSL_FILE("crtn.o") " "

static const struct row rows[] = {
    /* The kinds of images: {PIE, non-PIE, shared library plus main program, static, static-PIE} x
     * {-O0, -O2} x {C, C++}. */
    {CELL(C_PROGRAM(LINK_PIE, "-O0")), .debugger = true},
    {CELL(C_PROGRAM(LINK_PIE, "-O2"))},
    {CELL(CXX_PROGRAM(LINK_PIE, "-O0"))},
    {CELL(CXX_PROGRAM(LINK_PIE, "-O2")), .debugger = true},
    {CELL(C_PROGRAM(LINK_NO_PIE, "-O0")), .debugger = true},
    {CELL(C_PROGRAM(LINK_NO_PIE, "-O2"))},
    {CELL(CXX_PROGRAM(LINK_NO_PIE, "-O0"))},
    {CELL(CXX_PROGRAM(LINK_NO_PIE, "-O2"))},
    {CELL(C_PROGRAM(LINK_SHARED, "-O0"))},
    {CELL(C_PROGRAM(LINK_SHARED, "-O2")), .debugger = true},
    {CELL(CXX_PROGRAM(LINK_SHARED, "-O0"))},
    {CELL(CXX_PROGRAM(LINK_SHARED, "-O2"))},
    {CELL(C_PROGRAM(LINK_STATIC, "-O2"))},
    {CELL(CXX_PROGRAM(LINK_STATIC, "-O0"))},
    {CELL(C_PROGRAM(LINK_STATIC_PIE, "-O2"))},

    /* What an image is known by. */
    {.program = {C_PROGRAM(LINK_PIE, "-O1"), .build_id = "none"}},
    {.clangs = "22", .program = {C_PROGRAM(LINK_SHARED, "-O1"), .build_id = "none"}},
    {.clangs = "14 19", .program = {C_PROGRAM(LINK_PIE, "-O1"), .build_id = "0xdeadbeef"}},
    {.clangs = "16", .program = {C_PROGRAM(LINK_NO_PIE, "-O1"), .build_id = "md5"}},

    /* What a profile has in it. */
    {.clangs = "19 22",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -profile-correlate=binary"}},
    {.clangs = "19 22",
     .program = {C_PROGRAM(LINK_SHARED, "-O1"),
                 .compile_options = "-mllvm -profile-correlate=binary"}},
    {.clangs = "19 22",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-fcoverage-mcdc"}},
    {.clangs = "19 22",
     .program = {CXX_PROGRAM(LINK_NO_PIE, "-O0"), .compile_options = "-fcoverage-mcdc"}},
    {.data_stays = true,
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .instrumentation = "-fprofile-generate"}},
    {.clangs = "16 22",
     .data_stays = true,
     .program = {CXX_PROGRAM(LINK_SHARED, "-O2"), .instrumentation = "-fprofile-generate"}},
    {.clangs = "14 19",
     .data_stays = true,
     .program = {CXX_PROGRAM(LINK_NO_PIE, "-O2"),
                 .compile_options = "-mllvm -enable-value-profiling=true"}},
    {.program = {C_PROGRAM(LINK_PIE, "-O2"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true"}},
    {.clangs = "19 22",
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -enable-single-byte-coverage=true"}},
    {.clangs = "16",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -enable-name-compression=false"}},

    /* Dynamic relocations. Without value profiling, IR PGO's records have function pointers, whose
     * relocations must go from the packed table too. */
    {.clangs = "22",
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .instrumentation = "-fprofile-generate",
                 .compile_options = "-mllvm -disable-vp=true",
                 .link_options = "-Wl,-z,pack-relative-relocs"}},
    {.linkers = "bfd",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,pack-relative-relocs"}},
    {.clangs = "16 19 22",
     .linkers = "lld",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,pack-relative-relocs"}},
    {.clangs = "14 22",
     .linkers = "lld",
     .program = {C_PROGRAM(LINK_STATIC_PIE, "-O1"), .link_options = "-Wl,--pack-dyn-relocs=relr"}},
    {.clangs = "19",
     .program = {CXX_PROGRAM(LINK_SHARED, "-O1"), .link_options = "-Wl,-z,pack-relative-relocs"}},
    {.program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,now -Wl,-z,relro"}},
    {.clangs = "14 22",
     .program = {C_PROGRAM(LINK_SHARED, "-O1"), .link_options = "-Wl,-z,now -rdynamic"}},
    /* Where things are. */
    {.clangs = "14 22",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,noseparate-code"}},
    {.clangs = "19",
     .program = {C_PROGRAM(LINK_NO_PIE, "-O1"), .link_options = "-Wl,-z,noseparate-code"}},
    {.clangs = "16 22",
     .linkers = "lld",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,separate-loadable-segments"}},
    {.clangs = "19",
     .linkers = "lld",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,--no-rosegment"}},
    {.clangs = "16 22",
     .program = {C_PROGRAM(LINK_PIE, "-O0"), .link_options = "-Wl,-z,max-page-size=65536",
                 .functions = 1500}},
    {.clangs = "14",
     .program = {C_PROGRAM(LINK_SHARED, "-O0"), .link_options = "-Wl,-z,max-page-size=65536"}},
    {.clangs = "14 19",
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .link_options = "-Wl,-z,norelro -Wl,--hash-style=both"}},
    {.clangs = "16", .program = {C_PROGRAM(LINK_PIE, "-O0"), .functions = 10}},
    {.clangs = "22", .program = {C_PROGRAM(LINK_SHARED, "-O0"), .functions = 3}},

    /* What the linker folds, drops and adds. */
    {.linkers = "lld",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-ffunction-sections",
                 .link_options = "-Wl,--icf=all"}},
    {.clangs = "14 22",
     .program = {CXX_PROGRAM(LINK_NO_PIE, "-O1"),
                 .compile_options = "-ffunction-sections -fdata-sections",
                 .link_options = "-Wl,--gc-sections"}},
    {.clangs = "19 22",
     .linkers = "lld",
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .compile_options = "-flto", .link_options = "-flto"}},
    {.clangs = "14 22",
     .program = {CXX_PROGRAM(LINK_PIE, "-O0"), .compile_options = "-g", .link_options = "-g"}},
    {.clangs = "19",
     .program = {C_PROGRAM(LINK_SHARED, "-O1"), .compile_options = "-g -gz=zlib",
                 .link_options = "-g -gz=zlib"}},
    {.clangs = "16",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-fcf-protection=full"}},

    /* What several linkers have: each option meets each of them. */
    {.linkers = "bfd lld gold mold",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,--emit-relocs"}},
    {.linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_NO_PIE, "-O0"), .link_options = "-Wl,--emit-relocs"}},
    {.linkers = "bfd lld mold",
     .program = {C_PROGRAM(LINK_SHARED, "-O1"),
                 .compile_options = "-ffunction-sections -fdata-sections",
                 .link_options = "-Wl,--gc-sections -Wl,--emit-relocs"}},
    {.clangs = "16 22",
     .linkers = "bfd lld mold",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-ffunction-sections",
                 .link_options = "-Wl,--gc-sections -Wl,-z,start-stop-gc"}},
    {.linkers = "lld gold mold",
     .program = {C_PROGRAM(LINK_SHARED, "-O1"), .compile_options = "-ffunction-sections",
                 .link_options = "-Wl,--icf=all"}},
    {.clangs = "16 19 22", /* lld 14 has no zstd */
     .linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .compile_options = "-g",
                 .link_options = "-g -Wl,--compress-debug-sections=zstd"}},
    {.linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_SHARED, "-O0"), .compile_options = "-g -gsplit-dwarf",
                 .link_options = "-g"}},
    {.linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_PIE, "-O2"), .compile_options = "-flto=thin",
                 .link_options = "-flto=thin"}},
    {.clangs = "14 22",
     .linkers = "gold mold",
     .program = {C_PROGRAM(LINK_NO_PIE, "-O2"), .compile_options = "-flto",
                 .link_options = "-flto"}},
    {.clangs = "19",
     .linkers = "gold mold",
     .program = {C_PROGRAM(LINK_SHARED, "-O0"), .link_options = "-Wl,-z,max-page-size=65536",
                 .functions = 1500}},
    {.linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-mllvm -runtime-counter-relocation"}},

    /* What comes with another library or another tool. */
    {.linkers = "bfd lld gold mold",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .compile_options = MUSL,
                 .link_options =
                     MUSL_LINK MUSL_FILE("Scrt1.o") " -Wl,-dynamic-linker," MUSL_LOADER}},
    {.linkers = "lld mold",
     .program = {C_PROGRAM(LINK_STATIC_PIE, "-O1"), .compile_options = MUSL,
                 .link_options = MUSL_LINK MUSL_FILE("rcrt1.o")}},
    {.linkers = "lld mold",
     .program = {C_PROGRAM(LINK_STATIC, "-O1"), .compile_options = MUSL,
                 .link_options = MUSL_LINK MUSL_FILE("crt1.o")}},
    {.linkers = "bfd lld mold",
     .program = {C_PROGRAM(LINK_PIE, "-O1"),
                 .compile_options = "-fxray-instrument -fxray-instruction-threshold=1",
                 .link_options = "-fxray-instrument"}},

    /* Other linkers. */
    {.clangs = "14 22", .linkers = "mold", .program = {C_PROGRAM(LINK_PIE, "-O1")}},
    {.clangs = "16 19", .linkers = "mold", .program = {CXX_PROGRAM(LINK_NO_PIE, "-O1")}},
    {.clangs = "19 22", .linkers = "mold", .program = {CXX_PROGRAM(LINK_SHARED, "-O1")}},
    {.clangs = "16 22",
     .linkers = "mold",
     .program = {C_PROGRAM(LINK_STATIC_PIE, "-O1"), .link_options = "-Wl,-z,pack-relative-relocs"}},
    {.clangs = "14 19",
     .linkers = "mold",
     .program = {C_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,-z,separate-code"}},
    {.clangs = "14 19", .linkers = "gold", .program = {C_PROGRAM(LINK_PIE, "-O1")}},
    {.clangs = "14 19", .linkers = "gold", .program = {CXX_PROGRAM(LINK_NO_PIE, "-O1")}},
    {.clangs = "14 19", .linkers = "gold", .program = {C_PROGRAM(LINK_SHARED, "-O1")}},
};

#define ROW_COUNT (sizeof rows / sizeof *rows)

/* Those for the compiler and linker of this run. */
static struct row chosen[ROW_COUNT];

/* ---- the diagonal ---- */

static const char all_clangs[] = "14 16 19 22";

/* The place of a word in a text of words; -1: none. */
static int place_of(const char *words, const char *word, int *count)
{
    struct text_list list = {0};
    int found = -1;
    text_list_add_words(&list, words);
    for (size_t i = 0; i < list.count; i++) {
        found = strcmp(list.items[i], word) == 0 ? (int)i : found;
    }
    *count = (int)list.count;
    return found;
}

/* The row's number among those of its kind of image, and how many these are: together they meet
 * every compiler. */
static int rank_of(const struct row *row, int *count)
{
    int rank = 0;
    *count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (rows[i].is_cell && rows[i].program.kind == row->program.kind) {
            rank += &rows[i] < row;
            (*count)++;
        }
    }
    return rank;
}

/* Linkers take turns, and so do compilers; but that each of them shall build every kind of image.
 */
static bool is_on_diagonal(const struct row *row, int clang, int clangs, int linker, int linkers)
{
    int number = (int)(row - rows);
    if (!row->is_cell) {
        return number % linkers == linker && (number / linkers) % clangs == clang;
    }
    int count;
    int rank = rank_of(row, &count);
    return clang % count == rank % clangs &&
           (number + number / 4 + clang / count) % linkers == linker;
}

static int choose_rows(const char *clang_version, const char *linker_name, bool all)
{
    int count = 0;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        const struct row *row = &rows[i];
        int clangs, linkers;
        int clang =
            place_of(row->clangs != NULL ? row->clangs : all_clangs, clang_version, &clangs);
        int linker =
            place_of(row->linkers != NULL ? row->linkers : "bfd lld", linker_name, &linkers);
        if (clang >= 0 && linker >= 0 &&
            (all || is_on_diagonal(row, clang, clangs, linker, linkers))) {
            chosen[count] = *row;
            chosen[count].program.clang = clang_version;
            chosen[count].program.linker = linker_name;
            count++;
        }
    }
    return count;
}

/* ---- the trials ---- */

START_TEST(test_row)
{
    const struct row *row = &chosen[_i];
    struct trial trial = trial_create("matrix");
    trial.clang = row->program.clang;
    trial.exit_code = 3;
    trial.numbered_runs = true;
    trial.data_stays = row->data_stays;
    trial.refusal = row->refusal;
    trial.program = &row->program;
    text_list_add(&trial.images, PROGRAM_NAME);
    if (row->program.kind == LINK_SHARED) {
        text_list_add(&trial.images, PROGRAM_LIBRARY);
    }
    program_build(&row->program, trial.original);
    if (row->is_cell) {
        trial_assert_whole_pages(&trial);
    }

    struct verdict verdict = {0};
    bool good = trial_check_all(&trial, &verdict);
    if (good && (row->is_cell || rounds_are_all())) {
        good = trial_check_strip_tools(&trial, &verdict);
    }
    if (good && row->debugger) {
        trial_check_debugger(&trial, "stop_here", &verdict);
    }
    verdict_assert(&verdict, program_describe(&row->program));
    if (trial.messages[0] != '\0') {
        printf("%s:\n%s", program_describe(&row->program), trial.messages);
    }
}
END_TEST

static void list_rows(int count)
{
    for (int i = 0; i < count; i++) {
        const struct program *program = &chosen[i].program;
        if (chosen[i].refusal == NULL) {
            suite_list_row("ELF", "x86-64", "run natively", program->linker, program->clang,
                           program_kind(program));
        }
    }
}

int main(int argument_count, char **arguments)
{
    const char *clang, *linker;
    bool is_list = suite_is_list(&argument_count, arguments);
    suite_arguments(argument_count, arguments, "CLANG LINKER", &clang, &linker);
    int count = choose_rows(clang, linker, is_list || rounds_are_all());
    if (is_list) {
        list_rows(count);
        return EXIT_SUCCESS;
    }
    TCase *test_case = suite_case("rows", 600, NULL);
    suite_loops(test_case, count, test_row);
    return suite_main(text_format("matrix clang-%s %s", clang, linker), test_case);
}
