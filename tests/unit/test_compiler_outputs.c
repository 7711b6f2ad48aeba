/*
 * Which objects a command line may write: every way in which compilers are told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "split/compile/compile.h"
#include "tests/support/suite.h"

static char directory[] = "/tmp/covsplit-compiler-outputs-XXXXXX";

struct row {
    const char *words;   /* separated by blanks */
    const char *outputs; /* each with a blank behind it */
};

static const struct row rows[] = {
    /* Named. */
    {"clang -c a.c -o b/x.o", "b/x.o "},
    {"clang -c a.c -ob/x.o", "b/x.o "},
    {"clang -c a.c --output=x.o", "x.o "},
    {"clang -c a.c --output x.o", "x.o "},
    {"clang -o first.o -c a.c -o last.o", "last.o "},
    {"gcc -r a.o b.o -o c.o", "c.o "},
    {"ld.lld -r a.o b.o -o c.o", "c.o "},
    {"clang a.c b.c -o app", "app "},
    {"clang -cc1 -emit-obj -o x.o -x c a.c", "x.o "},
    {"clang -c a.c -o -", ""},
    {"clang -c a.c -object-file-name=b.o -o x.o -objcmt-migrate-all", "x.o "},
    {"clang -c a.c -Xclang -o -Xlinker -oy -Xassembler -oz -o x.o", "x.o "},
    {"clang -c a.c -MF -o -o x.o", "x.o "},
    {"flang-new -c a.f90 -J mod -o x.o", "x.o "},
    {"clang -c a.c -o", "a.o "},
    /* By the sources' names. */
    {"clang -c a.c", "a.o "},
    {"clang --compile sub/a.b.c", "a.b.o "},
    {"clang -c a.c ../b.cc sub/c.s d.S e.ll", "a.o b.o c.o d.o e.o "},
    {"clang -c -x c noext -x c++ other.txt", "noext.o other.o "},
    {"clang -c -x c -", "-.o "},
    {"clang -c -- a.c -b.c", "a.o -b.o "},
    {"clang -c a.c -I inc -include h.h -D X -MF a.d -MT t.o -isystem sys -Xclang -x --sysroot r",
     "a.o "},
    {"clang -c a.c -Iinc -DX -MMD -MP -target t -mllvm -m -L lib -l c --param p=1 -arch x", "a.o "},
    {"clang -working-directory sub -c a.c", "sub/a.o "},
    {"clang -working-directory=sub -c a.c -o x.o", "sub/x.o "},
    {"clang -working-directory=sub -c a.c -o /x.o", "/x.o "},
    {"clang -cc1 -triple t -emit-obj sub/a.c", "sub/a.o "},
    {"clang -r a.o b.o", "a.out "},
    {"clang a.c", "a.out "},
    /* Objects on the way to an image. */
    {"clang -save-temps a.c sub/b.c -o bin/app", "a.o b.o bin/app "},
    {"clang -save-temps=obj a.c -o bin/app", "bin/a.o bin/app "},
    {"clang -save-temps=obj -c a.c -o bin/a.o", "bin/a.o "},
    {"clang --save-temps a.c", "a.o a.out "},
    /* None. */
    {"clang -S a.c", ""},
    {"clang -E a.c -o a.i", ""},
    {"clang -c -E a.c", ""},
    {"clang -M a.c", ""},
    {"clang -fsyntax-only a.c", ""},
    {"clang -c -emit-llvm a.c", ""},
    {"clang -### -c a.c", ""},
    {"clang --precompile a.cppm", ""},
    {"clang --version", ""},
    {"clang", ""},
    {"true", ""},
    /* Behind launchers. */
    {"ccache clang -c a.c", "a.o "},
    {"/usr/bin/ccache compiler_check=none clang++ -c a.c", "a.o "},
    {"sccache distcc icecc clang -c a.c", "a.o "},
    {"env -i A=b PATH=/bin clang -c a.c", "a.o "},
    {"covsplit link --store s -- covsplit compile -- clang -c a.c", "a.o "},
    {"covsplit link --store s -- ccache clang-cl /c a.c", ""},
    {"covsplit link", ""},
    {"env", ""},
    {"wrapper clang-cl /c a.c", ""},
    /* clang-cl and cl, whose objects stay as they are. */
    {"clang-cl /c a.c b.c", ""},
    {"clang-cl-19 -c a.c /Foout", ""},
    {"clang-cl /c a.c -o z.o /Foy", ""},
    {"clang --driver-mode=cl /c a.c", ""},
    {"cl.exe /c a.c /P", ""},
    /* rustc. */
    {"rustc -o x.o --emit=obj a.rs", "x.o "},
    {"rustc --crate-name a --crate-type lib src/lib.rs -C extra-filename=-12 --out-dir out",
     "out/liba-12.rlib out/liba-12.a out/a-12.o "},
    {"rustc src/a-b.rs -Copt-level=2 --out-dir=out", "out/liba_b.rlib out/liba_b.a out/a_b.o "},
    {"rustc a.rs --emit=obj=x.o,link=y,dep-info -o z", "x.o y z "},
    {"sccache rustc a.rs --codegen extra-filename=2", "liba2.rlib liba2.a a2.o "},
    {"rustc -vV", ""},
    {"rustc - --crate-type rlib --print=file-names", ""},
    /* In response files. */
    {"clang -c @first a.c", "my b.o "},
    {"clang -c @nested", "d.o e.o "},
    {"clang -c @missing", "@missing.o "},
    {"clang-cl /c @windows", ""},
    {"clang --rsp-quoting=windows -c @windows", "b\\c.o "},
    {"rustc @lines", "liba b.rlib liba b.a a b.o "},
};

static void read_words(const char *text, struct path_list *outputs)
{
    const char *words[32];
    size_t count = 0;
    char *copy = strdup(text), *rest = copy;
    struct error error = {0};

    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        words[count++] = word;
    ck_assert_msg(compiler_outputs_read(outputs, words, count, &error), "%s", error.message);
    free(copy);
}

START_TEST(test_rows)
{
    FREED_BY(path_list_free) struct path_list outputs = {0};
    char found[512] = "";

    read_words(rows[_i].words, &outputs);
    for (size_t i = 0; i < outputs.count; i++) {
        strcat(found, outputs.paths[i]);
        strcat(found, " ");
    }
    ck_assert_msg(strcmp(found, rows[_i].outputs) == 0, "%s: %snot %s", rows[_i].words, found,
                  rows[_i].outputs);
}
END_TEST

/* What is wrong with a response file is known before the compiler runs. */
START_TEST(test_bad_response)
{
    const char *words[] = {"clang", "-c", "@itself"};
    FREED_BY(path_list_free) struct path_list outputs = {0};
    struct error error = {0};

    ck_assert(!compiler_outputs_read(&outputs, words, 3, &error));
    ck_assert_msg(strstr(error.message, "name each other") != NULL, "%s", error.message);
}
END_TEST

static bool write_text(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");

    return file != NULL && fputs(text, file) >= 0 && fclose(file) == 0;
}

int main(void)
{
    if (mkdtemp(directory) == NULL || chdir(directory) != 0 ||
        !write_text("first", "-o 'my b.o'\n-DX=\"a b\"") || !write_text("nested", "d.c @second") ||
        !write_text("second", "e.c\n") || !write_text("itself", "@itself") ||
        !write_text("windows", "\"b\\c.c\"") || !write_text("lines", "--crate-name\na b\nx.rs\n"))
        return EXIT_FAILURE;
    TCase *test_case = tcase_create("compiler outputs");
    suite_loops(test_case, sizeof(rows) / sizeof(rows[0]), test_rows);
    tcase_add_test(test_case, test_bad_response);
    int status = suite_main("compiler outputs", test_case);
    (void)!system("rm -f first nested second itself windows lines");
    rmdir(directory);
    return status;
}
