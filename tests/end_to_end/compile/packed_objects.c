/*
 * Packed ELF objects: nothing else in them changes, whatever the compiler put into them; and what
 * linkers make of them is what they make of ordinary ones.
 *
 * A second reader (object_reader.py) compares each packed object with the ordinary one, and each
 * image; and other tools must have no more to say about it.
 *
 * Usage: packed_objects CLANG
 *        packed_objects machines     of all machines but this one
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define READER               COVSPLIT_FIXTURE_DIRECTORY "/../support/object_reader.py"
#define TEST_TIMEOUT_SECONDS 600
#define COUNT(array)         (sizeof(array) / sizeof *(array))

static const char *clang;
static char *scratch;
static char *ordinary, *packed; /* directories with the same objects, in both forms */

static const char *run_words(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);
    return command_run_or_abort(&command);
}

static void prepare(void)
{
    scratch = scratch_create("packed-objects");
    ordinary = path_join(scratch, "ordinary");
    packed = path_join(scratch, "packed");
    directory_create(ordinary);
    directory_create(packed);
    many_units_write(ordinary);
    many_units_write(packed);
}

/* ---- objects ---- */

/* Whether the second reader finds nothing to say. */
static void read_again(const char *how, const char *name)
{
    run_words(scratch, text_format("python3 %s %s ordinary/%s packed/%s", READER, how, name, name));
}

/* Packs ordinary/NAME to packed/NAME, and compares them. */
static void pack(const char *name)
{
    const char *printed =
        covsplit_run_words(scratch, 0, text_format("pack -v -o packed/%s ordinary/%s", name, name))
            .output;
    assert_contains(printed, "1 object packed");
    ck_assert_uint_lt(file_size(path_join(packed, name)), file_size(path_join(ordinary, name)));
    read_again("compare", name);
    covsplit_run_words(scratch, 0, text_format("pack -o packed/again packed/%s", name));
    files_assert_equal(path_join(packed, "again"), path_join(packed, name), name);
}

/* What tools print about an object: of a packed one as many errors, warnings and lines of elflint
 * as of the ordinary one, or fewer. */
static void ask_tools(const char *name)
{
    static const char *const tools[] = {
        "readelf -aW",         "objdump -dr",           "nm",
        "eu-elflint --gnu-ld", "llvm-readobj-%s --all", "llvm-objdump-%s -dr"};
    for (size_t i = 0; i < COUNT(tools); i++) {
        struct outcome outcomes[2];
        size_t lines[2];
        for (int j = 0; j < 2; j++) {
            const char *words = text_format("%s %s", text_replace(tools[i], "%s", clang), name);
            struct command command = command_words(j == 0 ? ordinary : packed, "%s", words);
            outcomes[j] = command_run(&command);
            lines[j] =
                text_count(outcomes[j].errors, "\n") +
                (strncmp(tools[i], "eu-", 3) == 0 ? text_count(outcomes[j].output, "\n") : 0);
        }
        ck_assert_msg(outcomes[1].exit_code == outcomes[0].exit_code && lines[1] <= lines[0],
                      "%s: %s: %s%s", name, tools[i], outcomes[1].errors, outcomes[1].output);
    }
}

/* What changes what is in an object. */
static const struct kind {
    const char *options;
    int first, last; /* versions of clang that know it; 0: any */
} kinds[] = {
    {"-O0", 0, 0},
    {"-O2 -g -fPIC", 0, 0},
    {"-O1 -ffunction-sections -fdata-sections -fvisibility=hidden", 0, 0},
    {"-O1 -g -gsplit-dwarf", 0, 0},
    {"-O1 -g -gsplit-dwarf=single -gz", 0, 0},
    {"-O2 -fbasic-block-sections=all", 0, 0},
    {"-O1 -fxray-instrument -fxray-instruction-threshold=1", 0, 0},
    {"-O1 -fsanitize=address,undefined", 0, 0},
    {"-O1 -fsanitize-coverage=trace-pc-guard,pc-table", 0, 0},
    {"-O1 -fembed-bitcode", 0, 0},
    {"-O1 -fno-integrated-as", 0, 0},
    {"-O1 -fstack-size-section -faddrsig", 0, 0},
    {"-m32 -O1 -g", 0, 0},
    {"-O1 -flto -ffat-lto-objects", 17, 0},
    {"-O1 -fcoverage-mcdc", 18, 0},
};

START_TEST(test_kind)
{
    const struct kind *kind = &kinds[_i];
    int version = atoi(clang);
    char *name = text_format("kind%d.o", _i);
    if (version < kind->first) {
        return;
    }
    run_words(ordinary, text_format("clang++-%s " INSTRUMENT_COVERAGE " %s -c unit0.cc -o %s",
                                    clang, kind->options, name));
    pack(name);
    if (rounds_have((unsigned)_i, 3)) {
        ask_tools(name);
    }
}
END_TEST

/* Relocations in the experimental form CREL: the object stays as it is. */
START_TEST(test_crel)
{
    struct outcome outcome;

    if (atoi(clang) < 20)
        return;
    run_words(ordinary, text_format("clang++-%s " INSTRUMENT_COVERAGE
                                    " -Wa,--crel,--allow-experimental-crel -c unit0.cc -o crel.o",
                                    clang));
    outcome = covsplit_run_words(scratch, 0, "pack -o packed/crel.o ordinary/crel.o");
    assert_contains(outcome.errors, "it has a section of the unknown type 0x40000014");
    files_assert_equal(path_join(packed, "crel.o"), path_join(ordinary, "crel.o"), "CREL");
}
END_TEST

/* ---- links ---- */

#define OBJECTS "main.o unit0.o unit1.o unit2.o unit3.o unit4.o unit5.o unit6.o unit7.o"

static const char *const linkers[] = {"bfd", "gold", "lld", "mold"};

static void prepare_links(void)
{
    struct text_list objects = {0};
    prepare();
    text_list_add_words(&objects, OBJECTS);
    for (size_t i = 0; i < objects.count; i++) {
        run_words(ordinary, text_format("clang++-%s " INSTRUMENT_COVERAGE
                                        " -O0 -g -ffunction-sections -c %s -o %s",
                                        clang, text_replace(objects.items[i], ".o", ".cc"),
                                        objects.items[i]));
        pack(objects.items[i]);
    }
}

/* Links the objects in both forms, and compares the images and how they end. */
static void link_both(const char *linker, const char *words)
{
    const char *command =
        text_format("clang++-%s -fprofile-instr-generate -fuse-ld=%s -Wl,--build-id=none -o app %s",
                    clang, linker, words);
    run_words(ordinary, command);
    run_words(packed, command);
    read_again(strcmp(linker, "gold") == 0 ? "link-gold" : "link", "app");
    ck_assert_int_eq(program_run(packed, "app").exit_code, program_run(ordinary, "app").exit_code);
}

START_TEST(test_link)
{
    static const char *const words[] = {"-Wl,--gc-sections " OBJECTS, OBJECTS, "-no-pie " OBJECTS};
    for (size_t i = 0; i < COUNT(words); i++) {
        if (rounds_have((unsigned)i + (unsigned)_i, COUNT(words))) {
            link_both(linkers[_i], words[i]);
        }
    }
}
END_TEST

/* Relocatable links, whose results are packed, or whose inputs were. */
START_TEST(test_relocatable)
{
    if (!rounds_have((unsigned)_i, 3)) {
        return;
    }
    const char *linker = linkers[_i];
    const char *join = text_format("ld.%s -r -o joined.o %s", linker, OBJECTS);
    run_words(ordinary, join);
    pack("joined.o");
    ask_tools("joined.o");
    link_both("lld", "joined.o");
    run_words(packed, join);
    link_both("lld", "joined.o");
}
END_TEST

/* A debugger stops at the same places and shows the same. */
START_TEST(test_debugger)
{
    link_both("bfd", OBJECTS);
    struct command command = command_words(NULL, "gdb -batch -nx");
    const char *const orders[] = {"break local", "run", "backtrace", "print value", "finish"};
    for (size_t i = 0; i < COUNT(orders); i++) {
        text_list_add(&command.arguments, "-ex");
        text_list_add(&command.arguments, orders[i]);
    }
    text_list_add(&command.arguments, "app");
    command.directory = ordinary;
    const char *before = command_expect(&command, 0).output;
    command.directory = packed;
    const char *after = command_expect(&command, 0).output;
    assert_contains(before, "Value returned is");
    ck_assert_str_eq(text_replace(after, packed, ordinary), before);
}
END_TEST

/* More sections than fit the ELF header and a symbol, so that their numbers are elsewhere; the
 * packed object still has as many. */
START_TEST(test_many_sections)
{
    static const char assembly[] = "        .altmacro\n"
                                   "        .macro function number\n"
                                   "        .section .text.f\\number,\"ax\",@progbits\n"
                                   "f\\number:\n"
                                   "        .quad f\\number, _Z5unit0i\n"
                                   "        .endm\n"
                                   "        .set i, 0\n"
                                   "        .rept 33000\n"
                                   "        function %i\n"
                                   "        .set i, i + 1\n"
                                   "        .endr\n"
                                   "        .section .note.GNU-stack,\"\",@progbits\n";
    file_write_text(path_join(ordinary, "many.s"), assembly);
    run_words(ordinary, text_format("clang-%s -c many.s -o many-sections.o", clang));
    run_words(ordinary, "ld.bfd -r -o many.o many-sections.o " OBJECTS);
    pack("many.o");
    link_both("lld", "-no-pie many.o");
}
END_TEST

/* ---- machines ---- */

START_TEST(test_machine)
{
    static const char *const versions[] = {"14", "16", "19", "22"};
    const struct target *target = &target_table[_i];
    for (size_t i = 0; i < COUNT(versions); i++) {
        clang = versions[i];
        if (!target_has_tools(target, clang, "lld") && !target_has_tools(target, clang, "bfd")) {
            continue;
        }
        if (!rounds_are_all() && strcmp(clang, "19") != 0) {
            continue;
        }
        for (size_t j = 0; j < COUNT(target->options); j++) {
            char *name = text_format("%s-%s-%zu.o", target->name, clang, j);
            struct command command = command_words(
                ordinary, "clang++-%s " INSTRUMENT_COVERAGE " -O1 -g -ffunction-sections -c -o %s",
                clang, name);
            target_add_compile_words(target, &command.arguments);
            text_list_add_words(&command.arguments,
                                target->options[j] != NULL ? target->options[j] : "");
            text_list_add(&command.arguments, "unit0.cc");
            command_run_or_abort(&command);
            pack(name);
            if (rounds_have((unsigned)j, 2)) {
                ask_tools(name);
            }
        }
    }
}
END_TEST

int main(int count, char **words)
{
    suite_arguments(count, words, "CLANG|machines", &clang);
    if (strcmp(clang, "machines") == 0) {
        TCase *machines = suite_case("machines", TEST_TIMEOUT_SECONDS, prepare);
        suite_loops(machines, target_count, test_machine);
        return suite_main("packed_objects", machines);
    }
    TCase *objects = suite_case("objects", TEST_TIMEOUT_SECONDS, prepare);
    TCase *links = suite_case("links", TEST_TIMEOUT_SECONDS, prepare_links);
    suite_loops(objects, COUNT(kinds), test_kind);
    suite_loops(links, COUNT(linkers), test_link);
    suite_loops(links, COUNT(linkers) - 1, test_relocatable);
    suite_tests(objects, test_crel);
    suite_tests(links, test_debugger, test_many_sections);
    return suite_main("packed_objects", objects, links);
}
