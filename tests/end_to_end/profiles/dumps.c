/*
 * Plain copies of counters: `correlate --counters` makes of them, byte for byte, what it makes of
 * the program's own lightweight profile; `show --map` says where they are, in commands that gdb
 * takes as they are printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"
#include "tests/support/raw_profile.h"

#define FUNCTIONS 12

static char *scratch;

struct row {
    const char *name;
    const char *machine; /* NULL: this one */
    const char *clang;
    const char *linker;
    const char *options;
    const char *link_options;
    enum link_kind kind;
    const char *split_options;
};

#define MCDC  "-fcoverage-mcdc"
#define BYTES "-mllvm -enable-single-byte-coverage=true"
/* Names and data are for -profile-correlate=binary. */
#define BINARY "-mllvm -profile-correlate=binary"

static const struct row rows[] = {
    {"14", NULL, "14", "bfd", NULL, NULL, LINK_NO_PIE, NULL},
    {"16", NULL, "16", "lld", NULL, NULL, LINK_NO_PIE, NULL},
    {"19-mcdc", NULL, "19", "bfd", MCDC, NULL, LINK_NO_PIE, NULL},
    {"22-mcdc", NULL, "22", "lld", MCDC, NULL, LINK_NO_PIE, NULL},
    {"19-bytes", NULL, "19", "lld", BYTES, NULL, LINK_NO_PIE, NULL},
    {"22-bytes", NULL, "22", "bfd", BYTES, NULL, LINK_NO_PIE, NULL},
    {"19-no-id", NULL, "19", "bfd", NULL, "-Wl,--build-id=none", LINK_NO_PIE, NULL},
    {"19-binary", NULL, "19", "lld", BINARY, NULL, LINK_NO_PIE, NULL},
    {"19-uuid", NULL, "19", "bfd", NULL, "-Wl,--build-id=none", LINK_NO_PIE,
     "--uuid 00112233445566778899"},
    {"22-pie", NULL, "22", "lld", MCDC, NULL, LINK_PIE, NULL},
    {"arm", "arm", "19", "bfd", NULL, NULL, LINK_NO_PIE, NULL},
    {"s390x", "s390x", "19", "bfd", MCDC, NULL, LINK_NO_PIE, NULL},
};
#define ROWS (sizeof rows / sizeof *rows)

static void prepare(void)
{
    scratch = scratch_create("dumps");
}

static const char *run_in(const char *directory, int exit_code, const char *words)
{
    return covsplit_run_words(directory, exit_code, words).errors;
}

static void write_part(const char *directory, const char *name, struct part part)
{
    file_write(path_join(directory, name), part.data, (size_t)part.size);
}

static void read_profile(const char *directory, const char *name, struct raw_profile *profile)
{
    struct verdict verdict = {0};
    raw_profile_read(path_join(directory, name), profile, &verdict);
    verdict_assert(&verdict, name);
}

/* Builds, splits and runs the program of a row; in its directory are `side`, light.profraw, and the
 * copies counters.bin and, if it has a bitmap, bitmap.bin. */
static char *make_row(const struct row *row, bool *has_bitmap)
{
    const struct target *target = row->machine == NULL ? NULL : target_find(row->machine);
    char *directory = path_join(scratch, row->name);
    struct program program = {.clang = row->clang,
                              .linker = row->linker,
                              .target = target,
                              .kind = row->kind,
                              .language = LANGUAGE_C,
                              .optimization = "-O0",
                              .compile_options = row->options,
                              .link_options = row->link_options,
                              .functions = FUNCTIONS};
    struct raw_profile light;
    directory_create(directory);
    program_build(&program, directory);
    run_in(directory, 0,
           text_format("split %s --sidecar side -o split " PROGRAM_NAME,
                       row->split_options == NULL ? "" : row->split_options));
    run_or_abort(directory, "sh", "-c",
                 text_format("LLVM_PROFILE_FILE=light.profraw %s ./split >/dev/null || test $? = 3",
                             target == NULL ? "" : target_emulator(target)),
                 NULL);
    read_profile(directory, "light.profraw", &light);
    write_part(directory, "counters.bin", light.counters);
    *has_bitmap = light.bitmap.size != 0;
    if (*has_bitmap) {
        write_part(directory, "bitmap.bin", light.bitmap);
    }
    raw_profile_free(&light);
    return directory;
}

/* Clears the address of the names in the header, which no reader uses: a copy knows no load
 * address, and the split of an s390x image moves names to an even address. */
static void forget_names_address(const char *path)
{
    struct contents file = file_read(path);
    size_t names_delta = 11 * sizeof(uint64_t) + sizeof(uint64_t); /* raw version 10 */
    memset(file.data + names_delta, 0, sizeof(uint64_t));
    file_write(path, file.data, file.size);
    contents_free(&file);
}

START_TEST(test_row)
{
    const struct row *row = &rows[_i];
    bool has_bitmap;
    char *directory = make_row(row, &has_bitmap);
    const char *bitmap = has_bitmap ? "--bitmap bitmap.bin" : "";
    ck_assert_int_eq(has_bitmap, row->options != NULL && strcmp(row->options, MCDC) == 0);
    run_in(directory, 0, "correlate --sidecar side -o own.profraw light.profraw");
    run_in(
        directory, 0,
        text_format("correlate --counters counters.bin %s --sidecar side -o dump.profraw", bitmap));
    if (row->kind == LINK_PIE || strcmp(row->name, "s390x") == 0) {
        forget_names_address(path_join(directory, "own.profraw"));
        forget_names_address(path_join(directory, "dump.profraw"));
    }
    files_assert_equal(path_join(directory, "dump.profraw"), path_join(directory, "own.profraw"),
                       row->name);
}
END_TEST

/* ---- what is wrong with a dump ---- */

static void assert_refused(const char *directory, const char *words, const char *problem)
{
    const char *errors = run_in(directory, 1, text_format("%s -o no.profraw", words));
    assert_contains(errors, "covsplit: error: ");
    assert_contains(errors, problem);
    ck_assert_msg(text_count(errors, "\n") == 1, "'%s'", errors);
    ck_assert(!file_exists(path_join(directory, "no.profraw")));
}

static void write_changed(const char *directory, const char *from, const char *to, int change)
{
    struct contents file = file_read(path_join(directory, from));
    uint8_t *bytes = calloc(file.size + 8, 1);
    memcpy(bytes, file.data, file.size);
    file_write(path_join(directory, to), bytes, (size_t)((long)file.size + change));
    free(bytes);
    contents_free(&file);
}

START_TEST(test_bad)
{
    struct row row = rows[3];
    bool has_bitmap;
    row.name = "bad";
    char *directory = make_row(&row, &has_bitmap);
    uint64_t size = file_size(path_join(directory, "counters.bin"));
    static const int changes[] = {-8, -1, 1, 8};
    run_in(directory, 0, "store add store side");
    for (size_t i = 0; i < 4; i++) {
        write_changed(directory, "counters.bin", "other.bin", changes[i]);
        assert_refused(
            directory, "correlate --counters other.bin --bitmap bitmap.bin --sidecar side",
            text_format("other.bin: has %llu bytes, but the counters section of " PROGRAM_NAME
                        " (side) has %llu",
                        (unsigned long long)size + (unsigned long long)changes[i],
                        (unsigned long long)size));
    }
    file_write(path_join(directory, "empty.bin"), "", 0);
    assert_refused(directory, "correlate --counters empty.bin --bitmap bitmap.bin --sidecar side",
                   "has 0 bytes");
    assert_refused(directory, "correlate --counters counters.bin --sidecar side", "--bitmap");
    assert_refused(directory, "correlate --counters counters.bin --bitmap empty.bin --sidecar side",
                   "the bitmap section");
    assert_refused(directory,
                   "correlate --counters light.profraw --bitmap bitmap.bin --sidecar side",
                   "without --counters");
    assert_refused(directory, "correlate --counters split --bitmap bitmap.bin --sidecar side",
                   "an ELF file");
    file_write_text(path_join(directory, "hex"), ":10010000214601360121470136007EFE09D2190140\n");
    assert_refused(directory, "correlate --counters hex --bitmap bitmap.bin --sidecar side",
                   "Intel HEX");
    assert_refused(directory, "correlate --counters missing --bitmap bitmap.bin --sidecar side",
                   "missing: cannot be read");
    assert_refused(directory, "correlate --counters counters.bin --bitmap bitmap.bin --store store",
                   "--uuid");
    assert_refused(directory,
                   "correlate --counters counters.bin --bitmap bitmap.bin --sidecar side --uuid 00",
                   "has the UUID");
    assert_refused(directory,
                   "correlate --counters counters.bin --bitmap bitmap.bin --store store "
                   "--uuid 0123456789",
                   "0123456789");
    assert_contains(run_in(directory, 2, "correlate --counters a -o out light.profraw"),
                    "exclude each other");
    assert_contains(run_in(directory, 2, "correlate --bitmap a -o out light.profraw"),
                    "for '--counters'");
    assert_contains(run_in(directory, 2, "correlate --counters - --bitmap - -o out"),
                    "cannot both be");
    assert_contains(run_in(directory, 2, "correlate -o out"), "PROFILE is missing");
}
END_TEST

/* Memory of that size which is not counters, and counters in the other byte order. */
START_TEST(test_other_memory)
{
    struct row row = rows[_i == 0 ? 0 : 4]; /* words, and bytes */
    bool has_bitmap;
    row.name = text_format("other-%s", row.name);
    char *directory = make_row(&row, &has_bitmap);
    const char *words = text_format("correlate --counters other.bin %s --sidecar side",
                                    has_bitmap ? "--bitmap bitmap.bin" : "");
    struct contents counters = file_read(path_join(directory, "counters.bin"));
    bool are_bytes = row.options != NULL && strcmp(row.options, BYTES) == 0;
    for (size_t i = 0; !are_bytes && i + 8 <= counters.size; i += 8) {
        for (size_t j = 0; j < 4; j++) {
            uint8_t byte = counters.data[i + j];
            counters.data[i + j] = counters.data[i + 7 - j];
            counters.data[i + 7 - j] = byte;
        }
    }
    if (!are_bytes) {
        file_write(path_join(directory, "other.bin"), counters.data, counters.size);
        assert_refused(directory, words, "other.bin: its counters are ");
    }
    contents_free(&counters);
    counters = file_read(path_join(directory, "counters.bin"));
    counters.data[counters.size - 1] = counters.data[counters.size - 8] = 0x7f;
    file_write(path_join(directory, "other.bin"), counters.data, counters.size);
    assert_refused(directory, words,
                   text_format("other.bin: the value at byte %zu cannot be a counter",
                               (size_t)counters.size - 8));
    contents_free(&counters);
}
END_TEST

/* Where the records stayed in the image, the sidecar does not have them. */
START_TEST(test_records_in_image)
{
    struct row row = rows[0];
    bool has_bitmap;
    row.name = "mapping";
    row.split_options = "--sections covmap,covfun";
    char *directory = make_row(&row, &has_bitmap);
    assert_refused(directory, "correlate --counters counters.bin --sidecar side",
                   "stayed in the image");
}
END_TEST

/* The images in the store whose counters have the size of the dump are named. */
START_TEST(test_fitting)
{
    struct row first = rows[0], second = rows[1];
    bool has_bitmap;
    first.name = "first";
    second.name = "second";
    char *directory = make_row(&first, &has_bitmap), *other = make_row(&second, &has_bitmap);
    file_write_text(path_join(other, "small.c"), "int main(void) { return 0; }\n");
    run_or_abort(other, "clang-16", "-fprofile-instr-generate", "-fcoverage-mapping",
                 "-Wl,--build-id=0x0011223344556677", "small.c", "-o", "small", NULL);
    run_in(other, 0, "split --store ../fitting -o small.split small");
    run_in(directory, 0, "store add ../fitting side");
    assert_refused(directory,
                   "correlate --counters counters.bin --store ../fitting --uuid 0011223344",
                   "give the --uuid of an image that fits: " PROGRAM_NAME " ");
}
END_TEST

/* A pipe, from which a dump comes as well; and counters that never counted. */
START_TEST(test_stream)
{
    struct row row = rows[3];
    bool has_bitmap;
    row.name = "stream";
    char *directory = make_row(&row, &has_bitmap);
    struct command command = command_words(directory, "bash -c");
    text_list_add(&command.arguments,
                  text_format("%1$s correlate --counters counters.bin --bitmap bitmap.bin "
                              "--sidecar side -o file.profraw\n"
                              "cat counters.bin | %1$s correlate --counters - --bitmap "
                              "<(cat bitmap.bin) --sidecar side -o stream.profraw\n"
                              "! %1$s correlate --counters - --bitmap bitmap.bin --sidecar side "
                              "-o no.profraw </dev/zero 2>/dev/null && ! test -e no.profraw",
                              covsplit_path()));
    command_run_or_abort(&command);
    files_assert_equal(path_join(directory, "file.profraw"), path_join(directory, "stream.profraw"),
                       "stream");
    struct contents zeros = file_read(path_join(directory, "counters.bin"));
    memset(zeros.data, 0, zeros.size);
    file_write(path_join(directory, "zeros"), zeros.data, zeros.size);
    assert_contains(run_in(directory, 0,
                           "correlate --counters zeros --bitmap bitmap.bin --sidecar side -o "
                           "zeros.profraw"),
                    "warning: zeros: ");
    contents_free(&zeros);
}
END_TEST

/* ---- gdb ---- */

/* The lines of `show --map` with this label, without it. */
static char *labelled(const char *shown, const char *label)
{
    struct text_list lines = text_list_of_lines(shown);
    char *found = text_format("%s", "");
    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.items[i] + strspn(lines.items[i], " ");
        if (strncmp(line, label, strlen(label)) == 0) {
            line += strlen(label);
            found = text_format("%s%s\n", found, line + strspn(line, " "));
        }
    }
    return found;
}

/* What gdb's `info proc mappings` gives first for the file, as a user would read it. */
static char *find_load_address(const char *directory, const char *name)
{
    const char *mappings =
        run_or_abort(directory, "sh", "-c",
                     "gdb -q -batch -ex 'break finished' -ex run -ex 'info proc mappings' "
                     "-ex kill ./app 2>&1",
                     NULL);
    struct text_list lines = text_list_of_lines(mappings);
    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.items[i] + strspn(lines.items[i], " ");
        size_t length = strlen(line), end = strlen(name);
        if (strncmp(line, "0x", 2) == 0 && length > end && strcmp(line + length - end, name) == 0) {
            return text_format("%.*s", (int)strcspn(line, " "), line);
        }
    }
    ck_abort_msg("%s is not mapped: %s", name, mappings);
    return NULL;
}

/* The image whose counters are copied, and how everything is linked. */
static const struct {
    const char *name;
    const char *image; /* "app" or "lib.so" */
    const char *options;
} stops[] = {{"gdb-fixed", "app", "-no-pie"},
             {"gdb-pie", "app", "-pie -fPIE"},
             {"gdb-library", "lib.so", "-pie -fPIE"},
             {"gdb-based", "app", "-pie -fPIE -fuse-ld=lld -Wl,--image-base=0x10000000"}};

/* The program stops at `finished`, when it has counted everything else in both images. */
START_TEST(test_gdb)
{
    char *directory = path_join(scratch, stops[_i].name);
    const char *image = stops[_i].image;
    directory_create(directory);
    file_write_text(path_join(directory, "lib.c"),
                    "int more(int a, int b) { return a > 0 && b > 0 ? a : b; }\n");
    file_write_text(path_join(directory, "app.c"),
                    "int more(int, int);\n"
                    "__attribute__((no_profile_instrument_function, noinline))\n"
                    "void finished(void) { __asm__ volatile(\"\"); }\n"
                    "int main(int count, char **words) { int sum = 0; (void)words;\n"
                    "    for (int i = 0; i < 7; i++) sum += more(i, count - 3);\n"
                    "    finished(); return sum == 0; }\n");
    run_or_abort(directory, "sh", "-ec",
                 text_format("flags='-fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc'\n"
                             "clang-19 $flags -fPIC -shared lib.c -o lib.so\n"
                             "clang-19 $flags %1$s app.c ./lib.so -o app\n"
                             "%2$s split --sidecar app.side app; %2$s split --sidecar lib.so.side "
                             "lib.so\n"
                             "LLVM_PROFILE_FILE=%%m.profraw ./app || true\n"
                             "ln -s %3$s.side \"the app's side\"; ln -s %3$s.side side\n",
                             stops[_i].options, covsplit_path(), image),
                 NULL);
    char *shown = covsplit_run(directory, "show", "--map", "the app's side", NULL).output;
    char *commands = labelled(shown, "in gdb");
    if (strcmp(stops[_i].options, "-no-pie") != 0) {
        const char *linked = strstr(stops[_i].options, "base=");
        commands = text_replace(commands, "LOAD",
                                text_format("%s-%s", find_load_address(directory, image),
                                            linked == NULL ? "0" : linked + strlen("base=")));
    }
    file_write_text(path_join(directory, "commands"),
                    text_format("break finished\nrun\n%skill\n", commands));
    run_or_abort(directory, "sh", "-c", "gdb -q -batch -x commands ./app >gdb.log 2>&1", NULL);
    const char *then =
        text_replace(labelled(shown, "then"), "covsplit ", text_format("%s ", covsplit_path()));
    run_or_abort(directory, "sh", "-c", then, NULL);
    /* The last thing that main counts is counted before `finished`. */
    run_or_abort(directory, "sh", "-c",
                 text_format("for profile in *_0.profraw; do\n"
                             "    %s merge --sidecar side --format profdata -o own.profdata "
                             "--llvm-profdata llvm-profdata-19 $profile 2>/dev/null && break\n"
                             "done; llvm-profdata-19 merge OUT.profraw -o dump.profdata && "
                             "cmp own.profdata dump.profdata",
                             covsplit_path()),
                 NULL);
}
END_TEST

/* Only a sidecar says where they are. */
START_TEST(test_map)
{
    struct row row = rows[3];
    bool has_bitmap;
    row.name = "map";
    char *directory = make_row(&row, &has_bitmap);
    assert_contains(covsplit_run_words(directory, 0, "show --map --json side").output,
                    "\"counters_size\": ");
    assert_contains(run_in(directory, 1, "show --map light.profraw"), "light.profraw: ");
    assert_contains(run_in(directory, 1, "show --map split"), "split: not a sidecar");
    assert_contains(run_in(directory, 2, "show --store store side"), "'--store' is for states");
}
END_TEST

int main(void)
{
    TCase *all = suite_case("all", 240, prepare);
    suite_loops(all, ROWS, test_row);
    suite_loops(all, 2, test_other_memory);
    suite_loops(all, sizeof stops / sizeof *stops, test_gdb);
    suite_tests(all, test_bad, test_records_in_image, test_fitting, test_stream, test_map);
    return suite_main("dumps", all);
}
