/*
 * The variants: options of compilers and linkers that change what a split has to deal with, each
 * checked like a cell of the matrix.
 *
 * Usage: variants CLANG LINKER. A variant says for which of them it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/trial.h"

#define VARIANT_TIMEOUT_SECONDS 600

struct variant {
    const char *clangs;  /* words; NULL: all */
    const char *linkers; /* words; NULL: GNU ld and lld */
    bool data_stays;
    const char *refusal;
    struct program program; /* without compiler and linker */
};

#define C_PROGRAM(link, level)   .kind = (link), .language = LANGUAGE_C, .optimization = (level)
#define CXX_PROGRAM(link, level) .kind = (link), .language = LANGUAGE_CXX, .optimization = (level)

static const struct variant variants[] = {
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
    {.clangs = "14 22",
     .refusal = "link without --emit-relocs",
     .program = {CXX_PROGRAM(LINK_PIE, "-O1"), .link_options = "-Wl,--emit-relocs"}},
    {.clangs = "19",
     .refusal = "link without --emit-relocs",
     .program = {C_PROGRAM(LINK_SHARED, "-O0"), .link_options = "-Wl,--emit-relocs"}},

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

    /* One more linker. */
    {.clangs = "14 19", .linkers = "gold", .program = {C_PROGRAM(LINK_PIE, "-O1")}},
    {.clangs = "14 19", .linkers = "gold", .program = {CXX_PROGRAM(LINK_NO_PIE, "-O1")}},
    {.clangs = "14 19", .linkers = "gold", .program = {C_PROGRAM(LINK_SHARED, "-O1")}},
};

#define VARIANT_COUNT (sizeof variants / sizeof *variants)

/* Those for the compiler and linker of this run. */
static struct variant chosen[VARIANT_COUNT];

static bool has_word(const char *words, const char *word)
{
    struct text_list list = {0};
    text_list_add_words(&list, words);
    bool found = text_list_contains(&list, word);
    text_list_free(&list);
    return found;
}

static int choose_variants(const char *clang, const char *linker)
{
    int count = 0;
    for (size_t i = 0; i < VARIANT_COUNT; i++) {
        const struct variant *variant = &variants[i];
        const char *linkers = variant->linkers != NULL ? variant->linkers : "bfd lld";
        if ((variant->clangs == NULL || has_word(variant->clangs, clang)) &&
            has_word(linkers, linker)) {
            chosen[count] = *variant;
            chosen[count].program.clang = clang;
            chosen[count].program.linker = linker;
            count++;
        }
    }
    return count;
}

START_TEST(test_variant)
{
    const struct variant *variant = &chosen[_i];
    struct trial trial = trial_create("variants");
    trial.clang = variant->program.clang;
    trial.exit_code = 3;
    trial.numbered_runs = true;
    trial.data_stays = variant->data_stays;
    trial.refusal = variant->refusal;
    text_list_add(&trial.images, PROGRAM_NAME);
    if (variant->program.kind == LINK_SHARED) {
        text_list_add(&trial.images, PROGRAM_LIBRARY);
    }
    program_build(&variant->program, trial.original);

    struct verdict verdict = {0};
    trial_check_all(&trial, &verdict);
    verdict_assert(&verdict, program_describe(&variant->program));
    if (trial.messages[0] != '\0') {
        printf("%s:\n%s", program_describe(&variant->program), trial.messages);
    }
    trial_remove(&trial);
}
END_TEST

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        fprintf(stderr, "usage: %s CLANG LINKER\n", arguments[0]);
        return EXIT_FAILURE;
    }
    int count = choose_variants(arguments[1], arguments[2]);
    Suite *suite = suite_create(text_format("variants clang-%s %s", arguments[1], arguments[2]));
    TCase *test_case = suite_add_case(suite, "variants", VARIANT_TIMEOUT_SECONDS);
    tcase_add_loop_test(test_case, test_variant, 0, count);
    return suite_run(suite);
}
