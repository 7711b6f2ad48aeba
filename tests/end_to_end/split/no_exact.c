/*
 * Sidecars that nobody means to join: what is left of the names must serve reports and profiles as
 * well as ever, and nobody must take such a sidecar for one that gives the original back.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/elf_file.h"
#include "tests/support/sample.h"

#define APP MANY_UNITS_PROGRAM

/* A directory with a program, what an exact split makes of it, its sidecar, and a profile that the
 * stripped image has written. */
static char *directory;

static const char *run(int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

static void prepare(void)
{
    struct many_units program = {.clang = "19"};
    directory = scratch_create("no-exact");
    many_units_build(&program, directory);
    run(0, "split -o exact --sidecar exact.covsplit " APP);
    struct command command = {.directory = directory};
    text_list_add(&command.arguments, path_join(directory, "exact"));
    text_list_add(&command.environment, "LLVM_PROFILE_FILE=light.profraw");
    command_run_or_abort(&command);
}

static void assert_same(const char *name, const char *other)
{
    files_assert_equal(path_join(directory, name), path_join(directory, other), name);
}

/* The one line of a command that must refuse. */
static void assert_refuses(const char *words, const char *text)
{
    struct command command = covsplit_command(directory, NULL);
    struct verdict verdict = {0};
    text_list_add_words(&command.arguments, words);
    struct outcome outcome = command_run(&command);
    covsplit_refused(&command, &outcome, &verdict);
    verdict_assert(&verdict, words);
    ck_assert_msg(strstr(outcome.errors, text) != NULL, "'%s' is not in: %s", text, outcome.errors);
}

static const char *const forms[] = {"", "--portable", "-j1 --level 19"};

/* The image that is shipped does not depend on it; nor does what tools read. */
START_TEST(test_nothing_else_changes)
{
    run(0, text_format("split --no-exact %s -o out --sidecar side " APP, forms[_i]));
    assert_same("out", "exact");
    run(0, "verify side");
    run(0, "export --sidecar side -o object");
    run(0, "export --sidecar exact.covsplit -o exact.object");
    assert_same("object", "exact.object");
    run(0, "correlate --sidecar side -o full.profraw light.profraw");
    run(0, "correlate --sidecar exact.covsplit -o exact.profraw light.profraw");
    assert_same("full.profraw", "exact.profraw");
    run(0, "merge --sidecar side -o all.profraw light.profraw light.profraw");
    run(0, "merge --sidecar exact.covsplit -o exact-all.profraw light.profraw light.profraw");
    assert_same("all.profraw", "exact-all.profraw");
}
END_TEST

/* It is worth something: what brings the chunks of names back is not there. */
START_TEST(test_smaller)
{
    run(0, "split --no-exact -o out --sidecar side " APP);
    ck_assert_uint_lt(file_size(path_join(directory, "side")),
                      file_size(path_join(directory, "exact.covsplit")));
    const char *exact = covsplit_run_words(directory, 0, "show exact.covsplit").output;
    ck_assert_ptr_nonnull(strstr(exact, "gives the original back  yes\n"));
    const char *shown = covsplit_run_words(directory, 0, "show side").output;
    ck_assert_ptr_nonnull(strstr(shown, "gives the original back  no\n"));
}
END_TEST

/* It says so at once, and leaves what is there alone. */
START_TEST(test_no_way_back)
{
    static const char refusal[] = "was made with --no-exact, and does not give the original back";
    run(0, "split --no-exact -o out --sidecar side " APP);
    file_write_text(path_join(directory, "joined"), "precious");
    assert_refuses("join --sidecar side -o joined out", refusal);
    ck_assert_uint_eq(file_size(path_join(directory, "joined")), strlen("precious"));
    assert_refuses("verify --image out side", refusal);
    file_copy(path_join(directory, "out"), path_join(directory, "joined"));
    assert_refuses("join --sidecar side -o joined joined", refusal);
    assert_same("joined", "out");
}
END_TEST

/* A store keeps the sidecar that says more, and does not take the other for it. */
START_TEST(test_store)
{
    char *store = path_join(directory, text_format("store%d", (int)getpid()));
    run(0, text_format("split --store %s -o out " APP, store));
    run(0, text_format("split --no-exact --store %s -o out " APP, store));
    run(0, text_format("split --no-exact --replace --store %s -o out " APP, store));
    run(0, text_format("join --store %s -o joined out", store));
    assert_same("joined", APP);

    char *other = path_join(directory, text_format("other%d", (int)getpid()));
    run(0, text_format("split --no-exact --store %s -o out " APP, other));
    run(0, text_format("split --no-exact --store %s -o out " APP, other));
    run(0, text_format("store check %s", other));
    assert_refuses(text_format("split --store %s -o out " APP, other), "give --replace");
    run(0, text_format("split --replace --store %s -o out " APP, other));
    run(0, text_format("join --store %s -o joined out", other));
    assert_same("joined", APP);
}
END_TEST

/* But one that is damaged does not stay in the way. */
START_TEST(test_store_with_damage)
{
    char *store = path_join(directory, text_format("damaged%d", (int)getpid()));
    struct elf_file image = elf_file_read(path_join(directory, APP));
    char *entry = store_entry(store, elf_file_build_id(&image));
    run(0, text_format("split --store %s -o out " APP, store));
    struct contents sidecar = file_read(entry);
    sidecar.data[sidecar.size / 2] ^= 0x08;
    file_write(entry, sidecar.data, sidecar.size);
    assert_refuses(text_format("split --no-exact --store %s -o out " APP, store), "damaged");
    run(0, text_format("split --no-exact --replace --store %s -o out " APP, store));
    run(0, text_format("store check %s", store));
}
END_TEST

/* Damage is found as in any sidecar. (Of the first byte in a zstd frame's header, bit 3 must be 0;
 * bit 4 means nothing.) */
START_TEST(test_damage)
{
    run(0, "split --no-exact -o out --sidecar side " APP);
    struct contents sidecar = file_read(path_join(directory, "side"));
    for (size_t place = 1000; place < sidecar.size; place += sidecar.size / 20) {
        sidecar.data[place] ^= 0x08;
        file_write(path_join(directory, "damaged"), sidecar.data, sidecar.size);
        sidecar.data[place] ^= 0x08;
        assert_refuses("verify damaged", "damaged");
    }
}
END_TEST

int main(void)
{
    TCase *test_case = suite_case("no exact", 120, prepare);
    suite_loops(test_case, sizeof forms / sizeof *forms, test_nothing_else_changes);
    suite_tests(test_case, test_smaller, test_no_way_back, test_store, test_store_with_damage,
                test_damage);
    return suite_main("no exact", test_case);
}
