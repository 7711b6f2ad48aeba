/*
 * The matrix: every kind of image, by every compiler and linker, split and checked in every way.
 *
 * Usage: matrix CLANG LINKER. One run covers one compiler and linker: {PIE, non-PIE, shared library
 * plus main program, static, static-PIE} x {-O0, -O2} x {C, C++}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/trial.h"

#define CELL_TIMEOUT_SECONDS 600

static const char *clang_version;
static const char *linker_name;

struct cell {
    enum link_kind kind;
    enum language language;
    const char *optimization;
    bool debugger;
};

static const struct cell cells[] = {
    {LINK_PIE, LANGUAGE_C, "-O0", true},         {LINK_PIE, LANGUAGE_C, "-O2", false},
    {LINK_PIE, LANGUAGE_CXX, "-O0", false},      {LINK_PIE, LANGUAGE_CXX, "-O2", true},
    {LINK_NO_PIE, LANGUAGE_C, "-O0", true},      {LINK_NO_PIE, LANGUAGE_C, "-O2", false},
    {LINK_NO_PIE, LANGUAGE_CXX, "-O0", false},   {LINK_NO_PIE, LANGUAGE_CXX, "-O2", false},
    {LINK_SHARED, LANGUAGE_C, "-O0", false},     {LINK_SHARED, LANGUAGE_C, "-O2", true},
    {LINK_SHARED, LANGUAGE_CXX, "-O0", false},   {LINK_SHARED, LANGUAGE_CXX, "-O2", false},
    {LINK_STATIC, LANGUAGE_C, "-O2", false},     {LINK_STATIC, LANGUAGE_CXX, "-O0", false},
    {LINK_STATIC_PIE, LANGUAGE_C, "-O2", false},
};

START_TEST(test_cell)
{
    const struct cell *cell = &cells[_i];
    struct program program = {
        .clang = clang_version,
        .linker = linker_name,
        .kind = cell->kind,
        .language = cell->language,
        .optimization = cell->optimization,
    };
    struct trial trial = trial_create("matrix");
    trial.clang = clang_version;
    trial.exit_code = 3;
    trial.numbered_runs = true;
    text_list_add(&trial.images, PROGRAM_NAME);
    if (cell->kind == LINK_SHARED) {
        text_list_add(&trial.images, PROGRAM_LIBRARY);
    }
    program_build(&program, trial.original);

    struct verdict verdict = {0};
    if (trial_check_all(&trial, &verdict) && cell->debugger) {
        trial_check_debugger(&trial, "stop_here", &verdict);
    }
    verdict_assert(&verdict, program_describe(&program));
    if (trial.messages[0] != '\0') {
        printf("%s:\n%s", program_describe(&program), trial.messages);
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
    clang_version = arguments[1];
    linker_name = arguments[2];
    Suite *suite = suite_create(text_format("matrix clang-%s %s", clang_version, linker_name));
    TCase *test_case = suite_add_case(suite, "cells", CELL_TIMEOUT_SECONDS);
    tcase_add_loop_test(test_case, test_cell, 0, sizeof cells / sizeof *cells);
    return suite_run(suite);
}
