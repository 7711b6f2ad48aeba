/*
 * An interpreter, Lua 5.4, for every machine: code of large functions with jump tables and indirect
 * calls, at the levels of optimization that are used for small devices. Names and data must go
 * in each row.
 *
 * Usage: interpreter MACHINE
 *
 * MACHINE is one of target.h, or x86-64 for this one. The rows are a product: {-O1, -Os, -O2} x
 * {GNU ld, lld} x {kinds of code}; LLVM versions take turns. Where not everything is
 * asked for (suite.h), one of them is run. The sources are those that tests/fetch.sh has put into
 * COVSPLIT_TEST_CACHE.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"
#include "tests/support/suite.h"
#include "tests/support/trial.h"

#define SOURCE       COVSPLIT_TEST_CACHE "/lua5.4/src"
#define ROWS_MAX     12

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct program rows[ROWS_MAX];
static size_t row_count;

/* One with tools for the target, another one for each turn. */
static const char *choose_clang(const struct target *target, const char *linker, size_t turn)
{
    static const char *const clangs[] = {"14", "16", "19", "22"};
    const char *found[COUNT(clangs)];
    size_t count = 0;
    for (size_t i = 0; i < COUNT(clangs); i++) {
        if (target == NULL || target_has_tools(target, clangs[i], linker)) {
            found[count++] = clangs[i];
        }
    }
    return count != 0 ? found[turn % count] : NULL;
}

/* The seed of hashes must not be a time or an address, or no two runs count the same. */
static void add_rows(const struct target *target)
{
    static const char *const linkers[] = {"bfd", "lld"};
    static const char *const optimizations[] = {"-O1", "-Os", "-O2"};
    size_t codes = target != NULL && target->options[1] != NULL ? COUNT(target->options) : 1;
    for (size_t i = 0; i < COUNT(linkers) * COUNT(optimizations) * codes; i++) {
        const char *code = target != NULL ? target->options[i % codes] : NULL;
        const char *linker = linkers[i / codes / COUNT(optimizations)];
        const char *clang = choose_clang(target, linker, i / codes);
        if (clang != NULL) {
            rows[row_count++] = (struct program){
                .target = target,
                .clang = clang,
                .linker = linker,
                .optimization = optimizations[i / codes % COUNT(optimizations)],
                .link_options = "-lm -Wl,-z,max-page-size=4096",
                .compile_options = text_format("%s -DLUA_USE_POSIX -Dluai_makeseed(L)=1u -w",
                                               code != NULL ? code : ""),
            };
        }
    }
}

static void build(const struct program *row, const char *directory)
{
    struct text_list sources = directory_list(SOURCE);
    const char *objects = "";
    for (size_t i = 0; i < sources.count; i++) {
        const char *name = sources.items[i];
        size_t length = strlen(name);
        if (length > 2 && strcmp(name + length - 2, ".c") == 0 && strcmp(name, "luac.c") != 0) {
            const char *object = text_format("%s.o", name);
            program_compile(row, directory, path_join(SOURCE, name), object);
            objects = text_format("%s %s", objects, object);
        }
    }
    program_link(row, directory, "-pie", objects, "lua");
}

START_TEST(test_row)
{
    const struct program *row = &rows[_i];
    const char *machine = row->target != NULL ? row->target->name : "x86-64";
    struct trial trial = trial_create("interpreter");
    struct verdict verdict = {0};
    trial.clang = row->clang;
    /* Hashes of pointers must be the same in each run, as they are in emulators. */
    trial.emulator = row->target != NULL ? target_emulator(row->target) : "setarch -R";
    trial.address_unit = row->target != NULL ? row->target->address_unit : 0;
    trial.skips_expansions = true;
    text_list_add(&trial.images, "lua");
    text_list_add(&trial.arguments, COVSPLIT_FIXTURE_DIRECTORY "/interpreted.lua");
    build(row, trial.original);
    if (trial_check_all(&trial, &verdict)) {
        trial_check_report(&trial, &verdict);
    }
    const char *label = text_format("%s %s", machine, program_describe(row));
    verdict_assert(&verdict, label);
    printf("%s: passed\n%s", label, trial.messages);
}
END_TEST

int main(int argument_count, char **arguments)
{
    const char *name;
    suite_arguments(argument_count, arguments, "MACHINE", &name);
    const struct target *target = target_find(name);
    if (target == NULL && strcmp(name, "x86-64") != 0) {
        return suite_usage(arguments[0], "MACHINE");
    }
    add_rows(target);
    TCase *test_case = suite_case("rows", 600, NULL);
    suite_loops(test_case, rounds((unsigned)row_count), test_row);
    return suite_main(text_format("interpreter %s", name), test_case);
}
