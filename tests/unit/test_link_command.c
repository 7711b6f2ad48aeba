/*
 * Which files a link writes and reads: every way in which command lines say it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/split/split.h"
#include "tests/support/suite.h"

#define WORDS_MAX 8

static char directory[] = "/tmp/covsplit-link-command-XXXXXX";

struct row {
    const char *words[WORDS_MAX]; /* ends with NULL */
    const char *output;
};

static const struct row rows[] = {
    {{"cc", "a.c"}, "a.out"},
    {{"cc", "a.c", "-o", "app"}, "app"},
    {{"cc", "-oapp", "a.c"}, "app"},
    {{"cc", "-o", "first", "a.c", "-o", "last"}, "last"},
    {{"ld.lld", "--output", "app", "a.o"}, "app"},
    {{"ld.lld", "--output=app", "a.o"}, "app"},
    /* What looks like an option may be a file, and the other way round. */
    {{"cc", "-o", "-o", "a.c"}, "-o"},
    {{"cc", "-o", "@file", "a.c"}, "@file"},
    {{"cc", "-Xlinker", "-o", "-o", "app"}, "app"},
    {{"cc", "@nosuch", "-o", "app"}, "app"},
    /* What a compiler hands on to the linker comes last. */
    {{"cc", "-Wl,-o,app", "a.c", "-o", "other"}, "app"},
    {{"cc", "-Wl,-rpath,lib", "-Wl,--output=app", "a.c"}, "app"},
    {{"cc", "-Wl,-o", "a.c", "-Wl,app"}, "app"},
    {{"cc", "-Xlinker", "-o", "-Xlinker", "app", "a.c"}, "app"},
    {{"cc", "--for-linker=-o", "--for-linker", "app", "a.c"}, "app"},
    {{"cc", "-Xclang", "-Wl,-o,other", "-o", "app"}, "app"},
    {{"clang", "-working-directory=b", "-o", "app", "a.c"}, "b/app"},
    {{"clang", "-working-directory", "/b", "a.c", "-Wl,-o,app"}, "app"},
    {{"clang", "-working-directory", "b", "a.c"}, "b/a.out"},
    {{"cc", "-o", "app", "-Xlinker"}, "app"},
    {{"ccache", "clang++", "-o", "app", "a.cc"}, "app"},
    {{"lld-link", "/out:app.exe", "a.obj"}, "app.exe"},
    {{"/usr/bin/lld-link-22", "-OUT:app.dll", "/dll"}, "app.dll"},
    {{"LINK.EXE", "/OUT:C:/b/app.exe"}, "C:/b/app.exe"},
    {{"clang-cl", "/Feapp.exe", "a.c"}, "app.exe"},
    {{"clang-cl", "/Fe:app.exe", "a.c"}, "app.exe"},
    {{"clang-cl", "-o", "app.exe", "a.c"}, "app.exe"},
    {{"sccache", "lld-link", "/out:app.exe"}, "app.exe"},
    /* ld64 has more options that begin with an "o", but no -oFILE; lld and GNU ld have few. */
    {{"ld64.lld", "-o", "app", "-order_file", "order"}, "app"},
    {{"ld", "-o", "app", "-oso_prefix", "."}, "app"},
    {{"ld64.lld", "-o", "app", "-object_path_lto", "-other", "-order_file_statistics"}, "app"},
    {{"ld", "-o", "app", "-objc_abi_version", "2", "-objc_stubs_fast", "a.o"}, "app"},
    {{"ld64.lld", "-order_file", "-o", "-o", "app"}, "app"},
    {{"ld.lld", "-o", "app", "-orphan-handling=warn", "--orphan-handling=error"}, "app"},
    {{"ld", "-o", "app", "-orphan-handling", "warn", "--oformat=elf64-x86-64"}, "app"},
    {{"ld.bfd", "-omagic", "--omagic"}, "magic"},
    {{"ld.gold", "-output=app"}, "app"},
    {{"ld.gold", "-output", "app"}, "app"},
    {{"clang", "-o", "app", "-mllvm", "-openmp-opt-disable", "-object", "-objcmt-migrate-all"},
     "app"},
    {{"clang", "-o", "app", "-Xassembler", "-o1", "-object-file-name=a"}, "app"},
    {{"ld", "-o", "app", "-plugin-opt", "-obj", "--plugin-opt", "-obj"}, "app"},
    {{"swiftc", "-o", "app", "-output-file-map", "map.json"}, "app"},
    {{"lld-link", "/out:app.exe", "/order:@order", "-opt:ref", "-osversion:6.0"}, "app.exe"},
    {{"clang-cl", "a.c", "/Fe:", "app.exe"}, "app.exe"},
    {{"clang-cl", "-oapp.exe", "-openmp", "/openmp:llvm", "a.c"}, "app.exe"},
    {{"clang-cl", "/o", "app.exe", "a.c", "/link", "-order:@order", "/opt:ref"}, "app.exe"},
    {{"clang", "--driver-mode=cl", "/Feapp.exe", "a.c"}, "app.exe"},
    {{"cl.exe", "a.c", "/Fe:app.exe"}, "app.exe"},
    {{"cl", "a.c", "/Fe:b.d/app"}, "b.d/app.exe"},
    {{"clang-cl", "/Feapp", "a.c", "/LDd"}, "app.dll"},
    {{"lld-link", "/out:app"}, "app"},
    {{"x86_64-w64-mingw32-gcc", "a.c", "-o", "b.d/app"}, "b.d/app.exe"},
    {{"x86_64-w64-mingw32-gcc", "a.c", "-o", "app.bin"}, "app.bin"},
    {{"x86_64-w64-mingw32-gcc", "a.c", "-o", "other", "-Wl,-o,app"}, "app"},
    {{"x86_64-w64-mingw32-ld", "a.o", "-o", "app"}, "app"},
    {{"clang", "--target=x86_64-w64-mingw32", "a.c"}, "a.exe"},
    {{"clang", "-target", "x86_64-w64-windows-gnu", "a.c", "-o", "app"}, "app.exe"},
    /* Here it is the file "ut:app". */
    {{"cc", "-out:app"}, "ut:app"},
};

static bool read_words(struct link_command *command, const char *const *words, struct error *error)
{
    size_t count = 0;

    while (words[count] != NULL)
        count++;
    return link_command_read(command, words, count, error);
}

static char *find(const char *const *words, struct error *error)
{
    struct link_command command;
    char *output;

    if (!read_words(&command, words, error))
        return NULL;
    output = strdup(command.output);
    link_command_free(&command);
    return output;
}

START_TEST(test_words)
{
    struct error error = {0};
    FREED_BY(drop_memory) char *output = find(rows[_i].words, &error);

    ck_assert_msg(output != NULL, "%s", error.message);
    ck_assert_str_eq(output, rows[_i].output);
}
END_TEST

static void write_text(const char *name, const char *text, size_t size)
{
    FILE *file = fopen(name, "w");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

struct response {
    const char *program;
    const char *text;
    const char *output;
};

static const struct response responses[] = {
    {"cc", "-o app a.o\n", "app"},
    {"cc", "a.o\n-o\n\tapp", "app"},
    {"cc", "\"-o\" 'my app'", "my app"},
    {"cc", "-o my\\ app", "my app"},
    {"cc", "-o \"my \\\"app\\\"\"", "my \"app\""},
    {"cc", "-o ''", ""},
    {"cc", "", "a.out"},
    {"cc", "-o", "a.out"},
    {"lld-link", "/out:b\\app.exe a.obj", "b\\app.exe"},
    {"lld-link", "\"/out:my app.exe\"", "my app.exe"},
    {"lld-link", "/out:\"my app.exe\"", "my app.exe"},
    {"lld-link", "/out:it's.exe", "it's.exe"},
};

START_TEST(test_response_files)
{
    const struct response *response = &responses[_i];
    const char *words[] = {response->program, "@response", NULL};
    struct error error = {0};
    FREED_BY(drop_memory) char *output;

    write_text("response", response->text, strlen(response->text));
    output = find(words, &error);
    ck_assert_msg(output != NULL, "%s", error.message);
    ck_assert_str_eq(output, response->output);
}
END_TEST

/* As rustc writes them for link.exe. */
START_TEST(test_wide)
{
    const char *words[] = {"link.exe", "@wide", NULL};
    struct error error = {0};
    FREED_BY(drop_memory) char *output;

    write_text("wide", "\xff\xfe\"\0/\0O\0U\0T\0:\0a\0.\0e\0x\0e\0\"\0\n\0", 28);
    output = find(words, &error);
    ck_assert_msg(output != NULL, "%s", error.message);
    ck_assert_str_eq(output, "a.exe");
}
END_TEST

/* One inside of another; the word behind them counts last. */
START_TEST(test_nested)
{
    const char *words[] = {"cc", "@outer", NULL};
    struct error error = {0};
    FREED_BY(drop_memory) char *output;

    write_text("outer", "-o outer @inner a.o", 19);
    write_text("inner", "-o inner", 8);
    output = find(words, &error);
    ck_assert_msg(output != NULL, "%s", error.message);
    ck_assert_str_eq(output, "inner");
}
END_TEST

struct input_row {
    const char *words[WORDS_MAX]; /* ends with NULL */
    bool names_output;
    const char *inputs; /* each with a blank behind it */
};

static const struct input_row input_rows[] = {
    {{"cc", "a.o", "-o", "app", "lib/libb.so", "-lc"}, true, "a.o lib/libb.so "},
    {{"cc", "-Xlinker", "a.o", "b.o", "@files"}, false, "b.o c.o d.so.1 "},
    {{"cc", "-o", "app", "/usr/lib/libc.so"}, true, "/usr/lib/libc.so "},
    {{"lld-link", "/out:a.exe", "a.obj", "-dll", "b.lib"}, true, "a.obj b.lib "},
};

START_TEST(test_inputs)
{
    const struct input_row *row = &input_rows[_i];
    FREED_BY(link_command_free) struct link_command command;
    struct error error = {0};
    char inputs[256] = "";

    write_text("files", "c.o -g d.so.1", 13);
    ck_assert_msg(read_words(&command, row->words, &error), "%s", error.message);
    for (size_t i = 0; i < command.inputs.count; i++) {
        strcat(inputs, command.inputs.paths[i]);
        strcat(inputs, " ");
    }
    ck_assert_str_eq(inputs, row->inputs);
    ck_assert_int_eq(command.names_output, row->names_output);
}
END_TEST

START_TEST(test_endless)
{
    const char *words[] = {"cc", "@itself", NULL};
    struct error error = {0};

    write_text("itself", "-o app @itself", 14);
    ck_assert_ptr_null(find(words, &error));
    ck_assert_msg(strstr(error.message, "name each other") != NULL, "%s", error.message);
}
END_TEST

START_TEST(test_no_text)
{
    const char *words[] = {"cc", "@image", NULL};
    struct error error = {0};

    write_text("image", "-o \0 app", 8);
    ck_assert_ptr_null(find(words, &error));
    ck_assert_msg(strstr(error.message, "image: not a response file") != NULL, "%s", error.message);
}
END_TEST

int main(void)
{
    if (mkdtemp(directory) == NULL || chdir(directory) != 0)
        return EXIT_FAILURE;
    TCase *test_case = tcase_create("link command");
    suite_loops(test_case, sizeof(rows) / sizeof(rows[0]), test_words);
    suite_loops(test_case, sizeof(responses) / sizeof(responses[0]), test_response_files);
    suite_loops(test_case, sizeof(input_rows) / sizeof(input_rows[0]), test_inputs);
    suite_tests(test_case, test_wide, test_nested, test_endless, test_no_text);
    int status = suite_main("link command", test_case);
    (void)!system("rm -f response files wide outer inner itself image");
    rmdir(directory);
    return status;
}
