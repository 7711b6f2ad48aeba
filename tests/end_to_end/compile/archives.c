/*
 * covsplit pack of archives, by every writer of them: the packed archive is, byte for byte, the one
 * that the same writer makes of packed objects. So whatever reads those reads ours. And of what
 * that cannot show: thin archives whose objects were packed before, archives of 4 GiB, memory, and
 * what linkers make of packed archives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/covsplit_tool.h"
#include "tests/support/program.h"

#define TEST_TIMEOUT_SECONDS 600

/* One has a name that does not fit a header, and one has nothing to pack. */
#define OBJECTS "unit0.o unit1.o a-unit-with-a-long-name.o plain.o"

static char *scratch;
static char *ordinary, *packed; /* directories with the same objects, in both forms */

/* The words of a text, run in the directory. */
static const char *run_words(const char *directory, const char *words)
{
    struct command command = command_words(directory, "%s", words);

    return command_run_or_abort(&command);
}

static const char *shell(const char *directory, const char *script)
{
    return run_or_abort(directory, "sh", "-ec", script, NULL);
}

static void compile(const char *target, const char *source, const char *object)
{
    const char *options = strncmp(object, "plain", 5) == 0 ? "-O1" : INSTRUMENT_COVERAGE;

    run_words(ordinary,
              text_format("clang++-19 %s %s -c %s -o %s", target, options, source, object));
}

/* All objects have the same time, so that archives with times in them can be compared. */
static void prepare_for(const char *target, const char *suffix, const char *objects)
{
    scratch = scratch_create("archives");
    ordinary = path_join(scratch, "ordinary");
    packed = path_join(scratch, "packed");
    directory_create(ordinary);
    many_units_write(ordinary);
    compile(target, "unit0.cc", text_format("unit0.%s", suffix));
    compile(target, "unit1.cc", text_format("unit1.%s", suffix));
    compile(target, "unit2.cc", text_format("a-unit-with-a-long-name.%s", suffix));
    compile(target, "unit3.cc", text_format("plain.%s", suffix));
    compile(target, "main.cc", text_format("main.%s", suffix));
    shell(ordinary, "touch -d @1000000000 *");
    run_words(scratch, "cp -a ordinary packed");
    covsplit_run_words(packed, 0, text_format("pack %s", objects));
    shell(packed, text_format("for object in unit0 unit1 a-unit-with-a-long-name; do\n"
                              "  test $(stat -c %%s $object.%s) -lt "
                              "$(stat -c %%s ../ordinary/$object.%s)\n"
                              "done",
                              suffix, suffix));
}

static void prepare(void)
{
    prepare_for("", "o", OBJECTS);
}

static void prepare_links(void)
{
    prepare();
    for (int i = 0; i < MANY_UNITS; i++)
        compile("", text_format("unit%d.cc", i), text_format("part%d.o", i));
}

/* A copy of both directories, for one test. */
static char *place_create(void)
{
    char *place = text_format("%s/place-XXXXXX", scratch);

    ck_assert_ptr_nonnull(mkdtemp(place));
    run_words(place, text_format("cp -a %s %s .", ordinary, packed));
    return place;
}

/* ---- writers ---- */

#define INDEX_DATE_OFFSET 24
#define INDEX_DATE_SIZE   12

static const struct writer {
    const char *name, *words;
} writers[] = {
    {"ar", "ar rcs lib.a " OBJECTS},
    {"ar with times", "ar rcU lib.a " OBJECTS},
    {"ar without an index", "ar rcS lib.a " OBJECTS},
    {"llvm-ar 14", "llvm-ar-14 rcs lib.a " OBJECTS},
    {"llvm-ar 16", "llvm-ar-16 rcs lib.a " OBJECTS},
    {"llvm-ar 22", "llvm-ar-22 rcs lib.a " OBJECTS},
    {"llvm-ar 22, 64 bits", "env SYM64_THRESHOLD=1 llvm-ar-22 rcs lib.a " OBJECTS},
    {"an archive in it", "sh -c 'ar rcs inner.a unit0.o;ar rcs lib.a inner.a unit1.o'"},
};
#define WRITER_COUNT (sizeof writers / sizeof *writers)

/* The date of the index is when it was written. */
static void assert_same_archive(const char *place, const char *label)
{
    char *paths[] = {path_join(place, "ordinary/lib.a"), path_join(place, "packed/lib.a")};

    for (unsigned i = 0; i < 2; i++) {
        struct contents archive = file_read(paths[i]);

        memset(archive.data + INDEX_DATE_OFFSET, ' ', INDEX_DATE_SIZE);
        paths[i] = text_format("%s.compared", paths[i]);
        file_write(paths[i], archive.data, archive.size);
        contents_free(&archive);
    }
    files_assert_equal(paths[0], paths[1], label);
}

static void write_archive(const char *directory, const struct writer *writer)
{
    struct command command = {.directory = directory};

    text_list_add_words(&command.arguments, "sh -ec");
    text_list_add(&command.arguments, writer->words);
    command_expect(&command, 0);
    command_free(&command);
}

static void check_writer(const struct writer *writer)
{
    char *place = place_create();
    char *archive = path_join(place, "ordinary/lib.a");
    uint64_t before;
    struct outcome outcome;

    write_archive(path_join(place, "ordinary"), writer);
    /* The inner archive passes unchanged. */
    if (strstr(writer->words, "inner") != NULL)
        file_copy(path_join(ordinary, "unit0.o"), path_join(place, "packed/unit0.o"));
    write_archive(path_join(place, "packed"), writer);
    before = file_size(archive);
    outcome = covsplit_run_words(place, 0, "pack -j2 -v ordinary/lib.a");
    ck_assert_str_eq(outcome.errors, "");
    assert_contains(outcome.output, "packed: ");
    assert_same_archive(place, writer->name);
    ck_assert_uint_lt(file_size(archive), before);
    outcome = covsplit_run_words(place, 0, "pack -v ordinary/lib.a");
    ck_assert_str_eq(outcome.output, "ordinary/lib.a: nothing to pack\n");
}

START_TEST(test_writers)
{
    check_writer(&writers[_i]);
}
END_TEST

static const char *const foreign_writers[] = {
    "llvm-ar-14 --format=bsd rcs lib.a " OBJECTS,
    "llvm-ar-22 --format=darwin rcs lib.a " OBJECTS,
    "env SYM64_THRESHOLD=1 llvm-ar-22 --format=darwin rcs lib.a " OBJECTS,
};

/* Archives of BSD and Darwin form stay as they are. */
START_TEST(test_foreign)
{
    char *place = path_join(place_create(), "ordinary");
    struct outcome outcome;

    run_words(place, foreign_writers[_i]);
    run_words(place, "cp -p lib.a before.a");
    outcome = covsplit_run_words(place, 0, "pack lib.a");
    assert_contains(outcome.errors, "the archive has a special member that covsplit does not know");
    files_assert_equal(path_join(place, "lib.a"), path_join(place, "before.a"),
                       foreign_writers[_i]);
}
END_TEST

/* What ar, nm and ranlib see in a packed archive. */
START_TEST(test_readers)
{
    char *place = place_create();

    run_words(place, "ar rcs ordinary/lib.a ordinary/unit0.o ordinary/unit1.o ordinary/plain.o");
    covsplit_run_words(place, 0, "pack ordinary/lib.a");
    shell(place, "cp ordinary/lib.a again.a\n"
                 "ranlib -D again.a\n"
                 "cmp again.a ordinary/lib.a\n"
                 "test \"$(ar t ordinary/lib.a | tr '\\n' ' ')\" = 'unit0.o unit1.o plain.o '\n"
                 "mkdir members && cd members && ar x ../ordinary/lib.a\n"
                 "for object in *.o; do cmp $object ../packed/$object; done\n"
                 "ar p ../ordinary/lib.a unit1.o | cmp - ../packed/unit1.o\n"
                 "nm -s ../ordinary/lib.a >../index\n"
                 "! grep __covrec ../index\n"
                 "grep '^_Z5unit1i in unit1.o$' ../index");
}
END_TEST

/* ---- thin archives ---- */

static const struct writer thin_writers[] = {
    {"ar", "ar rcsT lib.a " OBJECTS},
    {"ar without an index", "ar rcST lib.a " OBJECTS},
    {"ar, twice", "ar rcsT lib.a unit0.o unit1.o && ar qsT lib.a unit0.o"},
    {"ar, beside", "mkdir sub && mv unit0.o sub && ar rcsT lib.a sub/unit0.o ../shared/unit1.o"},
    {"llvm-ar 14", "llvm-ar-14 rcsT lib.a " OBJECTS},
    {"llvm-ar 22", "llvm-ar-22 rcs --thin lib.a " OBJECTS},
    {"llvm-ar 22, beside", "mkdir sub && mv unit0.o sub && "
                           "llvm-ar-22 rcs --thin lib.a sub/unit0.o ../shared/unit1.o"},
};
#define THIN_COUNT (sizeof thin_writers / sizeof *thin_writers)

START_TEST(test_thin)
{
    const struct writer *writer = &thin_writers[_i];
    char *place = place_create();

    /* The object that is in neither directory has the form of each in turn. */
    shell(place, "mkdir shared && cp -a ordinary/unit1.o shared");
    write_archive(path_join(place, "ordinary"), writer);
    shell(place, "cp -a packed/unit1.o shared");
    write_archive(path_join(place, "packed"), writer);
    shell(place, "cp -a ordinary/unit1.o shared");
    covsplit_run_words(place, 0, "pack -j4 ordinary/lib.a");
    files_assert_equal(path_join(place, "ordinary/lib.a"), path_join(place, "packed/lib.a"),
                       writer->name);
    shell(place, "cd ordinary\n"
                 "for object in $(ar t lib.a); do cmp $object ../packed/$object; done\n"
                 "! ar t lib.a | grep shared || cmp ../shared/unit1.o ../packed/unit1.o");
}
END_TEST

/* The objects were packed already, and one by another name: only the archive is left to do. */
START_TEST(test_thin_is_late)
{
    char *place = place_create();
    struct outcome outcome;

    run_words(path_join(place, "ordinary"), "ar rcsT lib.a " OBJECTS);
    run_words(path_join(place, "packed"), "ar rcsT lib.a " OBJECTS);
    covsplit_run_words(path_join(place, "ordinary"), 0, "pack " OBJECTS);
    covsplit_run_words(place, 0, "pack ordinary/lib.a");
    files_assert_equal(path_join(place, "ordinary/lib.a"), path_join(place, "packed/lib.a"),
                       "late");
    outcome = covsplit_run_words(place, 1, "pack -o out.a ordinary/lib.a");
    ck_assert_str_eq(outcome.errors, "covsplit: error: ordinary/lib.a: a thin archive, whose "
                                     "objects are packed in place; leave out '-o'\n");
    run_words(place, "rm ordinary/unit1.o");
    outcome = covsplit_run_words(place, 1, "pack ordinary/lib.a");
    assert_contains(outcome.errors, "ordinary/unit1.o: ");
}
END_TEST

/* The objects are in another archive, which a thin one only points into: they stay. */
START_TEST(test_thin_of_archive)
{
    char *place = place_create();

    shell(path_join(place, "ordinary"), "ar rcs inner.a unit0.o unit1.o && ar rcsT lib.a inner.a\n"
                                        "cp lib.a before.a && cp inner.a inner-before.a");
    covsplit_run_words(place, 0, "pack ordinary/lib.a");
    shell(path_join(place, "ordinary"), "cmp lib.a before.a && cmp inner.a inner-before.a");
}
END_TEST

/* ---- linking ---- */

static const char *const linkers[] = {"bfd", "gold", "lld", "mold"};
#define LINKER_COUNT (sizeof linkers / sizeof *linkers)

/* An image linked from packed archives of all kinds is the one linked from packed objects. The
 * order of gold's dynamic symbols depends on how many names it has seen, so only the mapping is
 * compared. */
START_TEST(test_linking)
{
    char *place = place_create();
    const char *linker = linkers[_i];
    const char *script =
        "cp -a ordinary/part*.o .\n"
        "ar rcs plain.a part*.o; ar rcsT thin.a part*.o\n"
        "$COVSPLIT pack plain.a thin.a packed/main.o\n"
        "$CC -o objects packed/main.o part*.o && ./objects\n"
        "mapping() { llvm-objcopy-19 --dump-section __llvm_covmap=$2 $1 /dev/null; }\n"
        "mapping objects objects.covmap\n"
        "for lib in plain.a thin.a; do\n"
        "  $CC -o whole packed/main.o -Wl,--whole-archive $lib -Wl,--no-whole-archive\n"
        "  mapping whole whole.covmap && cmp whole.covmap objects.covmap\n"
        "  test $LINKER = gold || cmp whole objects\n"
        "  $CC -o searched packed/main.o $lib && ./searched\n"
        "done";

    shell(place, text_format("LINKER=%s COVSPLIT=%s\n"
                             "CC=\"clang++-19 " INSTRUMENT_COVERAGE
                             " -fuse-ld=$LINKER -Wl,--build-id=sha1\"\n%s",
                             linker, covsplit_path(), script));
}
END_TEST

/* ---- Rust ---- */

/* The metadata in an rlib stay where rustc finds them. rustc is not on all machines. */
START_TEST(test_rlib)
{
    char *place = place_create();
    struct command rustc = command_words(place, "rustc --version");
    struct outcome outcome = command_run(&rustc);

    if (!outcome_exited(&outcome, 0))
        return;
    file_write_text(path_join(place, "lib.rs"),
                    "pub fn twice<T: std::ops::Add<Output = T> + Copy>(x: T) -> T { x + x }\n"
                    "pub fn name(x: u32) -> String { if x > 1 { format!(\"n{}\", x) } else "
                    "{ String::new() } }\n");
    file_write_text(path_join(place, "main.rs"),
                    "extern crate part;\n"
                    "fn main() { println!(\"{} {}\", part::twice(4), part::name(2)); }\n");
    shell(place,
          text_format("rustc -C instrument-coverage --crate-type rlib --crate-name part lib.rs\n"
                      "cp libpart.rlib before.rlib\n"
                      "%s pack -v libpart.rlib | grep ' packed: '\n"
                      "ar p before.rlib lib.rmeta >a; ar p libpart.rlib lib.rmeta >b; cmp a b\n"
                      "rustc -C instrument-coverage --extern part=libpart.rlib main.rs\n"
                      "export LLVM_PROFILE_FILE=x.profraw\n"
                      "test \"$(./main)\" = '8 n2'",
                      covsplit_path()));
}
END_TEST

/* ---- sizes ---- */

#define LARGE_COPIES 60
#define LARGE_PEAK   30 /* MiB */

/* Memory does not grow with the archive. */
START_TEST(test_memory)
{
    char *place = place_create();
    struct command command = covsplit_words(place, "pack -j1 large.a");
    struct outcome outcome;

    shell(place, text_format("head -c 1000000 /dev/urandom >noise\n"
                             "printf '.data\\n.incbin \"noise\"\\n' | as -o noise.o -\n"
                             "ld -r -o big.o noise.o ordinary/unit0.o\n"
                             "for i in $(seq %d); do echo big.o; done | xargs ar qcs large.a",
                             LARGE_COPIES));
    ck_assert_uint_gt(file_size(path_join(place, "large.a")), 55u << 20);
    outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    if (!covsplit_is_sanitized())
        ck_assert_int_lt(outcome.peak_resident_kib, LARGE_PEAK * 1024);
    shell(place, "nm -s large.a >index; ! grep -q __covrec index; grep -q unit0 index");
}
END_TEST

/* The index of such an archive has offsets of 64 bits. Most of it is a hole. */
START_TEST(test_4_gibibytes)
{
    static const char script[] =
        "import subprocess, sys\n"
        "small = open('small.a', 'rb').read()\n"
        "hole, shift = 4 << 30, (4 << 30) + 60\n"
        "size = int(small[8 + 48:8 + 58])\n"
        "index, rest = small[68:68 + size], small[68 + size:]\n"
        "count = int.from_bytes(index[:8], 'big')\n"
        "moved = [int.from_bytes(index[8 * i:8 * i + 8], 'big') + shift for i in range(1, 1 + "
        "count)]\n"
        "index = index[:8] + b''.join(o.to_bytes(8, 'big') for o in moved) + index[8 + 8 * "
        "count:]\n"
        "names = int(rest[48:58]) + 60\n"
        "with open('large.a', 'wb') as out:\n"
        "    out.write(small[:68] + index + rest[:names])\n"
        "    out.write(b'hole/'.ljust(16) + b'0'.ljust(12) + b'0'.ljust(6) * 2 + b'644'.ljust(8)\n"
        "              + str(hole).encode().ljust(10) + b'`\\n')\n"
        "    out.seek(hole, 1)\n"
        "    out.write(rest[names:])\n";
    char *place = place_create();
    struct command command = covsplit_words(place, "pack large.a");
    struct outcome outcome;

    shell(place, "cd ordinary && SYM64_THRESHOLD=1 llvm-ar-22 rcs ../small.a " OBJECTS);
    run_or_abort(place, "python3", "-c", script, NULL);
    ck_assert_uint_gt(file_size(path_join(place, "large.a")), 4ul << 30);
    outcome = command_run(&command);
    ck_assert_msg(outcome_exited(&outcome, 0), "%s", outcome.errors);
    if (!covsplit_is_sanitized())
        ck_assert_int_lt(outcome.peak_resident_kib, LARGE_PEAK * 1024);
    /* Still a hole on the disk. */
    shell(place, "test $(du -m large.a | cut -f1) -lt 10\n"
                 "ar p large.a unit1.o | cmp - packed/unit1.o\n"
                 "nm -s large.a 2>/dev/null >index; grep '^_Z5unit1i in unit1.o$' index\n"
                 "! grep __covrec index");
}
END_TEST

int main(void)
{
    TCase *forms = suite_case("forms", TEST_TIMEOUT_SECONDS, prepare);
    TCase *links = suite_case("links", TEST_TIMEOUT_SECONDS, prepare_links);
    TCase *sizes = suite_case("sizes", TEST_TIMEOUT_SECONDS, prepare);

    suite_loops(forms, WRITER_COUNT, test_writers);
    suite_loops(forms, sizeof foreign_writers / sizeof *foreign_writers, test_foreign);
    suite_loops(forms, THIN_COUNT, test_thin);
    suite_tests(forms, test_readers, test_thin_is_late, test_thin_of_archive, test_rlib);
    suite_loops(links, LINKER_COUNT, test_linking);
    suite_tests(sizes, test_memory);
    if (rounds_are_all()) /* many pages, although nearly all of them are in a hole */
        suite_tests(sizes, test_4_gibibytes);
    return suite_main("archives", forms, links, sizes);
}
